"""Which files an import or export is about: formats by suffix, types by file name.

Type names become file names with everything unusual percent-encoded, so that every name has its file and comes back
from it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import quote, unquote

from ontologia.errors import InputError, NotFoundError, RowError
from ontologia.store.transfer.names import class_name

Format = Literal["jsonl", "csv", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)
_SUFFIXES: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file to read. The type is None when only the lines themselves can say it."""

    path: Path
    format: Format
    type_name: str | None

    @property
    def size(self) -> int:
        return self.path.stat().st_size


def file_name(type_name: str, form: Format) -> str:
    """The file of a type in an exported directory."""
    return f"{quote(type_name, safe=' ')}.{form}"


def format_of(path: Path) -> Format:
    """The format that a file's suffix says."""
    form = _SUFFIXES.get(path.suffix.lower())
    if form is None:
        raise InputError(
            f"The suffix of {path} does not say what is in it.", hint="Use .jsonl, .csv or .parquet.", path=str(path)
        )
    return form


def has_known_suffix(path: Path) -> bool:
    """Whether a path looks like a file of one of the formats, rather than a directory."""
    return path.suffix.lower() in _SUFFIXES


def source_files(inputs: Sequence[Path], type_name: str | None, known: Iterable[str]) -> list[SourceFile]:
    """The files that the inputs stand for: each file, and in a directory every file of a known format."""
    types = set(known)
    found: list[SourceFile] = []
    for path in inputs:
        if not path.exists():
            raise NotFoundError(f"There is no file {path}.", hint="Check the path.", path=str(path))
        members = _members(path) if path.is_dir() else [path]
        for member in members:
            form = format_of(member)
            if form == "csv":
                check_delimiter(member)
            found.append(SourceFile(member, form, _type_of(member, form, type_name, types)))
    return found


def check_delimiter(path: Path) -> None:
    """Refuse a CSV file whose header is one cell with commas and several with another separator."""
    with path.open("rb") as file:
        line = file.readline(1 << 16).decode("utf-8-sig", errors="replace")
    if len(_cells(line, ",")) != 1:
        return
    for separator, name in ((";", "semicolons"), ("\t", "tabs"), ("|", "vertical bars")):
        if len(_cells(line, separator)) > 1:
            raise InputError(
                f"{path} seems to be separated by {name}; Ontologia reads CSV that is separated by commas.",
                hint="Save the file with commas between the cells, or as .jsonl or .parquet.",
                path=str(path),
            )


def _cells(line: str, separator: str) -> list[str]:
    return next(csv.reader([re.split(r"[\r\n]", line, maxsplit=1)[0]], delimiter=separator), list[str]())


def not_utf8(path: Path) -> RowError:
    """The error for a text file in another encoding; it names the first line that shows it."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return RowError(
                    f"{path}, line {number}: the byte 0x{line[error.start]:02x} is not UTF-8.",
                    hint=f"Save the file as UTF-8; for Latin-1: iconv -f LATIN1 -t UTF-8 {path} > utf8{path.suffix}",
                    path=str(path),
                    line=number,
                )
    return RowError(f"{path} is not UTF-8.", hint="Save the file as UTF-8.", path=str(path))


def _members(folder: Path) -> list[Path]:
    members = [path for path in sorted(folder.iterdir()) if has_known_suffix(path) and path.is_file()]
    if not members:
        raise NotFoundError(
            f"{folder} has no .jsonl, .csv or .parquet file.",
            hint="Name a directory that `onto export` wrote.",
            path=str(folder),
        )
    return members


def _type_of(path: Path, form: Format, type_name: str | None, known: set[str]) -> str | None:
    if type_name is not None:
        return type_name
    name = unquote(path.stem)
    if name in known:
        return name
    # customers.csv holds Customer, as `--infer` would call it; case does not matter.
    named = {name.casefold(), class_name(name).casefold()}
    alike = [one for one in known if one.casefold() in named]
    if len(alike) == 1:
        return alike[0]
    if form == "jsonl":
        return None
    raise InputError(
        f"{path} does not say which type it holds: {name!r} is none of the known types"
        f" ({', '.join(sorted(known)) or 'there are none'}).",
        hint="Name it with --type, give --models, or let --infer propose one.",
        path=str(path),
    )


def as_format(text: str) -> Format:
    """A format by its name."""
    if text not in FORMATS:
        raise InputError(f"{text!r} is not a format.", hint=f"Formats: {', '.join(FORMATS)}.")
    return text
