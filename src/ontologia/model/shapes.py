"""The structure of a storable type, between Python's annotations and the canonical JSON of a schema version.

A shape is a small immutable tree. `canonical` writes it down, structurally: names of enums and models appear only
where decoding needs them (inside a union whose members would otherwise look alike, and on recursive models). What the
parts mean: `"str"`, `"int"`, ..., `{"list": T}`, `{"dict": T}` (keys are text), `{"enum": [values]}`, `{"literal":
[values]}`, `{"union": [T, ...]}`, `{"object": {field: T}, "optional"?: [fields], "open"?: true, "name"?: text}`,
`{"ref": name}`.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

from ontologia.base.canonical import canonical_json
from ontologia.model.spec import JsonType, Kind
from ontologia.model.storable import exact

ScalarName = Literal[
    "str", "int", "float", "bool", "null", "datetime", "date", "time", "decimal", "uuid", "bytes", "any"
]
JsonClass = Literal["string", "int", "float", "bool", "null", "array", "object", "any"]

SCALAR_KINDS: dict[str, Kind] = {
    "str": Kind.TEXT,
    "int": Kind.INT,
    "float": Kind.FLOAT,
    "bool": Kind.BOOL,
    "datetime": Kind.DATETIME,
    "date": Kind.DATE,
    "time": Kind.TIME,
    "decimal": Kind.DECIMAL,
    "uuid": Kind.TEXT,
    "bytes": Kind.BYTES,
    "null": Kind.JSON,
    "any": Kind.JSON,
}
_PLAIN_CLASSES: dict[str, JsonClass] = {
    "int": "int",
    "float": "float",
    "bool": "bool",
    "null": "null",
    "any": "any",
}


@dataclass(frozen=True, slots=True)
class Scalar:
    """One indivisible value; `any` is any JSON value."""

    name: ScalarName


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a fixed set: the members of an enum, or the values of a literal."""

    form: Literal["enum", "literal"]
    members: tuple[Any, ...]
    """Python values: enum members, or what the literal lists."""
    name: str
    cls: type[Enum] | None = None


@dataclass(frozen=True, slots=True)
class ListOf:
    item: Shape


@dataclass(frozen=True, slots=True)
class DictOf:
    item: Shape


@dataclass(frozen=True, slots=True)
class ObjectOf:
    """A TypedDict, a dataclass or a Pydantic model: named parts, each with its own shape."""

    cls: type[Any]
    form: Literal["typeddict", "dataclass", "model"]
    fields: tuple[tuple[str, Shape], ...]
    optional: frozenset[str] = frozenset()
    open: bool = False
    recursive: bool = False


@dataclass(frozen=True, slots=True)
class RefTo:
    """The enclosing object of this class, again."""

    cls: type[Any]


@dataclass(frozen=True, slots=True)
class UnionOf:
    members: tuple[Shape, ...]


Shape = Scalar | Choice | ListOf | DictOf | ObjectOf | RefTo | UnionOf


def choice_value(member: Any) -> Any:
    """The plain value behind a member of a choice."""
    return exact(member.value if isinstance(member, Enum) else member)


def choice_json(member: Any) -> Any:
    """A member of a choice as JSON."""
    value = choice_value(member)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def canonical(shape: Shape, *, named: bool = False) -> JsonType:
    """The canonical JSON of a shape; `named` adds the names of enums and models, but not of those inside a model."""
    match shape:
        case Scalar(name):
            return name
        case Choice(form, members, name):
            record: dict[str, Any] = {form: sorted((choice_json(m) for m in members), key=_value_order)}
            if form == "literal" and any(isinstance(choice_value(m), bytes) for m in members):
                record["bytes"] = True
            return {**record, "name": name} if named and form == "enum" else record
        case ListOf(item):
            return {"list": canonical(item, named=named)}
        case DictOf(item):
            return {"dict": canonical(item, named=named)}
        case RefTo(cls):
            return {"ref": cls.__name__}
        case UnionOf(members):
            tags = tagged(members)
            return {"union": sorted((canonical(m, named=named or m in tags) for m in members), key=canonical_json)}
        case ObjectOf():
            return _canonical_object(shape, named=named)


