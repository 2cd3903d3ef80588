"""Physical rows as they pass between sessions, reconciliation and backends.

A row is a tuple whose last cell holds integers beyond 64 bits. Many rows are a list of such tuples or, in bulk writes,
a set of columns that reads like one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, overload

Row = tuple[Any, ...]


class ColumnRows(Sequence[Row]):
    """Rows held as columns: a bulk write needs no tuple of its own for each row."""

    def __init__(self, columns: Sequence[Sequence[Any]]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns[0])

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> ColumnRows: ...
    def __getitem__(self, at: int | slice) -> Row | ColumnRows:
        if isinstance(at, slice):
            return ColumnRows([column[at] for column in self.columns])
        return tuple(column[at] for column in self.columns)

    def __iter__(self) -> Iterator[Row]:
        return zip(*self.columns, strict=True)


def has_big(rows: Sequence[Row]) -> bool:
    """Whether any row has integers beyond 64 bits."""
    last = rows.columns[-1] if isinstance(rows, ColumnRows) else [row[-1] for row in rows]
    return last.count(None) != len(last)


def big_columns(rows: Sequence[Row]) -> set[str]:
    """The physical columns in which some row has an integer beyond 64 bits."""
    if not has_big(rows):
        return set()
    return {column for row in rows if row[-1] is not None for column in json.loads(row[-1])}


def without_big(rows: Sequence[Row]) -> Sequence[Row]:
    """Rows less their last column."""
    return ColumnRows(rows.columns[:-1]) if isinstance(rows, ColumnRows) else [row[:-1] for row in rows]
