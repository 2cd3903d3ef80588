"""Plans as SQLite statements over the live and past tables.

A window becomes a range of `seq`, found by one look at `store_marks`; rows of a window come in order of `seq`, which
is the order of commits and identities. Only current-version rows are selected here; older versions are read raw.
"""

from __future__ import annotations

import json
from functools import lru_cache

from ontologia.model.physical import Layout, layout
from ontologia.query.plan import Aggregation, Lookup, Mode, Scan, Window
from ontologia.query.predicates import Order, Predicate, Ref, Side
from ontologia.query.sql import NEVER, ColumnOf, Sql, compile_order, compile_predicate
from ontologia.query.sqlaggregates import AggregatePlan, compile_aggregates
from ontologia.query.sqlite import SQLITE, SqliteDialect
from ontologia.store.catalog import Catalog, SchemaVersion, StoredType, wide_names
from ontologia.store.sqlite.tables import column_list, live_table, past_table

_SEQ_AFTER = "(SELECT next_seq FROM store_marks WHERE type_id = ? AND commit_id <= ? ORDER BY commit_id DESC LIMIT 1)"
_ALL = 2**63 - 1
MISSING_TABLE = "no such table: store_"
"""How SQLite's message begins when a table of ours is gone: the catalog that named it is old."""


@lru_cache(maxsize=1024)
def point_statement(stored: StoredType) -> str:
    """The current row of one entity by its key."""
    return f"SELECT commit_id, {column_list(layout(stored.spec))} FROM {live_table(stored)} WHERE key = ?"


@lru_cache(maxsize=1024)
def count_statement(stored: StoredType) -> str:
    """The number of current rows, as the last commit that touched the type left it.

    It names the live table, though it needs no row of it, so that it fails when the catalog is old.
    """
    return (
        f"SELECT live_rows FROM store_marks WHERE type_id = ? AND EXISTS (SELECT 1 FROM {live_table(stored)})"
        " ORDER BY commit_id DESC LIMIT 1"
    )


def scan_statement(catalog: Catalog, stored: StoredType, scan: Scan) -> Sql:
    """A whole scan: `commit_id` and the physical row of everything it finds."""
    columns = column_list(layout(stored.spec), "t")
    return Sql(f"SELECT t.commit_id, {columns}") + _from(catalog, stored, scan)


def aggregate_statement(
    catalog: Catalog, stored: StoredType, aggregation: Aggregation, dialect: SqliteDialect
) -> tuple[Sql, AggregatePlan]:
    """Figures over a scan, and how to read them."""
    scan = aggregation.scan
    plan = compile_aggregates(
        aggregation.aggregates,
        aggregation.group,
        aggregation.having,
        dialect=dialect,
        column=_columns_of(stored),
        wide=stored.wide,
    )
    if scan.sliced:
        inner = Sql("SELECT t.*") + _from(catalog, stored, scan)
        rows = Sql(" FROM (") + inner + Sql(") AS t")
    else:
        rows = Sql(" FROM ") + source(stored, scan.window) + Sql(" AS t") + _conditions(catalog, stored, scan)
    grouped = Sql(f" GROUP BY {plan.group_by}") if plan.group_by else Sql("")
    return Sql("SELECT ") + plan.select + rows + grouped, plan


def _from(catalog: Catalog, stored: StoredType, scan: Scan) -> Sql:
    statement = Sql(" FROM ") + source(stored, scan.window) + Sql(" AS t") + _conditions(catalog, stored, scan)
    statement += Sql(" ORDER BY ") + _order(stored, scan.order)
    if scan.sliced:
        statement += Sql(" LIMIT ? OFFSET ?", (_ALL if scan.limit is None else scan.limit, scan.offset))
    return statement


def _order(stored: StoredType, orders: tuple[Order, ...]) -> Sql:
    if not orders:
        return Sql("t.seq")
    return compile_order(orders, dialect=SQLITE, column=_columns_of(stored), wide=stored.wide) + Sql(", t.seq")


