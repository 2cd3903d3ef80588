"""The write lock by itself: taken, kept, lost, taken over and given back, whatever happens to the responses.

Time is a clock that the test moves, except where the thread that renews is the subject: it has a short lease then.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from store_objects.broken import Memory, SimpleMemory, lost

from ontologia import IntegrityError, LeaseExpiredError, LockContentionError, OntologiaConfig
from ontologia.base.clock import ManualClock, SystemClock
from ontologia.objects.faults import Fault, FaultyObjects
from ontologia.objects.port import Missing, Objects, OutcomeUnknown
from ontologia.store.objects.keys import LOCK
from ontologia.store.objects.lock import Lease, WriteLock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TTL = timedelta(seconds=30)
PATIENCE = 20
"""Seconds that a test waits for a thread before it fails; nothing takes as long."""


class Desk:
    """One place where locks lie, and several writers who want them."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.objects = FaultyObjects(self.memory)
        self.clock = ManualClock(NOON)

    def writer(self, name: str, **settings: Any) -> WriteLock:
        """A writer whose requests can be interfered with."""
        return self._writer(self.objects, name, settings)

    def rival(self, name: str, **settings: Any) -> WriteLock:
        """A writer that nobody interferes with."""
        return self._writer(self.memory, name, settings)

    def _writer(self, objects: Objects, name: str, settings: dict[str, Any]) -> WriteLock:
        clock = settings.pop("clock", self.clock)
        config = OntologiaConfig(**{"runtime_id": name, "s3_lock_timeout_ms": 0, **settings})
        return WriteLock(objects, config, clock)

    def pass_time(self, part: float) -> None:
        """Let a part of a lease go by."""
        self.clock.set(self.clock.now() + TTL * part)

    @property
    def record(self) -> dict[str, Any] | None:
        """What lies there."""
        try:
            return json.loads(self.memory.get(LOCK).data)
        except Missing:
            return None

    @property
    def owner(self) -> str | None:
        return None if self.record is None else self.record["owner_id"]


@pytest.fixture
def desk() -> Desk:
    return Desk(Memory())


