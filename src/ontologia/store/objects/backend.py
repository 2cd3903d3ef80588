"""The backend on object storage: opens a prefix, hands out snapshots and writers, and holds what they share.

It promises what `protocol.Backend` says and what `maintenance.Maintenance` adds. Protocols of locking, swapping,
indexing and cleaning are its neighbours' business.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from ontologia.base.clock import Clock
from ontologia.config import OntologiaConfig
from ontologia.errors import (
    HeadMismatchError,
    IntegrityError,
    LockContentionError,
    NotFoundError,
    OntologiaError,
    RefusedError,
    StorageBackendError,
)
from ontologia.objects.cache import DiskCache
from ontologia.objects.port import Missing, Objects, Together
from ontologia.query.aggregates import count
from ontologia.query.plan import Aggregation, Lookup, Scan
from ontologia.store.catalog import Catalog, StoredType
from ontologia.store.maintenance import GRACE, Cleanup, Compaction, IndexProblem, IndexRepair
from ontologia.store.objects import compaction, garbage, keys, repair
from ontologia.store.objects.current import IdentityMaps
from ontologia.store.objects.engine import Engine
from ontologia.store.objects.head import HeadPointer, SeenHead
from ontologia.store.objects.index import IndexBook
from ontologia.store.objects.indexing import IndexUpdate
from ontologia.store.objects.lock import Lease, WriteLock
from ontologia.store.objects.manifests import ManifestLog
from ontologia.store.objects.purge import forget_purged
from ontologia.store.objects.records import Head
from ontologia.store.objects.schema import KnownTypes, Schema, known_types, read_schema
from ontologia.store.objects.snapshot import ObjectsSnapshot
from ontologia.store.objects.verify import verify
from ontologia.store.objects.writer import ObjectsWriter
from ontologia.store.protocol import Finding, Progress, StaleCatalog

_log = logging.getLogger("ontologia.store.objects")


class ObjectsBackend:
    """A store under one prefix of an object store."""

    def __init__(self, objects: Objects, config: OntologiaConfig, clock: Clock, *, read_only: bool = False) -> None:
        self.objects = objects
        self.config = config
        self.clock = clock
        self.uri = objects.uri
        self.together = Together()
        self.heads = HeadPointer(objects)
        self._read_only = read_only
        self._lock = WriteLock(objects, config, clock)
        self._writing = threading.Lock()
        self._warning: str | None = None
        try:
            self._open(self.heads.read().head)
        except BaseException:
            self.together.close()
            raise

    def _open(self, head: Head) -> None:
        """Everything that goes with one initialisation of the prefix."""
        self._store_id = head.store_id
        if not head.conditional_delete:
            self.objects.conditional_delete = False
        self.cache = DiskCache(self.config.cache_path, head.store_id or "foreign", self.config.s3_cache_bytes)
        self.manifests = ManifestLog(self.objects, self.cache, head.store_id)
        self.indices = IndexBook(self.objects, self.manifests, head.store_id, self.warn)
        self.engine = Engine(self.config, self.cache, self.objects, self.together)
        self.identities = IdentityMaps(self.engine)
        self.index_update = IndexUpdate(self.objects, self.indices, self.together, self.warn)
        self._schema: tuple[str | None, Schema] = (None, Schema())
        self._types: tuple[str, KnownTypes] | None = None

    def warn(self, sentence: str) -> None:
        """Tell the operator: in the log, and in `storage_info()` until something else comes."""
        self._warning = sentence
        _log.warning("%s: %s", self.uri, sentence)

    def head(self) -> SeenHead:
        """The head now; a prefix that was initialised anew since it was opened is another store, and refused."""
        seen = self.heads.read()
        if seen.head.store_id != self._store_id:
            raise StorageBackendError(
                f"The store at {self.uri} was emptied and initialised anew since it was opened.",
                hint="Open it again to go on with the new one.",
                operation="open",
                uri=self.uri,
            )
        return seen

    def schema(self, head: Head) -> Schema:
        """The catalog that a head names."""
        name, known = self._schema
        if head.catalog is None:
            raise IntegrityError(
                f"The head of {self.uri} names no catalog: it was written by another program.",
                hint="Ontologia reads prefixes that `onto init` made.",
                uri=self.uri,
            )
        if name == head.catalog:
            return known
        known = self.recorded_schema(head.catalog)
        self._schema = (head.catalog, known)
        forget_purged(self.cache, known.dropped)
        return known

    def recorded_schema(self, sha256: str) -> Schema:
        """The catalog record of a hash."""
        key = keys.catalog(sha256)
        try:
            data = self.cache.get_bytes(key, None, lambda: self.objects.get(key).data)
        except Missing:
            raise IntegrityError(f"The catalog {key} is missing.", hint="Restore it from a backup.", key=key) from None
        try:
            return read_schema(data, sha256)
        except IntegrityError:
            self.cache.forget(key)  # so that one restored from a backup is seen
            raise

    def took(self, seen: SeenHead, known: Schema) -> None:
        """A writer has put this head and catalog in force."""
        self._schema = (seen.head.catalog, known)

    def cached_catalog(self) -> Catalog:
        return self._schema[1].catalog

    def refresh(self) -> None:
        self.schema(self.head().head)

    @contextmanager
    def snapshot(self, *, single: bool = False) -> Generator[ObjectsSnapshot]:
        del single
        head = self.head().head
        yield ObjectsSnapshot(self, head, self.schema(head))

    def current_row(self, stored: StoredType, key: str) -> tuple[Any, ...] | None:
        with self.snapshot() as snapshot:
            if snapshot.catalog().find(stored.kind, stored.name) != stored:
                raise StaleCatalog
            scan = Scan(stored.kind, stored.name, lookup=Lookup("key", (key,)))
            return next(iter(snapshot.select(scan)), None)

    def current_count(self, stored: StoredType) -> int:
        with self.snapshot() as snapshot:
            if snapshot.catalog().find(stored.kind, stored.name) != stored:
                raise StaleCatalog
            counts = [(one.row_count, one.updated) for one in snapshot.all_files(stored)]
            if all(rows is not None and updated is not None for rows, updated in counts):
                # There is no delete: what was ever inserted is there.
                return sum((rows or 0) - (updated or 0) for rows, updated in counts)
            aggregation = Aggregation(Scan(stored.kind, stored.name), (), (("n", count()),))
            return snapshot.aggregate(aggregation)[0]["n"]

    @contextmanager
    def lease(self) -> Generator[Lease]:
        """The write lock, first among our threads, then among all writers."""
        if self._read_only:
            raise RefusedError(f"{self.uri} was opened read-only.", hint="Open it without read_only=True.")
        if not self._writing.acquire(timeout=self.config.s3_lock_timeout_ms / 1000):
            raise LockContentionError(
                f"Another thread of this process is writing to {self.uri}.", hint="Try again, or commit less often."
            )
        try:
            lease = self._lock.acquire()
            try:
                yield lease
            finally:
                lease.release()
        finally:
            self._writing.release()

    @contextmanager
    def write(self) -> Generator[ObjectsWriter]:
        with self.lease() as lease:
            types = self.together.start(self._read_types)
            seen = self.head()
            known = self.schema(seen.head)
            try:
                yield ObjectsWriter(self, lease, seen, known, types.result())
            except Missing as error:
                # Its rows went into a snapshot that this process did not know of, and then it was cleaned up.
                self.indices.forget()
                raise HeadMismatchError(
                    f"The data file {error} is gone from {self.uri}.",
                    hint="Nothing was committed; commit again. If it stays so, `onto verify` tells what is wrong.",
                ) from error

    def _read_types(self) -> KnownTypes:
        """What `types.json` says now."""
        before = self._types
        try:
            held = (
                self.objects.get(keys.TYPES) if before is None else self.objects.get_if_changed(keys.TYPES, before[0])
            )
            if held is not None:
                self._types = before = (held.etag, known_types(held.data))
            return KnownTypes() if before is None else before[1]
        except Missing:
            found = KnownTypes(problem=f"{keys.TYPES} is missing.")
        except OntologiaError as error:
            found = KnownTypes(problem=f"{keys.TYPES} could not be read: {error.message}")
        self._types = None
        return found

    def commit_time(self, commit_id: int) -> datetime:
        seen = self.heads.last or self.heads.read()
        if not 0 < commit_id <= seen.head.commit_id:
            raise NotFoundError(f"There is no commit {commit_id}.", hint="`onto commits` lists them.")
        return self.manifests.time_of(commit_id, seen.head)

    def verify(self, progress: Progress | None = None) -> Iterable[Finding]:
        yield from verify(self, progress)

    def compact(
        self, type_name: str | None = None, *, apply: bool = False, progress: Progress | None = None
    ) -> Compaction:
        return compaction.compact(self, type_name, apply=apply, progress=progress)

    def verify_index(self) -> list[IndexProblem]:
        return repair.verify_index(self)

    def repair_index(self, *, apply: bool = False, progress: Progress | None = None) -> IndexRepair:
        return repair.repair_index(self, apply=apply, progress=progress)

    def repair_schema(self, *, apply: bool = False) -> tuple[str, ...]:
        return repair.repair_schema(self, apply=apply)

    def gc(self, *, grace: timedelta = GRACE, apply: bool = False, progress: Progress | None = None) -> Cleanup:
        return garbage.collect(self, grace=grace, apply=apply, progress=progress)

    def storage_info(self) -> dict[str, Any]:
        head = self.head().head
        holder = self._lock.holder()
        try:
            problems = [problem.message for problem in repair.head_problems(self)]
        except OntologiaError as error:
            problems = [error.message]
        return {
            "backend": self.objects.uri.partition(":")[0],
            "uri": self.uri,
            "bucket": self.objects.bucket,
            "prefix": self.objects.prefix,
            "endpoint": self.config.s3_endpoint_url,
            "region": self.config.s3_region,
            "store_id": head.store_id,
            "format": head.format,
            "head": head.commit_id,
            "manifest_path": head.manifest_path,
            "conditional_delete": self.objects.conditional_delete,
            "cache_dir": str(self.cache.root),
            "cache_bytes": self.config.s3_cache_bytes,
            "read_only": self._read_only,
            "lock": None
            if holder is None
            else {"owner_id": holder.owner_id, "expires_at": holder.expires_at.isoformat()},
            "last_index_warning": " ".join(dict.fromkeys([*filter(None, [self._warning]), *problems[:1]])) or None,
        }

    def close(self) -> None:
        self.engine.close()
        # A query that was under way when a type was purged may have fetched some of it again.
        forget_purged(self.cache, self._schema[1].dropped)
        self.together.close()
        self.objects.close()

    def __repr__(self) -> str:
        return f"ObjectsBackend({self.uri!r})"
