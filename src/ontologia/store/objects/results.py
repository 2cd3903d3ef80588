"""Rows of a result as Python tuples, as fast as they come: through Arrow when there are many of them.

A stream through Arrow takes half the time per row and a little longer to begin, so results that were short the last
time are fetched directly. Truth values come as 0 and 1, the way physical rows hold them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from duckdb import DuckDBPyConnection

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH = 8192
_FEW = 1000
_TEXTS = 1024

Row = tuple[Any, ...]


class Lengths:
    """How many rows statements gave when they last ran."""

    def __init__(self) -> None:
        self._few: OrderedDict[str, None] = OrderedDict()

    def is_short(self, text: str) -> bool:
        return text in self._few

    def note(self, text: str, rows: int) -> None:
        if rows >= _FEW:
            self._few.pop(text, None)
        else:
            self._few[text] = None
            if len(self._few) > _TEXTS:
                self._few.popitem(last=False)


def begin(cursor: DuckDBPyConnection, text: str, params: Sequence[Any], lengths: Lengths) -> Iterator[Iterable[Row]]:
    """Run a statement up to its first rows, so that what is wrong with it shows now; all rows, in chunks."""
    if lengths.is_short(text):
        cursor.execute(text, params)
        truths = _truths(cursor)
        rows = _plain(cursor.fetchmany(_FEW), truths)
        lengths.note(text, len(rows))
        return chain([rows], _fetched(cursor, truths)) if len(rows) == _FEW else iter([rows])
    relation = cursor.sql(text, params=params)
    kinds = [str(kind) for kind in relation.types]
    batches: Iterator[pa.RecordBatch] = iter(relation.to_arrow_reader(_BATCH))
    first = next(batches, None)
    return _streamed([] if first is None else [first], batches, kinds, lambda rows: lengths.note(text, rows))


def first_row(cursor: DuckDBPyConnection, text: str, params: Sequence[Any]) -> Row | None:
    """The first row of a result, or None when there is none."""
    cursor.execute(text, params)
    row = cursor.fetchone()
    return None if row is None else _plain([row], _truths(cursor))[0]


def _fetched(cursor: DuckDBPyConnection, truths: Sequence[int]) -> Iterator[list[Row]]:
    while rows := cursor.fetchmany(_BATCH):
        yield _plain(rows, truths)


def _truths(cursor: DuckDBPyConnection) -> list[int]:
    """Which columns hold truth values."""
    return [place for place, column in enumerate(cursor.description) if str(column[1]) == "BOOLEAN"]


def _plain(rows: list[Row], truths: Sequence[int]) -> list[Row]:
    if not truths or not rows:
        return rows
    columns: list[Any] = list(zip(*rows, strict=True))
    for place in truths:
        columns[place] = [None if value is None else int(value) for value in columns[place]]
    return list(zip(*columns, strict=True))


def _streamed(
    first: Iterable[pa.RecordBatch],
    batches: Iterator[pa.RecordBatch],
    kinds: Sequence[str],
    note: Callable[[int], None],
) -> Iterator[Iterable[Row]]:
    rows = 0
    for batch in chain(first, batches):
        rows += len(batch)
        yield zip(*map(_cells, batch.columns, kinds), strict=True)
    note(rows)


def _cells(column: pa.Array, kind: str) -> list[Any]:
    if kind == "BOOLEAN":
        return column.cast("int8").to_pylist()
    if kind in {"HUGEINT", "UHUGEINT"}:
        # Arrow has no integers so wide: they come as decimals without a fraction.
        return [None if value is None else int(value) for value in column.to_pylist()]
    return column.to_pylist()
