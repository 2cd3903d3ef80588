"""The command line on object storage: creating, asking, looking after, and every way that can go wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import s3server
from skins.runs import MODELS, Product, Run, fill, onto, program, shop

from ontologia import OntologiaConfig, Ontology
from ontologia.cli import exits
from ontologia.cli.commands.bucket import _promise
from ontologia.objects.probe import Check

READING: dict[str, list[str]] = {
    "info": ["info"],
    "verify": ["verify"],
    "query entities": ["query", "entities", "Customer"],
    "query relations": ["query", "relations", "Subscription", "--filter", "left.$.tier", "eq", '"Gold"'],
    "query traverse": ["query", "traverse", "Customer", "--via", "Subscription"],
    "commits": ["commits"],
    "commits examine": ["commits", "examine", "1"],
    "diff": ["diff", "1", "3"],
    "blame": ["blame", "Customer", "c1"],
    "schema export": ["schema", "export"],
    "schema history": ["schema", "history"],
    "schema drop": ["schema", "drop", "relation", "Subscription"],
    "export": ["export", "--output", "out"],
    "compact": ["compact"],
    "index verify": ["index", "verify"],
    "index repair": ["index", "repair"],
    "schema repair": ["schema", "repair"],
    "gc": ["gc"],
    "doctor": ["doctor"],
    "init": ["init", "--dry-run"],
}
"""Commands that succeed on the shop and change nothing in it."""


@dataclass(frozen=True)
class Bucket:
    """A prefix on the test server, seen by `onto` and, without our own code, by boto3."""

    uri: str
    config: OntologiaConfig

    @property
    def env(self) -> dict[str, str]:
        settings = {name: getattr(self.config, name) for name in ("s3_endpoint_url", "s3_region", "s3_cache_dir")}
        return {f"ONTOLOGIA_{name.upper()}": str(value) for name, value in settings.items()}

    def onto(self, *arguments: object, env: Mapping[str, str] | None = None) -> Run:
        return onto(*arguments, "--storage-uri", self.uri, env={**self.env, **(env or {})})

    @property
    def _place(self) -> tuple[str, str]:
        name, _, prefix = self.uri.removeprefix("s3://").partition("/")
        return name, prefix

    def tags(self) -> dict[str, str]:
        """Every object under the prefix, with its tag."""
        name, prefix = self._place
        with _client(self) as server:
            pages = server.get_paginator("list_objects_v2").paginate(Bucket=name, Prefix=f"{prefix}/")
            return {
                one["Key"].removeprefix(f"{prefix}/"): one["ETag"] for page in pages for one in page.get("Contents", ())
            }

    def read(self, key: str) -> Any:
        name, prefix = self._place
        with _client(self) as server:
            return json.loads(server.get_object(Bucket=name, Key=f"{prefix}/{key}")["Body"].read())

    def write(self, key: str, value: Any) -> None:
        name, prefix = self._place
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        with _client(self) as server:
            server.put_object(Bucket=name, Key=f"{prefix}/{key}", Body=body)

    def delete(self, key: str) -> None:
        name, prefix = self._place
        with _client(self) as server:
            server.delete_object(Bucket=name, Key=f"{prefix}/{key}")


class _client:  # noqa: N801 - reads as a function
    """A boto3 client that is closed."""

    def __init__(self, bucket: Bucket) -> None:
        self._client = s3server.client(str(bucket.config.s3_endpoint_url))

    def __enter__(self) -> Any:
        return self._client

    def __exit__(self, *_: object) -> None:
        self._client.close()


@pytest.fixture
def bucket(s3_uri: str, s3_config: OntologiaConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A prefix without a store."""
    monkeypatch.chdir(tmp_path)
    return Bucket(s3_uri, s3_config)


@pytest.fixture
def store(bucket: Bucket) -> Bucket:
    """The shop of `runs`, in a bucket."""
    assert bucket.onto("init").code == 0
    fill(bucket.config, storage_uri=bucket.uri)
    return bucket


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    """What has been made for tests that change nothing."""
    return {}


