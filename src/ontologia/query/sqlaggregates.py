"""Aggregates as SQL, where an engine computes them exactly (floats: up to rounding in the last digits).

`compile_aggregates` gives what to select and how to read the rows that come back; all else raises `NotNative`. The
condition of `having` is tested in Python on finished figures, by the one definition in `figures`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from ontologia.model.spec import Kind
from ontologia.query.aggregates import Aggregate, Fn, Having, NamedAggregates, with_hidden
from ontologia.query.figures import finish_groups, quotient
from ontologia.query.predicates import Ref
from ontologia.query.sql import ColumnOf, Context, Dialect, Figure, NotNative, Sql, comparable_value, compile_predicate

_GROUPED = frozenset({Kind.TEXT, Kind.INT, Kind.FLOAT, Kind.BOOL, Kind.DATE})
"""Kinds whose column gives the value back, so that it can be shown."""
_SUMMED = frozenset({Kind.INT, Kind.FLOAT})


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
) -> AggregatePlan:
    """The plan for figures over the rows of one table expression, which the caller filters and slices."""
    context = Context(dialect, column, wide=wide)
    figures = [(ref.label, _group_figure(ref, context)) for ref in group]
    figures += [(name, _figure(one, context)) for name, one in with_hidden(aggregates, having)]
    columns = [one for _, figure in figures for one in figure.columns]
    select = Sql(", ".join(one.text for one in columns), tuple(param for one in columns for param in one.params))
    positions = ", ".join(str(number + 1) for number in range(len(group)))
    return AggregatePlan(select, positions, tuple(group), aggregates, having, tuple(figures))


def _group_figure(ref: Ref, context: Context) -> Figure:
    if ref.value_kind not in _GROUPED:
        raise NotNative(f"groups by {ref!r} are made in Python")
    return Figure((comparable_value(ref, context),), _restore(ref.value_kind))


def _restore(kind: Kind) -> Callable[[Any], Any]:
    match kind:
        case Kind.BOOL:
            return lambda value: None if value is None else bool(value)
        case Kind.DATE:
            return lambda value: None if value is None else date.fromisoformat(value)
        case _:
            return lambda value: value


def _figure(one: Aggregate, context: Context) -> Figure:
    if one.predicate is not None:
        holds = compile_predicate(one.predicate, dialect=context.dialect, column=context.column, wide=context.wide)
        return Figure((Sql("COUNT(CASE WHEN ") + holds + Sql(" THEN 1 END)"),), int)
    if one.ref is None:
        return Figure((Sql("COUNT(*)"),), int)
    subject, kind = comparable_value(one.ref, context), one.ref.value_kind
    match one.fn:
        case Fn.COUNT_DISTINCT:
            return Figure((_call("COUNT(DISTINCT ", subject),), int)
        case Fn.MIN | Fn.MAX if kind in _GROUPED:
            return Figure((_call(f"{one.fn.upper()}(", subject),), _restore(kind))
        case Fn.SUM if kind in _SUMMED:
            return context.dialect.total(subject, kind)
        case Fn.AVG | Fn.AVG_LEN if kind in _SUMMED:
            return _mean(subject, kind, context.dialect)
        case _:
            raise NotNative(f"{one!r} is computed in Python")


def _call(opening: str, subject: Sql) -> Sql:
    return Sql(opening) + subject + Sql(")")


def _mean(subject: Sql, kind: Kind, dialect: Dialect) -> Figure:
    whole = dialect.total(subject, kind)

    def read(*cells: Any) -> float | None:
        *parts, count = cells
        return quotient(whole.read(*parts), count) if count else None

    return Figure((*whole.columns, _call("COUNT(", subject)), read)
