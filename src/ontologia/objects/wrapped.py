"""The port around a port: every call passes through one method, which may look at it, count it or break it.

What a wrapper does is said once, in `around`, for all methods of the port; everything else is handed on as it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ontologia.objects.port import Held, Listed, Objects

T = TypeVar("T")

PAGE = 1000


@dataclass(frozen=True, slots=True)
class Request:
    """One request: the method of the port, the keys it concerns, and whether it writes under a condition."""

    method: str
    keys: tuple[str, ...]
    conditional: bool = False

    @property
    def key(self) -> str:
        """The key, or the first of several; the prefix of a listing."""
        return self.keys[0] if self.keys else ""


class WrappedObjects(ABC):
    """A port that hands everything on to another one, through `around`."""

    def __init__(self, inner: Objects) -> None:
        self.inner = inner

    @abstractmethod
    def around(self, request: Request, call: Callable[[], T]) -> T:
        """Carry a request out; `call` does it."""

    @property
    def uri(self) -> str:
        return self.inner.uri

    @property
    def bucket(self) -> str:
        return self.inner.bucket

    @property
    def prefix(self) -> str:
        return self.inner.prefix

    @property
    def conditional_delete(self) -> bool:
        return self.inner.conditional_delete

    @conditional_delete.setter
    def conditional_delete(self, value: bool) -> None:
        self.inner.conditional_delete = value

    def get(self, key: str) -> Held:
        return self.around(Request("get", (key,)), lambda: self.inner.get(key))

    def get_if_changed(self, key: str, etag: str) -> Held | None:
        return self.around(Request("get_if_changed", (key,)), lambda: self.inner.get_if_changed(key, etag))

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self.around(Request("get_range", (key,)), lambda: self.inner.get_range(key, start, end))

    def size(self, key: str) -> int:
        return self.around(Request("size", (key,)), lambda: self.inner.size(key))

    def put(self, key: str, data: bytes) -> str:
        return self.around(Request("put", (key,)), lambda: self.inner.put(key, data))

    def create(self, key: str, data: bytes) -> str:
        return self.around(Request("create", (key,), True), lambda: self.inner.create(key, data))

    def replace(self, key: str, data: bytes, etag: str) -> str:
        return self.around(Request("replace", (key,), True), lambda: self.inner.replace(key, data, etag))

    def delete(self, key: str, *, if_match: str | None = None) -> None:
        request = Request("delete", (key,), if_match is not None)
        return self.around(request, lambda: self.inner.delete(key, if_match=if_match))

    def delete_many(self, keys: Sequence[str]) -> None:
        for first in range(0, len(keys), PAGE):
            some = tuple(keys[first : first + PAGE])
            self.around(Request("delete_many", some), lambda some=some: self.inner.delete_many(some))

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Listed]:
        listing = self.inner.list(prefix, after=after)

        def page() -> list[Listed]:
            return [line for _, line in zip(range(PAGE), listing, strict=False)]

        while lines := self.around(Request("list", (prefix,)), page):
            yield from lines
            if len(lines) < PAGE:
                return

    def close(self) -> None:
        self.inner.close()
