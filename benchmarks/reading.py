"""Lines about reading the present: filters, tables, figures, and whether an index is used."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from measure import Result, fact, race, seconds, within
from workload import COLUMNS, Member, Row, Sizes, arrow, fresh, people, raw_file, raw_insert, raw_table

from ontologia import Ontology, count
from ontologia import sum as total


def read_present(folder: Path, sizes: Sizes) -> Iterator[Result]:
    """A store and a table of the same rows with the same index, asked the same questions."""
    rows = people(sizes.entities)
    with Ontology(fresh(folder, "ours.db"), entity_types=[Member]) as onto, raw_file(fresh(folder, "raw.db")) as raw:
        with onto.session() as session:
            session.ensure_rows(Member, arrow(rows))
        raw_table(raw, "people", clustered=False)
        raw_insert(raw, "people", rows)
        raw.execute("CREATE INDEX people_by_tier ON people (tier)")
        yield from _filters(onto, raw, rows, sizes)
        yield from _limited(onto, raw, sizes)
        yield from _figures(onto, raw, sizes)


def _filters(onto: Ontology, raw: sqlite3.Connection, rows: list[Row], sizes: Sizes) -> Iterator[Result]:
    members = onto.query().entities(Member)
    asked = (
        ("indexed", members.where(Member.tier == "Gold"), "tier = 'Gold'"),
        ("scanned", members.where(Member.score < 100), "score < 100"),
    )
    for name, query, condition in asked:
        statement = f"SELECT {COLUMNS} FROM people WHERE {condition}"
        found = raw.execute(statement).fetchall()
        assert [(one.id, one.email) for one in query.collect()] == [(row[0], row[6]) for row in sorted(found)]
        fetch = _run(lambda statement=statement: raw.execute(statement).fetchall())
        rounds = sizes.rounds * 3
        work = f"{name}: {len(found):,} of {len(rows):,} as objects"
        yield within(f"filter.{name}", work, race(_run(query.collect), fetch, rounds), 4)
        work = f"{name}: the same, to_arrow()"
        yield within(f"filter.{name}.arrow", work, race(_run(query.to_arrow), fetch, rounds), 1.5)


def _run(work: Callable[[], object]) -> Callable[[], float]:
    return lambda: seconds(work)


def _repeated(work: Callable[[], object], times: int) -> Callable[[], float]:
    """The mean of many, for what takes microseconds."""
    return lambda: seconds(lambda: [work() for _ in range(times)]) / times


def _limited(onto: Ontology, raw: sqlite3.Connection, sizes: Sizes) -> Iterator[Result]:
    query = onto.query().entities(Member).where(Member.tier == "Gold").limit(20)
    plan = query.explain().plan
    served = any("USING INDEX" in step for step in plan) and not any(step.startswith("SCAN") for step in plan)
    sorted_apart = any("TEMP B-TREE" in step for step in plan)
    work = "indexed filter, limit(20): index used"
    passed = served and not sorted_apart
    yield fact("limit.plan", work, "yes" if served else "no", "index", "; ".join(plan), passed=passed)
    statement = f"SELECT {COLUMNS} FROM people WHERE tier = ? LIMIT 20"
    by_hand = _repeated(lambda: raw.execute(statement, ("Gold",)).fetchall(), 200)
    times = race(_repeated(query.collect, 200), by_hand, sizes.rounds)
    yield within("limit.time", "  its time", times, None)


def _figures(onto: Ontology, raw: sqlite3.Connection, sizes: Sizes) -> Iterator[Result]:
    members = onto.query().entities(Member)
    gold = members.where(Member.tier == "Gold")
    asked: tuple[tuple[str, str, Callable[[], Any], str], ...] = (
        ("count", "count()", members.count, "SELECT COUNT(*) FROM people"),
        ("count_where", "count() of an indexed filter", gold.count, "SELECT COUNT(*) FROM people WHERE tier = 'Gold'"),
        (
            "sum",
            "sum of ints",
            lambda: members.agg(whole=total(Member.score)),
            "SELECT SUM(score) FROM people",
        ),
        (
            "sum_float",
            "sum of floats",
            lambda: members.agg(whole=total(Member.balance)),
            "SELECT SUM(balance) FROM people",
        ),
        (
            "group",
            "group_by, count and sum",
            lambda: members.group_by(Member.country).agg(n=count(), whole=total(Member.balance)),
            "SELECT country, COUNT(*), SUM(balance) FROM people GROUP BY country",
        ),
        (
            "group_indexed",
            "group_by an indexed field, count",
            lambda: members.group_by(Member.tier).agg(n=count()),
            "SELECT tier, COUNT(*) FROM people GROUP BY tier",
        ),
    )
    for name, work, ours, statement in asked:
        times = race(
            _repeated(ours, 3), _repeated(lambda sql=statement: raw.execute(sql).fetchall(), 3), sizes.rounds * 3
        )
        yield within(f"figures.{name}", f"{work} over {sizes.entities:,}", times, 1.5)