@pytest.fixture
def shared(bucket: Bucket, made: dict[str, str]) -> Bucket:
    """The shop in a bucket, for reading only: one for all tests of this module."""
    if not made:
        assert bucket.onto("init").code == 0
        fill(bucket.config, storage_uri=bucket.uri)
        made["uri"] = bucket.uri
    return Bucket(made["uri"], bucket.config)


# Creating


def test_a_dry_run_of_init_shows_the_objects_and_writes_none(bucket: Bucket) -> None:
    run = bucket.onto("init", "--dry-run")
    assert run.code == 0, run.err
    assert run.out.startswith(f"Would create the store {bucket.uri}\n")
    assert "  write meta/head.json\n" in run.out
    plan = bucket.onto("init", "--dry-run", "--json").json
    assert (plan["exists"], plan["would"], plan["token"]) == (False, "create", None)
    assert {"meta/head.json", "meta/schema/types.json"} <= set(plan["objects"])
    assert bucket.tags() == {}


def test_init_writes_what_its_dry_run_showed(bucket: Bucket) -> None:
    planned = bucket.onto("init", "--dry-run", "--json").json["objects"]
    run = bucket.onto("init")
    assert (run.code, run.out) == (0, f"Created the store {bucket.uri}\n")
    assert set(bucket.tags()) == set(planned)
    head = bucket.read("meta/head.json")
    assert (head["commit_id"], head["manifest_path"], head["runtime_id"]) == (0, None, "onto-init")
    types = bucket.read("meta/schema/types.json")
    assert (types["entities"], types["relations"]) == ([], [])
    info = bucket.onto("info", "--json").json
    assert (info["head"], info["types"]) == (0, [])


def test_init_refuses_a_prefix_with_a_store(shared: Bucket) -> None:
    before = shared.tags()
    run = shared.onto("init")
    assert (run.code, run.out) == (exits.REFUSED, "")
    assert "--force --dry-run" in run.err
    plan = shared.onto("init", "--dry-run", "--json").json
    assert (plan["exists"], plan["would"], plan["token"]) == (True, "refuse", None)
    assert shared.onto("init", "--dry-run").out.startswith("Would refuse: ")
    assert shared.tags() == before


def test_beginning_again_needs_force_and_a_fresh_token(store: Bucket) -> None:
    text = store.onto("init", "--force", "--dry-run")
    plan = store.onto("init", "--force", "--dry-run", "--json").json
    assert (plan["would"], plan["existing"]["commit_id"]) == ("empty", 3)
    assert f"token: {plan['token']}" in text.out
    assert f"onto init --storage-uri {store.uri} --force --token {plan['token']}" in text.err
    for arguments in (["--force"], ["--force", "--token", "wrong"]):
        run = store.onto("init", *arguments)
        assert (run.code, run.out) == (exits.REFUSED, "")
    (Path.cwd() / "Product.csv").write_text("sku,title\np9,New\n")
    assert store.onto("import", "Product.csv").code == 0
    assert store.onto("init", "--force", "--token", plan["token"]).code == exits.REFUSED
    assert store.onto("info", "--json").json["head"] == 4
    token = store.onto("init", "--force", "--dry-run", "--json").json["token"]
    run = store.onto("init", "--force", "--token", token)
    assert (run.code, run.out) == (0, f"Emptied the store {store.uri}\n"), run.err
    info = store.onto("info", "--json").json
    assert (info["head"], info["types"]) == (0, [])
    assert store.onto("commits", "--json").json == []
    assert store.onto("query", "entities", "Customer").code == exits.USAGE


# Asking