@pytest.fixture
def threads_fail_the_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Whatever a thread dies of."""
    died: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", died.append)
    yield died
    assert died == []


# Taking it


def test_a_lock_says_who_has_it_and_until_when(desk: Desk) -> None:
    lock = desk.writer("anna")
    lease = lock.acquire()
    record = desk.record
    assert record is not None
    assert (record["owner_id"], record["lease_ttl_ms"]) == ("anna", 30_000)
    assert datetime.fromisoformat(record["acquired_at"]) == NOON
    assert datetime.fromisoformat(record["expires_at"]) == NOON + TTL
    holder = lock.holder()
    assert holder is not None
    assert holder.owner_id == "anna"
    lease.ensure_safe()
    lease.release()
    assert desk.record is None
    assert lock.holder() is None


def test_a_writer_that_waits_too_long_is_told_who_is_in_the_way(desk: Desk) -> None:
    lease = desk.rival("anna").acquire()
    with pytest.raises(LockContentionError, match="anna") as caught:
        desk.writer("bert", s3_lock_timeout_ms=30).acquire()
    assert caught.value.owner_id == "anna"
    assert "s3_lock_timeout_ms" in str(caught.value.hint)
    assert desk.owner == "anna"
    lease.release()


def test_a_writer_that_may_wait_gets_its_turn(desk: Desk) -> None:
    lease = desk.rival("anna").acquire()
    desk.objects.add(Fault("create", LOCK, nth=3, before=lease.release))
    theirs = desk.writer("bert", s3_lock_timeout_ms=60_000).acquire()
    assert desk.owner == "bert"
    theirs.release()


def test_a_lock_is_left_alone_until_its_lease_has_run_out(desk: Desk) -> None:
    abandoned = desk.rival("anna").acquire()
    desk.pass_time(0.999)
    with pytest.raises(LockContentionError):
        desk.writer("bert").acquire()
    desk.pass_time(0.001)
    lease = desk.writer("bert").acquire()
    assert desk.owner == "bert"
    abandoned.release()
    assert desk.owner == "bert", "the old owner gives back only what is its own"
    lease.release()
    assert desk.record is None


def test_of_two_that_take_over_at_once_one_gets_it(desk: Desk) -> None:
    desk.rival("anna").acquire()
    desk.pass_time(1)
    won: list[Lease] = []
    desk.objects.add(Fault("replace", LOCK, before=lambda: won.append(desk.rival("carl").acquire())))
    with pytest.raises(LockContentionError):
        desk.writer("bert").acquire()
    assert desk.owner == "carl"
    won[0].ensure_safe()
    won[0].release()


def test_a_lock_of_another_program_is_respected_and_taken_over(desk: Desk) -> None:
    times = {"acquired_at": NOON.isoformat(), "expires_at": (NOON + TTL).isoformat()}
    desk.memory.put(LOCK, json.dumps({"owner_id": "theirs", "lease_ttl_ms": 30_000, **times}).encode())
    with pytest.raises(LockContentionError, match="theirs"):
        desk.writer("anna").acquire()
    desk.pass_time(1)
    desk.writer("anna").acquire().release()
    assert desk.record is None


def test_a_lock_without_a_time_zone_is_read_as_utc_or_refused(desk: Desk) -> None:
    times = {"acquired_at": "2026-01-01T12:00:00", "expires_at": "2026-01-01T12:00:30"}
    desk.memory.put(LOCK, json.dumps({"owner_id": "theirs", "lease_ttl_ms": 30_000, **times}).encode())
    with pytest.raises((LockContentionError, IntegrityError)):
        desk.writer("anna").acquire()


def test_a_lock_that_cannot_be_read_is_said_and_left_alone(desk: Desk) -> None:
    desk.memory.put(LOCK, b"{")
    with pytest.raises(IntegrityError, match=LOCK):
        desk.writer("anna").acquire()
    assert desk.memory.get(LOCK).data == b"{"


# Keeping it


def test_a_lease_is_unsafe_when_a_third_of_it_is_left(desk: Desk) -> None:
    lease = desk.writer("anna").acquire()
    desk.pass_time(0.66)
    lease.ensure_safe()
    desk.pass_time(0.01)
    with pytest.raises(LeaseExpiredError) as caught:
        lease.ensure_safe()
    assert caught.value.owner_id == "anna"
    lease.release()
    assert desk.record is None


def renewals(objects: FaultyObjects, count: int) -> threading.Event:
    """Set once so many renewals were carried out."""
    done = threading.Event()
    objects.add(Fault("replace", LOCK, nth=count, after=done.set))
    return done


@pytest.fixture
def quick(desk: Desk, threads_fail_the_test: list[Any]) -> Callable[[str], WriteLock]:
    """Writers with a lease of 300 ms of real time."""
    return lambda name: desk.writer(name, s3_lease_ttl_ms=300, clock=SystemClock())


def test_a_thread_renews_the_lease_while_work_goes_on(desk: Desk, quick: Callable[[str], WriteLock]) -> None:
    done = renewals(desk.objects, 4)
    lease = quick("anna").acquire()
    first, began = desk.record, lease.expires_at
    assert done.wait(PATIENCE)
    lease.ensure_safe()
    assert lease.expires_at > began + 0.2, "the local end of the lease moves with it"
    record = desk.record
    assert record is not None
    assert first is not None
    assert record["expires_at"] > first["expires_at"]
    assert (record["acquired_at"], record["owner_id"]) == (first["acquired_at"], "anna")
    lease.release()
    assert desk.record is None


@pytest.mark.parametrize("applied", [True, False])
def test_a_renewal_whose_response_is_lost_is_looked_up(
    desk: Desk, quick: Callable[[str], WriteLock], *, applied: bool
) -> None:
    lock = quick("anna")
    desk.objects.add(lost("replace", LOCK, applied=applied))
    done = renewals(desk.objects, 3 + applied)
    lease = lock.acquire()
    assert done.wait(PATIENCE)
    lease.ensure_safe()
    lease.release()
    assert desk.record is None, "whatever tag the lock has by now, it is known to be ours"


@pytest.mark.parametrize("same_name", [True, False])
def test_a_lease_that_was_taken_over_is_lost_even_to_a_namesake(
    desk: Desk, quick: Callable[[str], WriteLock], *, same_name: bool
) -> None:
    thief = "anna" if same_name else "bert"
    taken = threading.Event()

    def steal() -> None:
        desk.memory.delete(LOCK)
        desk.rival(thief).acquire()

    desk.objects.add(Fault("replace", LOCK, before=steal))
    desk.objects.add(Fault("get", LOCK, after=taken.set))
    lease = quick("anna").acquire()
    assert taken.wait(PATIENCE)
    lease._keeper.join(PATIENCE)
    with pytest.raises(LeaseExpiredError, match=thief):
        lease.ensure_safe()
    before = desk.memory.get(LOCK)
    lease.release()
    assert desk.memory.get(LOCK) == before


def test_a_lock_that_vanished_is_a_lost_lease(desk: Desk, quick: Callable[[str], WriteLock]) -> None:
    desk.objects.add(Fault("replace", LOCK, before=lambda: desk.memory.delete(LOCK)))
    lease = quick("anna").acquire()
    lease._keeper.join(PATIENCE)
    with pytest.raises(LeaseExpiredError, match="gone"):
        lease.ensure_safe()
    lease.release()


def test_renewals_that_keep_failing_end_the_lease_and_raise_nowhere_else(
    desk: Desk, quick: Callable[[str], WriteLock]
) -> None:
    desk.objects.add(Fault("replace", LOCK, times=10_000, fail="refused"))
    lease = quick("anna").acquire()
    lease.ensure_safe()
    lease._keeper.join(PATIENCE)
    assert not lease._keeper.is_alive()
    with pytest.raises(LeaseExpiredError):
        lease.ensure_safe()
    lease.release()


def test_even_an_error_that_nobody_foresaw_stays_in_the_thread(desk: Desk, quick: Callable[[str], WriteLock]) -> None:
    def surprise() -> None:
        raise ZeroDivisionError

    desk.objects.add(Fault("replace", LOCK, times=10_000, before=surprise))
    lease = quick("anna").acquire()
    lease._keeper.join(PATIENCE)
    with pytest.raises(LeaseExpiredError):
        lease.ensure_safe()
    lease.release()


# Lost responses


@pytest.mark.parametrize("applied", [True, False])
def test_a_lock_whose_creation_got_lost_is_ours_exactly_once(desk: Desk, *, applied: bool) -> None:
    desk.objects.add(lost("create", LOCK, applied=applied))
    lease = desk.writer("anna", s3_lock_timeout_ms=5000).acquire()
    lease.ensure_safe()
    assert desk.owner == "anna"
    lease.release()
    assert desk.record is None


def test_a_creation_that_reaches_the_server_late_is_not_taken_for_longer_than_it_says(desk: Desk) -> None:
    """The first attempt is carried out after it was looked for; the second meets it half a lease later."""
    sent: list[bytes] = []
    plain = desk.memory.create

    def delay(key: str, data: bytes) -> str:
        if key == LOCK and not sent:
            sent.append(data)
            raise OutcomeUnknown(key)
        return plain(key, data)

    desk.memory.create = delay  # pyright: ignore[reportAttributeAccessIssue]

    desk.objects.add(Fault("get", LOCK, before=lambda: desk.pass_time(0.5)))
    desk.objects.add(Fault("create", LOCK, nth=2, before=lambda: plain(LOCK, sent[0])))
    lease = desk.writer("anna", s3_lock_timeout_ms=5000).acquire()
    record = desk.record
    assert record is not None
    assert datetime.fromisoformat(record["expires_at"]) == NOON + TTL
    desk.pass_time(0.4)
    with pytest.raises(LeaseExpiredError):
        lease.ensure_safe()
    lease.release()


@pytest.mark.parametrize("applied", [True, False])
def test_a_takeover_whose_response_is_lost_is_looked_up(desk: Desk, *, applied: bool) -> None:
    desk.rival("anna").acquire()
    desk.pass_time(1)
    desk.objects.add(lost("replace", LOCK, applied=applied))
    lease = desk.writer("bert", s3_lock_timeout_ms=5000).acquire()
    lease.ensure_safe()
    assert desk.owner == "bert"
    lease.release()
    assert desk.record is None


def test_a_takeover_that_got_lost_against_a_rival_is_the_rivals(desk: Desk) -> None:
    desk.rival("anna").acquire()
    desk.pass_time(1)
    desk.objects.add(Fault("replace", LOCK, before=lambda: desk.rival("carl").acquire()))
    desk.objects.add(lost("replace", LOCK, applied=False))
    with pytest.raises(LockContentionError):
        desk.writer("bert").acquire()
    assert desk.owner == "carl"


@pytest.mark.parametrize("applied", [True, False])
def test_a_release_whose_response_is_lost_is_no_error(desk: Desk, *, applied: bool) -> None:
    desk.objects.add(lost("delete", LOCK, applied=applied))
    desk.writer("anna").acquire().release()
    if not applied:
        assert desk.owner in {None, "anna"}
        desk.pass_time(1)
    desk.writer("bert").acquire().release()
    assert desk.record is None


def test_a_release_that_got_lost_does_not_lock_the_writer_out_of_its_own_store(desk: Desk) -> None:
    """One lost request must not cost the next commit of the same program half a minute."""
    lock = desk.writer("anna", s3_lock_timeout_ms=50)
    desk.objects.add(lost("delete", LOCK, applied=False))
    lock.acquire().release()
    lock.acquire().release()
    assert desk.record is None


def test_a_release_that_fails_is_no_error(desk: Desk) -> None:
    desk.objects.add(Fault("delete", LOCK, times=10, fail="refused"))
    desk.writer("anna").acquire().release()
    assert desk.owner == "anna"
    desk.pass_time(1)
    desk.objects.clear()
    desk.writer("bert").acquire().release()
    assert desk.record is None


# A server that cannot delete under a condition


@pytest.fixture
def simple() -> Desk:
    """On such a server."""
    return Desk(SimpleMemory())


def test_without_conditional_delete_a_lock_is_given_back_by_ending_its_lease(simple: Desk) -> None:
    lock = simple.writer("anna")
    lock.acquire().release()
    record = simple.record
    assert record is not None
    assert datetime.fromisoformat(record["expires_at"]) <= simple.clock.now()
    assert lock.holder() is None
    theirs = simple.writer("bert").acquire()
    assert simple.owner == "bert"
    with pytest.raises(LockContentionError, match="bert"):
        lock.acquire()
    theirs.release()
    lock.acquire().release()


def test_without_conditional_delete_the_same_writer_takes_it_again_in_one_request(simple: Desk) -> None:
    lock = simple.writer("anna")
    lock.acquire().release()
    asked: list[str] = []
    for method in ("get", "create", "replace"):
        simple.objects.add(Fault(method, LOCK, times=10, before=lambda method=method: asked.append(method)))
    lock.acquire().release()
    assert asked == ["replace", "replace"]


def test_without_conditional_delete_a_lock_taken_over_is_left_to_its_new_owner(simple: Desk) -> None:
    lease = simple.writer("anna").acquire()
    simple.pass_time(1)
    theirs = simple.writer("bert").acquire()
    lease.release()
    assert simple.owner == "bert"
    theirs.ensure_safe()
    theirs.release()


def test_a_server_that_turns_out_not_to_delete_under_a_condition_costs_no_commit(simple: Desk) -> None:
    """The port learns it from the first answer, after the work under the lock is done."""
    simple.memory.conditional_delete = True

    def learns() -> None:
        simple.memory.conditional_delete = False

    simple.objects.add(Fault("delete", LOCK, before=learns))
    simple.writer("anna").acquire().release()
    assert simple.writer("anna").holder() is None
    simple.writer("bert").acquire().release()


def test_without_conditional_delete_a_lost_release_only_costs_time(simple: Desk) -> None:
    for applied in (True, False):
        lease = simple.writer("anna").acquire()
        simple.objects.add(lost("replace", LOCK, applied=applied))
        lease.release()
        simple.pass_time(1)
        simple.writer("bert").acquire().release()
        simple.pass_time(1)
