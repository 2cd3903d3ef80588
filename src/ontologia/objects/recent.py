"""A bounded number of bytes in memory: what was used longest ago goes first.

Whoever forgets something while it is being fetched must not find it here afterwards: what comes with an old epoch is
not taken.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

_BYTES = 32_000_000
_LARGEST = 4_000_000


class Recent:
    """Small values by name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self.epoch = 0
        """How often everything was forgotten."""

    def get(self, name: str) -> bytes | None:
        with self._lock:
            if name in self._values:
                self._values.move_to_end(name)
            return self._values.get(name)

    def put(self, name: str, data: bytes, epoch: int) -> None:
        """Keep a value that was asked for in this epoch."""
        if len(data) > _LARGEST:
            return
        with self._lock:
            if epoch != self.epoch:
                return
            self._bytes += len(data) - len(self._values.pop(name, b""))
            self._values[name] = data
            while self._bytes > _BYTES:
                self._bytes -= len(self._values.popitem(last=False)[1])

    def clear(self) -> None:
        with self._lock:
            self.epoch += 1
            self._values.clear()
            self._bytes = 0