@pytest.mark.parametrize("name", [*sorted(READING.keys() - {"init"}), "import", "migrate"])
def test_a_prefix_without_a_store_is_said_and_left_alone(name: str, bucket: Bucket) -> None:
    (Path.cwd() / "Product.csv").write_text("sku,title\np9,New\n")
    (Path.cwd() / "models.py").write_text(MODELS)
    writing = {
        "import": ["import", "Product.csv", "--models", "models.py"],
        "migrate": ["migrate", "--models", "models.py"],
    }
    run = bucket.onto(*{**READING, **writing}[name])
    if name == "doctor":
        assert run.code == 0
        assert f"onto init --storage-uri {bucket.uri}" in run.out
    else:
        assert (run.code, run.out) == (exits.STORAGE, "")
        assert run.err.startswith(f"error[uninitialized]: There is no store at {bucket.uri}.\n  help: ")
        assert f"onto init --storage-uri {bucket.uri}" in run.err
    assert bucket.tags() == {}


@pytest.mark.parametrize("name", READING)
def test_reading_commands_work_in_every_form_and_change_nothing(name: str, shared: Bucket) -> None:
    before = shared.tags()
    for form in ("text", "csv", "json"):
        run = shared.onto("--format", form, *READING[name])
        assert run.code == 0, run.err
        assert run.out
    assert isinstance(run.json, dict | list)
    assert shared.tags() == before


@pytest.mark.parametrize(
    "name",
    sorted(READING.keys() & {"commits", "commits examine", "blame", "diff", "schema export", "verify"})
    + [name for name in READING if name.startswith("query")],
)
def test_both_backends_give_the_same_answer(name: str, shared: Bucket, tmp_path: Path) -> None:
    path = shop(tmp_path / "same.db")
    there = shared.onto(*READING[name], "--json").json
    assert there
    assert timeless(there) == timeless(onto(*READING[name], "--db", path, "--json").json)


def timeless(answer: Any) -> Any:
    """An answer without what differs between two stores of the same: times, and hashes that cover them."""
    if isinstance(answer, list):
        return [timeless(one) for one in answer]
    if not isinstance(answer, dict):
        return answer
    own = {"created_at", "committed_at", "commit_sha256"}
    return {name: timeless(value) for name, value in answer.items() if name not in own}


def test_the_place_comes_from_the_environment_too(shared: Bucket) -> None:
    env = {**shared.env, "ONTOLOGIA_STORAGE_URI": f"{shared.uri}/"}
    assert onto("info", "--json", env=env).json["uri"] == shared.uri
    assert onto("query", "entities", "Customer", "--count", env=env).out == "3\n"


def test_info_says_where_the_store_is_and_how_it_is_kept(shared: Bucket) -> None:
    name, prefix = shared.uri.removeprefix("s3://").split("/")
    info = shared.onto("info", "--json").json
    assert (info["backend"], info["bucket"], info["prefix"]) == ("s3", name, prefix)
    assert (info["endpoint"], info["head"]) == (shared.config.s3_endpoint_url, 3)
    assert info["manifest_path"] == shared.read("meta/head.json")["manifest_path"]
    assert (info["lock"], info["last_index_warning"]) == (None, None)
    text = shared.onto("info").out
    assert "last_index_warning" not in text
    assert "Customer -> Product" in text


def test_info_shows_who_holds_the_lock(store: Bucket) -> None:
    hold(store, "somebody-else")
    assert store.onto("info", "--json").json["lock"]["owner_id"] == "somebody-else"
    assert "held by somebody-else until " in store.onto("info").out


def hold(store: Bucket, owner: str) -> None:
    """Take the write lock the way another program would."""
    now = datetime.now(UTC)
    record = {
        "owner_id": owner,
        "acquired_at": now.isoformat(),
        "expires_at": (now + timedelta(minutes=5)).isoformat(),
        "lease_ttl_ms": 300_000,
    }
    store.write("meta/locks/ontology_write.json", record)


# Writing


def test_another_writer_in_the_way_is_said_after_the_timeout(store: Bucket) -> None:
    (Path.cwd() / "Product.csv").write_text("sku,title\np9,New\n")
    hold(store, "somebody-else")
    run = store.onto("import", "Product.csv", env={"ONTOLOGIA_S3_LOCK_TIMEOUT_MS": "50"})
    assert run.code == exits.FAILURE
    assert run.err.startswith("error[lock-contention]: ")
    assert "somebody-else" in run.err
    assert "ONTOLOGIA_S3_LOCK_TIMEOUT_MS" in run.err
    store.delete("meta/locks/ontology_write.json")
    assert store.onto("import", "Product.csv").code == 0


