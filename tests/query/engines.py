"""Two real engines with tables of the wide type, so that tests can ask them what they ask the reference evaluator."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import duckdb

from ontologia.model.physical import INT64_MAX, Column, layout, to_physical
from ontologia.model.spec import Kind, TypeSpec
from ontologia.query import duckdb as duckdb_dialect
from ontologia.query import sqlite as sqlite_dialect
from ontologia.query.aggregates import Having, NamedAggregates
from ontologia.query.duckdb import COLUMN_TYPES, DUCKDB
from ontologia.query.predicates import Order, Predicate, Ref, Side
from ontologia.query.sql import Dialect, Sql, compile_order, compile_predicate
from ontologia.query.sqlaggregates import compile_aggregates
from ontologia.query.sqlite import SQLITE
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


class Connection(Protocol):
    def execute(self, query: str, parameters: Any = ..., /) -> Any: ...


class Engine:
    """One engine holding rows, the versions of their ends, and nothing else."""

    def __init__(self, connection: Connection, dialect: Dialect, types: dict[Kind, str], spec: TypeSpec = WIDE) -> None:
        self.connection = connection
        self.dialect = dialect
        self.spec = spec
        self.layout = layout(spec)
        columns = ", ".join(f"{column.name} {self._type(column, types)}" for column in self.layout.columns)
        connection.execute(f"CREATE TABLE rows (number INTEGER, {columns})")
        connection.execute(f"CREATE TABLE ends (number INTEGER, side TEXT, {columns})")
        self.wide: frozenset[str] = frozenset()

    @staticmethod
    def _type(column: Column, types: dict[Kind, str]) -> str:
        return types[column.kind]

    def load(self, rows: Sequence[Row], left: Ends = (), right: Ends = ()) -> None:
        self.connection.execute("DELETE FROM rows")
        self.connection.execute("DELETE FROM ends")
        self._insert("rows", [(number, *self._physical(row)) for number, row in enumerate(rows)])
        for side, ends in (("left", left), ("right", right)):
            versions = [(number, side, *self._physical(row)) for number, end in enumerate(ends) for row in end]
            self._insert("ends", versions)
        wide = {field for row in rows for field in self._beyond(row)}
        for side, ends in (("left", left), ("right", right)):
            wide |= {f"{side}.{field}" for end in ends for row in end for field in self._beyond(row)}
        self.wide = frozenset(wide)

    def _beyond(self, row: Row) -> list[str]:
        ints = [f.name for f in self.spec.fields if f.kind is Kind.INT and row[f.name] is not None]
        return [name for name in ints if abs(row[name]) > INT64_MAX]

    def _physical(self, row: Row) -> tuple[Any, ...]:
        values = [row[field.name] for field in self.spec.fields]
        return to_physical(self.spec, (row["id"],), values)

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
        """Numbers of the rows that pass."""
        where = self.condition(predicate)
        found = self.connection.execute(f"SELECT number FROM rows WHERE {where.text} ORDER BY number", where.params)
        return [number for (number,) in found.fetchall()]

    def sort(self, orders: Sequence[Order]) -> list[int]:
        """Numbers of all rows in order."""
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


@contextmanager
def sqlite_engine() -> Generator[Engine]:
    connection = sqlite3.connect(":memory:")
    sqlite_dialect.register_functions(connection)
    try:
        yield Engine(connection, SQLITE, SQLITE_TYPES)
    finally:
        connection.close()


@contextmanager
def duckdb_engine() -> Generator[Engine]:
    connection = duckdb.connect(":memory:", config={"threads": 1})
    duckdb_dialect.register_functions(connection)
    try:
        yield Engine(connection, DUCKDB, COLUMN_TYPES)
    finally:
        connection.close()
