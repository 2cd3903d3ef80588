"""Merging small data files of a type into few large ones, so that reading needs few requests.

What is merged follows from sizes alone: files of commits are gathered, and a snapshot joins its neighbour once that is
about as large, so that the number of files grows with the logarithm of the history and each row is rewritten as often.
A snapshot has the rows of its members in their order, with their commits; no answer changes. It is checked against its
members before any index names it, and until then it is an object that nobody looks for: work can stop anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from ontologia.errors import IntegrityError, OntologiaError, UnknownTypeError
from ontologia.objects.port import Missing
from ontologia.store.catalog import Catalog, StoredType
from ontologia.store.maintenance import Compaction, Rewrite
from ontologia.store.objects import keys
from ontologia.store.objects.combining import combine
from ontologia.store.objects.publication import Tenure, tenure
from ontologia.store.objects.records import DataFile, Head, Index
from ontologia.store.objects.workbench import Workbench, log_between, workbench
from ontologia.store.protocol import Progress

if TYPE_CHECKING:
    from ontologia.store.objects.backend import ObjectsBackend

SNAPSHOT_BYTES = 64_000_000
"""Most bytes that are merged into one snapshot; more would be read in place by everybody, instead of being cached."""
_RATIO = 2
"""A file stays by itself while it has at least so many times the rows of the one after it."""
_PASSES = 8

Group = tuple[DataFile, ...]


@dataclass(frozen=True, slots=True)
class _Pile:
    """Neighbouring files that would become one."""

    files: Group

    @property
    def rows(self) -> int:
        return sum(one.row_count or 0 for one in self.files)

    @property
    def size(self) -> int:
        return sum(one.size or 0 for one in self.files)

    def __add__(self, other: _Pile) -> _Pile:
        return _Pile(self.files + other.files)


def plan(entries: Sequence[DataFile], most: int = SNAPSHOT_BYTES) -> list[Group]:
    """Which neighbours of a type to merge. What comes out of it, planned again, is nothing."""
    ordered = sorted(entries, key=lambda one: one.min_commit_id)
    groups: list[Group] = []
    for _, run in groupby(ordered, key=lambda one: one.schema_version_id):
        stack: list[_Pile] = []
        for pile in _gathered(run, most):
            stack.append(pile)
            while len(stack) > 1 and _belong(stack[-2], stack[-1], most):
                newer = stack.pop()
                stack.append(stack.pop() + newer)
        groups += [pile.files for pile in stack if len(pile.files) > 1]
    return groups


def _gathered(run: Iterator[DataFile], most: int) -> Iterator[_Pile]:
    """Snapshots one by one; files of single commits, where several follow one another, together."""
    for is_snapshot, files in groupby(run, key=lambda one: one.is_snapshot):
        pile = _Pile(())
        for file in files:
            if pile.files and (is_snapshot or pile.size + (file.size or 0) > most):
                yield pile
                pile = _Pile(())
            pile += _Pile((file,))
        yield pile


def _belong(older: _Pile, newer: _Pile, most: int) -> bool:
    return older.size + newer.size <= most and older.rows < _RATIO * newer.rows


def compact(backend: ObjectsBackend, type_name: str | None, *, apply: bool, progress: Progress | None) -> Compaction:
    """Merge what the sizes ask for, in one type or all; without `apply`, say what that would be."""
    head = backend.head().head
    chosen = _chosen(backend.schema(head).catalog, type_name)
    indices = backend.together.all([lambda one=one: backend.indices.reread(one, head).index for one in chosen])
    planned = [(stored, group) for stored, index in zip(chosen, indices, strict=True) for group in plan(index.entries)]
    if not apply:
        return Compaction(tuple(_rewrite(stored, group) for stored, group in planned), head.commit_id)
    total = sum(one.row_count or 0 for _, group in planned for one in group)
    done: list[Rewrite] = []

    def report(rewrite: Rewrite) -> None:
        done.append(rewrite)
        if progress is not None:
            rows = sum(one.rows for one in done)
            progress(rows, max(rows, total))

    with workbench(backend) as bench:
        for stored in dict.fromkeys(stored for stored, _ in planned):
            _compact_type(backend, bench, stored, report)
    head = backend.head().head
    _write_lists(backend, head)
    return Compaction(tuple(done), head.commit_id, applied=True)


def _chosen(catalog: Catalog, type_name: str | None) -> list[StoredType]:
    types = [catalog.types[name] for name in sorted(catalog.types)]
    if type_name is None:
        return types
    found = [stored for stored in types if stored.name == type_name]
    if not found:
        known = ", ".join(sorted({stored.name for stored in types})) or "none yet"
        raise UnknownTypeError(
            f"The store has no type {type_name!r}.", hint=f"Known types: {known}.", type_name=type_name
        )
    return found


def _rewrite(stored: StoredType, group: Group, rows: int | None = None) -> Rewrite:
    first, last = group[0].min_commit_id, group[-1].max_commit_id
    path = keys.snapshot(stored.kind, stored.name, first, last)
    counted = _Pile(group).rows if rows is None else rows
    return Rewrite(stored.kind, stored.name, first, last, len(group), counted, path)


def _compact_type(
    backend: ObjectsBackend, bench: Workbench, stored: StoredType, report: Callable[[Rewrite], None]
) -> None:
    """Merge the files of one type. The lock is held for one type at a time, so that writers get their turn."""
    with tenure(backend) as held:
        current = backend.schema(held.head).catalog.find(stored.kind, stored.name)
        if current is None or current.type_id != stored.type_id:
            return
        known = backend.indices.reread(current, held.head)
        # Merging may compress better than was planned for, and so make room for more.
        for _ in range(_PASSES):
            groups = plan(known.index.entries)
            if not groups:
                return
            made = [_snapshot(held, bench, current, group) for group in groups]
            index = _with_snapshots(known.index, groups, made)
            known = held.publish(current, replace(index, max_indexed_commit=held.head.commit_id), known)
            for group, file in zip(groups, made, strict=True):
                report(_rewrite(current, group, file.row_count))


def _snapshot(held: Tenure, bench: Workbench, stored: StoredType, group: Group) -> DataFile:
    """Write the snapshot of a group. Until an index names it, nobody looks for it."""
    backend = held.backend
    _confirm(backend, held.head, stored, group)
    first, last = group[0].min_commit_id, group[-1].max_commit_id
    path, merged = combine(bench, group, keys.snapshot(stored.kind, stored.name, first, last))
    data = path.read_bytes()
    path.unlink()
    held.lease.ensure_safe()
    backend.objects.put(merged.path, data)
    if len(data) <= backend.config.s3_cache_file_bytes:
        backend.cache.path(merged.path, merged.content_sha256, lambda: data)
    return merged


def _with_snapshots(index: Index, groups: Sequence[Group], made: Sequence[DataFile]) -> Index:
    """An index with snapshots in place of their members."""
    merged = {one.path for group in groups for one in group}
    kept = [one for one in index.entries if one.path not in merged]
    return replace(index, entries=tuple(sorted((*kept, *made), key=lambda one: one.min_commit_id)))


def _confirm(backend: ObjectsBackend, head: Head, stored: StoredType, group: Group) -> None:
    """An index is advice, a snapshot is for good: its members must be what the manifests say."""
    waiting = {one.min_commit_id: one for one in group if not one.is_snapshot}
    snapshots = [one for one in group if one.is_snapshot]
    rows = dict.fromkeys((one.path for one in snapshots), 0)
    for manifest in log_between(backend.manifests, head, group[0].min_commit_id, group[-1].max_commit_id):
        file = manifest.file_of(stored.kind, stored.name)
        if file is None:
            continue
        covering = next((one for one in snapshots if one.covers(manifest.commit_id)), None)
        if covering is not None:
            rows[covering.path] += file.row_count or 0
        elif (entry := waiting.pop(manifest.commit_id, None)) is None or entry.path != file.path:
            raise _misled(stored, f"it does not have the file of commit {manifest.commit_id}", manifest.commit_id)
    if waiting:
        first = min(waiting)
        raise _misled(stored, f"commit {first} wrote no such file as it names", first)
    for one in snapshots:
        if one.row_count not in (None, rows[one.path]):
            reason = f"{one.path} is said to have {one.row_count} rows, its commits wrote {rows[one.path]}"
            raise _misled(stored, reason, one.min_commit_id)


def _misled(stored: StoredType, reason: str, commit_id: int) -> IntegrityError:
    return IntegrityError(
        f"The index of {stored.name} is wrong: {reason}.",
        hint="`onto index repair --apply` writes it anew; then compact again.",
        type_name=stored.name,
        commit_id=commit_id,
    )


def _write_lists(backend: ObjectsBackend, head: Head) -> None:
    """Leave lists of manifests where writers have left none; they are for speed, so nothing fails here."""
    try:
        for key, data in backend.manifests.missing_lists(head):
            backend.objects.put(key, data)
    except (OntologiaError, Missing) as error:
        backend.warn(f"Lists of manifests were not written: {error}")
