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

from ontologia.errors import IntegrityError, OntologiaError
from ontologia.model.comparable import instant
from ontologia.objects.cache import DiskCache
from ontologia.objects.port import Missing, Objects, Together
from ontologia.store.objects import keys
from ontologia.store.objects.records import Head, Manifest, decode, encode

_log = logging.getLogger("ontologia.store.objects")
BLOCK = 64
"""Commits per list of manifests."""
_WALK = 8
"""Steps along the chain that cost less than looking elsewhere."""
_KEPT = 8192
"""Manifests held in memory at most."""


class ManifestLog:
    """The commits of one store."""

    def __init__(self, objects: Objects, cache: DiskCache, together: Together, store_id: str | None) -> None:
        self._objects = objects
        self._cache = cache
        self._together = together
        self._store_id = store_id
        self._known: dict[int, tuple[str, Manifest]] = {}
        self._guard = threading.Lock()
        self._blocks: set[int] = set()

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
                self._known = dict(sorted(self._known.items())[-_KEPT // 2 :])
                self._blocks.clear()
            self._known[manifest.commit_id] = (path, manifest)
        return manifest

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
        known = self._known.get(commit_id)
        if known is not None:
            return known[1]
        if commit_id == head.commit_id and head.manifest_path is not None:
            return self.by_path(head.manifest_path)
        above = min((n for n in self._known if n > commit_id), default=None)
        if above is None or above - commit_id > _WALK:
            if self._load_block((commit_id - 1) // BLOCK, head) and commit_id in self._known:
                return self._known[commit_id][1]
            path = self._only_attempt(commit_id)
            if path is not None:
                return self.by_path(path)
        return self._walk_to(commit_id, above, head)

    def _walk_to(self, commit_id: int, above: int | None, head: Head) -> Manifest:
        path = head.manifest_path if above is None else self._known[above][1].parent_manifest_path
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

    def _load_block(self, block: int, head: Head) -> bool:
        """Take in the list of a block of commits, when there is one."""
        first, last = block * BLOCK + 1, (block + 1) * BLOCK
        if block in self._blocks:
            return True
        if last > head.commit_id:
            return False
        key = keys.manifest_list(first, last)
        try:
            data = self._cache.get_bytes(key, None, lambda: self._objects.get(key).data)
            found = decode(data, key, lambda record: self._read_block(record, first))
        except Missing:
            return False
        except IntegrityError as error:
            _log.warning("%s", error)
            self._cache.forget(key)
            return False
        for path, manifest in found:
            self.remember(path, manifest)
        self._blocks.add(block)
        return True

    def _read_block(self, record: Mapping[str, Any], first: int) -> list[tuple[str, Manifest]]:
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
        """The list that the last commit completes, when all its manifests are at hand."""
        if commit_id % BLOCK:
            return None
        first = commit_id - BLOCK + 1
        return self.encode_block(first) if all(n in self._known for n in range(first, commit_id + 1)) else None

    def encode_block(self, first: int) -> tuple[str, bytes]:
        """The list of a block whose manifests are known: its key and content."""
        last = first + BLOCK - 1
        manifests = [self._known[number] for number in range(first, last + 1)]
        listed = [{"path": path, "manifest": manifest.to_json()} for path, manifest in manifests]
        record = {"from": first, "to": last, "store_id": self._store_id, "manifests": listed}
        return keys.manifest_list(first, last), encode(record)

    def missing_blocks(self, head: Head) -> list[int]:
        """First commits of the complete blocks that have no list yet; loads those that have one."""
        blocks = range(head.commit_id // BLOCK)
        loaded = self._together.all([lambda b=b: self._load_block(b, head) for b in blocks]) if blocks else []
        return [block * BLOCK + 1 for block, there in zip(blocks, loaded, strict=True) if not there]

    def between(self, since: int, before: int, limit: int | None, head: Head) -> list[Manifest]:
        """Manifests with `since < number < before`, newest first."""
        last = min(before - 1, head.commit_id)
        first = since + 1 if limit is None else max(since + 1, last - limit + 1)
        wanted = range(last, first - 1, -1)
        blocks = {(n - 1) // BLOCK for n in wanted if n not in self._known}
        if len(wanted) > _WALK and blocks:
            self._together.all([lambda b=b: self._load_block(b, head) for b in sorted(blocks)])
        return [self.at(number, head) for number in wanted]

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


def best_effort_error(error: Exception) -> str:
    """An error of a step that may fail, in one line."""
    return error.message if isinstance(error, OntologiaError) else f"{type(error).__name__}: {error}"
