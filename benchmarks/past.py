"""Lines about the past: getting a key whatever its history, states in between, one key's history, walking all of it."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from measure import Result, fact, race, seconds, within
from workload import (
    COLUMNS,
    DEFINITIONS,
    MARKS,
    Person,
    Row,
    Sizes,
    arrow,
    fresh,
    objects,
    people,
    raw_file,
    raw_insert,
    raw_table,
)
from writing import child

from ontologia import Ontology


def long_history(folder: Path, sizes: Sizes) -> Iterator[Result]:
    """The same keys with one version each, then with many."""
    rows = people(sizes.entities)
    path = fresh(folder, "ours.db")
    some = random.Random(7)  # a fixed choice, so that runs are alike
    keys = [some.choice(rows)[0] for _ in range(sizes.lookups)]
    with Ontology(path, entity_types=[Person]) as onto, raw_file(fresh(folder, "raw.db")) as raw:
        raw_table(raw, "people", clustered=True)
        raw_insert(raw, "people", rows)
        _history_table(raw)
        _add_version(onto, raw, sizes, 0)
        short = race(_gets(onto, keys), _selects(raw, keys), sizes.rounds)
        yield within("get.short", f"get(key), {sizes.entities:,} history rows", short, 6)
        for version in range(1, sizes.versions):
            _add_version(onto, raw, sizes, version)
        written = sizes.entities * sizes.versions
        long = race(_gets(onto, keys), _selects(raw, keys), sizes.rounds)
        yield within("get.long", f"get(key), {written:,} history rows", long, 6)
        growth = long[0] / short[0]
        yield fact("get.flat", "  growth of get(key) with history", f"{growth:.2f}x", "<= 1.3x", passed=growth <= 1.3)
        yield from _one_key(onto, raw, keys, sizes)
    found = child("iterate", str(path))
    grown = found["peak_mb"] / found["half_mb"]
    work = f"iterate {found['rows']:,.0f} history rows: memory"
    note = f"peak {found['half_mb']:.0f} MB halfway, {found['peak_mb']:.0f} MB at the end"
    yield fact("history.memory", work, f"{grown:.2f}x", "<= 1.1x", note, passed=grown <= 1.1)


def _history_table(raw: sqlite3.Connection) -> None:
    raw.execute(
        f"CREATE TABLE history ({DEFINITIONS}, commit_id INTEGER NOT NULL, PRIMARY KEY (id, commit_id)) WITHOUT ROWID"
    )


def _add_version(onto: Ontology, raw: sqlite3.Connection, sizes: Sizes, version: int) -> None:
    rows = people(sizes.entities, version)
    with onto.session() as session:
        session.ensure_rows(Person, arrow(rows))
    _add_history(raw, rows, version + 1)
    raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _add_history(raw: sqlite3.Connection, rows: list[Row], commit_id: int) -> None:
    raw.execute("BEGIN IMMEDIATE")
    raw.executemany(f"INSERT INTO history VALUES ({MARKS}, ?)", [(*row, commit_id) for row in rows])
    raw.execute("COMMIT")


def _gets(onto: Ontology, keys: list[str]) -> Callable[[], float]:
    def all_of_them() -> None:
        for key in keys:
            onto.query().entities(Person).get(key)

    return lambda: seconds(all_of_them) / len(keys)


def _selects(raw: sqlite3.Connection, keys: list[str]) -> Callable[[], float]:
    statement = f"SELECT {COLUMNS} FROM people WHERE id = ?"

    def all_of_them() -> None:
        for key in keys:
            raw.execute(statement, (key,)).fetchone()

    return lambda: seconds(all_of_them) / len(keys)


def _one_key(onto: Ontology, raw: sqlite3.Connection, keys: list[str], sizes: Sizes) -> Iterator[Result]:
    statement = f"SELECT {COLUMNS}, commit_id FROM history WHERE id = ? ORDER BY commit_id"
    few = keys[:100]

    def ours() -> float:
        people_then = onto.query().entities(Person).with_history()
        return seconds(lambda: [people_then.where(Person.id == key).collect() for key in few]) / len(few)

    def by_hand() -> float:
        return seconds(lambda: [raw.execute(statement, (key,)).fetchall() for key in few]) / len(few)

    query = onto.query().entities(Person).with_history().where(Person.id == few[0])
    assert len(query.collect()) == sizes.versions
    times = race(ours, by_hand, sizes.rounds)
    written = sizes.entities * sizes.versions
    plan = query.explain().plan
    scans = [step for step in plan if step.startswith("SCAN") and "store_" in step]
    note = "plan: " + "; ".join(scans or [step for step in plan if "SEARCH" in step])
    figure = f"{times[0] * 1e3:.2f} ms"
    passed = times[0] < 0.005 and not scans
    work = f"one key's history of {written:,}"
    yield Result("history.key", work, *times, "s", figure, "< 5 ms", passed, note)


def halfway(folder: Path, sizes: Sizes) -> Iterator[Result]:
    """The state in the middle of many commits, each of which changes one row in a hundred."""
    keys = sizes.entities // 10
    per_commit = max(keys // 100, 1)
    some = random.Random(11)  # as above
    middle = sizes.commits // 2
    with Ontology(fresh(folder, "ours.db"), entity_types=[Person]) as onto, raw_file(fresh(folder, "raw.db")) as raw:
        _history_table(raw)
        _commit(onto, raw, people(keys), 1)
        for commit_id in range(2, sizes.commits + 1):
            rows = [people(1, commit_id, n)[0] for n in sorted(some.sample(range(keys), per_commit))]
            _commit(onto, raw, rows, commit_id)
        raw.execute("CREATE INDEX history_by_commit ON history (commit_id)")
        raw.execute("ANALYZE")
        yield from _states(onto, raw, middle, keys, sizes)


def _commit(onto: Ontology, raw: sqlite3.Connection, rows: list[Row], commit_id: int) -> None:
    with onto.session() as session:
        session.ensure(objects(Person, rows))
    _add_history(raw, rows, commit_id)


def _states(onto: Ontology, raw: sqlite3.Connection, middle: int, keys: int, sizes: Sizes) -> Iterator[Result]:
    query = onto.query().entities(Person).as_of(middle)
    # The quickest of the ways to write it: SQLite takes the other columns from the row that has the maximum.
    plain = f"SELECT {COLUMNS}, MAX(commit_id) FROM history WHERE commit_id <= ? GROUP BY id"
    expected = {row[0]: row[4] for row in raw.execute(plain, (middle,))}
    assert {one.id: one.score for one in query.collect()} == expected
    assert len(expected) == keys
    rounds = sizes.rounds * 3

    def by_hand() -> float:
        return seconds(lambda: raw.execute(plain, (middle,)).fetchall())

    work = f"as_of({middle}) of {sizes.commits:,} commits, {keys:,} rows"
    note = "raw: MAX(commit_id) per id on a plain history table"
    yield within("as_of.plain", work, race(lambda: seconds(query.collect), by_hand, rounds), 2, note)
    with sqlite3.connect(onto.storage_info()["path"]) as own:
        statement = _on_our_tables(own)

        def on_ours() -> float:
            return seconds(lambda: own.execute(statement, {"at": middle}).fetchall())

        assert len(own.execute(statement, {"at": middle}).fetchall()) == keys
        note = "raw: hand-written SQL on the tables of the store"
        times = race(lambda: seconds(query.collect), on_ours, rounds)
        yield within("as_of.objects", "  the same as objects", times, 2, note)
        times = race(lambda: seconds(query.to_arrow), on_ours, rounds)
        yield within("as_of.arrow", "  the same, to_arrow()", times, 2)
        counted = f"SELECT COUNT(*) FROM ({statement})"
        times = race(
            lambda: seconds(query.count),
            lambda: seconds(lambda: own.execute(counted, {"at": middle}).fetchall()),
            rounds,
        )
        yield within("as_of.count", "  the same, count()", times, 2)
    own.close()


def _on_our_tables(own: sqlite3.Connection) -> str:
    """What a person who knows the layout would write."""
    names = [name for (name,) in own.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    live = next(name for name in names if name.startswith("store_live_"))
    gone = next(name for name in names if name.startswith("store_past_"))
    columns = "key, f1, f2, f3, f4, f5, f6, commit_id"
    return (
        f"SELECT {columns} FROM {live} WHERE commit_id <= :at"
        f" UNION ALL SELECT {columns} FROM {gone} WHERE commit_id <= :at AND ended > :at"
    )
