"""From a Python annotation to the shape that is stored.

Total and pure: every annotation gives a shape, or a TypeError that names the part which cannot be stored and, where
there is one, what to write instead. Constraints inside `Annotated` are left to Pydantic; they are no part of the
structure.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum, Flag
from typing import Annotated, Any, Literal, NewType, NoReturn, TypeVar, Union, get_args, get_origin
from uuid import UUID

import pydantic
from pydantic import BaseModel
from typing_extensions import ReadOnly, is_typeddict

from ontologia.base.canonical import canonical_json
from ontologia.model.portable import optional_keys
from ontologia.model.shapes import (
    Choice,
    DictOf,
    ListOf,
    ObjectOf,
    RefTo,
    Scalar,
    ScalarName,
    Shape,
    UnionOf,
    canonical,
    choice_value,
    describe,
    tagged,
    walk,
)

_SCALARS: dict[Any, ScalarName] = {
    str: "str",
    int: "int",
    float: "float",
    bool: "bool",
    None: "null",
    type(None): "null",
    datetime: "datetime",
    date: "date",
    time: "time",
    Decimal: "decimal",
    UUID: "uuid",
    bytes: "bytes",
    Any: "any",
    pydantic.JsonValue: "any",
    # Pydantic's own classes that only narrow a standard one.
    pydantic.AwareDatetime: "datetime",
    pydantic.NaiveDatetime: "datetime",
    pydantic.PastDatetime: "datetime",
    pydantic.FutureDatetime: "datetime",
    pydantic.PastDate: "date",
    pydantic.FutureDate: "date",
    pydantic.EmailStr: "str",
}
_INSTEAD: dict[Any, str] = {
    tuple: "use list[...]",
    set: "use list[...]",
    frozenset: "use list[...]",
    bytearray: "use bytes",
    object: "use Any for any JSON value",
    complex: "use two floats",
    list: "say what is in it: list[str], or list[Any]",
    dict: "say what is in it: dict[str, Any]",
}


class _Reader:
    """One annotation being read: remembers the models it is inside of, to see recursion."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.inside: list[type[Any]] = []
        self.aliases: list[Any] = []
        self.recursive: set[type[Any]] = set()

    def refuse(self, part: Any, why: str = "") -> NoReturn:
        name = part.__name__ if isinstance(part, type) and get_origin(part) is None else str(part)
        raise TypeError(f"{self.where}: {name.removeprefix('typing.')} cannot be stored{f'; {why}' if why else ''}.")

    def read(self, annotation: Any) -> Shape:
        try:
            scalar = _SCALARS.get(annotation)
        except TypeError:
            self.refuse(annotation)
        if scalar is not None:
            return Scalar(scalar)
        origin = get_origin(annotation)
        if origin is not None:
            return self.read_generic(annotation, origin, get_args(annotation))
        if isinstance(annotation, NewType):
            return self.read(annotation.__supertype__)
        if hasattr(annotation, "__value__"):
            return self.read_alias(annotation, lambda: annotation.__value__)
        if isinstance(annotation, type):
            return self.read_class(annotation)
        if isinstance(annotation, TypeVar):
            self.refuse(annotation, "a stored type has no type variables")
        return self.refuse(annotation)

    def read_generic(self, annotation: Any, origin: Any, args: tuple[Any, ...]) -> Shape:
        if origin is Annotated or origin in {typing.Required, typing.NotRequired, ReadOnly, typing.Final}:
            return self.read(args[0])
        if origin in {Union, types.UnionType}:
            return self.union([self.read(arg) for arg in args], annotation)
        if origin is Literal:
            return self.literal(args, annotation)
        if origin is list:
            return ListOf(self.read(args[0]))
        if origin is dict:
            if self.read(args[0]) != Scalar("str"):
                self.refuse(annotation, "the keys of a dict must be str")
            return DictOf(self.read(args[1]))
        if hasattr(origin, "__value__"):
            return self.read_alias(annotation, lambda: origin.__value__[args])
        if origin in _INSTEAD:
            self.refuse(annotation, _INSTEAD[origin])
        return self.refuse(annotation, "generic models must be written out" if isinstance(origin, type) else "")

    def read_alias(self, alias: Any, value: Callable[[], Any]) -> Shape:
        if alias in self.aliases:
            self.refuse(alias, "a recursive alias has no end: use a model, or Any")
        self.aliases.append(alias)
        try:
            return self.read(value())
        finally:
            self.aliases.pop()

    def read_class(self, cls: type[Any]) -> Shape:
        if cls in self.inside:
            if any(other is not cls and other.__name__ == cls.__name__ for other in self.inside):
                self.refuse(cls, f"it contains itself and another model that is also called {cls.__name__}")
            self.recursive.add(cls)
            return RefTo(cls)
        if issubclass(cls, Enum):
            return self.enum(cls)
        reader = None
        if is_typeddict(cls):
            reader = self.typed_dict
        elif issubclass(cls, BaseModel):
            reader = self.model
        elif dataclasses.is_dataclass(cls):
            reader = self.dataclass
        if reader is None:
            return self.refuse(cls, _INSTEAD.get(cls, ""))
        if getattr(cls, "__parameters__", ()) or getattr(cls, "__type_params__", ()):
            self.refuse(cls, "a generic model must be given its types")
        self.inside.append(cls)
        try:
            shape = reader(cls)
        finally:
            self.inside.pop()
        return dataclasses.replace(shape, recursive=True) if cls in self.recursive else shape

    def hints(self, cls: type[Any]) -> dict[str, Any]:
        try:
            return typing.get_type_hints(cls, include_extras=True)
        except NameError as error:
            self.refuse(cls, f"one of its annotations is unknown ({error})")

    def typed_dict(self, cls: type[Any]) -> ObjectOf:
        hints = self.hints(cls)
        return ObjectOf(
            cls, "typeddict", tuple((name, self.read(hints[name])) for name in hints), optional_keys(cls, hints)
        )

    def dataclass(self, cls: type[Any]) -> ObjectOf:
        hints = self.hints(cls)
        return ObjectOf(cls, "dataclass", tuple((f.name, self.read(hints[f.name])) for f in dataclasses.fields(cls)))

    def model(self, cls: type[BaseModel]) -> ObjectOf:
        if not cls.__pydantic_complete__:
            cls.model_rebuild()
        parts = tuple((name, self.read(info.annotation)) for name, info in cls.model_fields.items())
        return ObjectOf(cls, "model", parts, open=cls.model_config.get("extra") == "allow")

    def enum(self, cls: type[Enum]) -> Shape:
        if issubclass(cls, Flag):
            self.refuse(cls, "use int for flags, or an Enum")
        members = tuple(cls)
        for member in members:
            if not isinstance(member.value, str | int | float) or member.value != member.value:
                self.refuse(cls, f"the value of {member.name} must be a str, an int, a float or a bool")
        if not members:
            self.refuse(cls, "it has no members")
        return _choice(cls, list(members))

    def literal(self, values: tuple[Any, ...], annotation: Any) -> Shape:
        for value in values:
            if value is not None and not isinstance(choice_value(value), str | int | bytes):
                self.refuse(annotation, f"{value!r} is neither str, int, bool nor bytes")
        return self.union([Scalar("null") if value is None else _only(value) for value in values], annotation)

    def union(self, members: list[Shape], annotation: Any) -> Shape:
        flat: list[Shape] = []
        for member in members:
            flat.extend(member.members if isinstance(member, UnionOf) else (member,))
        flat = _merged(flat)
        if Scalar("any") in flat:
            if set(flat) <= {Scalar("any"), Scalar("null")}:
                return Scalar("any")
            self.refuse(annotation, "a union with Any is just Any: write Any")
        if len(flat) == 1:
            return flat[0]
        tags = [describe(canonical(member, named=True)) for member in flat if member in tagged(tuple(flat))]
        doubles = sorted({tag for tag in tags if tags.count(tag) > 1})
        if doubles:
            self.refuse(annotation, f"two members are both called {doubles[0]}")
        return UnionOf(tuple(sorted(flat, key=lambda member: canonical_json(canonical(member, named=True)))))


