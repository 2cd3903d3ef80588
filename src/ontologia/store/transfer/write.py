"""Writing objects to files.

Each format is lossless: JSONL and CSV through the exact JSON of every value, Parquet through a `fields_json` column
beside typed ones. A file appears whole or not at all: it is written under another name and moved into place.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any

from ontologia.errors import InputError
from ontologia.model.rows import encoder
from ontologia.model.spec import TypeSpec
from ontologia.store.transfer.cells import cell_text, csv_line
from ontologia.store.transfer.places import Format
from ontologia.store.transfer.records import META, Thing, fields_json, record_line

FIELDS_JSON = "fields_json"
_ROWS_PER_GROUP = 50_000


def write_lines(things: Iterable[Any], spec: TypeSpec, form: Format, out: IO[str], *, meta: bool) -> int:
    """Objects of one type as text; the number of them."""
    if form == "parquet":
        raise InputError("Parquet cannot be written to a stream of text.", hint="Give a file or a directory.")
    written = 0
    if form == "csv":
        out.write(csv_line(csv_columns(spec, meta=meta)))
    for thing in things:
        out.write(record_line(thing, meta=meta) if form == "jsonl" else _csv_row(thing, spec, meta=meta))
        written += 1
    return written


def csv_columns(spec: TypeSpec, *, meta: bool) -> list[str]:
    """The header of a type: ends, fields, then where each row comes from."""
    ends = ["left_key", "right_key"] if spec.kind == "relation" else []
    return [*ends, *(field.name for field in spec.fields), *(meta_columns(spec) if meta else ())]


def meta_columns(spec: TypeSpec) -> tuple[str, ...]:
    """Names of the metadata columns; a field of the same name keeps it, and the column gets an underscore."""
    return tuple(f"{name}_" if name in spec.by_name else name for name in META)


def _csv_row(thing: Any, spec: TypeSpec, *, meta: bool) -> str:
    values = fields_json(thing)
    cells: list[str | None] = [str(thing.left_key), str(thing.right_key)] if spec.kind == "relation" else []
    cells += [cell_text(field.kind, values[field.name]) for field in spec.fields]
    if meta:
        origin = thing.meta()
        cells += [str(origin.commit_id), origin.committed_at.isoformat()]
    return csv_line(cells)


def write_file(things: Iterable[Any], spec: TypeSpec, form: Format, path: Path, *, meta: bool) -> int:
    """Objects of one type as a file; the number of them."""
    with _in_place(path) as temporary:
        if form == "parquet":
            return _write_parquet(things, spec, temporary, meta=meta)
        with temporary.open("w", encoding="utf-8", newline="") as out:
            return write_lines(things, spec, form, out, meta=meta)


@contextmanager
def _in_place(path: Path) -> Generator[Path]:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def _write_parquet(things: Iterable[Any], spec: TypeSpec, path: Path, *, meta: bool) -> int:
    """Row groups of one schema. Integers beyond 64 bits make it start again, with their column as text."""
    wide: frozenset[str] = frozenset()
    while True:
        groups = (_arrow_group(block, spec, wide, meta=meta) for block in _blocks(things))
        missed = _write_groups(groups, path)
        if isinstance(missed, int):
            return missed
        wide |= missed


def _blocks(things: Iterable[Any]) -> Iterator[list[Any]]:
    rows = iter(things)
    block = list(islice(rows, _ROWS_PER_GROUP))
    while True:
        yield block
        block = list(islice(rows, _ROWS_PER_GROUP))
        if not block:
            return


def _write_groups(groups: Iterator[Any], path: Path) -> int | frozenset[str]:
    """The number of rows, or the columns whose type changed on the way."""
    from pyarrow import parquet

    group = next(groups)
    written = 0
    with parquet.ParquetWriter(path, group.schema) as writer:
        while group is not None:
            if group.schema != writer.schema:
                return frozenset(
                    field.name for field in group.schema if field.type != writer.schema.field(field.name).type
                )
            writer.write_table(group)
            written += group.num_rows
            group = next(groups, None)
    return written


def _arrow_group(things: list[Any], spec: TypeSpec, wide: frozenset[str], *, meta: bool) -> Any:
    """Typed columns for whoever reads the file with another tool, and the exact fields beside them."""
    import pyarrow as pa

    from ontologia.model.arrow import to_arrow_table

    columns = list(zip(*map(encoder(_class_of(things)), things), strict=True)) if things else None
    table = to_arrow_table(spec, columns)
    for name in wide:
        number = table.column_names.index(name)
        digits = pa.array(
            [None if (value := getattr(thing, name)) is None else hex(value) for thing in things], pa.string()
        )
        table = table.set_column(number, table.schema.field(name).with_type(pa.string()), digits)
    exact = [json.dumps(fields_json(thing), ensure_ascii=False, separators=(",", ":")) for thing in things]
    table = table.append_column(exact_column(spec), pa.array(exact, pa.string()))
    if meta:
        origins = [thing.meta() for thing in things]
        commit_id, committed_at = meta_columns(spec)
        table = table.append_column(commit_id, pa.array([origin.commit_id for origin in origins], pa.int64()))
        when = pa.array([origin.committed_at for origin in origins], pa.timestamp("us", "UTC"))
        table = table.append_column(committed_at, when)
    return table


def _class_of(things: list[Thing]) -> type[Thing]:
    return type(things[0])


def exact_column(spec: TypeSpec) -> str:
    """Name of the column with the exact fields."""
    return f"{FIELDS_JSON}_" if FIELDS_JSON in spec.by_name else FIELDS_JSON