def test_rows_move_between_file_and_bucket_without_loss(bucket: Bucket, tmp_path: Path) -> None:
    path = shop(tmp_path / "here.db")
    assert onto("export", "--db", path, "--output", "there").code == 0
    assert bucket.onto("init").code == 0
    preview = bucket.onto("import", "--input", "there", "--dry-run", "--json").json
    assert (preview["inserted"], preview["commit_id"]) == (7, None)
    done = bucket.onto("import", "--input", "there", "--apply", "--on-conflict", "abort", "--json").json
    assert (done["inserted"], done["commit_id"]) == (7, 1)
    assert bucket.onto("export", "--output", "back").code == 0
    assert onto("import", "--db", "copy.db", "--input", "back").code == 0
    for asked in (["entities", "Customer"], ["entities", "Product"], ["relations", "Subscription"]):
        runs = [onto("query", *asked, "--db", place, "--json").json for place in (path, "copy.db")]
        first, second, third = (
            sorted(json.dumps(row["fields"]) for row in rows)
            for rows in (*runs, bucket.onto("query", *asked, "--json").json)
        )
        assert first == second == third


def test_a_failed_import_leaves_no_commit(store: Bucket) -> None:
    (Path.cwd() / "Product.csv").write_text("sku,title\np9,New\np1,Other\n")
    run = store.onto("import", "Product.csv")
    assert run.code == exits.CONFLICT
    assert store.onto("info", "--json").json["head"] == 3


def test_types_are_migrated_and_dropped_with_tokens(store: Bucket) -> None:
    changed = MODELS.replace("title: Field[str]", "title: Field[str]\n    price: Field[int | None] = None")
    (Path.cwd() / "newer.py").write_text(changed)
    plan = store.onto("migrate", "--models", "newer.py", "--json").json
    assert store.onto("migrate", "--models", "newer.py", "--apply").code == exits.REFUSED
    done = store.onto("migrate", "--models", "newer.py", "--apply", "--token", plan["token"], "--json")
    assert (done.code, done.json["commit_id"]) == (0, 4), done.err
    rows = store.onto("query", "entities", "Product", "--json").json
    assert [row["fields"]["price"] for row in rows] == [None, None]
    drop = ["schema", "drop", "relation", "Subscription", "--purge-history"]
    token = store.onto(*drop, "--json").json["token"]
    assert store.onto(*drop, "--apply", "--token", token).code == 0
    assert "Subscription" not in {one["name"] for one in store.onto("info", "--json").json["types"]}
    assert store.onto("verify").code == 0


# Looking after it


def many_commits(store: Bucket, number: int) -> None:
    with Ontology(storage_uri=store.uri, config=store.config) as opened:
        for count in range(number):
            with opened.session() as session:
                session.ensure(Product(sku=f"x{count}", title=f"number {count}"))


def test_compact_shows_its_plan_and_changes_no_answer(store: Bucket) -> None:
    many_commits(store, 12)
    asked = [READING["diff"], READING["query entities"], ["query", "entities", "Product", "--as-of", "5"]]
    before, keys = [store.onto(*one, "--json").json for one in asked], store.tags()
    plan = store.onto("compact", "--json").json
    assert (plan["applied"], plan["head"]) == (False, 15)
    assert "Product" in {one["type_name"] for one in plan["rewrites"]}
    text = store.onto("compact")
    assert "Would merge " in text.out
    assert "--apply" in text.err
    assert max(map(len, text.out.splitlines())) <= 80
    assert store.tags() == keys
    done = store.onto("compact", "--apply", "--json").json
    assert (done["applied"], done["head"]) == (True, 15)
    assert {one["path"] for one in done["rewrites"]} <= store.tags().keys()
    assert [store.onto(*one, "--json").json for one in asked] == before
    assert store.onto("index", "verify").code == 0
    assert store.onto("compact", "--apply").out == "Nothing to merge.\n"


