"""Which neighbours in a growing list of files belong together, by the number of their rows alone.

Runs never change when the list grows; the last ones become parts of larger ones. What is known of a list is learned
from what is asked for: a query may leave out files in the middle, and the runs of the others stay what they are. Only a
selection that leaves out so many that little is left of these runs, and that comes again, gets runs of its own.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

from ontologia.store.objects.records import DataFile

_FORMAT = "1"
"""Part of every name: another way to write segments gets another one."""
_SCATTERED = 32
"""More pieces than a window into a list has: the files are a selection by something else than time."""
_SELECTIONS = 4
_ANSWERS = 8
_GUESSED_ROW_BYTES = 200
_GUESSED_ROWS = 1000

_RATIO = 3
"""How many times the rows of the next a segment has at least: fewer segments to read, more rows to rewrite."""


@dataclass(frozen=True)
class Run:
    """Neighbours: a single file, or two runs."""

    start: int
    rows: int
    size: int
    members: tuple[DataFile, ...]
    parts: tuple[Run, ...] = ()

    @property
    def end(self) -> int:
        return self.start + len(self.members)

    @property
    def is_file(self) -> bool:
        return not self.parts

    @cached_property
    def name(self) -> str:
        """What the segment of this run is called: the same for the same members, whoever asks."""
        members = "\n".join(f"{one.path} {one.content_sha256}" for one in self.members)
        return hashlib.sha256(f"{_FORMAT}\n{members}".encode()).hexdigest() + ".parquet"


class KnownFiles:
    """The list of one type as far as it is known, and its runs of at most `largest` bytes."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._start()

    def _start(self) -> None:
        self._files: list[DataFile] = []
        self._places: dict[tuple[str, str | None], int] = {}
        self._runs: list[Run] = []
        self._answers: deque[tuple[list[DataFile], list[Run]]] = deque(maxlen=_ANSWERS)

    def runs(self, wanted: Sequence[DataFile]) -> list[Run]:
        """The largest runs that consist of wanted files only; together they are the wanted files, in order."""
        wanted = list(wanted)
        for asked, answer in self._answers:
            # Neighbouring queries ask for the very same objects, which makes this comparison cheap.
            if asked == wanted:
                return answer
        self._learn(wanted)
        flags = [0] * len(self._files)
        for one in wanted:
            flags[self._places[_identity(one)]] = 1
        counts = [0, *accumulate(flags)]
        answer = [piece for run in self._runs for piece in _within(run, counts)]
        self._answers.append((wanted, answer))
        return answer

    def begins(self, wanted: Sequence[DataFile]) -> bool:
        """Whether the list begins with the wanted files, or they begin with the list."""
        return _begin_alike(self._files, wanted)

    def _learn(self, wanted: Sequence[DataFile]) -> None:
        unknown = [one for one in wanted if _identity(one) not in self._places]
        if not unknown:
            return
        if self._files and self._files[-1].max_commit_id >= unknown[0].min_commit_id:
            # The unknown ones lie between known ones, or they stand for known ones: a snapshot does.
            together = sorted([*self._files, *unknown], key=lambda one: one.min_commit_id)
            overlap = any(one.max_commit_id >= two.min_commit_id for one, two in pairwise(together))
            unknown = list(wanted) if overlap else together
            self._start()
        for one in unknown:
            self._append(one)

    def _append(self, one: DataFile) -> None:
        self._places[_identity(one)] = len(self._files)
        self._runs.append(Run(len(self._files), _rows(one), _size(one), (one,)))
        self._files.append(one)
        while len(self._runs) > 1 and self._belong(*self._runs[-2:]):
            later, earlier = self._runs.pop(), self._runs.pop()
            self._runs.append(
                Run(
                    earlier.start,
                    earlier.rows + later.rows,
                    earlier.size + later.size,
                    earlier.members + later.members,
                    (earlier, later),
                )
            )

    def _belong(self, earlier: Run, later: Run) -> bool:
        last, first = earlier.members[-1], later.members[0]
        return (
            earlier.rows <= _RATIO * later.rows
            and earlier.size + later.size <= self._largest
            and last.schema_version_id is not None
            and last.schema_version_id == first.schema_version_id
            and last.max_commit_id < first.min_commit_id
        )


class Selections:
    """What is known of one type: the list of its files, and selections from it that come again and again."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._whole = KnownFiles(largest)
        self._selected: deque[KnownFiles] = deque(maxlen=_SELECTIONS)
        self._seen: deque[Sequence[DataFile]] = deque(maxlen=_SELECTIONS)

    def runs(self, wanted: Sequence[DataFile]) -> list[Run]:
        """The wanted files as few runs, each of neighbours among them."""
        runs = self._whole.runs(wanted)
        if len(runs) <= _SCATTERED:
            return runs
        for selected in self._selected:
            if selected.begins(wanted):
                return selected.runs(wanted)
        # Files chosen for a key are hardly ever chosen again; those chosen for what is in them are, and more of them.
        if any(_begin_alike(wanted, before) for before in self._seen):
            self._selected.append(KnownFiles(self._largest))
            return self._selected[-1].runs(wanted)
        self._seen.append(list(wanted))
        return runs


def _begin_alike(one: Sequence[DataFile], two: Sequence[DataFile]) -> bool:
    """Whether the shorter of two lists is the beginning of the other."""
    length = min(len(one), len(two))
    return one[0].path == two[0].path and list(one[:length]) == list(two[:length])


def _identity(one: DataFile) -> tuple[str, str | None]:
    # The key of a snapshot says which commits it covers, and may be written again with other content.
    return one.path, one.content_sha256


def _within(run: Run, counts: Sequence[int]) -> list[Run]:
    """The largest parts of a run with wanted members only."""
    there = counts[run.end] - counts[run.start]
    if there == len(run.members):
        return [run]
    return [piece for part in run.parts for piece in _within(part, counts)] if there else []


def _rows(one: DataFile) -> int:
    if one.row_count is not None:
        return max(1, one.row_count)
    return _GUESSED_ROWS if one.size is None else max(1, one.size // _GUESSED_ROW_BYTES)


def _size(one: DataFile) -> int:
    return _rows(one) * _GUESSED_ROW_BYTES if one.size is None else one.size
