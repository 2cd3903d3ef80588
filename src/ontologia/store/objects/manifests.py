"""The log of commits: manifests by path, by number, and in ranges.

Manifests never change, so each is fetched once and kept. One is found by number through lists of manifests that
writers leave behind every so many commits, through a listing of its folder, or, when neither helps, by walking the
chain back from a later one; nothing here is linear in history in normal operation.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from ontologia.errors import IntegrityError
from ontologia.model.comparable import instant
from ontologia.objects.cache import DiskCache
from ontologia.objects.port import Missing, Objects
from ontologia.store.objects import keys
from ontologia.store.objects.records import Head, Manifest, decode, encode

_log = logging.getLogger("ontologia.store.objects")
BLOCK = 64
"""Commits per list of manifests."""
_WALK = 8
"""Steps along the chain that cost less than looking elsewhere."""
Listing = list[tuple[str, Manifest]]
"""Manifests with their keys."""
_KEPT = 8192
"""Manifests held in memory at most."""


class ManifestLog:
    """The commits of one store."""

    def __init__(self, objects: Objects, cache: DiskCache, store_id: str | None) -> None:
        self._objects = objects
        self._cache = cache
        self._store_id = store_id
        self._known: dict[int, tuple[str, Manifest]] = {}
        self._guard = threading.Lock()

    def by_path(self, path: str) -> Manifest:
        """The manifest at a key."""
        try:
            data = self._cache.get_bytes(path, None, lambda: self._objects.get(path).data)
        except Missing:
            raise IntegrityError(
                f"The manifest {path} is missing.", hint="`onto verify` tells what else is; restore it.", key=path
            ) from None
        try:
            manifest = decode(data, path, Manifest.from_json)
        except IntegrityError:
            self._cache.forget(path)  # so that one restored from a backup is seen
            raise
        return self.remember(path, manifest)

    def remember(self, path: str, manifest: Manifest) -> Manifest:
        """Keep a manifest that is known to be committed."""
        with self._guard:
            if len(self._known) >= _KEPT:
                # The half that was met longest ago; what is needed again is fetched again, mostly from the disk.
                self._known = dict(list(self._known.items())[_KEPT // 2 :])
            self._known[manifest.commit_id] = (path, manifest)
        return manifest

    def _at_hand(self, commit_id: int) -> tuple[Manifest | None, Manifest | None]:
        """A manifest, and the next later one, of those that are kept."""
        with self._guard:
            known = self._known.get(commit_id)
            if known is not None:
                return known[1], None
            above = min((number for number in self._known if number > commit_id), default=None)
            return None, None if above is None else self._known[above][1]

    def walk(self, head: Head, down_to: int) -> Iterator[Manifest]:
        """Manifests from the head back to, and without, a commit."""
        path = head.manifest_path
        while path is not None:
            manifest = self.by_path(path)
            if manifest.commit_id <= down_to:
                return
            yield manifest
            path = manifest.parent_manifest_path

    def at(self, commit_id: int, head: Head) -> Manifest:
        """The manifest of a commit, which is one of the head's ancestors."""
        known, above = self._at_hand(commit_id)
        if known is not None:
            return known
        if commit_id == head.commit_id and head.manifest_path is not None:
            return self.by_path(head.manifest_path)
        if above is None or above.commit_id - commit_id > _WALK:
            block = self._block((commit_id - 1) // BLOCK, head)
            if block is not None:
                return block[(commit_id - 1) % BLOCK][1]
            path = self._only_attempt(commit_id)
            if path is not None:
                return self.by_path(path)
        return self._walk_to(commit_id, head.manifest_path if above is None else above.parent_manifest_path)

    def _walk_to(self, commit_id: int, path: str | None) -> Manifest:
        while path is not None:
            manifest = self.by_path(path)
            if manifest.commit_id == commit_id:
                return manifest
            path = manifest.parent_manifest_path
        raise IntegrityError(
            f"Commit {commit_id} is missing from the chain of manifests.",
            hint="`onto verify` tells where it breaks.",
            commit_id=commit_id,
        )

    def _only_attempt(self, commit_id: int) -> str | None:
        """The manifest of a commit when no other attempt at that number left one."""
        prefix = f"{keys.COMMITS}{commit_id}-"
        found = [one.key for one in self._objects.list(prefix) if one.key.endswith("/manifest.json")]
        return found[0] if len(found) == 1 else None

    def _block(self, block: int, head: Head) -> Listing | None:
        """The manifests of a block of commits, oldest first, from the list of them; None when there is no list."""
        first, last = block * BLOCK + 1, (block + 1) * BLOCK
        if last > head.commit_id:
            return None
        key = keys.manifest_list(first, last)
        try:
            data = self._cache.get_bytes(key, None, lambda: self._objects.get(key).data)
            found = decode(data, key, lambda record: self._read_block(record, first))
        except Missing:
            return None
        except IntegrityError as error:
            _log.warning("%s", error)
            self._cache.forget(key)
            return None
        for path, manifest in found:
            self.remember(path, manifest)
        return found

    def _read_block(self, record: Mapping[str, Any], first: int) -> Listing:
        if record.get("store_id") != self._store_id:
            raise ValueError("the list belongs to another store")
        found = [(one["path"], Manifest.from_json(one["manifest"])) for one in record["manifests"]]
        if [manifest.commit_id for _, manifest in found] != list(range(first, first + BLOCK)):
            raise ValueError("the list is not complete")
        links = itertools.pairwise(found)
        if any(later.parent_manifest_path != path for (path, _), (_, later) in links):
            raise ValueError("the list is not a chain")
        return found

    def block_to_write(self, commit_id: int) -> tuple[str, bytes] | None:
        """The list that the last commit completes, its key and content, when all its manifests are at hand."""
        if commit_id % BLOCK:
            return None
        first = commit_id - BLOCK + 1
        with self._guard:
            found = [self._known[number] for number in range(first, commit_id + 1) if number in self._known]
        return self._encoded(found) if len(found) == BLOCK else None

    def _encoded(self, manifests: Listing) -> tuple[str, bytes]:
        first, last = manifests[0][1].commit_id, manifests[-1][1].commit_id
        listed = [{"path": path, "manifest": manifest.to_json()} for path, manifest in manifests]
        record = {"from": first, "to": last, "store_id": self._store_id, "manifests": listed}
        return keys.manifest_list(first, last), encode(record)

    def missing_lists(self, head: Head) -> Iterator[tuple[str, bytes]]:
        """Lists of complete blocks that nobody has left yet: their keys and contents."""
        for block in range(head.commit_id // BLOCK):
            if self._block(block, head) is not None:
                continue
            first, last = block * BLOCK + 1, (block + 1) * BLOCK
            found = self.between(first - 1, last + 2, None, head)
            child = found[0].parent_manifest_path if last < head.commit_id else head.manifest_path
            chain = list(reversed(found[1:] if last < head.commit_id else found))
            paths = [*(manifest.parent_manifest_path for manifest in chain[1:]), child]
            yield self._encoded([(path or "", one) for path, one in zip(paths, chain, strict=True)])

    def between(self, since: int, before: int, limit: int | None, head: Head) -> list[Manifest]:
        """Manifests with `since < number < before`, newest first."""
        last = min(before - 1, head.commit_id)
        first = since + 1 if limit is None else max(since + 1, last - limit + 1)
        found: list[Manifest] = []
        number = last
        while number >= first:
            block = (number - 1) // BLOCK
            start = max(first, block * BLOCK + 1)
            listed = self._listed(block, range(start, number + 1), head)
            found += [self.at(one, head) for one in range(number, start - 1, -1)] if listed is None else listed
            number = start - 1
        return found

    def _listed(self, block: int, wanted: range, head: Head) -> list[Manifest] | None:
        """Some manifests of a block, newest first, from its list; None where walking costs less or there is none."""
        with self._guard:
            absent = sum(number not in self._known for number in wanted)
        found = self._block(block, head) if absent > _WALK else None
        return None if found is None else [found[(number - 1) % BLOCK][1] for number in reversed(wanted)]

    def time_of(self, commit_id: int, head: Head) -> datetime:
        """When a commit was made."""
        return datetime.fromisoformat(self.at(commit_id, head).created_at)

    def last_before(self, moment: datetime, head: Head) -> int:
        """The last commit at or before a moment, by bisection: commit times never go back."""
        wanted, low, high = instant(moment), 0, head.commit_id
        while low < high:
            middle = (low + high + 1) // 2
            created = instant(self.time_of(middle, head))
            low, high = (middle, high) if created <= wanted else (low, middle - 1)
        return low
