"""Local folding: many small files that are read together become few larger ones, on disk beside what was fetched.

The files of a type are an append-only list, and segments are made over it somewhat as a counter counts: the last two
are merged while the earlier has at most three times the rows of the later. So there are O(log rows) segments, a row is
rewritten O(log rows) times, and which segments there may be follows from the list alone: no process needs to tell
another. A segment holds exactly the rows of its members, oldest first, in all their columns; one with a member that is
not wanted is never used. A segment that is gone is made again from its parts.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ontologia.objects.cache import DiskCache
from ontologia.objects.holds import Hold
from ontologia.store.objects.merging import Unmergeable, merge
from ontologia.store.objects.records import DataFile
from ontologia.store.objects.runs import Run, Selections

_SPARE = 3
"""So many files more than there would be segments are read as they are: that costs less than folding per commit."""
_TYPES = 256

Locate: TypeAlias = Callable[[Sequence[DataFile]], Sequence[Path]]
"""The local files of some objects, fetched if need be."""


@dataclass(frozen=True, slots=True)
class Part:
    """A local file and the objects whose rows it holds."""

    path: Path
    files: tuple[DataFile, ...]


class Segments:
    """The segments of all types, kept in a cache; none is larger than `largest` bytes."""

    def __init__(self, cache: DiskCache, largest: int) -> None:
        self._cache = cache
        self._largest = largest
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str, int | None], Selections] = OrderedDict()
        self._unfoldable: set[str] = set()

    def fold(self, files: Sequence[DataFile], locate: Locate, *, hold: Hold | None = None) -> list[Part]:
        """Local files with exactly the rows of these, few of them, in the same order.

        The files are of one type and oldest first. `locate` is asked once, and only for what no segment holds.
        """
        runs = self._runs(files)
        found = [self._found(run, hold) for run in runs]
        alone = [run.members[0] for pieces in found for run, path in pieces if path is None]
        located = {one.path: path for one, path in zip(alone, locate(alone) if alone else (), strict=True)}
        there = [[Part(path or located[run.members[0].path], run.members) for run, path in pieces] for pieces in found]
        if sum(map(len, there)) > len(runs) + _SPARE:
            there = [self._merged(run, parts, hold) for run, parts in zip(runs, there, strict=True)]
        return [part for parts in there for part in parts]

    def covering(
        self, files: Sequence[DataFile], among: Sequence[DataFile], locate: Locate, *, hold: Hold | None = None
    ) -> list[Part] | None:
        """Those parts of a longer list that hold some of these files; None unless all of the list is here already.

        Files that a condition picks from a list are scattered over it, and reading a few segments with more in them
        costs less than reading each by itself.
        """
        pieces = [piece for run in self._runs(among) for piece in self._found(run, hold)]
        alone = [run.members[0] for run, path in pieces if path is None]
        if not all(self._cache.is_ready(one.path, one.content_sha256) for one in alone):
            return None
        wanted = {one.path for one in files}
        parts = self.fold(among, locate, hold=hold)
        return [part for part in parts if any(one.path in wanted for one in part.files)]

    def _runs(self, files: Sequence[DataFile]) -> list[Run]:
        first = files[0]
        with self._lock:
            place = (first.kind, first.type_name, first.schema_version_id)
            known = self._known.setdefault(place, Selections(self._largest))
            self._known.move_to_end(place)
            if len(self._known) > _TYPES:
                self._known.popitem(last=False)
            return known.runs(files)

    def _found(self, run: Run, hold: Hold | None) -> list[tuple[Run, Path | None]]:
        """The largest segments that there are of a run, and the single files between them, with no path."""
        if run.is_file:
            return [(run, None)]
        path = self._cache.find_derived(run.name, hold=hold)
        if path is not None:
            return [(run, path)]
        return [piece for part in run.parts for piece in self._found(part, hold)]

    def _merged(self, run: Run, parts: list[Part], hold: Hold | None) -> list[Part]:
        """The segment of a run, made from parts; the parts themselves where that cannot be."""
        if len(parts) == 1 or run.name in self._unfoldable:
            return parts
        paths = [part.path for part in parts]
        try:
            path = self._cache.derive(
                run.name, [one.path for one in run.members], lambda target: merge(paths, target), hold=hold
            )
        except Unmergeable:
            # An unreadable file is for the engine to report: it knows what to do about it.
            self._unfoldable.add(run.name)
            return parts
        except OSError:
            return parts
        if path is None:
            return parts
        self._cache.demote(paths)
        return [Part(path, run.members)]
