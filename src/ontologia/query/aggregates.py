"""Figures over rows: `count()`, `sum(Order.amount)`, `avg`, `min`, `max` and their relatives, and conditions on them.

An `Aggregate` is a plain value; comparing one gives a condition for `having()`. What each figure is, for every kind of
field and for no rows at all, is said by `figures`. Some names shadow builtins, on purpose and only where imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import StrEnum
from typing import Any, NoReturn, TypeAlias

from ontologia.errors import QueryError
from ontologia.model.spec import Kind
from ontologia.query.accept import is_numeric
from ontologia.query.expr import FieldExpr, sortable
from ontologia.query.predicates import Not, Op, Predicate, Ref, comparisons, postorder, render_test

Having: TypeAlias = Predicate
"""A condition on aggregates: `(count() > 3) & (sum(Order.amount) < 100)`."""


class Fn(StrEnum):
    """What is computed."""

    COUNT = "count"
    COUNT_WHERE = "count_where"
    COUNT_DISTINCT = "count_distinct"
    SUM = "sum"
    AVG = "avg"
    AVG_LEN = "avg_len"
    MIN = "min"
    MAX = "max"


Key: TypeAlias = tuple[Fn, Ref | None, Predicate | None]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Aggregate:
    """One figure. Comparisons make conditions, so two aggregates are told to be the same by `key`."""

    fn: Fn
    ref: Ref | None = None
    predicate: Predicate | None = None

    @property
    def key(self) -> Key:
        """What makes two aggregates the same figure."""
        return self.fn, self.ref, self.predicate

    def __repr__(self) -> str:
        inside: object = self.predicate if self.ref is None else self.ref
        text = "" if inside is None else repr(inside)
        return f"{self.fn}({text.removesuffix('.len_()') if self.fn is Fn.AVG_LEN else text})"

    def __hash__(self) -> int:
        return hash(self.key)

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self!r} has no truth value of its own: compare it, as in {self!r} > 0.")

    def __eq__(self, other: object) -> Having:  # pyright: ignore[reportIncompatibleMethodOverride]
        return AggregateCompare(self, Op.EQ, self._literal(other))

    def __ne__(self, other: object) -> Having:  # pyright: ignore[reportIncompatibleMethodOverride]
        return Not(AggregateCompare(self, Op.EQ, self._literal(other)))

    def __lt__(self, other: object) -> Having:
        return AggregateCompare(self, Op.LT, self._literal(other))

    def __le__(self, other: object) -> Having:
        return AggregateCompare(self, Op.LE, self._literal(other))

    def __gt__(self, other: object) -> Having:
        return AggregateCompare(self, Op.GT, self._literal(other))

    def __ge__(self, other: object) -> Having:
        return AggregateCompare(self, Op.GE, self._literal(other))

    def _literal(self, value: object) -> Any:
        expected = self._expected()
        if value is None or isinstance(value, bool):
            raise TypeError(f"{self!r} cannot be compared with {value}.")
        a_moment = isinstance(value, datetime) and datetime not in expected
        if not isinstance(value, expected) or a_moment or value != value:  # noqa: PLR0124 - only nan differs from itself
            names = " or ".join(one.__name__ for one in expected)
            raise QueryError(f"{self!r} is compared with {names}, not with {type(value).__name__} {value!r}.")
        return value

    def _expected(self) -> tuple[type, ...]:
        if self.ref is None or self.fn not in (Fn.MIN, Fn.MAX):
            return int, float, Decimal
        match self.ref.value_kind:
            case Kind.TEXT:
                return (str,)
            case Kind.DATETIME:
                return (datetime,)
            case Kind.DATE:
                return (date,)
            case Kind.TIME:
                return (time,)
            case Kind.BYTES:
                return (bytes,)
            case Kind.JSON if self.ref.declared:
                return str, int, float, Decimal, bytes, datetime, date, time
            case Kind.JSON:
                return str, int, float
            case _:
                return int, float, Decimal


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class AggregateCompare(Predicate):
    """One test of one aggregate."""

    aggregate: Aggregate
    op: Op
    value: Any

    def rendered(self, *, negated: bool) -> tuple[str, bool]:
        op, flipped = (Op.NE, True) if negated and self.op is Op.EQ else (self.op, False)
        return render_test(repr(self.aggregate), op, self.value, negated=negated and not flipped)


NamedAggregates: TypeAlias = Sequence[tuple[str, Aggregate]]


def count() -> Aggregate:
    """The number of rows."""
    return Aggregate(Fn.COUNT)


def count_where(predicate: Predicate) -> Aggregate:
    """The number of rows for which a condition holds."""
    if not isinstance(predicate, Predicate):  # pyright: ignore[reportUnnecessaryIsInstance] - users do pass fields
        raise QueryError(f"count_where() takes a condition such as Customer.tier == 'Gold', not {predicate!r}.")
    if any(True for _ in aggregates_in(predicate)):
        raise QueryError(f"count_where() takes a condition on fields, not on aggregates: {predicate!r}.")
    for comparison in comparisons(predicate):
        if comparison.ref.side != "self":
            sortable(comparison.ref, "count_where()")
    return Aggregate(Fn.COUNT_WHERE, predicate=predicate)


def count_distinct(field: FieldExpr[Any]) -> Aggregate:
    """The number of different values that are not null."""
    return Aggregate(Fn.COUNT_DISTINCT, _ref(Fn.COUNT_DISTINCT, field))


def sum(field: FieldExpr[Any]) -> Aggregate:  # noqa: A001 - the public name
    """The sum of the values; exact for ints and decimals, 0 for none."""
    return Aggregate(Fn.SUM, _numeric(Fn.SUM, field))


def avg(field: FieldExpr[Any]) -> Aggregate:
    """The mean of the values that are not null; None for none."""
    return Aggregate(Fn.AVG, _numeric(Fn.AVG, field))


def avg_len(field: FieldExpr[Any]) -> Aggregate:
    """The mean length of the values that are not null; None for none."""
    _ref(Fn.AVG_LEN, field)
    return Aggregate(Fn.AVG_LEN, field.len_().ref)


def min(field: FieldExpr[Any]) -> Aggregate:  # noqa: A001 - the public name
    """The smallest value; None for none."""
    return Aggregate(Fn.MIN, _ref(Fn.MIN, field))


def max(field: FieldExpr[Any]) -> Aggregate:  # noqa: A001 - the public name
    """The largest value; None for none."""
    return Aggregate(Fn.MAX, _ref(Fn.MAX, field))


def _ref(fn: Fn, field: object) -> Ref:
    if not isinstance(field, FieldExpr):
        raise QueryError(f"{fn}() takes a field such as Order.amount, not {type(field).__name__} {field!r}.")
    return sortable(field.ref, f"{fn}()")


def _numeric(fn: Fn, field: FieldExpr[Any]) -> Ref:
    ref = _ref(fn, field)
    if not is_numeric(ref):
        raise QueryError(f"{fn}() is for numbers, and {ref!r} is {ref.value_kind}.", field=ref.label)
    return ref


def aggregates_in(condition: Predicate) -> Iterator[Aggregate]:
    """Every aggregate that a condition compares, in the order written."""
    return (node.aggregate for node, _ in postorder(condition) if isinstance(node, AggregateCompare))


def check_having(condition: Having) -> Having:
    """The condition, when it compares aggregates only."""
    for comparison in comparisons(condition):
        raise QueryError(
            f"having() takes conditions on aggregates, and {comparison!r} is one on a field.",
            hint="Put conditions on fields in where().",
        )
    return condition


def check_where(predicate: Predicate) -> Predicate:
    """The condition, when it compares fields only."""
    for aggregate in aggregates_in(predicate):
        raise QueryError(
            f"where() takes conditions on fields, and {aggregate!r} is an aggregate.",
            hint="Put conditions on aggregates in having().",
        )
    return predicate


def with_hidden(aggregates: NamedAggregates, having: Having | None) -> NamedAggregates:
    """The aggregates and those that only `having` needs, under names that no keyword argument can have."""
    known = {aggregate.key for _, aggregate in aggregates}
    hidden: dict[Key, Aggregate] = {}
    for aggregate in aggregates_in(having) if having is not None else ():
        if aggregate.key not in known:
            hidden.setdefault(aggregate.key, aggregate)
    return [*aggregates, *((f"having {number}", aggregate) for number, aggregate in enumerate(hidden.values()))]