def test_compact_takes_one_type(store: Bucket) -> None:
    many_commits(store, 12)
    plan = store.onto("compact", "--type", "Product", "--json").json
    assert {one["type_name"] for one in plan["rewrites"]} == {"Product"}
    run = store.onto("compact", "--type", "Nobody")
    assert run.code in {exits.USAGE, exits.FAILURE}
    assert "Nobody" in run.err


def test_records_about_types_are_written_anew(store: Bucket) -> None:
    key = "meta/schema/types.json"
    good = store.read(key)
    store.write(key, {"entities": []})
    assert store.onto("index", "verify").code == exits.SCHEMA
    assert store.onto("schema", "repair").out == f"would write {key}\n"
    assert store.onto("schema", "repair", "--apply", "--json").json == {"written": [key], "applied": True}
    assert store.read(key)["entities"] == good["entities"]
    assert "Nothing to repair" in store.onto("schema", "repair", "--apply").out


def test_an_index_that_is_behind_is_found_and_repaired(store: Bucket) -> None:
    healthy = store.onto("index", "verify")
    assert (healthy.code, healthy.out) == (0, "ok: every index fits commit 3.\n")
    key = "meta/indices/entities/Customer.json"
    good = store.read(key)
    store.write(key, {**good, "max_indexed_commit": 2, "entries": good["entries"][:1]})
    head = store.read("meta/head.json")
    found = store.onto("index", "verify", "--json")
    assert (found.code, found.json["ok"]) == (exits.UNHEALTHY, False)
    assert {one["type_name"] for one in found.json["problems"]} == {"Customer"}
    text = store.onto("index", "verify")
    assert text.code == exits.UNHEALTHY
    assert "Customer" in text.out
    assert "onto index repair" in text.err
    assert store.onto("info", "--json").json["last_index_warning"]
    info = store.onto("info")
    assert "onto index verify" in info.err
    assert "warning: " in info.err
    assert store.onto("query", "entities", "Customer", "--count").out == "3\n"
    tagged = store.tags()
    plan = store.onto("index", "repair", "--json").json
    assert (plan["applied"], plan["written"]) == (False, [key])
    assert f"would write {key}" in store.onto("index", "repair").out
    assert store.tags() == tagged
    done = store.onto("index", "repair", "--apply")
    assert (done.code, f"wrote {key}" in done.out) == (0, True)
    assert store.onto("index", "verify").code == 0
    repaired = store.read(key)
    assert (repaired["max_indexed_commit"], len(repaired["entries"])) == (3, len(good["entries"]))
    assert store.read("meta/head.json") == head
    tagged = store.tags()
    again = store.onto("index", "repair", "--apply")
    assert again.out == "Nothing to repair: every index fits commit 3.\n"
    assert store.tags() == tagged


def test_gc_lists_orphans_and_removes_them_after_the_grace(store: Bucket) -> None:
    orphan = "commits/9-deadbeef/entities/Customer.parquet"
    store.write(orphan, b"never finished")
    assert store.onto("gc").out == "Nothing to remove.\n"
    plan = store.onto("gc", "--grace", "0s", "--json").json
    assert (plan["applied"], plan["grace_seconds"]) == (False, 0)
    assert {"key": orphan, "size": 14, "reason": "orphan"} in plan["removals"]
    assert plan["reasons"]["orphan"]["objects"] >= 1
    assert plan["bytes"] == sum(one["size"] for one in plan["removals"])
    text = store.onto("gc", "--grace", "0s")
    assert orphan in text.out
    assert "Would remove " in text.out
    assert max(map(len, text.out.splitlines())) <= 80
    assert orphan in store.tags()
    done = store.onto("gc", "--grace", "0s", "--apply")
    assert done.code == 0
    assert "Removed " in done.out
    assert orphan not in store.tags()
    assert store.onto("verify").code == 0
    assert store.onto("query", "entities", "Customer", "--count").out == "3\n"


