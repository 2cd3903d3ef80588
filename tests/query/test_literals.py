"""Comparisons with numbers of another class keep their exact truth."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontologia.model.spec import Kind
from ontologia.query.evaluate import value_test
from ontologia.query.literals import normalise, normalise_all, within
from ontologia.query.predicates import Op
from ontologia.testing.strategies import decimals, floats, ints

OPS = st.sampled_from([Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE])
NUMBERS = ints() | floats() | decimals() | st.floats(allow_nan=False) | st.integers()
VALUES: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.INT: ints() | st.integers(),
    Kind.FLOAT: floats(),
    Kind.DECIMAL: decimals(),
}
CLASSES = {Kind.INT: int, Kind.FLOAT: float, Kind.DECIMAL: Decimal}


def exact(number: Any) -> Any:
    return Fraction(number) if math.isfinite(number) else float(number)


def holds(value: Any, op: Op, literal: Any) -> bool:
    """The comparison of the two numbers as fractions, which round nothing."""
    value, literal = exact(value), exact(literal)
    match op:
        case Op.EQ:
            return value == literal
        case Op.LT:
            return value < literal
        case Op.LE:
            return value <= literal
        case Op.GT:
            return value > literal
        case _:
            return value >= literal


@given(st.data(), st.sampled_from(sorted(VALUES)), OPS, NUMBERS)
def test_the_restated_test_has_the_same_truth(data: st.DataObject, kind: Kind, op: Op, literal: Any) -> None:
    test = normalise(kind, op, literal)
    # Values close to the literal are where a wrong restatement would show.
    near = st.sampled_from(neighbours(kind, literal)) if neighbours(kind, literal) else VALUES[kind]
    value = data.draw(VALUES[kind] | near)
    if test is False:
        assert not holds(value, op, literal)
    else:
        assert test[0] is Op.NOT_NULL or type(test[1]) is CLASSES[kind]
        assert value_test(kind, *test)(value) == holds(value, op, literal)


def neighbours(kind: Kind, literal: Any) -> list[Any]:
    if not math.isfinite(literal):
        return []
    if kind is Kind.INT:
        floor = math.floor(literal) if abs(literal) < Decimal("1e50") else 0
        return [floor - 1, floor, floor + 1]
    if kind is Kind.DECIMAL:
        return [Decimal(literal), Decimal(0)]
    try:
        close = float(literal)
    except OverflowError:
        close = math.inf
    return [close + 0.0, math.nextafter(close, -math.inf) + 0.0, math.nextafter(close, math.inf) + 0.0]


@given(st.data(), OPS, st.integers(-20, 20))
def test_a_bounded_column_needs_no_literal_beyond_its_bounds(data: st.DataObject, op: Op, literal: int) -> None:
    value = data.draw(st.integers(-5, 7))
    test = within(op, literal, -5, 7)
    assert test is False or test[0] is Op.NOT_NULL or -5 <= test[1] <= 7
    assert (test is not False and value_test(Kind.INT, *test)(value)) == holds(value, op, literal)


@pytest.mark.parametrize("op", [Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE])
@pytest.mark.parametrize("literal", [Decimal("1e-5000000"), Decimal("-1e-5000000"), Decimal("1e5000000")])
def test_decimals_beyond_what_can_be_stored_still_compare(op: Op, literal: Decimal) -> None:
    test = normalise(Kind.DECIMAL, op, literal)
    for value in (Decimal(0), Decimal("1e-30"), Decimal("-1e-30"), Decimal("1e30")):
        expected = value_test(Kind.DECIMAL, op, literal)(value)
        assert (test is not False and value_test(Kind.DECIMAL, *test)(value)) == expected


def test_values_that_a_field_cannot_have_are_left_out_of_a_list() -> None:
    assert normalise_all(Kind.INT, (1, 1.0, 2.5, Decimal(3), math.inf)) == [1, 3]
    assert normalise_all(Kind.FLOAT, (1, Decimal("0.1"), Decimal("0.5"))) == [1.0, 0.5]
