"""The exact JSON of a value, given its shape, and the way back.

What goes in comes out equal and of the same type: integers of any length, 1 and 1.0, decimals, dates, bytes, enums,
models. Members of a union that JSON cannot tell apart, and infinite floats, are written as `{"$type": ..., "$value":
...}`. Writing checks strictly and raises ValueError with the place of what cannot be stored; reading trusts what was
written.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from types import NoneType
from typing import Any, NoReturn, cast
from uuid import UUID

from ontologia.model.objectform import object_builder
from ontologia.model.shapes import (
    Choice,
    DictOf,
    ListOf,
    ObjectOf,
    RefTo,
    Scalar,
    Shape,
    UnionOf,
    canonical,
    choice_json,
    choice_value,
    describe,
    tagged,
    walk,
)
from ontologia.model.storable import (
    MAX_DEPTH,
    UnstorableError,
    check_decimal,
    check_json,
    check_text,
    refuse,
    step,
)

TAG, VALUE = "$type", "$value"

_PYTHON_TYPES: dict[str, type[Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "null": NoneType,
    "datetime": datetime,
    "date": date,
    "time": time,
    "decimal": Decimal,
    "uuid": UUID,
    "bytes": bytes,
}
_WRITERS: dict[str, Callable[[Any], Any]] = {
    "str": check_text,
    "datetime": datetime.isoformat,
    "date": date.isoformat,
    "time": time.isoformat,
    "decimal": lambda value: str(check_decimal(value)),
    "uuid": str,
    "bytes": lambda value: base64.b64encode(value).decode(),
}
READERS: dict[str, Callable[[Any], Any]] = {
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "decimal": Decimal,
    "uuid": UUID,
    "bytes": partial(base64.b64decode, validate=True),
}


@dataclass(frozen=True, slots=True)
class JsonForm:
    """How one shape is written and read. `read` is None when the JSON is the value."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any] | None
    fits: Callable[[Any], bool]
    """A quick look at whether a value is of this shape: its Python type."""
    only_tags: bool = False
    """True when reading changes nothing but tags, so that text without any needs no reading."""


def _wrong(expected: str, value: Any) -> NoReturn:
    refuse(f"expected {expected}, got {type(value).__name__}")


def json_form(shape: Shape) -> JsonForm:
    """How values of a shape are written and read."""
    form = _Builder().build(shape)
    if not any(isinstance(part, RefTo) for part in walk(shape)):
        return form

    def write(value: Any) -> Any:
        try:
            return check_json(form.write(value))
        except RecursionError:
            refuse(f"nested more than {MAX_DEPTH} levels deep")

    return JsonForm(write, form.read, form.fits)


class _Builder:
    """Builds the form of a shape; remembers enclosing models so that a recursive part finds its form."""

    def __init__(self) -> None:
        self.enclosing: dict[type[Any], JsonForm] = {}

    def build(self, shape: Shape) -> JsonForm:
        match shape:
            case Scalar("any"):
                return JsonForm(check_json, None, lambda _value: True)
            case Scalar(name):
                return _scalar(name)
            case Choice():
                return _choice(shape)
            case ListOf(item):
                return _list(self.build(item))
            case DictOf(item):
                return _dict(self.build(item))
            case UnionOf(members):
                return _union(members, [self.build(member) for member in members])
            case RefTo(cls):
                return self.enclosed(cls)
            case ObjectOf():
                return self.object(shape)

    def enclosed(self, cls: type[Any]) -> JsonForm:
        """The form of an enclosing model, looked up when it is used: it is not finished yet."""
        known = self.enclosing

        def write(value: Any) -> Any:
            return known[cls].write(value)

        def read(value: Any) -> Any:
            return cast("Callable[[Any], Any]", known[cls].read)(value)

        def fits(value: Any) -> bool:
            return known[cls].fits(value)

        return JsonForm(write, read, fits)

    def object(self, shape: ObjectOf) -> JsonForm:
        parts = {name: self.build(part) for name, part in shape.fields}
        take, make, fits = object_builder(shape)
        optional, is_open = shape.optional, shape.open

        def write(value: Any) -> dict[str, Any]:
            if not fits(value):
                _wrong(shape.cls.__name__, value)
            held = take(value)
            written: dict[str, Any] = {}
            for name, item in held.items():
                part = parts.get(name)
                if part is None and not is_open:
                    refuse(f"{shape.cls.__name__} has no {name!r}")
                try:
                    written[name] = check_json(item, 1) if part is None else part.write(item)
                except UnstorableError as error:
                    error.path.append(step(name))
                    raise
            for name in parts:
                if name not in written and name not in optional:
                    refuse(f"{shape.cls.__name__} lacks {name!r}")
            return written

        readers = {name: part.read for name, part in parts.items() if part.read is not None}

        def read(record: dict[str, Any]) -> Any:
            held = dict(record)
            for name, reader in readers.items():
                if name in held:
                    held[name] = reader(held[name])
            return make(held)

        plain = shape.form == "typeddict" and not readers
        tags_only = shape.form == "typeddict" and all(part.read is None or part.only_tags for part in parts.values())
        form = JsonForm(write, None if plain and not shape.recursive else read, fits, tags_only and not shape.recursive)
        self.enclosing[shape.cls] = form
        return form


