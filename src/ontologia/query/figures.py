"""What every aggregate means, in plain Python: the other half of the definition that SQL must agree with.

Null values count for nothing. Sums of ints and decimals are exact, sums of floats are correctly rounded (engines may
differ in the last digits); a sum of nothing is 0, and the mean, least and greatest of nothing are None. Groups come in
the order of their keys, null last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from fractions import Fraction
from typing import Any

from ontologia.model.spec import Kind
from ontologia.query.aggregates import Aggregate, AggregateCompare, Fn, Having, NamedAggregates, with_hidden
from ontologia.query.evaluate import Row, evaluator, order_key, reader, shown, value_test
from ontologia.query.predicates import And, Const, Or, Predicate, Ref, postorder

_AVERAGE_DIGITS = 28


def aggregate(rows: Iterable[Row], aggregates: NamedAggregates) -> dict[str, Any]:
    """The figures over all rows, by name."""
    kept = list(rows)
    return {name: figure(one)(kept) for name, one in aggregates}


def grouped(
    rows: Iterable[Row], group: Sequence[Ref], aggregates: NamedAggregates, having: Having | None = None
) -> list[dict[str, Any]]:
    """The figures of each group of rows with equal values, with those values by label; groups that `having` keeps.

    Without a grouping all rows are one group, even when there are none.
    """
    complete = with_hidden(aggregates, having)
    figures = [(name, figure(one)) for name, one in complete]
    readers = [(ref.field, shown(ref)[0], _key_of(ref)) for ref in group]
    buckets: dict[tuple[Any, ...], tuple[list[Any], list[Row]]] = {} if group else {(): ([], [])}
    for row in rows:
        values = [read(row[name]) for name, read, _ in readers]
        key = tuple(key_of(value) for value, (_, _, key_of) in zip(values, readers, strict=True))
        buckets.setdefault(key, (values, []))[1].append(row)
    groups = [
        {ref.label: deepcopy(value) for ref, value in zip(group, values, strict=True)}
        | {n: f(members) for n, f in figures}
        for values, members in buckets.values()
    ]
    return finish_groups(groups, group, aggregates, having)


def finish_groups(
    groups: Iterable[dict[str, Any]], group: Sequence[Ref], aggregates: NamedAggregates, having: Having | None
) -> list[dict[str, Any]]:
    """Groups that pass `having`, in key order, without the figures that only `having` needed."""
    complete = with_hidden(aggregates, having)
    hidden = [name for name, _ in complete[len(aggregates) :]]
    kept = [one for one in groups if having is None or having_matches(having, complete, one)]
    for ref in reversed(group):
        kept.sort(key=_null_last(ref))
    for one in kept:
        for name in hidden:
            del one[name]
    return kept


def _null_last(ref: Ref) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    label, key_of = ref.label, _key_of(ref)
    return lambda one: key_of(one[label])


def _key_of(ref: Ref) -> Callable[[Any], tuple[Any, ...]]:
    """From a value as shown to a sort key; equal keys mean equal values, and null is last."""
    kind, compared = ref.value_kind, shown(ref)[1]
    return lambda value: (1,) if value is None else (0, order_key(kind, compared(value)))


def having_matches(having: Having, aggregates: NamedAggregates, values: Mapping[str, Any]) -> bool:
    """Whether a group's figures, given by name, satisfy a condition on aggregates."""
    by_key = {one.key: values[name] for name, one in aggregates}
    done: list[bool] = []
    for node, negated in postorder(having):
        if isinstance(node, And | Or):
            terms = done[len(done) - len(node.terms) :]
            del done[len(done) - len(node.terms) :]
            truth = all(terms) if isinstance(node, And) else any(terms)
        else:
            truth = _having_leaf(node, by_key)
        done.append(truth != negated)
    return done[0]


