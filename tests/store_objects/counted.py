"""Stores on the real server whose requests are counted or broken.

Requests are deterministic, so what the design promises about them is asserted, not measured.
"""

from __future__ import annotations

from typing import Any

from ontologia import Entity, Field, Ontology, Relation
from ontologia.base.clock import Clock, SystemClock
from ontologia.config import OntologiaConfig
from ontologia.objects.counting import CountingObjects
from ontologia.objects.port import Objects
from ontologia.objects.s3 import open_objects
from ontologia.store.objects.backend import ObjectsBackend
from ontologia.store.objects.initialise import initialise


class Customer(Entity):
    id: Field[str] = Field(primary_key=True)
    name: Field[str]
    tier: Field[str] = Field(default="Standard")


class Product(Entity):
    sku: Field[str] = Field(primary_key=True)
    price: Field[float]


class Subscription(Relation[Customer, Product]):
    seats: Field[int]


def open_on(objects: Objects, config: OntologiaConfig, clock: Clock | None = None, **options: Any) -> Ontology:
    """The test's types in a store on any implementation of the port."""
    backend = ObjectsBackend(objects, config, clock or SystemClock())
    options.setdefault("entity_types", [Customer, Product])
    options.setdefault("relation_types", [Subscription])
    return Ontology(backend=backend, config=config, **options)


def open_counted(uri: str, config: OntologiaConfig, **options: Any) -> tuple[Ontology, CountingObjects]:
    """A store and the counter of its requests; opening it is not counted."""
    counter = CountingObjects(open_objects(uri, config))
    onto = open_on(counter, config, **options)
    counter.reset()
    return onto, counter


def new_store(uri: str, config: OntologiaConfig) -> None:
    """Initialise a prefix."""
    initialise(uri, config)


def write(onto: Ontology, *things: Any) -> int | None:
    """One commit."""
    with onto.session() as session:
        session.ensure(things)
        return session.commit()
