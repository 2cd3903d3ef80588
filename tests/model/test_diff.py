"""Differences between versions of a type, and which of them old rows can bear without help."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ontologia.model.diff import diff_specs
from ontologia.model.spec import FieldSpec, Kind, TypeSpec

KEY = FieldSpec("id", "str", Kind.TEXT, primary_key=True)
SEATS = FieldSpec("seats", "int", Kind.INT)


def entity(*fields: FieldSpec) -> TypeSpec:
    return TypeSpec("entity", "Customer", (KEY, *fields))


def changed(**options: Any) -> TypeSpec:
    return entity(replace(SEATS, **options))


@pytest.mark.parametrize(
    ("old", "new", "change", "needs_upgrader", "text"),
    [
        (entity(), entity(SEATS), "added", True, "added seats: int"),
        (entity(), changed(has_default=True, default=1), "added", False, "added seats: int with a default"),
        (entity(), changed(has_default=True, factory=True), "added", False, "added seats: int with a default"),
        (entity(), changed(nullable=True), "added", True, "added seats: int | None"),
        (entity(), changed(nullable=True, has_default=True), "added", False, "added seats: int | None with a default"),
        (entity(SEATS), entity(), "removed", True, "removed seats: int"),
        (entity(SEATS), changed(type="float", kind=Kind.FLOAT), "type_changed", True, "changed seats: int -> float"),
        (entity(SEATS), changed(nullable=True), "nullable_changed", False, "changed seats: may now be null"),
        (changed(nullable=True), entity(SEATS), "nullable_changed", True, "changed seats: may no longer be null"),
        (entity(SEATS), changed(primary_key=True), "key_changed", True, "changed seats: plain field -> primary key"),
    ],
)
def test_each_change_says_what_it_is_and_whether_it_needs_an_upgrader(
    old: TypeSpec, new: TypeSpec, change: str, *, needs_upgrader: bool, text: str
):
    diff = diff_specs(old, new)
    (found,) = diff.changes
    assert (found.field, found.change, found.needs_upgrader, str(found)) == ("seats", change, needs_upgrader, text)
    assert (diff.type_name, diff.kind, diff.needs_upgrader, bool(diff)) == ("Customer", "entity", needs_upgrader, True)


def test_what_is_not_structure_is_no_difference():
    old = entity(SEATS, FieldSpec("name", "str", Kind.TEXT))
    new = TypeSpec(
        "entity",
        "Customer",
        (FieldSpec("name", "str", Kind.TEXT, index=True), replace(SEATS, has_default=True, default=3), KEY),
        doc="New words.",
    )
    assert not diff_specs(old, new)
    assert old.fingerprint == new.fingerprint


def test_ends_and_several_changes_are_one_line_each():
    old = TypeSpec("relation", "Uses", (SEATS,), "Customer", "Product")
    new = TypeSpec(
        "relation", "Uses", (replace(SEATS, type="str", kind=Kind.TEXT, nullable=True),), "Person", "Product"
    )
    assert str(diff_specs(old, new)).splitlines() == [
        "changed left end: Customer -> Person",
        "changed seats: int -> str | None",
        "changed seats: may now be null",
    ]
    assert [change.change for change in diff_specs(old, new).changes] == [
        "ends_changed",
        "type_changed",
        "nullable_changed",
    ]
