"""The data files of the log, fetched and held against what their manifests say; snapshots against their members.

What clean-up has removed is there in a snapshot, which must have as many rows of each commit as the commit wrote; where
the members are still there, it must have the same rows. Files of purged types are gone on purpose. A bounded number of
files is on this machine at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ontologia.store.objects.logcheck import error
from ontologia.store.objects.records import DataFile, Head
from ontologia.store.objects.schema import Schema, TypeName
from ontologia.store.objects.standing import Coverage, retired, without_overlap
from ontologia.store.objects.workbench import Copy, RowSums, Workbench, row_count
from ontologia.store.protocol import Finding

if TYPE_CHECKING:
    from ontologia.store.objects.backend import ObjectsBackend

_FILES, _BYTES = 256, 64_000_000
"""How much is looked at together."""


class FileCheck:
    """One look at all data files."""

    def __init__(self, backend: ObjectsBackend, bench: Workbench, head: Head, schema: Schema) -> None:
        self._backend = backend
        self._bench = bench
        self._head = head
        self._schema = schema
        self.done = 0
        """Files looked at."""

    def check(self, name: TypeName, files: Sequence[DataFile]) -> Iterator[Finding]:
        """What is wrong with the files of a type, given oldest first as the log has them."""
        there = [file for file in files if not self._purged(file)]
        self.done += len(files) - len(there)
        coverage = Coverage(self._snapshots(name))
        single = [file for file in there if coverage.of(file.min_commit_id) is None]
        for batch in _batches(single):
            for file, copy in zip(batch, self._bench.fetch_all(batch), strict=True):
                yield from _file_findings(file, copy)
                _drop(copy)
            self.done += len(batch)
        for snapshot in coverage.snapshots:
            yield from self._snapshot(snapshot, [file for file in there if snapshot.covers(file.min_commit_id)])

    def _purged(self, file: DataFile) -> bool:
        return any(
            gone.purged and gone.holds(file.kind, file.type_name, file.min_commit_id) for gone in self._schema.dropped
        )

    def _snapshots(self, name: TypeName) -> list[DataFile]:
        """What reads of a type go to in place of files of single commits."""
        stored = self._schema.catalog.find(*name)
        index = None if stored is None else self._backend.indices.read(*name).index
        born = 1 if stored is None else stored.versions[0].since_commit
        named = [] if index is None else [one for one in index.entries if one.is_snapshot and one.min_commit_id >= born]
        found = without_overlap([*named, *retired(self._backend, *name)])
        return [one for one in found if one.max_commit_id <= self._head.commit_id and not self._purged(one)]

    def _snapshot(self, snapshot: DataFile, members: Sequence[DataFile]) -> Iterator[Finding]:
        copy = self._bench.fetch_all([snapshot])[0]
        columns, found = self._bench.sums_of(copy.path) if copy is not None and copy.is_what(snapshot) else ([], None)
        _drop(copy)
        if found is None:
            message = f"{snapshot.path} is missing, or is not what was recorded."
            yield error("rows-changed", message, snapshot.min_commit_id, type_name=snapshot.type_name)
        wrote = {file.min_commit_id: file.row_count for file in members}
        extra = min(found.keys() - wrote.keys(), default=None) if found is not None else None
        if extra is not None:
            message = f"{snapshot.path} has rows of commit {extra}, which wrote none."
            yield error("rows-added", message, extra, type_name=snapshot.type_name)
        for batch in _batches(members):
            copies = self._bench.fetch_all(batch)
            for file, copy in zip(batch, copies, strict=True):
                if copy is not None:
                    yield from _file_findings(file, copy)
            yield from self._compare(batch, copies, columns, found)
            for copy in copies:
                _drop(copy)
            self.done += len(batch)

    def _compare(
        self, members: Sequence[DataFile], copies: Sequence[Copy | None], columns: Sequence[str], found: RowSums | None
    ) -> Iterator[Finding]:
        """Whether a snapshot has the rows of some of its members."""
        paths = [
            copy.path for file, copy in zip(members, copies, strict=True) if copy is not None and copy.is_what(file)
        ]
        wanted = self._bench.row_sums(paths, columns) if paths and columns else {}
        for file, copy in zip(members, copies, strict=True):
            number = file.min_commit_id
            if found is None:
                if copy is None:
                    yield _missing(file)
                continue
            rows, total = found.get(number, (0, 0))
            if rows != file.row_count:
                message = (
                    f"Commit {number} wrote {file.row_count} rows of {file.type_name}, {rows} are in its snapshot."
                )
                yield error("rows-missing", message, number, type_name=file.type_name)
            elif number in wanted and wanted[number] != (rows, total):
                message = f"Rows of {file.type_name} written by commit {number} are other ones in its snapshot."
                yield error("rows-changed", message, number, type_name=file.type_name)


def _batches(files: Iterable[DataFile]) -> Iterator[list[DataFile]]:
    batch: list[DataFile] = []
    size = 0
    for file in files:
        if batch and (len(batch) == _FILES or size + (file.size or 0) > _BYTES):
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += file.size or 0
    if batch:
        yield batch


def _drop(copy: Copy | None) -> None:
    if copy is not None:
        copy.path.unlink(missing_ok=True)


def _missing(file: DataFile) -> Finding:
    message = f"Commit {file.min_commit_id} wrote {file.row_count} rows of {file.type_name}, {file.path} is missing."
    return error("rows-missing", message, file.min_commit_id, type_name=file.type_name, key=file.path)


def _file_findings(file: DataFile, copy: Copy | None) -> Iterator[Finding]:
    """What is wrong with the file of one commit."""
    number, name = file.min_commit_id, file.type_name
    if copy is None:
        yield _missing(file)
        return
    rows = row_count(copy.path) if copy.is_what(file) else None
    if rows is None:
        message = f"Rows of {name} written by commit {number} were changed."
        yield error("rows-changed", message, number, type_name=name, key=file.path)
    elif rows != file.row_count:
        message = f"Commit {number} wrote {file.row_count} rows of {name}, {rows} are there."
        yield error("rows-missing", message, number, type_name=name, key=file.path)
