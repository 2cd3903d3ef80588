"""Making a store under a prefix, and beginning a new one in place of the old.

The head is written last, by create-if-absent: what stops before it leaves a prefix that can be initialised again. A new
store in place of an old one begins with a swap of the head under the write lock; from then on nothing of the old one
can be seen, however much of it is still to be removed.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass, replace
from typing import Any

from ontologia.base.clock import Clock, SystemClock
from ontologia.config import OntologiaConfig
from ontologia.errors import IntegrityError, RefusedError, StorageBackendError
from ontologia.objects.port import Conflict, Held, Missing, Objects, OutcomeUnknown
from ontologia.objects.probe import ProbeReport, probe
from ontologia.store.maintenance import Initialisation
from ontologia.store.objects import keys
from ontologia.store.objects.head import HeadPointer, SeenHead
from ontologia.store.objects.lock import Lease, WriteLock
from ontologia.store.objects.records import Head, decode, encode
from ontologia.store.objects.schema import Schema
from ontologia.store.protocol import Progress

_BATCH = 500
RUNTIME = "onto-init"
_NOT_TRIED = "Only reading was tried; whether the server honours conditional writes is tried when the store is made."


def initialise(
    uri: str,
    config: OntologiaConfig,
    *,
    force: bool = False,
    token: str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    clock: Clock | None = None,
) -> Initialisation:
    """Make a store; with `force`, and the token of the dry run, one in place of what is there."""
    from ontologia.objects.s3 import open_objects

    objects = open_objects(uri, config)
    try:
        return initialise_on(
            objects, config, force=force, token=token, dry_run=dry_run, progress=progress, clock=clock or SystemClock()
        )
    finally:
        objects.close()


def initialise_on(
    objects: Objects,
    config: OntologiaConfig,
    *,
    force: bool = False,
    token: str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    clock: Clock | None = None,
) -> Initialisation:
    """The same, through a port that is open already."""
    clock = clock or SystemClock()
    birth = _Birth.at(clock)
    if dry_run:
        return _plan(objects, birth, force=force)
    found = _found(objects)
    _refuse(objects, found, force=force, token=token)
    report = probe(objects, rivals=False)
    report.refuse()
    objects.conditional_delete = report.conditional_delete
    birth = replace(birth, head=replace(birth.head, conditional_delete=report.conditional_delete))
    notes = _notes(report)
    lease = WriteLock(objects, config, clock).acquire()
    try:
        # Whoever held the lock before may have made a store, or written to the one that was there.
        found = _found(objects)
        _refuse(objects, found, force=force, token=token)
        existing = None if found is None else _existing(objects, found)
        birth.write_schema(objects, lease)
        if found is None:
            _create(objects, birth)
        else:
            _swap(objects, found, birth)
            _remove_old(objects, lease, birth, progress)
    finally:
        lease.release()
    return Initialisation(objects.uri, birth.keys, existing, applied=True, notes=notes)


@dataclass(frozen=True, slots=True)
class _Birth:
    """What a new store consists of."""

    head: Head
    records: dict[str, dict[str, Any]]

    @classmethod
    def at(cls, clock: Clock) -> _Birth:
        schema, now = Schema(), clock.now()
        head = Head(0, None, now.isoformat(), RUNTIME, store_id=uuid.uuid4().hex, catalog=schema.sha256)
        return cls(head, {keys.catalog(schema.sha256): schema.to_json(), **schema.public_records((), now)})

    @property
    def keys(self) -> tuple[str, ...]:
        return (*self.records, keys.HEAD)

    def write_schema(self, objects: Objects, lease: Lease) -> None:
        """Everything but the head."""
        for key, record in self.records.items():
            lease.ensure_safe()
            objects.put(key, encode(record))
        lease.ensure_safe()


def _found(objects: Objects) -> Held | None:
    """The head that is there."""
    try:
        return objects.get(keys.HEAD)
    except Missing:
        return None


def _token(objects: Objects, head: Held) -> str:
    """What binds a confirmation to one state of one prefix."""
    return hashlib.sha256(b"reset\0" + objects.uri.encode() + b"\0" + head.data).hexdigest()[:16]


def _refuse(objects: Objects, head: Held | None, *, force: bool, token: str | None) -> None:
    preview = f"`onto init --storage-uri {objects.uri} --force --dry-run` shows what would be lost, and the token."
    if head is None:
        if token is not None:
            raise RefusedError(f"There is no store at {objects.uri} any more.", hint="Leave the token out to make one.")
        return
    if not force:
        raise RefusedError(f"There is a store at {objects.uri} already.", hint=preview, uri=objects.uri)
    if token != _token(objects, head):
        given = "." if token is None else f"; {token!r} does not fit the present state."
        raise RefusedError(f"Emptying {objects.uri} needs the token of its preview{given}", hint=preview)


def _existing(objects: Objects, held: Held) -> dict[str, Any]:
    """What there is to say of the store that is there, whatever state it is in."""
    objects_there = sum(1 for _ in objects.list(""))
    try:
        head = decode(held.data, keys.HEAD, Head.from_json)
    except IntegrityError as error:
        return {"commit_id": 0, "store_id": None, "objects": objects_there, "problem": error.message}
    return {"commit_id": head.commit_id, "store_id": head.store_id, "objects": objects_there}


def _plan(objects: Objects, birth: _Birth, *, force: bool) -> Initialisation:
    """What would be done, by reading alone."""
    found = _found(objects)
    if found is None:
        left = sum(1 for _ in objects.list(""))
        notes = (
            (_NOT_TRIED,) if left == 0 else (_NOT_TRIED, f"{left} objects under the prefix are no store; they stay.")
        )
        return Initialisation(objects.uri, birth.keys, notes=notes)
    token = _token(objects, found) if force else None
    return Initialisation(objects.uri, birth.keys, _existing(objects, found), token, notes=(_NOT_TRIED,))


def _notes(report: ProbeReport) -> tuple[str, ...]:
    return tuple(f"The server fails the check {check.name!r}: {check.detail}." for check in report.failed)


def _create(objects: Objects, birth: _Birth) -> None:
    """The head of a new store, unless there is one by now."""
    try:
        objects.create(keys.HEAD, encode(birth.head.to_json()))
    except (Conflict, OutcomeUnknown) as error:
        found = _found(objects)
        if found is None:
            raise StorageBackendError(
                f"Whether the store at {objects.uri} was made could not be learned; its head is not there.",
                hint="Run `onto init` again.",
                operation="create",
                key=keys.HEAD,
            ) from error
        if decode(found.data, keys.HEAD, Head.from_json) != birth.head:
            raise RefusedError(
                f"Another process made a store at {objects.uri} just now.", hint="Use that one.", uri=objects.uri
            ) from error


def _swap(objects: Objects, found: Held, birth: _Birth) -> None:
    """Put the head of the new store in place of the one that the token is for."""
    seen = SeenHead(birth.head, found.etag)
    HeadPointer(objects).swap(seen, birth.head, lambda head: head.store_id == birth.head.store_id)


def _remove_old(objects: Objects, lease: Lease, birth: _Birth, progress: Progress | None) -> None:
    """Everything of the old store. Nobody sees it any more, so this may stop anywhere; `onto gc` finds the rest."""
    kept = {*birth.keys, keys.LOCK}
    old = [one.key for one in objects.list("") if one.key not in kept]
    for start in range(0, len(old), _BATCH):
        some = old[start : start + _BATCH]
        # A writer that gets the lock after us may write under a key that the old store had too.
        lease.ensure_safe()
        objects.delete_many(some)
        if progress is not None:
            progress(start + len(some), len(old))
