"""Proof that a bucket still says what was committed.

The log is walked from the head to the first commit, every hash recomputed, every data file fetched and held against its
manifest; then the catalog against its public records, the indices against the log, relations against their ends. What
no reader needs is counted. Nothing is changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from ontologia.errors import IntegrityError, SchemaError
from ontologia.objects.port import Missing
from ontologia.query.sql import Sql
from ontologia.store.catalog import StoredType
from ontologia.store.objects import keys, repair
from ontologia.store.objects.columns import IDENTITY, quoted
from ontologia.store.objects.filecheck import FileCheck
from ontologia.store.objects.logcheck import LogCheck, error
from ontologia.store.objects.records import DataFile, Head
from ontologia.store.objects.schema import TypeName, read_schema
from ontologia.store.objects.standing import fault_of
from ontologia.store.objects.statements import identities_statement
from ontologia.store.objects.survey import Survey
from ontologia.store.objects.workbench import workbench
from ontologia.store.protocol import Finding, Progress

if TYPE_CHECKING:
    from ontologia.store.objects.backend import ObjectsBackend

_NO_GRACE = timedelta(days=-1)
_SHOWN = 5


def verify(backend: ObjectsBackend, progress: Progress | None) -> Iterator[Finding]:
    """All findings: first about the log, newest commit first, then about the rest."""
    try:
        head = backend.head().head
        damage = list(_catalog(backend, head))
        yield from damage
        if damage and not _is_readable(backend, head):
            return
        yield from _Verification(backend, head, progress).run()
    except (IntegrityError, ValueError, TypeError, LookupError, ArithmeticError) as problem:
        said = problem.message if isinstance(problem, IntegrityError) else f"{problem}."
        yield Finding("error", "unreadable", f"The store cannot be read to its end: {said}")


def _catalog(backend: ObjectsBackend, head: Head) -> Iterator[Finding]:
    """The record that the head names, as it is in the bucket: the cache would not show its loss."""
    key = keys.catalog(head.catalog or "")
    try:
        read_schema(backend.objects.get(key).data, head.catalog or "")
    except (Missing, IntegrityError) as problem:
        said = problem.message if isinstance(problem, IntegrityError) else f"{key} is missing."
        yield error("catalog", f"What is recorded about types was changed: {said}", None, key=key)


def _is_readable(backend: ObjectsBackend, head: Head) -> bool:
    """Whether there is a catalog to go on with, be it a copy on this machine."""
    try:
        backend.schema(head)
    except IntegrityError:
        return False
    return True


class _Verification:
    def __init__(self, backend: ObjectsBackend, head: Head, progress: Progress | None) -> None:
        self._backend = backend
        self._head = head
        self._schema = backend.schema(head)
        self._progress = progress
        self._broken = False
        self._told: set[str] = set()
        """Names of types about whose rows something was found."""

    def run(self) -> Iterator[Finding]:
        log = LogCheck(self._backend, self._head, self._schema)
        total = self._head.commit_id
        for found in log.walk():
            if isinstance(found, Finding):
                yield self._noted(found)
            else:
                self._tell((total - found + 1) // 2)
        yield from self._files(log.files if log.complete else {})
        yield from self._public_records()
        if log.complete:
            yield from self._indices(log.files)
        if not self._broken:
            yield from self._dangling()
            yield from self._leftovers()

    def _noted(self, finding: Finding) -> Finding:
        self._broken = self._broken or finding.severity == "error"
        self._told.add(finding.details.get("type_name", ""))
        return finding

    def _tell(self, done: int) -> None:
        if self._progress is not None and self._head.commit_id > 0:
            self._progress(done, self._head.commit_id)

    def _files(self, files: Mapping[TypeName, Sequence[DataFile]]) -> Iterator[Finding]:
        total, all_files = self._head.commit_id, sum(map(len, files.values()))
        with workbench(self._backend) as bench:
            check = FileCheck(self._backend, bench, self._head, self._schema)
            for name in sorted(files):
                for finding in check.check(name, files[name]):
                    yield self._noted(finding)
                self._tell(total // 2 + (total - total // 2) * check.done // all_files)
        self._tell(total)

    def _public_records(self) -> Iterator[Finding]:
        """What other programs read about types; our own catalog is elsewhere, so nothing here breaks the store."""
        wanted = self._schema.public_records(self._schema.types, self._backend.clock.now())
        found = self._backend.together.all([lambda key=key: self._record(key) for key in wanted])
        for (key, record), said in zip(wanted.items(), found, strict=True):
            if said is None or not _says(said, record):
                what = "is missing or cannot be read" if said is None else "does not say what the catalog says"
                hint = "The next change of a type writes it anew."
                yield Finding("warning", "catalog", f"{key} {what}. {hint}", details={"key": key})

    def _record(self, key: str) -> Any:
        try:
            return json.loads(self._backend.objects.get(key).data)
        except (Missing, ValueError):
            return None

    def _indices(self, files: Mapping[TypeName, Sequence[DataFile]]) -> Iterator[Finding]:
        try:
            problems = repair.head_problems(self._backend)
        except SchemaError:
            problems = []
        told = {(problem.kind, problem.type_name) for problem in problems}
        for problem in problems:
            details: dict[str, Any] = {"type_name": problem.type_name, "problem": problem.code}
            yield Finding("warning", "index", problem.message, details=details)
        for name, stored in sorted(self._schema.catalog.types.items()):
            known = name in told or stored.name in self._told
            index = None if known else self._backend.indices.read(*name).index
            born = stored.versions[0].since_commit
            own = [file for file in files.get(name, ()) if file.min_commit_id >= born]
            fault = None if index is None else fault_of(self._backend, index, stored, own)
            if fault is not None:
                # Unlike one that is behind, such an index is believed by readers.
                hint = "`onto index repair --apply` writes it anew."
                yield self._noted(error("index", f"{fault} {hint}", None, type_name=stored.name))

    def _dangling(self) -> Iterator[Finding]:
        catalog = self._schema.catalog
        for _, stored in sorted(catalog.types.items()):
            if stored.kind == "relation":
                for side, end in (("left", stored.spec.left), ("right", stored.spec.right)):
                    yield from self._dangling_at(stored, side, end or "", catalog.find("entity", end or ""))

    def _dangling_at(self, stored: StoredType, side: str, end: str, entity: StoredType | None) -> Iterator[Finding]:
        rows = self._current(stored)
        if rows is None:
            return
        column = quoted(f"{side}_key")
        missing = Sql(f"SELECT r.{column} FROM (") + rows + Sql(") AS r")
        ends = None if entity is None else self._current(entity)
        if ends is not None:
            key = quoted(IDENTITY["entity"][0])
            missing += Sql(" WHERE NOT EXISTS (SELECT 1 FROM (") + ends + Sql(f") AS e WHERE e.{key} = r.{column})")
        engine = self._backend.engine
        count = next(iter(engine.rows(Sql("SELECT COUNT(*) FROM (") + missing + Sql(")"))))[0]
        if count:
            found = engine.rows(missing + Sql(f" ORDER BY ALL LIMIT {_SHOWN}"))
            shown = [key for (key,) in found]
            listed = ", ".join(repr(key) for key in shown) + (", …" if count > len(shown) else "")
            yield Finding(
                "warning",
                "dangling",
                f"{stored.name}: {count} of its rows name a missing {end} on the {side}: {listed}.",
                details={"type_name": stored.name, "side": side, "count": count, "keys": shown},
            )

    def _current(self, stored: StoredType) -> Sql | None:
        """A statement that gives the identities of all current rows; None when there are none."""
        version = stored.current.version
        files = [
            one for one in self._backend.indices.files(stored, self._head) if one.schema_version_id in (None, version)
        ]
        return identities_statement(stored, files, self._backend.engine.relation) if files else None

    def _leftovers(self) -> Iterator[Finding]:
        found = Survey(self._backend, self._head, _NO_GRACE).leftovers(None)
        for reason, what in (("orphan", "belong to no commit"), ("purged", "hold rows of types that were purged")):
            # A snapshot that no index names yet, or any more, is a copy of rows that are elsewhere.
            some = [one for one in found if one.reason == reason and one.listed.key.startswith(keys.COMMITS)]
            if some:
                size = sum(one.listed.size for one in some)
                message = f"{len(some)} objects ({size:,} bytes) {what}; `onto gc` removes them."
                yield Finding("warning", f"{reason}s" if reason == "orphan" else reason, message)


def _says(found: Any, wanted: Any) -> bool:
    """Whether a public record says all that the catalog says. A write that failed may have made it say more."""
    if isinstance(wanted, dict):
        said, all_wanted = cast("dict[str, Any]", found), cast("dict[str, Any]", wanted)
        return isinstance(found, dict) and all(
            name == "updated_at" or _says(said.get(name), value) for name, value in all_wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(found, list) and all(one in found for one in cast("list[Any]", wanted))
    return found == wanted