def _canonical_object(shape: ObjectOf, *, named: bool) -> JsonType:
    record: dict[str, Any] = {"object": {name: canonical(part) for name, part in shape.fields}}
    if shape.optional:
        record["optional"] = sorted(shape.optional)
    if shape.open:
        record["open"] = True
    if named or shape.recursive:
        record["name"] = shape.cls.__name__
    return record


def _value_order(value: Any) -> tuple[str, str]:
    return type(value).__name__, canonical_json(value)


def describe(kind_of: JsonType) -> str:
    """A canonical type in words, as messages and union tags show it: `list[str]`, `Address`."""
    if isinstance(kind_of, str):
        return {"null": "None", "any": "Any", "decimal": "Decimal", "uuid": "UUID"}.get(kind_of, kind_of)
    if "name" in kind_of:
        return str(kind_of["name"])
    form, inner = next((key, kind_of[key]) for key in _FORMS if key in kind_of)
    match form:
        case "list":
            return f"list[{describe(inner)}]"
        case "dict":
            return f"dict[str, {describe(inner)}]"
        case "union":
            return " | ".join(describe(member) for member in inner)
        case "object":
            return "{" + ", ".join(f"{name}: {describe(part)}" for name, part in inner.items()) + "}"
        case "ref":
            return str(inner)
        case _:
            return f"{form.capitalize()}[{', '.join(map(repr, inner))}]"


_FORMS = ("list", "dict", "union", "object", "enum", "literal", "ref")


def json_class(shape: Shape) -> JsonClass:
    """What a value of this shape looks like in JSON text."""
    match shape:
        case Scalar(name):
            return _PLAIN_CLASSES.get(name, "string")
        case Choice(members=members):
            classes: set[JsonClass] = {_class_of_value(choice_value(m)) for m in members}
            return next(iter(classes)) if len(classes) == 1 else "any"
        case ListOf():
            return "array"
        case UnionOf():
            return "any"
        case _:
            return "object"


def _class_of_value(value: Any) -> JsonClass:
    match value:
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "float"
        case _:
            return "string"


def tagged(members: tuple[Shape, ...]) -> frozenset[Shape]:
    """The members of a union that are written with their type beside them: JSON alone would not tell them apart.

    A tag is itself a JSON object, so once there is one in a union, every member that is an object gets one too.
    An infinite float is written as a tag (JSON has no infinity): a float counts as one.
    """
    classes = [json_class(member) for member in members]
    alike = {m for m, c in zip(members, classes, strict=True) if c == "any" or classes.count(c) > 1 or "any" in classes}
    if alike or "float" in classes:
        alike |= {m for m, c in zip(members, classes, strict=True) if c == "object"}
    return frozenset(alike)


def kind_of(shape: Shape) -> Kind:
    """How values of a (not null) shape are held."""
    match shape:
        case Scalar(name):
            return SCALAR_KINDS[name]
        case Choice(members=members):
            return _kind_of_values([choice_value(m) for m in members])
        case _:
            return Kind.JSON


def _kind_of_values(values: list[Any]) -> Kind:
    kinds: set[type[Any]] = {type(value) for value in values}
    if all(issubclass(kind, str) for kind in kinds):
        return Kind.TEXT
    if kinds == {bool}:
        return Kind.BOOL
    if all(issubclass(kind, int) and kind is not bool for kind in kinds):
        return Kind.INT
    return Kind.BYTES if kinds == {bytes} else Kind.JSON


def without_null(shape: Shape) -> tuple[Shape, bool]:
    """The shape of the values that are not null, and whether null is allowed."""
    null = Scalar("null")
    if shape in {null, Scalar("any")}:
        return shape, True
    if not isinstance(shape, UnionOf) or null not in shape.members:
        return shape, False
    rest = tuple(member for member in shape.members if member != null)
    return (rest[0] if len(rest) == 1 else UnionOf(rest)), True


def walk(shape: Shape) -> list[Shape]:
    """Every part of a shape, itself first."""
    found: list[Shape] = []
    waiting = [shape]
    while waiting:
        part = waiting.pop()
        found.append(part)
        match part:
            case ListOf(item) | DictOf(item):
                waiting.append(item)
            case UnionOf(members):
                waiting.extend(members)
            case ObjectOf(fields=fields):
                waiting.extend(inner for _, inner in fields)
            case _:
                pass
    return found
