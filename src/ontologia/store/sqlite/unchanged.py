"""Telling that a run of rows is already there, without fetching it.

SQLite joins each column of the range into one text, Arrow does the same with the wanted rows, and equal texts are
equal columns: no wanted value contains the separator, and rows and nulls are counted. Floats and bytes have no such
text and are collected. When anything differs, for whatever reason, the rows are compared one by one elsewhere; so this
may only ever say too little.
"""

from __future__ import annotations

import sqlite3
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ontologia.model.physical import Column, layout
from ontologia.model.spec import Kind
from ontologia.store.catalog import StoredType
from ontologia.store.sqlite.tables import live_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

_SEPARATOR = "\x1e"
_NULL = "\x1d"
_COLLECTED = frozenset({Kind.FLOAT, Kind.BYTES})


def is_unchanged(connection: sqlite3.Connection, stored: StoredType, columns: Sequence[pa.ChunkedArray]) -> bool:
    """Whether the current rows of the wanted identities are exactly the wanted rows."""
    shape = layout(stored.spec)
    count = len(columns[0])
    if columns[-1].null_count != count or stored.wide:
        return False
    bounds = [column[at].as_py() for at in (0, -1) for column in columns[: shape.identity_width]]
    seqs = connection.execute(_seq_statement(stored), bounds).fetchone()
    if None in seqs:
        return False
    # Rows that were written together lie together, and are read in the order of the table itself.
    together = seqs[1] - seqs[0] == count - 1
    collected = _collect_into(connection)
    found = connection.execute(_statement(stored, together=together), seqs if together else bounds).fetchone()
    cells = iter(found)
    if next(cells) != count:
        return False
    others: list[list[Any]] = []
    for kept, column in zip(shape.columns[:-1], columns, strict=False):
        if not _is_joined(kept):
            others.append(column.to_pylist())
        elif next(cells) != _joined_text(column) or (
            _is_nullable(kept) and (next(cells) != count - column.null_count or _shows_null(column))
        ):
            return False
    return others == collected


def _collect_into(connection: sqlite3.Connection) -> list[list[Any]]:
    """A list that gets the values of each column that the next statement hands to `onto_collect`."""
    collected: list[list[Any]] = []

    class Collect:
        def __init__(self) -> None:
            values: list[Any] = []
            collected.append(values)
            self.step = values.append

        def finalize(self) -> None:
            """The values are where they should be; there is nothing to give back."""

    connection.create_aggregate("onto_collect", 1, Collect)  # pyright: ignore[reportArgumentType]
    return collected


@lru_cache(maxsize=256)
def _seq_statement(stored: StoredType) -> str:
    """Where the first and the last wanted row are."""
    condition = " AND ".join(f"{column} = ?" for column in stored.spec.identity)
    one = f"(SELECT seq FROM {live_table(stored)} WHERE {condition})"
    return f"SELECT {one}, {one}"


@lru_cache(maxsize=512)
def _statement(stored: StoredType, *, together: bool) -> str:
    """Joins the columns that can be joined, and collects the others."""
    shape = layout(stored.spec)
    identity = ", ".join(stored.spec.identity)
    marks = ", ".join("?" * shape.identity_width)
    place = "seq BETWEEN ? AND ?" if together else f"({identity}) >= ({marks}) AND ({identity}) <= ({marks})"
    kept = shape.columns[:-1]
    joined = [_joined(column) for column in kept if _is_joined(column)]
    collected = [f"onto_collect({column.name})" for column in kept if not _is_joined(column)]
    return f"SELECT COUNT(*), {', '.join(joined + collected)} FROM {live_table(stored)} WHERE {place}"


def _joined(column: Column) -> str:
    if not _is_nullable(column):
        return f"group_concat({column.name}, '{_SEPARATOR}')"
    return f"group_concat(COALESCE({column.name}, '{_NULL}'), '{_SEPARATOR}'), COUNT({column.name})"


def _is_nullable(column: Column) -> bool:
    return column.exact or (column.field is not None and column.field.nullable)


def _is_joined(column: Column) -> bool:
    return column.kind not in _COLLECTED


def _shows_null(column: pa.ChunkedArray) -> bool:
    """Whether a value looks like what stands for null, so that the two could not be told apart."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pa.types.is_string(column.type) and bool(pc.any(pc.equal(column, _NULL)).as_py())


def _joined_text(column: pa.ChunkedArray) -> Any:
    """All values as one text; None when a value contains the separator."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values: Any = column.combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks)
    if not pa.types.is_string(values.type):
        values = values.cast(pa.string())
    if values.null_count:
        values = values.fill_null(_NULL)
    text = pc.binary_join(pa.ListArray.from_arrays([0, len(values)], values), _SEPARATOR)[0].as_py()
    return text if text.count(_SEPARATOR) == len(values) - 1 else None
