"""JSON from outside: judged by the same rules as objects, whether it is Arrow text or what an upgrader returns."""

from __future__ import annotations

import json
from dataclasses import InitVar, dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model.storable_types import Typed, typed_values
from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic import Field as Constraint

from ontologia.errors import RowError
from ontologia.model.arrow import physical_arrays
from ontologia.model.comparable import EPOCH
from ontologia.model.declare import Entity
from ontologia.model.fields import Field
from ontologia.model.jsonform import json_form
from ontologia.model.jsoninput import BY_NAME, input_reader
from ontologia.model.portable import portable
from ontologia.model.rows import from_stored, hydrator
from ontologia.model.shapes import without_null
from ontologia.model.types import shape_of


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    x: int = Constraint(gt=0)
    y: int = 7


class Click(BaseModel):
    x: int = Constraint(gt=0)


class View(BaseModel):
    x: int


class Renamed(BaseModel):
    size: int = Constraint(alias="Size")


class Tree(BaseModel):
    name: str
    below: list[Tree] = Constraint(default_factory=list["Tree"])


class Pace(Enum):
    SLOW = "slow"


@dataclass
class Counted:
    start: InitVar[int]
    total: int = field(init=False)

    def __post_init__(self, start: int) -> None:
        self.total = start


class Page(Entity):
    id: Field[str] = Field(primary_key=True)
    closed: Field[Closed | None] = Field(default=None)
    event: Field[Click | View | None] = Field(default=None)
    renamed: Field[Renamed | None] = Field(default=None)
    prices: Field[list[Decimal]] = Field(default_factory=list)
    blobs: Field[list[bytes]] = Field(default_factory=list)
    when: Field[str | datetime | Pace | None] = Field(default=None)
    counted: Field[Counted | None] = Field(default=None)
    numbers: Field[list[float | dict[str, int]]] = Field(default_factory=list)
    tree: Field[Tree | None] = Field(default=None)


def from_text(name: str, value: Any) -> Any:
    """A value given as JSON text in an Arrow column marked as JSON."""
    schema = pa.schema([("id", pa.string()), pa.field(name, pa.string(), metadata={"ontologia": "json"})])
    table = pa.table({"id": ["k"], name: [json.dumps(value)]}, schema=schema)
    row = [column[0].as_py() for column in physical_arrays(Page, table)]
    return getattr(hydrator(Page)(row, 1, lambda _: EPOCH), name)


def from_upgrader(name: str, value: Any) -> Any:
    return getattr(from_stored(Page, ("k",), {name: value}), name)


SOURCES = pytest.mark.parametrize("take", [from_text, from_upgrader])


@SOURCES
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("closed", {"x": -5}),
        ("closed", {"x": 1, "more": 1}),
        ("closed", {}),
        ("event", {"$type": "Click", "$value": {"x": -5}}),
        ("tree", {"name": "a", "below": [{"name": 5}]}),
        ("blobs", ["not base64!"]),
        ("prices", ["many"]),
        ("numbers", [{"$type": "float", "$value": [1]}]),
        ("when", {"$type": ["datetime"], "$value": "2020-01-01"}),
    ],
)
def test_what_an_object_would_refuse_is_refused_in_json_too(take: Any, name: str, value: Any):
    with pytest.raises((RowError, ValueError), match=r"."):
        take(name, value)


@SOURCES
@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("closed", {"x": 5}, Closed(x=5, y=7)),
        ("closed", {"x": "5"}, Closed(x=5)),
        ("event", {"$type": "View", "$value": {"x": -5}}, View(x=-5)),
        ("renamed", {"size": 3}, Renamed(Size=3)),
        ("renamed", {"Size": 3}, Renamed(Size=3)),
        ("prices", [0.1, "0.10", 2], [Decimal("0.1"), Decimal("0.10"), Decimal(2)]),
        ("blobs", ["YWJj"], [b"abc"]),
        ("when", "2020-01-01", "2020-01-01"),
        ("when", {"$type": "Pace", "$value": "slow"}, Pace.SLOW),
        ("numbers", [{"$type": "float", "$value": "inf"}, 1.0], [float("inf"), 1.0]),
        ("tree", {"name": "a", "below": [{"name": "b"}]}, Tree(name="a", below=[Tree(name="b")])),
    ],
)
def test_json_is_filled_in_and_converted_as_for_an_object(take: Any, name: str, value: Any, expected: Any):
    assert take(name, value) == expected


def test_bytes_that_an_upgrader_returns_stay_as_they_are():
    assert from_upgrader("blobs", [b"abcd"]) == [b"abcd"]


@SOURCES
def test_a_dataclass_that_keeps_more_than_its_constructor_takes_comes_back_as_written(take: Any):
    assert take("counted", {"total": 5}) == Counted(start=5)


@given(typed_values, st.data())
@settings(max_examples=150)
def test_the_stored_json_of_every_value_is_accepted_as_that_value(typed: Typed, data: st.DataObject):
    annotation, values = typed
    value = data.draw(values)
    if value is None:
        return
    shape, _ = without_null(shape_of(annotation, "test"))
    written = json.loads(json.dumps(json_form(shape).write(value)))
    taken = input_reader(shape)(written)
    assert TypeAdapter[Any](portable(annotation)).validate_python(taken, **BY_NAME) == value
