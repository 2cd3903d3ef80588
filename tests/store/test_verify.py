"""Whatever is changed in a file behind the store's back is found, and the commit it belongs to is named.

Every value of every table is changed in turn, rows are taken out and put in, commits swapped, and bytes of the raw
file flipped.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ontologia import IntegrityError, OntologiaError, Ontology, StorageError
from ontologia.store.protocol import Finding
from ontologia.testing.conformance.world import (
    START,
    Account,
    AccountWithCurrency,
    Customer,
    Person,
    Product,
    Sample,
    Subscription,
    put,
)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six commits with live and past rows, every kind of value, a relation, two schema versions and a dropped type."""
    path = tmp_path_factory.mktemp("verify") / "onto.db"
    with Ontology(path, entity_types=[Account, Sample, Customer, Product], relation_types=[Subscription]) as onto:
        put(
            onto,
            Account(id="a", owner="Anna", balance=1),
            Account(id="b", owner="Bert", balance=2),
            Sample(id="s", whole=10**30, real=1.5, exact=Decimal("1.50"), moment=START, blob=b"x", anything={"a": 1}),
            Customer(id="c", name="Carl"),
            Product(sku="p", title="Pen"),
        )
        session = onto.session()
        session.ensure([Account(id="a", owner="Anna", balance=3), Sample(id="s", whole=5)])
        session.ensure(Subscription(left_key="c", right_key="p", seats=1))
        session.commit(meta={"source": "crm"})
        put(onto, Subscription(left_key="c", right_key="p", seats=2))
    with Ontology(path, entity_types=[AccountWithCurrency]) as onto:
        onto.migrate(apply=True, force=True)
        put(onto, AccountWithCurrency(id="a", owner="Anna", balance=9))
    with Ontology(path, entity_types=[Person]) as onto:
        put(onto, Person(id="x", name="X"))
        onto.drop_type("entity", "Person", apply=True, token=onto.drop_type("entity", "Person").token)
    return path


@pytest.fixture
def copy(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(original, tmp_path / "copy.db"))


def findings(path: Path) -> list[Finding]:
    """Errors that verification finds; a store too damaged to open is one."""
    try:
        with Ontology(path) as onto:
            return [finding for finding in onto.verify() if finding.severity == "error"]
    except (IntegrityError, StorageError) as error:
        return [Finding("error", error.kind, error.message)]


def change(path: Path, statement: str, *parameters: Any) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA synchronous = OFF")
        assert connection.execute(statement, parameters).rowcount > 0


def others(value: Any) -> list[Any]:
    """Values that a cell might be changed to."""
    match value:
        case None:
            return ["x"]
        case int():
            return [value - 1 if value > 0 else value + 1, f"{value}x"]
        case float():
            return [value + 1]
        case bytes():
            return [value + b"!"]
        case _:
            return [f"{value}!"]


