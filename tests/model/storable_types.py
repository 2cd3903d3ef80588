"""Random storable types with values of them, for the laws that hold for all."""

from __future__ import annotations

import itertools
import math
from dataclasses import fields, is_dataclass, make_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any, Literal, NotRequired, Union, cast
from uuid import UUID

from hypothesis import strategies as st
from pydantic import BaseModel, create_model
from typing_extensions import TypedDict

Typed = tuple[Any, st.SearchStrategy[Any]]
"""An annotation, and values of it."""


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(Enum):
    ONE = 1
    TEXT = "1"
    HALF = 0.5


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
offsets = st.one_of(
    st.none(),
    st.just(UTC),
    st.integers(-86_399, 86_399).map(lambda seconds: timezone(timedelta(seconds=seconds))),
)
datetimes = st.builds(lambda moment, zone: moment.replace(tzinfo=zone), st.datetimes(), offsets)
decimals = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False),
    st.builds(lambda digits, exponent: Decimal(digits).scaleb(exponent), st.integers(-999, 999), st.integers(-50, 50)),
)
integers = st.one_of(
    st.integers(), st.integers(-(2**64), 2**64), st.sampled_from([2**63, 2**63 - 1, -(2**63), 1 - 2**63])
)
floats = st.floats(allow_nan=False).map(lambda number: number + 0.0)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), integers, st.floats(allow_nan=False, allow_infinity=False), texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(texts, inner, max_size=3),
        st.fixed_dictionaries({"$type": texts, "$value": inner}),
    ),
    max_leaves=6,
)

SCALARS: list[Typed] = [
    (str, texts),
    (int, integers),
    (float, floats),
    (bool, st.booleans()),
    (datetime, datetimes),
    (date, st.dates()),
    (time, st.builds(lambda moment, zone: moment.replace(tzinfo=zone), st.times(), offsets)),
    (Decimal, decimals),
    (UUID, st.uuids()),
    (bytes, st.binary(max_size=8)),
    (Color, st.sampled_from(Color)),
    (Level, st.sampled_from(Level)),
    (Mixed, st.sampled_from(Mixed)),
    (Literal["a", "b"], st.sampled_from(["a", "b"])),
    (Literal[1, "1", True], st.sampled_from([1, "1", True])),
    (Literal[Color.RED, 3], st.sampled_from([Color.RED, 3])),
]
_numbers = itertools.count()


def _list(inner: Typed) -> Typed:
    return list[inner[0]], st.lists(inner[1], max_size=3)  # pyright: ignore[reportGeneralTypeIssues]


def _dict(inner: Typed) -> Typed:
    keys = st.one_of(texts, st.sampled_from(["$type", "$value"]))
    return dict[str, inner[0]], st.dictionaries(keys, inner[1], max_size=3)  # pyright: ignore[reportGeneralTypeIssues]


def _union(members: list[Typed]) -> Typed:
    return Union[tuple(member[0] for member in members)], st.one_of(*(member[1] for member in members))  # noqa: UP007


def _model(parts: list[Typed]) -> Typed:
    made = create_model(f"Model{next(_numbers)}", **cast("Any", {f"p{n}": (p[0], ...) for n, p in enumerate(parts)}))
    values = {f"p{n}": p[1] for n, p in enumerate(parts)}
    # Made without validating, so that the values are exactly the drawn ones.
    return made, st.fixed_dictionaries(values).map(lambda held: made.model_construct(**held))


def _dataclass(parts: list[Typed]) -> Typed:
    made = make_dataclass(
        f"Data{next(_numbers)}", [(f"p{n}", p[0]) for n, p in enumerate(parts)], frozen=True, slots=True
    )
    return made, st.builds(made, **{f"p{n}": p[1] for n, p in enumerate(parts)})


def _typed_dict(parts: list[Typed]) -> Typed:
    held = {f"p{n}": (NotRequired[p[0]] if n % 2 else p[0]) for n, p in enumerate(parts)}
    made = TypedDict(f"Dict{next(_numbers)}", held)  # pyright: ignore[reportArgumentType, reportGeneralTypeIssues]
    always = {f"p{n}": p[1] for n, p in enumerate(parts) if n % 2 == 0}
    maybe = {f"p{n}": p[1] for n, p in enumerate(parts) if n % 2}
    return made, st.fixed_dictionaries(always, optional=maybe)


def _containers(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        inner.map(_list),
        inner.map(_dict),
        several.map(_model),
        several.map(_dataclass),
        several.map(_typed_dict),
        st.lists(inner.filter(lambda typed: typed[0] is not Any), min_size=2, max_size=4).map(_union),
        inner.filter(lambda typed: typed[0] is not Any).map(lambda typed: _union([typed, (None, st.none())])),
    )


typed_values: st.SearchStrategy[Typed] = st.recursive(
    st.one_of(st.sampled_from(SCALARS), st.just((Any, json_values))), _containers, max_leaves=5
)
"""Pairs of an annotation and a strategy for its values."""


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same types all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, BaseModel):
        return same(one.__dict__, other.__dict__)
    if is_dataclass(one) and not isinstance(one, type):
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    if isinstance(one, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    if isinstance(one, datetime | time):
        return one == other and one.utcoffset() == other.utcoffset()
    return str(one) == str(other) if isinstance(one, Decimal) else one == other
