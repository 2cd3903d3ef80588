"""The write lock: one small object that says who may write and until when.

It is taken by conditional create, taken over by conditional replace once its lease has run out, renewed by a thread
while work goes on, and given back only by the one who holds it. It serialises writers; what keeps a late one from
doing harm is the compare-and-swap of the head.
"""

from __future__ import annotations

import logging
import random
import secrets
import threading
import time
from dataclasses import dataclass, replace
from datetime import timedelta

from ontologia.base.clock import Clock
from ontologia.config import OntologiaConfig
from ontologia.errors import LeaseExpiredError, LockContentionError, OntologiaError
from ontologia.objects.port import Conflict, Held, Missing, Objects, OutcomeUnknown
from ontologia.store.objects import keys
from ontologia.store.objects.records import LockRecord, decode, encode

_log = logging.getLogger("ontologia.store.objects")
_PAUSE = (0.01, 0.03)
"""Seconds between two looks at a lock that somebody else holds."""


class WriteLock:
    """Where leases come from."""

    def __init__(self, objects: Objects, config: OntologiaConfig, clock: Clock) -> None:
        self._objects = objects
        self._owner = config.runtime_id
        self._ttl_ms = config.s3_lease_ttl_ms
        self._timeout = config.s3_lock_timeout_ms / 1000
        self._clock = clock
        self._left: str | None = None
        """The tag of a lock that we let run out instead of deleting it: nobody else has touched it while it fits."""

    def acquire(self) -> Lease:
        """The lock, or LockContentionError after `s3_lock_timeout_ms`."""
        nonce = secrets.token_hex(8)
        deadline = time.monotonic() + self._timeout
        while True:
            began = time.monotonic()
            found = self._try(self._record(nonce))
            if isinstance(found, _Ours):
                left = (found.record.expires_at - self._clock.now()).total_seconds()
                until = began + min(self._ttl_ms / 1000, left)
                return Lease(self._objects, self._clock, _Term(found.record, found.etag, until), self)
            if time.monotonic() >= deadline:
                raise _contention(found, self._objects.uri, self._timeout)
            time.sleep(random.uniform(*_PAUSE))  # noqa: S311 - jitter, not a secret

    def _record(self, nonce: str) -> LockRecord:
        now = self._clock.now()
        return LockRecord(self._owner, now, now + timedelta(milliseconds=self._ttl_ms), self._ttl_ms, nonce)

    def _try(self, record: LockRecord) -> _Ours | LockRecord | None:
        """The lock when it is ours now; else who holds it, or None when it was just let go."""
        data = encode(record.to_json())
        left, self._left = self._left, None
        try:
            etag = self._objects.replace(keys.LOCK, data, left) if left else self._objects.create(keys.LOCK, data)
            return _Ours(record, etag)
        except (Conflict, OutcomeUnknown):
            held = self._held()
        if held is None:
            return None
        found = decode(held.data, keys.LOCK, LockRecord.from_json)
        if found.nonce == record.nonce:
            # An earlier request of ours, whose response was lost: it says for how long, not the one just sent.
            return _Ours(found, held.etag)
        if record.acquired_at < found.expires_at:
            return found
        try:
            return _Ours(record, self._objects.replace(keys.LOCK, data, held.etag))
        except (Conflict, OutcomeUnknown):
            # Whether it was ours is seen at the next look.
            return found

    def _held(self) -> Held | None:
        try:
            return self._objects.get(keys.LOCK)
        except Missing:
            return None

    def holder(self) -> LockRecord | None:
        """Who holds the lock now; None when nobody does."""
        held = self._held()
        found = None if held is None else decode(held.data, keys.LOCK, LockRecord.from_json)
        return found if found is not None and found.expires_at > self._clock.now() else None

    def leave(self, etag: str) -> None:
        """Remember a lock that was let run out, to be taken again without asking who has it."""
        self._left = etag


def _contention(holder: LockRecord | None, uri: str, waited: float) -> LockContentionError:
    who = "another writer" if holder is None else f"{holder.owner_id!r} (until {holder.expires_at.isoformat()})"
    return LockContentionError(
        f"The write lock of {uri} is held by {who}; waited {waited:g} s.",
        hint="Try again, or raise s3_lock_timeout_ms; a lock whose holder died is free once its lease runs out.",
        owner_id=None if holder is None else holder.owner_id,
    )


@dataclass(frozen=True, slots=True)
class _Ours:
    """The lock as we hold it."""

    record: LockRecord
    etag: str