def source(stored: StoredType, window: Window) -> Sql:
    """The current-version rows that a window shows, as a table expression."""
    live = live_table(stored)
    if window.mode is Mode.LATEST:
        return Sql(live)
    rows = version_rows(stored, stored.current, window, layout(stored.spec))
    return Sql("(") + rows + Sql(")")


def version_rows(stored: StoredType, version: SchemaVersion, window: Window, shape: Layout) -> Sql:
    """Rows of one version in a window: `seq`, `commit_id` and the physical row."""
    columns = f"seq, commit_id, {column_list(shape)}"
    bounds = _bounds(stored, window)
    if window.mode is Mode.LATEST:
        return Sql(f"SELECT {columns} FROM {live_table(stored)}")
    past = Sql(f"SELECT {columns} FROM {past_table(stored, version)} WHERE ") + bounds
    if window.mode is Mode.AS_OF:
        past += Sql(" AND ended > ?", (window.last,))
    if version.version != stored.current.version:
        return past
    return Sql(f"SELECT {columns} FROM {live_table(stored)} WHERE ") + bounds + Sql(" UNION ALL ") + past


def _bounds(stored: StoredType, window: Window) -> Sql:
    """The window as a condition on `seq`."""
    condition = Sql("1")
    if window.low > 0:
        condition = Sql(f"seq >= COALESCE({_SEQ_AFTER}, 1)", (stored.type_id, window.low))
    if window.last is not None:
        condition += Sql(f" AND seq < COALESCE({_SEQ_AFTER}, 0)", (stored.type_id, window.last))
    return condition


def _conditions(catalog: Catalog, stored: StoredType, scan: Scan) -> Sql:
    terms: list[Sql] = []
    if scan.lookup is not None:
        terms.append(lookup_condition(scan.lookup, "t."))
    if scan.where is not None:
        terms.append(_predicate(catalog, stored, scan.where, scan.window))
    if not terms:
        return Sql("")
    joined = terms[0] if len(terms) == 1 else terms[0] + Sql(" AND ") + terms[1]
    return Sql(" WHERE ") + joined


def lookup_condition(lookup: Lookup, prefix: str) -> Sql:
    """One of these values in an identity column; one parameter however many there are."""
    if len(lookup.values) == 1:
        return Sql(f"{prefix}{lookup.column} = ?", lookup.values)
    # SQLite cuts JSON text off at a NUL character, so the rare values that have one are bound by themselves.
    cut = tuple(value for value in lookup.values if "\x00" in value)
    listed = json.dumps([value for value in lookup.values if "\x00" not in value], ensure_ascii=False)
    apart = f" UNION ALL VALUES {', '.join(['(?)'] * len(cut))}" if cut else ""
    return Sql(f"{prefix}{lookup.column} IN (SELECT value FROM json_each(?){apart})", (listed, *cut))


def _predicate(catalog: Catalog, stored: StoredType, where: Predicate, window: Window) -> Sql:
    ends = catalog.ends(stored)
    own = _columns_of(stored)

    def column(ref: Ref) -> str:
        if ref.side == "self":
            return own(ref)
        end = ends[ref.side]
        return "NULL" if end is None else f"e.{layout(end.spec).main[ref.field]}"

    def endpoint(side: Side, test: Sql) -> Sql:
        end = ends[side]
        if end is None:
            return NEVER
        found = Sql("EXISTS (SELECT 1 FROM ") + source(end, window)
        return found + Sql(f" AS e WHERE e.key = t.{side}_key AND ") + test + Sql(")")

    wide = wide_names(stored, ends)
    return compile_predicate(where, dialect=SQLITE, column=column, endpoint=endpoint, wide=wide)


def _columns_of(stored: StoredType) -> ColumnOf:
    main = layout(stored.spec).main
    return lambda ref: f"t.{main[ref.field]}"
