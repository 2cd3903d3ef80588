"""Two real engines with rows of the wide type, so that tests can ask them what they ask the reference evaluator.

SQLite holds them in tables. DuckDB reads them from Parquet files, as relations between entities that have the same
fields: they are written and asked for by the very code that the store on object storage uses.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import duckdb

from ontologia.model.physical import INT64_MAX, layout, to_physical
from ontologia.model.spec import FieldSpec, Kind, TypeSpec
from ontologia.query import duckdb as duckdb_dialect
from ontologia.query import sqlite as sqlite_dialect
from ontologia.query.aggregates import Having, NamedAggregates
from ontologia.query.duckdb import DUCKDB
from ontologia.query.plan import Aggregation, Mode, Scan, Window
from ontologia.query.predicates import Order, Predicate, Ref, Side
from ontologia.query.sql import Dialect, Sql, compile_order, compile_predicate
from ontologia.query.sqlaggregates import compile_aggregates
from ontologia.query.sqlite import SQLITE
from ontologia.store.catalog import Catalog, SchemaVersion, StoredType
from ontologia.store.objects.parquet import FileBuilder
from ontologia.store.objects.records import DataFile
from ontologia.store.objects.statements import aggregate_statement, scan_statement
from ontologia.testing.strategies import WIDE

Row = dict[str, Any]
Ends = Sequence[Sequence[Row]]

SQLITE_TYPES = {
    Kind.TEXT: "TEXT",
    Kind.INT: "INTEGER",
    Kind.FLOAT: "REAL",
    Kind.BOOL: "INTEGER",
    Kind.DECIMAL: "TEXT",
    Kind.DATETIME: "INTEGER",
    Kind.DATE: "TEXT",
    Kind.TIME: "INTEGER",
    Kind.BYTES: "BLOB",
    Kind.JSON: "TEXT",
}


class Engine(Protocol):
    """One engine holding rows, the versions of their ends, and nothing else."""

    dialect: Dialect

    def load(self, rows: Sequence[Row], left: Ends = (), right: Ends = ()) -> None:
        """Hold these, and only these."""
        ...

    def condition(self, predicate: Predicate) -> Sql | None:
        """The SQL, for messages."""
        ...

    def filter(self, predicate: Predicate) -> list[int]:
        """Numbers of the rows that pass."""
        ...

    def sort(self, orders: Sequence[Order]) -> list[int]:
        """Numbers of all rows in order."""
        ...

    def aggregate(
        self, aggregates: NamedAggregates, group: Sequence[Ref] = (), having: Having | None = None
    ) -> list[dict[str, Any]]: ...


def beyond(row: Row) -> list[str]:
    """Fields of a row with ints beyond 64 bits."""
    ints = [f.name for f in WIDE.fields if f.kind is Kind.INT and row[f.name] is not None]
    return [name for name in ints if abs(row[name]) > INT64_MAX]


class SqliteEngine:
    """Tables of physical rows."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.dialect: Dialect = SQLITE
        self.layout = layout(WIDE)
        columns = ", ".join(f"{column.name} {SQLITE_TYPES[column.kind]}" for column in self.layout.columns)
        connection.execute(f"CREATE TABLE rows (number INTEGER, {columns})")
        connection.execute(f"CREATE TABLE ends (number INTEGER, side TEXT, {columns})")
        self.wide: frozenset[str] = frozenset()

    def load(self, rows: Sequence[Row], left: Ends = (), right: Ends = ()) -> None:
        self.connection.execute("DELETE FROM rows")
        self.connection.execute("DELETE FROM ends")
        self._insert("rows", [(number, *self._physical(row)) for number, row in enumerate(rows)])
        for side, ends in (("left", left), ("right", right)):
            versions = [(number, side, *self._physical(row)) for number, end in enumerate(ends) for row in end]
            self._insert("ends", versions)
        wide = {field for row in rows for field in beyond(row)}
        for side, ends in (("left", left), ("right", right)):
            wide |= {f"{side}.{field}" for end in ends for row in end for field in beyond(row)}
        self.wide = frozenset(wide)

    @staticmethod
    def _physical(row: Row) -> tuple[Any, ...]:
        return to_physical(WIDE, (row["id"],), [row[field.name] for field in WIDE.fields])

    def _insert(self, table: str, records: list[tuple[Any, ...]]) -> None:
        if records:
            marks = ", ".join(f"({', '.join('?' * len(record))})" for record in records)
            self.connection.execute(
                f"INSERT INTO {table} VALUES {marks}", [cell for record in records for cell in record]
            )

    def column(self, ref: Ref) -> str:
        table = "rows" if ref.side == "self" else "ends"
        return f"{table}.{self.layout.main[ref.field]}"

    @staticmethod
    def endpoint(side: Side, leaf: Sql) -> Sql:
        start = f"EXISTS (SELECT 1 FROM ends WHERE ends.number = rows.number AND ends.side = '{side}' AND "
        return Sql(start) + leaf + Sql(")")

    def condition(self, predicate: Predicate) -> Sql:
        return compile_predicate(
            predicate, dialect=self.dialect, column=self.column, endpoint=self.endpoint, wide=self.wide
        )

    def filter(self, predicate: Predicate) -> list[int]:
        where = self.condition(predicate)
        found = self.connection.execute(f"SELECT number FROM rows WHERE {where.text} ORDER BY number", where.params)
        return [number for (number,) in found.fetchall()]

    def sort(self, orders: Sequence[Order]) -> list[int]:
        terms = compile_order(orders, dialect=self.dialect, column=self.column, wide=self.wide)
        by = f"{terms.text}, number" if terms.text else "number"
        found = self.connection.execute(f"SELECT number FROM rows ORDER BY {by}", terms.params)
        return [number for (number,) in found.fetchall()]

    def aggregate(
        self, aggregates: NamedAggregates, group: Sequence[Ref] = (), having: Having | None = None
    ) -> list[dict[str, Any]]:
        plan = compile_aggregates(aggregates, group, having, dialect=self.dialect, column=self.column, wide=self.wide)
        by = f" GROUP BY {plan.group_by}" if plan.group_by else ""
        found = self.connection.execute(f"SELECT {plan.select.text} FROM rows{by}", plan.select.params)
        return plan.result(found.fetchall())