@dataclass(frozen=True, slots=True)
class _Term:
    """How long a lease is good for: by the clock on the wall and by one that nobody can set."""

    record: LockRecord
    etag: str
    until: float


class Lease:
    """The lock while it is held. A thread renews it; `ensure_safe` tells whether it may still be relied on."""

    def __init__(self, objects: Objects, clock: Clock, term: _Term, lock: WriteLock) -> None:
        self._objects = objects
        self._clock = clock
        self._lock = lock
        self._ttl = term.record.lease_ttl_ms / 1000
        self._term = term
        self._lost: str | None = None
        self._ended = threading.Event()
        self._busy = threading.Lock()
        self._keeper = threading.Thread(target=self._keep_alive, name="ontologia-lease", daemon=True)
        self._keeper.start()

    @property
    def expires_at(self) -> float:
        """The end of the lease on the monotonic clock."""
        return self._term.until

    def ensure_safe(self) -> None:
        """Raise LeaseExpiredError unless the lease holds for another third of its length."""
        term, margin = self._term, self._ttl / 3
        short = time.monotonic() + margin >= term.until
        late = self._clock.now() + timedelta(seconds=margin) >= term.record.expires_at
        if self._lost is not None or short or late:
            reason = self._lost or "too little of it is left"
            raise LeaseExpiredError(
                f"The write lease of {self._objects.uri} cannot be relied on: {reason}. Nothing was committed.",
                hint="Commit again; raise s3_lease_ttl_ms if commits take long.",
                owner_id=term.record.owner_id,
            )

    def _keep_alive(self) -> None:
        pause = self._ttl / 3
        while not self._ended.wait(pause):
            try:
                with self._busy:
                    if self._ended.is_set() or self._lost is not None:
                        return
                    self._renew()
                pause = self._ttl / 3
            except Exception as error:  # noqa: BLE001 - never into the user's code; the lease says so itself
                _log.warning("Renewing the write lease of %s failed: %s", self._objects.uri, error)
                if time.monotonic() >= self._term.until:
                    self._lost = f"it could not be renewed ({error})"
                    return
                pause = self._ttl / 20

    def _renew(self) -> None:
        began, term = time.monotonic(), self._term
        record = replace(term.record, expires_at=self._clock.now() + timedelta(seconds=self._ttl))
        try:
            etag = self._objects.replace(keys.LOCK, encode(record.to_json()), term.etag)
        except Conflict:
            self._adopt(began, term.record.nonce)
        except OutcomeUnknown:
            self._adopt(began, term.record.nonce)
        else:
            self._term = _Term(record, etag, began + self._ttl)

    def _adopt(self, began: float, nonce: str) -> None:
        """After a renewal that failed or got lost: the lock as it is, when it is still ours."""
        try:
            held = self._objects.get(keys.LOCK)
        except Missing:
            self._lost = "the lock is gone"
            return
        found = decode(held.data, keys.LOCK, LockRecord.from_json)
        if found.nonce != nonce:
            self._lost = f"{found.owner_id!r} has taken it over"
            return
        left = (found.expires_at - self._clock.now()).total_seconds()
        self._term = _Term(found, held.etag, began + min(self._ttl, left))

    def release(self) -> None:
        """Give the lock back if it is still ours. Best effort: what is not given back runs out."""
        self._ended.set()
        with self._busy:
            if self._lost is not None:
                return
            try:
                self._give_back()
            except (Conflict, OutcomeUnknown, OntologiaError) as error:
                _log.info("The write lock of %s was not released (%s); it will run out.", self._objects.uri, error)

    def _give_back(self) -> None:
        if self._objects.conditional_delete:
            try:
                self._delete()
            except NotImplementedError:
                self._objects.conditional_delete = False
            else:
                return
        self._let_run_out()

    def _delete(self) -> None:
        """Once more when the response was lost: what is gone by then, or another's, is refused and left alone."""
        try:
            self._objects.delete(keys.LOCK, if_match=self._term.etag)
        except OutcomeUnknown:
            self._objects.delete(keys.LOCK, if_match=self._term.etag)

    def _let_run_out(self) -> None:
        """For servers without conditional delete: a lease that ends now."""
        record = replace(self._term.record, expires_at=self._clock.now(), nonce="")
        self._lock.leave(self._objects.replace(keys.LOCK, encode(record.to_json()), self._term.etag))
