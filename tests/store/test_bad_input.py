"""Files that are not what they should be: each one gets its typed error, and nothing is created or harmed.

What every backend refuses in the same way is in the conformance suite.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from store.children import Item, ItemWithNote, Twin, open_items, write_batch

from ontologia import (
    ConfigError,
    FormatVersionError,
    IntegrityError,
    MigrationTokenError,
    OntologiaConfig,
    Ontology,
    StorageBackendError,
    StorageError,
    UninitializedStorageError,
)
from ontologia.testing.conformance.world import Customer

LOOKING: list[dict[str, Any]] = [{"create": False}, {"read_only": True}]
"""Ways of opening a store that must not make one."""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A closed store with one commit."""
    path = tmp_path / "onto.db"
    onto = open_items(str(path))
    write_batch(onto, "w", 1, rows=200)
    onto.close()
    return path


@pytest.fixture
def public_store() -> Iterator[Path]:
    """A closed store in a directory that everyone may look into and only its owner may write to."""
    with tempfile.TemporaryDirectory(prefix="ontologia-public-") as folder:
        Path(folder).chmod(0o755)
        path = Path(folder, "onto.db")
        onto = open_items(str(path))
        write_batch(onto, "w", 1, rows=200)
        onto.close()
        path.chmod(0o444)
        yield path


