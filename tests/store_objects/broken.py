"""Faults by name, and object storage that has a bad day.

`FaultyObjects` does what a `Fault` says at a request; here are the words that the tests of this folder share.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

from ontologia.objects.faults import _FAILURES, Fault, FaultyObjects
from ontologia.objects.memory import MemoryObjects
from ontologia.objects.port import Objects
from ontologia.objects.wrapped import Request

T = TypeVar("T")

WRITE = "[pcr]*"
"""A pattern for put, create and replace."""


class Memory(MemoryObjects):
    """Object storage in this process, with the kind of name that people give theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.uri = "s3://memory/here"


class SimpleMemory(Memory):
    """The same on a server that cannot delete under a condition."""

    def __init__(self) -> None:
        super().__init__()
        self.conditional_delete = False

    def delete(self, key: str, *, if_match: str | None = None) -> None:
        if if_match is not None:
            raise NotImplementedError
        super().delete(key)


class CarelessMemory(Memory):
    """The same on a server that deletes whatever the condition says; a port that is opened cannot tell."""

    def delete(self, key: str, *, if_match: str | None = None) -> None:
        del if_match
        super().delete(key)


def lost(method: str, key: str, *, applied: bool, **where: Any) -> Fault:
    """The response to a conditional write is lost: the server has carried it out, or has never seen it."""
    if applied:
        return Fault(method, key, lose_response=True, **where)
    return Fault(method, key, fail="timeout", **where)


class ChaoticObjects(FaultyObjects):
    """Some requests fail, some are lost on the way there or back, some take long; a seed says which."""

    def __init__(self, inner: Objects, seed: object, chance: float, slow_s: float = 0.0) -> None:
        super().__init__(inner)
        self._dice = random.Random(str(seed))
        self._chance = chance
        self._slow_s = slow_s

    def around(self, request: Request, call: Callable[[], T]) -> T:
        """Carry a request out, with some luck."""
        with self._lock:
            fate = self._dice.random() / self._chance
        if fate < 0.5:
            raise self._failed(request, _FAILURES["error" if fate < 0.25 else "throttled"])
        if 1 <= fate < 2 and self._slow_s:
            time.sleep(self._slow_s)  # what is slow here is the server, which has no clock of ours
        result = call()
        if fate < 1 and request.conditional:
            raise self._failed(request, _FAILURES["timeout"])
        return result
