"""Indices that are wrong: how that is told, that no answer depends on it, and how they are put right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from store_objects.counted import Customer, Product, Subscription, new_store, open_counted, write
from store_objects.shops import customers
from store_objects.upkeep import World, world

from ontologia import (
    HeadMismatchError,
    LeaseExpiredError,
    LockContentionError,
    OntologiaConfig,
    SchemaError,
)
from ontologia.store.objects.backend import ObjectsBackend

HEAD = "meta/head.json"
LOCK = "meta/locks/ontology_write.json"
TYPES = "meta/schema/types.json"
CUSTOMERS = "meta/indices/entities/Customer.json"
PRODUCTS = "meta/indices/entities/Product.json"
SNAPSHOT = "snapshots/entities/Customer-1-3.parquet"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    """Three commits of customers, the first with a product too."""
    with world(tmp_path) as found:
        write(found.onto, Customer(id="a", name="1"), Product(sku="p", price=1.0))
        write(found.onto, Customer(id="a", name="2"), Customer(id="b", name="2"))
        write(found.onto, Customer(id="a", name="3"))
        yield found


def entries(index: dict[str, Any], change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> dict[str, Any]:
    return {**index, "entries": change(index["entries"])}


def lag(here: World) -> None:
    here.change(CUSTOMERS, lambda index: {**entries(index, lambda all_: all_[:1]), "max_indexed_commit": 1})


def lose(here: World) -> None:
    here.storage.delete(CUSTOMERS)


def garble(here: World) -> None:
    here.storage.put(CUSTOMERS, b'{"type_name": "Customer", "max_ind')


def of_another_store(here: World) -> None:
    here.change(CUSTOMERS, lambda index: {**index, "store_id": "another"})


def overlap(here: World) -> None:
    here.change(CUSTOMERS, lambda index: entries(index, lambda all_: [*all_, {**all_[0], "max_commit_id": 2}]))


def without_last(here: World) -> None:
    here.change(CUSTOMERS, lambda index: entries(index, lambda all_: all_[:-1]))


def other_attempt(here: World) -> None:
    orphan = "commits/3-deadbeef/entities/Customer.parquet"
    here.storage.put(orphan, here.storage.get(here.read(CUSTOMERS)["entries"][0]["path"]).data)
    here.change(CUSTOMERS, lambda index: entries(index, lambda all_: [*all_[:-1], {**all_[-1], "path": orphan}]))


def beyond_head(here: World) -> None:
    here.change(CUSTOMERS, lambda index: {**index, "max_indexed_commit": 99})


AT_HEAD = [
    (lag, "lag"),
    (lose, "missing"),
    (garble, "unreadable"),
    (of_another_store, "unreadable"),
    (overlap, "unreadable"),
    (without_last, "missing-latest-entry"),
    (other_attempt, "path-mismatch"),
]


def without_second(here: World) -> None:
    here.change(CUSTOMERS, lambda index: entries(index, lambda all_: [all_[0], all_[2]]))


def stray(here: World) -> None:
    extra = {"min_commit_id": 2, "max_commit_id": 2, "path": "commits/2-x/entities/Product.parquet"}
    here.change(PRODUCTS, lambda index: entries(index, lambda all_: [*all_, extra]))


def other_hash(here: World) -> None:
    here.change(
        CUSTOMERS,
        lambda index: entries(index, lambda all_: [{**all_[0], "content_sha256": "0" * 64}, *all_[1:]]),
    )


def other_version(here: World) -> None:
    here.change(CUSTOMERS, lambda index: entries(index, lambda all_: [{**all_[0], "schema_version_id": 7}, *all_[1:]]))


IN_THE_PAST = [without_second, stray, other_hash, other_version, beyond_head]


def settled(here: World) -> None:
    """After a repair: every index fits, doing it again writes nothing."""
    for key in (CUSTOMERS, PRODUCTS):
        assert here.read(key)["max_indexed_commit"] == 3
    assert here.onto.verify_index() == []
    before = here.state()
    again = here.onto.repair_index(apply=True)
    assert (again.problems, again.written) == ((), ())
    assert here.state() == before


def test_indices_that_fit_are_left_alone(here: World) -> None:
    assert here.onto.verify_index() == []
    settled(here)


@pytest.mark.parametrize(("tamper", "code"), AT_HEAD)
def test_an_index_that_does_not_fit_the_head_is_told_and_repaired(
    here: World, tmp_path: Path, tamper: Callable[[World], None], code: str
) -> None:
    right, good, head = customers(here.onto), here.read(CUSTOMERS), here.storage.get(HEAD)
    tamper(here)
    (problem,) = here.onto.verify_index()
    assert (problem.kind, problem.type_name, problem.code, problem.head) == ("entity", "Customer", code, 3)
    assert problem.max_indexed_commit == {"lag": 1, "missing": 0, "unreadable": 0}.get(code, 3)
    with here.stranger(tmp_path / "stranger") as stranger:
        assert customers(stranger) == right, "it is not believed"
        assert stranger.storage_info()["last_index_warning"] == problem.message
    tampered = here.state()
    plan = here.onto.repair_index()
    assert here.state() == tampered
    assert (plan.applied, plan.problems, plan.written) == (False, (problem,), (CUSTOMERS,))
    done = here.onto.repair_index(apply=True)
    assert (done.applied, done.problems, done.written, done.head) == (True, (problem,), (CUSTOMERS,), 3)
    assert here.read(CUSTOMERS) == good
    assert here.storage.get(HEAD) == head
    settled(here)
    assert customers(here.onto) == right
    assert here.onto.storage_info()["last_index_warning"] is None or code != "lag"


@pytest.mark.parametrize("tamper", IN_THE_PAST)
def test_entries_that_the_log_does_not_bear_out_are_found_and_repaired(
    here: World, tamper: Callable[[World], None], tmp_path: Path
) -> None:
    good = {key: here.read(key) for key in (CUSTOMERS, PRODUCTS)}
    tamper(here)
    (problem,) = here.onto.repair_index(apply=True).problems
    assert problem.code == "wrong-entries"
    assert {key: here.read(key) for key in (CUSTOMERS, PRODUCTS)} == good
    settled(here)
    with here.stranger(tmp_path / "stranger") as stranger:
        assert [one.name for one in stranger.query().entities(Customer).with_history()] == ["1", "2", "2", "3"]


def test_every_type_is_repaired_at_once(here: World) -> None:
    lag(here)
    here.storage.delete(PRODUCTS)
    assert [(one.type_name, one.code) for one in here.onto.verify_index()] == [
        ("Customer", "lag"),
        ("Product", "missing"),
    ]
    told: list[tuple[int, int]] = []
    here.onto.repair_index(apply=True, progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]
    settled(here)


# Snapshots


def test_a_snapshot_that_covers_the_head_is_coverage(here: World) -> None:
    here.onto.compact(apply=True)
    assert here.onto.verify_index() == []
    settled(here)
    here.change(CUSTOMERS, lambda index: entries(index, lambda all_: [{**all_[0], "max_commit_id": 2}]))
    assert [one.code for one in here.onto.verify_index()] == ["missing-latest-entry"]
    here.onto.repair_index(apply=True)
    assert here.onto.verify_index() == []
    assert here.onto.verify() == []


def test_a_sound_snapshot_is_kept_by_a_repair(here: World) -> None:
    here.onto.compact(apply=True)
    write(here.onto, Customer(id="a", name="4"))
    here.onto.verify()
    good = here.read(CUSTOMERS)
    here.change(CUSTOMERS, lambda index: {**entries(index, lambda all_: all_[:1]), "max_indexed_commit": 3})
    here.onto.repair_index(apply=True)
    assert here.read(CUSTOMERS) == good
    assert [one["path"] for one in good["entries"]][:1] == [SNAPSHOT]


@pytest.mark.parametrize("damage", ["missing", "changed", "said otherwise"])
def test_a_snapshot_that_is_not_sound_gives_way_to_its_members(here: World, damage: str) -> None:
    good = here.read(CUSTOMERS)
    right = customers(here.onto)
    here.onto.compact(apply=True)
    if damage == "missing":
        here.storage.delete(SNAPSHOT)
    elif damage == "changed":
        here.storage.put(SNAPSHOT, here.storage.get(SNAPSHOT).data + b"x")
    else:
        here.change(CUSTOMERS, lambda index: entries(index, lambda all_: [{**all_[0], "row_count": 3}]))
    (problem,) = here.onto.repair_index(apply=True).problems
    assert (problem.code, SNAPSHOT in problem.message) == ("wrong-entries", True)
    if damage == "said otherwise":
        assert [one["row_count"] for one in here.read(CUSTOMERS)["entries"]] == [4], "the object itself is sound"
    else:
        assert here.read(CUSTOMERS) == good
    here.backend.indices.forget()
    assert customers(here.onto) == right
    assert here.onto.verify() == []


def test_a_lost_index_is_rebuilt_from_members_though_a_snapshot_is_there(here: World) -> None:
    good = here.read(CUSTOMERS)
    here.onto.compact(apply=True)
    lose(here)
    here.onto.repair_index(apply=True)
    assert here.read(CUSTOMERS) == good, "nothing is missing, so nothing is taken on trust"


# Guards


def test_without_a_list_of_types_there_is_no_verdict_and_no_change(here: World) -> None:
    lag(here)
    for content in (None, b"{", b'{"entities": [1], "relations": []}', b'{"entities": []}', b"[]"):
        if content is None:
            here.storage.delete(TYPES)
        else:
            here.storage.put(TYPES, content)
        before = here.state()
        for check in (here.onto.verify_index, here.onto.repair_index, lambda: here.onto.repair_index(apply=True)):
            with pytest.raises(SchemaError, match=TYPES) as caught:
                check()
            assert "schema metadata" in caught.value.message
        assert here.state() == before
        assert TYPES in here.onto.storage_info()["last_index_warning"]


def test_types_that_a_failed_commit_listed_are_not_asked_for(here: World) -> None:
    here.change(TYPES, lambda types: {**types, "entities": [*types["entities"], "Ghost"]})
    assert here.onto.verify_index() == []
    settled(here)


def test_a_repair_waits_for_the_lock_like_a_commit(here: World) -> None:
    lag(here)
    tampered = here.read(CUSTOMERS)
    with here.backend.lease(), pytest.raises(LockContentionError):
        here.onto.repair_index(apply=True)
    assert here.read(CUSTOMERS) == tampered


def test_a_lease_that_runs_out_stops_a_repair(here: World) -> None:
    lag(here)
    tampered = here.read(CUSTOMERS)
    ttl = timedelta(milliseconds=here.config.s3_lease_ttl_ms)
    here.interfere("get", CUSTOMERS, after=lambda: here.later(ttl * 0.7))
    with pytest.raises(LeaseExpiredError):
        here.onto.repair_index(apply=True)
    assert here.read(CUSTOMERS) == tampered


def test_a_head_that_moves_stops_a_repair(here: World, tmp_path: Path) -> None:
    here.storage.delete(PRODUCTS)
    with here.stranger(tmp_path / "other") as other:

        def intrude() -> None:
            here.storage.delete(LOCK)
            write(other, Customer(id="a", name="meanwhile"))
            here.storage.delete(PRODUCTS)

        here.interfere("get", PRODUCTS, before=intrude)
        with pytest.raises((HeadMismatchError, LeaseExpiredError)):
            here.onto.repair_index(apply=True)
    assert PRODUCTS not in here.stored()
    here.onto.repair_index(apply=True)
    assert here.read(PRODUCTS)["max_indexed_commit"] == 4


class Stopped(BaseException):
    """The process ends here."""


def stop() -> None:
    raise Stopped


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("nth", [1, 2])
def test_a_repair_may_end_between_two_indices(here: World, tmp_path: Path, moment: str, nth: int) -> None:
    lose(here)
    here.storage.delete(PRODUCTS)
    here.interfere("create", "meta/indices/*", nth=nth, **{moment: stop})
    with pytest.raises(Stopped):
        here.onto.repair_index(apply=True)
    with here.stranger(tmp_path / "next") as following:
        following.repair_index(apply=True)
        assert following.verify_index() == []


@pytest.mark.parametrize("fault", [{"lose_response": True}, {"fail": "timeout"}])
def test_a_lost_response_is_resolved_by_reading(here: World, fault: dict[str, Any]) -> None:
    good = here.read(CUSTOMERS)
    lag(here)
    here.interfere("replace", CUSTOMERS, **fault)
    assert here.onto.repair_index(apply=True).written == (CUSTOMERS,)
    assert here.read(CUSTOMERS) == good


def test_a_commit_between_two_looks_is_no_problem(here: World, tmp_path: Path) -> None:
    with here.stranger(tmp_path / "other") as other:
        here.interfere("get", TYPES, after=lambda: write(other, Customer(id="a", name="meanwhile")))
        assert here.onto.verify_index() == []


# Cost


def test_looking_takes_one_request_for_a_type_and_three_more(s3_uri: str, s3_config: OntologiaConfig) -> None:
    new_store(s3_uri, s3_config)
    onto, counter = open_counted(s3_uri, s3_config)
    for number in range(10):
        write(
            onto,
            Customer(id="a", name=f"{number}"),
            Product(sku="p", price=float(number)),
            Subscription(left_key="a", right_key="p", seats=number),
        )
    assert isinstance(onto._backend, ObjectsBackend)
    counter.reset()
    assert onto.verify_index() == []
    assert len(counter.requests) <= 3 + 3
    counter.reset()
    onto._backend.objects.delete(CUSTOMERS)
    assert onto.repair_index(apply=True).written == (CUSTOMERS,)
    assert onto.verify_index() == []
    onto.close()


def test_a_lost_list_of_types_is_written_anew_by_a_command_of_its_own(here: World) -> None:
    """What checks and repairs of indices refuse to work without."""
    before = here.read(TYPES)
    here.storage.put(TYPES, b"nope")
    with pytest.raises(SchemaError):
        here.onto.repair_index(apply=True)
    assert here.onto.repair_schema() == (TYPES,)
    assert here.onto.repair_schema(apply=True) == (TYPES,)
    assert here.read(TYPES) | {"updated_at": None} == before | {"updated_at": None}
    assert here.onto.repair_schema(apply=True) == ()
    assert here.onto.repair_index(apply=True).problems == ()