@contextmanager
def ordinary_user() -> Generator[None]:
    """Root may write everywhere; these tests are about those who may not."""
    if os.geteuid() != 0:
        pytest.skip("only root can play another user")
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def everything(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


@pytest.mark.parametrize("options", [{"create": False}, {"read_only": True}, {"create": False, "read_only": True}])
def test_a_missing_store_is_not_created_by_those_who_only_look(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(UninitializedStorageError):
        Ontology(tmp_path / "nothing.db", **options)
    assert everything(tmp_path) == []


def test_a_database_without_a_store_is_left_alone_by_those_who_only_look(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    for options in LOOKING:
        with pytest.raises(UninitializedStorageError):
            Ontology(path, **options)
    assert path.read_bytes() == before
    assert everything(tmp_path) == ["other.db"]


def test_a_database_of_others_may_be_shared(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    connection.close()
    write_batch(open_items(str(path)), "w", 1)
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT COUNT(*) FROM mine").fetchone() == (0,)
    connection.close()


def test_a_copy_that_lost_the_log_mode_gets_it_back(store: Path) -> None:
    copy = store.with_name("copy.db")
    connection = sqlite3.connect(store)
    connection.execute("VACUUM INTO ?", (str(copy),))
    connection.close()
    assert Ontology(copy, read_only=True).storage_info()["journal_mode"] == "delete"
    onto = open_items(str(copy))
    assert onto.storage_info()["journal_mode"] == "wal"
    assert write_batch(onto, "w", 2) == 2
    assert onto.verify() == []


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="nowhere"):
        Ontology(tmp_path / "nowhere" / "onto.db")
    assert everything(tmp_path) == []


def test_a_directory_is_not_a_store(tmp_path: Path) -> None:
    for options in ({}, *LOOKING):
        with pytest.raises(StorageError, match="directory"):
            Ontology(tmp_path, **options)


@pytest.mark.parametrize("content", [b"hello, this is no database at all" * 40, b"\x00" * 5000, b"SQLite format 3\x00"])
def test_a_file_that_is_no_database_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "letter.txt"
    path.write_bytes(content)
    with pytest.raises(StorageError, match="letter"):
        Ontology(path)
    assert path.read_bytes() == content


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    assert write_batch(open_items(str(path)), "w", 1) == 1


@pytest.mark.parametrize("keep", [0.9, 0.5, 0.1])
def test_a_truncated_file_is_reported_never_misread(store: Path, keep: float) -> None:
    content = store.read_bytes()
    store.write_bytes(content[: int(len(content) * keep) // 4096 * 4096 or 4096])
    with pytest.raises((StorageError, IntegrityError)) as caught:
        read_everything(store)
    assert str(store) in str(caught.value) or caught.value.commit_id


def read_everything(path: Path) -> None:
    """Every row and every hash; whatever verification finds is raised."""
    with open_items(str(path)) as onto:
        for cls in (Item, Twin):
            onto.query().entities(cls).collect()
        for finding in onto.verify():
            raise IntegrityError(finding.message, path=str(path), commit_id=finding.commit_id or 1)


@pytest.mark.parametrize("damage", ["'{'", "CAST(x'ff' AS TEXT)"])
def test_a_damaged_value_is_an_integrity_error(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "onto.db"
    with Ontology(path, entity_types=[Customer]) as onto, onto.session() as session:
        session.ensure(Customer(id="c", name="Carl"))
    connection = sqlite3.connect(path)
    column = [field.name for field in Customer.__spec__.fields].index("profile")
    connection.execute(f"UPDATE store_live_1_1 SET f{column} = {damage}")
    connection.commit()
    connection.close()
    with Ontology(path, entity_types=[Customer]) as onto:
        query = onto.query().entities(Customer)
        for read in (query.collect, query.first, lambda: query.get("c"), query.with_history().collect):
            with pytest.raises(IntegrityError):
                read()
        assert [finding.commit_id for finding in onto.verify() if finding.severity == "error"]


def test_a_newer_format_is_refused(store: Path) -> None:
    connection = sqlite3.connect(store)
    connection.execute("UPDATE store_meta SET value = 99 WHERE name = 'format'")
    connection.commit()
    connection.close()
    for options in ({}, LOOKING[1]):
        with pytest.raises(FormatVersionError) as caught:
            Ontology(store, **options)
        assert caught.value.found == 99


def test_a_file_of_others_can_be_read_and_not_written(public_store: Path) -> None:
    with ordinary_user():
        onto = Ontology(public_store, entity_types=[Item, Twin], read_only=True)
        assert onto.query().entities(Item).count() == 200
        assert onto.verify() == []
        session = onto.session()
        session.ensure(Item(id="x", writer="w", number=1))
        with pytest.raises(StorageBackendError):
            session.commit()
        onto.close()
    assert everything(public_store.parent) == ["onto.db"]


def test_writing_to_a_file_of_others_is_a_typed_error(public_store: Path) -> None:
    with ordinary_user(), pytest.raises(StorageBackendError):
        write_batch(open_items(str(public_store)), "w", 2)
    assert open_items(str(public_store)).head() == 1


def test_a_new_store_in_a_directory_of_others_is_a_typed_error(public_store: Path) -> None:
    with ordinary_user(), pytest.raises(StorageBackendError, match="new"):
        Ontology(public_store.with_name("new.db"))


@pytest.mark.parametrize("options", [{}, {"create": False}, {"read_only": True}])
def test_a_directory_that_may_not_be_looked_into_is_a_typed_error(store: Path, options: dict[str, Any]) -> None:
    store.parent.chmod(0o700)
    with ordinary_user(), pytest.raises(StorageBackendError):
        Ontology(store, **options)


def test_reading_leaves_no_file_behind(store: Path) -> None:
    onto = Ontology(store, entity_types=[Item], read_only=True)
    assert onto.query().entities(Item).count() == 200
    onto.close()
    assert everything(store.parent) == ["onto.db"]


def test_a_stale_token_is_refused(store: Path) -> None:
    newer = Ontology(store, entity_types=[ItemWithNote])
    token = newer.migrate().token
    write_batch(open_items(str(store)), "w", 2)
    with pytest.raises(MigrationTokenError):
        newer.migrate(apply=True, token=token)


@pytest.mark.parametrize(
    "binding",
    [
        {"db_path": "sqlite:///x.db"},
        {"storage_uri": "x.db"},
        {"storage_uri": "postgres://x"},
        {"storage_uri": "sqlite://"},
        {"storage_uri": "sqlite:///"},
        {"db_path": "a.db", "storage_uri": "sqlite:///b.db"},
    ],
)
def test_a_binding_that_makes_no_sense_is_a_config_error(
    binding: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError):
        Ontology(**binding)
    assert everything(tmp_path) == []


def test_bindings_name_the_same_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_batch(open_items("onto.db"), "w", 1)
    absolute = f"sqlite:////{str(tmp_path).lstrip('/')}/onto.db"
    assert Ontology().head() == 1
    assert Ontology(storage_uri="sqlite:///onto.db").head() == 1
    assert Ontology(storage_uri=absolute).head() == 1
    assert Ontology("onto.db", storage_uri=absolute).head() == 1
    assert Ontology(config=OntologiaConfig(db="onto.db")).head() == 1
    monkeypatch.setenv("ONTOLOGIA_STORAGE_URI", absolute)
    assert Ontology().head() == 1


def test_a_name_with_odd_characters_is_a_name(tmp_path: Path) -> None:
    for name in ("a b.db", "q?mode=ro.db", "h#sh.db", "100%.db", "ünï.db"):
        write_batch(open_items(str(tmp_path / name)), "w", 1)
        assert (tmp_path / name).exists()