LINK = TypeSpec(
    "relation",
    "Link",
    (FieldSpec("id", "str", Kind.TEXT, instance_key=True), *WIDE.fields[1:]),
    left="LeftWide",
    right="RightWide",
)
_END_FIELDS = (
    FieldSpec("end", "str", Kind.TEXT, primary_key=True),
    FieldSpec("id", "str", Kind.TEXT),
    *WIDE.fields[1:],
)
LEFT, RIGHT = (TypeSpec("entity", name, _END_FIELDS) for name in ("LeftWide", "RightWide"))
HISTORY = Window(Mode.HISTORY)
"""Every version of an end counts, and there is no other version of a row."""


def stored_type(spec: TypeSpec, wide: frozenset[str] = frozenset()) -> StoredType:
    """A type as a store that has one version of it knows it."""
    return StoredType(1, spec.kind, spec.name, 1, wide, (SchemaVersion(1, spec, 1, datetime(2026, 1, 1, tzinfo=UTC)),))


class ParquetEngine:
    """Files that a `FileBuilder` made, read by the statements of the store."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
        self.connection = connection
        self.folder = folder
        self.dialect: Dialect = DUCKDB
        self.loads = 0
        self.files: dict[str, list[DataFile]] = {}
        self.catalog = Catalog()
        self.physical: list[tuple[Any, ...]] = []

    def load(self, rows: Sequence[Row], left: Ends = (), right: Ends = ()) -> None:
        self.loads += 1
        for path in self.folder.iterdir():
            path.unlink()
        wide = {"Link": rows, "LeftWide": [row for end in left for row in end]}
        wide["RightWide"] = [row for end in right for row in end]
        self.files = {name: [] for name in wide}
        types = [
            stored_type(spec, frozenset(f for row in wide[spec.name] for f in beyond(row)))
            for spec in (LINK, LEFT, RIGHT)
        ]
        self.catalog = Catalog({(one.kind, one.name): one for one in types})
        self.physical = [
            to_physical(LINK, (f"l{number:05d}", f"r{number:05d}", row["id"]), [row[f.name] for f in LINK.fields])
            for number, row in enumerate(rows)
        ]
        half = len(rows) // 2
        self._write(LINK, 1, self.physical[:half])
        self._write(LINK, 2, self.physical[half:])
        self._write_ends(LEFT, "l", left)
        self._write_ends(RIGHT, "r", right)

    def _write_ends(self, spec: TypeSpec, side: str, ends: Ends) -> None:
        """One commit for the first version of every end, one for the second, and so on."""
        for age in range(max((len(end) for end in ends), default=0)):
            self._write(
                spec,
                age + 1,
                [
                    to_physical(spec, (key,), [(end[age] | {"end": key})[field.name] for field in spec.fields])
                    for key, end in ((f"{side}{number:05d}", end) for number, end in enumerate(ends))
                    if age < len(end)
                ],
            )

    def _write(self, spec: TypeSpec, commit_id: int, rows: list[tuple[Any, ...]]) -> None:
        builder = FileBuilder(spec, 1, commit_id)
        builder.add(rows)
        made = builder.finish()
        if made is not None:
            path = self.folder / f"{self.loads}-{spec.name}-{commit_id}.parquet"
            path.write_bytes(made.data)
            file = DataFile(spec.kind, spec.name, str(path), commit_id, commit_id, made.row_count, 1)
            known = replace(file, updated=made.updated, min_key=made.min_key, max_key=made.max_key, stats=made.stats)
            self.files[spec.name].append(known)

    def files_of(self, stored: StoredType, _version: SchemaVersion, _window: Window) -> tuple[DataFile, ...]:
        return tuple(self.files[stored.name])

    @staticmethod
    def relation(files: Sequence[DataFile], among: Sequence[DataFile] = ()) -> Sql:
        del among
        return Sql("read_parquet(?, union_by_name = true)", ([file.path for file in files],))

    def _scan(self, scan: Scan) -> Sql | None:
        stored = self.catalog.get("relation", "Link")
        return scan_statement(self.catalog, stored, scan, self.files_of, self.relation, 2)

    def condition(self, predicate: Predicate) -> Sql | None:
        return self._scan(Scan("relation", "Link", HISTORY, predicate))

    def _numbers(self, scan: Scan) -> Iterator[int]:
        statement = self._scan(scan)
        if statement is None:
            return
        for row in self.connection.execute(statement.text, statement.params).fetchall():
            number = int(row[1][1:])
            wanted = self.physical[number]
            assert row[1:] == wanted, (row[1:], wanted)
            assert list(map(type, row[1:])) == list(map(type, wanted)), (row[1:], wanted)
            yield number

    def filter(self, predicate: Predicate) -> list[int]:
        return list(self._numbers(Scan("relation", "Link", HISTORY, predicate)))

    def sort(self, orders: Sequence[Order]) -> list[int]:
        return list(self._numbers(Scan("relation", "Link", HISTORY, order=tuple(orders))))

    def aggregate(
        self, aggregates: NamedAggregates, group: Sequence[Ref] = (), having: Having | None = None
    ) -> list[dict[str, Any]]:
        asked = Aggregation(Scan("relation", "Link", HISTORY), tuple(group), tuple(aggregates), having)
        stored = self.catalog.get("relation", "Link")
        statement, plan = aggregate_statement(self.catalog, stored, asked, self.files_of, self.relation, 2)
        return plan.result(self.connection.execute(statement.text, statement.params).fetchall())


@contextmanager
def sqlite_engine() -> Generator[SqliteEngine]:
    connection = sqlite3.connect(":memory:")
    sqlite_dialect.register_functions(connection)
    try:
        yield SqliteEngine(connection)
    finally:
        connection.close()


@contextmanager
def duckdb_engine() -> Generator[ParquetEngine]:
    connection = duckdb.connect(":memory:", config={"threads": 1})
    duckdb_dialect.register_functions(connection)
    with tempfile.TemporaryDirectory() as folder:
        try:
            yield ParquetEngine(connection, Path(folder))
        finally:
            connection.close()
