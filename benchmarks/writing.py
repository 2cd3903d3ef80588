"""Lines about writing: objects, bulk tables, unchanged rows, small commits."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measure import Result, fact, race, rate, seconds, within
from workload import MARKS, Person, Row, Sizes, arrow, fresh, objects, people, raw_file, raw_insert, raw_table

from ontologia import Ontology


def write_objects(folder: Path, sizes: Sizes) -> Iterator[Result]:
    """Objects exist before the clock starts, and so do the tuples of the other side."""
    rows = people(sizes.entities)
    things = objects(Person, rows)

    def ours() -> float:
        with Ontology(fresh(folder, "ours.db"), entity_types=[Person]) as onto:
            return seconds(lambda: _commit(onto, things))

    times = race(ours, lambda: _raw_insert(folder, rows), sizes.rounds)
    yield rate("write.objects", f"{sizes.entities:,} objects, one commit", times, 0.25)


def _commit(onto: Ontology, things: Any) -> None:
    with onto.session() as session:
        session.ensure(things)


def _raw_insert(folder: Path, rows: list[Row]) -> float:
    with raw_file(fresh(folder, "raw.db")) as connection:
        raw_table(connection, "people", clustered=True)
        return seconds(lambda: raw_insert(connection, "people", rows))


def _bulk(onto: Ontology, data: Any) -> int | None:
    with onto.session() as session:
        session.ensure_rows(Person, data)
        return session.commit()


def write_bulk(folder: Path, sizes: Sizes) -> Iterator[Result]:
    """From an Arrow table in memory to one commit."""
    rows = people(sizes.bulk)
    data = arrow(rows)

    def ours() -> float:
        with Ontology(fresh(folder, "ours.db"), entity_types=[Person]) as onto:
            return seconds(lambda: _bulk(onto, data))

    times = race(ours, lambda: _raw_insert(folder, rows), min(sizes.rounds, 3))
    yield rate("write.bulk", f"{sizes.bulk:,} rows from Arrow, one commit", times, 0.5)
    peak = child("import", str(fresh(folder, "ours.db")), str(sizes.bulk))["peak_mb"]
    yield fact(
        "write.memory", "  its peak memory, Arrow table included", f"{peak:.0f} MB", "< 1 GB", passed=peak < 1000
    )


def child(*arguments: str) -> dict[str, float]:
    """Run a piece of work in a process of its own, and get what it measured."""
    script = Path(__file__).with_name("alone.py")
    done = subprocess.run([sys.executable, str(script), *arguments], check=True, capture_output=True, text=True)  # noqa: S603 - our own script
    return json.loads(done.stdout)


def reconcile_unchanged(folder: Path, sizes: Sizes) -> Iterator[Result]:
    """The same table again, against the commit that first wrote it."""
    rows = people(sizes.entities)
    data = arrow(rows)
    first: list[float] = []

    def ours() -> float:
        with Ontology(fresh(folder, "ours.db"), entity_types=[Person]) as onto:
            first.append(seconds(lambda: _bulk(onto, data)))
            again = seconds(lambda: _bulk(onto, data))
            assert onto.head() == 1, "unchanged rows make no commit"
            return again

    again, raw = race(ours, lambda: _raw_insert(folder, rows), sizes.rounds)
    inserting = min(first)
    faster = inserting / again
    work, note = f"{sizes.entities:,} unchanged rows, ensure_rows", "raw: inserting them by ensure_rows"
    figure = f"{faster:.1f}x"
    yield Result("write.unchanged", work, again, inserting, "s", figure, ">= 3x", faster >= 3, note)
    yield within("write.unchanged.raw", "  the same against raw executemany", (again, raw), None)


def small_commits(folder: Path, sizes: Sizes) -> Iterator[Result]:
    """One row per commit, each on the disk before the next."""
    rows = people(sizes.commits)
    things = objects(Person, rows)

    def ours() -> float:
        with Ontology(fresh(folder, "ours.db"), entity_types=[Person]) as onto:
            return seconds(lambda: [_commit(onto, thing) for thing in things])

    def raw() -> float:
        with raw_file(fresh(folder, "raw.db")) as connection:
            raw_table(connection, "people", clustered=True)

            def one_by_one() -> None:
                for row in rows:
                    connection.execute("BEGIN IMMEDIATE")
                    connection.execute(f"INSERT INTO people VALUES ({MARKS})", row)
                    connection.execute("COMMIT")

            return seconds(one_by_one)

    yield rate("write.commits", f"{sizes.commits:,} one-row commits", race(ours, raw, sizes.rounds), 0.5)
