"""Reading files as batches of rows for a class, ready for `ensure_rows`.

What is wrong with a line or a cell is a RowError that names file, line and column. Types are checked by the model,
not here; files are read in pieces, so that a large one never is in memory as text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ontologia.errors import InputError, RowError, UnknownTypeError
from ontologia.model.spec import TypeSpec
from ontologia.store.transfer.cells import CellError, json_readers
from ontologia.store.transfer.places import SourceFile, not_utf8
from ontologia.store.transfer.records import is_record
from ontologia.store.transfer.write import exact_column, meta_columns

ROWS_PER_BATCH = 10_000
Classes = Mapping[str, type[Any]]
"""The known classes by type name."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one class from one file. `place` says where a row of the batch is, for a person."""

    cls: type[Any]
    data: Any
    rows: int
    place: Callable[[int], str]
    position: int
    """Bytes of the file that are read by now, as far as that can be told."""


def read_batches(source: SourceFile, classes: Classes) -> Iterator[Batch]:
    """All rows of a file."""
    try:
        match source.format:
            case "jsonl":
                yield from _read_jsonl(source, classes)
            case "csv":
                from ontologia.store.transfer.csvfile import read_csv

                yield from read_csv(source, class_of(source, classes))
            case "parquet":
                yield from _read_parquet(source, class_of(source, classes))
    except UnicodeDecodeError as error:
        raise not_utf8(source.path) from error


def class_of(source: SourceFile, classes: Classes) -> type[Any]:
    """The class that a whole file is about."""
    if source.type_name is None:
        raise InputError(f"{source.path} does not say which type it holds.", hint="Name it with --type.")
    return known_class(source.type_name, classes)


def known_class(name: str, classes: Classes, where: str = "") -> type[Any]:
    """A class by type name."""
    found = classes.get(name)
    if found is None:
        known = ", ".join(sorted(classes)) or "none yet"
        raise UnknownTypeError(
            f"{where}{name!r} is not a known type.",
            hint=f"Give its class with --models. Known types: {known}.",
            type_name=name,
        )
    return found


def bad_row(source: SourceFile, place: str, problem: str, **details: Any) -> RowError:
    """The error for one row of a file."""
    return RowError(
        f"{source.path}, {place}: {problem}.",
        hint="Nothing was imported; fix the row and try again.",
        path=str(source.path),
        **details,
    )


@dataclass
class _Gathering:
    """Rows of one class from a JSONL file, with the line each one stands on."""

    source: SourceFile
    cls: type[Any]
    rows: list[dict[str, Any]]
    lines: list[int]

    def batch(self, position: int) -> Batch:
        lines = self.lines
        return Batch(self.cls, self.rows, len(self.rows), lambda row: f"line {lines[row]}", position)


def _read_jsonl(source: SourceFile, classes: Classes) -> Iterator[Batch]:
    """Lines of one or several types; what is gathered of a type is handed over in batches, in order."""
    gathering: dict[str, _Gathering] = {}
    position = 0
    with source.path.open("rb") as file:
        for number, line in enumerate(file, 1):
            position += len(line)
            if not line.strip():
                continue
            name, fields = _from_line(source, number, line)
            rows = gathering.get(name)
            if rows is None:
                cls = known_class(name, classes, f"{source.path}, line {number}: ")
                rows = gathering[name] = _Gathering(source, cls, [], [])
            rows.rows.append(_decoded(source, f"line {number}", rows.cls, fields, number))
            rows.lines.append(number)
            if len(rows.rows) == ROWS_PER_BATCH:
                yield gathering.pop(name).batch(position)
    for rows in gathering.values():
        yield rows.batch(position)


