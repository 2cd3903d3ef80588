"""Are the indices what the log says, and writing those that are not anew.

Looking is cheap, because it is done often: each index is held against the head. Repair reads the whole log and holds
every entry against it, so it finds more. It makes no commit and never touches the head; once it is done, doing it again
writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ontologia.errors import IntegrityError, SchemaError
from ontologia.objects.port import Missing
from ontologia.store.catalog import StoredType
from ontologia.store.maintenance import IndexProblem, IndexRepair
from ontologia.store.objects import keys
from ontologia.store.objects.index import Known, ReadIndex
from ontologia.store.objects.publication import Tenure, tenure
from ontologia.store.objects.records import DataFile, Head, Index, decode, encode
from ontologia.store.objects.schema import TypeName, known_types
from ontologia.store.objects.standing import fault_of, rebuilt
from ontologia.store.objects.workbench import log_between, workbench
from ontologia.store.protocol import Progress

if TYPE_CHECKING:
    from ontologia.store.objects.backend import ObjectsBackend

_TRIES = 3


@dataclass(frozen=True, slots=True)
class _Read:
    """A type and its index object."""

    stored: StoredType
    found: ReadIndex

    def problem(self, code: str, message: str, head: Head) -> IndexProblem:
        reached = 0 if self.found.index is None else self.found.index.max_indexed_commit
        return IndexProblem(self.stored.kind, self.stored.name, code, message, reached, head.commit_id)


def verify_index(backend: ObjectsBackend) -> list[IndexProblem]:
    """What is wrong with the indices, one problem for a type at most; every entry is compared with the log."""
    head, reads = _together(backend)
    return _problems(backend, head, reads, None)[0]


def head_problems(backend: ObjectsBackend) -> list[IndexProblem]:
    """The same as far as the head tells, at the cost of reading the indices."""
    head, reads = _together(backend)
    files = _head_files(backend, head)
    return [problem for read in reads if (problem := _at_head(read, head, files)) is not None]


def _together(backend: ObjectsBackend) -> tuple[Head, list[_Read]]:
    """Head and indices as they were at one time: an index read after a commit looks wrong to the head before it."""
    head = backend.head().head
    reads = _read_all(backend, head)
    for _ in range(_TRIES):
        now = backend.head().head
        if now == head:
            break
        head, reads = now, _read_all(backend, now)
    return head, reads


def _read_all(backend: ObjectsBackend, head: Head) -> list[_Read]:
    """Every index; a SchemaError when the list of types is not there or is not one."""
    catalog = backend.schema(head).catalog
    try:
        known_types(backend.objects.get(keys.TYPES).data)
    except (Missing, IntegrityError) as error:
        reason = error.message if isinstance(error, IntegrityError) else f"{keys.TYPES} is missing."
        raise SchemaError(
            f"The schema metadata of {backend.uri} cannot be read: {reason}",
            hint="`onto schema repair --apply` writes it anew; no index was touched.",
            key=keys.TYPES,
        ) from error
    # A commit that failed may have listed types that never came to be.
    types = [catalog.types[name] for name in sorted(catalog.types)]
    return backend.together.all([lambda one=one: _Read(one, backend.indices.read(one.kind, one.name)) for one in types])


def _head_files(backend: ObjectsBackend, head: Head) -> Sequence[DataFile]:
    if head.files is not None or head.manifest_path is None:
        return head.files or ()
    return backend.manifests.by_path(head.manifest_path).files


def _at_head(read: _Read, head: Head, files: Sequence[DataFile]) -> IndexProblem | None:
    """How an index does not fit the head."""
    name, index = read.stored.name, read.found.index
    if index is None:
        code = "missing" if read.found.etag is None else "unreadable"
        return read.problem(code, read.found.problem or f"The index of {name} cannot be read.", head)
    if index.max_indexed_commit < head.commit_id:
        message = f"The index of {name} covers commit {index.max_indexed_commit}; the head is {head.commit_id}."
        return read.problem("lag", message, head)
    if index.max_indexed_commit > head.commit_id:
        message = f"The index of {name} covers commit {index.max_indexed_commit}; there are {head.commit_id}."
        return read.problem("wrong-entries", message, head)
    own = [one for one in files if (one.kind, one.type_name) == (read.stored.kind, name)]
    if not own:
        return None
    covering = next((one for one in index.entries if one.covers(head.commit_id)), None)
    if covering is None:
        message = f"The index of {name} has no entry for the head, commit {head.commit_id}."
        return read.problem("missing-latest-entry", message, head)
    if not covering.is_snapshot and covering.path != own[0].path:
        message = f"The index of {name} names {covering.path} for the head, which wrote {own[0].path}."
        return read.problem("path-mismatch", message, head)
    return None


def repair_schema(backend: ObjectsBackend, *, apply: bool) -> tuple[str, ...]:
    """Write the public records about types anew, where they do not say what the catalog in force says; their keys."""
    if not apply:
        return tuple(_wrong_records(backend, backend.head().head))
    with tenure(backend) as held:
        wrong = _wrong_records(backend, held.head)
        for key, record in wrong.items():
            held.ensure_steady()
            backend.objects.put(key, encode(record))
        return tuple(wrong)


def _wrong_records(backend: ObjectsBackend, head: Head) -> dict[str, dict[str, Any]]:
    schema = backend.schema(head)
    wanted = schema.public_records(schema.types, backend.clock.now())
    return {key: record for key, record in wanted.items() if not _says(backend, key, record)}


def _says(backend: ObjectsBackend, key: str, record: dict[str, Any]) -> bool:
    """Whether an object says the same; when it was written does not matter."""
    try:
        found = decode(backend.objects.get(key).data, key, dict[str, Any])
    except (Missing, IntegrityError):
        return False
    return {**found, "updated_at": None} == {**record, "updated_at": None}


def repair_index(backend: ObjectsBackend, *, apply: bool, progress: Progress | None) -> IndexRepair:
    """Write indices that are wrong anew from the log; without `apply`, say which."""
    if not apply:
        head = backend.head().head
        problems, _ = _wrong(backend, head, progress)
        return IndexRepair(tuple(problems), _written(problems), head.commit_id)
    with tenure(backend) as held:
        problems, files = _wrong(backend, held.head, progress)
        for problem in problems:
            _repair(held, problem, files[problem.kind, problem.type_name])
        return IndexRepair(tuple(problems), _written(problems), held.head.commit_id, applied=True)


def _written(problems: Sequence[IndexProblem]) -> tuple[str, ...]:
    return tuple(keys.index(problem.kind, problem.type_name) for problem in problems)


def _wrong(
    backend: ObjectsBackend, head: Head, progress: Progress | None
) -> tuple[list[IndexProblem], dict[TypeName, list[DataFile]]]:
    """Every problem, also those that only the whole log shows; and the files of each type as the log has them."""
    return _problems(backend, head, _read_all(backend, head), progress)


def _problems(
    backend: ObjectsBackend, head: Head, reads: Sequence[_Read], progress: Progress | None
) -> tuple[list[IndexProblem], dict[TypeName, list[DataFile]]]:
    files = logged_files(backend, head, [read.stored for read in reads], progress)
    recent = _head_files(backend, head)
    problems: list[IndexProblem] = []
    for read in reads:
        problem = _at_head(read, head, recent)
        if problem is None and read.found.index is not None:
            fault = fault_of(backend, read.found.index, read.stored, files[read.stored.kind, read.stored.name])
            problem = None if fault is None else read.problem("wrong-entries", fault, head)
        if problem is not None:
            problems.append(problem)
    return problems, files


def logged_files(
    backend: ObjectsBackend, head: Head, types: Sequence[StoredType], progress: Progress | None
) -> dict[TypeName, list[DataFile]]:
    """The files of each type, oldest first, from the manifests."""
    born: dict[TypeName, int] = {(one.kind, one.name): one.versions[0].since_commit for one in types}
    found: dict[TypeName, list[DataFile]] = {name: [] for name in born}
    for manifest in log_between(backend.manifests, head, min(born.values(), default=1), head.commit_id):
        for file in manifest.files:
            name = (file.kind, file.type_name)
            if born.get(name, head.commit_id + 1) <= manifest.commit_id:
                found[name].append(file)
        if progress is not None:
            progress(manifest.commit_id, head.commit_id)
    return found


def _repair(held: Tenure, problem: IndexProblem, files: list[DataFile]) -> None:
    backend = held.backend
    stored = backend.schema(held.head).catalog.get(problem.kind, problem.type_name)
    with workbench(backend) as bench:
        read = backend.indices.read(stored.kind, stored.name)
        entries = rebuilt(backend, bench, stored, read.index, files)
    index = Index(stored.kind, stored.name, held.head.commit_id, entries, held.head.store_id)
    before = Known(held.head.commit_id, replace(index, entries=()) if read.index is None else read.index, read.etag)
    held.publish(stored, index, before)
