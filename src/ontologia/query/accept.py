"""Which Python values a field may be compared with, and the stored form they take in a predicate.

A value of the wrong class is a `QueryError` that names field, expected and got, at the place where the comparison is
written; None, True and False are a `TypeError` that says what to write instead. Nothing is converted silently.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any, NoReturn, cast
from uuid import UUID

from ontologia.errors import QueryError
from ontologia.model.spec import Kind
from ontologia.query.declared import SCALAR_READERS
from ontologia.query.places import Place
from ontologia.query.predicates import Op, Ref

Encode = Callable[[Any], Any]

_EXPECTED = {
    Kind.TEXT: "str",
    Kind.INT: "int, float or Decimal",
    Kind.FLOAT: "int, float or Decimal",
    Kind.DECIMAL: "int, float or Decimal",
    Kind.BOOL: "bool",
    Kind.DATETIME: "datetime",
    Kind.DATE: "date",
    Kind.TIME: "time",
    Kind.BYTES: "bytes",
    Kind.JSON: "str, int or float",
}
_NUMERIC = frozenset({Kind.INT, Kind.FLOAT, Kind.DECIMAL})
_EQUALITY = frozenset({Op.EQ, Op.NE, Op.IN, Op.NOT_IN})
_HELD_AS_TEXT = frozenset({"decimal", "datetime", "date", "time"})
_NAMES: dict[type, str] = {datetime: "datetime", date: "date", time: "time", bytes: "bytes"}
"""Classes of literals for scalars that JSON holds as text, and what a declared type calls them."""


def refuse_singletons(ref: Ref, op: Op, value: Any) -> None:
    """Comparing with None, True or False by an operator is always a slip."""
    if value is None:
        instead = "is_not_null()" if op is Op.NE else "is_null()"
        raise TypeError(f"{ref!r} cannot be compared with None: write {ref!r}.{instead}.")
    if isinstance(value, bool) and op not in (Op.IN, Op.NOT_IN):
        instead = "is_true()" if value is (op is not Op.NE) else "is_false()"
        raise TypeError(f"{ref!r} cannot be compared with {value} by {op}: write {ref!r}.{instead}.")


def stored_literal(ref: Ref, op: Op, value: Any, place: Place, encode: Encode | None) -> Any:
    """The stored form of a literal, checked against the kind of the value it is compared with."""
    refuse_singletons(ref, op, value)
    kind = ref.value_kind
    if kind is Kind.JSON:
        return _json_literal(ref, op, value, place)
    plain = _plain(ref, value, kind, place, encode)
    if not _fits(kind, plain):
        _wrong(ref, _EXPECTED[kind], value)
    return _listed(ref, op, _checked(ref, plain), place)


def _listed(ref: Ref, op: Op, value: Any, place: Place) -> Any:
    """The value, when a type that lists its values (an Enum, a Literal) has it among them."""
    if op in _EQUALITY and not place.allows_member(value):
        raise QueryError(
            f"{ref!r} is never {_shortened(value)}.",
            hint=f"It is one of {', '.join(map(repr, place.members()))}.",
            field=ref.label,
            known=place.members(),
        )
    return value


def text_literal(ref: Ref, op: Op, value: Any) -> str:
    """The text of a `startswith` and its relatives; a pattern must compile."""
    if isinstance(value, Enum):
        value = value.value
    if not isinstance(value, str):
        _wrong(ref, "str", value)
    if op is Op.MATCHES:
        try:
            re.compile(value)
        except re.error as problem:
            raise QueryError(
                f"The pattern {value!r} for {ref!r} is not a regular expression: {problem}.", field=ref.label
            ) from problem
    return cast("str", _checked(ref, str(value)))


def _plain(ref: Ref, value: Any, kind: Kind, place: Place, encode: Encode | None) -> Any:
    """Enum members, UUIDs and the like as what is stored for them."""
    if isinstance(value, Enum):
        if not place.allows_member(value.value):
            _wrong(ref, place.describe(), value)
        return value.value
    if kind is Kind.TEXT and place.is_named("uuid"):
        try:
            return str(value if isinstance(value, UUID) else UUID(value))
        except (ValueError, AttributeError, TypeError):
            _wrong(ref, "UUID", value)
    if kind is Kind.DECIMAL and isinstance(value, float):
        return _as_decimal(value)
    if encode is None or _fits(kind, value):
        return value
    try:
        return encode(value)
    except (TypeError, ValueError, AttributeError, LookupError):
        _wrong(ref, _EXPECTED[kind], value)


def _as_decimal(value: float | Decimal) -> Any:
    """As when an object is made: 7.1 is the decimal 7.1, not the binary fraction beside it."""
    return Decimal(repr(float(value))) if isinstance(value, float) and math.isfinite(value) else value


def _fits(kind: Kind, value: Any) -> bool:
    match kind:
        case Kind.TEXT:
            return isinstance(value, str)
        case Kind.INT | Kind.FLOAT | Kind.DECIMAL:
            return isinstance(value, int | float | Decimal) and not isinstance(value, bool)
        case Kind.BOOL:
            return isinstance(value, bool)
        case Kind.DATETIME:
            return isinstance(value, datetime)
        case Kind.DATE:
            return isinstance(value, date) and not isinstance(value, datetime)
        case Kind.TIME:
            return isinstance(value, time)
        case Kind.BYTES:
            return isinstance(value, bytes | bytearray | memoryview)
        case Kind.JSON:
            return isinstance(value, str | int | float)


def _json_literal(ref: Ref, op: Op, value: Any, place: Place) -> Any:
    """A literal for a place inside JSON; where the type there is closed, one that some value there could equal."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, UUID) and place.is_named("uuid"):
        return str(value)
    if isinstance(value, str) and not place.may_be_text:
        value = _from_text(value, place)
    if isinstance(value, str):
        fits = place.may_be_text
        if fits and place.is_named("uuid") and not place.is_named("str"):
            value = _plain(ref, value, Kind.TEXT, place, None)
    elif isinstance(value, bool):
        fits = True
    elif isinstance(value, int | float):
        fits = place.may_be_number
    elif isinstance(value, Decimal):
        fits = place.is_named("decimal")
    else:
        fits = place.is_named(_NAMES.get(type(cast("object", value)), ""))
    if not fits:
        hint = "Compare what is inside: path() for keys, any_path() for items." if _is_container(value) else None
        _wrong(ref, _EXPECTED[Kind.JSON] if place.is_open else place.describe(), value, hint)
    if isinstance(value, float | Decimal) and place.scalars <= {"decimal", "null"} and not place.is_open:
        value = _as_decimal(value)
    return _listed(ref, op, _checked(ref, value), place)


