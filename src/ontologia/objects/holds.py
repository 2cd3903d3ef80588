"""Who is at work on which file of a cache: turns keep two threads from doing the same work, pins keep files in place.

Both are for one process. A pin lasts as long as the `Hold` that it was made for.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Generator
from contextlib import contextmanager


class Hold:
    """Files that this process does not sweep away for as long as this lives."""

    __slots__ = ("__weakref__", "_names", "_released")

    def __init__(self, released: deque[str]) -> None:
        self._names: list[str] = []
        self._released = released

    def add(self, name: str) -> None:
        """Have the pin of a name end with this."""
        self._names.append(name)

    def __del__(self) -> None:
        # Collection may come at any time, also while a lock is held: here names only queue up.
        self._released.extend(self._names)


class Pins:
    """How often each file is pinned."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._released: deque[str] = deque()

    def hold(self) -> Hold:
        return Hold(self._released)

    @contextmanager
    def pinned(self, name: str, hold: Hold | None) -> Generator[None]:
        """Keep a file meanwhile, and as long as a hold lives."""
        with self._lock:
            self._counts[name] += 1 if hold is None else 2
        if hold is not None:
            hold.add(name)
        try:
            yield
        finally:
            self._released.append(name)

    def unless_pinned(self, name: str, remove: Callable[[str], bool]) -> bool:
        """Remove a file, unless it is pinned; nobody can pin it in between."""
        with self._lock:
            while self._released:
                released = self._released.popleft()
                self._counts[released] -= 1
                if self._counts[released] <= 0:
                    del self._counts[released]
            return name not in self._counts and remove(name)


class Turns:
    """One thread at a time for each name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: dict[str, tuple[threading.Lock, list[None]]] = {}

    @contextmanager
    def of(self, name: str) -> Generator[None]:
        """Wait for the others who want this name; the next one finds what this one did."""
        with self._lock:
            lock, waiting = self._taken.setdefault(name, (threading.Lock(), []))
            waiting.append(None)
        try:
            with lock:
                yield
        finally:
            with self._lock:
                waiting.pop()
                if not waiting:
                    del self._taken[name]
