"""`fields_json`: all fields of a row as one canonical JSON object, by name, without loss.

Other programs read rows from it, whatever columns they know; we write it and can always go back. Numbers are numbers,
of any length; decimals, dates and times are their exact text, bytes are base64, JSON fields are part of the object.
Only what JSON has no number for is written otherwise: infinite floats tagged as inside JSON fields, and integers of
thousands of digits as hexadecimal text.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any

from ontologia.model.comparable import from_instant
from ontologia.model.jsonform import TAG, VALUE, dumps
from ontologia.model.physical import held_in_identity, int_from_text, layout
from ontologia.model.spec import FieldSpec, Kind, TypeSpec

_LONG_INT_BITS = 10_000
"""Beyond this Python refuses to write, and other programs to read, the digits of an integer."""
_INFINITE = {value: dumps({TAG: "float", VALUE: str(value)}) for value in (math.inf, -math.inf)}
Cells = Sequence[Any]


def payloads(spec: TypeSpec, columns: Sequence[Cells]) -> list[str]:
    """The payload of each row, given the physical columns of the rows."""
    template, places = _template(spec)
    big = columns[-1]
    longer = _longer(big) if any(big) else {}
    cells: list[Iterable[Any]] = []
    for name, kind, main, exact in places:
        written = _WRITERS[kind](columns[main], () if exact is None else columns[exact])
        if name in longer:
            written = list(written)
            for row, text in longer[name]:
                written[row] = text
        cells.append(written)
    return [template % row for row in zip(*cells, strict=True)] if cells else [template] * len(big)


@lru_cache(maxsize=1024)
def _template(spec: TypeSpec) -> tuple[str, list[tuple[str, Kind, int, int | None]]]:
    """The object with a mark for each value, and where each value comes from; keys are sorted."""
    shape = layout(spec)
    at = {name: number for number, name in enumerate(shape.names)}
    places: list[tuple[str, Kind, int, int | None]] = []
    for field in sorted(spec.fields, key=lambda one: one.name):
        column = shape.main[field.name]
        exact = None if held_in_identity(field) else at.get(f"{column}x")
        places.append((column, field.kind, at[column], exact))
    names = sorted(field.name for field in spec.fields)
    marks = ",".join(f"{encode_basestring(name)}:".replace("%", "%%") + "%s" for name in names)
    return "{" + marks + "}", places


def _longer(big: Cells) -> dict[str, list[tuple[int, str]]]:
    """The JSON of integers beyond 64 bits, by physical column: row and text."""
    found: dict[str, list[tuple[int, str]]] = {}
    for row, text in enumerate(big):
        for column, digits in json.loads(text).items() if text is not None else ():
            value = int_from_text(digits)
            long = value.bit_length() > _LONG_INT_BITS
            found.setdefault(column, []).append((row, f'"{value:#x}"' if long else str(value)))
    return found


def _each(write: Callable[[Any], str]) -> Callable[[Cells, Cells], Iterable[Any]]:
    """A writer of columns from one of values."""

    def column(values: Cells, _exact: Cells) -> Iterable[Any]:
        if None in values:
            return ["null" if value is None else write(value) for value in values]
        return map(write, values)

    return column


def _ints(values: Cells, _exact: Cells) -> Iterable[Any]:
    return ["null" if value is None else value for value in values] if None in values else values


def _texts(_main: Cells, exact: Cells) -> Iterable[str]:
    return ["null" if text is None else f'"{text}"' for text in exact]


def _datetimes(main: Cells, exact: Cells) -> Iterable[str]:
    return [
        f'"{text}"' if text is not None else "null" if moment is None else f'"{from_instant(moment).isoformat()}"'
        for moment, text in zip(main, exact, strict=True)
    ]


def _floats(values: Cells, _exact: Cells) -> Iterable[str]:
    if None in values or math.inf in values or -math.inf in values:
        return ["null" if value is None else _INFINITE.get(value) or repr(value) for value in values]
    return map(repr, values)


_WRITERS: dict[Kind, Callable[[Cells, Cells], Iterable[Any]]] = {
    Kind.TEXT: _each(encode_basestring),
    Kind.INT: _ints,
    Kind.FLOAT: _floats,
    Kind.BOOL: _each(lambda value: "true" if value else "false"),
    Kind.DECIMAL: _texts,
    Kind.DATETIME: _datetimes,
    Kind.DATE: _each(lambda value: f'"{value}"'),
    Kind.TIME: _texts,
    Kind.BYTES: _each(lambda value: f'"{base64.b64encode(value).decode()}"'),
    Kind.JSON: _each(lambda value: value),
}


def values_of(spec: TypeSpec, payload: str) -> dict[str, Any]:
    """Stored values by field name: what `payloads` was given, exactly."""
    record = json.loads(payload)
    return {field.name: _value(field, record[field.name]) for field in spec.fields}


def _value(field: FieldSpec, item: Any) -> Any:
    if item is None:
        return None
    match field.kind:
        case Kind.INT:
            return int_from_text(item) if isinstance(item, str) else item
        case Kind.FLOAT:
            return float(item if isinstance(item, int | float) else item[VALUE])
        case Kind.DECIMAL:
            return Decimal(item)
        case Kind.DATETIME:
            return datetime.fromisoformat(item)
        case Kind.DATE:
            return date.fromisoformat(item)
        case Kind.TIME:
            return time.fromisoformat(item)
        case Kind.BYTES:
            return base64.b64decode(item)
        case Kind.JSON:
            return dumps(item)
        case _:
            return item