def _from_line(source: SourceFile, number: int, line: bytes) -> tuple[str, dict[str, Any]]:
    """The type and the fields that a line gives."""
    place = f"line {number}"
    try:
        value: Any = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise bad_row(source, place, f"not JSON ({error})", line=number) from error
    if not isinstance(value, dict):
        raise bad_row(source, place, f"a JSON object is needed, not {type(value).__name__}", line=number)
    record = cast("dict[str, Any]", value)
    if is_record(record):
        if source.type_name is not None and record["type"] != source.type_name:
            raise bad_row(
                source, place, f"a record of type {record['type']!r} in a file of {source.type_name!r}", line=number
            )
        return record["type"], _record_fields(source, place, record, number)
    if source.type_name is None:
        raise bad_row(source, place, "neither a record with type and fields nor a file of a known type", line=number)
    return source.type_name, record


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _record_fields(source: SourceFile, place: str, record: dict[str, Any], number: int) -> dict[str, Any]:
    """The fields of a record with the ends of a relation among them, and the key where fields leave it out."""
    fields = dict(record["fields"])
    for name in ("left_key", "right_key"):
        if name in record:
            fields[name] = record[name]
    for name in ("key", "instance_key"):
        if record.get(name):
            fields.setdefault(_KEY, record[name])
    if fields.get(_KEY) is not None and not isinstance(fields[_KEY], str | int):
        raise bad_row(source, place, "a key is text or a number", line=number)
    return fields


_KEY = "\0key"
"""The key of a record, until its class says which field it is; no field can have this name."""


def _decoded(source: SourceFile, place: str, cls: type[Any], fields: dict[str, Any], number: int) -> dict[str, Any]:
    """Exact JSON as values."""
    spec: TypeSpec = cls.__spec__
    key = fields.pop(_KEY, None)
    if key is not None and spec.key_field is not None:
        name = spec.key_field.name
        if str(fields.setdefault(name, key)) != str(key):
            problem = f"the record's key is {key!r}, its field {name} is {fields[name]!r}"
            raise bad_row(source, place, problem, line=number, column=name)
    return decode_fields(source, place, cls, fields)


def decode_fields(source: SourceFile, place: str, cls: type[Any], fields: dict[str, Any]) -> dict[str, Any]:
    """Fields as exact JSON to fields as values; what is not that is left for validation to judge."""
    for name, read in json_readers(cls).items():
        value = fields.get(name)
        if value is not None:
            try:
                fields[name] = read(value)
            except CellError as error:
                raise bad_row(source, place, f"{name}: {error}, got {value!r}", column=name) from error
    return fields


def _read_parquet(source: SourceFile, cls: type[Any]) -> Iterator[Batch]:
    """Typed columns as they are, or the exact fields where the file has them."""
    import pyarrow as pa
    from pyarrow import parquet

    spec: TypeSpec = cls.__spec__
    try:
        with parquet.ParquetFile(source.path) as file:
            exact = exact_column(spec) in file.schema_arrow.names
            names = _wanted(spec, file.schema_arrow.names, exact=exact)
            first = 0
            for part in file.iter_batches(batch_size=ROWS_PER_BATCH, columns=names):
                data = _exact_rows(source, cls, part, first) if exact else pa.Table.from_batches([part])
                done = source.size * (first + part.num_rows) // max(file.metadata.num_rows, 1)
                yield Batch(cls, data, part.num_rows, _row_place(first), done)
                first += part.num_rows
    except pa.ArrowException as error:
        raise InputError(
            f"{source.path} is not a readable Parquet file: {str(error).splitlines()[0]}.",
            hint="Check the file.",
            path=str(source.path),
        ) from error


def _row_place(first: int) -> Callable[[int], str]:
    return lambda row: f"row {first + row + 1}"


def _wanted(spec: TypeSpec, names: Sequence[str], *, exact: bool) -> list[str]:
    if exact:
        ends = ["left_key", "right_key"] if spec.kind == "relation" else []
        return [*ends, exact_column(spec)]
    return [name for name in names if name not in meta_columns(spec)]


def _exact_rows(source: SourceFile, cls: type[Any], part: Any, first: int) -> list[dict[str, Any]]:
    column = exact_column(cls.__spec__)
    rows: list[dict[str, Any]] = []
    for number, row in enumerate(part.to_pylist(), first):
        place = f"row {number + 1}"
        try:
            fields = json.loads(row.pop(column))
        except (ValueError, TypeError) as error:
            raise bad_row(source, place, f"{column} is not JSON ({error})", column=column) from error
        rows.append(decode_fields(source, place, cls, {**fields, **row}))
    return rows