def _having_leaf(node: Predicate, by_key: Mapping[Any, Any]) -> bool:
    if isinstance(node, Const):
        return node.value
    assert isinstance(node, AggregateCompare), node  # noqa: S101 - the builder lets nothing else through
    one, value = node.aggregate, by_key[node.aggregate.key]
    if value is not None and one.ref is not None and one.fn in (Fn.MIN, Fn.MAX):
        value = shown(one.ref)[1](value)
    return value_test(result_kind(one), node.op, node.value)(value)


def result_kind(one: Aggregate) -> Kind:
    """How a figure is compared: as the field for min and max, as a number otherwise."""
    return one.ref.value_kind if one.ref is not None and one.fn in (Fn.MIN, Fn.MAX) else Kind.FLOAT


def figure(one: Aggregate) -> Callable[[Sequence[Row]], Any]:
    """An aggregate as a function of rows."""
    if one.fn is Fn.COUNT:
        return len
    if one.predicate is not None:
        holds = evaluator(one.predicate)
        return lambda rows: sum(holds(row, (), ()) for row in rows)
    assert one.ref is not None, one  # noqa: S101 - only count() has neither field nor condition
    name, kind = one.ref.field, one.ref.value_kind
    if one.fn in (Fn.MIN, Fn.MAX):
        read, combine = shown(one.ref)[0], _extreme(one.fn, one.ref)
    else:
        read, combine = reader(one.ref), _combination(one.fn, kind)
    return lambda rows: combine([value for row in rows if (value := read(row[name])) is not None])


def _extreme(fn: Fn, ref: Ref) -> Callable[[list[Any]], Any]:
    pick, key_of = min if fn is Fn.MIN else max, _key_of(ref)
    # Values of JSON are shared with everyone who reads the same text, so what is given away is a copy.
    return lambda values: deepcopy(pick(values, key=key_of, default=None))


def _combination(fn: Fn, kind: Kind) -> Callable[[list[Any]], Any]:
    match fn:
        case Fn.COUNT_DISTINCT:
            return lambda values: len({order_key(kind, value) for value in values})
        case Fn.SUM:
            return lambda values: total(kind, values)
        case _:
            return lambda values: mean(kind, values)


def total(kind: Kind, values: list[Any]) -> Any:
    """The sum, in the class of the values; inside JSON only numbers count."""
    if kind is Kind.JSON:
        values = _numbers(values)
        classes: set[type[Any]] = {type(value) for value in values}
        kind = Kind.FLOAT if float in classes else Kind.DECIMAL if Decimal in classes else Kind.INT
    if kind is Kind.FLOAT:
        return _float_total(values)
    return _decimal_total(values) if kind is Kind.DECIMAL else sum(values)


def mean(kind: Kind, values: list[Any]) -> Any:
    """The mean: a float, or a Decimal of Decimals."""
    if kind is Kind.JSON:
        values = _numbers(values)
    if not values:
        return None
    return quotient(total(kind, values), len(values))


def quotient(whole: float | Decimal, count: int) -> float | Decimal:
    """A correctly rounded mean, in the class of the whole or as a float; infinite where a float cannot hold it."""
    if isinstance(whole, Decimal):
        digits = max(_AVERAGE_DIGITS, len(whole.as_tuple().digits))
        return Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN).divide(whole, Decimal(count))
    try:
        return whole / count
    except OverflowError:
        return math.inf if whole > 0 else -math.inf


def _numbers(values: list[Any]) -> list[Any]:
    return [value for value in values if isinstance(value, int | float | Decimal) and not isinstance(value, bool)]


def _float_total(values: list[Any]) -> float:
    if not all(math.isfinite(value) for value in values if isinstance(value, float)):
        infinite = {value for value in values if isinstance(value, float) and math.isinf(value)}
        return math.nan if len(infinite) == 2 else infinite.pop()
    try:
        return math.fsum(values)
    except OverflowError:
        exact = sum(map(Fraction, values), Fraction(0))
        try:
            return float(exact)
        except OverflowError:
            return math.inf if exact > 0 else -math.inf


def _decimal_total(values: list[Decimal]) -> Decimal:
    context = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
    whole = Decimal(0)
    for value in values:
        whole = context.add(whole, value)
    return whole
