"""Reading one moment of a store on object storage: the head that was read when it began, and what that head leads to.

Files are resolved and fetched before a statement runs. One that is gone was cleaned up after its rows went into a
snapshot that this process did not know of yet: the index is read again, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ontologia.errors import IntegrityError
from ontologia.objects.port import Missing
from ontologia.query.plan import Aggregation, Lookup, Mode, Scan, Window
from ontologia.query.sql import Sql
from ontologia.store.catalog import Catalog, SchemaVersion, StoredType
from ontologia.store.commits import Change, Commit
from ontologia.store.objects.records import DataFile, Head
from ontologia.store.objects.schema import Schema
from ontologia.store.objects.statements import (
    aggregate_statement,
    changes_statement,
    raw_statement,
    scan_statement,
)
from ontologia.store.protocol import VersionedRow

if TYPE_CHECKING:
    from ontologia.store.objects.backend import ObjectsBackend

T = TypeVar("T")


class ObjectsSnapshot:
    """One head and its catalog."""

    def __init__(self, backend: ObjectsBackend, head: Head, known: Schema) -> None:
        self._backend = backend
        self._head = head
        self._schema = known

    def head(self) -> int:
        return self._head.commit_id

    def catalog(self) -> Catalog:
        return self._schema.catalog

    def all_files(self, stored: StoredType) -> tuple[DataFile, ...]:
        """Every file with rows of a type, whatever their version."""
        return self._backend.indices.files(stored, self._head)

    def files(self, stored: StoredType, version: SchemaVersion, window: Window) -> tuple[DataFile, ...]:
        """Files of one schema version that a window may show rows of, oldest first."""
        last = self._head.commit_id if window.last is None else min(window.last, self._head.commit_id)
        low = window.low if window.mode is Mode.HISTORY else 0
        return tuple(
            one
            for one in self.all_files(stored)
            if one.schema_version_id in (None, version.version)
            and one.min_commit_id <= last
            and one.max_commit_id > low
        )

    def _fetched(self, build: Callable[[], T]) -> T:
        """A statement over files that are there; with a fresh look at the indices when one of them was cleaned up."""
        try:
            return build()
        except Missing:
            self._backend.indices.forget()
        try:
            return build()
        except Missing as error:
            raise IntegrityError(
                f"The data file {error} is missing from {self._backend.objects.uri}.",
                hint="`onto verify` tells what else is; restore it from a backup.",
                key=str(error),
            ) from error

    def select(self, scan: Scan) -> Iterator[tuple[Any, ...]]:
        return self._rows(lambda: self._scan(scan))

    def _rows(self, build: Callable[[], Sql | None]) -> Iterator[tuple[Any, ...]]:
        """The rows of a statement; none where there are no files. It runs now, so that a missing file shows now."""

        def run() -> Iterator[tuple[Any, ...]]:
            statement = build()
            return iter(()) if statement is None else self._backend.engine.rows(statement)

        return self._fetched(run)

    def columns(self, scan: Scan) -> Sequence[Sequence[Any]]:
        def run() -> Sequence[Sequence[Any]]:
            statement = self._scan(scan)
            found = None if statement is None else self._backend.engine.arrow(statement)
            return () if found is None or found.num_rows == 0 else cast("Sequence[Sequence[Any]]", found.columns)

        return self._fetched(run)

    def _scan(self, scan: Scan) -> Sql | None:
        stored = self.catalog().get(scan.kind, scan.type_name)
        relation, head = self._backend.engine.relation, self._head.commit_id
        return scan_statement(self.catalog(), stored, scan, self.files, relation, head)

    def raw(self, stored: StoredType, window: Window, lookup: Lookup | None = None) -> Iterator[VersionedRow]:
        relation, head = self._backend.engine.relation, self._head.commit_id
        for version in self._visible(stored, window):
            rows = self._rows(
                lambda version=version: raw_statement(stored, version, window, lookup, self.files, relation, head)
            )
            for row in rows:
                yield VersionedRow(row[0], version, row[1:])

    def _visible(self, stored: StoredType, window: Window) -> Sequence[SchemaVersion]:
        if window.mode is Mode.LATEST:
            return (stored.current,)
        if window.mode is Mode.AS_OF:
            return (stored.version_at(window.last or 0),)
        return stored.versions_between(window.low, self._head.commit_id if window.last is None else window.last)

    def aggregate(self, aggregation: Aggregation) -> list[dict[str, Any]]:
        scan = aggregation.scan
        stored = self.catalog().get(scan.kind, scan.type_name)
        relation, head = self._backend.engine.relation, self._head.commit_id

        def run() -> list[dict[str, Any]]:
            statement, plan = aggregate_statement(self.catalog(), stored, aggregation, self.files, relation, head)
            return plan.result(self._backend.engine.rows(statement))

        return self._fetched(run)

    def explain(self, scan: Scan) -> tuple[str, Sequence[Any], list[str]]:
        statement = self._fetched(lambda: self._scan(scan))
        stored = self.catalog().get(scan.kind, scan.type_name)
        own = {one.path for one in self.all_files(stored)}
        if statement is None:
            return "", (), [f"none of {len(own)} files has anything to read"]
        read = self._backend.engine.keys(statement) & own
        plan = self._fetched(lambda: self._backend.engine.plan(statement))
        return statement.text, statement.params, [f"{len(read)} of {len(own)} files of {scan.type_name}", *plan]

    def commit_at(self, moment: datetime) -> int:
        return self._backend.manifests.last_before(moment, self._head)

    def commits(self, *, since: int, before: int | None, limit: int | None) -> list[Commit]:
        end = self._head.commit_id + 1 if before is None else before
        found = self._backend.manifests.between(since, end, limit, self._head)
        return [manifest.to_commit() for manifest in found]

    def changes(self, commit_id: int) -> list[Change]:
        found: list[Change] = []
        for file in self._backend.manifests.at(commit_id, self._head).files:
            if not any(one.purged and one.holds(file.kind, file.type_name, commit_id) for one in self._schema.dropped):
                found += self._changes_of(file, commit_id)
        return sorted(found, key=lambda c: c[:2] + tuple(part or "" for part in c[2:6]))

    def _changes_of(self, file: DataFile, commit_id: int) -> Iterator[Change]:
        """What one file of a commit wrote; from the snapshot that stands for it once it was cleaned up."""
        try:
            statement = changes_statement(file, commit_id, self._backend.engine.relation)
        except Missing:
            statement = self._fetched(
                lambda: changes_statement(self._standing_for(file), commit_id, self._backend.engine.relation)
            )
        for *names, replaced in self._backend.engine.rows(statement):
            key, left, right, instance = (*names, None, None, None) if len(names) == 1 else (None, *names)
            yield Change(file.kind, file.type_name, key, left, right, instance, "update" if replaced else "insert")

    def _standing_for(self, file: DataFile) -> DataFile:
        """The snapshot that has the rows of a file which was cleaned up, be its type dropped since."""
        stored = self.catalog().find(file.kind, file.type_name)
        known = () if stored is None else self.all_files(stored)
        for one in (*known, *self._backend.indices.retired(file.kind, file.type_name)):
            if one.is_snapshot and one.covers(file.min_commit_id):
                return one
        raise Missing(file.path)
