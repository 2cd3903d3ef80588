"""Snapshots that stand for the files of single commits: which of them can be relied on, and for which commits.

An index may name them, and so may the record that clean-up leaves when it has removed their members. What is taken for
good is held against the log: the manifests say how many rows each commit wrote, and the record what the object's hash
is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ontologia.errors import IntegrityError
from ontologia.model.spec import TypeKind
from ontologia.objects.port import Missing
from ontologia.store.catalog import StoredType
from ontologia.store.objects import keys
from ontologia.store.objects.purge import file_of
from ontologia.store.objects.records import DataFile, Index
from ontologia.store.objects.workbench import Copy, Workbench

if TYPE_CHECKING:
    from ontologia.store.objects.backend import ObjectsBackend


class Coverage:
    """Snapshots of one type, none overlapping another, by the commits they stand for."""

    def __init__(self, snapshots: Iterable[DataFile]) -> None:
        self.snapshots = sorted(snapshots, key=lambda one: one.min_commit_id)
        self._starts = [one.min_commit_id for one in self.snapshots]

    def of(self, commit_id: int) -> DataFile | None:
        """The snapshot that has the rows of a commit."""
        at = bisect_right(self._starts, commit_id) - 1
        return self.snapshots[at] if at >= 0 and self.snapshots[at].covers(commit_id) else None

    def within(self, range_of: DataFile) -> DataFile | None:
        """The snapshot that has all rows of another."""
        found = self.of(range_of.min_commit_id)
        return found if found is not None and found.covers(range_of.max_commit_id) else None


def overlap(one: DataFile, other: DataFile) -> bool:
    """Whether two files are about some commit both."""
    return one.min_commit_id <= other.max_commit_id and other.min_commit_id <= one.max_commit_id


def widest(candidates: Iterable[DataFile]) -> list[DataFile]:
    """Of snapshots that overlap, those that stand for the most commits."""
    return without_overlap(
        sorted(candidates, key=lambda one: (one.min_commit_id - one.max_commit_id, one.min_commit_id))
    )


def without_overlap(snapshots: Iterable[DataFile]) -> list[DataFile]:
    """Of snapshots that overlap, the first; in the order of their commits."""
    kept: list[DataFile] = []
    for one in snapshots:
        if not any(overlap(one, other) for other in kept):
            kept.append(one)
    return sorted(kept, key=lambda one: one.min_commit_id)


def fault_of(backend: ObjectsBackend, index: Index, stored: StoredType, files: Sequence[DataFile]) -> str | None:
    """What an index has wrong about the files that the log says a type has; a sentence."""
    by_commit = {file.min_commit_id: file for file in files}
    covered: set[int] = set()
    for entry in index.entries:
        if entry.max_commit_id < stored.versions[0].since_commit:
            continue
        within = [number for number in by_commit if entry.covers(number)] if entry.is_snapshot else []
        fault = (
            _snapshot_fault(backend, entry, [by_commit[number] for number in within])
            if entry.is_snapshot
            else _entry_fault(entry, by_commit.get(entry.min_commit_id))
        )
        if fault is not None:
            return f"The index of {stored.name} is wrong: {fault}."
        covered.update(within or (entry.min_commit_id,))
    missing = min(by_commit.keys() - covered, default=None)
    if missing is not None:
        return f"The index of {stored.name} is wrong: it has no entry for commit {missing}."
    return None


def _entry_fault(entry: DataFile, file: DataFile | None) -> str | None:
    if file is None or file.path != entry.path:
        return f"no commit wrote {entry.path}"
    if entry.content_sha256 not in (None, file.content_sha256) or entry.row_count not in (None, file.row_count):
        return f"it does not say of {entry.path} what its commit says"
    if entry.schema_version_id not in (None, file.schema_version_id):
        return f"it does not say of {entry.path} what its commit says"
    return None


def _snapshot_fault(backend: ObjectsBackend, entry: DataFile, members: Sequence[DataFile]) -> str | None:
    if entry.path != keys.snapshot(entry.kind, entry.type_name, entry.min_commit_id, entry.max_commit_id):
        return f"{entry.path} is not a snapshot of commits {entry.min_commit_id} to {entry.max_commit_id}"
    rows, updated = sum(one.row_count or 0 for one in members), [one.updated for one in members]
    if entry.row_count not in (None, rows):
        return f"{entry.path} is said to have {entry.row_count} rows, its commits wrote {rows}"
    if entry.schema_version_id is not None and {one.schema_version_id for one in members} - {entry.schema_version_id}:
        return f"{entry.path} is said to have rows of another schema version than its commits wrote"
    if None not in updated and entry.updated not in (None, sum(one or 0 for one in updated)):
        return f"{entry.path} is said to have {entry.updated} updates, which is not what its commits made"
    try:
        size = backend.objects.size(entry.path)
    except Missing:
        return f"{entry.path} is missing"
    return None if entry.size in (None, size) else f"{entry.path} is not {entry.size} bytes long"


def rebuilt(
    backend: ObjectsBackend, bench: Workbench, stored: StoredType, index: Index | None, files: Sequence[DataFile]
) -> tuple[DataFile, ...]:
    """The entries that the index of a type should have: sound snapshots, and the files that they do not stand for."""
    recorded = [] if index is None else [one for one in index.entries if one.is_snapshot]
    recorded += retired(backend, stored.kind, stored.name)
    snapshots = _sound(bench, recorded, files)
    coverage = Coverage(snapshots)
    gone = _absent(backend, [file for file in files if coverage.of(file.min_commit_id) is None])
    if gone:
        prefix = keys.snapshot(stored.kind, stored.name, 0, 0).removesuffix("0-0.parquet")
        listed = [found for one in backend.objects.list(prefix) if (found := file_of(one.key)) is not None]
        own = [one for one in listed if one.type_name == stored.name and any(one.covers(n) for n in gone)]
        snapshots = widest([*snapshots, *_sound(bench, own, files)])
        coverage = Coverage(snapshots)
        for number in [number for number in gone if coverage.of(number) is None]:
            backend.warn(f"The file of {stored.name} that commit {number} wrote is missing; `onto verify` says more.")
    known = {} if index is None else {one.path: one for one in index.entries}
    rest = [_with_bounds(file, known.get(file.path)) for file in files if coverage.of(file.min_commit_id) is None]
    return tuple(sorted((*snapshots, *rest), key=lambda one: one.min_commit_id))


def retired(backend: ObjectsBackend, kind: TypeKind, name: str) -> list[DataFile]:
    """The snapshots that stand for removed files; none when the record is no longer one."""
    try:
        return list(backend.indices.retired(kind, name))
    except IntegrityError as error:
        backend.warn(error.message)
        return []


def _absent(backend: ObjectsBackend, files: Sequence[DataFile]) -> list[int]:
    """Commits whose files are not there any more."""
    waiting = {file.path: file.min_commit_id for file in files}
    if waiting:
        for one in backend.objects.list(keys.COMMITS):
            waiting.pop(one.key, None)
    return sorted(waiting.values())


def _sound(bench: Workbench, candidates: Sequence[DataFile], files: Sequence[DataFile]) -> list[DataFile]:
    """Those snapshots that are there and have the rows that their commits wrote, the widest ones."""
    left, sound = list(candidates), dict[str, DataFile]()
    while True:
        failed: list[DataFile] = []
        chosen = widest(left)
        for one in chosen:
            if one.path not in sound:
                found = checked(bench, one, [file for file in files if one.covers(file.min_commit_id)])
                if found is None:
                    failed.append(one)
                else:
                    sound[one.path] = found
        if not failed:
            return [sound[one.path] for one in chosen]
        # One that failed may have hidden smaller ones, or the same object as another record has it.
        left = [one for one in left if one not in failed]


def checked(bench: Workbench, snapshot: DataFile, members: Sequence[DataFile]) -> DataFile | None:
    """A snapshot with all that its members and its object say of it; None when it is gone or not what it should be."""
    try:
        copy = bench.fetch(snapshot)
    except Missing:
        return None
    try:
        versions = {one.schema_version_id for one in members}
        wrote = {one.min_commit_id: one.row_count for one in members}
        if not copy.is_what(snapshot) or len(versions) != 1 or bench.row_counts(copy.path) != wrote:
            return None
    finally:
        copy.path.unlink()
    found = combined(members, snapshot.path, (snapshot.min_commit_id, snapshot.max_commit_id), copy)
    return _with_bounds(found, snapshot)


def _with_bounds(file: DataFile, recorded: DataFile | None) -> DataFile:
    """A file as the log has it, with the bounds that an index recorded of the same content; manifests have none."""
    if recorded is None or recorded.content_sha256 != file.content_sha256 or recorded.min_key is None:
        return file
    return replace(file, min_key=recorded.min_key, max_key=recorded.max_key, stats=recorded.stats)


def combined(members: Sequence[DataFile], key: str, commits: tuple[int, int], copy: Copy) -> DataFile:
    """What an index says of a file that has the rows of all these, from one commit to another."""
    counts = [one.row_count for one in members if one.row_count is not None]
    updated = [one.updated for one in members if one.updated is not None]
    lows = [one.min_key for one in members if one.min_key is not None]
    highs = [one.max_key for one in members if one.max_key is not None]
    bounded = len(lows) == len(highs) == len(members)
    return replace(
        members[0],
        path=key,
        min_commit_id=commits[0],
        max_commit_id=commits[1],
        row_count=sum(counts) if len(counts) == len(members) else None,
        content_sha256=copy.sha256,
        size=copy.size,
        updated=sum(updated) if len(updated) == len(members) else None,
        min_key=tuple(map(min, zip(*lows, strict=True))) if bounded else None,
        max_key=tuple(map(max, zip(*highs, strict=True))) if bounded else None,
        stats=_common(members),
    )


def _common(members: Sequence[DataFile]) -> Mapping[str, tuple[Any, Any]]:
    """Bounds of columns for which every member has some. One without may hold anything."""
    shared = set(members[0].stats).intersection(*(one.stats for one in members[1:]))
    return {
        name: (min(one.stats[name][0] for one in members), max(one.stats[name][1] for one in members))
        for name in members[0].stats
        if name in shared
    }
