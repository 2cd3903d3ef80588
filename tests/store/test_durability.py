"""What is acknowledged stays, whatever happens to the process or the disk: killed anywhere, or full.

The children of these tests are in `children.py`; a child that is killed leaves the file as it was at that instant.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from store.children import Item, Pair, Twin, open_items, write_batch

from ontologia import StorageBackendError
from ontologia.testing.faults import Child

SCRIPT = Path(__file__).with_name("children.py")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "onto.db")


def assert_whole(path: str, acknowledged: list[tuple[int, int]]) -> None:
    """The store opens, verifies, holds every acknowledged commit, and every commit is there whole or not at all."""
    onto = open_items(path)
    assert onto.verify() == []
    last = max((commit for commit, _ in acknowledged), default=0)
    assert onto.head() in {last, last + 1}, "one commit may have been published without being acknowledged"
    for commit, number in acknowledged[-3:]:
        for cls in (Item, Twin):
            assert {thing.number for thing in onto.query().entities(cls).as_of(commit)} == {number}
        assert {pair.number for pair in onto.query().relations(Pair).as_of(commit)} == {number}
    for cls in (Item, Twin):
        assert len({thing.number for thing in onto.query().entities(cls)}) <= 1
    assert write_batch(onto, "w", 10**6) == onto.head()
    onto.close()


@pytest.mark.parametrize("seed", range(4))
def test_a_store_killed_at_a_random_moment_keeps_what_it_acknowledged(path: str, seed: int) -> None:
    dice = random.Random(seed)
    acknowledged: list[tuple[int, int]] = []
    for _ in range(2):
        open_items(path).close()
        child = Child(SCRIPT, ["batches", path, "w"])
        for _ in range(dice.randrange(1, 12)):
            child.next_line()
        time.sleep(dice.random() * 0.02)
        lines = child.kill()
        acknowledged += [(int(commit), int(number)) for commit, number in (line.split() for line in lines)]
        assert_whole(path, acknowledged)
        acknowledged = [(open_items(path).head(), 10**6)]


@pytest.mark.parametrize("point", ["before-append", "after-append", "before-publish", "midway"])
def test_a_commit_that_dies_before_it_is_published_leaves_no_trace(path: str, point: str) -> None:
    assert Child(SCRIPT, ["die", path, point]).wait(expect=-9) == ["1"]
    onto = open_items(path)
    assert onto.head() == 1
    assert {item.number for item in onto.query().entities(Item).with_history()} == {1}
    assert onto.query().entities(Twin).count() == 20
    assert_whole(path, [(1, 1)])


def test_a_commit_that_dies_after_it_is_published_is_there(path: str) -> None:
    assert Child(SCRIPT, ["die", path, "after-publish"]).wait(expect=-9) == ["1"]
    onto = open_items(path)
    assert onto.head() == 2
    assert {item.number for item in onto.query().entities(Item)} == {2}
    assert_whole(path, [(1, 1), (2, 2)])


def test_a_migration_that_dies_leaves_the_old_type(path: str) -> None:
    assert Child(SCRIPT, ["die", path, "migrating"]).wait(expect=-9) == ["1"]
    onto = open_items(path)
    onto.validate()
    assert [len(stored.versions) for stored in onto.stored_types()] == [1, 1, 1]
    assert_whole(path, [(1, 1)])


def test_a_file_copied_with_its_log_is_a_whole_store(path: str, tmp_path: Path) -> None:
    """What a crash of the machine leaves: the file and its write-ahead log, without the shared index."""
    with Child(SCRIPT, ["batches", path, "w"]) as child:
        for _ in range(5):
            child.next_line()
        child.kill()
    copy = tmp_path / "copy"
    copy.mkdir()
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", copy / f"onto.db{suffix}")
    lines = [line.split() for line in child.lines]
    assert_whole(str(copy / "onto.db"), [(int(commit), int(number)) for commit, number in lines])


def test_a_torn_log_loses_only_what_was_not_yet_safe(path: str, tmp_path: Path) -> None:
    with Child(SCRIPT, ["batches", path, "w"]) as child:
        for _ in range(8):
            child.next_line()
        child.kill()
    log = Path(f"{path}-wal")
    log.write_bytes(log.read_bytes()[:-1000])
    onto = open_items(path)
    assert onto.verify() == []
    assert len({item.number for item in onto.query().entities(Item)}) == 1


def test_a_full_disk_is_a_typed_error_and_room_makes_the_retry_succeed(path: str) -> None:
    first, *commits, kind, state, retried = Child(SCRIPT, ["fill", path]).wait()
    head, rows = map(int, state.split())
    assert first == "1"
    assert kind == "storage-backend"
    assert head == 1 + len(commits)
    assert rows == 20 + 100 * len(commits)
    assert int(retried) == head + 1
    onto = open_items(path)
    assert onto.query().entities(Twin).count() == rows + 100
    assert onto.verify() == []


def test_a_full_file_system_is_a_typed_error(tmp_path: Path) -> None:
    """The same on a real, small file system, where this user may mount one."""
    place = tmp_path / "small"
    place.mkdir()
    mount = shutil.which("mount")
    if (
        mount is None
        or subprocess.run(
            [mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("this user may not mount a file system")
    try:
        fill_up(str(place / "onto.db"))
    finally:
        subprocess.run(["umount", "--lazy", str(place)], capture_output=True, check=True)  # noqa: S607 - on the path


def fill_up(path: str) -> None:
    """Write more than there is room for, and then something small."""
    with open_items(path) as onto:
        write_batch(onto, "w", 1)
        session = onto.session()
        session.ensure(Twin(id=f"{at}", number=1, filler="x" * 1000) for at in range(2000))
        with pytest.raises(StorageBackendError, match="full"):
            session.commit()
        assert onto.head() == 1
        assert onto.query().entities(Twin).count() == 20
        assert write_batch(onto, "w", 2) == 2
        assert onto.verify() == []
