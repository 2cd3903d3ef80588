"""Immutable objects kept on disk, so that none is fetched twice; what was used longest ago makes room.

A file is checked against its hash when it is fetched and when this process first meets it on disk; a damaged one is
fetched again. Several processes may share a root. Where the root cannot be written, a temporary directory stands in for
it. A path stays valid while a `Hold` on it lives, as far as this process goes: another one may still make room, and
whoever finds a path gone asks for it again.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ontologia.errors import IntegrityError, StorageBackendError
from ontologia.objects.cachedir import COMPANION, CacheDirectory, read_back, spelled
from ontologia.objects.holds import Hold, Pins, Turns
from ontologia.objects.recent import Recent

Fetch: TypeAlias = Callable[[], bytes]
_OBJECTS, _RECORDS, _DERIVED = "objects", "records", "derived"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class DiskCache:
    """The objects of one store, below a root that all stores share."""

    def __init__(self, root: Path, store_id: str, max_bytes: int) -> None:
        self.root = Path(os.path.realpath(root))
        self.max_bytes = max_bytes
        self.problem: str | None = None
        """Why the root is not written to, when it is not."""
        self._store = spelled(store_id).replace("/", "@2f")
        self._begin()

    def _begin(self) -> None:
        """The state of one process: a forked child takes over neither locks nor the temporary directory."""
        self._process = os.getpid()
        spare = Path(os.path.realpath(tempfile.gettempdir())) / f"ontologia-cache-{secrets.token_hex(12)}"
        self._main, self._spare = CacheDirectory(self.root), CacheDirectory(spare)
        self._turns, self._pins, self._recent = Turns(), Pins(), Recent()
        self._checked: set[tuple[str, str | None]] = set()
        self._finalizer = weakref.finalize(self, _remove_spare, self._process, spare)

    def _here(self) -> None:
        if self._process != os.getpid():
            self._begin()

    @property
    def directories(self) -> tuple[Path, Path]:
        """Where files may lie: the root, and what stands in for it."""
        self._here()
        return self._main.root, self._spare.root

    def hold(self) -> Hold:
        self._here()
        return self._pins.hold()

    def spill(self) -> Path:
        """A new directory below the root for what does not fit into memory; the caller removes it."""
        self._here()
        try:
            return self._main.spill()
        except OSError as unwritable:
            try:
                return self._spare.spill()
            except OSError:
                raise self._unwritable(unwritable) from unwritable

    def path(self, key: str, sha256: str | None, fetch: Fetch, *, hold: Hold | None = None) -> Path:
        """The file of an object, fetched if it is not there."""
        self._here()
        name = self._name(_OBJECTS, key)
        with self._pins.pinned(name, hold):
            if (name, sha256) in self._checked and (found := self._sound(name, sha256)) is not None:
                return found
            with self._turns.of(name):
                found = self._sound(name, sha256)
                while found is None:
                    epoch = self._recent.epoch
                    found = self._keep(name, _verified(fetch, key, sha256))
                    if not self._is_current(name, epoch):
                        found = None
                self._checked.add((name, sha256))
                return found

    def is_ready(self, key: str, sha256: str | None) -> bool:
        """Whether `path` would answer at once: the file is there and was checked."""
        self._here()
        name = self._name(_OBJECTS, key)
        return (name, sha256) in self._checked and self._sound(name, sha256) is not None

    def get_bytes(self, key: str, sha256: str | None, fetch: Fetch, *, aspect: str = "") -> bytes:
        """A small object, or an `aspect` of it that `fetch` makes; kept in memory, too."""
        self._here()
        name = self._name(_RECORDS + aspect, key)
        label = f"{sha256} {name}"
        if (found := self._recent.get(label)) is not None:
            return found
        with self._pins.pinned(name, None), self._turns.of(name):
            epoch = self._recent.epoch
            found = self._record(name, sha256)
            while found is None:
                epoch = self._recent.epoch
                found = _verified(fetch, key, sha256)
                self._keep(name, hashlib.sha256(found).hexdigest().encode() + b"\n" + found)
                if not self._is_current(name, epoch):
                    found = None
        self._recent.put(label, found, epoch)
        return found

    def find_derived(self, name: str, *, hold: Hold | None = None) -> Path | None:
        """A file that `derive` made, if it is still there."""
        self._here()
        place = self._name(_DERIVED, name)
        with self._pins.pinned(place, hold):
            if (place, None) in self._checked:
                return self._sound(place, None)
            with self._turns.of(place):
                return self._derived(place)

    def derive(
        self, name: str, members: Sequence[str], make: Callable[[Path], None], *, hold: Hold | None = None
    ) -> Path | None:
        """A file that `make` writes from the objects with these keys, and that is forgotten with any of them.

        None when one was forgotten meanwhile. The name must say what the content is; `OSError` when it cannot be kept.
        """
        self._here()
        place = self._name(_DERIVED, name)
        with self._pins.pinned(place, hold), self._turns.of(place):
            if (found := self._derived(place)) is not None:
                return found
            epoch, directory = self._recent.epoch, self._directory
            about: dict[str, Any] = {"members": list(members)}

            def produce(scratch: Path) -> None:
                make(scratch)
                about["sha256"] = _digest(scratch)

            path = directory.write(place, produce)
            text = json.dumps(about).encode()
            directory.write(place + COMPANION, lambda scratch: _write(scratch, text))
            if not self._is_current(place, epoch):
                return None
            self._checked.add((place, None))
            directory.account(path.stat().st_size + len(text), self.max_bytes, self._taker(directory))
            return path

    def demote(self, paths: Iterable[Path]) -> None:
        """Let these files be the first to go: what is in them lies elsewhere, too."""
        for path in paths:
            with contextlib.suppress(OSError):
                os.utime(path, (1, 1))

    def doubt(self) -> None:
        """Check every file again at its next use."""
        self._here()
        self._checked.clear()

    def forget(self, which: str | Callable[[str], bool]) -> int:
        """Remove objects by a prefix of their keys or by a test of them, and all that was made from these objects."""
        self._here()
        prefix = which if isinstance(which, str) else ""

        def meant(key: str) -> bool:
            return key.startswith(prefix) if isinstance(which, str) else which(key)

        self._recent.clear()
        removed: set[str] = set()
        for directory in (self._main, self._spare):
            for name, keys in (*self._kept(directory, prefix), *self._made(directory)):
                if any(meant(key) for key in keys) and directory.remove(name):
                    removed.add(name)
        self._checked -= {mark for mark in self._checked.copy() if mark[0] in removed}
        return len(removed)

    def forget_store(self) -> None:
        """Remove all that is kept of this store."""
        self._here()
        self._recent.clear()
        for directory in (self._main, self._spare):
            directory.remove_tree(self._store)
        self._checked.clear()

    def close(self) -> None:
        """Remove what stood in for the root, if anything did."""
        self._finalizer()

    def _name(self, kind: str, key: str) -> str:
        return f"{self._store}/{kind}/{spelled(key)}"

    @property
    def _directory(self) -> CacheDirectory:
        return self._main if self.problem is None else self._spare

    def _is_current(self, name: str, epoch: int) -> bool:
        """Whether nothing was forgotten since; otherwise what was just written may have been, and goes again."""
        if epoch == self._recent.epoch:
            return True
        for directory in (self._main, self._spare):
            directory.remove(name)
        return False

    def _kept(self, directory: CacheDirectory, prefix: str) -> Iterator[tuple[str, list[str]]]:
        """Objects and records whose keys may have a prefix, by file name."""
        # Only whole segments of a prefix are a directory.
        folder = prefix.rpartition("/")[0]
        folders: list[Path] = []
        with contextlib.suppress(OSError):
            folders = list((directory.root / self._store).iterdir())
        for kind in (path.name for path in folders if path.name != _DERIVED):
            top = f"{self._store}/{kind}"
            for name in directory.files(self._name(kind, folder) if folder else top):
                yield name, [read_back(name.removeprefix(f"{top}/"))]

    def _made(self, directory: CacheDirectory) -> Iterator[tuple[str, list[str]]]:
        """Derived files and the keys of what they were made from."""
        for name in directory.files(f"{self._store}/{_DERIVED}"):
            yield name, _about(directory.root / name).get("members", [])

    def _taker(self, directory: CacheDirectory) -> Callable[[str], bool]:
        return lambda name: self._pins.unless_pinned(name, directory.remove)

    def _sound(self, name: str, sha256: str | None) -> Path | None:
        """The file if it is there and what it should be; a damaged one is dropped."""
        for directory in (self._main, self._spare):
            path = directory.root / name
            try:
                state = path.stat()
                if (name, sha256) not in self._checked:
                    if state.st_size == 0 or (sha256 is not None and _digest(path) != sha256):
                        directory.remove(name)
                        continue
                    self._checked.add((name, sha256))
            except OSError:
                continue
            directory.touch(name, state.st_mtime)
            return path
        return None

    def _derived(self, place: str) -> Path | None:
        for directory in (self._main, self._spare):
            sha256 = _about(directory.root / place).get("sha256")
            if sha256 is not None and (found := self._sound(place, sha256)) is not None:
                self._checked.add((place, None))
                return found
        return None

    def _record(self, name: str, sha256: str | None) -> bytes | None:
        """A record from disk. It begins with the hash of what follows, because most come without one."""
        for directory in (self._main, self._spare):
            path = directory.root / name
            try:
                modified, data = path.stat().st_mtime, path.read_bytes()
            except OSError:
                continue
            seal, _, content = data.partition(b"\n")
            actual = hashlib.sha256(content).hexdigest()
            if seal == actual.encode() and sha256 in (None, actual):
                directory.touch(name, modified)
                return content
            directory.remove(name)
        return None

    def _keep(self, name: str, data: bytes) -> Path:
        """Write a file: below the root if that can be, else in the temporary directory."""
        for directory in (self._directory, self._directory, self._spare):
            try:
                path = directory.write(name, lambda scratch: _write(scratch, data))
            except OSError as error:
                failure = error
                if directory is self._main and error.errno in _FULL:
                    directory.make_room(len(data), self._taker(directory))
                elif directory is self._main and error.errno != errno.ENOENT:
                    self.problem = f"{self.root} cannot be written ({error.strerror})."
            else:
                directory.account(len(data), self.max_bytes, self._taker(directory))
                return path
        raise self._unwritable(failure) from failure

    def _unwritable(self, error: OSError) -> StorageBackendError:
        return StorageBackendError(
            f"Neither {self.root} nor {self._spare.root.parent} can be written ({error.strerror}).",
            hint="Free some space, or set s3_cache_dir to a directory that can be written.",
            operation="cache",
            path=str(self.root),
        )


def _verified(fetch: Fetch, key: str, sha256: str | None) -> bytes:
    """An object as it was committed; what went wrong on the way is fetched once more."""
    if sha256 is None:
        return fetch()
    actual = ""
    for _ in range(2):
        data = fetch()
        actual = hashlib.sha256(data).hexdigest()
        if actual == sha256:
            return data
    raise IntegrityError(
        f"The object {key} is not what was committed: its hash is {actual[:12]}…, not {sha256[:12]}….",
        hint="`onto verify` tells what else is wrong; restore the object from a backup.",
        key=key,
    )


def _about(path: Path) -> dict[str, Any]:
    """What the companion of a file says; nothing when there is none."""
    try:
        return json.loads(path.with_name(path.name + COMPANION).read_bytes())
    except (OSError, ValueError):
        return {}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _remove_spare(process: int, path: Path) -> None:
    if process == os.getpid():
        shutil.rmtree(path, ignore_errors=True)
