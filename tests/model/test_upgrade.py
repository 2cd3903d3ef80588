"""Upgraders: finding them, and walking a row through the versions of its type."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ontologia.errors import ConfigError, MigrationError, MissingUpgraderError
from ontologia.model.declare import Entity
from ontologia.model.fields import Field
from ontologia.model.physical import from_physical
from ontologia.model.rows import encoder, from_stored
from ontologia.model.spec import FieldSpec, Kind, TypeSpec
from ontologia.model.upgrade import Upgraders, load_upgraders, plain_default, upgrade_row, upgrader

KEY = FieldSpec("id", "str", Kind.TEXT, primary_key=True)
NAME = FieldSpec("name", "str", Kind.TEXT)
TAGS = FieldSpec("tags", {"list": "str"}, Kind.JSON)
V1 = TypeSpec("entity", "Customer", (KEY, NAME))
V2 = TypeSpec("entity", "Customer", (KEY, NAME, FieldSpec("tier", "str", Kind.TEXT, has_default=True, default="Basic")))
V3 = TypeSpec("entity", "Customer", (KEY, FieldSpec("full", "str", Kind.TEXT), *V2.fields[2:]))
V4 = TypeSpec("entity", "Customer", (*V3.fields, FieldSpec("made", "int", Kind.INT, has_default=True, factory=True)))


@upgrader("Customer", from_version=2)
def rename(row: dict[str, Any]) -> dict[str, Any]:
    row["full"] = row.pop("name").upper()
    return row


@upgrader("Customer", from_version=7)
@upgrader("Order", from_version=1)
def unchanged(row: dict[str, Any]) -> dict[str, Any]:
    return row


RENAME = Upgraders.of([rename])


def test_steps_take_their_upgrader_or_defaults_in_turn():
    row = upgrade_row([V1, V2, V3, V4], RENAME, 1, {"id": "c1", "name": "Alice"})
    assert row == {"id": "c1", "full": "ALICE", "tier": "Basic"}
    assert upgrade_row([V1, V2], Upgraders(), 2, {"id": "c1", "name": "A", "tier": "x"}) == {
        "id": "c1",
        "name": "A",
        "tier": "x",
    }


def test_a_step_without_what_it_needs_says_which():
    with pytest.raises(MissingUpgraderError, match=r"added full: str; removed name: str") as error:
        upgrade_row([V1, V2, V3], Upgraders(), 1, {"id": "c1", "name": "Alice"})
    assert (error.value.type_name, error.value.from_version, error.value.to_version) == ("Customer", 2, 3)
    assert error.value.fields == ["full", "name"]
    assert "@upgrader('Customer', from_version=2)" in str(error.value)


def test_an_upgrader_that_gives_no_dict_is_an_error():
    @upgrader("Customer", from_version=1)
    def forgetful(row: dict[str, Any]) -> None:
        row["tier"] = "x"

    with pytest.raises(MigrationError, match="returned NoneType, not a dict"):
        upgrade_row([V1, V2], Upgraders.of([forgetful]), 1, {"id": "c1", "name": "A"})


def test_upgraders_see_plain_values_and_the_ends_of_relations():
    seen: list[dict[str, Any]] = []

    @upgrader("Uses", from_version=1)
    def look(row: dict[str, Any]) -> dict[str, Any]:
        seen.append(dict(row))
        return row

    old = TypeSpec("relation", "Uses", (TAGS, FieldSpec("at", "datetime", Kind.DATETIME)), "A", "B")
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    upgrade_row([old, old], Upgraders.of([look]), 1, {"tags": '["x"]', "at": moment}, ("a", "b", ""))
    assert seen == [{"tags": ["x"], "at": moment, "left_key": "a", "right_key": "b"}]


def test_an_upgraded_row_becomes_a_validated_object():
    class Old(Entity, name="Thing"):
        id: Field[str] = Field(primary_key=True)
        tags: Field[list[str]]
        price: Field[Decimal]

    class New(Entity, name="Thing"):
        key: Field[str] = Field(primary_key=True)
        tags: Field[list[str]]
        price: Field[float]
        at: Field[list[datetime]] = Field(default_factory=list)

    @upgrader("Thing", from_version=1)
    def rekey(row: dict[str, Any]) -> dict[str, Any]:
        return {"key": row["id"], "tags": [tag.upper() for tag in row["tags"]], "price": float(row["price"])}

    row = encoder(Old)(Old(id="t", tags=["x"], price=Decimal("1.5")))
    values = from_physical(Old.__spec__, row)
    raised = upgrade_row([Old.__spec__, New.__spec__], Upgraders.of([rekey]), 1, values, ("t",))
    assert from_stored(New, ("t",), raised) == New(key="t", tags=["X"], price=1.5)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (str, "x"),
        (int, 10**30),
        (float, math.inf),
        (float, 0.5),
        (bool, True),
        (Decimal, Decimal("1.50")),
        (datetime, datetime(2024, 1, 1, tzinfo=UTC)),
        (date, date(2024, 1, 1)),
        (time, time(1, 2)),
        (bytes, b"\xff"),
        (str | None, None),
    ],
)
def test_a_static_default_is_kept_exactly_in_the_spec(annotation: Any, value: Any):
    body = {
        "__annotations__": {"id": Field[str], "x": Field[annotation]},
        "id": Field(primary_key=True),
        "x": Field(default=value),
        "__module__": __name__,
    }
    cls: Any = type("Thing", (Entity,), body)
    spec = TypeSpec.from_json(cls.__spec__.to_json())
    assert plain_default(spec.by_name["x"]) == value
    assert type(plain_default(spec.by_name["x"])) is type(value)


def test_a_collection_answers_by_type_and_version():
    both = load_upgraders([rename, unchanged])
    assert (len(both), list(both)) == (3, [("Customer", 2), ("Customer", 7), ("Order", 1)])
    assert both.get("Order", 1) is unchanged
    assert both.chain("Customer", 1, 4) == (None, rename, None)
    assert load_upgraders(both) is both
    assert len(load_upgraders([rename, rename])) == 1


def test_two_upgraders_for_one_step_are_refused():
    @upgrader("Customer", from_version=2)
    def again(row: dict[str, Any]) -> dict[str, Any]:
        return row

    with pytest.raises(ConfigError, match="two upgraders for Customer from version 2"):
        load_upgraders([rename, again])
    with pytest.raises(ConfigError, match="is not an upgrader"):
        load_upgraders([len])


def test_a_module_is_searched_with_its_submodules():
    module = ModuleType("migrations")
    module.__dict__.update({"rename": rename, "helper": len, "again": rename})
    assert list(load_upgraders(module)) == [("Customer", 2)]
    with pytest.raises(ConfigError, match="module bare has no upgraders"):
        load_upgraders(ModuleType("bare"))
    with pytest.raises(ConfigError, match=r"Cannot import upgraders from 'no\.such\.module'"):
        load_upgraders("no.such.module")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "shop_migrations").mkdir()
    (tmp_path / "shop_migrations" / "__init__.py").write_text("")
    (tmp_path / "shop_migrations" / "first.py").write_text(
        "from ontologia.model.upgrade import upgrader\n\n\n"
        "@upgrader('Order', from_version=1)\ndef one(row):\n    return row\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield "shop_migrations"
    for name in [name for name in sys.modules if name.startswith("shop_migrations")]:
        del sys.modules[name]


def test_a_package_is_found_by_name(package: str):
    assert list(load_upgraders(package)) == [("Order", 1)]


@pytest.mark.parametrize(("name", "version"), [("", 1), (3, 1), ("Customer", 0), ("Customer", "1")])
def test_a_wrong_mark_is_a_type_error(name: Any, version: Any):
    with pytest.raises(TypeError):
        upgrader(name, from_version=version)


def test_rows_do_not_share_a_default_that_an_upgrader_changes():
    at = FieldSpec("at", {"object": {"x": "int"}}, Kind.JSON, has_default=True, default={"x": 0})
    versions = [
        TypeSpec("entity", "Spot", (KEY,)),
        TypeSpec("entity", "Spot", (KEY, at)),
        TypeSpec("entity", "Spot", (KEY, at, NAME)),
    ]

    @upgrader("Spot", from_version=2)
    def move(row: dict[str, Any]) -> dict[str, Any]:
        row["at"]["x"] += 1
        return row | {"name": "n"}

    upgraders = Upgraders.of([move])
    rows = [upgrade_row(versions, upgraders, 1, {"id": key}) for key in ("a", "b", "c")]
    assert [row["at"] for row in rows] == [{"x": 1}] * 3
    assert at.default == {"x": 0}
