"""Removing objects that no reader needs: attempts that never became commits, files whose rows a snapshot has too.

A plan comes first. Carrying it out happens under the write lock, and in an order that leaves the store whole wherever
it stops: a snapshot is checked against the log and put on record before any of its members goes. Nothing younger than
the grace is touched, because somebody may be reading or writing it. Manifests of commits stay for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from ontologia.store.maintenance import Cleanup, Removal
from ontologia.store.objects import keys
from ontologia.store.objects.publication import Tenure, tenure
from ontologia.store.objects.purge import forget_retired, holds_rows
from ontologia.store.objects.records import DataFile, Index
from ontologia.store.objects.schema import TypeName
from ontologia.store.objects.standing import checked, retired, without_overlap
from ontologia.store.objects.survey import Leftover, Survey
from ontologia.store.objects.workbench import log_between, workbench
from ontologia.store.protocol import Progress

if TYPE_CHECKING:
    from ontologia.store.objects.backend import ObjectsBackend

_BATCH = 500


def collect(backend: ObjectsBackend, *, grace: timedelta, apply: bool, progress: Progress | None) -> Cleanup:
    """Remove what no reader needs and is older than the grace; without `apply`, say what that is."""
    if not apply:
        head = backend.head().head
        found = Survey(backend, head, grace).leftovers(progress)
        return Cleanup(tuple(_removal(one) for one in found), head.commit_id, grace)
    with tenure(backend) as begun:
        found = Survey(backend, begun.head, grace).leftovers(progress)
        found = _retire(begun, found)
        # A writer that slept since before its swap must not wake up to a commit whose files are gone.
        held = begun.fenced() if found else begun
        _forget_purged(held, found)
        _delete(held, [one.listed.key for one in found], progress)
        return Cleanup(tuple(_removal(one) for one in found), held.head.commit_id, grace, applied=True)


def _removal(one: Leftover) -> Removal:
    return Removal(one.listed.key, one.listed.size, one.reason)


def _retire(held: Tenure, found: Sequence[Leftover]) -> list[Leftover]:
    """Put on record the snapshots that stand for what is about to go; what none stands for soundly is left."""
    standing: dict[TypeName, dict[str, DataFile]] = {}
    for one in found:
        if one.stands is not None:
            standing.setdefault((one.stands.kind, one.stands.type_name), {})[one.stands.path] = one.stands
    unsound: set[str] = set()
    for name, snapshots in sorted(standing.items()):
        sound = _sound(held, list(snapshots.values()))
        unsound |= snapshots.keys() - {one.path for one in sound}
        _record(held, name, sound)
    for path in sorted(unsound):
        held.backend.warn(f"{path} is not what its commits wrote; the files that it stands for were kept.")
    return [one for one in found if one.stands is None or one.stands.path not in unsound]


def _sound(held: Tenure, snapshots: Sequence[DataFile]) -> list[DataFile]:
    """Those snapshots whose objects are what was recorded and have the rows that their commits wrote."""
    backend, found = held.backend, list[DataFile]()
    with workbench(backend) as bench:
        for one in snapshots:
            log = log_between(backend.manifests, held.head, one.min_commit_id, one.max_commit_id)
            members = [own for manifest in log if (own := manifest.file_of(one.kind, one.type_name)) is not None]
            sound = checked(bench, one, members)
            if sound is not None:
                found.append(sound)
    return found


def _record(held: Tenure, name: TypeName, sound: Sequence[DataFile]) -> None:
    """Write the record that an index can be made from although the manifests name files that are gone."""
    before = retired(held.backend, *name)
    entries = without_overlap([*sound, *before])
    if entries == before:
        return
    last = max(one.max_commit_id for one in entries)
    record = Index(*name, last, tuple(entries), held.head.store_id)
    held.ensure_steady()
    held.backend.objects.put(keys.retired(*name), record.encode())


def _forget_purged(held: Tenure, found: Sequence[Leftover]) -> None:
    """What is purged must not be on record, nor in the cache here."""
    for gone in held.backend.schema(held.head).dropped:
        concerned = holds_rows(gone.kind, gone.type_name, gone.since_commit, gone.last_commit)
        if gone.purged and any(concerned(one.listed.key) for one in found):
            held.ensure_steady()
            forget_retired(held.backend.objects, gone.kind, gone.type_name, gone.since_commit, gone.last_commit)
            held.backend.cache.forget(concerned)


def _delete(held: Tenure, found: Sequence[str], progress: Progress | None) -> None:
    for start in range(0, len(found), _BATCH):
        some = found[start : start + _BATCH]
        held.ensure_steady()
        held.backend.objects.delete_many(some)
        if progress is not None:
            progress(start + len(some), len(found))
