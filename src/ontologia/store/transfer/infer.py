"""Proposing a type for a file that has none: its name, its key and the types of its fields.

A proposal is a guess for a person to look at. It takes the narrowest type that every value of a column has, never
drops digits (`007` is text), and reads the whole file so that the import which follows cannot fail on a value it did
not see.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any, cast

from ontologia.errors import InputError, NotFoundError, RowError
from ontologia.model.diff import typed
from ontologia.model.spec import FieldSpec, JsonType, Kind, TypeSpec
from ontologia.store.transfer.csvfile import header_of, text_batches
from ontologia.store.transfer.names import class_name, plain_name
from ontologia.store.transfer.places import SourceFile, format_of
from ontologia.store.transfer.records import is_record

_INT = re.compile(r"[+-]?(0|[1-9]\d*)")
_FLOAT = re.compile(r"[+-]?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_KINDS: dict[str, Kind] = {
    "int": Kind.INT,
    "float": Kind.FLOAT,
    "bool": Kind.BOOL,
    "date": Kind.DATE,
    "datetime": Kind.DATETIME,
    "str": Kind.TEXT,
}
_KEY_NAMES = ("id", "key", "uuid", "code")


@dataclass(frozen=True, slots=True)
class Proposal:
    """A type that would fit a file."""

    path: Path
    spec: TypeSpec
    rows: int

    def __str__(self) -> str:
        lines = [f"Proposed for {self.path} ({self.rows:,} rows):", f"  class {self.spec.name}(Entity):"]
        for one in self.spec.fields:
            marks = " = Field(primary_key=True)" if one.primary_key else " = None" if one.nullable else ""
            lines.append(f"      {one.name}: Field[{typed(one)}]{marks}")
        return "\n".join(lines)


@dataclass
class _Column:
    """What is known of a column after looking at all of its values."""

    kinds: set[str] = field(default_factory=set[str])
    nulls: bool = False
    values: set[Any] | None = field(default_factory=set[Any])
    """Distinct values, until one comes twice; None from then on."""

    def see(self, value: Any, kind: str | None) -> None:
        if kind is None:
            self.nulls, self.values = True, None
            return
        self.kinds.add(kind)
        if self.values is not None:
            if isinstance(value, dict | list) or value in self.values:
                self.values = None
            else:
                self.values.add(value)


def propose(path: Path, type_name: str | None, key: str | None) -> Proposal:
    """A type for the rows of a file."""
    if not path.is_file():
        raise NotFoundError(f"There is no file {path}.", hint="Check the path.", path=str(path))
    source = SourceFile(path, format_of(path), type_name)
    columns: dict[str, _Column] = {}
    rows = 0
    for row in _rows(source):
        for name in columns.keys() - row.keys():
            columns[name].see(None, None)
        for name, (value, kind) in row.items():
            if name not in columns:
                columns[name] = _Column()
                columns[name].nulls = rows > 0
            columns[name].see(value, kind)
        rows += 1
    if not rows:
        raise InputError(f"{path} has no rows to infer a type from.", hint="Declare the class and pass --models.")
    chosen = _key(path, columns, key)
    fields = tuple(_field(name, column, primary_key=name == chosen) for name, column in columns.items())
    _check_names(path, [one.name for one in fields])
    return Proposal(path, TypeSpec("entity", type_name or class_name(path.stem), fields), rows)


def _rows(source: SourceFile) -> Iterator[dict[str, tuple[Any, str | None]]]:
    match source.format:
        case "csv":
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
                        yield {name: (value, _kind_of_value(value)) for name, value in row.items()}


def _text_rows(header: list[str], batch: Any) -> Iterable[dict[str, tuple[Any, str | None]]]:
    columns = [[(text, None if text is None else _kind_of_text(text)) for text in c.to_pylist()] for c in batch.columns]
    return (dict(zip(header, row, strict=True)) for row in zip(*columns, strict=True))


def _json_rows(source: SourceFile) -> Iterator[dict[str, tuple[Any, str | None]]]:
    with source.path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                value: Any = json.loads(line)
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
            yield {name: (item, _kind_of_value(item)) for name, item in record.items()}


def _kind_of_text(text: str) -> str:
    if _INT.fullmatch(text):
        return "int"
    if _FLOAT.fullmatch(text):
        return "float"
    if text in {"true", "false", "True", "False"}:
        return "bool"
    return next((kind for kind, parse in _TIMES if _parses(parse, text)), "str")


_TIMES: tuple[tuple[str, Callable[[str], Any]], ...] = (
    ("date", date.fromisoformat),
    ("datetime", datetime.fromisoformat),
)


def _parses(parse: Callable[[str], Any], text: str) -> bool:
    # Python also reads 20260301 and 2026-W09-7 as dates; a column of those is more likely something else.
    if not re.match(r"\d{4}-\d\d-\d\d", text):
        return False
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _kind_of_value(value: Any) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "float"
        case str():
            return "str"
        case datetime():
            return "datetime"
        case date():
            return "date"
        case _:
            return "any"


def _field(name: str, column: _Column, *, primary_key: bool) -> FieldSpec:
    kinds = column.kinds
    if not kinds:
        chosen = "str"
    elif len(kinds) == 1:
        chosen = next(iter(kinds))
    elif kinds == {"int", "float"}:
        chosen = "float"
    elif kinds == {"date", "datetime"}:
        chosen = "datetime"
    else:
        chosen = "any" if "any" in kinds else "str"
    if primary_key and chosen != "int":
        chosen = "str"
    nullable = column.nulls or not kinds
    structure: JsonType = chosen
    kind = _KINDS.get(chosen, Kind.JSON)
    return FieldSpec(plain_name(name), structure, kind, nullable, primary_key, has_default=nullable)


def _key(path: Path, columns: dict[str, _Column], wanted: str | None) -> str:
    fit = [name for name, column in columns.items() if column.values is not None and not column.nulls]
    if wanted is not None:
        named = [name for name in columns if wanted in (name, plain_name(name))]
        if not named:
            raise InputError(f"{path} has no column {wanted!r}.", hint=f"Columns: {', '.join(columns)}.")
        if named[0] not in fit:
            raise InputError(f"{wanted} is empty or twice the same in some rows.", hint="A key is there and unique.")
        return named[0]
    single = plain_name(class_name(path.stem))
    ranked = [*_KEY_NAMES, f"{single}_id", f"{single}_key"]
    best = [name for wish in ranked for name in fit if plain_name(name) == wish]
    best += [name for name in fit if plain_name(name).endswith("_id")] + fit
    if not best:
        raise InputError(
            f"No column of {path} is there and unique in every row.", hint="Name the key with --key, or add one."
        )
    return best[0]


def _check_names(path: Path, names: list[str]) -> None:
    for name in names:
        if not name.isidentifier() or names.count(name) > 1:
            raise InputError(
                f"The column {name!r} of {path} cannot be a field, or is there twice once written as one.",
                hint="Rename the column in the file.",
            )
