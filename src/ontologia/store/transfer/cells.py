"""Single values in files: the JSON of a field's value, its text in a CSV cell, and the way back.

Writing is exact for every kind; an empty cell is null and `""` is empty text. Reading accepts what was written, and
leaves anything else as it is for validation to judge.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from ontologia.model.declaration import Part
from ontologia.model.physical import int_from_text
from ontologia.model.rows import declaration_of
from ontologia.model.spec import Kind

_LONG_INT_BITS = 10_000
"""Integers beyond this are written in hexadecimal: Python limits the digits of a decimal one."""
_HEX = re.compile(r"-?0x[0-9a-f]+")
_NEEDS_QUOTES = re.compile(r'[",\r\n\0]|^\s|\s$')

Write = Callable[[Any], Any]
Read = Callable[[Any], Any]


class CellError(ValueError):
    """A cell that cannot be what its column holds."""


def csv_line(values: Sequence[str | None]) -> str:
    """One line of CSV."""
    return ",".join("" if value is None else _quoted(value) for value in values) + "\r\n"


def _quoted(value: str) -> str:
    if value and not _NEEDS_QUOTES.search(value):
        return value
    return '"' + value.replace('"', '""') + '"'


@lru_cache(maxsize=256)
def json_writers(cls: type[Any]) -> tuple[tuple[str, Write], ...]:
    """For each field of a class, how its value becomes exact JSON; null is left to the caller."""
    return tuple((part.name, _json_writer(part)) for part in declaration_of(cls).parts)


def _json_writer(part: Part) -> Write:
    if part.spec.kind is Kind.INT:
        write = part.form.write
        return lambda value: hex(value) if int(value).bit_length() > _LONG_INT_BITS else write(value)
    return part.form.write


@lru_cache(maxsize=256)
def json_readers(cls: type[Any]) -> dict[str, Read]:
    """For each field whose JSON is not its value, the way back."""
    found: dict[str, Read] = {}
    for part in declaration_of(cls).parts:
        read = _json_reader(part)
        if read is not None:
            found[part.name] = read
    return found


def _json_reader(part: Part) -> Read | None:
    kind = part.spec.kind
    if kind is Kind.BYTES:
        return _read_bytes
    if kind is Kind.INT:
        return _read_int
    # Nested values come from outside: `take` only undoes how they are written, and validation judges the rest.
    read = part.take if kind is Kind.JSON else part.form.read
    if read is None:
        return None

    def lenient(value: Any) -> Any:
        try:
            return read(value)
        except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError):
            return value

    return lenient


def _read_bytes(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise CellError("bytes are written in base64") from error


def _read_int(value: Any) -> Any:
    return int_from_text(value) if isinstance(value, str) and _HEX.fullmatch(value) else value


@lru_cache(maxsize=256)
def text_readers(cls: type[Any]) -> dict[str, Read]:
    """For each field, how the text of a cell becomes its JSON; text itself needs nothing."""
    return {field.name: _PARSERS[field.kind] for field in cls.__spec__.fields if field.kind in _PARSERS}


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise CellError("this field holds JSON; text in it needs double quotes") from error


def _parse_float(text: str) -> Any:
    """A number; an infinite one is written as the JSON object that stands for it everywhere else."""
    try:
        if "_" in text:
            return text
        return json.loads(text) if text.startswith("{") else float(text)
    except ValueError:
        return text


def _parse_int(text: str) -> Any:
    try:
        # Python reads 1_000 as a number; in a file it is more likely something else.
        return text if "_" in text else int(text)
    except ValueError:
        return text


def _parse_bool(text: str) -> Any:
    return {"true": True, "false": False}.get(text.lower(), text)


_PARSERS: dict[Kind, Read] = {
    Kind.JSON: _parse_json,
    Kind.FLOAT: _parse_float,
    Kind.INT: _parse_int,
    Kind.BOOL: _parse_bool,
}
"""What is no number or truth value is left as text, for validation to refuse with its reason."""


def cell_text(kind: Kind, value: Any) -> str | None:
    """The text of a CSV cell for the JSON of a field."""
    if value is None:
        return None
    if kind is Kind.JSON or isinstance(value, dict | bool):
        return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    if isinstance(value, float):
        return repr(value)
    return str(value)
