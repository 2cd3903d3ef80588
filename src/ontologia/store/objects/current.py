"""The current rows of a type, for writers: which identities exist, since which commit, and their values.

For types of a moderate size, a map from identity to the commit that wrote it is kept in memory and carried along with
every commit, so that comparing a few wanted rows reads the few files that have them, however long the history. Larger
types are asked by key, and a bulk write that concerns most rows reads them once, in identity order.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ontologia.store.catalog import StoredType
from ontologia.store.objects.engine import Engine
from ontologia.store.objects.records import DataFile
from ontologia.store.objects.statements import current_statement, identities_statement, ordered_statement
from ontologia.store.rows import Row

MAPPED_ROWS = 300_000
"""Largest number of identities that are held in memory for one type."""
_DENSE = 4
"""Read all rows when the store has at most this many times the rows that are wanted."""


@dataclass
class _Map:
    """Identities of one type, as of a commit."""

    version: int
    upto: int
    commits: dict[Row, int]


class IdentityMaps:
    """The maps of one process, by type."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._maps: dict[int, _Map] = {}
        self._guard = threading.Lock()

    def of(self, stored: StoredType, files: Sequence[DataFile], head: int) -> dict[Row, int] | None:
        """Identity to commit of all current rows up to a head; None for a type that is too large."""
        with self._guard:
            known = self._maps.get(stored.type_id)
            if known is not None and (known.version != stored.current.version or known.upto > head):
                known = None
            if known is None:
                if sum(one.row_count or 0 for one in files) > MAPPED_ROWS:
                    return None
                known = self._maps[stored.type_id] = _Map(stored.current.version, 0, {})
            newer = [one for one in files if one.max_commit_id > known.upto]
            if newer:
                self._take(known, stored, newer)
            known.upto = head
            if len(known.commits) > MAPPED_ROWS:
                self._maps.pop(stored.type_id)
            return known.commits

    def _take(self, known: _Map, stored: StoredType, files: Sequence[DataFile]) -> None:
        statement = identities_statement(stored, files, self._engine.relation)
        for row in self._engine.rows(statement):
            if row[-1] > known.upto:
                known.commits[row[:-1]] = row[-1]

    def commit(self, stored: StoredType, identities: Iterable[Row], commit_id: int) -> None:
        """Carry a map along with a commit of ours."""
        with self._guard:
            known = self._maps.get(stored.type_id)
            if known is None or known.upto != commit_id - 1 or known.version != stored.current.version:
                self._maps.pop(stored.type_id, None)
                return
            for identity in identities:
                known.commits[identity] = commit_id
            known.upto = commit_id
            if len(known.commits) > MAPPED_ROWS:
                self._maps.pop(stored.type_id)

    def advance(self, types: Iterable[StoredType], commit_id: int) -> None:
        """Types that a commit of ours did not touch are known up to it too."""
        with self._guard:
            for stored in types:
                known = self._maps.get(stored.type_id)
                if known is not None and known.upto == commit_id - 1:
                    known.upto = commit_id

    def clear(self) -> None:
        with self._guard:
            self._maps.clear()


class CurrentRows:
    """The current rows of one type during one write."""

    def __init__(
        self, engine: Engine, maps: IdentityMaps, stored: StoredType, files: tuple[DataFile, ...], head: int
    ) -> None:
        self._engine = engine
        self._maps = maps
        self._stored = stored
        self._files = files
        self._head = head
        self._width = len(stored.spec.identity)
        self._stream: Iterator[Row] | None = None
        self._ahead: Row | None = None
        self._before: Row | None = None

    @property
    def count(self) -> int:
        """How many there are at most; exact unless files of another program lack their counts."""
        return sum((one.row_count or 0) for one in self._files)

    def is_dense(self, total: int) -> bool:
        return 0 < self.count <= _DENSE * total

    def of(self, wanted: Sequence[Row], total: int) -> list[Row]:
        """Current rows of the wanted identities, in identity order."""
        if not self._files or not wanted:
            return []
        if len(wanted) > 1 and total > 1000 and self.is_dense(total):
            return self._along(wanted[0][: self._width], wanted[-1][: self._width])
        identities = [row[: self._width] for row in wanted]
        files = self._files
        known = self._maps.of(self._stored, files, self._head)
        if known is not None:
            identities = [one for one in identities if one in known]
            if not identities:
                return []
            commits = {known[one] for one in identities}
            files = tuple(one for one in files if any(one.covers(commit) for commit in commits))
        statement = current_statement(self._stored, files, self._engine.relation, identities)
        return [] if statement is None else sorted(row[1:] for row in self._engine.rows(statement))

    def _along(self, first: Row, last: Row) -> list[Row]:
        """The next stretch of all current rows in identity order; blocks of wanted rows come in that order too."""
        if self._stream is None or (self._before is not None and first <= self._before):
            statement = ordered_statement(self._stored, self._files, self._engine.relation)
            self._stream = iter(self._engine.rows(statement))
            self._ahead = None
        found: list[Row] = []
        width = self._width
        self._before = last
        row = self._ahead
        while True:
            if row is None:
                row = next(self._stream, None)
                if row is None:
                    break
            identity = row[1 : width + 1]
            if identity > last:
                break
            if identity >= first:
                found.append(row[1:])
            row = None
        self._ahead = row
        return found

    def existing(self, keys: Sequence[str]) -> set[str]:
        """Which of these entity keys have a current row."""
        if not self._files:
            return set()
        known = self._maps.of(self._stored, self._files, self._head)
        if known is not None:
            return {key for key in keys if (key,) in known}
        statement = current_statement(self._stored, self._files, self._engine.relation, [(key,) for key in keys])
        return set() if statement is None else {row[1] for row in self._engine.rows(statement)}

    def all_ordered(self) -> Iterator[Row]:
        """`(commit_id, *row)` of every current row, in identity order."""
        if not self._files:
            return iter(())
        return self._engine.rows(ordered_statement(self._stored, self._files, self._engine.relation))
