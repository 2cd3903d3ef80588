"""The acceptance criteria of the store on S3, one test each, on the real server.

Each docstring quotes its criterion. The criteria that a whole file is about are shown here in their shortest form.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from skins.runs import MODELS, fill, onto, shop
from store_objects.buckets import CUSTOMERS, HEAD, LOCK, PRODUCTS, TYPES, Bucket
from store_objects.counted import Customer, Product, Subscription, open_on, write
from store_objects.shops import (
    SHOP,
    START,
    Account,
    AccountWithCurrency,
    Stint,
    a_history,
    batch,
    customers,
    everything,
    later,
    numbers,
    opened,
)

from ontologia import LockContentionError, MigrationTokenError, OntologiaConfig, Ontology, count, left
from ontologia import sum as total
from ontologia.base.clock import ManualClock
from ontologia.cli import exits
from ontologia.objects.faults import Fault, FaultyObjects
from ontologia.objects.s3 import open_objects


def here(bucket: Bucket, **options: Any) -> Ontology:
    """The shop in a bucket."""
    return opened(bucket.uri, bucket.config, **options)


def test_core_flows_work_as_on_sqlite(store: Bucket, tmp_path: Path) -> None:
    """S3 backend can run all core flows with behavior equivalent to SQLite semantics.

    Core flows: session.ensure/commit, query APIs, commit inspection, migration preview/apply.
    """
    config = {"runtime_id": "same"}
    places: list[dict[str, Any]] = [
        {"db_path": str(tmp_path / "onto.db"), "config": OntologiaConfig(**config)},
        {"storage_uri": store.uri, "config": store.with_settings(**config).config},
    ]
    answers: list[Any] = []
    for place in places:
        found: list[Any] = []
        with Ontology(**place, **SHOP, clock=ManualClock(START)) as onto:
            session = onto.session()
            session.ensure([Customer(id="c1", name="Anna"), Product(sku="p1", price=2.0)])
            session.ensure([Stint(left_key="c1", right_key="p1", term="1"), Customer(id="c1", name="Anne")])
            found.append((str(session.preview()), session.commit(meta={"why": "test"}), str(session.last_summary)))
            session.ensure(Customer(id="c1", name="Anne"))
            found.append((session.commit(), onto.head()))
            query = onto.query()
            found += [repr(query.entities(Customer).get("c1")), repr(query.entities(Customer).get("nobody"))]
            found.append([repr(path) for path in query.entities(Customer).via(Stint).collect()])
            found.append(query.relations(Stint).where(left(Stint).name == "Anne").agg(n=count(), pay=total(Stint.pay)))
            found.append([onto.get_commit(1).to_dict() | {"commit_sha256": None}, onto.changes(1)])
        with Ontology(**place, entity_types=[Account], clock=ManualClock(START)) as onto:
            write(onto, Account(id="a", owner="Anna", balance=1))
        with Ontology(**place, entity_types=[AccountWithCurrency], clock=ManualClock(START)) as onto:
            plan = onto.migrate()
            found.append((str(plan), onto.head()))
            with pytest.raises(MigrationTokenError):
                onto.migrate(apply=True, token="wrong")  # noqa: S106 - not a secret
            found.append(str(onto.migrate(apply=True, token=plan.token)))
            found.append([repr(one) for one in onto.query().entities(AccountWithCurrency).with_history()])
            found.append(onto.verify())
        answers.append(found)
    assert answers[0] == answers[1]


def test_a_commit_becomes_visible_at_one_instant(store: Bucket, tmp_path: Path) -> None:
    """Commit visibility is atomic via head CAS; partial commit writes are never visible as committed state."""
    objects = FaultyObjects(open_objects(store.uri, store.config))
    seen: list[tuple[str, set[int]]] = []
    with open_on(objects, store.config) as onto, here(store.elsewhere(tmp_path / "reader")) as reader:
        batch(onto, 1)
        for method, key in (("create", LOCK), ("put", "commits/*"), ("[pcr]*", "meta/indices/*"), ("delete", LOCK)):
            objects.add(Fault(method, key, times=None, after=lambda key=key: seen.append((key, numbers(reader)))))
        objects.add(Fault("replace", HEAD, before=lambda: seen.append(("before", numbers(reader)))))
        objects.add(Fault("replace", HEAD, after=lambda: seen.append(("after", numbers(reader)))))
        assert batch(onto, 2) == 2
    swap = [at for at, _ in seen].index("after")
    assert len(seen) >= 11
    assert [found for _, found in seen[:swap]] == [{1}] * swap
    assert [found for _, found in seen[swap:]] == [{2}] * (len(seen) - swap)


def test_the_write_lock_has_a_whole_life(store: Bucket) -> None:
    """Write lock supports acquire, renew, release, stale takeover, and timeout with expected errors."""
    config = store.with_settings(s3_lease_ttl_ms=300, s3_lock_timeout_ms=30, runtime_id="holder").config
    objects = FaultyObjects(open_objects(store.uri, config))
    ends: list[str] = []
    renewed = threading.Event()

    def note() -> None:
        ends.append(store.read(LOCK)["expires_at"])

    def twice() -> None:
        note()
        if len(ends) > 2:
            renewed.set()

    with open_on(objects, config) as onto, here(Bucket(store.uri, config)) as other:
        objects.add(Fault("create", LOCK, after=note))
        objects.add(Fault("replace", LOCK, times=None, after=twice))
        objects.add(Fault("put", "commits/*/manifest.json", before=lambda: renewed.wait(20)))
        assert write(onto, Customer(id="a", name="1")) == 1
        assert ends == sorted(ends), "each renewal moves the end on"
        assert len(ends) >= 3
        assert LOCK not in store.tags(), "it was given back"
        now = datetime.now(UTC)
        record = {"owner_id": "gone", "acquired_at": now.isoformat(), "lease_ttl_ms": 1000}
        store.write(LOCK, {**record, "expires_at": (now + timedelta(minutes=1)).isoformat()})
        with pytest.raises(LockContentionError, match="gone"):
            write(other, Customer(id="a", name="2"))
        store.write(LOCK, {**record, "expires_at": (now - timedelta(minutes=1)).isoformat()})
        assert write(other, Customer(id="a", name="2")) == 2


def test_commit_ids_are_monotone_and_unique_under_concurrent_writers(store: Bucket) -> None:
    """Commit IDs remain monotonic and unique under concurrent writers."""
    found: dict[str, list[int | None]] = {name: [] for name in "abc"}

    def work(name: str) -> None:
        with here(store.with_settings(runtime_id=name, s3_lock_timeout_ms=60_000)) as onto:
            for number in range(4):
                found[name].append(write(onto, Customer(id="shared", name=f"{name}{number}")))

    threads = [threading.Thread(target=work, args=(name,)) for name in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one or 0 for ids in found.values() for one in ids) == list(range(1, 13))
    for ids in found.values():
        assert ids == sorted(one or 0 for one in ids)
    with here(store) as onto:
        log = [(one.commit_id, one.parent_commit_id, one.runtime_id) for one in reversed(onto.list_commits())]
    assert [(number, parent) for number, parent, _ in log] == [(n, n - 1 or None) for n in range(1, 13)]
    assert all(number in found[owner] for number, _, owner in log)


def test_windows_of_time_answer_as_on_sqlite(store: Bucket, tmp_path: Path) -> None:
    """Query semantics (latest, as_of, with_history, history_since) are backend-equivalent."""
    config = OntologiaConfig(runtime_id="same")
    with Ontology(str(tmp_path / "onto.db"), config, clock=ManualClock(START), **SHOP) as file:
        a_history(file)
        expected = everything(file)
    with here(store.with_settings(runtime_id="same"), clock=ManualClock(START)) as onto:
        a_history(onto)
        found = everything(onto)
    assert {name for name in expected if found[name] != expected[name]} == set()


def test_filters_and_projections_are_pushed_into_the_scan(store: Bucket) -> None:
    """Pushdown filtering/projection is exercised through DuckDB scans over S3 Parquet."""
    with here(store) as onto:
        write(onto, *(Customer(id=f"c{n}", name=f"n{n}", tier="Gold" if n % 5 == 0 else "Standard") for n in range(50)))
        asked = onto.query().entities(Customer).where(Customer.tier == "Gold")
        explained = asked.explain()
        text = "\n".join(explained.plan)
        scan = text[text.upper().index("PARQUET") :]
        assert explained.native
        assert "tier" in scan
        assert "Gold" in scan
        assert "fields_json" not in text
        assert asked.count() == 10
        edges = onto.query().relations(Subscription).where(left(Subscription).tier == "Gold")
        assert edges.count() == 0


def test_the_command_line_takes_a_storage_uri_and_a_db_as_before(store: Bucket, tmp_path: Path) -> None:
    """CLI supports --storage-uri while preserving existing --db behavior."""
    fill(store.config, storage_uri=store.uri)
    shop(tmp_path / "here.db")
    for arguments in (["query", "entities", "Customer", "--json"], ["query", "relations", "Subscription", "--json"]):
        in_bucket, in_file = store.onto(*arguments).json, onto(*arguments, "--db", "here.db").json
        assert [{**row, "committed_at": None} for row in in_bucket] == [
            {**row, "committed_at": None} for row in in_file
        ]
    before = onto("info", "--db", "here.db", "--json").json
    assert (before["backend"], before["head"]) == ("sqlite", 3)
    assert store.onto("info", "--db", "here.db").code == exits.USAGE


def test_a_prefix_begins_with_init_and_is_refused_before(bucket: Bucket) -> None:
    """Onto init bootstraps S3 backend; subsequent commands fail fast on uninitialized prefix."""
    Path("models.py").write_text(MODELS)
    for arguments in (["info"], ["query", "entities", "Customer", "--models", "models.py"], ["commits"]):
        run = bucket.onto(*arguments)
        assert (run.code, "onto init" in run.err) == (exits.STORAGE, True)
    assert bucket.tags() == {}
    assert bucket.onto("init").code == 0
    head = bucket.read(HEAD)
    assert (head["commit_id"], head["manifest_path"], head["runtime_id"]) == (0, None, "onto-init")
    assert datetime.fromisoformat(head["updated_at"]).utcoffset() == timedelta(0)
    assert bucket.read(TYPES)["entities"] == bucket.read(TYPES)["relations"] == []
    assert bucket.onto("info").code == 0


def test_init_and_compact_show_before_they_do(bucket: Bucket) -> None:
    """Onto init/onto compact support documented dry-run/apply safety semantics."""
    assert bucket.onto("init", "--dry-run").code == 0
    assert bucket.tags() == {}
    assert bucket.onto("init").code == 0
    with here(bucket) as onto:
        for number in range(9):
            batch(onto, number)
    before = bucket.tags()
    assert bucket.onto("compact").code == 0
    assert bucket.onto("init").code == exits.REFUSED
    assert bucket.onto("init", "--force").code == exits.REFUSED
    token = bucket.onto("init", "--force", "--dry-run", "--json").json["token"]
    assert bucket.tags() == before
    assert bucket.onto("compact", "--apply").code == 0
    assert bucket.tags(under="snapshots/")
    assert bucket.read(HEAD)["commit_id"] == 9
    assert bucket.onto("init", "--force", "--token", token).code == 0
    assert bucket.read(HEAD)["commit_id"] == 0


def test_an_index_that_lags_or_lacks_the_latest_entry_is_told(store: Bucket, tmp_path: Path) -> None:
    """Index lag / missing-latest-entry conditions are detectable and surfaced as operator warnings."""
    with here(store) as onto:
        batch(onto, 1)
        batch(onto, 2)
        assert onto.storage_info()["last_index_warning"] is None
    good = store.read(CUSTOMERS)
    lagging = {**good, "max_indexed_commit": 1, "entries": good["entries"][:1]}
    lacking = {**good, "entries": good["entries"][:1]}
    for number, (wrong, code) in enumerate([(lagging, "lag"), (lacking, "missing-latest-entry")]):
        store.write(CUSTOMERS, wrong)
        run = store.onto("index", "verify", "--json")
        assert (run.code, [one["code"] for one in run.json["problems"]]) == (exits.UNHEALTHY, [code])
        assert "Customer" in store.onto("info", "--json").json["last_index_warning"]
        with here(store.elsewhere(tmp_path / f"cold{number}")) as onto:
            assert numbers(onto) == {2}
            assert "Customer" in onto.storage_info()["last_index_warning"]


def test_indices_are_verified_and_repaired_without_touching_commits(store: Bucket) -> None:
    """`onto index verify` reports lag/missing coverage.

    `onto index repair` restores index coverage without changing committed data.
    """
    with here(store) as onto:
        batch(onto, 1)
        batch(onto, 2)
        right = customers(onto)
    store.delete(CUSTOMERS)
    kept = {key: tag for key, tag in store.tags().items() if not key.startswith("meta/indices/")}
    assert store.onto("index", "verify").code == exits.UNHEALTHY
    assert store.onto("index", "repair", "--apply").code == 0
    assert store.onto("index", "verify").code == 0
    assert store.read(CUSTOMERS)["max_indexed_commit"] == 2
    assert {key: tag for key, tag in store.tags().items() if not key.startswith("meta/indices/")} == kept
    with here(store) as onto:
        assert customers(onto) == right


def test_an_unreadable_list_of_types_costs_no_commit_and_no_index(store: Bucket) -> None:
    """When types.json is unreadable at writer step 8, commit still succeeds after CAS.

    It emits an operator-visible warning while leaving index objects unchanged for that attempt.
    """
    with here(store) as onto:
        batch(onto, 1)
        before = {key: store.bytes(key) for key in (CUSTOMERS, PRODUCTS)}
        store.write(TYPES, b"\x00 not JSON")
        assert batch(onto, 2) == 2
        assert TYPES in onto.storage_info()["last_index_warning"]
        assert {key: store.bytes(key) for key in before} == before
        assert numbers(onto) == {2}
    with later(store.uri, store.config) as stranger:
        assert numbers(stranger) == {2}


def test_merging_files_changes_no_answer(store: Bucket, tmp_path: Path) -> None:
    """Onto compact merges small Parquet files without changing query semantics."""
    with here(store) as onto:
        a_history(onto)
        for number in range(6):
            write(onto, Customer(id=f"c{number % 2}", name=f"n{number}"), Product(sku=f"p{number}", price=1.0))
        right = everything(onto)
    files = len(store.read(CUSTOMERS)["entries"])
    assert store.onto("compact", "--apply").code == 0
    assert len(store.read(CUSTOMERS)["entries"]) < files
    for config in (store.config, store.elsewhere(tmp_path / "cold").config):
        with opened(store.uri, config) as onto:
            found = everything(onto)
            assert {name for name in right if found[name] != right[name]} == set()
            assert onto.verify() == []


def test_history_comes_in_one_order(store: Bucket) -> None:
    """History-producing queries on S3 are deterministic (commit_id ASC plus identity tie-break keys)."""
    with here(store) as onto:
        for number in range(3):
            write(onto, *(Customer(id=key, name=f"{number}") for key in ["z", "a", "m"]))
            write(onto, *(Stint(left_key=a, right_key=b, term=t, pay=number) for a in "zb" for b in "yx" for t in "21"))
        seen = [(one.meta().commit_id, one.id) for one in onto.query().entities(Customer).with_history()]
        assert seen == [(number, key) for number in (1, 3, 5) for key in "amz"]
        metas = [one.meta() for one in onto.query().relations(Stint).history_since(2)]
        edges = [(one.commit_id, one.left_key, one.right_key, one.instance_key) for one in metas]
        assert edges == [(n, a, b, t) for n in (4, 6) for a in "bz" for b in "xy" for t in "12"]


def test_sqlite_users_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Existing SQLite users do not require code changes."""
    monkeypatch.chdir(tmp_path)
    places: list[dict[str, Any]] = [{"db_path": "onto.db"}, {"storage_uri": f"sqlite:///{tmp_path}/onto.db"}, {}]
    for place in places:
        with Ontology(**place, entity_types=[Customer]) as onto:
            write(onto, Customer(id="a", name="1"))
            assert onto.head() == 1
            assert onto.storage_info()["backend"] == "sqlite"
    with Ontology("onto.db", OntologiaConfig(lock_timeout_ms=10), entity_types=[Customer]) as onto:
        assert [one.id for one in onto.query().entities(Customer)] == ["a"]
    assert (tmp_path / "onto.db").is_file()
