"""Proposing a type for a file that has none: its name, its key and the types of its fields.

A proposal is a guess for a person to look at, and says what it guessed from. It takes the narrowest type that every
value of a column has, never drops digits (`007` is text), and reads the whole file so that the import which follows
cannot fail on a value it did not see.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path
from typing import Any, cast

from ontologia.errors import InputError, NotFoundError, RowError
from ontologia.model.declaration import RESERVED
from ontologia.model.diff import typed
from ontologia.model.spec import FieldSpec, Kind, TypeSpec
from ontologia.store.transfer.csvfile import header_of, line_of, text_batches
from ontologia.store.transfer.names import class_name, plain_name
from ontologia.store.transfer.observed import Column, kind_of_text, kind_of_value
from ontologia.store.transfer.places import SourceFile, check_delimiter, format_of, not_utf8
from ontologia.store.transfer.records import is_record

_KINDS: dict[str, Kind] = {
    "int": Kind.INT,
    "float": Kind.FLOAT,
    "bool": Kind.BOOL,
    "date": Kind.DATE,
    "datetime": Kind.DATETIME,
    "str": Kind.TEXT,
}
_KEY_NAMES = ("id", "key", "uuid", "code")
Observed = tuple[Any, str | None]
"""A value and what it could be; None for null."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A type that would fit a file, and what is worth knowing about the guess."""

    path: Path
    spec: TypeSpec
    rows: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        number = f"{self.rows:,} {'row' if self.rows == 1 else 'rows'}"
        lines = [f"Proposed for {self.path} ({number}):", f"  class {self.spec.name}(Entity):"]
        for one in self.spec.fields:
            argument = "primary_key=True" if one.primary_key else "default=None" if one.nullable else None
            lines.append(f"      {one.name}: Field[{typed(one)}]" + (f" = Field({argument})" if argument else ""))
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


def propose(path: Path, type_name: str | None, key: str | None) -> Proposal:
    """A type for the rows of a file."""
    if path.is_dir():
        raise InputError(f"{path} is a directory; a type is proposed for one file.", hint="Name the file.")
    if not path.is_file():
        raise NotFoundError(f"There is no file {path}.", hint="Check the path.", path=str(path))
    source = SourceFile(path, format_of(path), type_name)
    columns, rows = _observed(source)
    if not rows:
        raise InputError(f"{path} has no rows to infer a type from.", hint="Declare the class and pass --models.")
    names = _field_names(source, columns)
    chosen, why = _key(source, columns, key)
    fields = tuple(_field(names[name], column, primary_key=name == chosen) for name, column in columns.items())
    notes = [*why, *_renamed(names), *_odd_cells(source, columns)]
    return Proposal(path, TypeSpec("entity", type_name or class_name(path.stem), fields), rows, tuple(notes))


def _observed(source: SourceFile) -> tuple[dict[str, Column], int]:
    """Every column of a file with what its values have in common, and the number of rows."""
    columns: dict[str, Column] = {}
    rows = 0
    try:
        for row in _rows(source):
            for name in columns.keys() - row.keys():
                columns[name].see(rows, None, None)
            for name, (value, kind) in row.items():
                if name not in columns:
                    columns[name] = Column(empty=0 if rows else None)
                columns[name].see(rows, value, kind)
            rows += 1
    except UnicodeDecodeError as error:
        raise not_utf8(source.path) from error
    return columns, rows


def _rows(source: SourceFile) -> Iterator[dict[str, Observed]]:
    match source.format:
        case "csv":
            check_delimiter(source.path)
            header = header_of(source.path)
            for batch, _ in text_batches(source, header, header):
                yield from _text_rows(header, batch)
        case "jsonl":
            yield from _json_rows(source)
        case "parquet":
            from pyarrow import parquet

            with parquet.ParquetFile(source.path) as file:
                for batch in file.iter_batches():
                    for row in batch.to_pylist():
                        yield {name: (value, kind_of_value(value)) for name, value in row.items()}


def _text_rows(header: list[str], batch: Any) -> Iterable[dict[str, Observed]]:
    columns = [[(text, None if text is None else kind_of_text(text)) for text in c.to_pylist()] for c in batch.columns]
    return (dict(zip(header, row, strict=True)) for row in zip(*columns, strict=True))


def _json_rows(source: SourceFile) -> Iterator[dict[str, Observed]]:
    with source.path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                value: Any = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
            except UnicodeDecodeError:
                raise
            except ValueError as error:
                raise RowError(f"{source.path}, line {number}: not JSON ({error}).", line=number) from error
            if not isinstance(value, dict):
                raise RowError(f"{source.path}, line {number}: a JSON object is needed.", line=number)
            record = cast("dict[str, Any]", value)
            if is_record(record):
                raise InputError(
                    f"{source.path} holds exported records, which name their type already.",
                    hint="Import it with --models, or with the schema.json of `onto schema export`.",
                )
            yield {name: (item, kind_of_value(item)) for name, item in record.items()}


