"""The head by itself: read cheaply, swapped under a condition, and never guessed at when a response is lost.

Each test names what the server did and what this program learned of it. The store around the head is in
`test_lost_responses`.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from store_objects.broken import Memory, lost

from ontologia import (
    CommitStateUnknownError,
    FormatVersionError,
    HeadMismatchError,
    IntegrityError,
    StorageBackendError,
    UninitializedStorageError,
)
from ontologia.objects.faults import Fault, FaultyObjects
from ontologia.store.objects import head as module
from ontologia.store.objects.head import HeadPointer, SeenHead
from ontologia.store.objects.keys import HEAD
from ontologia.store.objects.records import Head, encode

FIRST = Head(4, "commits/4-aaaa/manifest.json", "2026-01-01T00:00:00+00:00", "anna", store_id="s", catalog="c")
OURS = replace(FIRST, commit_id=5, manifest_path="commits/5-ours/manifest.json")
THEIRS = replace(FIRST, commit_id=5, manifest_path="commits/5-theirs/manifest.json", runtime_id="bert")
BEYOND = replace(THEIRS, commit_id=6, manifest_path="commits/6-theirs/manifest.json")


class Place:
    """A head, and a pointer to it whose requests can be interfered with."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.objects = FaultyObjects(self.memory)
        self.pointer = HeadPointer(self.objects)
        self.put(FIRST)
        self.pointer.read()
        self.asked: list[Head] = []

    def put(self, head: Head) -> None:
        self.memory.put(HEAD, encode(head.to_json()))

    @property
    def head(self) -> Head:
        return Head.from_json(json.loads(self.memory.get(HEAD).data))

    def swap(self, *, ours: bool | None = None) -> SeenHead:
        """Put ours in place; `ours` answers whether a head that moved on goes back to ours, if that may be asked."""

        def was_ours(head: Head) -> bool:
            assert ours is not None, "nobody should have to ask"
            self.asked.append(head)
            return ours

        return self.pointer.swap(self.pointer.read(), OURS, was_ours)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    return Place()


def count(objects: FaultyObjects, method: str) -> list[str]:
    """Counts the requests of a method from now on."""
    seen: list[str] = []
    objects.add(Fault(method, HEAD, times=1000, before=lambda: seen.append(method)))
    return seen


def test_a_prefix_without_a_head_is_no_store(place: Place) -> None:
    place.memory.delete(HEAD)
    with pytest.raises(UninitializedStorageError, match="onto init"):
        place.pointer.read()


def test_a_head_that_has_not_moved_is_not_sent_again(place: Place) -> None:
    first = place.pointer.read()
    gets = count(place.objects, "get")
    assert place.pointer.read() is first
    place.put(THEIRS)
    assert place.pointer.read().head == THEIRS
    assert gets == []


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", b'{"commit_id": 1, "manifest_path": null}'])
def test_a_head_that_is_none_is_said_to_be_so(place: Place, data: bytes) -> None:
    place.memory.put(HEAD, data)
    with pytest.raises(IntegrityError, match=HEAD):
        place.pointer.read()


def test_a_head_of_a_newer_program_is_not_read(place: Place) -> None:
    place.put(replace(FIRST, format=99))
    with pytest.raises(FormatVersionError):
        place.pointer.read()


def test_a_late_answer_does_not_bring_an_older_head_back(place: Place) -> None:
    old = place.memory.get(HEAD)
    place.put(OURS)
    assert place.pointer.read().head == OURS
    place.pointer._keep(SeenHead(FIRST, old.etag))
    assert place.pointer.last is not None
    assert place.pointer.last.head == OURS


def test_a_swap_moves_the_head_in_one_request(place: Place) -> None:
    gets = count(place.objects, "get*")
    assert place.pointer.last is not None
    done = place.pointer.swap(place.pointer.last, OURS, lambda _: False)
    assert (done.head, place.head, gets) == (OURS, OURS, [])
    assert place.pointer.read() == done


def test_a_swap_from_a_stale_head_changes_nothing(place: Place) -> None:
    place.objects.add(Fault("replace", HEAD, before=lambda: place.put(THEIRS)))
    with pytest.raises(HeadMismatchError) as caught:
        place.swap(ours=False)
    assert caught.value.commit_id == 5
    assert place.head == THEIRS


def test_a_swap_that_was_made_and_whose_response_was_lost_is_a_success(place: Place) -> None:
    place.objects.add(lost("replace", HEAD, applied=True))
    writes = count(place.objects, "replace")
    assert place.swap().head == OURS
    assert (place.head, len(writes)) == (OURS, 1)


