"""What each test, order and figure means, by example."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from query.samples import Customer, Subscription

from ontologia.errors import QueryError
from ontologia.query import aggregates as agg
from ontologia.query.expr import Predicate, left, right
from ontologia.query.predicates import And, Not, Or
from ontologia.query.reference import aggregate, grouped, having_matches, matches, sort_rows, value_of

EAST = timezone(timedelta(hours=2))


def doc(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


ROW: dict[str, Any] = {
    "name": "Straße 😀",
    "age": 2**53 + 1,
    "score": 0.1,
    "price": Decimal("1.10"),
    "active": False,
    "joined": datetime(2024, 1, 1, 12, tzinfo=EAST),
    "born": date(2000, 2, 29),
    "alarm": time(9, tzinfo=EAST),
    "picture": b"abc",
    "tags": doc(["a", "b"]),
    "email": None,
    "profile": doc(
        {
            "n": 5,
            "f": 5.0,
            "t": "5",
            "yes": True,
            "no": False,
            "null": None,
            "big": 10**30,
            "a.b": {"c": "deep"},
            "log": [{"kind": "click", "at": 3}, {"kind": "view"}, 7],
        }
    ),
}
P = Customer.profile


@pytest.mark.parametrize(
    "holds",
    [
        Customer.name.startswith("Str"),
        Customer.name.endswith("😀"),
        Customer.name.contains("aße"),
        Customer.name.icontains("STRASSE"),
        Customer.name.matches(r"ß.\s"),
        Customer.name.len_() == 8,
        Customer.age == 2**53 + 1,
        Customer.age > float(2**53),
        Customer.age != float(2**53),
        Customer.score < Decimal("0.1000000000000000055511151231257827021181583404541015625001"),
        Customer.score > Decimal("0.1"),
        Customer.price == Decimal("1.1"),
        Customer.price == 1.1,
        Customer.active.is_false(),
        ~Customer.active.is_true(),
        Customer.active.in_([False]),
        Customer.joined == datetime(2024, 1, 1, 10),  # noqa: DTZ001 - no offset means UTC
        Customer.joined == datetime(2024, 1, 1, 10, tzinfo=UTC),
        Customer.alarm == time(7),
        Customer.born.between(date(2000, 1, 1), date(2000, 2, 29)),
        Customer.picture >= b"ab",
        Customer.picture.len_() == 3,
        Customer.email.is_null(),
        Customer.email != "x",
        Customer.email.not_in(["x"]),
        ~(Customer.email < "x"),
        Customer.tags.len_() == 2,
        Customer.tags.any_path() == "b",
        Customer.tags.any_path() != "b",
        P["n"] == 5.0,
        P["f"] == 5,
        P["f"].in_([5]),
        P["n"].len_().is_null(),
        P["big"] == 10**30,
        P["big"] > 1e29,
        P["null"].is_null(),
        P["gone"].is_null(),
        P["gone"]["deeper"].is_null(),
        P["yes"].is_true(),
        P["no"].is_false(),
        P["yes"].in_([True]),
        P["a.b"]["c"] == "deep",
        P["a.b"].len_() == 1,
        P["log"].any_path("kind") == "click",
        P["log"].any_path("at").is_null(),
        P["log"].any_path() == 7,
        P["log"].any_path("kind").len_() == 5,
    ],
    ids=repr,
)
def test_it_holds(holds: Predicate) -> None:
    assert matches(holds, ROW)
    assert not matches(~holds, ROW)


@pytest.mark.parametrize(
    "fails",
    [
        Customer.name.contains("STRASSE"),
        Customer.email == "x",
        Customer.email < "x",
        Customer.email >= "",
        Customer.email.contains(""),
        Customer.email.in_([]),
        Customer.email.len_() == 0,
        P["n"] == "5",
        P["t"] == 5,
        P["t"] > 1,
        P["n"] < "z",
        P["yes"].in_([1]),
        P["n"].is_true(),
        P["yes"] == 1,
        P["a.b"] == "deep",
        P.path("a.b.c") == "deep",
        P["null"] >= 0,
        P["n"].contains("5"),
        P["n"].any_path() == 5,
        P["log"].any_path("kind") == "buy",
        ~(P["log"].any_path("kind") != "click"),
    ],
    ids=repr,
)
def test_it_fails(fails: Predicate) -> None:
    assert not matches(fails, ROW)
    assert matches(~fails, ROW)


def test_a_missing_end_has_only_null_values() -> None:
    row = {"seats": 3}
    assert not matches(left(Subscription).age > 1, row)
    assert matches(left(Subscription).age.is_null(), row, None, [])
    assert matches(left(Subscription).age != 1, row)
    assert matches((left(Subscription).age > 1) | (right(Subscription).price < 5), row, None, {"price": 1.0})


def test_a_test_of_an_end_holds_when_it_holds_for_some_version() -> None:
    versions = [{"age": 1}, {"age": 9}]
    assert matches((left(Subscription).age < 2) & (left(Subscription).age > 8), {}, versions)
    assert not matches(left(Subscription).age != 9, {}, versions)


def test_a_condition_on_aggregates_is_no_condition_on_rows() -> None:
    with pytest.raises(QueryError, match="not a condition on rows"):
        matches(agg.count() > 1, ROW)


def deep(levels: int) -> Predicate:
    predicate: Predicate = Customer.age == 0
    for level in range(levels):
        inner = Not(predicate) if level % 3 == 0 else predicate
        predicate = And((inner, Customer.age != level)) if level % 2 else Or((inner, Customer.age == level))
    return predicate


def test_very_deep_and_very_wide_conditions_are_evaluated() -> None:
    predicate = deep(5000)
    assert isinstance(matches(predicate, ROW), bool)
    assert repr(predicate).count("Customer.age") == 5001
    wide: Predicate = Customer.age == 0
    for number in range(2000):
        wide |= Customer.age == number
    assert not matches(wide, ROW)
    assert matches(wide | (Customer.age > 1), ROW)


def test_null_sorts_last_in_both_directions_and_ties_keep_their_order() -> None:
    rows = [{"age": age, "email": email} for age, email in [(1, None), (2, "b"), (3, "a"), (4, None), (5, "b")]]
    assert [row["age"] for row in sort_rows(rows, [Customer.email.asc()])] == [3, 2, 5, 1, 4]
    assert [row["age"] for row in sort_rows(rows, [Customer.email.desc()])] == [2, 5, 3, 1, 4]
    both = [Customer.email.desc(), Customer.age.desc()]
    assert [row["age"] for row in sort_rows(rows, both)] == [5, 2, 3, 4, 1]
    assert [pair[0] for pair in sort_rows(enumerate(rows), both, key=lambda pair: pair[1])] == [4, 1, 2, 3, 0]


def test_values_inside_json_sort_by_class_then_value() -> None:
    values: list[Any] = ["b", 2, None, True, [1], "a", 1.5, False, {"k": 1}]
    rows = [{"profile": doc({"v": value})} for value in values]
    found = [value_of(P["v"].ref, row) for row in sort_rows(rows, [P["v"].asc()])]
    assert found == [False, True, 1.5, 2, "a", "b", [1], {"k": 1}, None]


def figure(one: agg.Aggregate, field: str, values: list[Any]) -> Any:
    return aggregate([{field: value} for value in values], [("it", one)])["it"]


@pytest.mark.parametrize(
    ("one", "field", "values", "expected"),
    [
        (agg.sum(Customer.age), "age", [2**63, 1, None], 2**63 + 1),
        (agg.sum(Customer.age), "age", [], 0),
        (agg.sum(Customer.score), "score", [0.1] * 10, 1.0),
        (agg.sum(Customer.score), "score", [], 0.0),
        (agg.sum(Customer.score), "score", [1e308, 1e308, -1e308], 1e308),
        (agg.sum(Customer.score), "score", [math.inf, 1.0], math.inf),
        (agg.sum(Customer.price), "price", [Decimal("1e30"), Decimal("1e-30")], Decimal(f"1{'0' * 30}.{'0' * 29}1")),
        (agg.avg(Customer.age), "age", [1, 2, None], 1.5),
        (agg.avg(Customer.age), "age", [None], None),
        (agg.avg(Customer.price), "price", [Decimal("0.1"), Decimal("0.2")], Decimal("0.15")),
        (agg.min(Customer.name), "name", ["b", None, "a"], "a"),
        (agg.max(Customer.name), "name", [], None),
        (agg.max(Customer.born), "born", [date(2024, 1, 1), date(2023, 1, 1)], date(2024, 1, 1)),
        (agg.count_distinct(Customer.price), "price", [Decimal("1.0"), Decimal("1.00"), None], 1),
        (agg.count_where(Customer.email.is_null()), "email", [None, "x"], 1),
        (agg.count(), "email", [None, "x"], 2),
        (agg.avg_len(Customer.name), "name", ["😀", "abc", None], 2.0),
        (agg.avg_len(Customer.tags), "tags", ["[]", '["a"]'], 0.5),
        (agg.sum(P["n"]), "profile", ['{"n":1}', '{"n":"x"}', '{"n":true}', "{}"], 1),
        (agg.sum(P["n"]), "profile", ['{"n":1}', '{"n":0.5}'], 1.5),
        (agg.avg(P["n"]), "profile", ['{"n":1}', '{"n":2}', '{"n":null}'], 1.5),
    ],
    ids=lambda value: repr(value) if isinstance(value, agg.Aggregate) else None,
)
def test_a_figure_is(one: agg.Aggregate, field: str, values: list[Any], expected: Any) -> None:
    found = figure(one, field, values)
    assert (found, type(found)) == (expected, type(expected))


def test_a_sum_of_both_infinities_is_not_a_number() -> None:
    assert math.isnan(figure(agg.sum(Customer.score), "score", [math.inf, -math.inf]))


def test_equal_instants_count_once() -> None:
    moments = [datetime(2024, 1, 1, 12, tzinfo=EAST), datetime(2024, 1, 1, 10, tzinfo=UTC)]
    assert figure(agg.count_distinct(Customer.joined), "joined", moments) == 1


def test_groups_come_in_key_order_with_null_last_and_having_chooses_among_them() -> None:
    rows = [{"email": email, "age": age} for email, age in [("b", 1), (None, 2), ("a", 3), ("b", 4), (None, 5)]]
    group, total = [Customer.email.ref], agg.sum(Customer.age)
    assert grouped(rows, group, [("n", agg.count()), ("total", total)]) == [
        {"email": "a", "n": 1, "total": 3},
        {"email": "b", "n": 2, "total": 5},
        {"email": None, "n": 2, "total": 7},
    ]
    assert grouped(rows, group, [("n", agg.count())], (total > 3) & ~(agg.max(Customer.age) == 5)) == [
        {"email": "b", "n": 2}
    ]


def test_without_grouping_there_is_one_group_even_of_nothing() -> None:
    assert grouped([], [], [("n", agg.count()), ("most", agg.max(Customer.age))]) == [{"n": 0, "most": None}]
    assert grouped([], [Customer.email.ref], [("n", agg.count())]) == []


def test_a_figure_that_is_none_passes_no_comparison_but_differs_from_everything() -> None:
    least = agg.min(Customer.joined)
    named = [("least", least)]
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    assert not having_matches(least < moment, named, {"least": None})
    assert having_matches(least != moment, named, {"least": None})
    assert having_matches(least == moment, named, {"least": datetime(2024, 1, 1, 2, tzinfo=EAST)})


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: agg.sum(Customer.name), r"sum\(\) is for numbers, and Customer.name is text"),
        (lambda: agg.avg(Customer.joined), r"avg\(\) is for numbers"),
        (lambda: agg.sum(3), r"sum\(\) takes a field"),  # pyright: ignore[reportArgumentType]
        (lambda: agg.min(Customer.tags.any_path()), "stands for many values"),
        (lambda: agg.max(left(Subscription).age), "belongs to an end"),
        (lambda: agg.avg_len(Customer.age), "has no length"),
        (lambda: agg.count_where(Customer.active), r"takes a condition"),  # pyright: ignore[reportArgumentType]
        (lambda: agg.count_where(agg.count() > 1), "not on aggregates"),
        (lambda: agg.count_where(left(Subscription).age > 1), "belongs to an end"),
        (lambda: agg.count() > "x", "compared with int or float or Decimal, not with str"),
        (lambda: agg.min(Customer.name) > 3, "compared with str, not with int"),
        (lambda: agg.check_having(Customer.age > 1), r"Put conditions on fields in where\(\)"),
        (lambda: agg.check_where(agg.count() > 1), r"Put conditions on aggregates in having\(\)"),
    ],
)
def test_figures_that_make_no_sense_are_refused(ask: Any, words: str) -> None:
    with pytest.raises(QueryError, match=words):
        ask()


def test_conditions_on_aggregates_read_like_python() -> None:
    assert repr((agg.count() > 1) & (agg.sum(Customer.age) != 3)) == "(count() > 1) & (sum(Customer.age) != 3)"
    assert repr(agg.avg_len(Customer.name)) == "avg_len(Customer.name)"
    assert repr(agg.count_where(Customer.age > 1)) == "count_where(Customer.age > 1)"
    with pytest.raises(TypeError, match="compare it"):
        bool(agg.count())
    with pytest.raises(TypeError, match="cannot be compared with None"):
        _ = agg.count() == None  # noqa: E711
