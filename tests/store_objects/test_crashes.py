"""Processes killed at every request that they make, and what another process finds afterwards.

Before the swap of the head a commit leaves no trace that anybody can see; after it, the commit is there whole. Either
way the next writer takes the lock over, its commit succeeds, the indices mend, and nothing is found to be wrong.
"""

from __future__ import annotations

from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

import pytest
from store_objects.broken import WRITE
from store_objects.buckets import CUSTOMERS, HEAD, LOCK, PRODUCTS, SUBSCRIPTIONS, TYPES, Bucket, cast
from store_objects.counted import Customer, Product, Subscription, new_store, open_counted, write
from store_objects.nursery import Nursery
from store_objects.shops import (
    Account,
    AccountInCents,
    AccountWithCurrency,
    AccountWithOwners,
    Novelty,
    balance_in_cents,
    batch,
    later,
    numbers,
    owner_as_list,
)

from ontologia import Ontology, SchemaOutdatedError
from ontologia.store.objects.initialise import initialise

Point = tuple[str, str, str]
"""Moment, method and key of the request at which a process dies."""

SURELY = timedelta(days=-1)
"""A grace that every object is past, whatever the clocks say."""

BEFORE_THE_SWAP: list[tuple[str, str]] = [
    ("create", LOCK),
    ("get*", HEAD),
    ("put", "commits/2-*/entities/Customer.parquet"),
    ("put", "commits/2-*/entities/Product.parquet"),
    ("put", "commits/2-*/relations/Subscription.parquet"),
    ("put", "commits/2-*/manifest.json"),
]
AFTER_THE_SWAP: list[tuple[str, str]] = [
    (WRITE, CUSTOMERS),
    (WRITE, PRODUCTS),
    (WRITE, SUBSCRIPTIONS),
    ("delete", LOCK),
]
COMMIT_POINTS: list[tuple[Point, int]] = [
    *((("before", *point), 1) for point in BEFORE_THE_SWAP),
    *((("after", *point), 1) for point in BEFORE_THE_SWAP),
    (("before", "replace", HEAD), 1),
    (("after", "replace", HEAD), 2),
    *((("before", *point), 2) for point in AFTER_THE_SWAP),
    *((("after", *point), 2) for point in AFTER_THE_SWAP),
]
"""Where a commit can be cut off, and the head that is there afterwards."""


def named(point: object) -> str | None:
    return "-".join(map(str, point)).replace("*", "x") if isinstance(point, tuple) else None  # pyright: ignore[reportUnknownArgumentType]


@pytest.fixture
def shop(bucket: Bucket) -> Bucket:
    """A store with one batch."""
    return cast(bucket, "shop", lambda made: filled(made, 1))


def filled(bucket: Bucket, batches: int) -> None:
    """Make a store with some batches."""
    new_store(bucket.uri, bucket.config)
    with Ontology(storage_uri=bucket.uri, config=bucket.config) as onto:
        for number in range(1, batches + 1):
            assert batch(onto, number) == number


def sound(onto: Ontology) -> None:
    """Nothing is wrong, with the log or with the indices."""
    assert [finding for finding in onto.verify() if finding.severity == "error"] == []
    assert onto.verify_index() == []


def assert_recovers(bucket: Bucket, head: int) -> None:
    """Another process finds one whole state, commits after it, and leaves everything in order."""
    assert bucket.head() == head
    with later(bucket.uri, bucket.config) as onto:
        assert numbers(onto) == {head}
        assert batch(onto, 7) == head + 1
        assert numbers(onto) == {7}
        history = onto.query().entities(Customer).with_history()
        assert [one.meta().commit_id for one in history] == [at for at in range(1, head + 2) for _ in range(4)]
        sound(onto)
    assert LOCK not in bucket.tags(under=LOCK)