def _place(source: SourceFile, row: int) -> str:
    """Where a row is, for a person."""
    if source.format == "csv":
        return f"line {line_of(source, row)}"
    if source.format == "parquet":
        return f"row {row + 1}"
    with source.path.open("rb") as file:
        lines = (number for number, line in enumerate(file, 1) if line.strip())
        return f"line {next(number for seen, number in enumerate(lines) if seen == row)}"


def _field(name: str, column: Column, *, primary_key: bool) -> FieldSpec:
    chosen = column.kind
    if primary_key and chosen != "int":
        chosen = "str"
    nullable = column.empty is not None or not column.kinds
    return FieldSpec(name, chosen, _KINDS.get(chosen, Kind.JSON), nullable, primary_key, has_default=nullable)


def _odd_cells(source: SourceFile, columns: dict[str, Column]) -> Iterator[str]:
    """Columns that are text because of very few cells."""
    for name, column in columns.items():
        almost = column.almost
        if almost is not None:
            place = _place(source, almost.row)
            yield f"{name}: {almost.fit:,} of {almost.of:,} are {almost.what}; {place} is {almost.value!r}."


def _key(source: SourceFile, columns: dict[str, Column], wanted: str | None) -> tuple[str, list[str]]:
    """The column that is the key, and why it was taken where nobody said so."""
    if wanted is not None:
        named = [name for name in columns if wanted in (name, plain_name(name))]
        if not named:
            raise InputError(f"{source.path} has no column {wanted!r}.", hint=f"Columns: {', '.join(columns)}.")
        problem = _unfit(source, columns[named[0]])
        if problem is not None:
            raise InputError(
                f"{source.path}: {wanted} cannot be the key: {problem}.",
                hint="A key is there and unique in every row; name another with --key, or fix the file.",
            )
        return named[0], []
    single = plain_name(class_name(source.path.stem))
    ranked = [*_KEY_NAMES, f"{single}_id", f"{single}_key"]
    named = [name for wish in ranked for name in columns if plain_name(name) == wish]
    named += [name for name in columns if plain_name(name).endswith("_id") and name not in named]
    chosen = next((name for name in (*named, *columns) if columns[name].identifies), None)
    better = named[: named.index(chosen)] if chosen in named else named
    problems = [f"{name}: {_unfit(source, columns[name])}" for name in (better or columns) if name != chosen][:2]
    if chosen is None:
        raise InputError(
            f"No column of {source.path} is there and unique in every row ({'; '.join(problems)}).",
            hint="Fix the rows, or add a column that is different in each.",
        )
    reason = "by its name; it is" if chosen in named else "the first column that is"
    told = f"Key: {chosen}, {reason} unique in every row (--key chooses another)."
    return chosen, [told, *(f"Not {problem}." for problem in problems if better)]


def _unfit(source: SourceFile, column: Column) -> str | None:
    """Why a column cannot be the key."""
    if column.empty is not None:
        return f"{_place(source, column.empty)} has none"
    if column.again is not None:
        first, again, value = column.again
        return f"{_place(source, again)} is {value!r} again, as {_place(source, first)}"
    return None if column.identifies else "its values are lists or objects"


def _field_names(source: SourceFile, columns: Iterable[str]) -> dict[str, str]:
    """What the field of each column is called. Only CSV columns find a field of another name when they are read."""
    names: dict[str, str] = {}
    for column in columns:
        if plain_name(column) in {"left_key", "right_key"}:
            raise InputError(
                f"{source.path} has a column {column!r}, as relations do; --infer proposes entities only.",
                hint="Declare the relation in a module and pass --models, or rename the column.",
            )
        name = plain_name(column) if source.format == "csv" else column
        taken = name in RESERVED or iskeyword(name)
        if taken and source.format == "csv":
            name, taken = f"{name}_", False
        if taken or not name.isidentifier() or name.startswith("_") or name in names.values():
            problem = "is a reserved word" if taken else "is the second of that name" if name in names.values() else ""
            raise InputError(
                f"The column {column!r} of {source.path} cannot be a field: it {problem or 'is not a Python name'}.",
                hint="Rename the column in the file.",
            )
        names[column] = name
    return names


def _renamed(names: dict[str, str]) -> Iterator[str]:
    for column, name in names.items():
        if name.endswith("_"):
            yield f"{column} becomes {name}, because {name[:-1]} is a reserved word."
