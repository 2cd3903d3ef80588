"""Object storage within this process: the whole port, kept in a dict. It is for tests and for trying things out.

Every method takes one lock, so conditional writes are atomic and a listing shows one moment. Tags are new with every
write, also of the same bytes, so that a condition never holds by accident.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count

from ontologia.base.clock import Clock, SystemClock
from ontologia.objects.port import Conflict, Held, Listed, Missing


@dataclass(frozen=True, slots=True)
class _Kept:
    data: bytes
    etag: str
    modified: datetime


class MemoryObjects:
    """A prefix of its own, gone with the process."""

    def __init__(self, name: str = "memory", *, clock: Clock | None = None) -> None:
        self.uri = f"memory://{name}"
        self.bucket = name
        self.prefix = ""
        self.conditional_delete = True
        self._clock: Clock = clock or SystemClock()
        self._kept: dict[str, _Kept] = {}
        self._tags = count(1)
        self._lock = threading.Lock()

    def _there(self, key: str) -> _Kept:
        kept = self._kept.get(key)
        if kept is None:
            raise Missing(key)
        return kept

    def _write(self, key: str, data: bytes) -> str:
        kept = _Kept(bytes(data), f"{next(self._tags):x}", self._clock.now())
        self._kept[key] = kept
        return kept.etag

    def _demand(self, key: str, etag: str) -> None:
        kept = self._kept.get(key)
        if kept is None or kept.etag != etag:
            raise Conflict(key)

    def get(self, key: str) -> Held:
        with self._lock:
            kept = self._there(key)
        return Held(kept.data, kept.etag)

    def get_if_changed(self, key: str, etag: str) -> Held | None:
        held = self.get(key)
        return None if held.etag == etag else held

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self.get(key).data[start:end]

    def size(self, key: str) -> int:
        return len(self.get(key).data)

    def put(self, key: str, data: bytes) -> str:
        with self._lock:
            return self._write(key, data)

    def create(self, key: str, data: bytes) -> str:
        with self._lock:
            if key in self._kept:
                raise Conflict(key)
            return self._write(key, data)

    def replace(self, key: str, data: bytes, etag: str) -> str:
        with self._lock:
            self._demand(key, etag)
            return self._write(key, data)

    def delete(self, key: str, *, if_match: str | None = None) -> None:
        with self._lock:
            if if_match is not None:
                self._demand(key, if_match)
            self._kept.pop(key, None)

    def delete_many(self, keys: Sequence[str]) -> None:
        with self._lock:
            for key in keys:
                self._kept.pop(key, None)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Listed]:
        with self._lock:
            found = [
                Listed(key, len(kept.data), kept.modified, kept.etag)
                for key, kept in self._kept.items()
                if key.startswith(prefix) and (after is None or key > after)
            ]
        return iter(sorted(found, key=lambda one: one.key))

    def close(self) -> None:
        """Nothing is held that needs closing."""
