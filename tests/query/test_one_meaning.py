"""SQLite, DuckDB and the reference evaluator give the same answer to every question."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from query.engines import Engine, Row, duckdb_engine, sqlite_engine

from ontologia.model.spec import Kind
from ontologia.query import reference
from ontologia.query.aggregates import Aggregate, Fn
from ontologia.query.predicates import Order, Predicate, Ref
from ontologia.query.sql import NotNative
from ontologia.testing.strategies import WIDE, aggregates, orders, places, predicates, rows

often = settings(
    max_examples=2 * settings().max_examples,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)

usually = settings(often, max_examples=settings().max_examples)
SEVERAL_ROWS = st.lists(rows(), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def engines() -> Iterator[list[Engine]]:
    with sqlite_engine() as sqlite, duckdb_engine() as duck:
        yield [sqlite, duck]


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Row], list[list[Row]], list[list[Row]]]:
    """Rows, and for each the versions of its left and right end: none, one or two."""
    some = draw(SEVERAL_ROWS)
    ends = st.lists(st.sampled_from(some), max_size=2)
    sides = st.lists(ends, min_size=len(some), max_size=len(some))
    return some, draw(sides), draw(sides)


@often
@given(tables(), st.lists(predicates(sides=("self", "self", "left", "right")), min_size=4, max_size=8))
def test_every_engine_filters_as_the_reference_does(
    engines: list[Engine], table: tuple[list[Row], list[list[Row]], list[list[Row]]], asked: list[Predicate]
) -> None:
    some, left, right = table
    for engine in engines:
        engine.load(some, left, right)
    for predicate in asked:
        expected = [
            number for number, row in enumerate(some) if reference.matches(predicate, row, left[number], right[number])
        ]
        for engine in engines:
            try:
                found = engine.filter(predicate)
            except NotNative:
                continue
            assert found == expected, (engine.dialect.name, predicate, engine.condition(predicate))


@usually
@given(tables(), st.lists(predicates(sides=("self", "left")), min_size=2, max_size=4))
def test_a_negation_is_the_exact_complement(
    engines: list[Engine], table: tuple[list[Row], list[list[Row]], list[list[Row]]], asked: list[Predicate]
) -> None:
    some, left, right = table
    for engine in engines:
        engine.load(some, left, right)
        for predicate in asked:
            try:
                both = engine.filter(predicate) + engine.filter(~predicate)
            except NotNative:
                continue
            assert sorted(both) == list(range(len(some))), (engine.dialect.name, predicate)


@usually
@given(st.lists(rows(), max_size=5), st.lists(orders(), min_size=2, max_size=4))
def test_every_engine_sorts_as_the_reference_does(
    engines: list[Engine], some: list[Row], asked: list[list[Order]]
) -> None:
    numbered = [{**row, "number": number} for number, row in enumerate(some)]
    for engine in engines:
        engine.load(some)
        for by in asked:
            expected = [row["number"] for row in reference.sort_rows(numbered, by)]
            try:
                assert engine.sort(by) == expected, (engine.dialect.name, by)
            except NotNative:
                continue


def same(mine: Any, theirs: Any, slack: float) -> bool:
    """Equal in value, class and form; floats up to what adding in another order may change."""
    if isinstance(mine, float) and isinstance(theirs, float):
        if math.isfinite(mine) and math.isfinite(theirs):
            return abs(mine - theirs) <= slack
        # Beyond the largest float, the order of adding decides between infinite and finite.
        return slack == math.inf or mine == theirs or (math.isnan(mine) and math.isnan(theirs))
    return type(mine) is type(theirs) and mine == theirs and str(mine) == str(theirs)


def slack_of(one: Aggregate, some: Sequence[Row]) -> float:
    if one.ref is None or one.fn not in (Fn.SUM, Fn.AVG) or one.ref.value_kind is not Kind.FLOAT:
        return 0.0
    sizes = [abs(row[one.ref.field]) for row in some if row[one.ref.field] is not None]
    finite = [size for size in sizes if math.isfinite(size)]
    largest = math.fsum(size / 2 for size in finite)
    return math.inf if largest > 8e307 else max(largest * 1e-12, 1e-320)


@usually
@given(st.lists(rows(), max_size=5), st.lists(aggregates(), min_size=3, max_size=6))
def test_every_engine_computes_the_figures_of_the_reference(
    engines: list[Engine], some: list[Row], asked: list[Aggregate]
) -> None:
    for engine in engines:
        engine.load(some)
        for one in asked:
            expected = reference.aggregate(some, [("it", one)])["it"]
            try:
                (found,) = engine.aggregate([("it", one)])
            except NotNative:
                continue
            assert same(found["it"], expected, slack_of(one, some)), (engine.dialect.name, one, found["it"], expected)


@usually
@given(
    st.lists(rows(), max_size=6),
    st.lists(places(single=True).map(lambda place: place.ref), min_size=1, max_size=2, unique_by=lambda ref: ref.label),
    aggregates(),
    st.integers(0, 2),
)
def test_every_engine_groups_as_the_reference_does(
    engines: list[Engine], some: list[Row], group: list[Ref], one: Aggregate, least: int
) -> None:
    named = [("figure", one)]
    having = Aggregate(Fn.COUNT) > least
    expected = reference.grouped(some, group, named, having)
    for engine in engines:
        engine.load(some)
        try:
            found = engine.aggregate(named, group, having)
        except NotNative:
            continue
        assert [list(each) for each in found] == [list(each) for each in expected]
        for mine, theirs in zip(found, expected, strict=True):
            for ref in group:
                assert same(mine[ref.label], theirs[ref.label], 0.0)
            assert same(mine["figure"], theirs["figure"], slack_of(one, some)), (engine.dialect.name, one)


def test_the_wide_type_has_every_kind() -> None:
    assert {field.kind for field in WIDE.fields} == set(Kind)
