"""What a declared type is once Python is taken away: names, kinds, keys, ends.

A `TypeSpec` is a plain value. It is what the store keeps as a schema version, what backends lay out tables from, and
what makes a type readable by a program that does not have the class. It knows no Pydantic and does no I/O.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal, cast

TypeKind = Literal["entity", "relation"]
JsonType = str | dict[str, Any]
"""Canonical structure of a field's type: a name such as `"str"`, or an object such as `{"list": "str"}`."""


class Kind(StrEnum):
    """How a field's value is held and compared; see `comparable` for the order each one has."""

    TEXT = "text"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    DECIMAL = "decimal"
    DATETIME = "datetime"
    DATE = "date"
    TIME = "time"
    BYTES = "bytes"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One field: its name, the canonical type, and the kind its values are held as."""

    name: str
    type: JsonType = field(hash=False)
    kind: Kind
    nullable: bool = False
    primary_key: bool = False
    instance_key: bool = False
    index: bool = False
    has_default: bool = False
    default: Any = field(default=None, hash=False)
    """The default as JSON when it is static; a factory has `has_default` and no JSON value (`factory`)."""
    factory: bool = False

    def to_json(self) -> dict[str, Any]:
        """As stored in a schema version; defaults that say nothing are left out."""
        record: dict[str, Any] = {"name": self.name, "type": self.type, "kind": self.kind.value}
        for flag in ("nullable", "primary_key", "instance_key", "index", "has_default", "factory"):
            if getattr(self, flag):
                record[flag] = True
        if self.has_default and not self.factory:
            record["default"] = self.default
        return record

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> FieldSpec:
        options: dict[str, Any] = {**record, "kind": Kind(record["kind"])}
        return cls(**options)


@dataclass(frozen=True)
class TypeSpec:
    """One entity or relation type."""

    kind: TypeKind
    name: str
    fields: tuple[FieldSpec, ...]
    left: str | None = None
    right: str | None = None
    doc: str = field(default="", compare=False)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Specs are the keys of caches that are asked for every row: their hash is computed once.
        return hash((self.kind, self.name, self.fields, self.left, self.right))

    @cached_property
    def by_name(self) -> dict[str, FieldSpec]:
        return {f.name: f for f in self.fields}

    @cached_property
    def key_field(self) -> FieldSpec | None:
        """The primary key of an entity, the instance key of a keyed relation."""
        return next((f for f in self.fields if f.primary_key or f.instance_key), None)

    @cached_property
    def identity(self) -> tuple[str, ...]:
        """Names of the identity columns, in tie-break order."""
        return ("key",) if self.kind == "entity" else ("left_key", "right_key", "instance_key")

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the structure: names, types, keys, ends. Not order, docs, defaults or indexes."""
        shape = {
            "kind": self.kind,
            "name": self.name,
            "left": self.left,
            "right": self.right,
            "fields": sorted(
                (
                    {
                        "name": f.name,
                        "type": f.type,
                        "nullable": f.nullable,
                        "primary_key": f.primary_key,
                        "instance_key": f.instance_key,
                    }
                    for f in self.fields
                ),
                key=lambda shape: cast("str", shape["name"]),
            ),
        }
        text = json.dumps(shape, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """As stored in a schema version."""
        record: dict[str, Any] = {
            "kind": self.kind,
            "name": self.name,
            "fields": [f.to_json() for f in self.fields],
        }
        if self.kind == "relation":
            record |= {"left": self.left, "right": self.right}
        if self.doc:
            record["doc"] = self.doc
        return record

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> TypeSpec:
        return cls(
            kind=record["kind"],
            name=record["name"],
            fields=tuple(FieldSpec.from_json(f) for f in record["fields"]),
            left=record.get("left"),
            right=record.get("right"),
            doc=record.get("doc", ""),
        )
