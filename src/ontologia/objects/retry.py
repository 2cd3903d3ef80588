"""When a request is sent again: named policies, with growing random pauses and a bound on the time they take.

A policy knows nothing of requests. `Retries` asks what a failure was (see `failures`), pauses, and gives up when the
attempts or the time of the policy are spent; the last failure is then the caller's.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from ontologia.objects.failures import Failed, Kind

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Policy:
    """Which failures are worth another attempt, how many, and how long to pause between them."""

    name: str
    again: frozenset[Kind]
    attempts: int = 6
    within_s: float = 30.0
    """No attempt begins later than this after the first."""
    first_pause_s: float = 0.05
    longest_pause_s: float = 2.0
    throttled_pause_s: float = 0.5
    """The first pause when the server asks for fewer requests."""
    longest_throttled_pause_s: float = 8.0

    def pause(self, attempt: int, kind: Kind, chance: float) -> float:
        """Seconds to wait after the failed attempt number `attempt` (from 1), for a `chance` between 0 and 1.

        Half of the pause is left to chance: clients that failed together do not come back together.
        """
        first, longest = (
            (self.throttled_pause_s, self.longest_throttled_pause_s)
            if kind == "throttled"
            else (self.first_pause_s, self.longest_pause_s)
        )
        return min(longest, first * 2.0 ** (attempt - 1)) * (0.5 + chance / 2)


IDEMPOTENT = Policy("idempotent", frozenset({"unsent", "lost", "throttled"}))
"""Reads, listings, and writes that a second time change nothing."""

CONDITIONAL = Policy("conditional", frozenset({"unsent"}))
"""Conditional writes: sent again only when no server can have seen the first one."""


@dataclass(frozen=True, slots=True)
class Retries:
    """Carries a policy out. A test hands in its own time."""

    pause: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = field(default=random.random)

    def run(self, policy: Policy, attempt: Callable[[], T]) -> T:
        """The result of the first attempt that succeeds; the failure of the last one otherwise."""
        began = self.now()
        for number in range(1, policy.attempts + 1):
            try:
                return attempt()
            except Failed as failed:
                if not self.worth_another(policy, failed.failure.kind, number, began):
                    raise
                self.pause(policy.pause(number, failed.failure.kind, self.chance()))
        raise AssertionError("the last attempt returned or raised")

    def worth_another(self, policy: Policy, kind: Kind, attempts: int, began: float) -> bool:
        """Whether the policy allows one more attempt after so many."""
        longest = policy.pause(attempts, kind, 1.0)
        return kind in policy.again and attempts < policy.attempts and self.now() + longest - began <= policy.within_s
