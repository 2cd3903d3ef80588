"""What is stored and read: the types, the rows, and the same rows in tables written by hand.

The raw side gets what makes it fastest: tuples ready-made, keys in order, the cheapest table for the work, and the same
journal, durability and cache as ours.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ontologia import Entity, Field, Relation

Row = tuple[Any, ...]

COLUMNS = "id, name, tier, country, score, balance, email"
DEFINITIONS = (
    "id TEXT NOT NULL, name TEXT NOT NULL, tier TEXT NOT NULL, country TEXT NOT NULL,"
    " score INTEGER NOT NULL, balance REAL NOT NULL, email TEXT"
)
MARKS = "?, ?, ?, ?, ?, ?, ?"
_COUNTRIES = ("CH", "DE", "FR", "IT", "AT", "NL", "SE")


class Person(Entity):
    id: Field[str] = Field(primary_key=True)
    name: Field[str]
    tier: Field[str]
    country: Field[str]
    score: Field[int]
    balance: Field[float]
    email: Field[str | None] = Field(default=None)


class Member(Entity):
    """A person whose tier is indexed."""

    id: Field[str] = Field(primary_key=True)
    name: Field[str]
    tier: Field[str] = Field(index=True)
    country: Field[str]
    score: Field[int]
    balance: Field[float]
    email: Field[str | None] = Field(default=None)


class Team(Entity):
    id: Field[str] = Field(primary_key=True)
    name: Field[str]


class Joined(Relation[Member, Team]):
    since: Field[int]


class PartOf(Relation[Team, Team]):
    weight: Field[int]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much work each line does."""

    entities: int = 100_000
    bulk: int = 1_000_000
    commits: int = 1_000
    lookups: int = 5_000
    versions: int = 10
    edges: int = 100_000
    sources: int = 1_000
    rounds: int = 5

    def quick(self) -> Sizes:
        """Enough to see that every line runs; too little to judge by."""
        return replace(
            self, entities=2_000, bulk=10_000, commits=40, lookups=200, versions=4, edges=9_000, sources=50, rounds=1
        )


def people(number: int, version: int = 0, start: int = 0) -> list[Row]:
    """Rows in key order; a later version changes every one of them. One in ten is Gold."""
    return [
        (
            f"p{n:07d}",
            f"Person number {n}",
            "Gold" if n % 10 == 3 else "Standard",
            _COUNTRIES[n % 7],
            n % 1000 + version,
            n * 0.25,
            f"person{n}@example.org" if n % 3 else None,
        )
        for n in range(start, start + number)
    ]


def objects(cls: type[Any], rows: list[Row]) -> list[Any]:
    """The rows as objects of a class."""
    names = [name.strip() for name in COLUMNS.split(",")]
    return [cls(**dict(zip(names, row, strict=True))) for row in rows]


def arrow(rows: list[Row]) -> Any:
    """The rows as an Arrow table."""
    import pyarrow as pa

    names = [name.strip() for name in COLUMNS.split(",")]
    kinds = [pa.string(), pa.string(), pa.string(), pa.string(), pa.int64(), pa.float64(), pa.string()]
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    return pa.table(columns, names=names)


@contextmanager
def raw_file(path: Path) -> Generator[sqlite3.Connection]:
    """A database set up as ours is: WAL, every commit on the disk, the same page cache."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA cache_size = -65536")
        yield connection
    finally:
        connection.close()


def raw_table(connection: sqlite3.Connection, name: str, *, clustered: bool) -> None:
    """A table of people; clustered by key it is one tree, which is the least to write and to look a key up in."""
    if clustered:
        connection.execute(f"CREATE TABLE {name} ({DEFINITIONS}, PRIMARY KEY (id)) WITHOUT ROWID")
    else:
        connection.execute(f"CREATE TABLE {name} ({DEFINITIONS}, PRIMARY KEY (id))")


def raw_insert(connection: sqlite3.Connection, name: str, rows: list[Row]) -> None:
    """Every row in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(f"INSERT INTO {name} VALUES ({MARKS})", rows)
    connection.execute("COMMIT")


def fresh(folder: Path, name: str) -> Path:
    """A path in the folder where no database is."""
    for suffix in ("", "-wal", "-shm"):
        (folder / f"{name}{suffix}").unlink(missing_ok=True)
    return folder / name
