"""JSON that nobody has checked yet, as something Pydantic can judge.

Takes the parsed JSON of a shape, as the store writes it or as people and upgraders do, and undoes only what Pydantic
would not understand: tags, base64, texts whose type a tag has settled. Models and dataclasses stay dicts, so that
their own rules decide about constraints, unknown names and defaults. What does not look like the shape is left as it
is, for validation to refuse.
"""

from __future__ import annotations

import binascii
import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, cast

from pydantic import TypeAdapter
from typing_extensions import is_typeddict

from ontologia.model.jsonform import READERS, TAG, VALUE, class_of
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
    describe,
    tagged,
)

Take = Callable[[Any], Any]
_INFINITIES = tuple({TAG: "float", VALUE: text} for text in ("inf", "-inf"))
BY_NAME: dict[str, Any] = {"by_name": True, "by_alias": True}
"""Options of Pydantic: the store writes models by the names of their fields, people may use aliases."""


def input_reader(shape: Shape) -> Take:
    """A function from the parsed JSON of a shape to what Pydantic is given. ValueError when bytes are not base64."""
    return _Builder().build(shape)


class _Builder:
    """Builds the reader of a shape; remembers enclosing models so that a recursive part finds its reader."""

    def __init__(self) -> None:
        self.enclosing: dict[type[Any], Take] = {}

    def build(self, shape: Shape) -> Take:
        match shape:
            case Scalar(name):
                return _scalar(name)
            case Choice():
                return _choice(shape)
            case ListOf(item):
                return _list(self.build(item))
            case DictOf(item):
                return _dict(self.build(item))
            case UnionOf(members):
                return self.union(members)
            case RefTo(cls):
                return self.enclosed(cls)
            case ObjectOf():
                return self.object(shape)

    def enclosed(self, cls: type[Any]) -> Take:
        """The reader of an enclosing model, looked up when it is used: it is not finished yet."""

        def take(value: Any) -> Any:
            return self.enclosing[cls](value)

        return take

    def object(self, shape: ObjectOf) -> Take:
        parts = {name: self.build(part) for name, part in shape.fields}
        make = None if shape.form != "dataclass" or _made_of_its_parts(shape.cls) else object_builder(shape)[1]

        def take(value: Any) -> Any:
            if _class(value) is not dict:
                return value
            held = {name: parts[name](item) if name in parts else item for name, item in _record(value).items()}
            return held if make is None or not parts.keys() <= held.keys() else make(held)

        self.enclosing[shape.cls] = take
        return take

    def union(self, members: tuple[Shape, ...]) -> Take:
        marked = tagged(members)
        readers = {member: self.build(member) for member in members}
        by_tag = {describe(canonical(m, named=True)): _settled(m, readers[m]) for m in members if m in marked}
        by_class = {class_of(m): readers[m] for m in members if m not in marked}

        def take(value: Any) -> Any:
            record = _record(value)
            settled = by_tag.get(str(record[TAG])) if record.keys() == {TAG, VALUE} else None
            if settled is not None:
                return settled(record[VALUE])
            # A dict where none is expected can only be the tag of an infinite float.
            read = by_class.get(_class(value)) or (by_class.get(float) if record else None)
            return value if read is None else read(value)

        return take


def _made_of_its_parts(cls: type[Any]) -> bool:
    """Whether Pydantic can make a dataclass from its fields alone; one that it cannot is put together as written."""
    if getattr(cls, "__pydantic_config__", {}).get("strict"):
        return False
    after = getattr(cls, "__post_init__", None)
    return all(field.init for field in dataclasses.fields(cls)) and (
        # More than `self` is what only the constructor is given.
        after is None or len(inspect.signature(after).parameters) == 1
    )


def _settled(shape: Shape, take: Take) -> Take:
    """The reader of a member that a tag has named: Pydantic must not choose another one, so it is made here."""
    if not isinstance(shape, ObjectOf | RefTo) or is_typeddict(shape.cls):
        return take
    cls = shape.cls
    made: list[TypeAdapter[Any]] = []

    def validated(value: Any) -> Any:
        if not made:
            # Late, because the class may still be incomplete when the shape is read.
            made.append(TypeAdapter(cls))
        return made[0].validate_python(take(value), **BY_NAME)

    return validated


def _scalar(name: str) -> Take:
    if name == "float":
        return _float
    read = READERS.get(name)
    if read is None:
        return lambda value: value

    def take(value: Any) -> Any:
        if type(value) is not str:
            return value
        try:
            return read(value)
        except binascii.Error as error:
            raise ValueError("bytes inside JSON are written in base64") from error
        except (ValueError, ArithmeticError):
            return value

    return take


def _float(value: Any) -> Any:
    return float(_record(value)[VALUE]) if _record(value) in _INFINITIES else value


def _choice(shape: Choice) -> Take:
    members: dict[Any, Any] = {(type(choice_json(m)), choice_json(m)): m for m in shape.members}

    def take(value: Any) -> Any:
        try:
            return members.get((type(value), value), value)
        except TypeError:
            return value

    return take


def _list(take_item: Take) -> Take:
    def take(value: Any) -> Any:
        return [take_item(item) for item in cast("list[Any]", value)] if _class(value) is list else value

    return take


def _dict(take_item: Take) -> Take:
    def take(value: Any) -> Any:
        return {key: take_item(item) for key, item in _record(value).items()} if _class(value) is dict else value

    return take


def _class(value: object) -> type[Any]:
    return type(value)


def _record(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
