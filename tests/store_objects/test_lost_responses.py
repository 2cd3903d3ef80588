"""Whole commits on a server that loses requests and responses: what is acknowledged is there, what failed is not.

A commit ends in one of three ways: a number, an error that says nothing was written, or an error that says it is not
known. The log decides whether that was the truth.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_objects.broken import WRITE, CarelessMemory, ChaoticObjects, Memory, lost
from store_objects.buckets import CUSTOMERS, HEAD, LOCK, TYPES
from store_objects.counted import Customer, Product, Subscription, open_on, write
from store_objects.shops import Gadget, Novelty, an_hour_on, batch, numbers

from ontologia import (
    CommitStateUnknownError,
    LeaseExpiredError,
    OntologiaConfig,
    OntologiaError,
    Ontology,
    StorageBackendError,
)
from ontologia.base.clock import ManualClock, SystemClock
from ontologia.objects.faults import Fault, FaultyObjects
from ontologia.objects.port import Objects
from ontologia.store.objects import head, lock
from ontologia.store.objects.initialise import initialise_on


class World:
    """A store in memory, one writer whose requests can be broken, and others whose requests cannot."""

    def __init__(self, folder: Path | str) -> None:
        self.memory = Memory()
        self.config = OntologiaConfig(s3_cache_dir=str(folder), s3_lock_timeout_ms=0, runtime_id="writer")
        initialise_on(self.memory, self.config)
        self.clock = ManualClock(SystemClock().now())
        self.objects = FaultyObjects(self.memory)
        self.opened: list[Ontology] = []
        self.onto = self.open(self.objects, self.clock)

    def open(self, objects: Objects, clock: ManualClock, **options: Any) -> Ontology:
        self.opened.append(open_on(objects, self.config, clock, **options))
        return self.opened[-1]

    def other(self) -> Ontology:
        """Another process, an hour later."""
        return self.open(self.memory, an_hour_on())

    def lock_is_lost(self) -> None:
        """As if the lease had run out and somebody had cleared it away."""
        self.memory.delete(LOCK)

    def overtake(self) -> None:
        """Another writer commits, whoever holds the lock."""
        self.lock_is_lost()
        write(self.other(), Customer(id="other", name="overtaker"))

    def log(self) -> list[tuple[int, str]]:
        """Every commit and the note it was given, oldest first, as a stranger reads it."""
        with self.stranger() as onto:
            assert [finding for finding in onto.verify() if finding.severity == "error"] == []
            return [(one.commit_id, one.metadata.get("n", "")) for one in reversed(onto.list_commits())]

    def stranger(self) -> Ontology:
        folder = tempfile.mkdtemp(dir=self.config.s3_cache_dir)
        config = self.config.model_copy(update={"s3_cache_dir": folder})
        return open_on(self.memory, config, an_hour_on())

    def close(self) -> None:
        for onto in self.opened:
            onto.close()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for module in (head, lock):
        monkeypatch.setattr(module.time, "sleep", lambda _: None)
    found = World(tmp_path)
    yield found
    found.close()


def noted(onto: Ontology, note: object) -> int | None:
    """A commit that can be found again."""
    session = onto.session()
    session.ensure([Customer(id="a", name=f"{note}"), Product(sku=f"p{note}", price=1.0)])
    return session.commit(meta={"n": f"{note}"})


@pytest.mark.parametrize("applied", [True, False])
def test_a_commit_whose_swap_got_lost_is_made_exactly_once(world: World, *, applied: bool) -> None:
    noted(world.onto, 1)
    world.objects.add(lost("replace", HEAD, applied=applied))
    assert noted(world.onto, 2) == 2
    assert noted(world.onto, 3) == 3
    assert world.log() == [(1, "1"), (2, "2"), (3, "3")]
    assert world.onto.verify_index() == []


def test_a_commit_that_others_built_upon_before_we_knew_is_ours(world: World) -> None:
    noted(world.onto, 1)
    world.objects.add(lost("replace", HEAD, applied=True))
    world.objects.add(Fault("get", HEAD, before=world.overtake))
    assert noted(world.onto, 2) == 2
    assert world.log() == [(1, "1"), (2, "2"), (3, "")]
    assert {one.id: one.name for one in world.onto.query().entities(Customer)} == {"a": "2", "other": "overtaker"}
    assert noted(world.onto, 4) == 4
    assert world.onto.verify_index() == []


def test_a_commit_that_others_were_faster_than_is_made_after_theirs(world: World) -> None:
    noted(world.onto, 1)
    world.objects.add(lost("replace", HEAD, applied=False))
    world.objects.add(Fault("get", HEAD, before=world.overtake))
    assert noted(world.onto, 2) == 3
    assert world.log() == [(1, "1"), (2, ""), (3, "2")]
    assert world.onto.verify_index() == []


@pytest.mark.parametrize("applied", [True, False])
def test_a_commit_of_unknown_outcome_says_where_to_look(world: World, *, applied: bool) -> None:
    noted(world.onto, 1)
    world.objects.add(lost("replace", HEAD, applied=applied))
    world.objects.add(Fault("get", HEAD, times=None, fail="error"))
    with pytest.raises(CommitStateUnknownError) as caught:
        noted(world.onto, 2)
    attempt = caught.value.manifest_path
    assert caught.value.commit_id == 2
    assert attempt.startswith("commits/2-")
    assert world.memory.get(attempt).data, "what may have been committed was not cleaned away"
    world.objects.clear()
    found = [manifest for manifest, note in world.log() if note == "2"]
    assert found == ([2] if applied else [])
    world.clock.set(world.clock.now() + timedelta(hours=1))
    assert noted(world.onto, 3) == (3 if applied else 2)
    assert world.onto.verify_index() == []


def test_a_failed_upload_leaves_nothing_and_can_be_tried_again(world: World) -> None:
    noted(world.onto, 1)
    session = world.onto.session()
    session.ensure(Customer(id="a", name="2"))
    for key in ("commits/2-*/entities/*", "commits/2-*/manifest.json"):
        world.objects.add(Fault("put", key, fail="error"))
        with pytest.raises(StorageBackendError):
            session.commit()
        assert world.onto.head() == 1
    assert session.commit() == 2
    assert len(world.log()) == 2


@pytest.mark.parametrize(("method", "key"), [(WRITE, CUSTOMERS), (WRITE, "meta/indices/*"), ("delete", LOCK)])
@pytest.mark.parametrize("how", ["error", "refused", "lost"])
def test_nothing_that_fails_after_the_swap_fails_the_commit(world: World, method: str, key: str, how: Any) -> None:
    noted(world.onto, 1)
    fault: dict[str, Any] = {"times": None, "lose_response": True} if how == "lost" else {"times": None, "fail": how}
    world.objects.add(Fault(method, key, **fault))
    assert noted(world.onto, 2) == 2
    world.objects.clear()
    assert world.log() == [(1, "1"), (2, "2")]
    world.clock.set(world.clock.now() + timedelta(hours=1))
    assert noted(world.onto, 3) == 3
    assert world.onto.verify_index() == []
    assert {one.name for one in world.onto.query().entities(Customer)} == {"3"}


def test_a_cache_that_is_gone_after_the_swap_fails_no_commit(world: World) -> None:
    noted(world.onto, 1)
    folder = Path(str(world.config.s3_cache_dir))

    def spoil() -> None:
        shutil.rmtree(folder)
        folder.write_text("not a folder any more")

    world.objects.add(Fault("replace", HEAD, after=spoil))
    assert noted(world.onto, 2) == 2
    folder.unlink()
    folder.mkdir()
    assert world.log() == [(1, "1"), (2, "2")]


def test_a_list_of_types_that_cannot_be_fetched_costs_no_commit(world: World) -> None:
    noted(world.onto, 1)
    world.objects.add(Fault("get*", TYPES, times=None, fail="refused"))
    before = world.memory.get(CUSTOMERS).data
    assert noted(world.onto, 2) == 2
    assert TYPES in world.onto.storage_info()["last_index_warning"]
    assert world.memory.get(CUSTOMERS).data == before


def test_a_reader_beside_the_writer_does_not_keep_the_indices_from_being_written(world: World) -> None:
    """A query of the same process, between the swap and the indices."""
    noted(world.onto, 1)
    seen: list[Any] = []
    world.objects.add(
        Fault("replace", HEAD, after=lambda: seen.extend(world.onto.query().entities(Customer).collect()))
    )
    assert noted(world.onto, 2) == 2
    assert [one.name for one in seen] == ["2"]
    assert world.onto.verify_index() == []


def test_a_lease_that_ran_out_before_the_swap_commits_nothing(world: World) -> None:
    noted(world.onto, 1)

    def a_long_pause() -> None:
        world.clock.set(world.clock.now() + timedelta(milliseconds=world.config.s3_lease_ttl_ms))

    world.objects.add(Fault("put", "commits/2-*/manifest.json", after=a_long_pause))
    with pytest.raises(LeaseExpiredError):
        noted(world.onto, 2)
    assert world.log() == [(1, "1")]
    assert [one.key for one in world.memory.list("commits/2-")] == [], "what was uploaded is removed"
    assert noted(world.onto, 3) == 2


# Changes of the catalog, which move the head without a commit


def drop(onto: Ontology, *, purge: bool = True) -> None:
    token = onto.drop_type("relation", "Subscription", purge=purge).token
    onto.drop_type("relation", "Subscription", purge=purge, apply=True, token=token)


def test_a_drop_that_another_writer_overtook_is_not_taken_for_done(world: World) -> None:
    """Its token is for a head that is gone: it must be refused, and no row may be purged."""
    batch(world.onto, 1)
    world.objects.add(Fault("replace", HEAD, before=world.overtake))
    with pytest.raises(OntologiaError):
        drop(world.onto)
    with world.stranger() as onto:
        assert [one.seats for one in onto.query().relations(Subscription)] == [1] * 4
        assert [finding for finding in onto.verify() if finding.severity == "error"] == []


@pytest.mark.parametrize("applied", [True, False])
def test_a_drop_whose_swap_got_lost_is_done_exactly_once(world: World, *, applied: bool) -> None:
    batch(world.onto, 1)
    world.objects.add(lost("replace", HEAD, applied=applied))
    drop(world.onto)
    with world.stranger() as onto:
        assert {stored.name for stored in onto.stored_types()} == {"Customer", "Product"}
        assert [finding for finding in onto.verify() if finding.severity == "error"] == []
    assert [one.key for one in world.memory.list("commits/") if "Subscription" in one.key] == []


def test_a_drop_that_was_made_and_built_upon_before_we_knew_is_done(world: World) -> None:
    batch(world.onto, 1)
    world.objects.add(lost("replace", HEAD, applied=True))
    world.objects.add(Fault("get", HEAD, before=world.overtake))
    drop(world.onto)
    with world.stranger() as onto:
        assert {stored.name for stored in onto.stored_types()} == {"Customer", "Product"}
        assert onto.head() == 2


def test_a_drop_that_got_lost_and_was_overtaken_is_not_done(world: World) -> None:
    batch(world.onto, 1)
    world.objects.add(lost("replace", HEAD, applied=False))
    world.objects.add(Fault("get", HEAD, before=world.overtake))
    with pytest.raises(OntologiaError):
        drop(world.onto)
    with world.stranger() as onto:
        assert [one.seats for one in onto.query().relations(Subscription)] == [1] * 4


def test_a_purge_that_fails_after_the_type_is_dropped_is_finished_by_cleaning_up(world: World) -> None:
    batch(world.onto, 1)
    world.objects.add(Fault("delete*", "commits/*", times=None, fail="error"))
    with suppress(StorageBackendError):
        drop(world.onto)
    world.objects.clear()
    assert {stored.name for stored in world.onto.stored_types()} == {"Customer", "Product"}
    world.clock.set(world.clock.now() + timedelta(hours=1))
    world.onto.gc(grace=timedelta(days=-1), apply=True)
    assert [one.key for one in world.memory.list("commits/") if "Subscription" in one.key] == []


def test_a_late_writer_does_not_undo_the_list_of_types(world: World) -> None:
    """It uploads its own list after another writer has registered a type and committed."""
    batch(world.onto, 1)
    late = world.open(world.objects, world.clock, entity_types=[Novelty])

    def overtaken() -> None:
        world.lock_is_lost()
        write(world.open(world.memory, an_hour_on(), entity_types=[Gadget]), Gadget(id="g", size=1))

    world.objects.add(Fault("put", TYPES, before=overtaken))
    write(late, Novelty(id="n", number=1))
    write(world.other(), Customer(id="z", name="z"))
    with world.stranger() as onto:
        assert {stored.name for stored in onto.stored_types()} >= {"Novelty", "Gadget"}
    assert b"Gadget" in world.memory.get(TYPES).data
    assert b"Novelty" in world.memory.get(TYPES).data
    assert world.onto.verify_index() == []


@pytest.mark.parametrize("overtaken", [True, False])
def test_a_list_of_types_that_a_dead_attempt_left_is_put_right_by_the_next_commit(
    world: World, *, overtaken: bool
) -> None:
    """Whoever reads the public layout must not see a type that was never committed, or miss one that was."""
    batch(world.onto, 1)

    def overtake() -> None:
        world.lock_is_lost()
        write(world.open(world.memory, an_hour_on(), entity_types=[Gadget]), Gadget(id="g", size=1))

    if overtaken:
        world.objects.add(Fault("put", TYPES, before=overtake))
    world.objects.add(Fault("replace", HEAD, fail="refused"))
    with pytest.raises(StorageBackendError):
        write(world.open(world.objects, world.clock, entity_types=[Novelty]), Novelty(id="n", number=1))
    write(world.other(), Customer(id="z", name="z"))
    listed = json.loads(world.memory.get(TYPES).data)["entities"]
    assert listed == ["Customer", *(["Gadget"] if overtaken else []), "Product"]


def test_a_store_that_is_begun_anew_during_a_commit_shows_nothing_of_the_old_one(world: World) -> None:
    noted(world.onto, 1)

    def begin_anew() -> None:
        world.lock_is_lost()
        token = initialise_on(world.memory, world.config, force=True, dry_run=True).token
        initialise_on(world.memory, world.config, force=True, token=token, clock=an_hour_on())

    world.objects.add(Fault("replace", HEAD, before=begin_anew))
    assert committed(world.onto, 2) in (1, *SURE)
    assert [note for _, note in world.log()] in (["2"], [])
    with world.stranger() as onto:
        assert {one.name for one in onto.query().entities(Customer).with_history()} <= {"2"}


def test_what_init_learned_of_a_careless_server_is_known_to_whoever_opens_the_store(tmp_path: Path) -> None:
    """A server that deletes whatever the condition says must never be trusted with the release of a lock."""
    memory = CarelessMemory()
    config = OntologiaConfig(s3_cache_dir=str(tmp_path))
    made = initialise_on(memory, config)
    assert any("delete-if-match" in note for note in made.notes)
    memory.conditional_delete = True  # as a port has it that was opened in another process
    objects = FaultyObjects(memory)
    with open_on(objects, config) as onto:
        objects.add(Fault("delete", LOCK, before=lambda: memory.put(LOCK, b"of another writer")))
        write(onto, Customer(id="a", name="1"))
        assert onto.storage_info()["conditional_delete"] is False


# Whatever happens


SURE = {"lock-contention", "lease-expired", "head-mismatch", "storage-backend"}
"""Errors that say that nothing was committed."""


def committed(onto: Ontology, note: int) -> int | str | None:
    """The number of a commit, or the kind of its error."""
    try:
        return noted(onto, note)
    except OntologiaError as error:
        return error.kind


FATES = {
    "seed": st.integers(0, 2**32),
    "chance": st.sampled_from([0.02, 0.08, 0.25]),
    "rivals": st.booleans(),
}


@settings(max_examples=15)
@given(**FATES)
def test_the_log_has_what_was_acknowledged_and_nothing_that_was_said_to_have_failed(
    seed: int, chance: float, *, rivals: bool
) -> None:
    assert_honest(seed, chance, rivals=rivals)


@pytest.mark.soak
@settings(max_examples=1000)
@given(**FATES)
def test_the_log_has_what_was_acknowledged_for_a_long_time(seed: int, chance: float, *, rivals: bool) -> None:
    assert_honest(seed, chance, rivals=rivals)


def assert_honest(seed: int, chance: float, *, rivals: bool) -> None:
    """Commit on a bad day, and hold what was said against the log."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        for module in (head, lock):
            patched.setattr(module.time, "sleep", lambda _: None)
        world = World(folder)
        broken = [ChaoticObjects(world.memory, (seed, name), chance) for name in range(1 + rivals)]
        clock = ManualClock(SystemClock().now())
        writers = [opened_in_spite(lambda one=one: world.open(one, clock)) for one in broken]
        outcomes: dict[int, int | str | None] = {}
        for note in range(8):
            outcomes[note] = committed(writers[note % len(writers)], note)
            clock.set(clock.now() + timedelta(minutes=2))
        log = world.log()
        assert [number for number, _ in log] == list(range(1, len(log) + 1))
        where = {note: number for number, note in log}
        assert len(where) == len(log), "nothing is committed twice"
        for note, outcome in outcomes.items():
            if isinstance(outcome, int):
                assert where.get(str(note)) == outcome
            elif outcome in SURE:
                assert str(note) not in where, outcome
            else:
                assert outcome == "commit-state-unknown"
        world.close()
        with world.stranger() as onto:
            assert committed(onto, 99) == len(log) + 1
            assert onto.verify_index() == []


def opened_in_spite(open_store: Callable[[], Ontology]) -> Ontology:
    """Open a store on a bad day: try until it works."""
    while True:
        try:
            return open_store()
        except StorageBackendError:
            continue


@settings(max_examples=8)
@given(seed=st.integers(0, 2**32))
def test_readers_on_a_bad_day_see_whole_commits_or_an_error(seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(folder)
        for number in range(1, 4):
            batch(world.onto, number)
        config = world.config.model_copy(update={"s3_cache_dir": f"{folder}/cold"})
        broken = ChaoticObjects(world.memory, seed, 0.2)
        reader = opened_in_spite(lambda: open_on(broken, config, an_hour_on()))
        for at in (None, 1, 2, 3):
            try:
                assert numbers(reader, at) == {at or 3}
            except StorageBackendError:
                continue
        world.close()
