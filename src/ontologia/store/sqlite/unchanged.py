"""Telling that a run of rows is already there, without fetching it.

SQLite joins each column of the range into one text, Arrow does the same with the wanted rows, and equal texts are
equal rows: no wanted value contains the separator, and both sides have equally many values. Floats and bytes have no
such text and are fetched. When the texts differ, for whatever reason, the rows are compared one by one elsewhere; so
this may only ever say too little.
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
_FETCHED = frozenset({Kind.FLOAT, Kind.BYTES})


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
    joined, fetched = _statements(stored, together=together)
    if together:
        bounds = seqs
    found = connection.execute(joined, bounds).fetchone()
    if found[0] != count:
        return False
    texts = [column for kept, column in zip(shape.columns, columns, strict=True) if _is_joined(kept)]
    for column, text, present in zip(texts, found[1::2], found[2::2], strict=True):
        if present != count - column.null_count or text != _joined_text(column):
            return False
    if fetched is None:
        return True
    values = [column for kept, column in zip(shape.columns, columns, strict=True) if kept.kind in _FETCHED]
    wanted = list(zip(*(column.to_pylist() for column in values), strict=True))
    return connection.execute(fetched, bounds).fetchall() == wanted


@lru_cache(maxsize=256)
def _seq_statement(stored: StoredType) -> str:
    """Where the first and the last wanted row are."""
    condition = " AND ".join(f"{column} = ?" for column in stored.spec.identity)
    one = f"(SELECT seq FROM {live_table(stored)} WHERE {condition})"
    return f"SELECT {one}, {one}"


@lru_cache(maxsize=512)
def _statements(stored: StoredType, *, together: bool) -> tuple[str, str | None]:
    """The statement that joins columns, and the one that fetches those that cannot be joined."""
    shape = layout(stored.spec)
    identity = ", ".join(stored.spec.identity)
    marks = ", ".join("?" * shape.identity_width)
    place = "seq BETWEEN ? AND ?" if together else f"({identity}) >= ({marks}) AND ({identity}) <= ({marks})"
    rows = f"FROM {live_table(stored)} WHERE {place}"
    texts = [
        f"group_concat({_shown(column)}, '{_SEPARATOR}'), COUNT({column.name})"
        for column in shape.columns
        if _is_joined(column)
    ]
    fetched = [column.name for column in shape.columns if column.kind in _FETCHED]
    return (
        f"SELECT COUNT(*), {', '.join(texts)} {rows}",
        f"SELECT {', '.join(fetched)} {rows}" if fetched else None,
    )


def _shown(column: Column) -> str:
    nullable = column.exact or (column.field is not None and column.field.nullable)
    return f"COALESCE({column.name}, '{_NULL}')" if nullable else column.name


def _is_joined(column: Column) -> bool:
    return column.kind not in _FETCHED and column.name != "big"


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
