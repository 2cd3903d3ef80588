"""Aggregates as SQL, where an engine computes them exactly (floats: up to rounding in the last digits).

`compile_aggregates` gives what to select and how to read the rows that come back; all else raises `NotNative`. The
condition of `having` is tested in Python on finished figures, by the one definition in `figures`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ontologia.model.physical import EXACT_KINDS
from ontologia.query.aggregates import Aggregate, Fn, Having, NamedAggregates, with_hidden
from ontologia.query.figures import finish_groups, quotient
from ontologia.query.predicates import Ref
from ontologia.query.sql import (
    ColumnOf,
    Context,
    Dialect,
    Figure,
    NotNative,
    Sql,
    Value,
    comparable_value,
    compile_predicate,
)


@dataclass(frozen=True, slots=True)
class AggregatePlan:
    """What to SELECT and GROUP BY, and how the answer is made from the rows."""

    select: Sql
    group_by: str
    """Positions for GROUP BY, or nothing."""
    group: tuple[Ref, ...]
    aggregates: NamedAggregates
    having: Having | None
    figures: tuple[tuple[str, Figure], ...]

    def decode(self, row: Sequence[Any]) -> dict[str, Any]:
        """One group by name, with the figures that only `having` needs still in it."""
        found: dict[str, Any] = {}
        at = 0
        for name, figure in self.figures:
            width = len(figure.columns)
            found[name] = figure.read(*row[at : at + width])
            at += width
        return found

    def result(self, rows: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
        """The answer: groups that pass `having`, in key order."""
        return finish_groups(map(self.decode, rows), self.group, self.aggregates, self.having)


def compile_aggregates(
    aggregates: NamedAggregates,
    group: Sequence[Ref],
    having: Having | None = None,
    *,
    dialect: Dialect,
    column: ColumnOf,
    wide: frozenset[str] = frozenset(),
    exact: ColumnOf | None = None,
    rank: Sql = Sql(""),  # noqa: B008 - a constant
) -> AggregatePlan:
    """The plan for figures over the rows of one table expression, which the caller filters and slices.

    With `exact` (the column with a field's exact text) and `rank` (terms that order the rows as they come), values that
    are compared in another form than they are shown in need no Python.
    """
    context = Context(dialect, column, wide=wide, exact=exact, rank=rank)
    figures = [(ref.label, dialect.shown(_value(ref, context))) for ref in group]
    # A group is made by the first column of its figure; the others only say how its value is shown.
    starts = [1 + sum(len(figure.columns) for _, figure in figures[:number]) for number in range(len(group))]
    figures += [(name, _figure(one, context)) for name, one in with_hidden(aggregates, having)]
    columns = [one for _, figure in figures for one in figure.columns]
    select = Sql(", ".join(one.text for one in columns), tuple(param for one in columns for param in one.params))
    positions = ", ".join(map(str, starts))
    return AggregatePlan(select, positions, tuple(group), aggregates, having, tuple(figures))


def _value(ref: Ref, context: Context) -> Value:
    main, kind = comparable_value(ref, context), ref.value_kind
    exact = Sql(context.exact(ref)) if context.exact is not None and kind in EXACT_KINDS else None
    return Value(main, kind, exact, context.rank)


def _figure(one: Aggregate, context: Context) -> Figure:
    if one.predicate is not None:
        holds = compile_predicate(one.predicate, dialect=context.dialect, column=context.column, wide=context.wide)
        return Figure((Sql("COUNT(CASE WHEN ") + holds + Sql(" THEN 1 END)"),), int)
    if one.ref is None:
        return Figure((Sql("COUNT(*)"),), int)
    value, dialect = _value(one.ref, context), context.dialect
    match one.fn:
        case Fn.COUNT_DISTINCT:
            return Figure((_call("COUNT(DISTINCT ", value.main),), int)
        case Fn.MIN:
            return dialect.shown(value, "MIN")
        case Fn.MAX:
            return dialect.shown(value, "MAX")
        case Fn.SUM if value.kind in dialect.summed:
            return dialect.total(value)
        case Fn.AVG | Fn.AVG_LEN if value.kind in dialect.summed:
            return _mean(value, dialect)
        case _:
            raise NotNative(f"{one!r} is computed in Python")


def _call(opening: str, subject: Sql) -> Sql:
    return Sql(opening) + subject + Sql(")")


def _mean(value: Value, dialect: Dialect) -> Figure:
    whole = dialect.total(value)

    def read(*cells: Any) -> Any:
        *parts, count = cells
        return quotient(whole.read(*parts), count) if count else None

    return Figure((*whole.columns, _call("COUNT(", value.main)), read)
