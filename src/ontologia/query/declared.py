"""Reading the JSON of a field by its declared type: past the tags of unions, into decimals, datetimes and bytes.

JSON has no such values, so the codec writes them as text, and members of a union that would look alike with their type
beside them (`model.shapes.tagged`). This is the way back, for one place at a time. It never fails: what does not look
like its type (an older version wrote it) is given as it is.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from datetime import date, datetime, time
from decimal import Decimal
from functools import lru_cache
from typing import Any, cast

from ontologia.model.shapes import Choice, DictOf, JsonClass, ListOf, Scalar, Shape, describe, json_class, tagged
from ontologia.model.spec import JsonType

OPEN = "any"
TAG, TAGGED_VALUE = "$type", "$value"

SCALAR_READERS: dict[str, Callable[[str], Any]] = {
    "decimal": Decimal,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "bytes": base64.b64decode,
}
"""Scalars that JSON holds as text, and how they are read."""
_CLASSES: dict[type[Any], JsonClass] = {
    bool: "bool",
    int: "int",
    float: "float",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}


def scalar_name(kind: JsonType) -> str | None:
    """The name of a type without parts; a literal of bytes counts as bytes."""
    if isinstance(kind, str):
        return kind
    return "bytes" if kind.get("bytes") else None


def _outline(kind: JsonType) -> Shape:
    """A shape that looks the same in JSON: all that deciding about tags needs."""
    if isinstance(kind, str):
        return Scalar(cast("Any", kind))
    if "list" in kind:
        return ListOf(Scalar("any"))
    values = cast("list[Any] | None", kind.get("enum", kind.get("literal")))
    return DictOf(Scalar("any")) if values is None else Choice("literal", tuple(values), "")


def tagged_members(members: list[JsonType]) -> list[JsonType]:
    """The members of a union that are written with a tag."""
    marked = tagged(tuple(map(_outline, members)))
    return [member for member in members if _outline(member) in marked]


def parts_of(kind: JsonType) -> Iterator[JsonType]:
    """Every type inside a canonical type, itself first."""
    waiting: list[JsonType] = [kind]
    while waiting:
        current = waiting.pop()
        yield current
        if isinstance(current, dict):
            waiting.extend(current[form] for form in ("list", "dict") if form in current)
            waiting.extend(cast("list[JsonType]", current.get("union", ())))
            waiting.extend(cast("dict[str, JsonType]", current.get("object", {})).values())


def named_objects(kind: JsonType) -> dict[str, JsonType]:
    """The models that a recursive type refers back to by name."""
    return {
        part["name"]: part for part in parts_of(kind) if isinstance(part, dict) and "object" in part and "name" in part
    }


@lru_cache(maxsize=256)
def declared_type(text: str) -> Declared:
    """The declared type with this canonical JSON."""
    return Declared(json.loads(text))


class Declared:
    """A field's type, and how the values inside the field are read by it."""

    def __init__(self, kind: JsonType) -> None:
        self.kind = kind
        self._models = named_objects(kind)
        self._unions: dict[int, tuple[dict[str, JsonType], dict[str, JsonType]]] = {}

    def at(self, value: Any, path: tuple[str, ...], kind: JsonType | None = None) -> tuple[Any, JsonType]:
        """What is at a path of keys, without its tag, and its type; None where there is nothing."""
        value, kind = self._member(value, self.kind if kind is None else kind)
        for key in path:
            if not isinstance(value, dict):
                return None, "null"
            inside: JsonType = OPEN
            if isinstance(kind, dict):
                inside = (
                    kind["dict"] if "dict" in kind else cast("dict[str, Any]", kind.get("object", {})).get(key, OPEN)
                )
            value, kind = self._member(cast("dict[str, Any]", value).get(key), inside)
        return value, kind

    def items(self, value: Any, path: tuple[str, ...]) -> tuple[list[Any], JsonType]:
        """The items of the list at a path, and their type."""
        found, kind = self.at(value, path)
        item: JsonType = kind["list"] if isinstance(kind, dict) and "list" in kind else OPEN
        return (cast("list[Any]", found) if isinstance(found, list) else []), item

    def read(self, value: Any, kind: JsonType) -> Any:
        """A value as Python has it: scalars of their class, lists and dicts of JSON values without tags."""
        if isinstance(value, list | dict):
            return self._untagged(value, kind)
        reader = SCALAR_READERS.get(scalar_name(kind) or "")
        if reader is None or not isinstance(value, str):
            return value
        try:
            return reader(value)
        except (ValueError, ArithmeticError):
            return value

    def _member(self, value: Any, kind: JsonType) -> tuple[Any, JsonType]:
        """The value without its tag, and the one type that it has."""
        while isinstance(kind, dict):
            if "ref" in kind:
                kind = self._models.get(kind["ref"], OPEN)
            elif "union" in kind:
                by_tag, by_class = self._union(kind["union"])
                record = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
                name = record.get(TAG)
                if isinstance(name, str) and name in by_tag:
                    value, kind = record.get(TAGGED_VALUE), by_tag[name]
                else:
                    kind = by_class.get(_CLASSES.get(type(cast("object", value)), "any"), OPEN)
            else:
                break
        return cast("Any", value), kind

    def _union(self, members: list[JsonType]) -> tuple[dict[str, JsonType], dict[str, JsonType]]:
        known = self._unions.get(id(members))
        if known is None:
            marked = tagged_members(members)
            by_class: dict[str, JsonType] = {
                json_class(_outline(member)): member for member in members if member not in marked
            }
            known = self._unions[id(members)] = {describe(member): member for member in marked}, by_class
        return known

    def _untagged(self, value: Any, kind: JsonType) -> Any:
        value, kind = self._member(value, kind)
        if isinstance(value, list):
            item: JsonType = kind["list"] if isinstance(kind, dict) and "list" in kind else OPEN
            return [self._untagged(one, item) for one in cast("list[Any]", value)]
        if not isinstance(value, dict) or not isinstance(kind, dict):
            return cast("Any", value)
        record, parts = cast("dict[str, Any]", value), cast("dict[str, JsonType]", kind.get("object", {}))
        return {key: self._untagged(one, kind.get("dict", parts.get(key, OPEN))) for key, one in record.items()}
