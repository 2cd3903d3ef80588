"""Declaring types: what a class body means, and which mistakes are refused when the class is made."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, ClassVar
from uuid import UUID

import pytest
from pydantic import AfterValidator
from pydantic import Field as Constraint

from ontologia.model.declare import Entity, Relation
from ontologia.model.fields import Field
from ontologia.model.spec import FieldSpec, Kind
from ontologia.query.expr import FieldExpr


class Customer(Entity):
    """Somebody

    who buys.
    """

    kinds: ClassVar[int] = 3
    id: Field[str] = Field(primary_key=True)
    name: Field[str]
    tier: Field[str] = Field(default="Standard", index=True)
    profile: Field[dict[str, Any]] = Field(default_factory=dict)
    email: Field[str | None] = None  # pyright: ignore[reportAssignmentType] - a bare default, which only works at run time


class Product(Entity):
    sku: Field[int] = Field(primary_key=True)


def test_a_spec_says_what_the_class_body_says():
    spec = Customer.__spec__
    assert (spec.kind, spec.name, spec.doc) == ("entity", "Customer", "Somebody who buys.")
    assert spec.fields == (
        FieldSpec("id", "str", Kind.TEXT, primary_key=True),
        FieldSpec("name", "str", Kind.TEXT),
        FieldSpec("tier", "str", Kind.TEXT, index=True, has_default=True, default="Standard"),
        FieldSpec("profile", {"dict": "any"}, Kind.JSON, has_default=True, factory=True),
        FieldSpec("email", "str", Kind.TEXT, nullable=True, has_default=True, default=None),
    )


def test_a_default_of_none_is_a_default_and_no_default_is_not():
    class Thing(Entity):
        id: Field[str] = Field(primary_key=True)
        given: Field[str | None] = Field(default=None)
        asked: Field[str | None]

    assert Thing.__spec__.by_name["given"].has_default
    assert not Thing.__spec__.by_name["asked"].has_default
    with pytest.raises(ValueError, match="asked\n  Field required"):
        Thing(id="t")  # pyright: ignore[reportCallIssue]


def test_the_type_name_can_be_chosen():
    class Renamed(Entity, name="client"):
        id: Field[str] = Field(primary_key=True)

    assert Renamed.__spec__.name == "client"


def test_class_access_is_an_expression_of_that_class():
    class Vip(Customer):
        since: Field[date]

    assert isinstance(Customer.tier, FieldExpr)
    assert Customer.tier is Customer.tier
    assert Vip.tier is not Customer.tier
    assert (repr(Customer.tier == "Gold"), repr(Vip.tier == "Gold")) == (
        "Customer.tier == 'Gold'",
        "Vip.tier == 'Gold'",
    )


def test_fields_come_from_mixins_and_base_entities_in_order():
    class Stamped:
        created: Field[date]
        unrelated: int = 3

    class Named(Entity, abstract=True):
        name: Field[str]

    class Animal(Stamped, Named):
        id: Field[UUID] = Field(primary_key=True)

    class Dog(Animal):
        name: Field[str] = Field(default="Rex")
        bark: Field[str]

    assert [f.name for f in Animal.__spec__.fields] == ["name", "created", "id"]
    assert [f.name for f in Dog.__spec__.fields] == ["name", "created", "id", "bark"]
    assert Dog.__spec__.by_name["name"].default == "Rex"
    assert not Animal.__spec__.by_name["name"].has_default


def test_an_abstract_entity_has_no_objects():
    class Base(Entity, abstract=True):
        name: Field[str]

    with pytest.raises(TypeError, match="Base is abstract"):
        Base(name="x")


def test_text_annotations_find_types_of_the_enclosing_function():
    class Color(Enum):
        RED = "red"

    @dataclass
    class Size:
        width: int

    def declared() -> Any:
        class Shirt(Entity):
            id: Field[str] = Field(primary_key=True)
            color: Field[Color]
            sizes: Field[list[Size]]
            date: Field[date]

        return Shirt

    shirt = declared()(id="s", color="red", sizes=[{"width": 3}], date="2024-01-02")
    assert (shirt.color, shirt.sizes, shirt.date) == (Color.RED, [Size(3)], date(2024, 1, 2))


def test_a_relation_knows_its_ends_and_inherits_them():
    class Owns(Relation[Customer, Product]):
        since: Field[date | None] = Field(default=None)

    class Leases(Owns):
        until: Field[date]

    for cls in (Owns, Leases):
        assert (cls.__spec__.left, cls.__spec__.right) == ("Customer", "Product")
        assert cls.__ends__ == (Customer, Product)
    assert [f.name for f in Leases.__spec__.fields] == ["since", "until"]
    assert repr(Owns.left_key == "c1") == "Owns.left_key == 'c1'"
    assert repr(Owns.right_key == 7) == "Owns.right_key == '7'"


def test_ends_may_be_named_before_the_class_body_sees_them():
    class Likes(Relation["Customer", "Customer"]):
        pass

    class Timed(Relation[Any, Any], abstract=True):
        since: Field[date]

    class Employs(Timed, Relation[Customer, Product]):
        pass

    assert Likes.__ends__ == (Customer, Customer)
    assert Employs.__ends__ == (Customer, Product)
    assert [f.name for f in Employs.__spec__.fields] == ["since"]


def test_order_docs_defaults_and_indexes_are_no_part_of_the_fingerprint():
    class One(Entity, name="Same"):
        """One."""

        id: Field[str] = Field(primary_key=True)
        a: Field[int] = Field(default=1, index=True)
        b: Field[str | None]

    class Two(Entity, name="Same"):
        b: Field[Annotated[str, Constraint(max_length=5)] | None]
        a: Field[int]
        id: Field[str] = Field(primary_key=True)

    class Three(Entity, name="Same"):
        id: Field[str] = Field(primary_key=True)
        a: Field[int]
        b: Field[str]

    assert One.__spec__.fingerprint == Two.__spec__.fingerprint != Three.__spec__.fingerprint


class Weird:
    """Nothing that can be stored."""


def _body(**annotations: Any) -> dict[str, Any]:
    values = {name: given[1] for name, given in annotations.items() if isinstance(given, tuple)}
    types = {name: given[0] if isinstance(given, tuple) else given for name, given in annotations.items()}
    return {"__annotations__": types, **values}


KEY = (Field[str], Field(primary_key=True))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (_body(name=Field[str]), "no primary key"),
        (_body(id=KEY, other=(Field[str], Field(primary_key=True))), "only one primary key .* id and other"),
        (_body(id=(Field[str | None], Field(primary_key=True))), "Bad.id: a key cannot be None"),
        (_body(id=(Field[float], Field(primary_key=True))), "Bad.id: a primary key is a str, an int or a UUID"),
        (_body(id=(Field[str], Field(primary_key=True, default="x"))), "Bad.id: a primary key has no fixed default"),
        (_body(id=KEY, stint=(Field[str], Field(instance_key=True))), "Bad.stint: only relations"),
        (_body(id=KEY, x=int), r"Bad.x: write Field\[int\]"),
        (_body(id=KEY, x=Field), r"Bad.x: say what the field holds"),
        (_body(id=KEY, x="Field[Nowhere]"), "Bad.x: cannot resolve .*Nowhere"),
        (_body(id=KEY, x=Field[Weird]), "Bad.x: Weird cannot be stored"),
        (_body(id=KEY, x=Field[list[Weird]]), "Bad.x: Weird cannot be stored"),
        (_body(id=KEY, x=Field[tuple[int, int]]), r"Bad.x: tuple\[int, int\] cannot be stored; use list"),
        (_body(id=KEY, x=Field[set[int]]), r"use list"),
        (_body(id=KEY, x=Field[dict[int, str]]), r"keys of a dict must be str"),
        (_body(id=KEY, x=(Field[list[int]], [])), r"default_factory=list"),
        (_body(id=KEY, x=(Field[int], Field(default="many"))), r"Bad.x: the default 'many' is not valid: .*integer"),
        (_body(id=KEY, x=(Field[float], float("nan"))), r"Bad.x: the default nan is not valid"),
        (
            _body(id=KEY, x=(Field[Annotated[int, AfterValidator(float)]], 1)),
            r"Bad.x: the default 1 is not valid: .*a float cannot be stored as int",
        ),
        (
            _body(id=KEY, x=(Field[Annotated[UUID, AfterValidator(str)]], UUID(int=1))),
            r"Bad.x: the default UUID\(.*\) cannot be stored: expected UUID, got str",
        ),
        (_body(id=KEY, meta=Field[str]), "Bad.meta: this name is reserved"),
        (_body(id=KEY, left=Field[str]), "Bad.left: this name is reserved"),
        (_body(id=KEY, model_dump=Field[str]), "reserved"),
        (_body(id=KEY, _hidden=Field[str]), "Bad._hidden: this name is reserved"),
        ({**_body(id=KEY), "x": Field(default=1)}, "Bad.x: a field needs an annotation"),
    ],
)
def test_a_mistake_in_an_entity_is_a_type_error_that_names_it(body: dict[str, Any], message: str):
    with pytest.raises(TypeError, match=message):
        type("Bad", (Entity,), {"__module__": __name__, **body})


def test_options_that_exclude_each_other_are_refused():
    with pytest.raises(TypeError, match="either default or default_factory"):
        Field[list[int]](default=[], default_factory=list)
    with pytest.raises(TypeError, match="must be callable"):
        Field[list[int]](default_factory=3)  # pyright: ignore[reportArgumentType]


def test_an_inherited_field_is_changed_with_its_annotation_only():
    with pytest.raises(TypeError, match=r"Vip\.tier: repeat the annotation"):
        type("Vip", (Customer,), {"tier": "Gold", "__module__": __name__})


@pytest.mark.parametrize(
    ("bases", "body", "message"),
    [
        ((Relation,), {}, "say what it connects"),
        ((Relation[Customer, int],), {}, "ends of a relation are Entity classes"),  # pyright: ignore[reportInvalidTypeArguments]
        ((Relation[Customer, Entity],), {}, "Entity is abstract"),
        ((Relation["Customer", "Elsewhere"],), {}, "cannot resolve its end"),  # pyright: ignore[reportUndefinedVariable]
        ((Relation[Customer, Product],), _body(id=KEY), "a relation has no primary key"),
        (
            (Relation[Customer, Product],),
            _body(a=(Field[str], Field(instance_key=True)), b=(Field[str], Field(instance_key=True))),
            "only one instance key",
        ),
        ((Relation[Customer, Product],), _body(a=(Field[int], Field(instance_key=True))), "instance key is a str"),
        (
            (Relation[Customer, Product],),
            _body(a=(Field[str], Field(instance_key=True, default="x"))),
            "instance key is a str without a default",
        ),
    ],
)
def test_a_mistake_in_a_relation_is_a_type_error_that_names_it(bases: Any, body: dict[str, Any], message: str):
    from types import new_class

    with pytest.raises(TypeError, match=message):
        new_class("Bad", bases, {}, lambda namespace: namespace.update({"__module__": __name__, **body}))


def test_a_type_name_must_be_text():
    for name in ("", "  ", 3, "a\nb"):
        with pytest.raises(TypeError, match="name= takes the text"):
            type("Bad", (Entity,), _body(id=KEY), name=name)
