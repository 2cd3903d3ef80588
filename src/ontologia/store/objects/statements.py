"""Plans as DuckDB statements over the Parquet files of a type.

Conditions stand directly on the scanned columns, so that the scan skips what they rule out. Superseded rows are taken
away by an anti join with the latest commit of each updated identity, which reads no other columns and no file without
updates. Where files lie is the engine's business (`Relation`), which files there are the snapshot's (`FilesOf`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ontologia.query.duckdb import DUCKDB
from ontologia.query.plan import Aggregation, Lookup, Mode, Scan, Window
from ontologia.query.predicates import Order, Predicate, Ref, Side
from ontologia.query.sql import NEVER, ColumnOf, Sql, compile_order, compile_predicate
from ontologia.query.sqlaggregates import AggregatePlan, compile_aggregates
from ontologia.store.catalog import Catalog, SchemaVersion, StoredType, wide_names
from ontologia.store.objects import pruning
from ontologia.store.objects.columns import COMMIT, IDENTITY, UPDATE, VERSION, FileColumns, columns_of, quoted
from ontologia.store.objects.records import DataFile
from ontologia.store.rows import Row


class Relation(Protocol):
    """A table expression with the rows of some files, all columns by name.

    Rows of the files `among` which they were chosen may come too, where that is cheaper than leaving them out.
    """

    def __call__(self, files: Sequence[DataFile], among: Sequence[DataFile] = ()) -> Sql: ...


FilesOf = Callable[[StoredType, SchemaVersion, Window], tuple[DataFile, ...]]
"""The files of one schema version that a window may show rows of, oldest first."""
_ALL_COMMITS = 2**62


@dataclass(frozen=True, slots=True)
class _Keys:
    """Only rows with these values in some identity columns."""

    positions: tuple[int, ...]
    values: tuple[tuple[str, ...], ...]
    """For each column its values; together, the values at one place are one row's."""

    @classmethod
    def of(cls, spec_identity: Sequence[str], lookup: Lookup | None) -> _Keys | None:
        return None if lookup is None else cls((spec_identity.index(lookup.column),), (lookup.values,))

    def files(self, files: tuple[DataFile, ...]) -> tuple[DataFile, ...]:
        for position, values in zip(self.positions, self.values, strict=True):
            files = pruning.with_keys(files, position, values)
        return files

    def condition(self, identity: Sequence[str], alias: str) -> Sql:
        """However many values there are, each column takes one parameter; DuckDB makes a filter of the scan of it."""
        names = [f"{alias}.{quoted(identity[position])}" for position in self.positions]
        if len(self.values[0]) == 1:
            return Sql(" AND ".join(f"{name} = ?" for name in names), tuple(value for (value,) in self.values))
        unnested = ", ".join(["unnest(?)"] * len(names))
        return Sql(f"({', '.join(names)}) IN (SELECT {unnested})", tuple(map(list, self.values)))


@dataclass(frozen=True, slots=True)
class _Source:
    """Rows of one schema version of a type in a window."""

    columns: FileColumns
    version: int
    files: tuple[DataFile, ...]
    relation: Relation
    low: int = 0
    high: int = _ALL_COMMITS
    every: bool = False
    """Every version of a row, not only the last one."""
    keys: _Keys | None = None

    def rows(self, alias: str, where: Predicate | None = None) -> _Rows:
        """The rows behind FROM and WHERE; `where` only serves to leave out files, the caller adds its condition."""
        files = self.files if self.keys is None else self.keys.files(self.files)
        scanned = files if where is None else pruning.matching(files, self.columns, where)
        if not scanned:
            return _Rows(self._nothing(alias), empty=True)
        # What was left out does not pass the conditions, so it does no harm.
        table = self.relation(scanned, self.files) + Sql(f" AS {alias}")
        hiding = () if self.every else pruning.superseding(files, scanned)
        if hiding:
            since = min(one.min_commit_id for one in scanned)
            table += Sql(" ANTI JOIN (") + self._latest(hiding, since) + Sql(f") AS s ON {self._superseded(alias)}")
        return _Rows(table, self._conditions(scanned, alias, self.low))

    def _nothing(self, alias: str) -> Sql:
        cells = ", ".join(f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in self.columns.types.items())
        return Sql(f"(SELECT {cells} WHERE FALSE) AS {alias}")

    def _latest(self, hiding: Sequence[DataFile], since: int) -> Sql:
        """Identities that were updated, with the last commit that did so."""
        identity = self.columns.identity_list("u")
        updates = Sql(f"u.{quoted(UPDATE)} IS NOT FALSE")
        conditions = _joined([updates, *self._conditions(hiding, "u", max(since, self.low))])
        select = Sql(f"SELECT {identity}, max(u.{quoted(COMMIT)}) AS latest FROM ") + self.relation(hiding)
        return select + Sql(" AS u WHERE ") + conditions + Sql(f" GROUP BY {identity}")

    def _superseded(self, alias: str) -> str:
        same = [f"s.{quoted(name)} = {alias}.{quoted(name)}" for name in self.columns.identity]
        return " AND ".join([*same, f"s.latest > {alias}.{quoted(COMMIT)}"])

    def _conditions(self, files: Sequence[DataFile], alias: str, low: int) -> list[Sql]:
        """What keeps to the window, the version and the keys; only where the files reach beyond."""
        found: list[Sql] = []
        if any(one.min_commit_id <= low for one in files):
            found.append(Sql(f"{alias}.{quoted(COMMIT)} > ?", (low,)))
        if any(one.max_commit_id > self.high for one in files):
            found.append(Sql(f"{alias}.{quoted(COMMIT)} <= ?", (self.high,)))
        if any(one.schema_version_id is None for one in files):
            found.append(Sql(f"{alias}.{quoted(VERSION)} = ?", (self.version,)))
        if self.keys is not None:
            found.append(self.keys.condition(self.columns.identity, alias))
        return found


