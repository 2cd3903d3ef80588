"""Objects and physical rows: the fast ways agree with the plain definition, for every type and value."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model.storable_types import Color, Typed, datetimes, decimals, integers, same, texts, typed_values
from pydantic import AfterValidator, ValidationError

from ontologia.errors import InputError
from ontologia.model.comparable import comparable, decimal_key, instant, time_of_day
from ontologia.model.declare import Entity, Relation
from ontologia.model.fields import Field
from ontologia.model.physical import INT64_MAX, from_physical, layout, to_physical
from ontologia.model.rows import declaration_of, decode_value, encoder, from_stored, hydrator, identity, stored_values
from ontologia.model.spec import Kind, TypeSpec
from ontologia.model.upgrade import plain_values

_numbers = itertools.count()


def never(commit_id: int) -> datetime:
    raise AssertionError(commit_id)


def back(value: Any) -> Any:
    return hydrator(type(value))(encoder(type(value))(value), 1, never)


class Plain(Entity):
    name: Field[str]
    id: Field[str] = Field(primary_key=True)
    number: Field[int | None] = Field(default=None)
    amount: Field[float] = Field(default=0.0)
    blob: Field[bytes | None] = Field(default=None)


class Numbered(Entity):
    id: Field[int] = Field(primary_key=True)
    other: Field[int] = Field(default=0)


class Ticket(Entity):
    id: Field[UUID] = Field(primary_key=True)


class Link(Relation[Plain, Plain]):
    pass


class Weighted(Relation[Plain, Plain]):
    weight: Field[int]


class Keyed(Relation[Numbered, Ticket]):
    note: Field[str]
    stint: Field[str] = Field(instance_key=True)


def entity_of(parts: list[Typed]) -> Any:
    annotations = {f"f{number}": Field[part[0]] for number, part in enumerate(parts)}
    body = {"__annotations__": {"id": Field[str], **annotations}, "id": Field(primary_key=True), "__module__": __name__}
    return type(f"Type{next(_numbers)}", (Entity,), body)


@given(st.lists(typed_values, max_size=3), st.data())
@settings(max_examples=60)
def test_a_row_of_any_type_is_the_plain_definition_and_comes_back(parts: list[Typed], data: st.DataObject):
    cls = entity_of(parts)
    given_values = {f"f{number}": data.draw(part[1]) for number, part in enumerate(parts)}
    value: Any = cls(id="k", **given_values)
    row = encoder(cls)(value)
    stored = stored_values(value)
    assert row == to_physical(cls.__spec__, identity(value), list(stored.values()))
    assert from_physical(cls.__spec__, row) == stored
    assert same(back(value).__dict__, value.__dict__) or back(value) == value
    assert from_stored(cls, ("k",), plain_values(cls.__spec__, stored)) == value


@given(texts.filter(bool), texts, st.none() | integers, st.floats(allow_nan=False), st.none() | st.binary())
def test_plain_classes_take_the_short_way_to_the_same_row(
    key: str, name: str, number: int | None, amount: float, blob: bytes | None
):
    value = Plain(id=key, name=name, number=number, amount=amount, blob=blob)
    row = encoder(Plain)(value)
    assert row == to_physical(Plain.__spec__, (key,), list(stored_values(value).values()))
    assert [type(cell) for cell in row[1:3]] == [str, type(number)]
    assert same(back(value).model_dump(), value.model_dump())


@given(integers, integers)
def test_integers_beyond_64_bits_are_clamped_in_their_column_and_whole_in_big(one: int, other: int):
    value = Numbered(id=one, other=other)
    row = encoder(Numbered)(value)
    assert all(-INT64_MAX <= cell <= INT64_MAX for cell in row[1:3])
    assert (row[-1] is None) == (abs(one) <= INT64_MAX and abs(other) <= INT64_MAX)
    assert back(value) == value


def test_integers_too_long_for_decimal_text_survive():
    value = Plain(id="k", name="n", number=-(10**6000))
    assert back(value).number == -(10**6000)
    assert from_physical(Plain.__spec__, encoder(Plain)(value))["number"] == -(10**6000)


def test_relations_start_with_three_identity_columns():
    link = Link(left_key="a", right_key="b")
    weighted = Weighted(left_key="a", right_key="b", weight=3)
    keyed = Keyed(left_key=7, right_key=UUID(int=1), stint="s", note="n")
    assert encoder(Link)(link) == ("a", "b", "", None)
    assert encoder(Weighted)(weighted) == ("a", "b", "", 3, None)
    assert encoder(Weighted)(Weighted(left_key="a", right_key="b", weight=2**70)) == (
        "a",
        "b",
        "",
        INT64_MAX,
        json.dumps({"f0": str(2**70)}),
    )
    assert encoder(Keyed)(keyed) == ("7", str(UUID(int=1)), "s", "n", None)
    for value in (link, weighted, keyed):
        assert back(value) == value
        assert set(back(value).__dict__) == set(value.__dict__)
    assert layout(Keyed.__spec__).main["stint"] == "instance_key"


def test_every_kind_has_the_column_it_is_compared_by():
    class Wide(Entity):
        id: Field[str] = Field(primary_key=True)
        flag: Field[bool]
        day: Field[date]
        moment: Field[datetime]
        clock: Field[time]
        price: Field[Decimal]
        color: Field[Color]
        tags: Field[list[str]]

    value = Wide(
        id="k",
        flag=True,
        day=date(2024, 1, 2),
        moment=datetime(2024, 1, 2, tzinfo=timezone(timedelta(hours=2))),
        clock=time(1, 2, 3),
        price=Decimal("1.50"),
        color=Color.RED,
        tags=["é"],
    )
    row = encoder(Wide)(value)
    assert row == (
        "k",
        1,
        "2024-01-02",
        1704146400000000,
        "2024-01-02T00:00:00+02:00",
        3723000000,
        "01:02:03",
        "c0500000115",
        "1.50",
        "red",
        '["é"]',
        None,
    )
    assert type(row[1]) is int
    assert same(back(value).model_dump(), value.model_dump())
    utc = Wide.model_validate({**value.model_dump(), "moment": datetime(2024, 1, 2, tzinfo=UTC)})
    assert encoder(Wide)(utc)[4] is None


def test_from_stored_validates_fills_in_and_keeps_the_key():
    assert from_stored(Plain, ("k",), {"name": "n"}) == Plain(id="k", name="n")
    assert from_stored(Numbered, ("7",), {"id": 7}) == Numbered(id=7)
    assert from_stored(Weighted, ("a", "b", ""), {"weight": 3, "left_key": "a"}) == Weighted(
        left_key="a", right_key="b", weight=3
    )
    assert from_stored(Keyed, ("1", str(UUID(int=2)), "s"), {"note": "n"}).stint == "s"
    with pytest.raises(ValueError, match="keys cannot change"):
        from_stored(Plain, ("k",), {"id": "other", "name": "n"})
    with pytest.raises(ValidationError, match="amount"):
        from_stored(Plain, ("k",), {"name": "n", "amount": "much"})
    with pytest.raises(ValidationError, match="Extra inputs"):
        from_stored(Plain, ("k",), {"name": "n", "gone": 1})


def test_from_stored_takes_json_as_written_or_python_values():
    class Logged(Entity):
        id: Field[str] = Field(primary_key=True)
        times: Field[list[datetime]]

    moment = datetime(2024, 1, 1, tzinfo=UTC)
    for times in (["2024-01-01T00:00:00+00:00"], [moment]):
        assert from_stored(Logged, ("k",), {"times": times}).times == [moment]


def test_stored_values_are_decoded_to_what_objects_have():
    class Painted(Entity):
        id: Field[str] = Field(primary_key=True)
        color: Field[Color | None]

    assert decode_value(Painted, "id") is None
    decode = decode_value(Painted, "color")
    assert decode is not None
    assert (decode("red"), decode(None)) == (Color.RED, None)
    key = decode_value(Keyed, "left_key")
    assert key is not None
    assert key("7") == 7


def test_parsed_json_is_decoded_and_not_shared():
    class Logged(Entity):
        id: Field[str] = Field(primary_key=True)
        times: Field[list[datetime]]
        anything: Field[Any] = Field(default=None)

    times, anything = decode_value(Logged, "times"), decode_value(Logged, "anything")
    assert times is not None
    assert anything is not None
    assert times(["2024-01-01T00:00:00+00:00"]) == [datetime(2024, 1, 1, tzinfo=UTC)]
    assert (times(None), anything(None), anything("text"), anything(3)) == (None, None, "text", 3)
    shared = {"a": {"b": 1}}
    anything(shared)["a"]["b"] = 2
    assert shared == {"a": {"b": 1}}


class YesNo(Enum):
    YES = True
    NO = False


class Words(str):
    __slots__ = ()


class Worded(Enum):
    HELLO = Words("hello")


class Blob(bytes):
    pass


class Real(float):
    pass


class Whole(int):
    pass


def test_cells_are_exactly_of_the_types_that_are_digested():
    class Exact(Entity):
        id: Field[Annotated[str, AfterValidator(Words)]] = Field(primary_key=True)
        yes: Field[YesNo]
        word: Field[Worded] = Field(default=Worded.HELLO)
        blob: Field[bytes]
        real: Field[Annotated[float, AfterValidator(Real)]]
        rounded: Field[Annotated[float, AfterValidator(round)]]
        whole: Field[Annotated[int, AfterValidator(Whole)]]

    value = Exact(id="k", yes=YesNo.NO, blob=Blob(b"x"), real=1.5, rounded=2.4, whole=3)
    for row in (
        encoder(Exact)(value),
        to_physical(Exact.__spec__, identity(value), list(stored_values(value).values())),
    ):
        assert row == ("k", 0, "hello", b"x", 1.5, 2.0, 3, None)
        assert [type(cell) for cell in row] == [str, int, str, bytes, float, float, int, type(None)]
    assert back(value) == value


def test_the_key_of_an_end_has_one_text():
    left, right = declaration_of(Keyed).ends
    assert left.codec is not None
    assert right.codec is not None
    code = UUID("abcdef00-0000-0000-0000-000000000001")
    assert [left.codec.encode(key) for key in (2, "02", "2")] == ["2"] * 3
    assert [right.codec.encode(key) for key in (code, str(code).upper())] == [str(code)] * 2
    for codec, wrong in itertools.product((left.codec, right.codec), (2.0, True, [1], None, "x")):
        with pytest.raises((TypeError, ValueError), match=r"."):
            codec.encode(wrong)


def test_a_value_spoilt_after_it_was_given_is_refused_when_written():
    class Logged(Entity):
        id: Field[str] = Field(primary_key=True)
        profile: Field[dict[str, Any]]

    logged = Logged(id="k", profile={})
    logged.profile["a"] = {1, 2}
    with pytest.raises(
        InputError, match=r"Logged \('k',\): profile cannot be stored: set is not a JSON value \(at \$\.a\)"
    ):
        encoder(Logged)(logged)


def test_abstract_classes_have_no_rows():
    class Base(Entity, abstract=True):
        pass

    for make in (encoder, hydrator):
        with pytest.raises(TypeError, match="Base is abstract"):
            make(Base)


@given(decimals, decimals)
@settings(max_examples=300)
def test_decimal_keys_order_as_numbers(one: Decimal, other: Decimal):
    assert (decimal_key(one) < decimal_key(other)) == (one < other)
    assert (decimal_key(one) == decimal_key(other)) == (one == other)


@given(datetimes, datetimes)
def test_instants_order_as_datetimes(one: datetime, other: datetime):
    def aware(value: datetime) -> datetime:
        return value if value.tzinfo else value.replace(tzinfo=UTC)

    assert (instant(one) < instant(other)) == (aware(one) < aware(other))
    assert (instant(one) == instant(other)) == (aware(one) == aware(other))


def test_comparable_forms_leave_none_and_plain_kinds_alone():
    assert comparable(Kind.TEXT, "x") == "x"
    assert all(comparable(kind, None) is None for kind in Kind)
    assert comparable(Kind.TIME, time(1, tzinfo=timezone(timedelta(hours=2)))) == -3_600_000_000
    assert time_of_day(time(0, 0, 1)) == 1_000_000


def test_specs_survive_json_and_can_be_keys():
    class Painted(Entity):
        """With a default."""

        id: Field[str] = Field(primary_key=True)
        color: Field[Color] = Field(default=Color.RED, index=True)
        price: Field[Decimal] = Field(default=Decimal("1.50"))
        tags: Field[list[str]] = Field(default_factory=list)

    for spec in (Painted.__spec__, Keyed.__spec__):
        again = TypeSpec.from_json(json.loads(json.dumps(spec.to_json())))
        assert again == spec
        assert again.doc == spec.doc
        assert again.fingerprint == spec.fingerprint
        assert {spec: 1}[again] == 1
    assert isinstance(Color.RED, Enum)
