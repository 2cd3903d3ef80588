"""Object storage in memory keeps the promises of the port."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from ontologia.base.clock import ManualClock
from ontologia.objects.memory import MemoryObjects
from ontologia.objects.port import Conflict, Missing, Objects


@pytest.fixture
def objects() -> Objects:
    return MemoryObjects(clock=ManualClock(datetime(2026, 1, 1, tzinfo=UTC)))


def test_what_is_written_is_read_whole_in_part_and_by_size(objects: Objects) -> None:
    etag = objects.put("a", b"0123456789")
    assert objects.get("a").data == b"0123456789"
    assert objects.get("a").etag == etag
    assert objects.get_range("a", 2, 5) == b"234"
    assert objects.get_range("a", 8, 50) == b"89"
    assert objects.size("a") == 10


def test_an_object_that_changed_is_told_from_one_that_did_not(objects: Objects) -> None:
    etag = objects.put("a", b"same")
    assert objects.get_if_changed("a", etag) is None
    objects.put("a", b"same")
    held = objects.get_if_changed("a", etag)
    assert held is not None
    assert held.etag != etag


def test_what_is_not_there_is_missing(objects: Objects) -> None:
    for ask in (
        lambda: objects.get("a"),
        lambda: objects.get_if_changed("a", "1"),
        lambda: objects.get_range("a", 0, 1),
        lambda: objects.size("a"),
    ):
        with pytest.raises(Missing, match="a"):
            ask()
    objects.delete("a")
    objects.delete_many(["a", "b"])


def test_conditions_that_do_not_hold_change_nothing(objects: Objects) -> None:
    stale = objects.put("a", b"one")
    objects.put("a", b"two")
    for attempt in (
        lambda: objects.create("a", b"three"),
        lambda: objects.replace("a", b"three", stale),
        lambda: objects.replace("gone", b"three", stale),
        lambda: objects.delete("a", if_match=stale),
        lambda: objects.delete("gone", if_match=stale),
    ):
        with pytest.raises(Conflict):
            attempt()
    assert objects.get("a").data == b"two"
    assert [one.key for one in objects.list("")] == ["a"]


def test_conditions_that_hold_are_carried_out(objects: Objects) -> None:
    etag = objects.create("a", b"one")
    etag = objects.replace("a", b"two", etag)
    objects.delete("a", if_match=etag)
    assert not list(objects.list(""))


def test_one_of_many_creators_wins(objects: Objects) -> None:
    def create(number: int) -> bool:
        try:
            objects.create("lock", str(number).encode())
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(create, range(50))) == 1


def test_a_listing_is_in_order_below_a_prefix_and_after_a_key(objects: Objects) -> None:
    for key in ("b/2", "a/1", "b/10", "b", "c"):
        objects.put(key, key.encode())
    assert [one.key for one in objects.list("b")] == ["b", "b/10", "b/2"]
    found = list(objects.list("b/", after="b/10"))
    assert [(one.key, one.size, one.modified) for one in found] == [("b/2", 3, datetime(2026, 1, 1, tzinfo=UTC))]
    objects.delete_many(["b", "b/2"])
    assert [one.key for one in objects.list("b")] == ["b/10"]
