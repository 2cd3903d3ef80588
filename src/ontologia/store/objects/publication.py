"""Upkeep under the write lock: what it may rely on, and how it puts an index in place of another.

Whatever upkeep does to the store is done with a lease that still holds and a head that has not moved since the work
began; otherwise nothing is done. A lost response is resolved by reading back.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ontologia.errors import HeadMismatchError
from ontologia.objects.port import Conflict, OutcomeUnknown
from ontologia.store.catalog import StoredType
from ontologia.store.objects.head import SeenHead
from ontologia.store.objects.index import Known
from ontologia.store.objects.lock import Lease
from ontologia.store.objects.records import Head, Index

if TYPE_CHECKING:
    from ontologia.store.objects.backend import ObjectsBackend

_TRIES = 3


@dataclass(frozen=True)
class Tenure:
    """The write lock, and the head that was found when it was taken."""

    backend: ObjectsBackend
    lease: Lease
    seen: SeenHead

    @property
    def head(self) -> Head:
        return self.seen.head

    def ensure_steady(self) -> None:
        """Raise unless the lease holds and the head is still the one that the work began with."""
        self.lease.ensure_safe()
        now = self.backend.head()
        if now.etag != self.seen.etag:
            raise HeadMismatchError(
                f"The head of {self.backend.uri} moved from commit {self.head.commit_id} to {now.head.commit_id}"
                " although the write lock was held here; what was not finished is as it was.",
                hint="Run it again; the clocks of writers must agree to within a third of s3_lease_ttl_ms.",
                commit_id=now.head.commit_id,
            )

    def fenced(self) -> Tenure:
        """The same tenure after the head was written again: no swap that was under way can succeed any more."""
        following = replace(self.head, fence=self.head.fence + 1)
        self.ensure_steady()
        return replace(self, seen=self.backend.heads.swap(self.seen, following, lambda _: False))

    def publish(self, stored: StoredType, index: Index, before: Known) -> Known:
        """Write the index of a type in place of what `before` was made from."""
        etag = before.etag
        for _ in range(_TRIES):
            self.ensure_steady()
            try:
                written: str | None = self.backend.index_update.write(index, etag)
            except (Conflict, OutcomeUnknown):
                found = self.backend.indices.read(stored.kind, stored.name)
                if found.index == index:
                    written = found.etag
                elif found.index is not None and not _begins(found.index, before.index):
                    break
                else:
                    # The writer of the last commit was late with the same content, or our write never arrived.
                    etag = found.etag
                    continue
            return self.backend.indices.keep(stored, Known(self.head.commit_id, index, written, self.head.commit_id))
        self.backend.indices.forget(stored)
        raise HeadMismatchError(
            f"The index of {stored.name} in {self.backend.uri} was changed while the write lock was held here.",
            hint="Nothing was lost; run it again.",
            type_name=stored.name,
        )


@contextmanager
def tenure(backend: ObjectsBackend) -> Generator[Tenure]:
    """Hold the write lock."""
    with backend.lease() as lease:
        yield Tenure(backend, lease, backend.head())


def _begins(found: Index, whole: Index) -> bool:
    """Whether an index names the files of another: all, or the first of them."""
    paths = [one.path for one in found.entries]
    return paths == [one.path for one in whole.entries][: len(paths)]