def _from_text(text: str, place: Place) -> Any:
    """The decimal or the time that JSON holds as this text, where there can be only one sort; else the text."""
    (name, *others) = [*(place.scalars & _HELD_AS_TEXT), ""]
    if not name or len(others) != 1:
        return text
    try:
        return SCALAR_READERS[name](text)
    except (ValueError, ArithmeticError):
        return text


def _is_container(value: Any) -> bool:
    return isinstance(value, list | dict)


def _checked(ref: Ref, value: Any) -> Any:
    """Values that compare with nothing are refused; buffers become bytes, subclasses their plain class."""
    if value.is_nan() if isinstance(value, Decimal) else isinstance(value, float) and math.isnan(value):
        raise QueryError(f"{ref!r} cannot be compared with nan: no stored number is nan.", field=ref.label)
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise QueryError(f"The text compared with {ref!r} has half of a surrogate pair in it.", field=ref.label)
        return str.__str__(value)
    if isinstance(value, bytearray | memoryview):
        return bytes(cast("bytearray", value))
    if isinstance(value, float):
        return float(value) + 0.0
    return int(value) if isinstance(value, int) else value


def _wrong(ref: Ref, expected: str, got: Any, hint: str | None = None) -> NoReturn:
    raise QueryError(
        f"{ref!r} is compared with {expected}, not with {type(got).__name__} {_shortened(got)}.",
        hint=hint,
        field=ref.label,
        expected=expected,
        got=type(got).__name__,
    )


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def is_numeric(ref: Ref) -> bool:
    """True when the value can be summed: a number, or a place in JSON that may hold one."""
    return ref.value_kind in _NUMERIC or ref.value_kind is Kind.JSON
