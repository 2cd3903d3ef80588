"""Declared types that the tests of expressions share."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from ontologia.model.declare import Entity, Relation
from ontologia.model.fields import Field


class Tier(Enum):
    GOLD = "gold"
    BASIC = "basic"


class Color(Enum):
    RED = "red"


@dataclass
class Address:
    city: str
    since: datetime
    tier: Tier


@dataclass
class Shop:
    name: str
    address: Address


class Customer(Entity):
    id: Field[str] = Field(primary_key=True)
    name: Field[str]
    age: Field[int]
    score: Field[float]
    price: Field[Decimal]
    active: Field[bool]
    joined: Field[datetime]
    born: Field[date]
    alarm: Field[time]
    token: Field[UUID]
    tier: Field[Tier]
    picture: Field[bytes]
    tags: Field[list[str]]
    profile: Field[dict[str, Any]]
    address: Field[Address]
    place: Field[Address | Shop]
    email: Field[str | None] = Field(default=None)


class Product(Entity):
    sku: Field[str] = Field(primary_key=True)
    price: Field[float]


class Subscription(Relation[Customer, Product]):
    seats: Field[int]
