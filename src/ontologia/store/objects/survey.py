"""What lies under the prefix of a store and is no part of it any more.

The log says which attempts became commits, the indices and the record of retired files say which snapshots are read,
the catalog which types there are. Everything else that is older than the grace is left over; what cannot be told for
sure, because an index cannot be read, is not. Keys that are not of the store's layout are never looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ontologia.errors import IntegrityError
from ontologia.model.spec import TypeKind
from ontologia.objects.port import Listed
from ontologia.objects.probe import SCRATCH
from ontologia.store.objects import keys
from ontologia.store.objects.purge import file_of
from ontologia.store.objects.records import DataFile, Head
from ontologia.store.objects.schema import TypeName
from ontologia.store.objects.standing import Coverage, overlap
from ontologia.store.objects.workbench import log_between
from ontologia.store.protocol import Progress

if TYPE_CHECKING:
    from ontologia.store.objects.backend import ObjectsBackend

_ATTEMPT = re.compile(rf"({keys.COMMITS}(\d+)-[^/]+/).+")
_NAMED = re.compile(r"(?:meta/(?:indices|retired)|meta/schema/versions)/([a-z]+)/([^/]+)\.json")
_LIST = re.compile(rf"{keys.MANIFEST_LISTS}(\d+)-(\d+)\.json")
_KINDS: dict[str, TypeKind] = {
    "entities": "entity",
    "relations": "relation",
    "entity": "entity",
    "relation": "relation",
}
_VERSIONS = "meta/schema/versions/"


@dataclass(frozen=True, slots=True)
class Leftover:
    """One object to remove: why, and which snapshot has its rows."""

    listed: Listed
    reason: str
    stands: DataFile | None = None


@dataclass(frozen=True, slots=True)
class _Standing:
    """The snapshots of one name: those that reads go to, and those that must stay."""

    read: Coverage
    kept: frozenset[str]


@dataclass
class _Doubt:
    """Snapshots that seem left over, and the files that must be there instead."""

    snapshots: dict[str, Leftover] = field(default_factory=dict[str, Leftover])
    needed: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


class Survey:
    """One look at a store."""

    def __init__(self, backend: ObjectsBackend, head: Head, grace: timedelta) -> None:
        self._backend = backend
        self._objects = backend.objects
        self._head = head
        self._cutoff = backend.clock.now() - grace
        self._schema = backend.schema(head)
        self._snapshots: dict[str, Listed] = {}
        self._standing: dict[TypeName, _Standing | None] = {}

    def _old(self, one: Listed) -> bool:
        return one.modified <= self._cutoff

    def leftovers(self, progress: Progress | None) -> list[Leftover]:
        """Everything that is left over, in the order of keys."""
        self._snapshots = {one.key: one for one in self._objects.list(keys.SNAPSHOTS)}
        doubt = _Doubt()
        found = list(self._of_snapshots(doubt))
        chain = self._chain(doubt, progress)
        found += self._of_attempts(chain, doubt)
        missing = {path for paths in doubt.needed.values() for path in paths}
        found += [one for path, one in doubt.snapshots.items() if path not in missing]
        found += self._of_schema()
        found += self._of_records()
        return sorted(found, key=lambda one: one.listed.key)

    def _purged(self, file: DataFile) -> bool:
        return any(
            gone.purged
            and (gone.kind, gone.type_name) == (file.kind, file.type_name)
            and gone.since_commit <= file.min_commit_id
            and file.max_commit_id <= gone.last_commit
            for gone in self._schema.dropped
        )

    def _standing_of(self, name: TypeName) -> _Standing | None:
        """What is known of the snapshots of a name; None when that cannot be told."""
        if name not in self._standing:
            self._standing[name] = self._read_standing(name)
        return self._standing[name]

    def _read_standing(self, name: TypeName) -> _Standing | None:
        stored = self._schema.catalog.find(*name)
        try:
            retired = self._backend.indices.retired(*name)
        except IntegrityError:
            return None
        if stored is None:
            return _Standing(Coverage(retired), frozenset(one.path for one in retired))
        index = self._backend.indices.read(*name).index
        if index is None or index.max_indexed_commit > self._head.commit_id:
            return None
        born = stored.versions[0].since_commit
        indexed = Coverage([one for one in index.entries if one.is_snapshot and one.min_commit_id >= born])
        # The bigger snapshot that took the place of one on record has all its rows.
        still = [one for one in retired if indexed.within(one) is None]
        if any(overlap(one, other) for one in still for other in indexed.snapshots):
            return None
        # Reads of the type go where its index says; of an earlier type of this name, only the record tells.
        read = Coverage([*indexed.snapshots, *(one for one in still if one.max_commit_id < born)])
        return _Standing(read, frozenset(one.path for one in (*indexed.snapshots, *still)))

    def _of_snapshots(self, doubt: _Doubt) -> Iterator[Leftover]:
        for one in self._snapshots.values():
            file = file_of(one.key)
            if file is None:
                continue
            if self._purged(file):
                yield Leftover(one, "purged")
                continue
            standing = self._standing_of((file.kind, file.type_name))
            if standing is None or one.key in standing.kept or not self._old(one):
                continue
            bigger = standing.read.within(file)
            if bigger is None:
                doubt.snapshots[one.key] = Leftover(one, "orphan")
            elif self._stands(bigger):
                yield Leftover(one, "superseded", bigger)

    def _stands(self, snapshot: DataFile) -> bool:
        """Whether a snapshot is there, and has been for so long that nobody still reads its members."""
        listed = self._snapshots.get(snapshot.path)
        return listed is not None and self._old(listed) and snapshot.size in (None, listed.size)

    def _chain(self, doubt: _Doubt, progress: Progress | None) -> dict[int, str]:
        """The folder of every commit; and what must be there for snapshots in doubt to be left over."""
        path = self._head.manifest_path
        chain = {} if path is None else {self._head.commit_id: _folder(path)}
        doubtful = [file for key in doubt.snapshots if (file := file_of(key)) is not None]
        for manifest in log_between(self._backend.manifests, self._head, 1, self._head.commit_id):
            if manifest.parent_manifest_path is not None:
                chain[manifest.commit_id - 1] = _folder(manifest.parent_manifest_path)
            for one in doubtful:
                file = manifest.file_of(one.kind, one.type_name) if one.covers(manifest.commit_id) else None
                if file is not None and not self._is_read_elsewhere(file):
                    doubt.needed.setdefault(file.path, []).append(one.path)
            if progress is not None:
                progress(manifest.commit_id, self._head.commit_id)
        return chain

    def _is_read_elsewhere(self, file: DataFile) -> bool:
        standing = self._standing_of((file.kind, file.type_name))
        return standing is not None and standing.read.of(file.min_commit_id) is not None

    def _of_attempts(self, chain: dict[int, str], doubt: _Doubt) -> Iterator[Leftover]:
        orphans: dict[str, list[Listed]] = {}
        for one in self._objects.list(keys.COMMITS):
            match = _ATTEMPT.fullmatch(one.key)
            if match is None:
                continue
            doubt.needed.pop(one.key, None)
            file = file_of(one.key)
            if file is not None and self._purged(file):
                yield Leftover(one, "purged")
            elif chain.get(int(match[2])) != match[1]:
                orphans.setdefault(match[1], []).append(one)
            elif file is not None and self._old(one):
                standing = self._standing_of((file.kind, file.type_name))
                snapshot = None if standing is None else standing.read.of(file.min_commit_id)
                if snapshot is not None and self._stands(snapshot):
                    yield Leftover(one, "superseded", snapshot)
        for folder in orphans.values():
            # Whoever still writes to a folder has not given up on what is in it.
            if all(self._old(one) for one in folder):
                yield from (Leftover(one, "orphan") for one in folder)

    def _of_schema(self) -> Iterator[Leftover]:
        """Catalogs that were replaced. When that was is not recorded; not after the present one was written."""
        catalogs = list(self._objects.list(keys.CATALOGS))
        current = keys.catalog(self._head.catalog or "")
        if all(self._old(one) for one in catalogs if one.key == current):
            yield from (Leftover(one, "stale") for one in catalogs if one.key != current and self._old(one))
        known = {*self._schema.catalog.types, *((gone.kind, gone.type_name) for gone in self._schema.dropped)}
        yield from (one for one in self._named(_VERSIONS) if _name(one) not in known)

    def _of_records(self) -> Iterator[Leftover]:
        """Indices, records and lists that are about nothing in this store."""
        types = self._schema.catalog.types
        yield from (one for one in self._named(keys.INDICES) if _name(one) not in types)
        for one in self._named(keys.RETIRED):
            name = _name(one)
            standing = None if name is None else self._standing_of(name)
            if standing is not None and name not in types and not standing.kept:
                yield one
        for listed in self._objects.list(keys.MANIFEST_LISTS):
            match = _LIST.fullmatch(listed.key)
            if match is not None and int(match[2]) > self._head.commit_id and self._old(listed):
                yield Leftover(listed, "stale")
        yield from (Leftover(one, "stale") for one in self._objects.list(SCRATCH) if self._old(one))

    def _named(self, prefix: str) -> list[Leftover]:
        """Old records whose keys say which type they are about."""
        found = [Leftover(one, "stale") for one in self._objects.list(prefix) if self._old(one)]
        return [one for one in found if _name(one) is not None]


def _folder(path: str) -> str:
    return path.rpartition("/")[0] + "/"


def _name(one: Leftover) -> TypeName | None:
    match = _NAMED.fullmatch(one.listed.key)
    return None if match is None or match[1] not in _KINDS else (_KINDS[match[1]], unquote(match[2]))
