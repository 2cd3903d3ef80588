"""Reading CSV: an empty cell is null, `""` is empty text.

A header column is a field whatever its case and punctuation. Cells are read as text by Arrow and typed by the model;
only when something is wrong is the file read again to learn the line.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ontologia.errors import RowError
from ontologia.model.spec import TypeSpec
from ontologia.store.transfer.cells import CellError, json_readers, text_readers
from ontologia.store.transfer.names import plain_name
from ontologia.store.transfer.places import SourceFile
from ontologia.store.transfer.read import Batch, bad_row
from ontologia.store.transfer.write import meta_columns

_SMALLEST_BLOCK, _LARGEST_BLOCK = 1 << 20, 1 << 26
Columns = list[tuple[str, Callable[[Any], Any] | None, Callable[[Any], Any] | None, bool]]


def header_of(path: Path) -> list[str]:
    """The names in the first line."""
    csv.field_size_limit(sys.maxsize)
    with path.open(encoding="utf-8-sig", newline="") as file:
        header: list[str] = next((row for row in csv.reader(file) if row), list[str]())
    if not header:
        raise RowError(f"{path} has no header line.", hint="The first line names the columns.", path=str(path))
    twice = next((name for name in header if header.count(name) > 1), None)
    if twice is not None:
        raise RowError(f"{path}, line 1: the column {twice!r} is there twice.", path=str(path), line=1, column=twice)
    return header


def matched_columns(source: SourceFile, spec: TypeSpec, header: list[str]) -> dict[str, str]:
    """Which field each column is for. Columns with the metadata of an export are left out."""
    names = [*(("left_key", "right_key") if spec.kind == "relation" else ()), *spec.by_name]
    by_plain: dict[str, list[str]] = {}
    for name in names:
        by_plain.setdefault(plain_name(name), []).append(name)
    found: dict[str, str] = {}
    for column in header:
        near = by_plain.get(plain_name(column), [])
        if column in names:
            found[column] = column
        elif len(near) == 1 and near[0] not in header:
            found[column] = near[0]
        elif column not in meta_columns(spec):
            raise RowError(
                f"{source.path}, line 1: {spec.name} has no field {column!r}; its fields are {', '.join(names)}.",
                hint="Rename or remove the column, or migrate the type.",
                path=str(source.path),
                line=1,
                column=column,
            )
    return found


def text_batches(source: SourceFile, header: list[str], columns: list[str]) -> Iterator[tuple[Any, int]]:
    """The file as Arrow batches of text, each with the number of bytes read."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    block = min(max(source.size + 1, _SMALLEST_BLOCK), _LARGEST_BLOCK)
    try:
        reader = arrow_csv.open_csv(
            source.path,
            read_options=arrow_csv.ReadOptions(use_threads=False, block_size=block),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(header, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                include_columns=columns,
            ),
        )
        position = 0
        for batch in reader:
            position = min(position + batch.nbytes, source.size)
            yield batch, position
    except pa.ArrowException as error:
        raise _malformed(source, str(error)) from error


def _malformed(source: SourceFile, problem: str) -> RowError:
    """What is wrong with the file's shape: the first line with too few or too many cells, or what Arrow says."""
    header: list[str] = []
    before = 0
    with source.path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        for row in reader:
            if row and not header:
                header = row
            elif row and len(row) != len(header):
                problem = f"{len(row)} cells where the header has {len(header)}"
                return bad_row(source, f"line {before + 1}", problem, line=before + 1)
            before = reader.line_num
    return bad_row(source, "CSV", problem.splitlines()[0].rstrip("."))


def line_of(source: SourceFile, row: int) -> int:
    """The line on which a row starts; the first row after the header is 0."""
    seen, before = -2, 0
    with source.path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        for cells in reader:
            seen += bool(cells)
            if cells and seen == row:
                return before + 1
            before = reader.line_num
    return before


def check_quotes(source: SourceFile) -> None:
    """Refuse quotes that do not close where a cell ends: they would swallow the lines that follow."""
    csv.field_size_limit(sys.maxsize)
    before = 0
    with source.path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        try:
            for _ in reader:
                before = reader.line_num
        except csv.Error as error:
            problem = f"a quote is not closed, or text follows it ({error})"
            raise bad_row(source, f"line {before + 1}", problem, line=before + 1) from error


def read_csv(source: SourceFile, cls: type[Any]) -> Iterator[Batch]:
    """All rows of a CSV file."""
    check_quotes(source)
    spec: TypeSpec = cls.__spec__
    header = header_of(source.path)
    matched = matched_columns(source, spec, header)
    parse, decode = text_readers(cls), json_readers(cls)
    columns: Columns = [
        (name, parse.get(name), decode.get(name), name not in spec.by_name or not spec.by_name[name].nullable)
        for name in matched.values()
    ]
    first = 0
    for batch, position in text_batches(source, header, list(matched)):
        names = [name for name, _, _, _ in columns]
        cells = [_values(source, batch.column(at).to_pylist(), column, first) for at, column in enumerate(columns)]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)]
        yield Batch(cls, rows, len(rows), _place(source, first), position)
        first += len(rows)


def _place(source: SourceFile, first: int) -> Callable[[int], str]:
    return lambda row: f"line {line_of(source, first + row)}"


def _values(
    source: SourceFile,
    texts: list[str | None],
    column: tuple[str, Callable[[Any], Any] | None, Callable[[Any], Any] | None, bool],
    first: int,
) -> list[Any]:
    """The cells of one column as values."""
    name, parse, decode, needed = column
    if needed and None in texts:
        line = line_of(source, first + texts.index(None))
        problem = f'{name}: the cell is empty, which means null, and {name} needs a value (empty text is written "")'
        raise bad_row(source, f"line {line}", problem, line=line, column=name)
    if parse is None and decode is None:
        return texts
    values: list[Any] = []
    for row, text in enumerate(texts):
        try:
            value = text if text is None or parse is None else parse(text)
            values.append(value if value is None or decode is None else decode(value))
        except CellError as error:
            line = line_of(source, first + row)
            raise bad_row(source, f"line {line}", f"{name}: {error}, got {text!r}", line=line, column=name) from error
    return values
