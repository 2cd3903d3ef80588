"""The exact JSON of nested values: what goes in comes out, equal and of the same type."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, Optional, TypedDict
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model.storable_types import Color, Level, Typed, same, typed_values
from pydantic import BaseModel, ConfigDict, PrivateAttr

from ontologia.base.canonical import canonical_json
from ontologia.model.codec import Codec, codec_for
from ontologia.model.jsonform import dumps, json_form
from ontologia.model.shapes import kind_of, without_null
from ontologia.model.spec import Kind
from ontologia.model.storable import UnstorableError
from ontologia.model.types import shape_of


@dataclass
class Stamped:
    at: datetime


def codec(annotation: Any) -> Codec:
    found = codec_for(without_null(shape_of(annotation, "test"))[0])
    assert found is not None
    return found


@given(typed_values, st.data())
@settings(max_examples=300)
def test_every_value_of_every_storable_type_comes_back_exactly(typed: Typed, data: st.DataObject):
    annotation, values = typed
    shape, _ = without_null(shape_of(annotation, "test"))
    value = data.draw(values)
    found = codec_for(shape)
    if value is None:
        return
    if found is None:
        assert kind_of(shape) is not Kind.JSON
        return
    stored = found.encode(value)
    assert same(found.decode(stored), value)
    if kind_of(shape) is Kind.JSON:
        assert stored == canonical_json(json.loads(stored))


@given(typed_values, st.data())
def test_the_json_form_of_a_scalar_comes_back_too(typed: Typed, data: st.DataObject):
    annotation, values = typed
    form = json_form(without_null(shape_of(annotation, "test"))[0])
    value = data.draw(values)
    if value is not None:
        written = json.loads(json.dumps(form.write(value)))
        assert same(written if form.read is None else form.read(written), value)


def test_canonical_text_is_that_of_the_rest_of_the_project():
    value = {"b": [1, 1.0, None, "é\n"], "a": {"z": True, "y": 10**30}}
    assert dumps(value) == canonical_json(value)


def test_plain_json_is_read_by_json_alone():
    for annotation in (dict[str, Any], list[str], Any, list[int | None], list[Literal["a", "b"]], int | str):
        assert codec(annotation).decode is json.loads


def test_only_members_that_look_alike_are_tagged():
    union = codec(str | datetime | int)
    assert union.encode(3) == "3"
    assert union.encode("2024") == '{"$type":"str","$value":"2024"}'
    assert union.encode(datetime(2024, 1, 1, tzinfo=UTC)) == '{"$type":"datetime","$value":"2024-01-01T00:00:00+00:00"}'
    assert codec(str | int | list[str]).encode("x") == '"x"'


def test_a_user_dict_that_looks_like_a_tag_survives():
    tricky = {"$type": "float", "$value": "inf"}
    for annotation in (
        dict[str, Any],
        Any,
        dict[str, str] | float,
        dict[str, str] | datetime | str,
        list[dict[str, str]],
    ):
        value = [tricky] if annotation == list[dict[str, str]] else tricky
        found = codec(annotation)
        assert found.decode(found.encode(value)) == value


def test_infinite_floats_are_tags_and_nan_is_refused():
    floats = codec(list[float])
    text = floats.encode([1.0, math.inf, -math.inf])
    assert text == '[1.0,{"$type":"float","$value":"inf"},{"$type":"float","$value":"-inf"}]'
    assert floats.decode(text) == [1.0, math.inf, -math.inf]
    with pytest.raises(UnstorableError, match=r"nan cannot be stored \(at \$\[1\]\)"):
        floats.encode([1.0, math.nan])


def test_an_int_for_a_float_is_taken_when_it_is_exact():
    @dataclass
    class Point:
        x: float

    points = codec(list[Point])
    assert points.encode([Point(3)]) == '[{"x":3.0}]'
    with pytest.raises(UnstorableError, match="not exactly a float"):
        points.encode([Point(2**53 + 1)])


class Tree(BaseModel):
    name: str
    left: Optional[Tree] = None  # noqa: UP045 - the spelling is the point
    kids: list[Tree] = []


@dataclass
class Chain:
    value: int
    next: Chain | None = field(default=None)


class Nested(TypedDict, total=False):
    inner: Nested


def test_recursive_models_are_stored_and_their_depth_is_bounded():
    tree = Tree(name="a", left=Tree(name="b"), kids=[Tree(name="c", kids=[Tree(name="d")])])
    trees = codec(Tree)
    assert trees.decode(trees.encode(tree)) == tree
    assert codec(Chain).decode(codec(Chain).encode(Chain(1, Chain(2)))) == Chain(1, Chain(2))
    assert codec(Nested).decode(codec(Nested).encode({"inner": {"inner": {}}})) == {"inner": {"inner": {}}}
    long = Chain(0)
    for number in range(500):
        long = Chain(number, long)
    with pytest.raises(UnstorableError, match="levels deep"):
        codec(Chain).encode(long)


def test_open_models_keep_what_they_were_given_beyond_their_fields():
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        known: datetime

    value = Open(known=datetime(2024, 1, 1, tzinfo=UTC), more=[1, {"a": None}])  # pyright: ignore[reportCallIssue]
    found = codec(Open)
    back = found.decode(found.encode(value))
    assert back == value
    assert back.model_extra == {"more": [1, {"a": None}]}


def test_models_are_restored_without_their_validators_and_with_their_private_parts():
    class Counted(BaseModel):
        number: int
        _seen: list[int] = PrivateAttr(default_factory=list)

        def model_post_init(self, context: Any, /) -> None:
            super().model_post_init(context)
            self._seen.append(self.number)

    found = codec(Counted)
    assert found.decode(found.encode(Counted(number=3)))._seen == [3]


def test_two_models_in_a_union_are_told_apart_by_name():
    class Cat(BaseModel):
        name: str

    class Dog(BaseModel):
        name: str

    lists = codec(list[Cat] | list[Dog])
    assert [type(pet) for pet in lists.decode(lists.encode([Dog(name="b")]))] == [Dog]
    pets = codec(list[Cat | Dog])
    text = pets.encode([Cat(name="a"), Dog(name="b")])
    assert [type(pet) for pet in pets.decode(text)] == [Cat, Dog]
    assert '"$type":"Cat"' in text


def test_query_literals_may_be_values_or_their_plain_form():
    uuids, colors, levels = codec(UUID), codec(Color), codec(Level)
    text = str(UUID(int=5))
    assert uuids.encode(UUID(int=5)) == uuids.encode(text.upper()) == text
    assert colors.encode(Color.RED) == colors.encode("red") == "red"
    assert (levels.encode(Level.HIGH), type(levels.encode(Level.HIGH))) == (2, int)
    for found, wrong in ((uuids, "no uuid"), (colors, "green"), (colors, ["red"])):
        with pytest.raises(ValueError):
            found.encode(wrong)


def test_reading_leaves_its_input_as_it_was():
    form = json_form(shape_of(list[Stamped], "test"))
    written = [{"at": "2020-01-01T00:00:00"}]
    assert form.read is not None
    assert form.read(written) == [Stamped(datetime(2020, 1, 1))]  # noqa: DTZ001 - a naive value is allowed
    assert written == [{"at": "2020-01-01T00:00:00"}]


def test_an_int_too_large_for_a_float_is_refused():
    with pytest.raises(UnstorableError, match="not exactly a float"):
        json_form(shape_of(list[float], "test")).write([10**400])