@pytest.mark.parametrize(("point", "head"), COMMIT_POINTS, ids=named)
def test_a_commit_killed_at_any_request_is_there_whole_or_not_at_all(
    nursery: Nursery, shop: Bucket, point: Point, head: int
) -> None:
    assert nursery.killed("die", shop, "commit", *point) == []
    assert_recovers(shop, head)


def test_no_request_of_a_commit_is_missing_from_those_tests(shop: Bucket) -> None:
    onto, counter = open_counted(shop.uri, shop.config)
    batch(onto, 1)
    counter.reset()
    batch(onto, 2)
    known = [*BEFORE_THE_SWAP, ("replace", HEAD), *AFTER_THE_SWAP]
    harmless = {("get", TYPES), ("get_if_changed", TYPES)}
    unknown = {
        (method, key)
        for method, key in counter.requests
        if (method, key) not in harmless
        and not any(fnmatchcase(method, wanted) and fnmatchcase(key, pattern) for wanted, pattern in known)
    }
    assert unknown == set()
    assert len(counter.requests) >= len(known)
    onto.close()


@pytest.mark.parametrize(
    ("moment", "key"),
    [
        ("before", TYPES),
        ("after", TYPES),
        ("before", "meta/schema/registry.json"),
        ("after", "meta/schema/registry.json"),
        ("after", "meta/schema/versions/entity/Novelty.json"),
        ("after", "meta/schema/catalogs/*"),
        ("after", HEAD),
        ("before", "meta/indices/entities/Novelty.json"),
        ("after", "meta/indices/entities/Novelty.json"),
    ],
)
def test_a_type_whose_first_commit_is_killed_is_known_with_its_rows_or_not_at_all(
    nursery: Nursery, shop: Bucket, moment: str, key: str
) -> None:
    nursery.killed("die", shop, "register", moment, WRITE, key)
    made = key.startswith("meta/indices") or (key == HEAD and moment == "after")
    assert shop.head() == (2 if made else 1)
    with later(shop.uri, shop.config, entity_types=[Customer, Product, Novelty]) as onto:
        assert ("Novelty" in {stored.name for stored in onto.stored_types()}) is made
        assert numbers(onto) == {1}
        assert [one.number for one in onto.query().entities(Novelty)] == ([2] if made else [])
        assert batch(onto, 7) == shop.head()
        assert onto.verify_index() == []
        assert write(onto, Novelty(id="n", number=3), Novelty(id="m", number=3)) == shop.head()
        assert {one.number for one in onto.query().entities(Novelty)} == {3}
        assert shop.read(TYPES)["entities"] == ["Customer", "Novelty", "Product"]
        sound(onto)


def test_what_dead_attempts_leave_behind_is_cleaned_up_and_nothing_else(nursery: Nursery, shop: Bucket) -> None:
    for _ in range(3):
        nursery.killed("die", shop, "commit", "before", "replace", HEAD)
        with later(shop.uri, shop.config) as onto:
            onto.gc(grace=timedelta(days=7), apply=True)
        shop.delete(LOCK)
    assert shop.onto("verify").code == 0
    orphans = set(shop.tags(under="commits/2-"))
    assert len(orphans) == 3 * 4
    with later(shop.uri, shop.config) as onto:
        assert batch(onto, 2) == 2
        done = onto.gc(grace=SURELY, apply=True)
        assert orphans <= {removal.key for removal in done.removals}
        assert not orphans & shop.tags().keys()
        assert [numbers(onto, at) for at in (1, 2)] == [{1}, {2}]
        sound(onto)


# Upkeep


@pytest.fixture
def used(bucket: Bucket) -> Bucket:
    """A store with six batches and something to clean up."""
    cast(bucket, "used", lambda made: filled(made, 6))
    bucket.write("commits/9-deadbeef/entities/Customer.parquet", b"never finished")
    return bucket


