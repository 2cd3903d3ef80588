"""Requests counted: how many there were, which, and how many had to wait for one another.

`steps` is the number of round trips that a caller waits for: of requests side by side only the longest row counts.
Side by side is what was handed to `Together`; the figure comes from what waits for what, and not from a clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ontologia.objects.port import Objects, path
from ontologia.objects.wrapped import Request, WrappedObjects

T = TypeVar("T")

_ERA = 1 << 40
"""More requests than anybody makes between two resets."""


@dataclass(frozen=True, slots=True)
class Counted:
    """One request, and how many in a row had ended before it began, plus itself."""

    method: str
    key: str
    step: int


class CountingObjects(WrappedObjects):
    """A port that remembers every request that passes through it."""

    def __init__(self, inner: Objects) -> None:
        super().__init__(inner)
        self._lock = threading.Lock()
        self._counted: list[Counted] = []
        self._era = 0

    def around(self, request: Request, call: Callable[[], T]) -> T:
        """Carry a request out and note it down, whether it succeeds or not."""
        with self._lock:
            # What led here before the last reset does not count: its era is a smaller figure than this one's.
            reached = max(self._era, path.get().get(self, 0)) + 1
            self._counted.append(Counted(request.method, request.key, reached - self._era))
        try:
            return call()
        finally:
            path.set({**path.get(), self: reached})

    @property
    def counted(self) -> tuple[Counted, ...]:
        """The requests so far, in the order in which they began."""
        with self._lock:
            return tuple(self._counted)

    @property
    def requests(self) -> list[tuple[str, str]]:
        """Method and key of the requests so far, in the order in which they began."""
        return [(one.method, one.key) for one in self.counted]

    @property
    def count(self) -> int:
        """How many requests there were."""
        return len(self.counted)

    @property
    def steps(self) -> int:
        """The most requests of which each began after the one before had ended."""
        return max((one.step for one in self.counted), default=0)

    def reset(self) -> None:
        """Forget the requests so far."""
        with self._lock:
            self._counted.clear()
            self._era += _ERA
