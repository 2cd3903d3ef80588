"""Order-preserving forms of values that no SQL engine compares exactly.

`comparable(kind, value)` maps a stored value to something every engine orders the same way: datetimes to the instant in
microseconds, times likewise, decimals to a text whose byte order is numeric order. All other kinds are their own form.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from ontologia.model.spec import Kind

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - naive values are read as UTC
_MICROSECOND = timedelta(microseconds=1)
_EXPONENT_OFFSET = 5_000_000
_NINES = str.maketrans("0123456789", "9876543210")

DECIMAL_EXPONENT_LIMIT = 4_000_000
"""Largest magnitude of a decimal's adjusted exponent that can be stored."""


def instant(value: datetime) -> int:
    """Microseconds since 1970 in UTC; a value without an offset is read as UTC."""
    return (value - (EPOCH if value.tzinfo is not None else _NAIVE_EPOCH)) // _MICROSECOND


def from_instant(microseconds: int) -> datetime:
    """The aware UTC datetime of an instant."""
    return EPOCH + timedelta(microseconds=microseconds)


def time_of_day(value: time) -> int:
    """Microseconds since midnight UTC; a value without an offset is read as UTC."""
    since = (value.hour * 3600 + value.minute * 60 + value.second) * 1_000_000 + value.microsecond
    offset = value.utcoffset()
    return since - offset // _MICROSECOND if offset else since


def decimal_key(value: Decimal) -> str:
    """A text whose code-point order is the numeric order of finite decimals; equal numbers have equal keys."""
    sign, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    if not text:
        return "b"
    # The value is 0.text x 10**scale, and text starts with a non-zero digit.
    scale = len(text) + int(exponent) + _EXPONENT_OFFSET
    key = f"{scale:08d}{text.rstrip('0')}"
    return f"a{key.translate(_NINES)}~" if sign else f"c{key}"


def comparable(kind: Kind, value: Any) -> Any:
    """The form of a stored value that engines compare; None stays None."""
    if value is None:
        return None
    match kind:
        case Kind.DATETIME:
            return instant(value)
        case Kind.TIME:
            return time_of_day(value)
        case Kind.DECIMAL:
            return decimal_key(value)
        case Kind.DATE:
            return value.isoformat() if isinstance(value, date) else value
        case _:
            return value