def _only(value: Any) -> Choice:
    """The choice of one value: a member of an enum, or a literal."""
    if isinstance(value, Enum):
        return Choice("enum", (value,), type(value).__name__, type(value))
    return Choice("literal", (value,), f"Literal[{value!r}]")


def _merged(members: list[Shape]) -> list[Shape]:
    """Members of a union without repetition: choices of one sort in one, none that a plain member already covers."""
    rest = list(dict.fromkeys(member for member in members if not isinstance(member, Choice)))
    plain = {member.name for member in rest if isinstance(member, Scalar)}
    chosen: dict[Any, list[Any]] = {}
    for member in members:
        for value in member.members if isinstance(member, Choice) else ():
            # Bytes are apart because as JSON they would look like text.
            sort = type(value) if isinstance(value, Enum | bytes) else "literal"
            if isinstance(value, Enum) or type(value).__name__ not in plain:
                chosen.setdefault(sort, []).append(value)
    return [*rest, *(_choice(sort, values) for sort, values in chosen.items())]


def _choice(sort: Any, values: list[Any]) -> Choice:
    ordered = [value for _, value in sorted({(type(v).__name__, repr(v)): v for v in values}.items())]
    if isinstance(ordered[0], Enum):
        return Choice("enum", tuple(ordered), sort.__name__, sort)
    return Choice("literal", tuple(ordered), f"Literal[{', '.join(map(repr, ordered))}]")


def shape_of(annotation: Any, where: str) -> Shape:
    """The shape of an annotation. `where` begins the message of the TypeError that refuses it."""
    shape = _Reader(where).read(annotation)
    names: dict[str, type[Any]] = {}
    for part in walk(shape):
        if (
            isinstance(part, ObjectOf)
            and part.recursive
            and names.setdefault(part.cls.__name__, part.cls) is not part.cls
        ):
            raise TypeError(f"{where}: two recursive models are called {part.cls.__name__}; rename one.")
    return shape
