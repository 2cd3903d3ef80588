"""Writing under the lock: rows become one Parquet file per type, then a manifest, then a new head.

Nothing is visible before the head is swapped, and nothing can fail after it. What an attempt leaves behind when it
fails lies under a name of its own, which no reader ever looks for.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from ontologia.errors import HeadMismatchError, LeaseExpiredError, OntologiaError
from ontologia.model.comparable import from_instant, instant
from ontologia.model.physical import layout
from ontologia.model.spec import TypeKind, TypeSpec
from ontologia.objects.port import Conflict, OutcomeUnknown
from ontologia.store.catalog import Catalog, SchemaVersion, StoredType
from ontologia.store.commits import Commit
from ontologia.store.objects import keys, schema
from ontologia.store.objects.current import CurrentRows
from ontologia.store.objects.head import SeenHead
from ontologia.store.objects.lock import Lease
from ontologia.store.objects.parquet import EncodedFile, FileBuilder
from ontologia.store.objects.purge import purge
from ontologia.store.objects.records import DataFile, Head, Manifest, encode
from ontologia.store.objects.schema import KnownTypes, Schema, TypeName
from ontologia.store.protocol import VersionedRow
from ontologia.store.reconcile import Delta
from ontologia.store.rows import ColumnRows, Row, big_columns

if TYPE_CHECKING:
    from ontologia.store.objects.backend import ObjectsBackend

_log = logging.getLogger("ontologia.store.objects")


@dataclass
class _OpenFile:
    """What this writer has written of one type so far."""

    stored: StoredType
    builder: FileBuilder
    identities: list[Sequence[Row] | ColumnRows] = field(default_factory=list[Sequence[Row] | ColumnRows])

    def written(self) -> Iterator[Row]:
        """The identities of all rows."""
        width = len(self.stored.spec.identity)
        for rows in self.identities:
            if isinstance(rows, ColumnRows):
                yield from zip(*rows.columns[:width], strict=True)
            else:
                yield from (row[:width] for row in rows)


class ObjectsWriter:
    """One write under one lease."""

    def __init__(
        self, backend: ObjectsBackend, lease: Lease, seen: SeenHead, known: Schema, public: KnownTypes
    ) -> None:
        self._backend = backend
        self._lease = lease
        self._seen = seen
        self._schema = self._before = known
        self._unreadable = public.problem
        listed = public.problem is None and set(public.names) != set(known.catalog.types)
        self._behind = listed or public.catalog not in (None, seen.head.catalog)
        """Somebody died between writing the public records and putting a catalog in force: they are written again."""
        self._files: dict[int, _OpenFile] = {}
        self._current: dict[tuple[int, int], CurrentRows] = {}
        self._changed: set[TypeName] = set()
        self._purging: list[StoredType] = []
        self._retiring: list[StoredType] = []
        self.annotated = False
        self.head = seen.head.commit_id
        self._attempt = secrets.token_hex(4)

    def catalog(self) -> Catalog:
        return self._schema.catalog

    def _now(self) -> datetime:
        """The time of this commit: never before its parent's, whatever the clock says."""
        now = instant(self._backend.clock.now())
        if self.head:
            now = max(now, instant(datetime.fromisoformat(self._seen.head.updated_at)))
        return from_instant(now)

    def _keep(self, stored: StoredType) -> StoredType:
        self._schema = self._schema.with_type(stored)
        self._changed.add((stored.kind, stored.name))
        if stored.type_id in self._files:
            self._files[stored.type_id].stored = stored
        return stored

    def register(self, spec: TypeSpec) -> StoredType:
        known = self._schema.catalog.find(spec.kind, spec.name)
        since = self.head + 1
        if known is None:
            return self._keep(schema.new_type(self._schema, spec, since, self._now()))
        return self._keep(schema.new_version(known, spec, since, self._now()))

    def annotate(self, stored: StoredType, spec: TypeSpec) -> StoredType:
        self.annotated = True
        return self._keep(schema.annotated(stored, spec))

    def _rows_of(self, stored: StoredType, version: SchemaVersion) -> CurrentRows:
        found = self._current.get((stored.type_id, version.version))
        if found is None:
            backend = self._backend
            files = backend.indices.files(stored, self._seen.head)
            same = tuple(one for one in files if one.schema_version_id in (None, version.version))
            of_version = replace(stored, versions=stored.versions[: version.version])
            found = CurrentRows(backend.engine, backend.identities, of_version, same, self.head)
            self._current[stored.type_id, version.version] = found
        return found

    def is_dense(self, stored: StoredType, total: int) -> bool:
        return self._rows_of(stored, stored.current).is_dense(total)

    def is_unchanged(self, stored: StoredType, columns: Sequence[object]) -> bool:
        del stored, columns
        return False

    def current(self, stored: StoredType, wanted: Sequence[Row], total: int) -> list[Row]:
        return self._rows_of(stored, stored.current).of(wanted, total)

    def exists(self, stored: StoredType, keys: Sequence[str]) -> set[str]:
        found = self._rows_of(stored, stored.current).existing(keys)
        opened = self._files.get(stored.type_id)
        if opened is not None:
            found |= set(keys) & {identity[0] for identity in opened.written()}
        return found

    def append(self, stored: StoredType, delta: Delta) -> None:
        if not delta.rows:
            return
        stored = self._widen(stored, delta.rows)
        opened = self._files.get(stored.type_id)
        if opened is None:
            builder = FileBuilder(stored.spec, stored.current.version, self.head + 1)
            opened = self._files[stored.type_id] = _OpenFile(stored, builder)
        opened.builder.add(delta.rows, delta.superseded)
        opened.identities.append(delta.rows)

    def _widen(self, stored: StoredType, rows: Sequence[Row]) -> StoredType:
        """Note integer fields that meet a value beyond 64 bits for the first time."""
        wide = big_columns(rows)
        if not wide:
            return stored
        names = {column: name for name, column in layout(stored.spec).main.items()}
        fresh = frozenset(names[column] for column in wide) - stored.wide
        return self._keep(schema.widened(stored, fresh)) if fresh else stored

    def retired(self, stored: StoredType, version: SchemaVersion) -> Iterator[VersionedRow]:
        for row in self._rows_of(stored, version).all_ordered():
            yield VersionedRow(row[0], version, row[1:])

    def drop(self, stored: StoredType, *, purge: bool) -> int:
        rows = 0
        if purge:
            rows = sum(one.row_count or 0 for one in self._backend.indices.files(stored, self._seen.head))
            self._purging.append(stored)
        self._retiring.append(stored)
        self._schema = self._schema.without_type(stored, self.head, self._now(), purge=purge)
        self._changed.add((stored.kind, stored.name))
        return rows

    def seal(self) -> bool:
        """Put a changed catalog in force without a commit: the head keeps its number."""
        self._follow()
        now = self._now().isoformat()
        runtime = self._backend.config.runtime_id
        self._backend.together.all(self._schema_tasks())
        following = replace(self._seen.head, updated_at=now, runtime_id=runtime, catalog=self._schema.sha256)
        self._lease.ensure_safe()
        self._swap(following)
        self._backend.took(self._seen, self._schema)
        return self._clear_dropped()

    def _clear_dropped(self) -> bool:
        """Remove what dropped types leave behind: their indices always, their rows when purged. False: some is left."""
        try:
            for stored in self._retiring:
                self._backend.objects.delete(keys.index(stored.kind, stored.name))
                self._backend.indices.forget(stored)
            for stored in self._purging:
                purge(self._backend.objects, self._backend.cache, stored, self.head)
        except OntologiaError as error:
            # The type is dropped, whatever happens now; clean-up removes what this has not.
            self._backend.warn(f"What a dropped type left behind was not all removed ({error.message}); run `onto gc`.")
            return False
        return True

    def _follow(self) -> None:
        """A catalog that has changed says which one it follows."""
        if self._schema is not self._before:
            self._schema = replace(self._schema, parent=self._seen.head.catalog, attempt=self._attempt)

    def _schema_tasks(self) -> list[Callable[[], object]]:
        """Writing the catalog record that the head will name, and the public ones beside it."""
        if self._schema is self._before and not self._behind:
            return []
        records = self._schema.public_records(
            self._schema.types if self._behind else sorted(self._changed), self._now()
        )
        records[keys.catalog(self._schema.sha256)] = self._schema.to_json()
        # Whatever types.json was before, it is right from now on.
        self._unreadable = None
        objects = self._backend.objects
        return [lambda key=key, record=record: objects.put(key, encode(record)) for key, record in records.items()]

    def publish(self, metadata: dict[str, str]) -> Commit:
        commit_id, created = self.head + 1, self._now()
        self._follow()
        encoded = self._encoded(commit_id)
        manifest = Manifest(
            commit_id,
            self.head or None,
            self._seen.head.manifest_path,
            created.isoformat(),
            self._backend.config.runtime_id,
            metadata,
            tuple(one for one, _ in encoded),
            self._seen.head.commit_sha256,
            self._registered(commit_id),
        )
        path, data = keys.manifest(commit_id, self._attempt), encode(manifest.to_json())
        self._upload(path, data, encoded)
        following = Head(
            commit_id,
            path,
            created.isoformat(),
            self._backend.config.runtime_id,
            manifest.commit_sha256,
            self._seen.head.store_id,
            self._schema.sha256,
            manifest.files,
            self._seen.head.conditional_delete,
        )
        previous = self._seen.head
        try:
            self._lease.ensure_safe()
            self._swap(following)
        except (LeaseExpiredError, HeadMismatchError):
            self._clean_up([path, *(one.path for one, _ in encoded)])
            raise
        self._settle(manifest, data, previous, encoded)
        return manifest.to_commit()

    def _registered(self, commit_id: int) -> tuple[tuple[TypeKind, str, int], ...]:
        """Types whose current version comes with this commit."""
        types = sorted(self._changed)
        changed = [stored for name in types if (stored := self._schema.catalog.types.get(name)) is not None]
        return tuple(
            (stored.kind, stored.name, stored.current.version)
            for stored in changed
            if stored.current.since_commit == commit_id
        )

    def _encoded(self, commit_id: int) -> list[tuple[DataFile, EncodedFile]]:
        """Every file of this commit, and what its manifest says of it."""
        found: list[tuple[DataFile, EncodedFile]] = []
        for opened in self._files.values():
            encoded, stored = opened.builder.finish(), opened.stored
            if encoded is None:
                continue
            path = keys.data(commit_id, self._attempt, stored.kind, stored.name)
            file = DataFile(
                stored.kind,
                stored.name,
                path,
                commit_id,
                commit_id,
                encoded.row_count,
                stored.current.version,
                encoded.content_sha256,
                len(encoded.data),
                encoded.updated,
                encoded.min_key,
                encoded.max_key,
                encoded.stats,
            )
            found.append((file, encoded))
        return found

    def _upload(self, path: str, data: bytes, encoded: Sequence[tuple[DataFile, EncodedFile]]) -> None:
        """Everything that the head will lead to, side by side."""
        objects = self._backend.objects
        tasks: list[Callable[[], object]] = [lambda: objects.put(path, data)]
        tasks += [lambda one=one, made=made: objects.put(one.path, made.data) for one, made in encoded]
        self._backend.together.all([*tasks, *self._schema_tasks()])

    def _swap(self, following: Head) -> None:
        """Move the head; afterwards the write is done, whatever else happens."""
        self._seen = self._backend.heads.swap(self._seen, following, lambda head: self._leads_back(head, following))

    def _leads_back(self, head: Head, following: Head) -> bool:
        """Whether a head that others moved on from ours has ours among its ancestors."""
        if head.store_id != following.store_id or head.commit_id < following.commit_id:
            return False
        if following.commit_id == self.head:
            return self._has_catalog(head.catalog)
        path = head.manifest_path
        while path is not None and path != following.manifest_path:
            manifest = self._backend.manifests.by_path(path)
            path = manifest.parent_manifest_path if manifest.commit_id > following.commit_id else None
        return path is not None

    def _has_catalog(self, sha256: str | None) -> bool:
        """Whether a catalog is ours, or goes back to it."""
        while sha256 is not None and sha256 != self._schema.sha256:
            found = self._backend.recorded_schema(sha256)
            sha256 = found.parent if found.catalog.epoch > self._schema.catalog.epoch else None
        return sha256 is not None

    def _clean_up(self, paths: Sequence[str]) -> None:
        """Remove what an attempt that surely failed has uploaded; what stays is harmless."""
        try:
            self._backend.objects.delete_many(paths)
        except (OntologiaError, OutcomeUnknown, Conflict) as error:
            _log.info("An attempt at commit %d left %d objects behind: %s", self.head + 1, len(paths), error)

    def _settle(
        self, manifest: Manifest, data: bytes, previous: Head, encoded: Sequence[tuple[DataFile, EncodedFile]]
    ) -> None:
        """After the commit is true: remember it, and write the indices as well as can be. Raises nothing."""
        backend, head = self._backend, self._seen.head
        try:
            self._remember(manifest)
            types = list(self._schema.catalog.types.values())
            if self._unreadable is not None:
                backend.warn(f"{self._unreadable} The indices were not updated after commit {manifest.commit_id}.")
                types = []
            backend.index_update.after_commit(types, previous, head, self._kept(manifest, data, encoded))
        except Exception as error:  # noqa: BLE001 - the commit is made: whatever fails now must not say otherwise
            backend.warn(f"After commit {manifest.commit_id}, which is made: {type(error).__name__}: {error}")

    def _kept(
        self, manifest: Manifest, data: bytes, encoded: Sequence[tuple[DataFile, EncodedFile]]
    ) -> list[Callable[[], object]]:
        """Keeping what was just written, so that it is never fetched; and the list of manifests that it completes."""
        cache, manifests, path = self._backend.cache, self._backend.manifests, self._manifest_path(manifest)
        tasks: list[Callable[[], object]] = [lambda: cache.get_bytes(path, None, lambda: data)]
        for file, made in encoded:
            tasks.append(lambda f=file, m=made: cache.path(f.path, f.content_sha256, lambda: m.data))
        block = manifests.block_to_write(manifest.commit_id)
        if block is not None:
            tasks.append(lambda: self._backend.objects.put(*block))
        return tasks

    def _manifest_path(self, manifest: Manifest) -> str:
        return keys.manifest(manifest.commit_id, self._attempt)

    def _remember(self, manifest: Manifest) -> None:
        backend = self._backend
        backend.manifests.remember(self._manifest_path(manifest), manifest)
        backend.took(self._seen, self._schema)
        touched = set(self._files)
        for opened in self._files.values():
            backend.identities.commit(opened.stored, opened.written(), manifest.commit_id)
        others = [one for one in self._schema.catalog.types.values() if one.type_id not in touched]
        backend.identities.advance(others, manifest.commit_id)
