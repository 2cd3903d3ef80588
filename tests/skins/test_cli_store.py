"""`init`, `info`, `verify` and what can be wrong with a store: each fault has its sentence and its exit code."""

from __future__ import annotations

import ctypes
import os
import resource
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from skins.runs import MODELS, Run, onto, program, shop

from ontologia import Ontology
from ontologia.cli import exits

DROP_FROM_BOUNDING_SET, OVERRIDE_PERMISSIONS = 24, 1


def obey_permissions() -> None:
    """Take from root, in a child that is about to start, the right to ignore the permissions of files."""
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(DROP_FROM_BOUNDING_SET, OVERRIDE_PERMISSIONS, 0, 0, 0)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return shop(tmp_path / "onto.db")


def test_init_creates_a_store_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan = onto("init", "--dry-run", "--json").json
    assert (plan["exists"], plan["would"], plan["token"]) == (False, "create", None)
    assert list(tmp_path.iterdir()) == []
    assert onto("init", "--json").json["created"] is True
    assert onto("info", "--json").json["head"] == 0
    again = onto("init")
    assert again.code == exits.REFUSED
    assert "--force --dry-run" in again.err


def test_emptying_a_store_needs_the_token_and_leaves_other_tables(store: Path) -> None:
    with sqlite3.connect(store) as connection:
        connection.execute("CREATE TABLE ledger_events (id)")
        connection.execute("INSERT INTO ledger_events VALUES (7)")
    connection.close()
    plan = onto("init", "--force", "--dry-run", "--json").json
    assert (plan["would"], plan["head"]) == ("empty", 3)
    assert onto("init", "--force").code == exits.REFUSED
    with Ontology(store) as other, other.session() as session:
        session.ensure_rows(_product(other), [{"sku": "p9", "title": "New"}])
    stale = onto("init", "--force", "--token", plan["token"])
    assert stale.code == exits.REFUSED
    assert "does not fit the present state" in stale.err
    token = onto("init", "--force", "--dry-run", "--json").json["token"]
    assert onto("init", "--force", "--token", token, "--json").json["reset"] is True
    info = onto("info", "--json").json
    assert (info["head"], info["types"]) == (0, [])
    with sqlite3.connect(store) as connection:
        assert connection.execute("SELECT id FROM ledger_events").fetchall() == [(7,)]
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE name GLOB 'store_live*'")]
    connection.close()
    assert names == []


def _product(store: Ontology) -> type[Any]:
    from ontologia.cli.models import known_classes

    return known_classes(store)["Product"]


def test_a_token_without_force_is_a_mistake(store: Path) -> None:
    assert onto("init", "--token", "x").code == exits.USAGE


def test_info_says_what_is_there(store: Path) -> None:
    info = onto("info", "--json").json
    assert info["backend"] == "sqlite"
    assert info["head"] == 3
    assert info["last_commit"]["commit_id"] == 3
    assert [(one["kind"], one["name"], one["rows"], one["version"]) for one in info["types"]] == [
        ("entity", "Customer", 3, 1),
        ("entity", "Product", 2, 1),
        ("relation", "Subscription", 2, 1),
    ]
    assert "Customer -> Product" in onto("info").out


def test_verify_is_content_with_an_untouched_store(store: Path) -> None:
    assert onto("verify", "--json").json == {"ok": True, "head": 3, "findings": []}
    assert onto("verify").out == "ok: 3 commits, every hash fits.\n"


def tamper(store: Path, find: bytes, put: bytes) -> None:
    """Change bytes of the file, as a disk or an intruder would."""
    content = store.read_bytes()
    assert len(find) == len(put)
    assert find in content
    store.write_bytes(content.replace(find, put))


def test_verify_names_the_commit_of_a_changed_byte(store: Path, tmp_path: Path) -> None:
    tamper(store, b"Ledger", b"Forged")
    run = onto("verify", "--json")
    assert run.code == exits.UNHEALTHY
    assert run.json["ok"] is False
    assert {finding["commit_id"] for finding in run.json["findings"]} == {2}
    text = program("verify", cwd=tmp_path)
    assert text.code == exits.UNHEALTHY
    assert "commit 2 is the first one concerned" in text.err
    assert text.out.startswith("error[rows-changed]: ")


def test_dangling_ends_are_a_warning(tmp_path: Path, store: Path) -> None:
    (tmp_path / "models.py").write_text(MODELS)
    (tmp_path / "Subscription.csv").write_text("left_key,right_key,seats\nc9,p1,1\n")
    assert onto("import", "Subscription.csv").code == 0
    run = onto("verify", "--json")
    assert (run.code, run.json["ok"]) == (0, True)
    assert [finding["code"] for finding in run.json["findings"]] == ["dangling"]