@dataclass(frozen=True, slots=True)
class _Rows:
    """A table expression and the conditions that go with it."""

    table: Sql
    conditions: list[Sql] = field(default_factory=list[Sql])
    empty: bool = False

    def clause(self, *more: Sql) -> Sql:
        """FROM and WHERE."""
        terms = [*self.conditions, *more]
        return Sql(" FROM ") + self.table + (Sql(" WHERE ") + _joined(terms) if terms else Sql(""))


def _joined(terms: Sequence[Sql]) -> Sql:
    return Sql(" AND ".join(one.text for one in terms), tuple(param for one in terms for param in one.params))


@dataclass(frozen=True, slots=True)
class _View:
    """One moment of a store: its head, which files there are, and how they are read."""

    files_of: FilesOf
    relation: Relation
    head: int

    def source(
        self, stored: StoredType, version: SchemaVersion, window: Window, lookup: Lookup | None = None
    ) -> _Source:
        every = window.mode is Mode.HISTORY
        return _Source(
            columns_of(version.spec),
            version.version,
            self.files_of(stored, version, window),
            self.relation,
            window.low if every else 0,
            self.head if window.last is None else min(window.last, self.head),
            every,
            _Keys.of(version.spec.identity, lookup),
        )


def _of_files(stored: StoredType, files: Sequence[DataFile], relation: Relation, keys: _Keys | None = None) -> _Source:
    """All that some files have of the current version."""
    return _Source(columns_of(stored.spec), stored.current.version, tuple(files), relation, keys=keys)


def scan_statement(  # noqa: PLR0917 - what is asked, then where to look
    catalog: Catalog, stored: StoredType, scan: Scan, files_of: FilesOf, relation: Relation, head: int
) -> Sql | None:
    """A whole scan: `(commit_id, *physical row)` of everything it finds; None when no file has any."""
    view = _View(files_of, relation, head)
    source = view.source(stored, stored.current, scan.window, scan.lookup)
    condition = _condition(catalog, stored, scan, view)
    rows = source.rows("t", scan.where)
    if rows.empty:
        return None
    return Sql(f"SELECT {source.columns.projection()}") + rows.clause(*condition) + _ordered(stored, scan)


def aggregate_statement(  # noqa: PLR0917 - what is asked, then where to look
    catalog: Catalog, stored: StoredType, aggregation: Aggregation, files_of: FilesOf, relation: Relation, head: int
) -> tuple[Sql, AggregatePlan]:
    """Figures over a scan, and how to read them. Without any file it is a statement over no rows."""
    scan = aggregation.scan
    texts = columns_of(stored.spec).texts
    plan = compile_aggregates(
        aggregation.aggregates,
        aggregation.group,
        aggregation.having,
        dialect=DUCKDB,
        column=_columns_of(stored),
        wide=stored.wide,
        exact=lambda ref: f"t.{quoted(texts[ref.field])}",
        rank=_rank(stored, scan.order),
    )
    view = _View(files_of, relation, head)
    source = view.source(stored, stored.current, scan.window, scan.lookup)
    rows = source.rows("t", scan.where).clause(*_condition(catalog, stored, scan, view))
    if scan.sliced:
        rows = Sql(" FROM (SELECT t.*") + rows + _ordered(stored, scan) + Sql(") AS t")
    grouped = Sql(f" GROUP BY {plan.group_by}") if plan.group_by else Sql("")
    return Sql("SELECT ") + plan.select + rows + grouped, plan


