"""Doing a whole write again when another writer was first.

A head that moved means that everything compared under it may have changed, so the write starts over from the lock;
the number of times is bounded, and the pauses between them grow and differ between writers.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from ontologia.errors import HeadMismatchError

T = TypeVar("T")
TRIES = 6


def with_fresh_heads(write: Callable[[], T]) -> T:
    """The result of a write, begun anew while others move the head first; HeadMismatchError after the last try."""
    for attempt in range(TRIES - 1):
        try:
            return write()
        except HeadMismatchError:
            time.sleep(0.01 * 2**attempt + random.uniform(0, 0.02))  # noqa: S311 - jitter, not a secret
    return write()