def test_doctor_tries_the_server_and_looks_at_the_store(shared: Bucket) -> None:
    before = shared.tags()
    run = shared.onto("doctor", "--json")
    assert run.code == 0, run.out
    checks = {check["name"]: check for check in run.json["checks"]}
    assert {"obstore", "duckdb", "pyarrow", "endpoint", "bucket", "server clock", "store", "indices"} <= checks.keys()
    assert [name for name in checks if name.startswith("server: ")]
    assert {check["status"] for check in checks.values()} == {"ok"}
    assert checks["setting s3_endpoint_url"]["found"].startswith(str(shared.config.s3_endpoint_url))
    assert shared.tags() == before


def test_doctor_warns_of_an_index_that_is_behind(store: Bucket) -> None:
    store.delete("meta/indices/entities/Customer.json")
    run = store.onto("doctor", "--json")
    checks = {check["name"]: check for check in run.json["checks"]}
    assert (run.code, checks["indices"]["status"]) == (0, "warn")
    assert "onto index repair" in checks["indices"]["fix"]


# What can be wrong with the server


@pytest.mark.parametrize("arguments", [["info"], ["init"], ["doctor"]], ids=lambda one: one[0])
def test_a_server_that_is_not_there_is_one_sentence(arguments: list[str], bucket: Bucket) -> None:
    nobody = f"http://127.0.0.1:{s3server.free_ports(1)[0]}"
    env = {"ONTOLOGIA_S3_ENDPOINT_URL": nobody, "ONTOLOGIA_S3_REQUEST_TIMEOUT_S": "1"}
    run = bucket.onto(*arguments, env=env)
    assert run.code == exits.STORAGE
    assert "Traceback" not in run.err
    if arguments != ["doctor"]:
        assert run.err.startswith("error[storage-backend]: ")
        assert len(run.err.splitlines()) == 2


def test_a_bucket_that_is_not_there_is_one_sentence(bucket: Bucket) -> None:
    for arguments in (["init"], ["doctor"]):
        run = onto(*arguments, "--storage-uri", "s3://no-such-bucket-here/x", env=bucket.env)
        assert run.code == exits.STORAGE
        assert "no-such-bucket-here" in run.out + run.err


def test_wrong_credentials_are_one_sentence_without_the_secret(shared: Bucket) -> None:
    env = {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "hunter2hunter2"}
    for arguments in (["info"], ["doctor"]):
        run = shared.onto(*arguments, env=env)
        assert run.code == exits.STORAGE
        assert "hunter2" not in run.out + run.err
        assert "Traceback" not in run.err


def test_the_program_itself_works_on_a_bucket(shared: Bucket, tmp_path: Path) -> None:
    run = program("query", "entities", "Customer", "--count", "--storage-uri", shared.uri, cwd=tmp_path, env=shared.env)
    assert (run.code, run.out, run.err) == (0, "3\n", "")


def test_a_broken_promise_is_a_fault_unless_the_store_can_do_without() -> None:
    broken = _promise(Check("create-if-absent", False, "it wrote over an object"))
    assert (broken.status, broken.found) == ("fail", "it wrote over an object")
    assert broken.fix
    assert _promise(Check("delete-if-match", False, "it ignored it", required=False)).status == "warn"
    assert _promise(Check("delete-if-match", True, "as it should", required=False)).fix is None


@pytest.mark.parametrize("prefix", ["ünï/日本", "team=a+b,c(1)!'~*$&;:@"])
def test_a_prefix_with_odd_characters_is_a_prefix(prefix: str, bucket: Bucket) -> None:
    odd = Bucket(f"{bucket.uri}/{prefix}", bucket.config)
    assert odd.onto("init").code == 0
    fill(odd.config, storage_uri=odd.uri)
    assert odd.onto("query", "entities", "Customer", "--count").out == "3\n"
    assert odd.onto("verify").code == 0
    assert odd.onto("gc", "--grace", "0s").code == 0
    assert {key for key in bucket.tags() if key.endswith("meta/head.json")} == {f"{prefix}/meta/head.json"}
