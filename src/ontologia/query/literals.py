"""Comparing a field with a number of another class, restated exactly in the field's own class.

`normalise(kind, op, value)` turns `int_field < 2.5` into `int_field <= 2`, so that engines never convert. It keeps the
same truth for every stored value, and leaves to `accept` what may be compared at all.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

from ontologia.model.comparable import DECIMAL_EXPONENT_LIMIT
from ontologia.model.spec import Kind
from ontologia.query.predicates import Op

Number = int | float | Decimal
Test = tuple[Op, Any] | Literal[False]
"""A test in the field's class, or False when no value passes it."""

_UPWARD = frozenset({Op.GT, Op.GE})
_QUICK_DIGITS = 10_000
ANY_VALUE: Test = (Op.NOT_NULL, None)


def normalise(kind: Kind, op: Op, value: Any) -> Test:
    """An equivalent of `field op value` whose literal is of the field's class; for `== < <= > >=` of numbers.

    Only a decimal of more digits than an int is quickly made of stays one.
    """
    if kind is Kind.INT:
        return _against_ints(op, value)
    if kind is Kind.FLOAT:
        return _against_floats(op, value)
    if kind is Kind.DECIMAL:
        return _against_decimals(op, value)
    return op, value


def normalise_all(kind: Kind, values: tuple[Any, ...]) -> list[Any]:
    """The values of an `in_` that a field of this kind can equal, in its class, each once."""
    kept: dict[Any, None] = {}
    for value in values:
        test = normalise(kind, Op.EQ, value)
        if test is not False:
            kept.setdefault(test[1])
    return list(kept)


def within(op: Op, value: int | Decimal, low: int, high: int) -> Test:
    """The same test for a column that only holds ints from `low` to `high`."""
    if value > high:
        return False if op is Op.EQ or op in _UPWARD else ANY_VALUE
    if value < low:
        return ANY_VALUE if op in _UPWARD else False
    return op, value


def _against_ints(op: Op, value: Number) -> Test:
    if isinstance(value, int):
        return op, value
    if not _finite(value):
        return _beyond_all(op, positive=value > 0)
    if isinstance(value, Decimal) and value.adjusted() > _QUICK_DIGITS:
        # Writing out its digits could take for ever, and no engine's column comes near it.
        return op, value
    floor = math.floor(value)
    return (op, floor) if floor == value else _just_above(op, floor)


def _against_floats(op: Op, value: Number) -> Test:
    if isinstance(value, float):
        return op, value + 0.0
    if not _finite(value):
        return op, math.inf if value > 0 else -math.inf
    near = _nearest(value)
    if near == value:
        return op, near + 0.0
    return _just_above(op, near if near < value else math.nextafter(near, -math.inf))


def _against_decimals(op: Op, value: Number) -> Test:
    if not _finite(value):
        return _beyond_all(op, positive=value > 0)
    exact = Decimal(value)
    if not exact:
        return op, Decimal(0)
    if exact.adjusted() > DECIMAL_EXPONENT_LIMIT:
        return _beyond_all(op, positive=exact > 0)
    if exact.adjusted() < -DECIMAL_EXPONENT_LIMIT:
        return _just_above(op, Decimal(0)) if exact > 0 else _just_below(op, Decimal(0))
    return op, exact


def _finite(value: Number) -> bool:
    return value.is_finite() if isinstance(value, Decimal) else isinstance(value, int) or math.isfinite(value)


def _nearest(value: int | Decimal) -> float:
    """A float beside the value; infinite beyond the largest finite float."""
    if isinstance(value, Decimal) and not -400 <= value.adjusted() <= 400:
        # Fractions of such decimals would have millions of digits.
        return 0.0 if value.adjusted() < 0 else math.copysign(math.inf, value)
    try:
        return float(Fraction(value))
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _beyond_all(op: Op, *, positive: bool) -> Test:
    """A literal above (or below) every value the field can hold."""
    if op is Op.EQ:
        return False
    return False if (op in _UPWARD) == positive else ANY_VALUE


def _just_above(op: Op, floor: Any) -> Test:
    """A literal between `floor` and the next value of the field's class."""
    if op is Op.EQ:
        return False
    return (Op.GT, floor) if op in _UPWARD else (Op.LE, floor)


def _just_below(op: Op, ceiling: Any) -> Test:
    """A literal between the previous value of the field's class and `ceiling`."""
    if op is Op.EQ:
        return False
    return (Op.GE, ceiling) if op in _UPWARD else (Op.LT, ceiling)
