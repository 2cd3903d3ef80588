"""Rows as Parquet files, and what comes back from them as rows.

A `FileBuilder` takes the physical rows that one commit writes of one type, in identity order and in blocks, and gives
the bytes of the file with the facts that manifests and indices record about it: bounds of keys and columns, hash, how
many rows replaced an earlier one. Equal input gives equal bytes. No file and no connection is opened here.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ontologia.model.physical import held_in_identity, layout
from ontologia.model.spec import Kind, TypeSpec
from ontologia.store.objects.columns import (
    BIG,
    COMMIT,
    PAYLOAD,
    UPDATE,
    VERSION,
    FieldColumn,
    columns_of,
)
from ontologia.store.objects.payload import payloads
from ontologia.store.rows import ColumnRows, Row

ROWS_PER_GROUP = 100_000
"""What a reader can skip as a whole, by the bounds of its columns."""
_BYTES_PER_GROUP = 1 << 28
_TINY = 32
"""Files of so few rows are not compressed: that would take longer than sending them."""
_LONGEST_BOUND = 64
_DAY = 86_400_000_000
_UNBOUNDED = frozenset({Kind.BYTES, Kind.JSON})

Cells = Sequence[Any]
Fill = Callable[[Sequence[Cells]], Any]
"""From physical columns to one Arrow column."""


@dataclass(frozen=True, slots=True)
class EncodedFile:
    """A finished file and what is recorded about it; bounds are as in `records.DataFile`."""

    data: bytes
    row_count: int
    updated: int
    content_sha256: str
    min_key: tuple[str, ...]
    max_key: tuple[str, ...]
    stats: Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class _Bounded:
    """A column whose bounds are recorded, and where its comparable form is among the physical columns."""

    name: str
    physical: str
    kind: Kind
    at: int


@dataclass(frozen=True, slots=True)
class _Form:
    """What the files of a type have in common; made once per type."""

    schema: pa.Schema
    fills: tuple[Fill, ...]
    bounded: tuple[_Bounded, ...]
    options: dict[str, Any]


class FileBuilder:
    """Makes one file; `add` as often as there are blocks, then `finish`."""

    def __init__(self, spec: TypeSpec, version: int, commit_id: int) -> None:
        self._spec = spec
        self._width = len(spec.identity)
        self._form = _form(spec)
        self._constants = (commit_id, spec.name, version)
        self._waiting: list[pa.Table] = []
        self._sink: Any = pa.BufferOutputStream()
        self._writer: Any = None
        self._rows = 0
        self._updated = 0
        self._keys: list[tuple[str, str]] = []
        self._bounds: dict[str, tuple[Any, Any] | None] = {}
        """None: not to be told."""

    def add(self, rows: Sequence[Row], updated: Collection[Row] = ()) -> None:
        """Take in rows, later in identity order than all before; `updated` are the identities that existed already."""
        if not rows:
            return
        columns = rows.columns if isinstance(rows, ColumnRows) else list(zip(*rows, strict=True))
        replaced = _flags(columns[: self._width], updated)
        self._waiting.append(self._table(columns, replaced))
        self._rows += len(columns[0])
        self._updated += sum(replaced)
        self._note_bounds(columns)
        waiting = sum(table.num_rows for table in self._waiting)
        if waiting >= ROWS_PER_GROUP or sum(table.nbytes for table in self._waiting) >= _BYTES_PER_GROUP:
            self._write()

    def finish(self) -> EncodedFile | None:
        """The file; None when there were no rows."""
        if self._rows == 0:
            return None
        if self._waiting:
            self._write()
        self._writer.close()
        data: bytes = self._sink.getvalue().to_pybytes()
        return EncodedFile(
            data,
            self._rows,
            self._updated,
            hashlib.sha256(data).hexdigest(),
            tuple(low for low, _ in self._keys),
            tuple(high for _, high in self._keys),
            {name: bounds for name, bounds in self._bounds.items() if bounds is not None},
        )

    def _table(self, columns: Sequence[Cells], replaced: list[bool]) -> pa.Table:
        count = len(columns[0])
        commit_id, name, version = (pa.repeat(value, count) for value in self._constants)
        identity = [pa.array(cells, pa.string()) for cells in columns[: self._width]]
        payload = pa.array(payloads(self._spec, columns), pa.string())
        arrays = [commit_id, name, *identity, version, payload, *(fill(columns) for fill in self._form.fills)]
        arrays += [pa.array(columns[-1], pa.string()), pa.array(replaced, pa.bool_())]
        return pa.Table.from_arrays(arrays, schema=self._form.schema)

    def _write(self) -> None:
        """Whatever waits becomes a row group."""
        if self._writer is None:
            self._writer = writer(self._sink, self._spec, tiny=self._rows <= _TINY)
        # Pages end where chunks end, so one chunk makes the fewest.
        self._writer.write_table(pa.concat_tables(self._waiting).combine_chunks(), ROWS_PER_GROUP)
        self._waiting.clear()

    def _note_bounds(self, columns: Sequence[Cells]) -> None:
        found = [(min(cells), max(cells)) for cells in columns[: self._width]]
        self._keys = [_union(*pair) for pair in zip(self._keys, found, strict=True)] if self._keys else found
        clamped = _clamped(columns[-1])
        for column in self._form.bounded:
            known = self._bounds.get(column.name, ())
            if known is None:
                continue
            bounds = _bounds(column.kind, columns[column.at])
            if column.physical in clamped or bounds is None:
                self._bounds[column.name] = None
            elif bounds:
                self._bounds[column.name] = _union(known, bounds) if known else bounds


_PLAIN: dict[str, Any] = {"compression": "none", "use_dictionary": False}


def writer(sink: Any, spec: TypeSpec, *, tiny: bool = False) -> Any:
    """A writer of tables in the form that all files of a type have; `tiny` spares the work that few rows are not worth.

    The tables have the columns of `file_schema`, all of them and in that order.
    """
    form = _form(spec)
    return pq.ParquetWriter(sink, form.schema, **(form.options | _PLAIN if tiny else form.options))


def file_schema(spec: TypeSpec) -> pa.Schema:
    """The Arrow schema of the files of a type."""
    return _form(spec).schema


def _flags(identity: Sequence[Cells], updated: Collection[Row]) -> list[bool]:
    """For each row, whether it is among the updated."""
    if not updated:
        return [False] * len(identity[0])
    among = frozenset(updated)
    return [one in among for one in zip(*identity, strict=True)]


def _clamped(big: Cells) -> set[str]:
    """Physical columns with integers beyond 64 bits."""
    return {column for text in big if text is not None for column in json.loads(text)} if any(big) else set()


def _union(one: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[Any, Any]:
    return min(one[0], other[0]), max(one[1], other[1])


def _bounds(kind: Kind, values: Cells) -> tuple[Any, Any] | tuple[()] | None:
    """The least and the greatest value; nothing when all are null, None when they cannot be said in JSON."""
    present = [value for value in values if value is not None] if None in values else values
    if not present:
        return ()
    low, high = min(present), max(present)
    if kind is Kind.FLOAT and not (math.isfinite(low) and math.isfinite(high)):
        return None
    if isinstance(low, str) and max(len(low), len(high)) > _LONGEST_BOUND:
        return None
    return (bool(low), bool(high)) if kind is Kind.BOOL else (low, high)


@lru_cache(maxsize=256)
def _form(spec: TypeSpec) -> _Form:
    shape, columns = layout(spec), columns_of(spec)
    at = {name: number for number, name in enumerate(shape.names)}
    kinds: dict[str, Any] = dict.fromkeys(columns.names, pa.string()) | {COMMIT: pa.int64(), VERSION: pa.int64()}
    fills: list[Fill] = []
    bounded: list[_Bounded] = []
    for column in columns.fields:
        physical = shape.main[column.field.name]
        exact = None if held_in_identity(column.field) else at.get(f"{physical}x")
        for name, kind, fill in _filled(column, at[physical], exact):
            kinds[name] = kind
            fills.append(fill)
        if column.field.kind not in _UNBOUNDED:
            bounded.append(_Bounded(column.name, physical, column.field.kind, at[physical]))
    kinds[UPDATE] = pa.bool_()
    schema: Any = pa.schema([pa.field(name, kinds[name]) for name in columns.names])
    return _Form(schema, tuple(fills), tuple(bounded), _options(columns.names, kinds, spec))


def _options(names: Sequence[str], kinds: dict[str, Any], spec: TypeSpec) -> dict[str, Any]:
    """How the file is written: statistics where a condition may use them, dictionaries where values may repeat."""
    measured = [name for name in names if name not in {PAYLOAD, BIG} and not name.endswith(":exact")]
    unique = {PAYLOAD} if spec.kind == "relation" else {PAYLOAD, *columns_of(spec).identity}
    repeated = [name for name in names if name not in unique and kinds[name] != pa.bool_()]
    return {
        "compression": "zstd",
        "use_dictionary": repeated,
        "write_statistics": measured,
        # With an index of the pages their headers have no bounds, which DuckDB 2.0 misreads: of a page of texts with
        # one distinct value and some nulls, it takes every value for null when the condition lets nulls pass.
        "write_page_index": True,
        # The types are in Parquet's own schema; Arrow's would be half of a small file.
        "store_schema": False,
    }


def _filled(column: FieldColumn, main: int, exact: int | None) -> list[tuple[str, Any, Fill]]:
    """The columns of one field: name, type and where the values come from."""
    kind = column.field.kind
    filled = [(column.name, natural_type(kind), _natural(kind, main, exact))]
    if column.order is not None:
        order = pa.int64() if kind is Kind.TIME else pa.string()
        filled.append((column.order, order, lambda columns: pa.array(columns[main], order)))
    if column.exact is not None and exact is not None:
        filled.append((column.exact, pa.string(), lambda columns: pa.array(columns[exact], pa.string())))
    return filled


def natural_type(kind: Kind) -> pa.DataType:
    """The Arrow type of the column that other readers look at."""
    match kind:
        case Kind.INT:
            return pa.int64()
        case Kind.FLOAT:
            return pa.float64()
        case Kind.BOOL:
            return pa.bool_()
        case Kind.DATETIME:
            return pa.timestamp("us", "UTC")
        case Kind.DATE:
            return pa.date32()
        case Kind.TIME:
            return pa.time64("us")
        case Kind.BYTES:
            return pa.binary()
        case _:
            return pa.string()


def _natural(kind: Kind, main: int, exact: int | None) -> Fill:
    wanted = natural_type(kind)
    match kind:
        case Kind.BOOL:
            return lambda columns: pa.array(columns[main], pa.int8()).cast(wanted)
        case Kind.DATE:
            return lambda columns: pa.array(columns[main], pa.string()).cast(wanted)
        case Kind.TIME:
            return lambda columns: pa.array([None if t is None else t % _DAY for t in columns[main]], wanted)
        case Kind.DECIMAL if exact is not None:
            return lambda columns: pa.array(columns[exact], wanted)
        case _:
            return lambda columns: pa.array(columns[main], wanted)


def read_rows(batch: pa.RecordBatch) -> list[Row]:
    """The rows of a batch that was selected by `FileColumns.projection`, as tuples of Python values."""
    return list(zip(*(_values(column) for column in batch.columns), strict=True))


def _values(column: Any) -> list[Any]:
    """The values of a column by the quickest way for its type."""
    if column.null_count == len(column):
        return [None] * len(column)
    if column.null_count == 0 and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return column.to_numpy().tolist()
    return column.to_pylist()
