"""The SQL itself: plain conditions stay plain, indexes serve them, user text is never in it, and limits are known."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from query.engines import Engine, Row, duckdb_engine, sqlite_engine

from ontologia.model.physical import INT64_MAX
from ontologia.model.spec import Kind
from ontologia.query import aggregates as agg
from ontologia.query import reference
from ontologia.query.duckdb import DUCKDB
from ontologia.query.expr import FieldExpr, Predicate, field_expression
from ontologia.query.predicates import And, Compare, Op, Or, Ref
from ontologia.query.sql import Dialect, NotNative, compile_order, compile_predicate, successor
from ontologia.query.sqlaggregates import compile_aggregates
from ontologia.query.sqlite import SQLITE, SQLITE_QUICK
from ontologia.testing.strategies import WIDE

DIALECTS = [SQLITE, DUCKDB]
by_name = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)


def of(name: str) -> FieldExpr[Any]:
    return field_expression(WIDE, WIDE.by_name[name])


def column(ref: Ref) -> str:
    return ref.field


def compiled(predicate: Predicate, dialect: Dialect = SQLITE, wide: frozenset[str] = frozenset()) -> str:
    return compile_predicate(predicate, dialect=dialect, column=column, wide=wide).text


@pytest.fixture(params=[sqlite_engine, duckdb_engine], ids=["sqlite", "duckdb"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with request.param() as opened:
        yield opened


def row(number: int, **values: Any) -> Row:
    plain: Row = {field.name: None for field in WIDE.fields}
    plain |= {"id": f"k{number}", "text": "a", "int": number, "float": 0.5, "bool": True, "bytes": b"", "json": "1"}
    return plain | {"events": "[]"} | values


@by_name
def test_plain_conditions_are_bare_comparisons(dialect: Dialect) -> None:
    """An index on the column can serve these; a wrapper around the column would hide it."""
    both = (of("text") == "x") & (of("int_or_null") >= 3) & of("text_or_null").in_(["a", "b"])
    assert compiled(both, dialect) == "(text = ? AND int_or_null >= ? AND text_or_null IN (?, ?))"
    assert compiled(of("text").startswith("ab"), dialect) == "(text >= ? AND text < ?)"
    assert compiled(of("float").between(1, 2), dialect) == "float BETWEEN ? AND ?"
    assert compiled(of("bool").is_true(), dialect) == "bool = ?"
    assert compiled(of("text_or_null").is_null(), dialect) == "text_or_null IS NULL"


@by_name
def test_negations_reach_the_comparisons_and_mind_null_only_where_there_is_null(dialect: Dialect) -> None:
    assert compiled(~((of("int") < 3) | (of("text") == "x")), dialect) == "(int >= ? AND text <> ?)"
    assert compiled(~(of("int_or_null") < 3), dialect) == "(int_or_null >= ? OR int_or_null IS NULL)"
    unequal = f"int_or_null {dialect.distinct} ?" if dialect.distinct else "(int_or_null <> ? OR int_or_null IS NULL)"
    assert compiled(of("int_or_null") != 3, dialect) == unequal
    assert compiled(of("text").not_in(["x"]), dialect) == "text NOT IN (?)"


@pytest.mark.parametrize(
    ("predicate", "text"),
    [
        (of("int") < 2**70, "int IS NOT NULL"),
        (of("int") > 2**70, "FALSE"),
        (of("int") == 2**70, "FALSE"),
        (of("int") != 2.5, "TRUE"),
        (of("int").in_([2.5, 2**70]), "FALSE"),
        (of("int").in_([]), "FALSE"),
        (of("int") > 2.5, "int > ?"),
        (of("int").between(2.5, 7.5), "(int > ? AND int <= ?)"),
    ],
)
def test_literals_that_the_column_cannot_hold_are_decided_beforehand(predicate: Predicate, text: str) -> None:
    assert compiled(predicate) == text


def test_only_literals_at_the_bounds_of_clamped_columns_are_left_to_python() -> None:
    wide = frozenset({"int"})
    assert compiled(of("int") > 5, wide=wide) == "int > ?"
    assert compiled(of("int").is_null(), wide=wide) == "int IS NULL"
    for predicate in (of("int") == INT64_MAX, of("int") < 2**70, of("int").in_([3, -(2**63)])):
        with pytest.raises(NotNative, match="beyond 64 bits"):
            compiled(predicate, wide=wide)
    with pytest.raises(NotNative):
        compile_order([of("int").asc()], dialect=SQLITE, column=column, wide=wide)
    with pytest.raises(NotNative):
        compile_aggregates([("s", agg.sum(of("int")))], [], dialect=SQLITE, column=column, wide=wide)
    end = Compare(Ref("left", "int", Kind.INT), Op.EQ, INT64_MAX)
    found = compile_predicate(end, dialect=SQLITE, column=column, endpoint=lambda _side, leaf: leaf, wide=wide)
    assert found.text == "int = ?"
    with pytest.raises(NotNative):
        compile_predicate(
            end, dialect=SQLITE, column=column, endpoint=lambda _side, leaf: leaf, wide=frozenset({"left.int"})
        )


def test_an_index_serves_equality_ranges_prefixes_and_order() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE things (text TEXT NOT NULL, int INTEGER NOT NULL)")
    connection.execute("CREATE INDEX by_text ON things (text)")
    connection.execute("CREATE INDEX by_int ON things (int)")
    for predicate in (
        of("text") == "x",
        of("text").startswith("ab"),
        of("text").in_(["a", "b"]),
        ~(of("int") < 3),
        (of("int") > 2.5) & (of("text").contains("z")),
    ):
        where = compile_predicate(predicate, dialect=SQLITE, column=column)
        plan = connection.execute(f"EXPLAIN QUERY PLAN SELECT * FROM things WHERE {where.text}", where.params)
        assert "USING INDEX" in plan.fetchone()[3], predicate
    order = compile_order([of("text").desc()], dialect=SQLITE, column=column).text
    plan = connection.execute(f"EXPLAIN QUERY PLAN SELECT * FROM things ORDER BY {order} LIMIT 20").fetchall()
    assert [step[3] for step in plan] == ["SCAN things USING INDEX by_text"]
    connection.close()


def test_null_takes_a_sort_term_only_where_there_is_null() -> None:
    orders = [of("text").desc(), of("int_or_null").asc()]
    assert (
        compile_order(orders, dialect=SQLITE, column=column).text == "text DESC, int_or_null IS NULL, int_or_null ASC"
    )
    assert compile_order([], dialect=SQLITE, column=column).text == ""


@by_name
def test_user_text_is_always_a_parameter(dialect: Dialect) -> None:
    evil = "x'; DROP TABLE rows; --"
    place = of("json")[evil]
    conditions = [
        of("text") == evil,
        of("text").contains(evil),
        of("text").endswith(evil),
        of("text").matches(evil),
        of("text").in_([evil, "b"]),
        place == evil,
        place > 3,
        place < evil,
        place.len_() > 1,
        place.in_([evil, 3]),
        place.any_path(evil) == evil,
        of("json")['"' + evil] == evil,
    ]
    assert "DROP" not in compiled(And(tuple(conditions)), dialect)
    counted = compile_aggregates([("n", agg.count_where(Or(tuple(conditions))))], [], dialect=dialect, column=column)
    assert "DROP" not in counted.select.text


@by_name
def test_everything_on_typed_fields_is_native_except_what_is_listed(dialect: Dialect) -> None:
    """The property tests skip what is not native, so this says how much that may be."""
    for field in WIDE.fields:
        place = of(field.name)
        compiled(place.is_null(), dialect)
        if field.kind is Kind.JSON:
            compiled(
                (place["a"] == "x") & (place["a"] < 3) & (place.any_path("k") == 1) & (place.len_() > 1), dialect
            ) if (field.type == "any") else compiled(place.any_path().is_null(), dialect)
            continue
        compile_order([place.asc()], dialect=dialect, column=column)
        compile_aggregates([("n", agg.count_distinct(place))], [], dialect=dialect, column=column)
        if field.kind in (Kind.TEXT, Kind.INT, Kind.FLOAT, Kind.BOOL, Kind.DATE):
            named = [("least", agg.min(place)), ("most", agg.max(place))]
            compile_aggregates(named, [place.ref], dialect=dialect, column=column)
        if field.kind in (Kind.INT, Kind.FLOAT):
            compile_aggregates([("a", agg.sum(place)), ("b", agg.avg(place))], [], dialect=dialect, column=column)
    compile_aggregates(
        [("a", agg.avg_len(of("text"))), ("b", agg.avg_len(of("tags")))], [], dialect=dialect, column=column
    )


@by_name
@pytest.mark.parametrize(
    "one",
    [agg.sum(of("decimal")), agg.min(of("datetime")), agg.max(of("json")["a"]), agg.count_distinct(of("json"))],
    ids=repr,
)
def test_figures_that_no_column_alone_gives_exactly_are_left_to_python(dialect: Dialect, one: agg.Aggregate) -> None:
    with pytest.raises(NotNative):
        compile_aggregates([("it", one)], [], dialect=dialect, column=column)


def test_duckdb_shows_and_adds_values_that_are_compared_in_another_form() -> None:
    """SQLite leaves these to Python; over files, where reading every row costs most, DuckDB has them exactly."""
    east, west = timezone(timedelta(hours=2)), timezone(timedelta(hours=-3))
    moments = [
        datetime(2026, 1, 1, 12, tzinfo=east),
        datetime(2026, 1, 1, 10, tzinfo=UTC),
        datetime(2026, 1, 2, tzinfo=west),
    ]
    prices = [Decimal("1.50"), Decimal("1.5"), Decimal("-0.25")]
    some = [
        row(number, datetime=moment, decimal=price, time=moment.timetz())
        for number, (moment, price) in enumerate(zip(moments, prices, strict=True))
    ]
    named = [
        (f"{fn} {name}", getattr(agg, fn)(of(name)))
        for name in ("datetime", "decimal", "time")
        for fn in ("min", "max")
    ]
    named += [("sum", agg.sum(of("decimal"))), ("mean", agg.avg(of("decimal")))]
    with duckdb_engine() as engine:
        engine.load(some)
        assert repr(engine.aggregate(named)) == repr([reference.aggregate(some, named)])
        for name in ("datetime", "decimal", "time", "bytes"):
            found = engine.aggregate([("n", agg.count())], [of(name).ref])
            assert repr(found) == repr(reference.grouped(some, [of(name).ref], [("n", agg.count())]))


@pytest.mark.parametrize(
    "values",
    [
        [],
        ["0"],
        ["-0", "0.00"],
        ["-0.5", "0.25"],
        ["999999999999999999.999999999999999999"] * 3,
        ["-999999999999999999.9", "0.100000000000000001"],
    ],
    ids=repr,
)
def test_sums_of_plain_decimals_are_exact_in_duckdb(values: list[str]) -> None:
    some = [row(number, decimal=Decimal(value)) for number, value in enumerate(values)]
    named = [("sum", agg.sum(of("decimal"))), ("mean", agg.avg(of("decimal")))]
    with duckdb_engine() as engine:
        engine.load(some)
        assert repr(engine.aggregate(named)) == repr([reference.aggregate(some, named)])


@pytest.mark.parametrize("value", ["1E+3", "1E-30", "1234567890123456789", "0.1234567890123456789"])
def test_sums_of_long_decimals_are_left_to_python(value: str) -> None:
    with duckdb_engine() as engine:
        engine.load([row(1, decimal=Decimal(1)), row(2, decimal=Decimal(value))])
        with pytest.raises(NotNative, match="decimals"):
            engine.aggregate([("sum", agg.sum(of("decimal")))])


def test_a_thousand_terms_run_in_every_engine(engine: Engine) -> None:
    engine.load([row(number) for number in range(3)])
    many: Predicate = Or(tuple(of("int") == number for number in range(1, 1001)))
    assert engine.filter(many) == [1, 2]
    assert engine.filter(~many) == [0]
    assert engine.filter(And(tuple(of("int") != number for number in range(1, 400)))) == [0]
    assert engine.filter(of("int").in_(range(1, 20_000))) == [1, 2]


def test_what_is_allowed_to_nest_runs_and_more_is_left_to_python(engine: Engine) -> None:
    engine.load([row(number) for number in range(3)])
    heavy = (of("json")["a"] > 2.5) & ~(of("json")["b"].len_() < 3)
    predicate: Predicate = heavy
    for level in range(engine.dialect.max_nesting - 1):
        shallow = of("int") >= 0 if level % 2 else of("int") == 1
        predicate = And((shallow, ~predicate)) if level % 2 else Or((shallow, ~predicate))
    expected = [number for number in range(3) if reference.matches(predicate, row(number))]
    assert engine.filter(predicate) == expected
    for _ in range(3):
        predicate = (predicate & (of("int") >= 0)) | (of("int") == 7)
    with pytest.raises(NotNative, match="nested"):
        engine.filter(predicate)


def test_more_values_than_an_engine_takes_are_left_to_python() -> None:
    with pytest.raises(NotNative, match="values"):
        compiled(of("int").in_(range(40_000)))


def test_a_condition_on_an_end_needs_tables_for_it() -> None:
    with pytest.raises(NotNative, match="ends"):
        compiled(Compare(Ref("left", "int", Kind.INT), Op.EQ, 1))


@pytest.mark.parametrize(
    ("prefix", "after"),
    [("a", "b"), ("a\ud7ff", "a\ue000"), ("a\U0010ffff", "b"), ("\U0010ffff", None), ("\0", "\x01")],
)
def test_the_end_of_a_prefix_range_is_the_next_text(prefix: str, after: str | None) -> None:
    assert successor(prefix) == after


def test_sums_of_ints_are_exact_beyond_64_bits(engine: Engine) -> None:
    engine.load([row(number, int=INT64_MAX) for number in range(3)] + [row(4, int=-5)])
    named = [("total", agg.sum(of("int"))), ("mean", agg.avg(of("int"))), ("n", agg.count())]
    expected = 3 * INT64_MAX - 5
    assert engine.aggregate(named) == [{"total": expected, "mean": expected / 4, "n": 4}]


def test_quick_sums_are_plain_and_refuse_to_overflow() -> None:
    with sqlite_engine() as engine:
        engine.dialect = SQLITE_QUICK
        engine.load([row(1), row(2)])
        assert engine.aggregate([("total", agg.sum(of("int")))]) == [{"total": 3}]
        engine.load([row(1, int=INT64_MAX), row(2, int=INT64_MAX)])
        with pytest.raises(sqlite3.OperationalError, match="integer overflow"):
            engine.aggregate([("total", agg.sum(of("int")))])


def test_groups_without_rows_and_figures_without_values(engine: Engine) -> None:
    engine.load([])
    named = [
        ("n", agg.count()),
        ("total", agg.sum(of("int"))),
        ("mean", agg.avg(of("float"))),
        ("x", agg.sum(of("float"))),
    ]
    assert engine.aggregate(named) == [{"n": 0, "total": 0, "mean": None, "x": 0.0}]
    assert engine.aggregate(named, [of("text").ref]) == []


def test_having_may_use_figures_that_are_not_asked_for(engine: Engine) -> None:
    engine.load([row(1, text="a"), row(2, text="a"), row(3, text="b"), row(4, text_or_null="z")])
    found = engine.aggregate([("total", agg.sum(of("int")))], [of("text").ref], agg.count() >= 2)
    assert found == [{"text": "a", "total": 7}]
