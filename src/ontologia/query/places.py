"""What a field's declared type says about the places inside it.

A `Place` is the set of types that a value somewhere inside a field may have. Descending into a closed type (a model, a
dataclass, a TypedDict) by a key it does not have is refused with the keys it has; where the type leaves anything open,
everything is allowed. How values are read by their declared type is said by `declared`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

from ontologia.base.canonical import canonical_json
from ontologia.model.shapes import describe
from ontologia.model.spec import JsonType
from ontologia.query.declared import OPEN, SCALAR_READERS, named_objects, parts_of, scalar_name, tagged_members

_TEXTS = frozenset({"str", "uuid"})
_NUMBERS = frozenset({"int", "float", "decimal"})


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
    declared: JsonType = OPEN
    """The type of the whole field."""
    tagged: bool = False
    """True when there may be a tag at this place or on the way to it."""

    @classmethod
    def of(cls, declared: JsonType) -> Place:
        """The place that a whole field is."""
        return cls((), named_objects(declared), declared).inside([declared])

    def inside(self, kinds: list[JsonType]) -> Place:
        """A place that may hold values of these types."""
        found: list[JsonType] = []
        tagged = self.tagged
        for one in kinds:
            for part in _alternatives(one, self.models):
                if isinstance(part, dict) and "union" in part:
                    tagged = tagged or bool(tagged_members(part["union"]))
                else:
                    found.append(part)
        return replace(self, types=tuple(found), tagged=tagged)

    @property
    def reading(self) -> str:
        """The canonical JSON of the field's type when values here must be read by it, otherwise nothing."""
        by_type = self.tagged or any(scalar_name(one) in SCALAR_READERS for one in self.types)
        if not by_type and any(isinstance(one, dict) for one in self.types):
            by_type = any(
                isinstance(part, dict) and "union" in part and bool(tagged_members(part["union"]))
                for part in parts_of(self.declared)
            )
        return canonical_json(self.declared) if by_type else ""

    @property
    def is_open(self) -> bool:
        """True when the place may hold anything at all."""
        return OPEN in self.types

    @property
    def may_be_list(self) -> bool:
        return self.is_open or any(isinstance(one, dict) and "list" in one for one in self.types)

    @property
    def may_be_text(self) -> bool:
        return self.is_open or any(
            one in _TEXTS if isinstance(one, str) else any(isinstance(value, str) for value in listed_values(one))
            for one in self.types
        )

    @property
    def only_list(self) -> bool:
        return bool(self.types) and all(
            one == "null" or (isinstance(one, dict) and "list" in one) for one in self.types
        )

    @property
    def scalars(self) -> frozenset[str]:
        """The names of the scalars among the alternatives."""
        return frozenset(name for one in self.types if (name := scalar_name(one)) is not None)

    @property
    def may_be_number(self) -> bool:
        numbers = any(type(value) in (int, float) for one in self.types for value in listed_values(one))
        return self.is_open or numbers or not self.scalars.isdisjoint(_NUMBERS)

    def is_named(self, name: str) -> bool:
        """True when the declared type has this scalar among its alternatives."""
        return name in self.scalars

    def members(self) -> list[Any]:
        """The values that the type lists (an Enum, a Literal), none when it allows others too."""
        kinds = [one for one in self.types if one != "null"]
        listed = [listed_values(one) for one in kinds]
        return [value for values in listed for value in values] if all(listed) else []

    def allows_member(self, value: object) -> bool:
        """False when the type lists its values and this is none of them."""
        listed = self.members()
        return not listed or value in listed

    def describe(self) -> str:
        """The alternatives, for an error message."""
        return " or ".join(describe(one) for one in self.types)

    def descend(self, key: str) -> Place:
        """The place at a key; `UnknownKeyError` when no alternative can have it."""
        found: list[JsonType] = []
        known: list[str] = []
        for one in self.types:
            if one == OPEN:
                found.append(OPEN)
            if not isinstance(one, dict):
                continue
            fields = cast("dict[str, JsonType]", one.get("object", {}))
            known.extend(fields)
            if "dict" in one:
                found.append(one["dict"])
            elif key in fields:
                found.append(fields[key])
            elif one.get("open"):
                found.append(OPEN)
        if not found:
            raise UnknownKeyError(known)
        return self.inside(found)

    def items(self) -> Place:
        """The place of the items of the list that may be here."""
        found: list[JsonType] = []
        for one in self.types:
            if one == OPEN:
                found.append(OPEN)
            elif isinstance(one, dict) and "list" in one:
                found.append(one["list"])
        return self.inside(found)


def listed_values(one: JsonType) -> list[Any]:
    """The values that an Enum or a Literal lists."""
    if isinstance(one, str):
        return []
    values = cast("list[Any]", one.get("enum", one.get("literal", [])))
    return [base64.b64decode(value) for value in values] if one.get("bytes") else values


def _alternatives(one: JsonType, models: dict[str, JsonType]) -> Iterator[JsonType]:
    """The types that a value may have, after each union that they are members of."""
    waiting: list[JsonType] = [one]
    seen: set[str] = set()
    while waiting:
        current = waiting.pop()
        if isinstance(current, str):
            yield current
        elif "ref" in current:
            name = cast("str", current["ref"])
            if name not in seen:
                seen.add(name)
                waiting.append(models.get(name, OPEN))
        else:
            if "union" in current:
                waiting.extend(reversed(cast("list[JsonType]", current["union"])))
            yield current
