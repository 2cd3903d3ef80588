"""What can be written about a field, what it reads like, and what is refused with which words."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from query.samples import Address, Color, Customer, Product, Shop, Subscription, Tier

from ontologia.errors import QueryError
from ontologia.model.codec import codec_for
from ontologia.model.spec import FieldSpec, Kind, TypeSpec
from ontologia.model.types import shape_of
from ontologia.query.expr import Compare, Not, Op, Order, Ref, all_of, any_of, field_expression, left, right
from ontologia.query.predicates import And, Const, Or, comparisons
from ontologia.query.reference import matches

TOKEN = UUID("12345678-1234-5678-1234-567812345678")


@pytest.mark.parametrize(
    ("predicate", "text"),
    [
        (Customer.name == "Ann", "Customer.name == 'Ann'"),
        (Customer.name != "Ann", "Customer.name != 'Ann'"),
        (Customer.age < 3, "Customer.age < 3"),
        (Customer.age.between(1, 3), "Customer.age.between(1, 3)"),
        (Customer.name.in_(["a", "b"]), "Customer.name.in_(['a', 'b'])"),
        (Customer.name.not_in(["a"]), "Customer.name.not_in(['a'])"),
        (Customer.email.is_null(), "Customer.email.is_null()"),
        (Customer.email.is_not_null(), "Customer.email.is_not_null()"),
        (Customer.active.is_true(), "Customer.active.is_true()"),
        (~Customer.active.is_false(), "~Customer.active.is_false()"),
        (~(Customer.age < 3), "~(Customer.age < 3)"),
        (Customer.name.startswith("A"), "Customer.name.startswith('A')"),
        (Customer.name.matches("^A"), "Customer.name.matches('^A')"),
        (Customer.profile.path("a.b") == 1, "Customer.profile['a']['b'] == 1"),
        (Customer.profile["a.b"]["c"] == 1, "Customer.profile['a.b']['c'] == 1"),
        (Customer.profile["log"].any_path("kind.id") == 1, "Customer.profile['log'].any_path('kind.id') == 1"),
        (Customer.tags.any_path() != "x", "Customer.tags.any_path() != 'x'"),
        (Customer.profile["l"].any_path()["a.b"] == 1, "Customer.profile['l'].any_path()['a.b'] == 1"),
        (Customer.tags.len_() > 2, "Customer.tags.len_() > 2"),
        (left(Subscription).name == "Ann", "left(Subscription).name == 'Ann'"),
        (
            ((Customer.age < 3) & Customer.email.is_null()) | ~(Customer.age.in_([7]) & (Customer.name == "x")),
            "((Customer.age < 3) & Customer.email.is_null()) | ~(Customer.age.in_([7]) & (Customer.name == 'x'))",
        ),
    ],
)
def test_a_predicate_reads_like_the_python_that_made_it(predicate: Any, text: str) -> None:
    assert repr(predicate) == text


@pytest.mark.parametrize(
    "text",
    [
        "(Customer.age < 3) & ((Customer.name == 'a') | ~Customer.name.contains('b'))",
        "Customer.profile['a'].any_path('k').not_in([1, 'x', True])",
        "~(Customer.tags.any_path() == 'x')",
        "Customer.joined >= datetime.datetime(2024, 1, 1, 0, 0)",
    ],
)
def test_the_text_of_a_predicate_makes_the_same_predicate_again(text: str) -> None:
    names = {"Customer": Customer, "datetime": dt}
    predicate = eval(text, names)  # noqa: S307 - our own text
    assert repr(predicate) == text
    assert eval(repr(predicate), names) == predicate  # noqa: S307


def test_orders_read_like_python() -> None:
    assert repr([Customer.name.asc(), Customer.profile["a"].desc()]) == (
        "[Customer.name.asc(), Customer.profile['a'].desc()]"
    )
    assert Customer.age.desc() == Order(Customer.age.ref, descending=True)


def test_negative_tests_are_complements_of_positive_ones() -> None:
    assert (Customer.name != "x") == Not(Customer.name == "x")
    assert Customer.name.not_in(["x"]) == ~Customer.name.in_(["x"])
    assert Customer.email.is_null() == ~Customer.email.is_not_null()
    assert ~~(Customer.name == "x") == (Customer.name == "x")


def test_negative_tests_of_items_are_tests_of_their_own() -> None:
    assert (Customer.tags.any_path() != "x") == Compare(Customer.tags.any_path().ref, Op.NE, "x")


def test_chains_of_and_and_or_are_flat() -> None:
    term = Customer.age > 1
    assert (term & term & (term & term)) == And((term,) * 4)
    assert (term | term | term) == Or((term,) * 3)
    assert all_of([]) == Const(value=True)
    assert any_of([]) == Const(value=False)
    assert all_of([term]) == term
    assert len(list(comparisons((term & ~term) | term))) == 3


@pytest.mark.parametrize(
    ("make", "literal", "stored"),
    [
        (lambda value: Customer.token == value, TOKEN, str(TOKEN)),
        (lambda value: Customer.token == value, str(TOKEN).upper(), str(TOKEN)),
        (lambda value: Customer.tier == value, Tier.GOLD, "gold"),
        (lambda value: Customer.tier == value, "gold", "gold"),
        (lambda value: Customer.picture == value, bytearray(b"a"), b"a"),
        (lambda value: Customer.age == value, Decimal("1.5"), Decimal("1.5")),
        (lambda value: Customer.born == value, date(2024, 1, 2), date(2024, 1, 2)),
        (lambda value: Customer.alarm == value, time(7), time(7)),
        (lambda value: Customer.score == value, -0.0, 0.0),
        (lambda value: Customer.address.path("tier") == value, Tier.GOLD, "gold"),
    ],
)
def test_literals_take_their_stored_form(make: Callable[[Any], Any], literal: Any, stored: Any) -> None:
    value = make(literal).value
    assert (value, type(value), str(value)) == (stored, type(stored), str(stored))


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: Customer.name == 3, "Customer.name is compared with str, not with int 3"),
        (lambda: Customer.age == "3", "Customer.age is compared with int, float or Decimal, not with str '3'"),
        (lambda: Customer.age.in_([1, "x"]), "not with str 'x'"),
        (lambda: Customer.joined > date(2024, 1, 1), "compared with datetime, not with date"),
        (lambda: Customer.born > datetime(2024, 1, 1, tzinfo=UTC), "compared with date, not with datetime"),
        (lambda: Customer.token == "nonsense", "compared with UUID, not with str 'nonsense'"),  # noqa: S105
        (lambda: Customer.tier == Color.RED, r"not with Color <Color\.RED"),
        (lambda: Customer.score.in_([float("nan")]), "no stored number is nan"),
        (lambda: Customer.price == Decimal("nan"), "no stored number is nan"),
        (lambda: Customer.name == "\ud800", "half of a surrogate pair"),
        (lambda: Customer.active == 1, "is true or false and is not compared by =="),
        (lambda: Customer.active.in_([1]), "compared with bool, not with int 1"),
        (lambda: Customer.age < Customer.score, "another field, Customer.score.*compare them in Python"),
        (lambda: Customer.name.startswith(3), "compared with str, not with int 3"),  # pyright: ignore[reportArgumentType]
        (lambda: Customer.age.startswith("3"), r"startswith\(\) is for text, and Customer.age is int"),
        (lambda: Customer.tags.contains("a"), r"is a list\. Write Customer\.tags\.any_path\(\)"),
        (lambda: Customer.name.matches("("), "is not a regular expression"),
        (Customer.name.is_true, r"is_true\(\) is for bool fields, and Customer.name is text"),
        (lambda: Customer.name.in_("abc"), "takes the values as a list, not str 'abc'"),
        (lambda: Customer.name.in_(3), "takes the values as a list, not int 3"),  # pyright: ignore[reportArgumentType]
        (lambda: Customer.name.path("a"), "for fields that hold JSON, and Customer.name is text"),
        (lambda: Customer.name["a"], "for fields that hold JSON"),
        (lambda: Customer.profile[0], r"by text keys, not by 0\. Use any_path"),  # pyright: ignore[reportArgumentType]
        (lambda: Customer.profile.path("a..b"), "has an empty segment"),
        (Customer.age.any_path, "for fields that hold JSON"),
        (Customer.address.any_path, "never a list"),
        (Customer.tags.any_path().any_path, "used twice"),
        (lambda: Customer.address.path("town"), r"no 'town' in Customer.address\. Known are: city, since, tier"),
        (lambda: Customer.address.path("city.name"), r"no 'name' in Customer.address\['city'\]\. It is str"),
        (lambda: Customer.address == {"city": "x"}, "not with dict.*path"),
        (lambda: Customer.profile["a"] == Decimal(1), "compared with str, int or float, not with Decimal"),
        (lambda: Customer.profile["a"] == datetime(2024, 1, 1, tzinfo=UTC), "compared with str, int or float"),
        (Customer.age.len_, "has no length"),
        (Customer.name.len_().len_, "has no length"),
        (lambda: Customer.name.len_() == "3", "compared with int, float or Decimal, not with str"),
        (Customer.tags.any_path().asc, r"stands for many values and cannot be used in order_by"),
        (left(Subscription).name.desc, "belongs to an end of the relation"),
        (lambda: left(Subscription).nam, r"no field 'nam'\. Known are: active, address"),
        (lambda: left(Product), r"left\(\) takes a relation class, not 'Product'"),
    ],
)
def test_what_cannot_mean_anything_is_refused_with_the_reason(ask: Callable[[], Any], words: str) -> None:
    with pytest.raises(QueryError, match=words):
        ask()


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: Customer.email == None, r"write Customer\.email\.is_null\(\)"),  # noqa: E711
        (lambda: Customer.email != None, r"write Customer\.email\.is_not_null\(\)"),  # noqa: E711
        (lambda: Customer.active == True, r"write Customer\.active\.is_true\(\)"),  # noqa: E712
        (lambda: Customer.active == False, r"write Customer\.active\.is_false\(\)"),  # noqa: E712
        (lambda: Customer.active != True, r"write Customer\.active\.is_false\(\)"),  # noqa: E712
        (lambda: Customer.email.in_([None]), r"is_null\(\)"),
        (lambda: Customer.age.between(None, 3), r"is_null\(\)"),
        (lambda: bool(Customer.age > 1), "join conditions with &"),
        (lambda: 1 < Customer.age < 3, "between"),
        (lambda: Customer.age > 1 and Customer.age < 3, "join conditions with &"),
        (lambda: (Customer.age > 1) & True, "is not a query condition"),  # pyright: ignore[reportOperatorIssue]
        (lambda: bool(Customer.active), r"Customer\.active\.is_true\(\)"),
        (lambda: "a" in Customer.tags, "any_path"),
        (lambda: list(Customer.tags), "not iterable"),  # pyright: ignore[reportArgumentType, reportCallIssue, reportUnknownLambdaType]
    ],
)
def test_slips_of_python_are_type_errors_with_a_hint(ask: Callable[[], Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        ask()


def test_the_error_of_a_wrong_literal_has_its_facts() -> None:
    with pytest.raises(QueryError) as caught:
        _ = Customer.age == "3"
    assert caught.value.details == {"field": "age", "expected": "int, float or Decimal", "got": "str"}


def test_ends_are_expressions_of_the_entity_at_that_end() -> None:
    assert (left(Subscription).age > 3) == Compare(Ref("left", "age", Kind.INT, owner="Subscription"), Op.GT, 3)
    assert (right(Subscription).price > 3) == Compare(Ref("right", "price", Kind.FLOAT, owner="Subscription"), Op.GT, 3)
    assert Customer.age.ref == Ref("self", "age", Kind.INT, nullable=False, owner="Customer")
    assert repr(left(Subscription)) == "left(Subscription)"


def test_tags_of_unions_are_no_part_of_a_path() -> None:
    """Two models in one union are stored with their type beside them, which nobody who asks has to know."""
    city = Customer.place.path("city")
    assert city.ref.label == "place.city"
    assert repr(city) == "Customer.place['city']"
    codec = codec_for(shape_of(Address | Shop, "place"))
    assert codec is not None
    stored = codec.encode(Address("Rome", datetime(2024, 1, 2, tzinfo=UTC), Tier.GOLD))
    assert matches(city == "Rome", {"place": stored})
    assert not matches(city == "Oslo", {"place": stored})


def test_an_infinite_float_inside_json_is_a_number() -> None:
    codec = codec_for(shape_of(list[float], "numbers"))
    assert codec is not None
    row = {"numbers": codec.encode([1.5, float("inf")])}
    spec = FieldSpec("numbers", {"list": "float"}, Kind.JSON)
    numbers = field_expression(TypeSpec("entity", "T", (spec,)), spec, codec)
    assert matches(numbers.any_path() > 10**400, row)
    assert not matches(numbers.any_path() < 1, row)