def all_answers(onto: Ontology) -> list[Any]:
    things, edges = onto.query().entities(Customer), onto.query().relations(Subscription)
    found: list[Any] = [[(repr(one), one.meta().commit_id) for one in things.with_history()]]
    found += [list(edges.history_since(2).rows()), list(edges.as_of(3).rows())]
    return [*found, numbers(onto), [onto.changes(number) for number in (1, 4, 6)]]


@pytest.mark.parametrize(
    ("work", "point"),
    [
        ("compact", ("after", "put", "snapshots/*")),
        ("compact", ("after", WRITE, "meta/indices/*")),
        ("compact", ("before", "delete", LOCK)),
        ("repair", ("after", WRITE, "meta/indices/*")),
        ("clean", ("before", "delete*", "commits/*")),
        ("clean", ("after", "delete*", "commits/*")),
        ("clean", ("after", WRITE, "meta/retired/*")),
    ],
    ids=named,
)
def test_upkeep_killed_halfway_changes_no_answer_and_can_be_done_again(
    nursery: Nursery, used: Bucket, work: str, point: Point
) -> None:
    with Ontology(storage_uri=used.uri, config=used.config) as onto:
        right = all_answers(onto)
        if work == "clean":
            onto.compact(apply=True)
    if work == "repair":
        for key in (CUSTOMERS, PRODUCTS):
            used.write(key, {**used.read(key), "max_indexed_commit": 2, "entries": used.read(key)["entries"][:2]})
    nursery.killed("die", used, work, *point)
    assert used.head() == 6
    with later(used.uri, used.elsewhere(used.config.cache_path / "cold").config) as onto:
        assert all_answers(onto) == right
        onto.repair_index(apply=True)
        onto.compact(apply=True)
        onto.gc(grace=SURELY, apply=True)
        assert all_answers(onto) == right
        assert batch(onto, 7) == 7
        assert numbers(onto) == {7}
        sound(onto)
        assert onto.gc(grace=SURELY).removals == ()


@pytest.mark.parametrize(
    ("point", "emptied"),
    [
        (("before", WRITE, TYPES), False),
        (("after", WRITE, TYPES), None),
        (("before", WRITE, HEAD), False),
        (("after", WRITE, HEAD), True),
    ],
    ids=named,
)
def test_beginning_again_killed_halfway_leaves_the_old_store_or_an_empty_one(
    nursery: Nursery, used: Bucket, point: Point, *, emptied: bool | None
) -> None:
    token = initialise(used.uri, used.config, force=True, dry_run=True).token
    nursery.killed("die-emptying", used, token, *point)
    head = used.head()
    assert head in (0, 6)
    assert emptied is None or (head == 0) is emptied
    with later(used.uri, used.config) as onto:
        assert numbers(onto) == (set() if head == 0 else {6})
        assert batch(onto, 7) == head + 1
        assert numbers(onto) == {7}
        expected = [7] * 4 if head == 0 else [at for at in range(1, 8) for _ in range(4)]
        assert [one.seats for one in onto.query().relations(Subscription).with_history()] == expected
        sound(onto)


@pytest.mark.parametrize(
    ("point", "dropped"),
    [
        (("before", WRITE, "meta/schema/catalogs/*"), False),
        (("before", "replace", HEAD), False),
        (("after", "replace", HEAD), True),
        (("after", "delete", SUBSCRIPTIONS), True),
        (("before", "delete*", "commits/*"), True),
        (("after", "delete*", "commits/*"), True),
        (("before", "delete", LOCK), True),
    ],
    ids=named,
)
def test_a_purge_killed_halfway_drops_the_type_or_leaves_all_of_it(
    nursery: Nursery, used: Bucket, point: Point, *, dropped: bool
) -> None:
    nursery.killed("die", used, "drop", *point)
    with later(used.uri, used.config) as onto:
        assert ("Subscription" not in {stored.name for stored in onto.stored_types()}) is dropped
        assert {one.tier for one in onto.query().entities(Customer)} == {"tier-6"}
        assert onto.query().relations(Subscription).count() == (0 if dropped else 4)
        if not dropped:
            token = onto.drop_type("relation", "Subscription", purge=True).token
            onto.drop_type("relation", "Subscription", purge=True, apply=True, token=token)
        onto.gc(grace=SURELY, apply=True)
        assert [key for key in used.tags() if key.endswith("Subscription.parquet")] == [], "purged rows are gone"
        assert write(onto, Subscription(left_key="k0", right_key="k0", seats=99)) == 7
        assert [one.seats for one in onto.query().relations(Subscription).with_history()] == [99]
        sound(onto)


