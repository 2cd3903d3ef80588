"""The cache of objects: nothing is fetched twice, nothing damaged is served, and the disk is not filled."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontologia.errors import IntegrityError, StorageBackendError
from ontologia.objects.cache import DiskCache
from ontologia.objects.cachedir import read_back, spelled
from ontologia.objects.port import Missing

LARGE = 10_000_000


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Source:
    """Objects to fetch, and how often each was."""

    def __init__(self) -> None:
        self.fetched: list[str] = []

    def data(self, key: str, size: int = 1000) -> bytes:
        return (key.encode() * (size // max(1, len(key)) + 1))[:size]

    def fetch(self, key: str, size: int = 1000) -> Callable[[], bytes]:
        def fetch() -> bytes:
            self.fetched.append(key)
            return self.data(key, size)

        return fetch

    def path(self, cache: DiskCache, key: str, size: int = 1000) -> Path:
        return cache.path(key, sha256(self.data(key, size)), self.fetch(key, size))


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file() and not path.name.startswith(".")]


def written(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def age(path: Path, seconds: float) -> None:
    """Have a file be used last so long ago."""
    then = time.time() - seconds
    os.utime(path, (then, then))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def cache(root: Path) -> DiskCache:
    return DiskCache(root, "store-1", LARGE)


@pytest.fixture
def source() -> Source:
    return Source()


def test_an_object_is_fetched_once(cache: DiskCache, source: Source) -> None:
    key = "commits/1-abc/entities/Customer.parquet"
    first, second = source.path(cache, key), source.path(cache, key)
    assert first == second
    assert first.read_bytes() == source.data(key)
    assert source.fetched == [key]


def test_another_process_finds_what_was_fetched(cache: DiskCache, root: Path, source: Source) -> None:
    source.path(cache, "a")
    assert source.path(DiskCache(root, "store-1", LARGE), "a").read_bytes() == source.data("a")
    assert source.fetched == ["a"]


def test_stores_do_not_share_objects(cache: DiskCache, root: Path, source: Source) -> None:
    source.path(cache, "a")
    source.path(DiskCache(root, "store-2", LARGE), "a")
    assert source.fetched == ["a", "a"]


def test_threads_that_want_one_object_fetch_it_once(cache: DiskCache, source: Source) -> None:
    barrier = threading.Barrier(8)

    def want(_: int) -> Path:
        barrier.wait()
        return source.path(cache, "a", 100_000)

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(want, range(8)))) == 1
    assert source.fetched == ["a"]


@pytest.mark.parametrize("damage", [b"", b"x" * 1000, b"short"])
def test_a_file_damaged_on_disk_is_fetched_again(cache: DiskCache, root: Path, source: Source, damage: bytes) -> None:
    source.path(cache, "a").write_bytes(damage)
    later = DiskCache(root, "store-1", LARGE)
    assert source.path(later, "a").read_bytes() == source.data("a")
    assert source.fetched == ["a", "a"]


def test_doubt_has_files_checked_again(cache: DiskCache, source: Source) -> None:
    path = source.path(cache, "a")
    path.write_bytes(b"x" * 1000)
    cache.doubt()
    assert source.path(cache, "a").read_bytes() == source.data("a")


def test_a_file_that_vanished_is_fetched_again(cache: DiskCache, source: Source) -> None:
    source.path(cache, "a").unlink()
    assert source.path(cache, "a").read_bytes() == source.data("a")


def test_an_object_with_the_wrong_hash_is_not_kept(cache: DiskCache, root: Path) -> None:
    with pytest.raises(IntegrityError, match="commits/1") as raised:
        cache.path("commits/1", sha256(b"right"), lambda: b"wrong")
    assert raised.value.key == "commits/1"
    assert not files(root)


def test_one_bad_response_is_asked_for_again(cache: DiskCache) -> None:
    answers = iter([b"wrong", b"right"])
    assert cache.path("a", sha256(b"right"), lambda: next(answers)).read_bytes() == b"right"


def test_what_is_missing_is_told_to_the_caller_and_not_remembered(cache: DiskCache, source: Source) -> None:
    def missing() -> bytes:
        raise Missing("a")

    for _ in range(2):
        with pytest.raises(Missing):
            cache.path("a", None, missing)
    assert source.path(cache, "a").read_bytes() == source.data("a")


def test_small_objects_come_from_memory_then_from_disk(cache: DiskCache, root: Path, source: Source) -> None:
    fetch = source.fetch("manifest.json")
    assert cache.get_bytes("manifest.json", None, fetch) == source.data("manifest.json")
    assert cache.get_bytes("manifest.json", None, fetch) == source.data("manifest.json")
    assert DiskCache(root, "store-1", LARGE).get_bytes("manifest.json", None, fetch) == source.data("manifest.json")
    assert source.fetched == ["manifest.json"]


def test_a_small_object_damaged_on_disk_is_noticed_without_a_given_hash(
    cache: DiskCache, root: Path, source: Source
) -> None:
    cache.get_bytes("m", None, source.fetch("m"))
    (path,) = files(root)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert DiskCache(root, "store-1", LARGE).get_bytes("m", None, source.fetch("m")) == source.data("m")
    assert source.fetched == ["m", "m"]


def test_a_small_object_with_the_wrong_hash_is_an_error(cache: DiskCache) -> None:
    cache.get_bytes("m", None, lambda: b"one")
    with pytest.raises(IntegrityError):
        cache.get_bytes("m", sha256(b"two"), lambda: b"one")


def test_what_was_used_longest_ago_goes_first(root: Path, source: Source) -> None:
    cache = DiskCache(root, "store-1", 10_000)
    paths = [source.path(cache, f"k{number}") for number in range(9)]
    for number, path in enumerate(paths):
        age(path, 1000 - number)
    source.path(cache, "k0")
    source.path(cache, "new", 2000)
    assert [path.exists() for path in paths] == [True, False, False, *[True] * 6]
    assert sum(path.stat().st_size for path in files(root)) <= 10_000


def test_all_stores_below_a_root_share_the_limit(root: Path, source: Source) -> None:
    one, two = DiskCache(root, "store-1", 10_000), DiskCache(root, "store-2", 10_000)
    old = source.path(one, "old", 6000)
    age(old, 1000)
    source.path(two, "new", 6000)
    assert not old.exists()


def test_what_is_held_stays_whatever_the_limit(root: Path, source: Source) -> None:
    cache = DiskCache(root, "store-1", 2000)
    hold = cache.hold()
    paths = [cache.path(f"k{number}", None, source.fetch(f"k{number}", 1500), hold=hold) for number in range(5)]
    assert all(path.exists() for path in paths)
    del hold
    source.path(cache, "next", 1500)
    assert sum(path.exists() for path in paths) == 0


def test_a_limit_of_nothing_still_reads(root: Path, source: Source) -> None:
    cache = DiskCache(root, "store-1", 0)
    hold = cache.hold()
    assert cache.path("a", None, source.fetch("a"), hold=hold).read_bytes() == source.data("a")
    assert cache.get_bytes("m", None, source.fetch("m")) == source.data("m")


def test_leftovers_of_killed_processes_are_swept(root: Path, source: Source) -> None:
    cache = DiskCache(root, "store-1", 2000)
    source.path(cache, "a", 100)
    spill = cache.spill() / "duckdb_temp_0.tmp"
    left, fresh = root / ".tmp" / "1-left", root / ".tmp" / "1-fresh"
    for path in (spill, left, fresh):
        path.write_bytes(b"x" * 100)
    age(left, 7200)
    age(spill, 2 * 24 * 3600)
    source.path(cache, "b", 2500)
    assert not left.exists()
    assert not spill.exists()
    assert fresh.exists()


def test_forgetting_removes_by_prefix_and_what_was_made_from_it(cache: DiskCache, root: Path, source: Source) -> None:
    for key in ("commits/1-a/entities/A.parquet", "commits/1-a/entities/B.parquet", "commits/12-b/entities/A.parquet"):
        source.path(cache, key)
    cache.get_bytes("commits/1-a/manifest.json", None, source.fetch("manifest"))
    keys = ["commits/1-a/entities/A.parquet", "commits/12-b/entities/A.parquet"]
    both = cache.derive("both", keys, lambda path: written(path, b"both"))
    other = cache.derive("other", keys[1:], lambda path: written(path, b"other"))
    assert cache.forget("commits/1-a/") == 4
    assert both is not None
    assert other is not None
    assert not both.exists()
    assert other.exists()
    assert cache.find_derived("both") is None
    assert cache.find_derived("other") == other
    assert {path.name for path in files(root)} == {"!a.parquet", "other", "other#about"}
    source.path(cache, "commits/1-a/entities/A.parquet")
    assert source.fetched.count("commits/1-a/entities/A.parquet") == 2


def test_forgetting_removes_by_a_test_of_keys(cache: DiskCache, source: Source) -> None:
    for key in (
        "commits/1-a/entities/A.parquet",
        "snapshots/entities/A-1-2.parquet",
        "snapshots/entities/B-1-2.parquet",
    ):
        source.path(cache, key)
    assert cache.forget(lambda key: "/A" in key) == 2
    assert cache.forget("") == 1


def test_what_is_forgotten_while_it_is_fetched_is_not_kept(cache: DiskCache, root: Path) -> None:
    answers = iter([b"purged", None])

    def fetch() -> bytes:
        answer = next(answers)
        if answer is None:
            raise Missing("a")
        cache.forget("a")
        return answer

    with pytest.raises(Missing):
        cache.path("a", None, fetch)
    assert not files(root)


def test_forgetting_a_store_leaves_the_others(cache: DiskCache, root: Path, source: Source) -> None:
    mine, other = source.path(cache, "a"), source.path(DiskCache(root, "store-2", LARGE), "a")
    cache.get_bytes("m", None, source.fetch("m"))
    cache.forget_store()
    assert not mine.exists()
    assert other.exists()
    cache.get_bytes("m", None, source.fetch("m"))
    assert source.fetched.count("m") == 2


def test_a_derived_file_is_made_once_and_checked_by_the_next_process(cache: DiskCache, root: Path) -> None:
    made: list[int] = []

    def make(path: Path) -> None:
        made.append(1)
        path.write_bytes(b"derived")

    path = cache.derive("name", ["a"], make)
    assert cache.derive("name", ["a"], make) == path
    assert path is not None
    later = DiskCache(root, "store-1", LARGE)
    assert later.find_derived("name") == path
    path.write_bytes(b"damaged")
    later = DiskCache(root, "store-1", LARGE)
    assert later.find_derived("name") is None
    assert later.derive("name", ["a"], make) == path
    assert len(made) == 2


def test_demoted_files_go_first(root: Path, source: Source) -> None:
    cache = DiskCache(root, "store-1", 10_000)
    old, folded = source.path(cache, "old", 4000), source.path(cache, "folded", 4000)
    age(old, 1000)
    cache.demote([folded])
    source.path(cache, "new", 4000)
    assert old.exists()
    assert not folded.exists()


def test_a_root_that_cannot_be_written_gives_way_to_a_temporary_directory(tmp_path: Path, source: Source) -> None:
    (tmp_path / "file").write_text("not a directory")
    cache = DiskCache(tmp_path / "file" / "cache", "store-1", LARGE)
    path = source.path(cache, "a")
    assert path.read_bytes() == source.data("a")
    assert source.path(cache, "a") == path
    assert path.is_relative_to(cache.directories[1])
    assert cache.spill().is_dir()
    assert source.fetched == ["a"]
    assert cache.problem is not None
    assert "Not a directory" in cache.problem
    cache.close()
    assert not path.exists()


def test_a_root_removed_by_hand_is_made_again(cache: DiskCache, root: Path, source: Source) -> None:
    source.path(cache, "a")
    shutil.rmtree(root)
    assert source.path(cache, "a").is_relative_to(root)
    assert cache.problem is None


def test_nowhere_to_write_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Source) -> None:
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    cache = DiskCache(tmp_path / "file" / "cache", "store-1", LARGE)
    with pytest.raises(StorageBackendError, match="s3_cache_dir"):
        source.path(cache, "a")


FULL_DISK = """
import sys
from pathlib import Path
from ontologia.objects.cache import DiskCache
cache = DiskCache(Path(sys.argv[1]), "s", 10**9)
paths = [cache.path(f"k{n}", None, lambda: b"x" * 300_000) for n in range(20)]
held = cache.hold()
kept = [cache.path(f"h{n}", None, lambda: b"x" * 300_000, hold=held) for n in range(10)]
assert all(path.stat().st_size == 300_000 for path in kept)
print(sum(path.is_relative_to(cache.directories[0]) for path in kept), cache.problem)
"""


def test_a_full_disk_makes_room_then_gives_way(tmp_path: Path) -> None:
    mounted = f"mount -t tmpfs -o size=2m tmpfs {tmp_path} && exec {sys.executable} -c '{FULL_DISK}' {tmp_path}"
    program = shutil.which("unshare")
    unshare = [program or "", "--mount", "--map-root-user", "sh", "-c"]
    if program is None or subprocess.run([*unshare, "mount -t tmpfs tmpfs /tmp"], check=False).returncode:
        pytest.skip("this system lets nobody mount a small disk")
    result = subprocess.run([*unshare, mounted], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    count, problem = result.stdout.split()
    assert 0 < int(count) < 10
    assert problem == "None"


CHURN = """
import hashlib, random, sys
from pathlib import Path
from ontologia.objects.cache import DiskCache
cache = DiskCache(Path(sys.argv[1]), "s", 40_000)
choose = random.Random(int(sys.argv[2]))
read = 0
while read < 300:
    key = f"commits/{choose.randrange(30)}/A.parquet"
    data = key.encode() * 200
    try:
        found = cache.path(key, hashlib.sha256(data).hexdigest(), lambda: data).read_bytes()
    except FileNotFoundError:
        continue
    assert found == data, key
    read += 1
