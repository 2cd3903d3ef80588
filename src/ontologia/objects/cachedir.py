"""A directory that keeps files up to a number of bytes; what was used longest ago goes first.

Files appear whole or not at all, whoever is killed meanwhile, and several processes may use one directory. Names come
from object keys by a spelling that can be reversed, stays below the directory whatever the key, and tells keys apart
that differ only in case also where the file system does not.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_~%.")
_USUAL = re.compile(r"[a-zA-Z0-9_~%-][a-zA-Z0-9_~%.-]{0,59}")
_SMALL = str.maketrans({letter: f"!{letter.lower()}" for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"})
_SPELLED = re.compile(r"!([a-z])|((?:@[0-9a-f]{2})+)")
_LONGEST = 120
_SCRATCH, _SPILL, _SWEPT = ".tmp", ".spill", ".swept"
_STALE_SCRATCH_S = 3600
_STALE_SPILL_S = 24 * 3600
_SWEEP_AGAIN_S = 600
_TOUCH_S = 60
_PATIENCE = 10
COMPANION = "#about"
"""A file with this behind its name goes with the file of that name. No spelled name has this character."""


@lru_cache(maxsize=65_536)
def spelled(key: str) -> str:
    """A key as a relative path of safe names."""
    return "/".join(_pieces(segment) for segment in key.split("/"))


def _pieces(segment: str) -> str:
    """One segment as one name, or as several where it is longer than file systems allow."""
    if _USUAL.fullmatch(segment):
        return segment.translate(_SMALL)
    if not segment:
        return "@"
    name = "".join(_letter(letter) for letter in segment)
    pieces = [name[start : start + _LONGEST] for start in range(0, len(name), _LONGEST)]
    return "+/".join("@2e" + piece[1:] if piece[0] == "." else piece for piece in pieces)


def _letter(letter: str) -> str:
    if letter in _PLAIN:
        return letter
    if "A" <= letter <= "Z":
        return f"!{letter.lower()}"
    return "".join(f"@{byte:02x}" for byte in letter.encode("utf-8", "surrogatepass"))


def read_back(path: str) -> str:
    """The key that was spelled so."""
    segments = path.replace("+/", "").split("/")
    return "/".join("" if name == "@" else _SPELLED.sub(_unspelled, name) for name in segments)


def _unspelled(match: re.Match[str]) -> str:
    if match[1]:
        return match[1].upper()
    return bytes.fromhex(match[2].replace("@", "")).decode("utf-8", "surrogatepass")


class CacheDirectory:
    """Files below one root, by relative path."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._prepared = False
        self._usage: int | None = None
        self._since_sweep = 0
        self._sweeping = threading.Lock()

    def write(self, relative: str, produce: Callable[[Path], None]) -> Path:
        """A new file, made under another name and moved to its place."""
        target = self.root / relative
        scratch = self.root / _SCRATCH / f"{os.getpid()}-{secrets.token_hex(8)}"
        try:
            if not self._prepared:
                self._made(_SCRATCH)
                self._prepared = True
            produce(scratch)
            _move(scratch, target)
        except BaseException:
            # The whole root may be gone, by hand.
            self._prepared = False
            with contextlib.suppress(OSError):
                scratch.unlink()
            raise
        return target

    def _made(self, folder: str) -> Path:
        # What is cached may be nobody else's business.
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.root / folder
        path.mkdir(exist_ok=True)
        return path

    def spill(self) -> Path:
        """A new directory for what does not fit into memory; removed by its user, or by a sweep a day later."""
        path = self._made(_SPILL) / f"{os.getpid()}-{secrets.token_hex(8)}"
        path.mkdir()
        return path

    def touch(self, relative: str, modified: float) -> None:
        """Note that a file was used; once a minute is often enough."""
        if time.time() - modified > _TOUCH_S:
            with contextlib.suppress(OSError):
                os.utime(self.root / relative)

    def remove(self, relative: str) -> bool:
        """Remove a file and its companion; False when it was gone. A file that cannot be removed stays."""
        path = self.root / relative
        gone = False
        for one in (path, path.with_name(path.name + COMPANION)):
            with contextlib.suppress(OSError):
                one.unlink()
                gone = True
        with contextlib.suppress(OSError):
            # The first level stays: a writer may be about to put something there.
            for parent in path.relative_to(self.root).parents[:-2]:
                (self.root / parent).rmdir()
        return gone

    def remove_tree(self, relative: str) -> None:
        shutil.rmtree(self.root / relative, ignore_errors=True)

    def files(self, below: str) -> Iterator[str]:
        """Relative paths of all files below a directory, companions aside."""
        for entry in _walk(self.root / below):
            if not entry.name.endswith(COMPANION):
                yield Path(entry.path).relative_to(self.root).as_posix()

    def account(self, size: int, limit: int, take: Callable[[str], bool]) -> None:
        """Note that something was written, and make room when there is too much. `take` removes a file if it may."""
        if self._usage is None:
            self._usage = self._last_sweep()
        if self._usage is not None:
            self._usage += size
        self._since_sweep += size
        # Others write here too: what one process has seen is an estimate, so it looks again long before the limit.
        if self._usage is None or self._usage > limit or self._since_sweep > limit // 8:
            self.sweep(limit, take)

    def _last_sweep(self) -> int | None:
        """What the last sweep of any process left, if that was recently."""
        try:
            mark = self.root / _SWEPT
            if time.time() - mark.stat().st_mtime < _SWEEP_AGAIN_S:
                return int(mark.read_text(encoding="ascii"))
        except (OSError, ValueError):
            pass
        return None

    def sweep(self, limit: int, take: Callable[[str], bool]) -> None:
        """Remove what was used longest ago until a tenth of the limit is free, and what killed processes left."""
        if not self._sweeping.acquire(blocking=False):
            return
        try:
            self._since_sweep = 0
            found = self._found()
            total = sum(size for _, _, size in found)
            if total > limit:
                for _, relative, size in sorted(found):
                    if total <= limit - limit // 10:
                        break
                    if take(relative):
                        total -= size
            self._usage = total
            with contextlib.suppress(OSError):
                (self.root / _SWEPT).write_text(str(total), encoding="ascii")
        finally:
            self._sweeping.release()

    def make_room(self, size: int, take: Callable[[str], bool]) -> None:
        """Give back a quarter of what is kept, and at least a size: the disk is full."""
        total = sum(kept for _, _, kept in self._found())
        self.sweep(max(0, total - max(size, total // 4)), take)

    def _found(self) -> Sequence[tuple[float, str, int]]:
        """When each file was last used, its name, and its size with its companion's."""
        now = time.time()
        found: dict[str, tuple[float, int]] = {}
        companions: dict[str, tuple[float, int]] = {}
        for entry in _walk(self.root):
            try:
                state = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            relative = Path(entry.path).relative_to(self.root)
            stale = {_SCRATCH: _STALE_SCRATCH_S, _SPILL: _STALE_SPILL_S, _SWEPT: float("inf")}.get(relative.parts[0])
            if stale is not None:
                if now - state.st_mtime > stale:
                    self.remove(relative.as_posix())
                continue
            name = relative.as_posix()
            where = companions if name.endswith(COMPANION) else found
            where[name.removesuffix(COMPANION)] = (state.st_mtime, state.st_size)
        for name, (modified, size) in companions.items():
            owner = found.get(name)
            if owner is not None:
                found[name] = (owner[0], owner[1] + size)
            elif now - modified > _STALE_SCRATCH_S:
                found[name] = (modified, size)
        return [(modified, name, size) for name, (modified, size) in found.items()]


def _move(scratch: Path, target: Path) -> None:
    for attempt in range(1, _PATIENCE + 1):
        try:
            scratch.replace(target)
        except FileNotFoundError:
            # The directory is new, or a sweep found it empty and removed it.
            if attempt == _PATIENCE:
                raise
            target.parent.mkdir(parents=True, exist_ok=True)
        except PermissionError:
            # Where an open file cannot be replaced, somebody reads the same bytes from it.
            if not target.exists():
                raise
            scratch.unlink()
            return
        else:
            return


def _walk(top: Path) -> Iterator[os.DirEntry[str]]:
    """Every file below a directory; what vanishes meanwhile is passed over."""
    waiting = [str(top)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                found = list(entries)
        except OSError:
            continue
        for entry in found:
            try:
                is_directory = entry.is_dir(follow_symlinks=False)
            except OSError:
                continue
            if is_directory:
                waiting.append(entry.path)
            else:
                yield entry
