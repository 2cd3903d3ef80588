"""The query a user writes: immutable builders that end in objects, figures or tables.

Each call gives a new builder; nothing is read before `collect()` and its relatives. How rows are found is left to the
`Source` that the store provides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from ontologia.errors import NotFoundError, QueryError
from ontologia.model.declare import Entity, Relation
from ontologia.query.aggregates import Aggregate, Having, check_having, count
from ontologia.query.check import (
    check_aggregates,
    check_concrete,
    check_has_order,
    check_moment,
    check_number,
    check_order,
    check_predicate,
    key_text,
)
from ontologia.query.expr import FieldExpr
from ontologia.query.plan import Aggregation, Lookup, Mode, Scan, Window
from ontologia.query.predicates import Order, Predicate, Ref
from ontologia.query.table import Tabular

if TYPE_CHECKING:
    from ontologia.query.traverse import Traversal

E = TypeVar("E", bound=Entity)
R = TypeVar("R", bound="Relation[Any, Any]")
T = TypeVar("T", bound="Entity | Relation[Any, Any]")


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a query would run."""

    sql: str
    parameters: tuple[Any, ...]
    plan: tuple[str, ...]
    native: bool
    note: str = ""

    def __str__(self) -> str:
        lines = [self.sql, *(f"-- {step}" for step in self.plan)]
        return "\n".join([*lines, f"-- {self.note}"] if self.note else lines)


class Source(Protocol):
    """What a builder needs from a store."""

    def objects(self, cls: type[T], scan: Scan) -> Iterator[T]: ...
    def get(self, cls: type[T], key: str) -> T | None: ...
    def raw(self, cls: type[Any], scan: Scan) -> Iterator[dict[str, Any]]: ...
    def arrow(self, cls: type[Any], scan: Scan, *, meta: bool) -> Any: ...
    def aggregate(self, cls: type[Any], aggregation: Aggregation) -> list[dict[str, Any]]: ...
    def explain(self, cls: type[Any], scan: Scan) -> Explanation: ...
    def traverse(self, cls: type[Any], scan: Scan, hops: tuple[Any, ...]) -> list[Any]: ...