# Migrations


@pytest.fixture
def accounts(bucket: Bucket) -> Bucket:
    """Accounts in their second version, with history in the first and the second."""
    return cast(bucket, "accounts", twice_migrated)


def twice_migrated(store: Bucket) -> None:
    new_store(store.uri, store.config)
    with Ontology(storage_uri=store.uri, config=store.config, entity_types=[Account]) as onto:
        write(onto, Account(id="a", owner="Anna", balance=1), Account(id="b", owner="Bert", balance=2))
    with Ontology(storage_uri=store.uri, config=store.config, entity_types=[AccountWithCurrency]) as onto:
        onto.migrate(apply=True, force=True)
        write(onto, AccountWithCurrency(id="a", owner="Anna", balance=10, currency="NOK"))


@pytest.mark.parametrize(
    ("step", "point", "migrated"),
    [
        ("second", ("before", "put", "commits/*/entities/Account.parquet"), False),
        ("second", ("after", "put", "commits/*/entities/Account.parquet"), False),
        ("second", ("after", WRITE, TYPES), False),
        ("second", ("before", "replace", HEAD), False),
        ("second", ("after", "replace", HEAD), True),
        ("third", ("after", "put", "commits/*/entities/Account.parquet"), False),
        ("third", ("before", "replace", HEAD), False),
        ("third", ("after", "replace", HEAD), True),
        ("third", ("before", WRITE, "meta/indices/entities/Account.json"), True),
    ],
    ids=named,
)
def test_a_migration_killed_halfway_leaves_the_old_type_or_the_new_one(
    nursery: Nursery, accounts: Bucket, step: str, point: Point, *, migrated: bool
) -> None:
    old, new = (AccountWithCurrency, AccountInCents) if step == "second" else (AccountInCents, AccountWithOwners)
    upgraders = [balance_in_cents, owner_as_list]
    if step == "third":
        with later(accounts.uri, accounts.config, entity_types=[old], upgraders=upgraders) as onto:
            onto.migrate(apply=True, force=True)
            write(onto, AccountInCents(id="b", owner="Bert", cents=222))
    before = accounts.head()
    nursery.killed("die", accounts, f"{step}-migration", *point)
    assert accounts.head() == before + migrated
    with later(accounts.uri, accounts.config, entity_types=[old], upgraders=upgraders) as onto:
        if migrated:
            with pytest.raises(SchemaOutdatedError):
                onto.query().entities(old).collect()
        else:
            assert [one.id for one in onto.query().entities(old).order_by(old.id)] == ["a", "b"]
    with later(accounts.uri, accounts.config, entity_types=[new], upgraders=upgraders) as onto:
        assert onto.migrate(apply=True, force=True).applied is not migrated
        assert onto.head() == before + 1
        assert {one.id: one.cents for one in onto.query().entities(new)} == {
            "a": 1000,
            "b": 200 if step == "second" else 222,
        }
        assert [one.cents for one in onto.query().entities(new).as_of(3)] == [200, 1000]
        assert [stored.current.version for stored in onto.stored_types()] == [3 if step == "second" else 4]
        late = AccountInCents(id="c", owner="C", cents=3)
        assert write(onto, late if step == "second" else AccountWithOwners(id="c", owner=["C"], cents=3)) == before + 2
        sound(onto)