def raw_statement(  # noqa: PLR0917 - what is asked, then where to look
    stored: StoredType,
    version: SchemaVersion,
    window: Window,
    lookup: Lookup | None,
    files_of: FilesOf,
    relation: Relation,
    head: int,
) -> Sql | None:
    """`(commit_id, *physical row)` of one schema version in its own layout, in order of commit and identity."""
    source = _View(files_of, relation, head).source(stored, version, window, lookup)
    rows = source.rows("t")
    if rows.empty:
        return None
    order = f" ORDER BY t.{quoted(COMMIT)}, {source.columns.identity_list()}"
    return Sql(f"SELECT {source.columns.projection()}") + rows.clause() + Sql(order)


def identities_statement(stored: StoredType, files: Sequence[DataFile], relation: Relation) -> Sql:
    """Every identity in some files, with the last commit that wrote it."""
    source = _of_files(stored, files, relation)
    identity = source.columns.identity_list()
    return Sql(f"SELECT {identity}, t.{quoted(COMMIT)}") + source.rows("t").clause()


def current_statement(
    stored: StoredType, files: Sequence[DataFile], relation: Relation, identities: Sequence[Row]
) -> Sql | None:
    """`(commit_id, *physical row)` of the last row of each of these identities, in identity order."""
    if not identities:
        return None
    width = len(stored.spec.identity)
    keys = _Keys(tuple(range(width)), tuple(zip(*identities, strict=True)))
    source = _of_files(stored, files, relation, keys)
    rows = source.rows("t")
    if rows.empty:
        return None
    return Sql(f"SELECT {source.columns.projection()}") + rows.clause() + _by_identity(source)


def ordered_statement(stored: StoredType, files: Sequence[DataFile], relation: Relation) -> Sql:
    """`(commit_id, *physical row)` of the last row of every identity, in identity order."""
    source = _of_files(stored, files, relation)
    return Sql(f"SELECT {source.columns.projection()}") + source.rows("t").clause() + _by_identity(source)


def _by_identity(source: _Source) -> Sql:
    return Sql(f" ORDER BY {source.columns.identity_list()}")


def changes_statement(file: DataFile, commit_id: int, relation: Relation) -> Sql:
    """What one commit wrote into a file: each identity, and whether it replaced an earlier row."""
    names = ", ".join(f"t.{quoted(name)}" for name in (*IDENTITY[file.kind], UPDATE))
    rows = _Rows(relation((file,)) + Sql(" AS t"))
    written = [Sql(f"t.{quoted(COMMIT)} = ?", (commit_id,))] if file.is_snapshot else []
    return Sql(f"SELECT {names}") + rows.clause(*written)


def _ordered(stored: StoredType, scan: Scan) -> Sql:
    statement = Sql(" ORDER BY ") + _rank(stored, scan.order)
    if scan.limit is not None:
        statement += Sql(" LIMIT ?", (scan.limit,))
    return statement + Sql(" OFFSET ?", (scan.offset,)) if scan.offset else statement


def _rank(stored: StoredType, orders: tuple[Order, ...]) -> Sql:
    """The order of a scan as terms: its own, then commit and identity."""
    last = Sql(f"t.{quoted(COMMIT)}, {columns_of(stored.spec).identity_list()}")
    if not orders:
        return last
    first = compile_order(orders, dialect=DUCKDB, column=_columns_of(stored), wide=stored.wide)
    return first + Sql(", ") + last


def _columns_of(stored: StoredType) -> ColumnOf:
    compared = columns_of(stored.spec).compared
    return lambda ref: f"t.{quoted(compared[ref.field])}"


def _condition(catalog: Catalog, stored: StoredType, scan: Scan, view: _View) -> tuple[Sql, ...]:
    """The predicate of a scan. One on an end holds when some version of it in the window passes."""
    if scan.where is None:
        return ()
    ends = catalog.ends(stored)
    own = _columns_of(stored)

    def column(ref: Ref) -> str:
        if ref.side == "self":
            return own(ref)
        end = ends[ref.side]
        return "NULL" if end is None else f"e.{quoted(columns_of(end.spec).compared[ref.field])}"

    def endpoint(side: Side, test: Sql) -> Sql:
        end = ends[side]
        if end is None:
            return NEVER
        rows = view.source(end, end.current, scan.window).rows("e")
        if rows.empty:
            return NEVER
        key = quoted(IDENTITY["entity"][0])
        # Not correlated, so that it is one join with the ends that pass, whose scan has the test as its filter.
        return Sql(f"t.{quoted(f'{side}_key')} IN (SELECT e.{key}") + rows.clause(test) + Sql(")")

    wide = wide_names(stored, ends)
    return (compile_predicate(scan.where, dialect=DUCKDB, column=column, endpoint=endpoint, wide=wide),)