@dataclass(frozen=True, slots=True)
class Query:
    """Where every question starts: `onto.query()`."""

    source: Source

    def entities(self, cls: type[E]) -> EntityQuery[E]:
        """Entities of a type."""
        if not (isinstance(cls, type) and issubclass(cls, Entity)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise QueryError(f"{cls!r} is not an entity class.", hint="Pass the class itself, e.g. entities(Customer).")
        check_concrete(cls)
        return EntityQuery(self.source, cls, Scan("entity", cls.__spec__.name))

    def relations(self, cls: type[R]) -> RelationQuery[R]:
        """Relations of a type, with both ends."""
        if not (isinstance(cls, type) and issubclass(cls, Relation)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise QueryError(f"{cls!r} is not a relation class.", hint="Pass the class, e.g. relations(Subscription).")
        check_concrete(cls)
        return RelationQuery(self.source, cls, Scan("relation", cls.__spec__.name))


@dataclass(frozen=True, repr=False)
class _Rows(Tabular, Generic[T]):
    source: Source
    cls: type[T]
    scan: Scan

    def where(self, *predicates: Predicate) -> Self:
        """Only rows for which every predicate holds; several calls add up."""
        scan = self.scan
        for predicate in predicates:
            check_predicate(self.cls, predicate)
            scan = scan.narrowed(predicate)
        return replace(self, scan=scan)

    def order_by(self, *criteria: FieldExpr[Any] | Order) -> Self:
        """Sort by these; ties, and queries without an order, go by commit and identity."""
        orders = tuple(check_order(self.cls, criterion) for criterion in criteria)
        for order in orders:
            check_has_order(self.cls, order.ref)
        return replace(self, scan=replace(self.scan, order=self.scan.order + orders))

    def limit(self, number: int) -> Self:
        """At most this many rows."""
        return replace(self, scan=replace(self.scan, limit=check_number("limit", number)))

    def offset(self, number: int) -> Self:
        """Leave out the first rows."""
        return replace(self, scan=replace(self.scan, offset=check_number("offset", number)))

    def as_of(self, moment: int | datetime) -> Self:
        """The state after a commit, or at a moment; a moment without a time zone is local time, as in Python."""
        if isinstance(moment, bool) or not isinstance(moment, (int, datetime)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise QueryError(f"as_of() takes a commit id or a datetime, not {moment!r}.")
        at = check_moment(moment) if isinstance(moment, datetime) else check_number("as_of", moment, signed=True)
        return self._window(Window(Mode.AS_OF, 0, at))

    def with_history(self) -> Self:
        """Every version of every row, oldest first."""
        return self._window(Window(Mode.HISTORY))

    def history_since(self, commit_id: int) -> Self:
        """Every version written after a commit."""
        return self._window(Window(Mode.HISTORY, max(check_number("history_since", commit_id, signed=True), 0)))

    def between(self, first: int, last: int) -> Self:
        """Every version written by the commits from `first` to `last`, both included."""
        low = check_number("between", first, signed=True)
        high = check_number("between", last, signed=True)
        return self._window(Window(Mode.HISTORY, max(low - 1, 0), high))

    def _window(self, window: Window) -> Self:
        if self.scan.window.mode is not Mode.LATEST:
            raise QueryError(
                f"This query already has a time window ({self.scan.window.describe()}).",
                hint="Use one of as_of, with_history, history_since and between.",
            )
        return replace(self, scan=replace(self.scan, window=window))

    def _one_version(self) -> None:
        if self.scan.window.mode is Mode.HISTORY:
            raise QueryError(
                f"In a history window a {self.scan.type_name} has many versions; get() gives one.",
                hint="Use as_of(...).get(...), or where(...).collect() for all versions.",
            )

    def __iter__(self) -> Iterator[T]:
        return self.source.objects(self.cls, self.scan)

    def collect(self) -> list[T]:
        """All rows as objects."""
        return list(self)

    def first(self) -> T | None:
        """The first row, or None."""
        limit = 1 if self.scan.limit is None else min(self.scan.limit, 1)
        return next(iter(replace(self, scan=replace(self.scan, limit=limit))), None)

    def one(self) -> T:
        """The only row; none or several are an error."""
        limit = 2 if self.scan.limit is None else min(self.scan.limit, 2)
        found = replace(self, scan=replace(self.scan, limit=limit)).collect()
        if len(found) != 1:
            some = "no row" if not found else "more than one row"
            raise NotFoundError(f"Expected one {self.scan.type_name}, found {some}.", hint="Use first() or collect().")
        return found[0]

    def count(self) -> int:
        """How many rows."""
        return self.source.aggregate(self.cls, Aggregation(self.scan, (), (("n", count()),)))[0]["n"]

    def exists(self) -> bool:
        """Whether there is any row."""
        return self.first() is not None

    def agg(self, **aggregates: Aggregate) -> dict[str, Any]:
        """Figures over all rows, by the names given."""
        pairs = check_aggregates(self.cls, aggregates)
        return self.source.aggregate(self.cls, Aggregation(self.scan, (), pairs))[0]

    def group_by(self, *fields: FieldExpr[Any]) -> Grouped:
        """Figures per group; follow with `agg`."""
        if not fields:
            raise QueryError("group_by() needs at least one field.")
        refs = tuple(check_order(self.cls, field).ref for field in fields)
        labels = [ref.label for ref in refs]
        for number, label in enumerate(labels):
            if label in labels[:number]:
                raise QueryError(
                    f"{refs[labels.index(label)]!r} and {refs[number]!r} would both be called {label!r} in the result.",
                    hint="Group by one of them.",
                )
        return Grouped(self.source, self.cls, self.scan, refs)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Rows as dicts of stored values, each in the schema version it was written in."""
        return self.source.raw(self.cls, self.scan)

    def to_arrow(self, *, meta: bool | None = None) -> Any:
        """A `pyarrow.Table` of the stored rows; `meta` adds commit and schema version (default: in history windows)."""
        wanted = self.scan.window.mode is Mode.HISTORY if meta is None else meta
        return self.source.arrow(self.cls, self.scan, meta=wanted)

    def explain(self) -> Explanation:
        """How the query would run: statement, parameters and the engine's plan."""
        return self.source.explain(self.cls, self.scan)

    def to_sql(self) -> str:
        """The statement the query runs."""
        return self.explain().sql

    def __repr__(self) -> str:
        scan = self.scan
        parts = [f"{'entities' if scan.kind == 'entity' else 'relations'}({scan.type_name})"]
        if scan.window.mode is not Mode.LATEST:
            parts.append(scan.window.describe())
        if scan.where is not None:
            parts.append(f"where({scan.where!r})")
        if scan.order:
            parts.append(f"order_by({', '.join(map(repr, scan.order))})")
        if scan.limit is not None:
            parts.append(f"limit({scan.limit})")
        if scan.offset:
            parts.append(f"offset({scan.offset})")
        return ".".join(parts)


class EntityQuery(_Rows[E]):
    """A question about entities of one type."""

    def get(self, key: object) -> E | None:
        """The entity with this key, or None."""
        text = key_text(self.cls, key)
        if self.scan == Scan("entity", self.scan.type_name):
            return self.source.get(self.cls, text)
        self._one_version()
        lookup = Lookup("key", (text,))
        return next(iter(replace(self, scan=replace(self.scan, lookup=lookup))), None)

    def via(
        self, relation: type[Relation[Any, Any]], *, where: Predicate | None = None, reverse: bool | None = None
    ) -> Traversal:
        """Follow a relation, from whichever side fits; `reverse` says which when both do."""
        from ontologia.query.traverse import Traversal

        return Traversal(self.source, self.cls, self.scan).via(relation, where=where, reverse=reverse)


class RelationQuery(_Rows[R]):
    """A question about relations of one type; `left(R)` and `right(R)` reach the ends."""

    def get(self, left_key: object, right_key: object, instance_key: str | None = None) -> R | None:
        """The relation between two keys (and of an instance, when it has one), or None."""
        field = self.cls.__spec__.key_field
        if (field is None) != (instance_key is None):
            name = self.scan.type_name
            says = "has no instance key" if field is None else f"needs the instance key {field.name!r} too"
            raise QueryError(f"{name} {says}.")
        self._one_version()
        left, right = self.cls.__ends__
        wanted = self.where(
            self.cls.left_key == key_text(left, left_key), self.cls.right_key == key_text(right, right_key)
        )
        return (wanted if field is None else wanted.where(getattr(self.cls, field.name) == instance_key)).first()


@dataclass(frozen=True, slots=True)
class Grouped:
    """Groups of rows, waiting for what to compute."""

    source: Source
    cls: type[Any]
    scan: Scan
    refs: tuple[Ref, ...]
    condition: Having | None = None

    def having(self, condition: Having) -> Grouped:
        """Only groups for which this holds; several calls add up."""
        if not isinstance(condition, Having):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise QueryError("having() takes comparisons of aggregates, e.g. having(count() > 1).")
        check_having(condition)
        return replace(self, condition=condition if self.condition is None else self.condition & condition)

    def agg(self, **aggregates: Aggregate) -> list[dict[str, Any]]:
        """One dict per group: its fields by name, then the figures."""
        pairs = check_aggregates(self.cls, aggregates)
        labels = {ref.label for ref in self.refs}
        for name in aggregates:
            if name in labels:
                raise QueryError(
                    f"{name!r} is both a grouping field and a figure.", hint="Name the figure differently."
                )
        return self.source.aggregate(self.cls, Aggregation(self.scan, self.refs, pairs, self.condition))
