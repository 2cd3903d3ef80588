"""Which files have the rows of a type: from its index as far as that goes, from manifests beyond it.

An index is advice. It is believed up to its watermark, checked against what the head itself wrote, and filled up along
the chain of manifests where it lags, is missing or is wrong; what was wrong is told to the operator and never changes
an answer.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ontologia.errors import IntegrityError
from ontologia.model.spec import TypeKind
from ontologia.objects.port import Missing, Objects
from ontologia.store.catalog import StoredType
from ontologia.store.maintenance import Warn
from ontologia.store.objects import keys
from ontologia.store.objects.manifests import ManifestLog
from ontologia.store.objects.records import DataFile, Head, Index, decode


@dataclass(frozen=True, slots=True)
class ReadIndex:
    """An index object as it was read: None where it is missing or unreadable."""

    index: Index | None
    etag: str | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """All files of a type up to a commit, as this process knows them."""

    upto: int
    index: Index
    etag: str | None
    """The tag of the index object that this is the content of, or was made from; None when it may be another by now."""
    written: int = 0
    """The commit up to which that object went."""


class IndexBook:
    """The indices of a store as one process knows them."""

    def __init__(self, objects: Objects, manifests: ManifestLog, store_id: str | None, warn: Warn) -> None:
        self._objects = objects
        self._manifests = manifests
        self._store_id = store_id
        self._warn = warn
        self._known: dict[int, Known] = {}
        self._guard = threading.Lock()

    def files(self, stored: StoredType, head: Head) -> tuple[DataFile, ...]:
        """Every file with rows of a type, up to a head, oldest first."""
        born = stored.versions[0].since_commit
        if born > head.commit_id:
            return ()
        known = self.known(stored, head)
        if known.upto == head.commit_id:
            return known.index.entries
        return tuple(one for one in known.index.entries if one.min_commit_id <= head.commit_id)

    def known(self, stored: StoredType, head: Head) -> Known:
        """What is known of a type up to a head at least; asks for what is missing."""
        known = self._known.get(stored.type_id)
        if known is not None and known.upto >= head.commit_id:
            return known
        if known is not None and known.upto == head.commit_id - 1 and head.files is not None:
            own = _of_type(head.files, stored.kind, stored.name)
            index = known.index.with_files(own, head.commit_id)
            # Whoever made that commit has rewritten the index object since.
            return self.keep(stored, Known(head.commit_id, index, None))
        return self.keep(stored, self.reread(stored, head))

    def reread(self, stored: StoredType, head: Head) -> Known:
        """What the index object of a type says, completed up to a head."""
        known = self._known.get(stored.type_id)
        born = stored.versions[0].since_commit
        if born > head.commit_id:
            return Known(head.commit_id, Index(stored.kind, stored.name, head.commit_id, (), self._store_id), None)
        read = self.read(stored.kind, stored.name)
        if read.problem is not None:
            self._warn(read.problem)
        index = Index(stored.kind, stored.name, born - 1) if read.index is None else read.index
        if known is not None and known.index.max_indexed_commit > index.max_indexed_commit:
            index = known.index
        elif read.index is None:
            index = self._from_retired(index)
        entries = tuple(one for one in index.entries if one.max_commit_id >= born)
        index = replace(index, entries=entries, store_id=self._store_id)
        upto = max(head.commit_id, index.max_indexed_commit)
        written = 0 if read.index is None else read.index.max_indexed_commit
        return Known(upto, self._completed(index, head, born), read.etag, written)

    def at_hand(self, stored: StoredType) -> Known | None:
        """What is known of a type, at no cost."""
        return self._known.get(stored.type_id)

    def keep(self, stored: StoredType, known: Known) -> Known:
        """Remember what is known of a type."""
        with self._guard:
            before = self._known.get(stored.type_id)
            if before is None or before.upto < known.upto or (before.upto == known.upto and known.etag is not None):
                self._known[stored.type_id] = known
        return known

    def forget(self, stored: StoredType | None = None) -> None:
        """Read an index, or all, again at the next need."""
        with self._guard:
            if stored is None:
                self._known.clear()
            else:
                self._known.pop(stored.type_id, None)

    def read(self, kind: TypeKind, name: str) -> ReadIndex:
        """The index object of a type, as it is."""
        key = keys.index(kind, name)
        try:
            held = self._objects.get(key)
        except Missing:
            return ReadIndex(None, None, f"The index of {name} is missing.")
        try:
            index = decode(held.data, key, lambda record: Index.from_json(record, kind))
        except IntegrityError as error:
            return ReadIndex(None, held.etag, error.message)
        if index.store_id is not None and index.store_id != self._store_id:
            return ReadIndex(None, held.etag, f"{key} was left by an earlier store at this place.")
        return ReadIndex(replace(index, type_name=name), held.etag)

    def _from_retired(self, index: Index) -> Index:
        """What stands for files that clean-up removed: manifests still name those, so this comes first."""
        found = self.retired(index.kind, index.type_name)
        return replace(index, entries=found)

    def retired(self, kind: TypeKind, name: str) -> tuple[DataFile, ...]:
        """Snapshots of a type whose members were removed."""
        key = keys.retired(kind, name)
        try:
            held = self._objects.get(key)
        except Missing:
            return ()
        found = decode(held.data, key, lambda record: Index.from_json(record, kind))
        return found.entries if found.store_id == self._store_id else ()

    def _completed(self, index: Index, head: Head, born: int) -> Index:
        """The index with all commits up to the head, from manifests where it does not reach or is wrong."""
        covered = min(index.max_indexed_commit, head.commit_id)
        wrong = self._wrong_at_head(index, head) if covered == head.commit_id else None
        if wrong is not None:
            self._warn(wrong)
            kept = tuple(one for one in index.entries if not _only(one, head.commit_id))
            index, covered = replace(index, entries=kept), covered - 1
        elif covered < head.commit_id and index.max_indexed_commit >= born:
            self._warn(f"The index of {index.type_name} covers commit {covered}; the head is {head.commit_id}.")
        if covered == head.commit_id:
            return index
        found = [
            own
            for manifest in self._manifests.walk(head, max(covered, born - 1))
            if (own := manifest.file_of(index.kind, index.type_name)) is not None
        ]
        return index.with_files(found, head.commit_id)

    def _wrong_at_head(self, index: Index, head: Head) -> str | None:
        """What an index that claims to cover the head has wrong about it."""
        files = head.files
        if files is None and head.manifest_path is not None:
            files = self._manifests.by_path(head.manifest_path).files
        return problem_at_head(index, head, files or ())


def problem_at_head(index: Index, head: Head, files: Sequence[DataFile]) -> str | None:
    """Whether the head commit's file of a type is in its index as the head has it; a sentence when it is not."""
    own = _of_type(files, index.kind, index.type_name)
    if not own:
        return None
    covering = [one for one in index.entries if one.covers(head.commit_id)]
    if not covering:
        return f"The index of {index.type_name} has no entry for the head, commit {head.commit_id}."
    if _only(covering[0], head.commit_id) and covering[0].path != own[0].path:
        return f"The index of {index.type_name} names {covering[0].path} for the head, which wrote {own[0].path}."
    return None


def _only(entry: DataFile, commit_id: int) -> bool:
    return entry.min_commit_id == entry.max_commit_id == commit_id


def _of_type(files: Sequence[DataFile], kind: TypeKind, name: str) -> list[DataFile]:
    return [one for one in files if (one.kind, one.type_name) == (kind, name)]
