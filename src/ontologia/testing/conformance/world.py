"""The little world that the conformance suite plays in: a shop, some careers, and one account that changes its shape.

Types only, with the few verbs that every subject of the suite needs. What a backend must do with them is said in
the modules beside this one.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import pytest

from ontologia import Entity, Field, Ontology, Relation, upgrader
from ontologia.base.clock import ManualClock

OpenStore = Callable[..., Ontology]
"""Opens the store of one test; every call of it in that test opens the same store, with the keywords of `Ontology`."""

START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


class ConformanceSuite:
    """What every subject shares: a backend's tests override `open_store`."""

    @pytest.fixture
    def open_store(self) -> OpenStore:
        """Override me: a function that opens the store of this test, again and again."""
        pytest.fail("A conformance suite needs an open_store fixture that opens its backend.")


class Customer(Entity):
    """Someone who buys."""

    id: Field[str] = Field(primary_key=True)
    name: Field[str]
    tier: Field[str] = Field(default="Standard", index=True)
    visits: Field[int | None] = Field(default=None)
    email: Field[str | None] = Field(default=None)
    active: Field[bool] = Field(default=True)
    profile: Field[dict[str, Any]] = Field(default_factory=dict[str, Any])


class Product(Entity):
    """Something that is sold."""

    sku: Field[str] = Field(primary_key=True)
    title: Field[str]
    price: Field[Decimal] = Field(default=Decimal("1.00"))


class Subscription(Relation[Customer, Product]):
    """A customer's seats on a product: one edge between a pair."""

    seats: Field[int]
    note: Field[str | None] = Field(default=None)


class PartOf(Relation[Product, Product]):
    """The left product is a part of the right one."""

    amount: Field[int] = Field(default=1)


class Person(Entity):
    """Someone with a career."""

    id: Field[str] = Field(primary_key=True)
    name: Field[str] = Field(default="")


class Company(Entity):
    """Somewhere to have a career; its key is a number."""

    number: Field[int] = Field(primary_key=True)
    city: Field[str] = Field(default="")


class Employment(Relation[Person, Company]):
    """A stint: several edges between one pair."""

    stint: Field[str] = Field(instance_key=True)
    pay: Field[int] = Field(default=0)


class Sale(Entity):
    """Something to add up."""

    id: Field[str] = Field(primary_key=True)
    country: Field[str | None] = Field(default=None)
    year: Field[int] = Field(default=2026)
    amount: Field[int | None] = Field(default=None)
    price: Field[Decimal | None] = Field(default=None)
    weight: Field[float | None] = Field(default=None)
    tags: Field[list[str]] = Field(default_factory=list[str])


class Colour(enum.Enum):
    """An enum of text."""

    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Place:
    """A nested value, closed: only these keys exist."""

    city: str
    since: date | None = None


class Sample(Entity):
    """One field of every kind, all of them optional."""

    id: Field[str] = Field(primary_key=True)
    text: Field[str | None] = Field(default=None)
    whole: Field[int | None] = Field(default=None)
    real: Field[float | None] = Field(default=None)
    flag: Field[bool | None] = Field(default=None)
    exact: Field[Decimal | None] = Field(default=None)
    moment: Field[datetime | None] = Field(default=None)
    day: Field[date | None] = Field(default=None)
    clock: Field[time | None] = Field(default=None)
    blob: Field[bytes | None] = Field(default=None)
    token: Field[UUID | None] = Field(default=None)
    colour: Field[Colour | None] = Field(default=None)
    mode: Field[Literal["on", "off"] | None] = Field(default=None)
    words: Field[list[str] | None] = Field(default=None)
    anything: Field[dict[str, Any] | None] = Field(default=None)
    place: Field[Place | None] = Field(default=None)
    mixed: Field[int | str | None] = Field(default=None)


class Account(Entity):
    """Version 1."""

    id: Field[str] = Field(primary_key=True)
    owner: Field[str]
    balance: Field[int]


class AccountWithCurrency(Entity, name="Account"):
    """Version 2 adds a field with a default."""

    id: Field[str] = Field(primary_key=True)
    owner: Field[str]
    balance: Field[int]
    currency: Field[str] = Field(default="EUR")


class AccountInCents(Entity, name="Account"):
    """Version 3 replaces a field, which only an upgrader can do."""

    id: Field[str] = Field(primary_key=True)
    owner: Field[str]
    cents: Field[int]
    currency: Field[str] = Field(default="EUR")


class AccountWithOwners(Entity, name="Account"):
    """Version 4 changes the type of a field."""

    id: Field[str] = Field(primary_key=True)
    owner: Field[list[str]]
    cents: Field[int]
    currency: Field[str] = Field(default="EUR")


@upgrader("Account", from_version=2)
def balance_in_cents(values: dict[str, Any]) -> dict[str, Any]:
    """Version 2 to version 3."""
    return {name: value for name, value in values.items() if name != "balance"} | {"cents": values["balance"] * 100}


@upgrader("Account", from_version=3)
def owner_as_list(values: dict[str, Any]) -> dict[str, Any]:
    """Version 3 to version 4."""
    return {**values, "owner": [values["owner"]]}


ENTITIES: list[type[Entity]] = [Customer, Product, Person, Company, Sale, Sample]
RELATIONS: list[type[Relation[Any, Any]]] = [Subscription, PartOf, Employment]


def open_shop(open_store: OpenStore, **options: Any) -> Ontology:
    """The store with every type that does not change its shape."""
    return open_store(entity_types=ENTITIES, relation_types=RELATIONS, **options)


def put(onto: Ontology, *things: Entity | Relation[Any, Any]) -> int | None:
    """One commit of these objects: its id, or None when they were there already."""
    session = onto.session()
    session.ensure(things)
    return session.commit()


def keys(things: Iterable[Any]) -> list[str]:
    """The keys of entities, in the order given."""
    return [thing.meta().key for thing in things]


def edges(things: Iterable[Any]) -> list[tuple[str, str, str]]:
    """The identities of relations, in the order given."""
    return [(thing.meta().left_key, thing.meta().right_key, thing.meta().instance_key) for thing in things]


def a_clock() -> ManualClock:
    """A clock at noon of the first day."""
    return ManualClock(START)
