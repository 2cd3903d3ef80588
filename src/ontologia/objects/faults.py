"""Object storage that fails on demand: responses lost, errors, timeouts, throttling, and anything in between.

A `Fault` says which calls it befalls and what then happens; the caller sees exactly what the port would show it: an
unknown outcome for a write under a condition, an error after all retries for everything else.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, TypeVar

from ontologia.errors import StorageBackendError
from ontologia.objects.failures import Failure, backend_error
from ontologia.objects.port import Objects, OutcomeUnknown
from ontologia.objects.wrapped import Request, WrappedObjects

T = TypeVar("T")

How = Literal["error", "timeout", "throttled", "refused"]

_FAILURES: dict[How, Failure] = {
    "error": Failure("lost", 500, "InternalError"),
    "timeout": Failure("lost", code="timeout"),
    "throttled": Failure("throttled", 503, "SlowDown"),
    "refused": Failure("refused", 403, "AccessDenied"),
}


def kill_process() -> None:
    """End this process as a power cut would; to be used as `before` or `after`."""
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(slots=True)
class Fault:
    """What befalls some calls.

    `before` and `after` run even when nothing else is asked for: to wait, to let another writer in, or to end the
    process.
    """

    method: str
    """A method of the port, or a pattern such as `get*`."""
    key: str = "*"
    """A key, or a pattern such as `meta/indices/*`; a listing has its prefix as key."""
    nth: int = 1
    """The first of the matching calls that it befalls."""
    times: int | None = 1
    """How many calls from there on; None: all."""
    before: Callable[[], object] | None = None
    fail: How | None = None
    """Do nothing and fail."""
    after: Callable[[], object] | None = None
    """Runs once it is done, before the caller knows."""
    lose_response: bool = False
    """Do it, and let the response be lost."""
    seen: int = field(default=0, init=False)
    """How many matching calls there were."""

    def matches(self, request: Request) -> bool:
        """Whether a request is one of those it is about."""
        return fnmatchcase(request.method, self.method) and any(fnmatchcase(key, self.key) for key in request.keys)

    def befalls(self) -> bool:
        """Count one more matching call; whether it is befallen."""
        self.seen += 1
        return self.seen >= self.nth and (self.times is None or self.seen < self.nth + self.times)


class FaultyObjects(WrappedObjects):
    """A port that fails as it is told."""

    def __init__(self, inner: Objects, *faults: Fault) -> None:
        super().__init__(inner)
        self._lock = threading.Lock()
        self._faults = list(faults)

    def add(self, fault: Fault) -> Fault:
        """From now on, let this happen too."""
        with self._lock:
            self._faults.append(fault)
        return fault

    def clear(self) -> None:
        """From now on, let nothing happen."""
        with self._lock:
            self._faults.clear()

    def around(self, request: Request, call: Callable[[], T]) -> T:
        """Carry a request out, as far as the faults let it."""
        with self._lock:
            hit = [fault for fault in self._faults if fault.matches(request) and fault.befalls()]
        for fault in hit:
            if fault.before is not None:
                fault.before()
            if fault.fail is not None:
                raise self._failed(request, _FAILURES[fault.fail])
        result = call()
        for fault in hit:
            if fault.after is not None:
                fault.after()
            if fault.lose_response:
                raise self._failed(request, _FAILURES["timeout"])
        return result

    def _failed(self, request: Request, failure: Failure) -> OutcomeUnknown | StorageBackendError:
        if request.conditional and failure.kind != "refused":
            return OutcomeUnknown(request.key)
        return backend_error(self, request.method, request.key, failure)
