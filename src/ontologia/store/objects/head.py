"""The head: the one object whose replacement makes a commit true.

Reading it is one conditional request. Replacing it is compare-and-swap, and a lost response is never guessed at: the
head is read back, and the same replacement, which can succeed only once, is sent again while nothing else happened.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from ontologia.errors import (
    CommitStateUnknownError,
    FormatVersionError,
    HeadMismatchError,
    OntologiaError,
    UninitializedStorageError,
)
from ontologia.objects.port import Conflict, Missing, Objects, OutcomeUnknown
from ontologia.store.objects import keys
from ontologia.store.objects.records import Head, decode, encode

FORMAT = 1
"""The newest format of the head that this program reads; what it adds to the public layout."""
_TRIES = 4
_SWAPS = 8
"""The same replacement can succeed only once, so it may be sent as often as it takes to learn what became of it."""
_LONGEST_PAUSE = 2.0


@dataclass(frozen=True, slots=True)
class SeenHead:
    """The head at the moment it was read."""

    head: Head
    etag: str


class HeadPointer:
    """Reads and moves the head of one prefix."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._seen: SeenHead | None = None
        self._guard = threading.Lock()

    def read(self) -> SeenHead:
        """The head now; no bytes travel when it has not moved."""
        seen = self._seen
        try:
            held = self._objects.get(keys.HEAD) if seen is None else self._objects.get_if_changed(keys.HEAD, seen.etag)
        except Missing:
            raise uninitialised(self._objects) from None
        if held is None and seen is not None:
            return seen
        if held is None:
            held = self._objects.get(keys.HEAD)
        return self._keep(SeenHead(_checked(decode(held.data, keys.HEAD, Head.from_json), self._objects), held.etag))

    @property
    def last(self) -> SeenHead | None:
        """The newest head that was seen, at no cost."""
        return self._seen

    def _keep(self, seen: SeenHead) -> SeenHead:
        with self._guard:
            newest = self._seen
            if newest is None or newest.head.store_id != seen.head.store_id or not _older(seen, newest):
                self._seen = seen
        return seen

    def swap(self, seen: SeenHead, following: Head, was_ours: Callable[[Head], bool]) -> SeenHead:
        """Put `following` in place of what was seen, or raise HeadMismatchError when the head is another's by now.

        `was_ours` tells whether a head that moved on goes back to `following`.
        """
        data = encode(following.to_json())
        failure: Exception | None = None
        for attempt in range(_SWAPS):
            if attempt:
                time.sleep(random.uniform(0.0, min(0.05 * 2**attempt, _LONGEST_PAUSE)))  # noqa: S311 - jitter
            try:
                return self._keep(SeenHead(following, self._objects.replace(keys.HEAD, data, seen.etag)))
            except (Conflict, OutcomeUnknown) as error:
                failure = error
            except OntologiaError as error:
                if failure is None:
                    raise
                # An earlier one whose response was lost may still arrive.
                raise self._unknown(following, error) from error
            found = self._outcome(seen, following, was_ours)
            if found is not None:
                return self._keep(found)
        raise self._unknown(following, failure)

    def _outcome(self, seen: SeenHead, following: Head, was_ours: Callable[[Head], bool]) -> SeenHead | None:
        """The head that our replacement led to; None while the head is as it was; an error when it is another's."""
        failure: Exception | None = None
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(random.uniform(0.0, 0.05 * 2**attempt))  # noqa: S311 - jitter, not a secret
            try:
                held = self._objects.get(keys.HEAD)
                head = decode(held.data, keys.HEAD, Head.from_json)
                if head.to_json() == following.to_json():
                    return SeenHead(head, held.etag)
                if held.etag == seen.etag:
                    return None
                ours = was_ours(head)
            except (OntologiaError, Missing) as error:
                failure = error
                continue
            if ours:
                return SeenHead(head, held.etag)
            raise HeadMismatchError(
                f"Another writer moved the head of {self._objects.uri} to commit {head.commit_id} first.",
                hint="Nothing was committed; commit again.",
                commit_id=head.commit_id,
            )
        raise self._unknown(following, failure)

    def _unknown(self, following: Head, failure: Exception | None) -> CommitStateUnknownError:
        return CommitStateUnknownError(
            f"Whether commit {following.commit_id} of {self._objects.uri} was made could not be learned ({failure}).",
            hint=f"Read {keys.HEAD} and follow its chain to {following.manifest_path} before committing again.",
            commit_id=following.commit_id,
            manifest_path=following.manifest_path,
        )


def _older(seen: SeenHead, newest: SeenHead) -> bool:
    """Whether a head that was read late is older than the one at hand."""
    return (seen.head.commit_id, seen.head.updated_at) < (newest.head.commit_id, newest.head.updated_at)


def _checked(head: Head, objects: Objects) -> Head:
    if head.format > FORMAT:
        raise FormatVersionError(
            f"{objects.uri} has store format {head.format}; this Ontologia reads up to {FORMAT}.",
            hint="Upgrade Ontologia.",
            uri=objects.uri,
            found=head.format,
            supported=FORMAT,
        )
    return head


def uninitialised(objects: Objects) -> UninitializedStorageError:
    """The error for a prefix without a head."""
    return UninitializedStorageError(
        f"There is no store at {objects.uri}.",
        hint=f"Create it with `onto init --storage-uri {objects.uri}`.",
        uri=objects.uri,
        bucket=objects.bucket,
        prefix=objects.prefix,
    )