def cells(path: Path) -> Iterator[tuple[str, str, list[str], tuple[Any, ...], Any]]:
    """Every cell of every table: table, column, key columns, key, value."""
    with closing(sqlite3.connect(path)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        for table in names:
            columns = [(name, key) for _, name, _, _, _, key in connection.execute(f"PRAGMA table_info({table})")]
            keys = [name for name, key in columns if key]
            for row in connection.execute(f"SELECT * FROM {table}").fetchall():
                named = {name: value for (name, _), value in zip(columns, row, strict=True)}
                for name, value in named.items():
                    yield table, name, keys, tuple(named[key] for key in keys), value


def test_a_store_that_nobody_touched_has_no_findings(copy: Path) -> None:
    with Ontology(copy) as onto:
        assert onto.verify() == []


def test_every_changed_cell_is_found(original: Path, tmp_path: Path) -> None:
    missed: list[str] = []
    tried = 0
    for number, (table, column, keys, key, value) in enumerate(cells(original)):
        for at, other in enumerate(others(value)):
            path = Path(shutil.copy(original, tmp_path / f"{number}-{at}.db"))
            condition = " AND ".join(f"{name} = ?" for name in keys)
            try:
                change(path, f"UPDATE {table} SET {column} = ? WHERE {condition}", other, *key)
            except sqlite3.IntegrityError:
                continue
            tried += 1
            if not findings(path):
                missed.append(f"{table}.{column} of {key}: {value!r} became {other!r}")
            path.unlink()
    assert tried > 300
    assert not missed


NAMED: list[tuple[str, int, Callable[[dict[str, str]], str]]] = [
    ("a current row", 5, lambda t: f"UPDATE {t['account']} SET f2 = f2 + 1 WHERE key = 'a'"),
    ("a past row of the present version", 4, lambda t: f"UPDATE {t['account past']} SET f1 = 'Eve'"),
    ("a past row of an old version", 2, lambda t: f"UPDATE {t['account v1']} SET f2 = 99 WHERE commit_id = 2"),
    ("the exact text of a decimal", 1, lambda t: f"UPDATE {t['sample past']} SET f5x = '1.5'"),
    ("the digits of a wide integer", 1, lambda t: f"UPDATE {t['sample past']} SET big = replace(big, '0', '1')"),
    ("where a past row ends", 1, lambda t: f"UPDATE {t['account v1']} SET ended = 3 WHERE commit_id = 1 AND key = 'a'"),
    ("which commit wrote a row", 3, lambda t: f"UPDATE {t['subscription']} SET commit_id = 2"),
    ("a row that is missing", 3, lambda t: f"DELETE FROM {t['subscription']}"),
    ("a past row that is missing", 1, lambda t: f"DELETE FROM {t['sample past']}"),
    (
        "the metadata of a commit",
        2,
        lambda _: 'UPDATE store_commits SET metadata = \'{"source":"erp"}\' WHERE commit_id = 2',
    ),
    ("the runtime of a commit", 3, lambda _: "UPDATE store_commits SET runtime_id = 'eve' WHERE commit_id = 3"),
    ("the time of a commit", 4, lambda _: "UPDATE store_commits SET created_at = created_at + 1 WHERE commit_id = 4"),
    ("the parent of a commit", 3, lambda _: "UPDATE store_commits SET parent_commit_id = 1 WHERE commit_id = 3"),
    (
        "the hash of a commit",
        2,
        lambda _: "UPDATE store_commits SET commit_sha256 = lower(hex(zeroblob(32))) WHERE commit_id = 2",
    ),
    ("a commit that is missing", 3, lambda _: "DELETE FROM store_commits WHERE commit_id = 2"),
]


def tables(path: Path) -> dict[str, str]:
    """The tables of these types, by what they hold."""
    with closing(sqlite3.connect(path)) as connection:
        types = {
            name.lower(): (number, generation)
            for number, name, generation in connection.execute("SELECT type_id, name, generation FROM store_types")
        }
    account, sample, subscription = types["account"], types["sample"], types["subscription"]
    return {
        "account": f"store_live_{account[0]}_{account[1]}",
        "account past": f"store_past_{account[0]}_v2",
        "account v1": f"store_past_{account[0]}_v1",
        "sample past": f"store_past_{sample[0]}_v1",
        "subscription": f"store_live_{subscription[0]}_{subscription[1]}",
    }


@pytest.mark.parametrize(("what", "commit", "make"), NAMED, ids=[one[0] for one in NAMED])
def test_the_commit_that_a_change_belongs_to_is_named(
    copy: Path, what: str, commit: int, make: Callable[[dict[str, str]], str]
) -> None:
    change(copy, make(tables(copy)))
    found = findings(copy)
    assert commit in {finding.commit_id for finding in found}, f"{what}: {found}"
    assert any(str(commit) in finding.message for finding in found)


def test_an_added_row_is_found(copy: Path) -> None:
    live = tables(copy)["account"]
    change(copy, f"INSERT INTO {live} SELECT seq + 100, commit_id, 'eve', f1, f2, f3, big FROM {live} WHERE key = 'a'")
    assert "rows-added" in {finding.code for finding in findings(copy)}


def test_an_added_past_row_is_found(copy: Path) -> None:
    past = tables(copy)["account v1"]
    change(
        copy, f"INSERT INTO {past} SELECT seq + 100, commit_id, key, f1, f2, big, ended FROM {past} WHERE commit_id = 2"
    )
    assert findings(copy)


def test_an_added_commit_is_found(copy: Path) -> None:
    change(
        copy,
        "INSERT INTO store_commits SELECT commit_id + 1, commit_id, created_at, runtime_id, metadata, parts,"
        " commit_sha256 FROM store_commits ORDER BY commit_id DESC LIMIT 1",
    )
    assert 7 in {finding.commit_id for finding in findings(copy)}


def test_swapped_commits_are_found(copy: Path) -> None:
    for statement in ("= -1 WHERE commit_id = 2", "= 2 WHERE commit_id = 3", "= 3 WHERE commit_id = -1"):
        change(copy, f"UPDATE store_commits SET commit_id {statement}")
    assert {finding.commit_id for finding in findings(copy)} >= {2, 3}


def test_swapped_rows_are_found(copy: Path) -> None:
    past = tables(copy)["account v1"]
    with closing(sqlite3.connect(copy)) as connection, connection:
        rows = connection.execute(f"SELECT seq, f1, f2 FROM {past} WHERE commit_id = 1 ORDER BY seq").fetchall()
        (first, *first_values), (second, *second_values) = rows
        connection.execute(f"UPDATE {past} SET f1 = ?, f2 = ? WHERE seq = ?", (*second_values, first))
        connection.execute(f"UPDATE {past} SET f1 = ?, f2 = ? WHERE seq = ?", (*first_values, second))
    assert 1 in {finding.commit_id for finding in findings(copy)}


def test_a_missing_last_commit_is_found_by_what_it_left(copy: Path) -> None:
    change(copy, "DELETE FROM store_commits WHERE commit_id = 6")
    assert findings(copy)


def test_dangling_ends_are_warnings_that_list_keys(copy: Path) -> None:
    with Ontology(copy, entity_types=[Customer, Product], relation_types=[Subscription]) as onto:
        put(onto, *(Subscription(left_key=f"ghost{number}", right_key="p", seats=1) for number in range(9)))
        found = onto.verify()
    assert [(finding.severity, finding.details["count"]) for finding in found] == [("warning", 9)]
    assert "ghost0" in found[0].message


@pytest.mark.parametrize("seed", range(60))
def test_a_flipped_bit_in_the_file_is_found_or_harmless(original: Path, tmp_path: Path, seed: int) -> None:
    """A bit that no finding tells of must lie where nothing is stored: every answer is still the same."""
    dice = random.Random(seed)
    path = Path(shutil.copy(original, tmp_path / "flipped.db"))
    content = bytearray(path.read_bytes())
    at = dice.randrange(100, len(content))
    content[at] ^= 1 << dice.randrange(8)
    path.write_bytes(content)
    try:
        if not findings(path):
            assert answers(path) == answers(original)
    except OntologiaError:
        pass


def answers(path: Path) -> list[Any]:
    """What a store says when asked for everything."""
    types: dict[str, Any] = {
        "entity_types": [AccountWithCurrency, Sample, Customer, Product],
        "relation_types": [Subscription],
    }
    with Ontology(path, **types, read_only=True) as onto:
        query = onto.query()
        rows = [list(query.entities(cls).with_history().rows()) for cls in types["entity_types"]]
        return [rows, list(query.relations(Subscription).with_history().rows()), onto.list_commits()]
