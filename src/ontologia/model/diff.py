"""What changed between two versions of a type, field by field, and whether old rows need an upgrader for it.

Only structure counts, as in a fingerprint: names, types, keys, ends. A new field with a default and a field that may
now be null need nothing; every other change needs a function that says what old rows become.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from ontologia.model.shapes import describe
from ontologia.model.spec import FieldSpec, TypeKind, TypeSpec

Change = Literal["added", "removed", "type_changed", "nullable_changed", "key_changed", "ends_changed"]


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One difference. `field` is `left` or `right` when an end changed."""

    field: str
    change: Change
    old: Any
    new: Any
    needs_upgrader: bool
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class SchemaDiff:
    """All differences between two versions of a type; empty when they are structurally the same."""

    type_name: str
    kind: TypeKind
    changes: tuple[FieldChange, ...]

    @property
    def needs_upgrader(self) -> bool:
        """True when old rows cannot become new ones without being told how."""
        return any(change.needs_upgrader for change in self.changes)

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __str__(self) -> str:
        return "\n".join(str(change) for change in self.changes)


def diff_specs(old: TypeSpec, new: TypeSpec) -> SchemaDiff:
    """The differences from one version of a type to another."""
    changes: list[FieldChange] = []
    for side, before, after in (("left", old.left, new.left), ("right", old.right, new.right)):
        if before != after:
            text = f"changed {side} end: {before} -> {after}"
            changes.append(FieldChange(side, "ends_changed", before, after, needs_upgrader=True, text=text))
    for field in new.fields:
        before = old.by_name.get(field.name)
        changes.extend([_added(field)] if before is None else _changed(before, field))
    changes.extend(
        FieldChange(f.name, "removed", typed(f), None, needs_upgrader=True, text=f"removed {f.name}: {typed(f)}")
        for f in old.fields
        if f.name not in new.by_name
    )
    return SchemaDiff(new.name, new.kind, tuple(changes))


def typed(field: FieldSpec) -> str:
    """The type of a field as a person would write it."""
    text = describe(field.type)
    return f"{text} | None" if field.nullable and text not in {"None", "Any"} else text


def _added(field: FieldSpec) -> FieldChange:
    key = field.primary_key or field.instance_key
    with_default = " with a default" if field.has_default else ""
    return FieldChange(
        field.name,
        "added",
        None,
        typed(field),
        needs_upgrader=key or not field.has_default,
        text=f"added {field.name}: {typed(field)}{with_default}",
    )


def _changed(old: FieldSpec, new: FieldSpec) -> Iterator[FieldChange]:
    name = new.name
    if old.type != new.type:
        text = f"changed {name}: {typed(old)} -> {typed(new)}"
        yield FieldChange(name, "type_changed", typed(old), typed(new), needs_upgrader=True, text=text)
    if old.nullable != new.nullable:
        text = f"changed {name}: {'may now be null' if new.nullable else 'may no longer be null'}"
        yield FieldChange(
            name, "nullable_changed", old.nullable, new.nullable, needs_upgrader=not new.nullable, text=text
        )
    if _role(old) != _role(new):
        text = f"changed {name}: {_role(old)} -> {_role(new)}"
        yield FieldChange(name, "key_changed", _role(old), _role(new), needs_upgrader=True, text=text)


def _role(field: FieldSpec) -> str:
    if field.primary_key:
        return "primary key"
    return "instance key" if field.instance_key else "plain field"
