"""What a field's declared type says about the places inside it.

A `Place` is the set of types that a value somewhere inside a field may have. Descending into a closed type (a model, a
dataclass, a TypedDict) by a key it does not have is refused with the keys it has; where the type leaves anything open,
everything is allowed. It also knows where the codec puts a tag between a key and its value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from ontologia.model.shapes import describe
from ontologia.model.spec import JsonType

OPEN = "any"
TAG = "$type"
TAGGED_VALUE = "$value"
"""Where a union's member is found when JSON alone would not tell the members apart (see `model.shapes.tagged`)."""


_SCALAR_CLASSES: dict[type, str] = {bool: "bool", int: "int", float: "float"}


class UnknownKeyError(LookupError):
    """No alternative of the type has this key; `known` are those it has, none when it has no keys at all."""

    def __init__(self, known: list[str]) -> None:
        super().__init__()
        self.known = known


@dataclass(frozen=True, slots=True)
class Place:
    """The alternatives of a type at one place; `models` are the named ones that a recursive type refers back to."""

    types: tuple[JsonType, ...] = (OPEN,)
    models: dict[str, JsonType] = field(default_factory=dict[str, JsonType])

    @classmethod
    def of(cls, declared: JsonType) -> Place:
        """The place that a whole field is."""
        models = dict(_named_objects(declared))
        return cls(tuple(_alternatives(declared, models)), models)

    @property
    def is_open(self) -> bool:
        """True when the place may hold anything at all."""
        return OPEN in self.types

    @property
    def may_be_list(self) -> bool:
        return self.is_open or any(isinstance(one, dict) and "list" in one for one in self.types)

    @property
    def only_list(self) -> bool:
        return bool(self.types) and all(
            one == "null" or (isinstance(one, dict) and "list" in one) for one in self.types
        )

    def is_named(self, name: str) -> bool:
        """True when the declared type has this scalar among its alternatives."""
        return name in self.types

    def allows_member(self, value: object) -> bool:
        """False when the type lists its values (an Enum, a Literal) and this is none of them."""
        listed: list[object] = []
        for one in self.types:
            if isinstance(one, dict):
                listed.extend(cast("list[object]", one.get("enum", one.get("literal", ()))))
        return not listed or value in listed

    def describe(self) -> str:
        """The alternatives, for an error message."""
        return " or ".join(describe(one) for one in self.types)

    def descend(self, key: str) -> tuple[tuple[str, ...], Place]:
        """The keys that lead there and the place; `UnknownKeyError` when no alternative can have it."""
        found: list[JsonType] = []
        known: list[str] = []
        for one in self.types:
            if one == OPEN:
                return (key,), Place()
            if not isinstance(one, dict):
                continue
            fields = cast("dict[str, JsonType]", one.get("object", {}))
            known.extend(fields)
            if "dict" in one:
                found.extend(_alternatives(one["dict"], self.models))
            elif key in fields:
                found.extend(_alternatives(fields[key], self.models))
            elif one.get("open"):
                found.append(OPEN)
        if not found:
            raise UnknownKeyError(known)
        return (*self.tag_for("object"), key), Place(tuple(found), self.models)

    def items(self) -> tuple[tuple[str, ...], Place]:
        """The keys that lead to the list that may be here, and the place of its items."""
        found: list[JsonType] = []
        for one in self.types:
            if one == OPEN:
                return (), Place()
            if isinstance(one, dict) and "list" in one:
                found.extend(_alternatives(one["list"], self.models))
        return self.tag_for("array"), Place(tuple(found), self.models)

    def tag_for(self, wanted: str) -> tuple[str, ...]:
        """The keys to add before a member that is a `string`, a `number`, an `array` or an `object` in JSON."""
        classes = [_json_class(one) for one in self.types]
        tagged = {c for c in classes if c == "any" or classes.count(c) > 1 or "any" in classes}
        if tagged or "float" in classes:
            tagged.add("object")
        names = {"int", "float"} if wanted == "number" else {wanted}
        present = [c for c in classes if c in names]
        return (TAGGED_VALUE,) if len(classes) > 1 and present and set(present) <= tagged else ()


def _json_class(one: JsonType) -> str:
    """What a value of a canonical type looks like in JSON."""
    if isinstance(one, str):
        return one if one in ("int", "float", "bool", "null", OPEN) else "string"
    if "list" in one:
        return "array"
    if "object" in one or "dict" in one:
        return "object"
    values = cast("list[object]", one.get("enum", one.get("literal", ())))
    classes = {_SCALAR_CLASSES.get(type(value), "string") for value in values}
    return classes.pop() if len(classes) == 1 else OPEN


def _alternatives(one: JsonType, models: dict[str, JsonType]) -> Iterator[JsonType]:
    waiting: list[JsonType] = [one]
    seen: set[str] = set()
    while waiting:
        current = waiting.pop()
        if isinstance(current, str):
            yield current
        elif "union" in current:
            waiting.extend(reversed(cast("list[JsonType]", current["union"])))
        elif "ref" in current:
            name = cast("str", current["ref"])
            if name not in seen:
                seen.add(name)
                waiting.append(models.get(name, OPEN))
        else:
            yield current


def _named_objects(one: JsonType) -> Iterator[tuple[str, JsonType]]:
    waiting: list[Any] = [one]
    while waiting:
        current = waiting.pop()
        if isinstance(current, list):
            waiting.extend(cast("list[Any]", current))
        elif isinstance(current, dict):
            record = cast("dict[str, Any]", current)
            if "object" in record and isinstance(record.get("name"), str):
                yield record["name"], record
                waiting.extend(record["object"].values())
            elif "object" in record:
                waiting.extend(record["object"].values())
            else:
                waiting.extend(record.get(form) for form in ("list", "dict", "union") if form in record)