def test_a_swap_that_never_arrived_is_sent_again(place: Place) -> None:
    place.objects.add(lost("replace", HEAD, applied=False, times=2))
    assert place.swap().head == OURS
    assert place.head == OURS


def test_a_swap_that_arrives_after_it_was_looked_for_is_ours(place: Place) -> None:
    place.objects.add(lost("replace", HEAD, applied=False))
    place.objects.add(Fault("replace", HEAD, nth=2, before=lambda: place.put(OURS)))
    assert place.swap().head == OURS
    assert place.head == OURS


def test_a_swap_that_was_made_and_built_upon_is_a_success(place: Place) -> None:
    place.objects.add(lost("replace", HEAD, applied=True))
    place.objects.add(Fault("get", HEAD, before=lambda: place.put(BEYOND)))
    done = place.swap(ours=True)
    assert (done.head, place.asked) == (BEYOND, [BEYOND])
    assert place.head == BEYOND


def test_a_lost_swap_that_another_writer_overtook_is_a_mismatch(place: Place) -> None:
    place.objects.add(lost("replace", HEAD, applied=False))
    place.objects.add(Fault("get", HEAD, before=lambda: place.put(BEYOND)))
    with pytest.raises(HeadMismatchError):
        place.swap(ours=False)
    assert place.head == BEYOND


@pytest.mark.parametrize("applied", [True, False])
def test_a_lost_swap_that_cannot_be_looked_up_is_unknown(place: Place, *, applied: bool) -> None:
    place.objects.add(lost("replace", HEAD, applied=applied))
    place.objects.add(Fault("get", HEAD, times=1000, fail="refused"))
    with pytest.raises(CommitStateUnknownError) as caught:
        place.swap()
    assert (caught.value.commit_id, caught.value.manifest_path) == (5, OURS.manifest_path)
    assert str(OURS.manifest_path) in str(caught.value.hint), "the attempt can be looked for"


def test_a_lost_swap_is_looked_up_more_than_once(place: Place) -> None:
    place.objects.add(lost("replace", HEAD, applied=True))
    place.objects.add(Fault("get", HEAD, times=2, fail="refused"))
    assert place.swap().head == OURS


def test_a_history_that_cannot_be_read_leaves_the_outcome_unknown(place: Place) -> None:
    """The head moved on; whether it goes back to ours cannot be learned."""
    place.objects.add(lost("replace", HEAD, applied=True))
    place.objects.add(Fault("get", HEAD, before=lambda: place.put(BEYOND)))

    def unreadable(head: Head) -> bool:
        raise StorageBackendError(f"no manifest of {head.commit_id}")

    with pytest.raises(CommitStateUnknownError):
        place.pointer.swap(place.pointer.read(), OURS, unreadable)


def test_a_swap_that_is_lost_every_time_is_unknown_though_the_head_stands_still(place: Place) -> None:
    """The last request may still be on its way: neither success nor failure can be said."""
    place.objects.add(lost("replace", HEAD, applied=False, times=1000))
    with pytest.raises(CommitStateUnknownError):
        place.swap()
    assert place.head == FIRST


def test_a_swap_that_was_refused_is_no_mystery(place: Place) -> None:
    place.objects.add(Fault("replace", HEAD, fail="refused"))
    with pytest.raises(StorageBackendError):
        place.swap()
    assert place.head == FIRST


def test_a_refusal_after_a_lost_swap_does_not_say_that_nothing_happened(place: Place) -> None:
    """First lost, not there yet when looked for, then refused: the first may still arrive."""
    place.objects.add(lost("replace", HEAD, applied=False))
    place.objects.add(Fault("replace", HEAD, nth=2, fail="refused"))
    with pytest.raises(CommitStateUnknownError):
        place.swap()


def test_a_store_that_was_begun_anew_meanwhile_is_not_ours(place: Place) -> None:
    emptied = Head(0, None, "2026-01-02T00:00:00+00:00", "onto-init", store_id="new", catalog="c")
    place.objects.add(Fault("replace", HEAD, before=lambda: place.put(emptied)))
    with pytest.raises(HeadMismatchError):
        place.swap(ours=False)
    assert place.head == emptied


def test_a_head_that_is_gone_leaves_the_outcome_unknown(place: Place) -> None:
    place.objects.add(Fault("replace", HEAD, before=lambda: place.memory.delete(HEAD)))
    with pytest.raises(CommitStateUnknownError):
        place.swap()
