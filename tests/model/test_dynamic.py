"""Classes made from stored specs: the same fingerprint, the same rows, useful values."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model.storable_types import Typed, typed_values
from pydantic import BaseModel, ConfigDict, ValidationError

from ontologia.model.declare import Entity, Relation
from ontologia.model.dynamic import class_from_spec
from ontologia.model.fields import Field
from ontologia.model.rows import encoder, hydrator
from ontologia.model.spec import TypeSpec


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Odd(Enum):
    HALF = 0.5
    TEXT = "x"


class Address(BaseModel):
    street: str
    at: datetime | None = None


@dataclass
class Point:
    x: float


class Tree(BaseModel):
    kids: list[Tree] = []


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class Customer(Entity, name="my customer"):
    """Somebody."""

    id: Field[int] = Field(primary_key=True)
    name: Field[str | None] = Field(default=None, index=True)
    color: Field[Color] = Field(default=Color.RED)
    odd: Field[Odd] = Field(default=Odd.HALF)
    size: Field[Literal["s", "m"]] = Field(default="s")
    price: Field[Decimal] = Field(default=Decimal("1.50"))
    tags: Field[list[str]] = Field(default_factory=list)
    address: Field[Address | None] = Field(default=None)
    shape: Field[Point | Address] = Field(default_factory=lambda: Point(1.0))
    mixed: Field[list[Color | str | Point]] = Field(default_factory=list)
    tree: Field[Tree] = Field(default_factory=Tree)
    open: Field[Open | None] = Field(default=None)
    anything: Field[Any] = Field(default=None)


class Product(Entity):
    sku: Field[str] = Field(primary_key=True)


class Uses(Relation[Customer, Product]):
    stint: Field[str] = Field(instance_key=True)
    seats: Field[int] = Field(default=1)


def never(commit_id: int) -> datetime:
    raise AssertionError(commit_id)


def remade(spec: TypeSpec, **ends: type[Entity]) -> Any:
    return class_from_spec(TypeSpec.from_json(json.loads(json.dumps(spec.to_json()))), ends)


def test_the_fingerprint_is_the_stored_one():
    for cls in (Customer, Product, Uses):
        made = remade(cls.__spec__)
        assert made.__spec__ == cls.__spec__
        assert made.__spec__.fingerprint == cls.__spec__.fingerprint
        assert made.__doc__ == (cls.__spec__.doc or None)


def test_rows_of_the_program_are_read_and_written_back_unchanged():
    made = remade(Customer.__spec__)
    values = [
        Customer(id=1),
        Customer(
            id=2,
            name="A",
            color=Color.BLUE,
            odd=Odd.TEXT,
            address=Address(street="S", at=datetime(2024, 1, 1, tzinfo=UTC)),
            shape=Address(street="S"),
            mixed=[Color.RED, "red", Point(2.0)],
            tree=Tree(kids=[Tree()]),
            open=Open(a=1, more=2),  # pyright: ignore[reportCallIssue]
            anything={"$type": "x", "$value": 1},
        ),
    ]
    rows = [encoder(Customer)(value) for value in values]
    read = [hydrator(made)(row, 1, never) for row in rows]
    assert [encoder(made)(value) for value in read] == rows
    full = read[1]
    assert (full.color, full.address) == ("blue", {"street": "S", "at": datetime(2024, 1, 1, tzinfo=UTC)})
    assert (type(full.shape).__name__, full.shape.street, full.shape.at) == ("Address", "S", None)
    assert full.tree == {"kids": [{"kids": []}]}
    assert (type(full.mixed[0]).__name__, full.mixed[1]) == ("Color", "red")


def test_defaults_and_validation_work_as_far_as_the_spec_says():
    class Small(Entity):
        id: Field[str] = Field(primary_key=True)
        color: Field[Color] = Field(default=Color.BLUE)
        price: Field[Decimal] = Field(default=Decimal("1.50"))
        tags: Field[list[str]] = Field(default_factory=list)
        point: Field[Point] = Field(default=Point(1.0))
        tree: Field[Tree] = Field(default=Tree())

    made = remade(Small.__spec__)
    one, two = made(id="a"), made(id="b")
    assert (one.color, one.price, one.tags, one.point) == ("blue", Decimal("1.50"), [], {"x": 1.0})
    assert one.point is not two.point
    assert encoder(made)(one) == encoder(Small)(Small(id="a"))
    for wrong in ({"color": "green"}, {"tree": None}, {"tags": [1]}, {"nope": 1}):
        with pytest.raises(ValidationError):
            made(id="a", **wrong)


def test_relations_take_given_ends_or_bare_ones():
    customer = remade(Customer.__spec__)
    given_ends = class_from_spec(Uses.__spec__, {"my customer": customer, "Product": Product})
    assert given_ends.__ends__ == (customer, Product)  # pyright: ignore[reportAttributeAccessIssue]
    bare: Any = remade(Uses.__spec__)
    assert [end.__spec__.name for end in bare.__ends__] == ["my customer", "Product"]
    assert encoder(bare)(bare(left_key="1", right_key="p", stint="s")) == ("1", "p", "s", 1, None)
    assert repr(bare.seats > 3) == "Uses.seats > 3"


_numbers = itertools.count()


@given(st.lists(typed_values, max_size=3), st.data())
@settings(max_examples=150)
def test_any_storable_type_can_be_made_again_from_its_spec(parts: list[Typed], data: st.DataObject):
    annotations = {f"f{number}": Field[part[0]] for number, part in enumerate(parts)}
    body = {"__annotations__": {"id": Field[str], **annotations}, "id": Field(primary_key=True), "__module__": __name__}
    cls: Any = type(f"Type{next(_numbers)}", (Entity,), body)
    made = remade(cls.__spec__)
    assert made.__spec__.fingerprint == cls.__spec__.fingerprint
    value = cls(id="k", **{f"f{number}": data.draw(part[1]) for number, part in enumerate(parts)})
    row = encoder(cls)(value)
    assert encoder(made)(hydrator(made)(row, 1, never)) == row
