"""The flat row that a table engine holds for an object: a column per field, a second one where comparing loses detail.

A physical row is a tuple: identity first, then for each field its comparable form (`f0`, `f1`, …) and, for decimals,
datetimes and times, the exact text beside it (`f0x`). Integers beyond 64 bits are clamped in their column and kept in
full in the last column, `big`. The text of a primary or instance key is held once, in the identity.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any

from ontologia.model.comparable import comparable, from_instant
from ontologia.model.spec import FieldSpec, Kind, TypeSpec

INT64_MAX = 2**63 - 1
_DECIMAL_BITS = 2_000
EXACT_KINDS = frozenset({Kind.DECIMAL, Kind.DATETIME, Kind.TIME})
"""Kinds whose comparable form does not say everything."""


@dataclass(frozen=True, slots=True)
class Column:
    """One physical column. `field` is None for identity columns and for `big`."""

    name: str
    kind: Kind
    field: FieldSpec | None = None
    exact: bool = False


@dataclass(frozen=True)
class Layout:
    """The physical columns of a type, in row order."""

    spec: TypeSpec
    columns: tuple[Column, ...]
    main: dict[str, str]
    """Field name to the column that is compared."""
    identity_width: int

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


@lru_cache(maxsize=1024)
def layout(spec: TypeSpec) -> Layout:
    """The layout of a type; field columns are numbered, so no user text becomes an identifier."""
    columns = [Column(name, Kind.TEXT) for name in spec.identity]
    main = {name: name for name in spec.identity if name != "key"}
    for number, field in enumerate(spec.fields):
        if held_in_identity(field):
            main[field.name] = spec.identity[-1]
            continue
        main[field.name] = f"f{number}"
        columns.append(Column(f"f{number}", field.kind, field))
        if field.kind in EXACT_KINDS:
            columns.append(Column(f"f{number}x", Kind.TEXT, field, exact=True))
    columns.append(Column("big", Kind.TEXT))
    return Layout(spec, tuple(columns), main, len(spec.identity))


def held_in_identity(field: FieldSpec) -> bool:
    """True when the identity column already is the field's value."""
    return (field.primary_key or field.instance_key) and field.kind is Kind.TEXT


def exact_text(kind: Kind, value: Any) -> str | None:
    """What the comparable form of a value leaves out, or None when it leaves out nothing."""
    if value is None:
        return None
    if kind is Kind.DECIMAL:
        return str(value)
    if kind is Kind.DATETIME and value.tzinfo is not None and not value.utcoffset():
        return None
    return value.isoformat()


def restore(kind: Kind) -> Callable[[Any, str | None], Any] | None:
    """How to get a value back from `(main, exact)`; None when the main column is the value."""
    match kind:
        case Kind.DECIMAL:
            return lambda main, exact: None if main is None else Decimal(exact or main)
        case Kind.DATETIME:
            return _restore_datetime
        case Kind.TIME:
            return lambda main, exact: None if main is None or exact is None else time.fromisoformat(exact)
        case Kind.DATE:
            return lambda main, _exact: None if main is None else date.fromisoformat(main)
        case Kind.BOOL:
            return lambda main, _exact: None if main is None else bool(main)
        case _:
            return None


def _restore_datetime(main: int | None, exact: str | None) -> datetime | None:
    if main is None:
        return None
    return datetime.fromisoformat(exact) if exact is not None else from_instant(main)


def to_physical(spec: TypeSpec, identity: Sequence[str], values: Sequence[Any]) -> tuple[Any, ...]:
    """The physical row of stored values given in field order. The plain definition; encoders may be faster."""
    row: list[Any] = list(identity)
    big: dict[str, str] = {}
    for number, (field, value) in enumerate(zip(spec.fields, values, strict=True)):
        if held_in_identity(field):
            continue
        if field.kind is Kind.INT and value is not None and not -INT64_MAX <= value <= INT64_MAX:
            big[f"f{number}"] = int_text(value)
            row.append(INT64_MAX if value > 0 else -INT64_MAX)
        elif field.kind is Kind.BOOL:
            row.append(None if value is None else int(value))
        elif field.kind is Kind.FLOAT:
            row.append(None if value is None else value + 0.0)
        else:
            row.append(comparable(field.kind, value))
        if field.kind in EXACT_KINDS:
            row.append(exact_text(field.kind, value))
    row.append(json.dumps(big) if big else None)
    return tuple(row)


def int_text(value: int) -> str:
    """An integer of any size as text; hexadecimal where Python limits the digits of a decimal one."""
    return str(value) if value.bit_length() < _DECIMAL_BITS else hex(value)


def int_from_text(text: str) -> int:
    """The integer that `big` holds as text."""
    return int(text, 16) if "x" in text else int(text)


def from_physical(spec: TypeSpec, row: Sequence[Any]) -> dict[str, Any]:
    """Stored values by field name, from a physical row."""
    shape = layout(spec)
    big: dict[str, str] = json.loads(row[-1]) if row[-1] is not None else {}
    cells = dict(zip(shape.names, row, strict=True))
    values: dict[str, Any] = {}
    for field in spec.fields:
        column = shape.main[field.name]
        back = restore(field.kind)
        value = cells[column]
        if column in big:
            value = int_from_text(big[column])
        elif back is not None:
            value = back(value, cells.get(f"{column}x"))
        values[field.name] = value
    return values
