"""The shop that these tests write and ask: its types, a history, and all that can be asked about it.

Processes of their own (`children`) and the tests themselves share it, so nothing here needs pytest.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from store_objects.counted import Customer, Product, Subscription, open_on, write

from ontologia import Entity, Field, OntologiaConfig, Ontology, Relation, left, upgrader
from ontologia.base.clock import ManualClock, SystemClock
from ontologia.objects.port import Objects
from ontologia.objects.s3 import open_objects


class Stint(Relation[Customer, Product]):
    """Several between one pair."""

    term: Field[str] = Field(instance_key=True)
    pay: Field[int] = Field(default=0)


class Novelty(Entity):
    """A type that the store does not know yet."""

    id: Field[str] = Field(primary_key=True)
    number: Field[int]


class Gadget(Entity):
    """Another one."""

    id: Field[str] = Field(primary_key=True)
    size: Field[int]


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


SHOP: dict[str, Any] = {"entity_types": [Customer, Product], "relation_types": [Subscription, Stint]}
START = datetime(2026, 3, 1, tzinfo=UTC)


def batch(onto: Ontology, number: int, rows: int = 4) -> int | None:
    """One commit over three types in which every row carries the same number."""
    keys = [f"k{at}" for at in range(rows)]
    return write(
        onto,
        *(Customer(id=key, name=key, tier=f"tier-{number}") for key in keys),
        *(Product(sku=key, price=float(number)) for key in keys),
        *(Subscription(left_key=key, right_key=key, seats=number) for key in keys),
    )


def numbers(onto: Ontology, at: int | None = None) -> set[int]:
    """The numbers of the batches that can be seen; more than one means that a commit was seen in part."""
    query = onto.query()
    customers, products, edges = query.entities(Customer), query.entities(Product), query.relations(Subscription)
    if at is not None:
        customers, products, edges = customers.as_of(at), products.as_of(at), edges.as_of(at)
    found = {int(one.tier.removeprefix("tier-")) for one in customers}
    return found | {int(one.price) for one in products} | {row["seats"] for row in edges.rows()}


def later(uri: str, config: OntologiaConfig, **options: Any) -> Ontology:
    """The store when every lease of now has run out: opened by a process whose clock is an hour on."""
    return open_on(open_objects(uri, config), config, an_hour_on(), **options)


def an_hour_on() -> ManualClock:
    return ManualClock(SystemClock().now() + timedelta(hours=1))


def opened(uri: str, config: OntologiaConfig, objects: Objects | None = None, **options: Any) -> Ontology:
    """The shop in a bucket, through the given objects if any."""
    if objects is not None:
        return open_on(objects, config, options.pop("clock", None), **{**SHOP, **options})
    return Ontology(storage_uri=uri, config=config, **{**SHOP, **options})


def a_history(onto: Ontology) -> None:
    """Six commits: entities, keyed and unkeyed relations, updates, metadata, and one that changes nothing."""
    write(onto, Customer(id="c1", name="Anna"), Customer(id="c2", name="Bert", tier="Gold"))
    with onto.session() as session:
        session.ensure([Product(sku="p1", price=1.5), Product(sku="p2", price=2.5)])
        session.commit(meta={"source": "import", "ünï": "✓"})
    write(onto, Subscription(left_key="c1", right_key="p1", seats=1))
    write(
        onto,
        Stint(left_key="c1", right_key="p1", term="2025", pay=1),
        Stint(left_key="c1", right_key="p1", term="2026", pay=2),
        Stint(left_key="c2", right_key="p1", term="2025", pay=3),
    )
    write(onto, Customer(id="c1", name="Anna", tier="Gold"), Subscription(left_key="c1", right_key="p1", seats=9))
    write(onto, Customer(id="c1", name="Anna", tier="Gold"))
    write(
        onto,
        Customer(id="c0", name="Carl"),
        Stint(left_key="c1", right_key="p1", term="2026", pay=20),
        Subscription(left_key="c2", right_key="p2", seats=4),
    )


def everything(onto: Ontology) -> dict[str, Any]:
    """All that a program can learn about the shop."""
    query = onto.query()
    answers: dict[str, Any] = {}
    asked: list[Any] = [query.entities(Customer), query.entities(Product)]
    asked += [query.relations(Subscription), query.relations(Stint)]
    for one in asked:
        windows = {"latest": one, "history": one.with_history(), "since 3": one.history_since(3)}
        for window, rows in (windows | {f"as of {n}": one.as_of(n) for n in (0, 2, 4, 5, 9)}).items():
            answers[f"{one.cls.__name__} {window}"] = [(repr(thing), thing.meta()) for thing in rows]
        answers[f"{one.cls.__name__} counts"] = [one.count(), one.as_of(3).count(), one.with_history().count()]
    gold = query.relations(Subscription).where(left(Subscription).tier == "Gold")
    answers["gold ends"] = [row.meta().right_key for row in gold]
    commits = onto.list_commits()
    answers["commits"] = [(one.commit_id, one.parent_commit_id, one.created_at, one.runtime_id) for one in commits]
    answers["metadata"] = [(one.metadata, one.counts) for one in commits]
    answers["changes"] = [onto.changes(one.commit_id) for one in commits]
    answers["diff"] = [(item.key, repr(item.before), repr(item.after)) for item in onto.diff(1, onto.head())]
    answers["blame"] = onto.blame(Customer, "c1")
    return answers


def customers(onto: Ontology) -> list[Any]:
    """All that can be asked about customers, window by window; the last few windows are empty."""
    query = onto.query().entities(Customer)
    windows = [query, query.with_history(), *map(query.as_of, (0, 1, 2, 3, 9)), *map(query.history_since, (0, 1, 2, 9))]
    return [[(repr(one), one.meta()) for one in window] for window in windows]


def three_commits(onto: Ontology) -> None:
    write(onto, Customer(id="a", name="1"), Product(sku="p", price=1.0))
    write(onto, Customer(id="a", name="2"), Customer(id="b", name="2"))
    write(onto, Customer(id="a", name="3"))
