"""Does this server keep its word? Each condition that the store relies on is tried on an object of its own.

A server that ignores a condition would let two writers both believe that they won, so it is refused, with the name of
the check it failed. One that only ignores the condition of a deletion is usable: locks are then left to expire.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from ontologia.errors import OntologiaError, StorageBackendError
from ontologia.objects.port import Conflict, Missing, Objects, OutcomeUnknown, Together, Unsupported

SCRATCH = "meta/probe/"
RIVALS = 4
DELETION = "delete-if-match"
STALE = "0" * 32
"""A tag that no object has."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing tried."""

    name: str
    ok: bool
    detail: str
    """What a server must do, or what this one did instead."""
    required: bool = True


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """What a server was found to do."""

    uri: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether a store may live there."""
        return all(check.ok for check in self.checks if check.required)

    @property
    def conditional_delete(self) -> bool:
        """Whether a lock can be released by a deletion under a condition; otherwise it is left to expire."""
        return all(check.ok for check in self.checks if check.name == DELETION)

    @property
    def failed(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.ok)

    def refuse(self) -> None:
        """Raise when the server must not be used."""
        for check in self.failed:
            if check.required:
                raise StorageBackendError(
                    f"The server of {self.uri} fails the check {check.name!r}: {check.detail}.",
                    hint="Use a server with atomic conditional writes, such as AWS S3, MinIO, R2, Ceph or SeaweedFS.",
                    operation="probe",
                    check=check.name,
                )


class _Broken(Exception):  # noqa: N818 - ends a check, never leaves this module
    """The server did something else than it must."""


def probe(objects: Objects, *, rivals: bool = True) -> ProbeReport:
    """Try every condition on scratch objects under the prefix, and remove them afterwards.

    Without `rivals`, one request at a time: some servers make those who write one key at once wait for seconds.
    A server that cannot be reached or denies access is no finding: its error goes to the caller.
    """
    folder = f"{SCRATCH}{uuid.uuid4().hex}/"
    trial = _Trial(objects, folder)
    try:
        return ProbeReport(objects.uri, tuple(_check(name, try_it) for name, try_it in trial.checks(rivals=rivals)))
    finally:
        with suppress(OntologiaError):
            objects.delete_many(trial.keys)


def _check(name: str, try_it: Callable[[], str]) -> Check:
    required = name != DELETION
    try:
        return Check(name, True, try_it(), required)
    except _Broken as broken:
        return Check(name, False, str(broken), required)
    except Conflict:
        return Check(name, False, "it refused a write whose condition holds", required)
    except Missing:
        return Check(name, False, "it did not find an object that it had acknowledged", required)
    except OutcomeUnknown:
        return Check(name, False, "its answer was lost; try again", required)
    except Unsupported:
        return Check(name, False, "it does not know this condition", required)


def _must_refuse(attempt: Callable[[], object], otherwise: str) -> None:
    try:
        attempt()
    except Conflict:
        return
    raise _Broken(otherwise)


@dataclass(frozen=True, slots=True)
class _Trial:
    objects: Objects
    folder: str

    @property
    def keys(self) -> list[str]:
        names = ("create", "replace", "absent", "changed", "listed", "delete", "rivals-create", "rivals-replace")
        return [self.folder + name for name in names]

    def checks(self, *, rivals: bool) -> list[tuple[str, Callable[[], str]]]:
        found: list[tuple[str, Callable[[], str]]] = [
            ("create-if-absent", self._create),
            ("replace-if-match", self._replace),
            ("replace-if-match-absent", self._replace_absent),
            ("get-if-changed", self._changed),
            ("list-after-write", self._listed),
        ]
        if rivals:
            found += [("create-rivals", self._create_rivals), ("replace-rivals", self._replace_rivals)]
        return [*found, (DELETION, self._delete)]

    def _holds(self, key: str, data: bytes, otherwise: str) -> None:
        if self.objects.get(key).data != data:
            raise _Broken(otherwise)

    def _create(self) -> str:
        key = f"{self.folder}create"
        self.objects.create(key, b"1")
        _must_refuse(lambda: self.objects.create(key, b"2"), "it wrote over an object that If-None-Match protects")
        self._holds(key, b"1", "it refused to create an object and wrote it all the same")
        return "an object that exists is not created again"

    def _replace(self) -> str:
        key = f"{self.folder}replace"
        first = self.objects.put(key, b"1")
        second = self.objects.replace(key, b"2", first)
        _must_refuse(lambda: self.objects.replace(key, b"3", first), "it replaced an object whose ETag had changed")
        self._holds(key, b"2", "it refused to replace an object and wrote it all the same")
        if self.objects.get(key).etag != second:
            raise _Broken("it gave one ETag for a write and another for the reading of it")
        return "an object that changed is not replaced"

    def _replace_absent(self) -> str:
        key = f"{self.folder}absent"
        _must_refuse(lambda: self.objects.replace(key, b"1", STALE), "it wrote an object that If-Match says must exist")
        with suppress(Missing):
            self.objects.get(key)
            raise _Broken("it refused to write an object and wrote it all the same")
        return "an object that is gone is not replaced"

    def _changed(self) -> str:
        key = f"{self.folder}changed"
        first = self.objects.put(key, b"1")
        if self.objects.get_if_changed(key, first) is not None:
            raise _Broken("it sent an object again that had not changed")
        self.objects.put(key, b"2")
        held = self.objects.get_if_changed(key, first)
        if held is None or held.data != b"2":
            raise _Broken("it said that an object had not changed, though it had")
        return "an object is sent when it changed, and only then"

    def _listed(self) -> str:
        key = f"{self.folder}listed"
        self.objects.put(key, b"1")
        if [line.key for line in self.objects.list(key)] != [key]:
            raise _Broken("it did not list an object that it had just written")
        self.objects.delete(key)
        if list(self.objects.list(key)):
            raise _Broken("it listed an object that it had just removed")
        return "a listing shows what was just written"

    def _create_rivals(self) -> str:
        key = f"{self.folder}rivals-create"
        return self._one_winner(lambda data: self.objects.create(key, data))

    def _replace_rivals(self) -> str:
        key = f"{self.folder}rivals-replace"
        etag = self.objects.put(key, b"start")
        return self._one_winner(lambda data: self.objects.replace(key, data, etag))

    def _one_winner(self, write: Callable[[bytes], object]) -> str:
        def wins(number: int) -> bool:
            try:
                write(f"rival {number}".encode())
            except (Conflict, OutcomeUnknown):
                return False
            return True

        together = Together(RIVALS)
        try:
            winners = sum(together.all([lambda number=number: wins(number) for number in range(RIVALS)]))
        finally:
            together.close()
        if winners > 1:
            raise _Broken(f"it let {winners} of {RIVALS} writers win at once")
        return "of several writers at once, one wins"

    def _delete(self) -> str:
        key = f"{self.folder}delete"
        etag = self.objects.put(key, b"1")
        _must_refuse(
            lambda: self.objects.delete(key, if_match=STALE), "it deleted an object whose ETag was another one"
        )
        self._holds(key, b"1", "it refused to delete an object and deleted it all the same")
        self.objects.delete(key, if_match=etag)
        with suppress(Missing):
            self.objects.get(key)
            raise _Broken("it kept an object whose deletion it acknowledged")
        return "an object that changed is not deleted"
