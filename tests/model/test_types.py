"""Annotations to canonical types: one structure, one text, and a reason for each refusal."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum, Flag, IntEnum
from typing import Annotated, Any, Generic, Literal, NewType, Optional, Required, TypedDict, TypeVar, Union
from uuid import UUID

import pytest
from pydantic import AwareDatetime, BaseModel, ConfigDict, JsonValue, PositiveInt
from typing_extensions import TypeAliasType
from typing_extensions import TypedDict as BackportedTypedDict

from ontologia.model.shapes import canonical, describe, kind_of, without_null
from ontologia.model.spec import JsonType, Kind
from ontologia.model.types import shape_of

T = TypeVar("T")


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Odd(Enum):
    A = 1
    B = "x"


class Bits(Flag):
    A = 1


class Tupled(Enum):
    A = (1, 2)


class Empty(Enum):
    pass


@dataclass
class Point:
    x: float
    y: float


class Model(BaseModel):
    x: float
    y: float


class Total(TypedDict):
    x: float
    y: float


class Partial(TypedDict, total=False):
    a: int
    b: Required[str]


class Backported(BackportedTypedDict):
    a: int


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class Tree(BaseModel):
    kids: list[Tree]


@dataclass
class Boxed(Generic[T]):
    value: T


class Broken(TypedDict):
    it: Nowhere  # pyright: ignore[reportUndefinedVariable] # noqa: F821


UserId = NewType("UserId", int)
Names = TypeAliasType("Names", list[str])
Endless = TypeAliasType("Endless", list["Endless"])  # pyright: ignore[reportUnknownVariableType, reportGeneralTypeIssues]
POINT: JsonType = {"object": {"x": "float", "y": "float"}}


def described(annotation: Any) -> tuple[JsonType, Kind, bool]:
    shape, nullable = without_null(shape_of(annotation, "Thing.field"))
    return canonical(shape), kind_of(shape), nullable


@pytest.mark.parametrize(
    ("annotation", "kind", "canonical_type"),
    [
        (str, Kind.TEXT, "str"),
        (int, Kind.INT, "int"),
        (float, Kind.FLOAT, "float"),
        (bool, Kind.BOOL, "bool"),
        (datetime, Kind.DATETIME, "datetime"),
        (date, Kind.DATE, "date"),
        (time, Kind.TIME, "time"),
        (Decimal, Kind.DECIMAL, "decimal"),
        (UUID, Kind.TEXT, "uuid"),
        (bytes, Kind.BYTES, "bytes"),
        (AwareDatetime, Kind.DATETIME, "datetime"),
        (PositiveInt, Kind.INT, "int"),
        (UserId, Kind.INT, "int"),
        (Names, Kind.JSON, {"list": "str"}),
        (Annotated[str, "note"], Kind.TEXT, "str"),
        (Color, Kind.TEXT, {"enum": ["blue", "red"]}),
        (Level, Kind.INT, {"enum": [1, 2]}),
        (Odd, Kind.JSON, {"enum": [1, "x"]}),
        (Literal["b", "a"], Kind.TEXT, {"literal": ["a", "b"]}),
        (Literal[2, 1], Kind.INT, {"literal": [1, 2]}),
        (Literal[True], Kind.BOOL, {"literal": [True]}),
        (Literal[b"x"], Kind.BYTES, {"literal": ["eA=="], "bytes": True}),
        (Literal[1, "a"], Kind.JSON, {"literal": [1, "a"]}),
        (Literal["a", "b"], Kind.TEXT, {"literal": ["a", "b"]}),
        (Literal["a"] | str, Kind.TEXT, "str"),  # noqa: PYI051 - redundant is the point
        (Literal[Color.RED], Kind.TEXT, {"enum": ["red"]}),
        (Literal[Color.RED] | Color, Kind.TEXT, {"enum": ["blue", "red"]}),
        (Literal[b"x", "x"], Kind.JSON, {"union": [{"literal": ["eA=="], "bytes": True}, {"literal": ["x"]}]}),
        (list[str], Kind.JSON, {"list": "str"}),
        (list[str | None], Kind.JSON, {"list": {"union": ["null", "str"]}}),
        (dict[str, Any], Kind.JSON, {"dict": "any"}),
        (Point, Kind.JSON, POINT),
        (Model, Kind.JSON, POINT),
        (Total, Kind.JSON, POINT),
        (Partial, Kind.JSON, {"object": {"a": "int", "b": "str"}, "optional": ["a"]}),
        (Backported, Kind.JSON, {"object": {"a": "int"}}),
        (Open, Kind.JSON, {"object": {"a": "int"}, "open": True}),
        (Tree, Kind.JSON, {"object": {"kids": {"list": {"ref": "Tree"}}}, "name": "Tree"}),
        (int | str, Kind.JSON, {"union": ["int", "str"]}),
        (Color | str, Kind.JSON, {"union": ["str", {"enum": ["blue", "red"], "name": "Color"}]}),
        (Point | None | int, Kind.JSON, {"union": ["int", POINT]}),
        (Point | float, Kind.JSON, {"union": ["float", {**POINT, "name": "Point"}]}),  # pyright: ignore[reportGeneralTypeIssues]
    ],
)
def test_every_storable_type_has_one_structure_and_kind(annotation: Any, kind: Kind, canonical_type: JsonType):
    assert described(annotation)[:2] == (canonical_type, kind)


def test_null_is_a_flag_and_not_part_of_the_type():
    for annotation in (str | None, Optional[str], Union[None, str], Annotated[str | None, "note"]):  # noqa: UP007, UP045
        assert described(annotation) == ("str", Kind.TEXT, True)
    assert described(Literal["a", None]) == ({"literal": ["a"]}, Kind.TEXT, True)  # noqa: PYI061 - so is this spelling
    assert described(Any) == described(JsonValue) == described(Any | None) == ("any", Kind.JSON, True)
    assert described(None) == ("null", Kind.JSON, True)


def test_the_order_of_a_union_means_nothing():
    one = described(int | str | list[Point] | None)
    assert one == described(Union[None, list[Point], str, int])  # noqa: UP007


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (object, "object cannot be stored; use Any"),
        (complex, "use two floats"),
        (list, "say what is in it"),
        (dict, "say what is in it"),
        (tuple[int, ...], r"tuple\[int, ...\] cannot be stored; use list"),
        (frozenset[int], "use list"),
        (bytearray, "use bytes"),
        (dict[int, str], "keys of a dict must be str"),
        (dict[str, set[int]], r"set\[int\] cannot be stored"),
        (Bits, "use int for flags"),
        (Tupled, "the value of A must be"),
        (Empty, "no members"),
        (T, "no type variables"),
        (Boxed, "must be given its types"),
        (Boxed[int], "generic models must be written out"),
        (Endless, "cannot be stored"),
        (Any | int, "a union with Any is just Any"),
        (Broken, "one of its annotations is unknown"),
        ("str", "str cannot be stored"),
        ([int], "cannot be stored"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_place(annotation: Any, message: str):
    with pytest.raises(TypeError, match=message) as error:
        shape_of(annotation, "Thing.field")
    assert str(error.value).startswith("Thing.field: ")


def test_two_models_of_one_name_are_refused_where_their_names_matter():
    def other() -> type[Any]:
        class Point(BaseModel):
            z: int

        return Point

    with pytest.raises(TypeError, match="two members are both called Point"):
        shape_of(Point | other(), "Thing.field")
    assert shape_of(list[Point] | None, "Thing.field")


def test_a_model_may_contain_another_of_its_name_unless_it_also_contains_itself():
    def inner() -> type[Any]:
        class Point(BaseModel):
            z: int

        return Point

    class Holder(BaseModel):
        it: inner()  # pyright: ignore[reportInvalidTypeForm]

    Holder.__name__ = "Point"
    assert described(Holder)[0] == {"object": {"it": {"object": {"z": "int"}}}}


def test_types_are_described_as_people_write_them():
    texts = {
        "list[str]": list[str],
        "dict[str, Any]": dict[str, Any],
        "int | str": int | str,
        "{x: float, y: float}": Point,
        "Tree": Tree,
        "Literal['a', 'b']": Literal["a", "b"],
        "Enum['blue', 'red']": Color,
        "Decimal": Decimal,
    }
    assert {describe(described(annotation)[0]) for annotation in texts.values()} == set(texts)