def _scalar(name: str) -> JsonForm:
    cls = _PYTHON_TYPES[name]

    def fits(value: Any) -> bool:
        return type(value) is cls

    if name == "float":
        return JsonForm(_write_float, _read_float, fits, only_tags=True)
    convert = _WRITERS.get(name)

    def write(value: Any) -> Any:
        if type(value) is not cls:
            _wrong(cls.__name__, value)
        return value if convert is None else convert(value)

    return JsonForm(write, READERS.get(name), fits)


def _write_float(value: Any) -> Any:
    if type(value) is int:
        # A dataclass is taken as it is, and many people write Point(x=1).
        try:
            number = float(value)
        except OverflowError:
            refuse("an int this large is not exactly a float")
        return number if number == value else refuse(f"{value} is not exactly a float")
    if type(value) is not float:
        _wrong("float", value)
    if math.isfinite(value):
        return value
    return refuse("nan cannot be stored") if math.isnan(value) else {TAG: "float", VALUE: str(value)}


def _read_float(value: float | dict[str, str]) -> float:
    return float(value[VALUE]) if isinstance(value, dict) else value


def _choice(shape: Choice) -> JsonForm:
    # Types are part of the lookup because 1, 1.0 and True are equal in Python.
    written: dict[tuple[type[Any], Any], Any] = {(type(m), m): choice_json(m) for m in shape.members}
    by_json: dict[tuple[type[Any], Any], Any] = {(type(choice_json(m)), choice_json(m)): m for m in shape.members}
    same = all(type(member) in {str, int, bool} for member in shape.members)

    def fits(value: Any) -> bool:
        try:
            return (type(value), value) in written
        except TypeError:
            return False

    def write(value: Any) -> Any:
        if not fits(value):
            values = ", ".join(repr(choice_value(member)) for member in shape.members)
            refuse(f"expected one of {values}, got {value!r}")
        return written[type(value), value]

    return JsonForm(write, None if same else lambda value: by_json[type(value), value], fits)


def _list(item: JsonForm) -> JsonForm:
    write_item, read_item = item.write, item.read

    def write(value: Any) -> list[Any]:
        if type(value) is not list:
            _wrong("list", value)
        written: list[Any] = []
        try:
            for each in cast("list[Any]", value):
                written.append(write_item(each))  # noqa: PERF401 - its length says where a refusal happened
        except UnstorableError as error:
            error.path.append(step(len(written)))
            raise
        return written

    def read(value: list[Any]) -> list[Any]:
        return [cast("Callable[[Any], Any]", read_item)(each) for each in value]

    return JsonForm(write, None if read_item is None else read, lambda value: type(value) is list, item.only_tags)


def _dict(item: JsonForm) -> JsonForm:
    write_item, read_item = item.write, item.read

    def write(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            _wrong("dict", value)
        written: dict[str, Any] = {}
        for key, each in cast("dict[Any, Any]", value).items():
            try:
                if type(key) is not str:
                    refuse("the keys of a dict must be str")
                written[check_text(key)] = write_item(each)
            except UnstorableError as error:
                error.path.append(step(key))
                raise
        return written

    def read(value: dict[str, Any]) -> dict[str, Any]:
        return {key: cast("Callable[[Any], Any]", read_item)(each) for key, each in value.items()}

    return JsonForm(write, None if read_item is None else read, lambda value: type(value) is dict, item.only_tags)


def _union(members: tuple[Shape, ...], forms: list[JsonForm]) -> JsonForm:
    """Members are tried by Python type first, then by whether they can write the value."""
    marked = tagged(members)
    tags = [describe(canonical(m, named=True)) if m in marked else None for m in members]
    by_tag = {tag: form for tag, form in zip(tags, forms, strict=True) if tag is not None}
    text = " | ".join(describe(canonical(member)) for member in members)

    def write(value: Any) -> Any:
        ordered = sorted(zip(forms, tags, strict=True), key=lambda pair: not pair[0].fits(value))
        for form, tag in ordered:
            try:
                written = form.write(value)
            except UnstorableError:
                continue
            return written if tag is None else {TAG: tag, VALUE: written}
        if ordered[0][0].fits(value):
            # Its own refusal says more than that no member fits.
            ordered[0][0].write(value)
        return refuse(f"expected {text}, got {type(value).__name__}")

    by_class: dict[type[Any], JsonForm] = {
        class_of(m): form for m, form in zip(members, forms, strict=True) if m not in marked
    }

    def read(value: Any) -> Any:
        record = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        if TAG in record and (by_tag or float in by_class):
            form = by_tag.get(record[TAG]) or by_class[float]
            # An infinite float is a tag of its own, which its reader expects whole.
            held: Any = record[VALUE] if record[TAG] in by_tag else record
        else:
            form, held = by_class[type(cast("object", value))], cast("Any", value)
        return held if form.read is None else form.read(held)

    plain = not marked and all(form.read is None for form in forms)
    only_tags = not marked and all(form.read is None or form.only_tags for form in forms)
    return JsonForm(write, None if plain else read, lambda value: any(f.fits(value) for f in forms), only_tags)


def class_of(shape: Shape) -> type[Any]:
    """The Python class of a shape's JSON, once parsed."""
    match shape:
        case Scalar(name):
            return _PYTHON_TYPES[name] if name in {"int", "float", "bool", "null"} else str
        case Choice(members=members):
            return cast("type[Any]", type(choice_json(members[0])))
        case ListOf():
            return list
        case _:
            return dict


def dumps(value: Any) -> str:
    """Canonical JSON text; the encoder is made once because this is in the write path."""
    return _encoder(value)


_encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
