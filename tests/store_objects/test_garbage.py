"""Clean-up: what goes, what stays for ever, and that the store is whole wherever it stops."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_objects.counted import Customer, Product, Subscription, new_store, open_on, write
from store_objects.shops import Stint, a_history, everything
from store_objects.upkeep import WEEK, World, world

from ontologia import HeadMismatchError, LeaseExpiredError, OntologiaConfig
from ontologia.objects.s3 import open_objects
from ontologia.store.maintenance import Cleanup
from ontologia.store.objects.backend import ObjectsBackend

CUSTOMERS = "meta/indices/entities/Customer.json"
RETIRED = "meta/retired/entities/Customer.json"
SNAPSHOT = "snapshots/entities/Customer-1-3.parquet"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as found:
        yield found


def three(here: World, start: int = 0) -> None:
    for number in range(start, start + 3):
        write(here.onto, Customer(id="a", name=f"{number}"), Product(sku="p", price=float(number)))


def reasons(done: Cleanup) -> dict[str, int]:
    found = [one.reason for one in done.removals]
    return {reason: found.count(reason) for reason in sorted(set(found))}


def customers(here: World, folder: Path) -> list[Any]:
    """All that a machine with nothing cached sees of customers."""
    with here.stranger(folder) as stranger:
        query = stranger.query().entities(Customer)
        head = stranger.head()
        windows = [query, query.with_history(), *map(query.as_of, range(head + 1)), query.history_since(1)]
        return [
            *([(repr(one), one.meta()) for one in window] for window in windows),
            [stranger.changes(number) for number in range(1, head + 1)],
        ]


# What goes


def test_a_store_that_was_only_written_has_nothing_to_remove(here: World) -> None:
    a_history(here.onto)
    here.later()
    assert reasons(here.onto.gc()) == {"stale": 4}, "the catalogs that were replaced"
    before = everything(here.onto)
    here.onto.gc(apply=True)
    assert everything(here.onto) == before
    assert here.onto.gc().removals == ()
    assert here.onto.verify() == []


def test_a_preview_lists_objects_and_bytes_and_removes_nothing(here: World) -> None:
    three(here)
    here.onto.compact(apply=True)
    here.later()
    before = here.state()
    preview = here.onto.gc()
    assert here.state() == before
    assert not preview.applied
    assert preview.bytes == sum(len(before[one.key]) for one in preview.removals) > 0
    done = here.onto.gc(apply=True)
    assert (done.applied, done.removals) == (True, preview.removals)
    assert set(before) - set(here.state()) == {one.key for one in preview.removals}


def test_members_of_a_snapshot_go_and_every_answer_stays(here: World, tmp_path: Path) -> None:
    a_history(here.onto)
    before = everything(here.onto)
    here.onto.compact(apply=True)
    here.later()
    done = here.onto.gc(apply=True)
    assert reasons(done)["superseded"] == 3 + 3 + 2
    assert everything(here.onto) == before
    with here.stranger(tmp_path / "stranger") as stranger:
        assert everything(stranger) == before
        assert stranger.verify() == []
        assert stranger.verify_index() == []
    assert len([key for key in here.stored("commits/") if key.endswith("manifest.json")]) == here.onto.head()


def test_who_knows_only_files_that_are_gone_reads_the_snapshot(here: World, tmp_path: Path) -> None:
    three(here)
    with here.stranger(tmp_path / "stranger") as stranger:
        backend = stranger._backend
        assert isinstance(backend, ObjectsBackend)
        known = backend.indices.files(stranger.stored_types()[0], backend.head().head)
        assert [one.max_commit_id for one in known] == [1, 2, 3]
        here.onto.compact(apply=True)
        here.later()
        here.onto.gc(apply=True)
        assert [one.name for one in stranger.query().entities(Customer).with_history()] == ["0", "1", "2"]
        assert [len(stranger.changes(number)) for number in (1, 2, 3)] == [2, 2, 2]


def test_who_knows_only_files_that_are_gone_writes_after_the_snapshot(here: World, tmp_path: Path) -> None:
    three(here)
    with here.stranger(tmp_path / "stranger") as stranger:
        backend = stranger._backend
        assert isinstance(backend, ObjectsBackend)
        assert len(backend.indices.files(stranger.stored_types()[0], backend.head().head)) == 3
        here.onto.compact(apply=True)
        here.later()
        here.onto.gc(apply=True)
        assert write(stranger, Customer(id="a", name="new"), Customer(id="b", name="new")) == 4
        assert [one.name for one in stranger.query().entities(Customer).with_history()] == ["0", "1", "2", "new", "new"]
        assert stranger.query().entities(Customer).count() == 2
        assert stranger.verify() == []


def test_a_snapshot_within_a_larger_one_goes(here: World, tmp_path: Path) -> None:
    three(here)
    here.onto.compact(apply=True)
    here.later()
    here.onto.gc(apply=True)
    three(here, 3)
    before = customers(here, tmp_path / "before")
    here.onto.compact(apply=True)
    assert [one["max_commit_id"] for one in here.read(CUSTOMERS)["entries"]] == [6]
    assert here.onto.gc(apply=True).removals == (), "somebody may be reading the smaller one"
    here.later()
    done = here.onto.gc(apply=True)
    assert SNAPSHOT in {one.key for one in done.removals}
    assert [one["max_commit_id"] for one in here.read(RETIRED)["entries"]] == [6]
    assert customers(here, tmp_path / "after") == before
    assert here.onto.verify() == []


def test_an_attempt_that_never_became_a_commit_goes(here: World) -> None:
    three(here)
    for number in (2, 4, 9):
        here.storage.put(f"commits/{number}-deadbeef/manifest.json", b"{}")
        here.storage.put(f"commits/{number}-deadbeef/entities/Customer.parquet", b"?")
    warnings = here.onto.verify()
    assert [(one.severity, one.code) for one in warnings] == [("warning", "orphans")]
    assert warnings[0].message.startswith("6 objects")
    assert here.onto.gc().removals == ()
    here.later()
    here.onto.gc(apply=True)
    assert [key for key in here.stored("commits/") if "deadbeef" in key] == []
    assert len([key for key in here.stored("commits/") if key.endswith("manifest.json")]) == 3
    assert here.onto.verify() == []


def test_an_attempt_that_is_still_written_to_is_left(here: World) -> None:
    three(here)
    here.storage.put("commits/4-deadbeef/entities/Customer.parquet", b"?")
    here.later()
    here.storage.put("commits/4-deadbeef/entities/Product.parquet", b"?")
    assert [one for one in here.onto.gc().removals if "deadbeef" in one.key] == []


def test_a_snapshot_that_no_index_names_goes(here: World) -> None:
    three(here)
    here.storage.put("snapshots/entities/Customer-1-2.parquet", b"?")
    here.later()
    assert [one.key for one in here.onto.gc().removals if one.reason == "orphan"] == [
        "snapshots/entities/Customer-1-2.parquet"
    ]


def test_what_is_not_of_the_store_is_left(here: World) -> None:
    three(here)
    foreign = ["events/default/1.json", "commits/notes.txt", "snapshots/readme", "meta/indices/more.json", "x"]
    for key in foreign:
        here.storage.put(key, b"{}")
    here.later(timedelta(days=1000))
    here.onto.gc(apply=True)
    assert set(foreign) <= set(here.stored())


def test_lists_beyond_the_head_and_records_of_unknown_types_go(here: World) -> None:
    three(here)
    stale = [
        "meta/manifests/1-64.json",
        "meta/indices/entities/Ghost.json",
        "meta/retired/entities/Ghost.json",
        "meta/schema/versions/entity/Ghost.json",
        "meta/probe/1/create",
    ]
    record = b'{"type_name": "Ghost", "max_indexed_commit": 9, "entries": [], "store_id": "another"}'
    for key in stale:
        here.storage.put(key, record)
    here.later()
    assert {one.key for one in here.onto.gc(apply=True).removals if "catalogs" not in one.key} == set(stale)


# What is left for a while


def test_nothing_younger_than_the_grace_is_touched(here: World) -> None:
    three(here)
    here.onto.compact(apply=True)
    here.storage.put("commits/4-deadbeef/manifest.json", b"{}")
    for waited, removed in ((WEEK - timedelta(hours=1), False), (timedelta(hours=2), True)):
        here.later(waited)
        assert bool(here.onto.gc().removals) is removed
    assert here.onto.gc(grace=timedelta(days=30)).removals == ()


def test_members_wait_for_the_age_of_their_snapshot_not_for_their_own(here: World) -> None:
    three(here)
    here.later()
    here.onto.compact(apply=True)
    assert "superseded" not in reasons(here.onto.gc())
    here.later()
    assert reasons(here.onto.gc())["superseded"] == 6


def test_a_catalog_that_was_replaced_waits_from_when_it_was(here: World) -> None:
    write(here.onto, Customer(id="a", name="1"))
    here.later()
    write(here.onto, Product(sku="p", price=1.0))
    assert reasons(here.onto.gc()) == {}, "the last one was in force until just now"
    here.later()
    assert reasons(here.onto.gc()) == {"stale": 2}


# What must never go


def test_an_index_that_cannot_be_read_keeps_everything_of_its_type(here: World) -> None:
    three(here)
    here.onto.compact(apply=True)
    here.storage.put(CUSTOMERS, b"{")
    here.later()
    assert [one.key for one in here.onto.gc().removals if "Customer" in one.key] == []


@pytest.mark.parametrize("damage", ["changed", "missing", "other rows"])
def test_members_of_a_snapshot_that_is_not_sound_stay(here: World, damage: str, tmp_path: Path) -> None:
    three(here)
    before = customers(here, tmp_path / "before")
    here.onto.compact("Customer", apply=True)
    data = here.storage.get(SNAPSHOT).data
    if damage == "missing":
        here.storage.delete(SNAPSHOT)
    elif damage == "changed":
        here.storage.put(SNAPSHOT, data[:-20] + bytes(20))
    else:
        first = here.storage.get(next(key for key in here.stored("commits/1-") if "Customer" in key)).data
        here.storage.put(SNAPSHOT, first)
        here.change(CUSTOMERS, lambda index: _with(index, content_sha256=_sha256(first), size=len(first)))
    here.later()
    done = here.onto.gc(apply=True)
    assert [one.key for one in done.removals if one.reason == "superseded"] == []
    assert RETIRED not in here.stored()
    here.storage.delete(CUSTOMERS)
    here.onto.repair_index(apply=True)
    assert customers(here, tmp_path / "after") == before


def _with(index: dict[str, Any], **facts: Any) -> dict[str, Any]:
    return {**index, "entries": [{**entry, **facts} for entry in index["entries"]]}


def _sha256(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def test_a_lost_index_is_made_again_although_the_members_are_gone(here: World, tmp_path: Path) -> None:
    three(here)
    three(here, 3)
    before = customers(here, tmp_path / "before")
    here.onto.compact(apply=True)
    here.later()
    here.onto.gc(apply=True)
    index = here.read(CUSTOMERS)
    here.storage.delete(CUSTOMERS)
    assert customers(here, tmp_path / "reading") == before, "readers do it for themselves"
    with here.stranger(tmp_path / "repairing") as stranger:
        assert [one.code for one in stranger.repair_index(apply=True).problems] == ["missing"]
    assert here.read(CUSTOMERS) == index
    here.storage.delete(CUSTOMERS)
    with here.stranger(tmp_path / "writing") as stranger:
        write(stranger, Product(sku="q", price=1.0))
    assert here.read(CUSTOMERS)["entries"] == index["entries"], "the next commit does it for all"
    assert here.onto.verify() == []


def test_a_snapshot_that_the_record_names_outlives_the_index(here: World, tmp_path: Path) -> None:
    three(here)
    before = customers(here, tmp_path / "before")
    here.onto.compact(apply=True)
    here.later()
    here.onto.gc(apply=True)
    here.storage.delete(RETIRED)
    here.storage.delete(CUSTOMERS)
    with here.stranger(tmp_path / "repairing") as stranger:
        stranger.repair_index(apply=True)
    assert [one["path"] for one in here.read(CUSTOMERS)["entries"]] == [SNAPSHOT], "found by its name"
    assert customers(here, tmp_path / "after") == before


def test_a_snapshot_whose_members_are_gone_stays_though_nothing_names_it(here: World) -> None:
    three(here)
    here.onto.compact(apply=True)
    here.later()
    here.onto.gc(apply=True)
    here.storage.delete(RETIRED)
    members = [f"commits/{n}-gone/entities/Customer.parquet" for n in (1, 2, 3)]
    entries = [{"min_commit_id": n, "max_commit_id": n, "path": path} for n, path in enumerate(members, 1)]
    here.change(CUSTOMERS, lambda index: {**index, "entries": entries})
    here.later()
    assert SNAPSHOT not in {one.key for one in here.onto.gc().removals}


def test_rows_of_a_dropped_type_stay_readable_commit_by_commit(here: World, tmp_path: Path) -> None:
    three(here)
    here.onto.compact(apply=True)
    here.later()
    here.onto.gc(apply=True)
    changes = [here.onto.changes(number) for number in (1, 2, 3)]
    token = here.onto.drop_type("entity", "Customer").token
    here.onto.drop_type("entity", "Customer", apply=True, token=token)
    here.later()
    here.onto.gc(apply=True)
    with here.stranger(tmp_path / "stranger") as stranger:
        assert [stranger.changes(number) for number in (1, 2, 3)] == changes
        assert stranger.verify() == []
        write(stranger, Customer(id="new", name="x"))
        assert [stranger.changes(number) for number in (1, 2, 3)] == changes
        assert [one.id for one in stranger.query().entities(Customer).with_history()] == ["new"]
        assert stranger.verify() == []


# Purging


def drop(here: World, kind: str, name: str) -> None:
    token = here.onto.drop_type(kind, name, purge=True).token
    here.onto.drop_type(kind, name, purge=True, apply=True, token=token)


@pytest.mark.parametrize("compacted", [False, True])
def test_what_an_interrupted_purge_left_goes_at_once(here: World, tmp_path: Path, *, compacted: bool) -> None:
    three(here)
    if compacted:
        here.onto.compact(apply=True)
        here.later()
        here.onto.gc(apply=True)
    rows = {key: data for key, data in here.state().items() if "Customer" in key and not key.startswith("meta/")}
    drop(here, "entity", "Customer")
    assert not rows.keys() & set(here.stored())
    for key, data in rows.items():
        here.storage.put(key, data)
    purged = [one for one in here.onto.verify() if one.code == "purged"]
    assert bool(purged) is not compacted, "copies in snapshots are not counted twice"
    done = here.onto.gc(apply=True)
    assert {one.key for one in done.removals if one.reason == "purged"} == rows.keys()
    assert here.onto.verify() == []
    with here.stranger(tmp_path / "stranger") as stranger:
        write(stranger, Customer(id="new", name="x"))
        stranger.gc(apply=True)
        assert [one.id for one in stranger.query().entities(Customer).with_history()] == ["new"]


def test_purging_a_type_leaves_an_earlier_one_of_its_name(here: World) -> None:
    three(here)
    here.onto.compact(apply=True)
    here.later()
    here.onto.gc(apply=True)
    changes = here.onto.changes(2)
    token = here.onto.drop_type("entity", "Customer").token
    here.onto.drop_type("entity", "Customer", apply=True, token=token)
    three(here, 3)
    here.onto.compact(apply=True)
    here.later()
    here.onto.gc(apply=True)
    assert len(here.read(RETIRED)["entries"]) == 2
    drop(here, "entity", "Customer")
    assert [one["path"] for one in here.read(RETIRED)["entries"]] == [SNAPSHOT]
    assert here.onto.changes(2) == changes
    assert here.onto.verify() == []


def test_rows_that_were_purged_elsewhere_leave_the_cache_here(here: World, tmp_path: Path) -> None:
    three(here)
    cache = tmp_path / "stranger"
    with here.stranger(cache) as stranger:
        assert [one.name for one in stranger.query().entities(Customer).with_history()] == ["0", "1", "2"]
        assert [one.sku for one in stranger.query().entities(Product)] == ["p"]
        assert list(cache.rglob("*customer.parquet*"))
        drop(here, "entity", "Customer")
        assert stranger.query().entities(Product).count() == 1
        assert list(cache.rglob("*customer.parquet*")) == []
        assert list(cache.rglob("*product.parquet*"))


# What stops it


def test_a_lease_that_runs_out_stops_it(here: World) -> None:
    three(here)
    here.onto.compact(apply=True)
    here.later()
    ttl = timedelta(milliseconds=here.config.s3_lease_ttl_ms)
    here.interfere("list", "commits/", after=lambda: here.later(ttl * 0.7))
    before = here.state()
    with pytest.raises(LeaseExpiredError):
        here.onto.gc(apply=True)
    assert here.state().keys() - {"meta/locks/ontology_write.json"} == before.keys()


def test_a_head_that_moves_meanwhile_stops_it(here: World, tmp_path: Path) -> None:
    three(here)
    here.onto.compact(apply=True)
    here.later()
    before = set(here.stored())
    with here.stranger(tmp_path / "other") as other:

        def intrude() -> None:
            here.storage.delete("meta/locks/ontology_write.json")
            write(other, Customer(id="b", name="meanwhile"))

        here.interfere("list", "commits/", after=intrude)
        with pytest.raises((HeadMismatchError, LeaseExpiredError)):
            here.onto.gc(apply=True)
    assert before <= set(here.stored())


class Stopped(BaseException):
    """The process ends here."""


def stop() -> None:
    raise Stopped


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(
    ("method", "key", "nth"), [("put", "meta/retired/*", 1), ("put", "meta/retired/*", 2), ("delete_many", "*", 1)]
)
def test_it_may_end_at_any_write(  # noqa: PLR0917 - where, when, and the store
    here: World, tmp_path: Path, moment: str, method: str, key: str, nth: int
) -> None:
    three(here)
    before = customers(here, tmp_path / "before")
    here.onto.compact(apply=True)
    here.later()
    here.interfere(method, key, nth=nth, **{moment: stop})
    with pytest.raises(Stopped):
        here.onto.gc(apply=True)
    assert customers(here, tmp_path / "between") == before
    here.storage.delete(CUSTOMERS)
    assert customers(here, tmp_path / "without") == before
    with here.stranger(tmp_path / "next") as following:
        following.repair_index(apply=True)
        following.gc(apply=True)
        assert following.gc().removals == ()
        assert following.verify() == []
    assert customers(here, tmp_path / "after") == before


def test_only_some_of_a_batch_being_removed_is_harmless(here: World, tmp_path: Path) -> None:
    three(here)
    before = customers(here, tmp_path / "before")
    here.onto.compact(apply=True)
    here.later()
    gone = [one.key for one in here.onto.gc().removals if "2-" in one.key]
    here.onto.gc(apply=True)
    assert gone
    here.later()
    assert here.onto.gc(apply=True).removals == ()
    assert customers(here, tmp_path / "after") == before


Step = tuple[str, int]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 2)),
        st.tuples(st.sampled_from(["compact", "gc", "wait", "lose index", "repair"]), st.just(0)),
    ),
    min_size=3,
    max_size=12,
)


@settings(max_examples=max(8, settings().max_examples // 6))
@given(steps)
def test_no_order_of_upkeep_changes_an_answer(tmp_path_factory: pytest.TempPathFactory, taken: list[Step]) -> None:
    expected: list[tuple[str, str]] = []
    with world(tmp_path_factory.mktemp("upkeep")) as here:
        for number, (step, key) in enumerate(taken):
            match step:
                case "write":
                    write(here.onto, Customer(id=f"c{key}", name=f"{number}"))
                    expected.append((f"c{key}", f"{number}"))
                case "compact":
                    here.onto.compact(apply=True)
                case "gc":
                    here.onto.gc(apply=True)
                case "lose index":
                    here.storage.delete(CUSTOMERS)
                    here.backend.indices.forget()
                case "repair":
                    here.onto.repair_index(apply=True)
                case _:
                    here.later()
        with here.stranger(tmp_path_factory.mktemp("stranger")) as stranger:
            history = stranger.query().entities(Customer).with_history()
            assert [(one.id, one.name) for one in history] == expected
            assert [len(stranger.changes(number)) for number in range(1, stranger.head() + 1)] == [1] * len(expected)
            assert [one for one in stranger.verify() if one.severity == "error"] == []


# On a real server


def test_a_store_on_s3_is_compacted_and_cleaned_up(s3_uri: str, s3_config: OntologiaConfig, tmp_path: Path) -> None:
    new_store(s3_uri, s3_config)
    objects = open_objects(s3_uri, s3_config)
    options: dict[str, Any] = {"relation_types": [Subscription, Stint]}
    with open_on(objects, s3_config, **options) as onto:
        a_history(onto)
        before = everything(onto)
        objects.put("commits/2-deadbeef/manifest.json", b"{}")
        onto.compact(apply=True)
        assert onto.gc(apply=True).removals == ()
        done = onto.gc(grace=timedelta(days=-1), apply=True)
        assert reasons(done).keys() == {"superseded", "orphan", "stale"}
        assert everything(onto) == before
    cold = s3_config.model_copy(update={"s3_cache_dir": str(tmp_path / "cold")})
    with open_on(open_objects(s3_uri, cold), cold, **options) as onto:
        assert everything(onto) == before
        assert onto.verify() == []
        assert onto.gc(grace=timedelta(days=-1)).removals == ()
