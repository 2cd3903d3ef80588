"""The port to object storage: whole objects by key, written under conditions, listed from a key on.

Keys are relative to the prefix that the port was opened on. Failures come as four signals, told apart by what the
caller would do: `Missing`, `Conflict` (a condition did not hold; nothing was written), `OutcomeUnknown` (a write may
or may not have happened: read back), and `StorageBackendError` (it did not happen and the caller cannot help it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

path: ContextVar[Mapping[object, int]] = ContextVar("path", default=MappingProxyType({}))
"""How many requests, one after the other, led to this point: one figure for each counter that looks on.

`Together` carries it into tasks and brings the longest path back to whoever waits for them, so that round trips are
counted by what waits for what, and not by a clock: the figure is the same on every machine.
"""


class Missing(Exception):  # noqa: N818 - a signal to our own code, never shown
    """There is no object with this key."""


class Conflict(Exception):  # noqa: N818 - a signal to our own code, never shown
    """The condition of a write does not hold; nothing was written."""


class OutcomeUnknown(Exception):  # noqa: N818 - a signal to our own code, never shown
    """The response to a write was lost, and whether it happened is not known."""


class Unsupported(NotImplementedError):  # noqa: N818 - a signal to our own code, never shown
    """The server does not know this condition; nothing was done."""


@dataclass(frozen=True, slots=True)
class Held:
    """An object as it was read: its bytes and the opaque tag of that state."""

    data: bytes
    etag: str


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of a listing."""

    key: str
    size: int
    modified: datetime
    etag: str | None = None


class Objects(Protocol):
    """A prefix in an object store; every method is safe to call from several threads.

    Each call is one request (a listing: one per thousand keys). Reads and unconditional writes are retried inside;
    conditional writes are repeated only when the server cannot have seen the first, because a repeated one may meet
    its own success.
    """

    @property
    def uri(self) -> str:
        """For people: `s3://bucket/prefix`."""
        ...

    @property
    def bucket(self) -> str: ...

    @property
    def prefix(self) -> str:
        """The part of every key that callers leave out, without a slash at its end; may be empty."""
        ...

    @property
    def conditional_delete(self) -> bool:
        """Whether `delete` honours `if_match`; when False it raises `Unsupported` for it.

        Set it to False for a server that was found to ignore the condition.
        """
        ...

    @conditional_delete.setter
    def conditional_delete(self, value: bool) -> None: ...

    def get(self, key: str) -> Held:
        """The whole object; `Missing` when there is none."""
        ...

    def get_if_changed(self, key: str, etag: str) -> Held | None:
        """The object when its tag differs from `etag`, else None; `Missing` when there is none."""
        ...

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Bytes `start` to `end`, exclusive; fewer when the object ends before. `Missing` when there is none."""
        ...

    def size(self, key: str) -> int:
        """The size of an object, without its bytes; `Missing` when there is none."""
        ...

    def put(self, key: str, data: bytes) -> str:
        """Write, whatever is there; the new tag."""
        ...

    def create(self, key: str, data: bytes) -> str:
        """Write when there is no object yet; `Conflict` or `OutcomeUnknown` otherwise.

        A server may also answer `Conflict` to one of several writers at once: the object need not be there when the
        caller then looks.
        """
        ...

    def replace(self, key: str, data: bytes, etag: str) -> str:
        """Write when the object still has this tag; `Conflict` (also when it is gone) or `OutcomeUnknown` otherwise."""
        ...

    def delete(self, key: str, *, if_match: str | None = None) -> None:
        """Remove an object.

        Without a condition, one that is gone already is no error; with one, it is `Conflict`, and a lost response is
        `OutcomeUnknown`.
        """
        ...

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove many objects, in as few requests as the server allows; those that are gone already are no error."""
        ...

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Listed]:
        """Objects whose key starts with `prefix` (any text, not only whole segments) and is greater than `after`.

        Each comes once, in the order of the server: on S3 that of the keys; some servers go folder by folder.
        """
        ...

    def close(self) -> None:
        """Let go of connections; no method may be called afterwards."""
        ...


class Together:
    """Requests side by side: a small pool of threads that a backend keeps for its lifetime."""

    def __init__(self, threads: int = 16) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="ontologia-objects")

    def start(self, task: Callable[..., T], *arguments: Any) -> Future[T]:
        """Begin one task."""
        outcome: _Outcome[T] = _Outcome()
        self._pool.submit(outcome.run, path.get(), task, *arguments)
        return outcome

    def all(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """The results of all tasks, run side by side; the first error is raised once all have ended."""
        if len(tasks) == 1:
            return [tasks[0]()]
        futures = [self.start(task) for task in tasks]
        for future in futures:
            future.exception()
        return [future.result() for future in futures]

    def close(self) -> None:
        """Wait for what was begun, then let the threads go."""
        self._pool.shutdown(wait=True)


class _Outcome(Future[T]):
    """What becomes of a task; who waits for it has come at least as far as the task has."""

    _ended: Mapping[object, int] = MappingProxyType({})

    def run(self, begun: Mapping[object, int], task: Callable[..., T], *arguments: Any) -> None:
        if not self.set_running_or_notify_cancel():
            return
        token = path.set(begun)
        try:
            result = task(*arguments)
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            self._ended = path.get()
            self.set_exception(error)
        else:
            self._ended = path.get()
            self.set_result(result)
        finally:
            path.reset(token)

    def result(self, timeout: float | None = None) -> T:
        try:
            return super().result(timeout)
        finally:
            self._join()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        try:
            return super().exception(timeout)
        finally:
            self._join()

    def _join(self) -> None:
        here = path.get()
        longer = {counter: steps for counter, steps in self._ended.items() if steps > here.get(counter, 0)}
        if longer:
            path.set({**here, **longer})
