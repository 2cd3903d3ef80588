"""Data files made ready to be scanned: fetched side by side and folded when they are small, opened when they are large.

What comes out is a parameter for a statement, which keeps its files on disk for as long as it lives.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from ontologia.config import OntologiaConfig
from ontologia.objects.cache import DiskCache
from ontologia.objects.holds import Hold
from ontologia.objects.port import Objects, Together
from ontologia.query.sql import Sql
from ontologia.store.objects.database import as_pattern
from ontologia.store.objects.records import DataFile
from ontologia.store.objects.segments import Part, Segments

if TYPE_CHECKING:
    from ontologia.store.objects.remote import RemoteFiles

_READ = "read_parquet(?, union_by_name = true, hive_partitioning = false)"
_SEGMENT_FACTOR = 4
_AT_A_TIME = 256_000_000
"""Bytes that are fetched together: an object passes through memory on its way to the disk."""


class Scanned(list[str]):
    """The parameter of a relation: the paths of local files, and what it takes to find these again."""

    def __init__(self, files: Sequence[DataFile], parts: Sequence[Part], hold: Hold) -> None:
        super().__init__(as_pattern(part.path) for part in parts)
        self.files = files
        self.parts = parts
        self.remote: dict[str, RemoteFiles] = {}
        """Datasets by the name that the statement calls them."""
        self._hold = hold


class Scans:
    """All data files of a store, wherever they are at the moment."""

    def __init__(self, config: OntologiaConfig, cache: DiskCache, objects: Objects, together: Together) -> None:
        self._cache = cache
        self._objects = objects
        self._together = together
        self._largest = config.s3_cache_file_bytes
        self._names = count(1)
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._segments = Segments(self._cache, _SEGMENT_FACTOR * self._largest)

    def relation(self, files: Sequence[DataFile], among: Sequence[DataFile] = ()) -> Sql:
        """What to select from: all rows of these files, at least one, of one type and oldest first.

        Rows of the files `among` which they were chosen may come too.
        """
        small = [one for one in files if one.size is None or one.size <= self._largest]
        large = [one for one in files if one.size is not None and one.size > self._largest]
        scanned = self._local(small, among)
        if not large:
            return Sql(_READ, (scanned,))
        # Loads much of pyarrow, which most stores never need.
        from ontologia.store.objects.remote import RemoteFiles

        name = f"onto_remote_{next(self._names)}"
        scanned.remote[name] = RemoteFiles(self._objects, self._cache, large)
        if not small:
            return Sql(f"(SELECT * FROM {name} WHERE ? IS NOT NULL)", (scanned,))
        return Sql(f"(SELECT * FROM {_READ} UNION ALL BY NAME SELECT * FROM {name})", (scanned,))

    def again(self, scanned: Scanned) -> Scanned:
        """The same after something went wrong: what is on disk is checked, and fetched where it is not right."""
        self._cache.doubt()
        for one in scanned.files:
            if one.content_sha256 is None:
                self._cache.forget(one.path)
        found = self._local(scanned.files)
        found.remote = scanned.remote
        return found

    def drop(self, files: Sequence[DataFile]) -> None:
        """Keep nothing of these."""
        for one in files:
            self._cache.forget(one.path)

    def _local(self, files: Sequence[DataFile], among: Sequence[DataFile] = ()) -> Scanned:
        if self._process != os.getpid():
            # Neither the threads of the parent nor those that held its locks are in a forked child.
            self._together = Together()
            self._begin()
        hold = self._cache.hold()
        if not files:
            return Scanned(files, [], hold)
        parts: list[Part] | None = None
        if len(among) > len(files) and all(one.size is None or one.size <= self._largest for one in among):
            parts = self._segments.covering(files, among, lambda some: self._located(some, hold), hold=hold)
        if parts is None:
            parts = self._segments.fold(files, lambda some: self._located(some, hold), hold=hold)
        return Scanned(files, parts, hold)

    def _located(self, files: Sequence[DataFile], hold: Hold) -> list[Path]:
        absent = [one for one in files if not self._cache.is_ready(one.path, one.content_sha256)]
        for some in _loads(absent):
            self._together.all([lambda one=one: self._path(one, hold) for one in some])
        return [self._path(one, hold) for one in files]

    def _path(self, one: DataFile, hold: Hold) -> Path:
        return self._cache.path(one.path, one.content_sha256, lambda: self._objects.get(one.path).data, hold=hold)


def _loads(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    """The files in portions that fit into memory together."""
    load: list[DataFile] = []
    size = 0
    for one in files:
        if load and size + (one.size or 0) > _AT_A_TIME:
            yield load
            load, size = [], 0
        load.append(one)
        size += one.size or 0
    if load:
        yield load
