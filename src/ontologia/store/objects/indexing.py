"""Writing the indices after a commit, for every known type, as well as it can be done.

Nothing here can fail a commit: the head has moved. Each index object is replaced only if it is still what this writer
knows it to be; one that another process changed, by compacting for instance, is read again and completed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ontologia.errors import OntologiaError
from ontologia.objects.port import Conflict, Missing, Objects, OutcomeUnknown, Together
from ontologia.store.catalog import StoredType
from ontologia.store.maintenance import Warn
from ontologia.store.objects import keys
from ontologia.store.objects.index import IndexBook, Known
from ontologia.store.objects.records import Head, Index

_TRIES = 3


@dataclass(frozen=True)
class IndexUpdate:
    """What is needed to write indices."""

    objects: Objects
    book: IndexBook
    together: Together
    warn: Warn

    def after_commit(
        self, types: Sequence[StoredType], previous: Head, head: Head, also: Sequence[Callable[[], object]] = ()
    ) -> None:
        """Bring the index of every type up to the head; `also` is done beside it. Raises nothing."""
        tasks = [lambda stored=stored: self._one(stored, previous, head) for stored in types]
        quietly = [lambda task=task: self._quietly(task) for task in (*tasks, *also)]
        if quietly:
            self.together.all(quietly)

    def _quietly(self, task: Callable[[], object]) -> None:
        try:
            task()
        except (OntologiaError, Missing, Conflict, OutcomeUnknown) as error:
            self.warn(f"An index was not updated after a commit: {error}")

    def _one(self, stored: StoredType, previous: Head, head: Head) -> None:
        own = [one for one in head.files or () if (one.kind, one.type_name) == (stored.kind, stored.name)]
        for _ in range(_TRIES):
            known = self.book.at_hand(stored)
            born = stored.versions[0].since_commit
            if born == head.commit_id:
                known = known or self.book.reread(stored, previous)
            elif known is None or known.etag is None or known.upto < previous.commit_id:
                known = self.book.reread(stored, previous)
            if known.written >= head.commit_id:
                return
            index = known.index.with_files(own, head.commit_id)
            try:
                etag = self.write(index, known.etag)
            except Conflict:
                self.book.forget(stored)
                if born == head.commit_id:
                    self._overwrite(stored, index, head)
                    return
                continue
            except OutcomeUnknown:
                etag = None
            self.book.keep(stored, Known(head.commit_id, index, etag, head.commit_id))
            return
        self.warn(f"The index of {stored.name} was changed by others too often to be updated.")

    def _overwrite(self, stored: StoredType, index: Index, head: Head) -> None:
        """A type that is new with this commit: whatever lies in its place was left by another."""
        etag = self.objects.put(keys.index(stored.kind, stored.name), index.encode())
        self.book.keep(stored, Known(head.commit_id, index, etag, head.commit_id))

    def write(self, index: Index, etag: str | None) -> str:
        """Replace an index object that has a tag, or create one; Conflict when another was there first."""
        key = keys.index(index.kind, index.type_name)
        data = index.encode()
        return self.objects.create(key, data) if etag is None else self.objects.replace(key, data, etag)