ALL = (["info"], ["verify"], ["query", "entities", "Customer"], ["commits"], ["doctor"], ["export", "--output", "out"])


@pytest.mark.parametrize("arguments", ALL, ids=lambda arguments: arguments[0])
def test_a_file_that_is_no_database_is_a_storage_error(arguments: list[str], store: Path) -> None:
    store.write_text("this is a letter to my aunt, not a database " * 100)
    run = onto(*arguments)
    assert run.code == (exits.UNHEALTHY if arguments == ["doctor"] else exits.STORAGE)
    assert "not a SQLite database" in run.err + run.out
    assert "Traceback" not in run.err


@pytest.mark.parametrize("arguments", [["verify"], ["query", "entities", "Customer"]], ids=lambda a: a[0])
def test_a_torn_file_is_unhealthy_or_unreadable(arguments: list[str], store: Path) -> None:
    content = store.read_bytes()
    store.write_bytes(content[:8192] + b"\xa5" * (len(content) - 8192))
    run = onto(*arguments)
    assert run.code in {exits.UNHEALTHY, exits.STORAGE}
    assert "Traceback" not in run.err
    assert "bug" not in run.err


def test_a_newer_format_is_refused(store: Path) -> None:
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE store_meta SET value = 99 WHERE name = 'format'")
    connection.close()
    run = onto("info")
    assert run.code == exits.STORAGE
    assert run.err.startswith("error[format-version]: ")
    assert "Upgrade" in run.err


def test_a_directory_in_place_of_the_file_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = onto("info", "--db", tmp_path)
    assert run.code == exits.STORAGE
    assert "directory" in run.err


def test_another_database_is_not_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with sqlite3.connect("other.db") as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    run = onto("info", "--db", "other.db")
    assert run.code == exits.STORAGE
    assert "no store" in run.err


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux to make root obey permissions")
def test_a_store_that_may_only_be_read_can_be_read_but_not_written(store: Path, tmp_path: Path) -> None:
    (tmp_path / "Product.csv").write_text("sku,title\np9,New\n")
    store.chmod(0o444)
    tmp_path.chmod(0o555)
    before = sorted(path.name for path in tmp_path.iterdir())
    asked = program("query", "entities", "Customer", "--count", cwd=tmp_path, before=obey_permissions)
    assert (asked.code, asked.out) == (0, "3\n"), asked.err
    assert program("verify", cwd=tmp_path, before=obey_permissions).code == 0
    written = program("import", "Product.csv", cwd=tmp_path, before=obey_permissions)
    assert written.code == exits.STORAGE
    assert "writable" in written.err
    created = program("init", "--db", "new.db", cwd=tmp_path, before=obey_permissions)
    assert created.code == exits.STORAGE
    exported = program("export", "--output", "out", cwd=tmp_path, before=obey_permissions)
    assert exported.code == exits.STORAGE
    doctor = program("doctor", cwd=tmp_path, before=obey_permissions)
    assert "may not be written" in doctor.out
    for run in (written, created, exported):
        assert "Traceback" not in run.err
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    tmp_path.chmod(0o755)


def test_a_full_disk_is_said_and_nothing_of_the_commit_is_kept(store: Path, tmp_path: Path) -> None:
    (tmp_path / "Product.jsonl").write_text(
        "".join(f'{{"sku": "s{n}", "title": "{"x" * 200}"}}\n' for n in range(5000))
    )
    limit = store.stat().st_size + 100_000

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    run: Run = program("import", "Product.jsonl", cwd=tmp_path, before=fill)
    assert run.code == exits.STORAGE
    assert run.err.startswith("error[storage-backend]: ")
    assert "Traceback" not in run.err
    assert onto("info", "--json").json["head"] == 3
    assert onto("verify").code == 0


def test_another_writer_in_the_way_is_said_after_the_timeout(store: Path, tmp_path: Path) -> None:
    (tmp_path / "Product.csv").write_text("sku,title\np9,New\n")
    blocker = sqlite3.connect(store, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    run = onto("import", "Product.csv", env={"ONTOLOGIA_LOCK_TIMEOUT_MS": "50"})
    blocker.rollback()
    blocker.close()
    assert run.code == exits.FAILURE
    assert run.err.startswith("error[lock-contention]: ")
    assert "ONTOLOGIA_LOCK_TIMEOUT_MS" in run.err
    assert onto("import", "Product.csv").code == 0