print("done")
"""


def test_two_processes_share_a_small_cache(root: Path) -> None:
    children = [
        subprocess.Popen([sys.executable, "-c", CHURN, str(root), str(seed)], stdout=subprocess.PIPE, text=True)
        for seed in (1, 2)
    ]
    assert [child.communicate(timeout=60)[0] for child in children] == ["done\n", "done\n"]
    assert not list((root / ".tmp").iterdir())


WRITER = """
import hashlib, sys
from pathlib import Path
from ontologia.objects.cache import DiskCache
cache = DiskCache(Path(sys.argv[1]), "s", 10**9)
for number in range(200):
    data = bytes([number]) * 30_000_000
    key = hashlib.sha256(data).hexdigest()
    print(number, flush=True)
    cache.path(key, None, lambda: data)
"""


def test_a_process_killed_while_it_writes_leaves_no_bad_file(root: Path) -> None:
    for _ in range(3):
        shutil.rmtree(root, ignore_errors=True)
        child = subprocess.Popen([sys.executable, "-c", WRITER, str(root)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        for _ in range(2):
            child.stdout.readline()
        # The first object is there; the second is being written.
        child.send_signal(signal.SIGKILL)
        child.communicate()
        kept = files(root / "s" / "objects")
        assert kept
        assert all(sha256(path.read_bytes()) == path.name for path in kept)


def test_a_forked_child_takes_no_locks_over(cache: DiskCache, source: Source) -> None:
    source.path(cache, "a")
    with cache._turns.of("store-1/objects/b"), cache._pins._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            ok = source.path(cache, "b").exists() and source.path(cache, "a").exists()
            os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0


KEYS = st.text(st.sampled_from("aAbB./%@!+=-\\:*é\ud800\x00"), max_size=300)


@given(KEYS, KEYS)
def test_every_key_has_its_own_name_below_the_root(one: str, two: str) -> None:
    names = [spelled(key) for key in (one, two)]
    assert [read_back(name) for name in names] == [one, two]
    assert (names[0].lower() == names[1].lower()) == (one == two)
    for name in names:
        parts = name.split("/")
        assert all(part and part[0] != "." and len(part) <= 130 and part.isascii() for part in parts)
        assert all(letter.isalnum() or letter in "-_~%.@!+/" for letter in name)


@pytest.mark.parametrize("key", ["../../escape", "/etc/passwd", "a/../../b", "..", ".", ""])
def test_no_key_leaves_the_root(cache: DiskCache, root: Path, source: Source, key: str) -> None:
    path = cache.path(key, None, source.fetch(key))
    assert path.resolve().is_relative_to(root.resolve() / "store-1" / "objects")
