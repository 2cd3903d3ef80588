"""Conditions, orders and windows as the command line writes them.

`--filter '$.tier' eq '"Gold"'` is a path, an operator and a JSON value; `left.$.name` reaches the end of a relation.
What a condition means is left to the query package.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, cast

import click

from ontologia.errors import QueryError, UnknownFieldError
from ontologia.model.spec import Kind, TypeSpec
from ontologia.query.expr import FieldExpr, Order, Predicate, left, right

UNARY: dict[str, Callable[[FieldExpr[Any]], Predicate]] = {
    "is_null": lambda field: field.is_null(),
    "is_not_null": lambda field: field.is_not_null(),
    "is_true": lambda field: field.is_true(),
    "is_false": lambda field: field.is_false(),
}
_COMPARE: dict[str, Callable[[FieldExpr[Any], Any], Predicate]] = {
    "eq": lambda field, value: field == value,
    "ne": lambda field, value: field != value,
    "gt": lambda field, value: field > value,
    "gte": lambda field, value: field >= value,
    "lt": lambda field, value: field < value,
    "lte": lambda field, value: field <= value,
}
_SEVERAL: dict[str, Callable[[FieldExpr[Any], list[Any]], Predicate]] = {
    "in": lambda field, values: field.in_(values),
    "not_in": lambda field, values: field.not_in(values),
    "between": lambda field, values: field.between(*values),
}
_TEXT: dict[str, Callable[[FieldExpr[Any], str], Predicate]] = {
    "startswith": lambda field, text: field.startswith(text),
    "endswith": lambda field, text: field.endswith(text),
    "contains": lambda field, text: field.contains(text),
    "icontains": lambda field, text: field.icontains(text),
    "matches": lambda field, text: field.matches(text),
}
OPERATORS = (*_COMPARE, *_SEVERAL, *_TEXT, *UNARY)
_SEGMENT = re.compile(r"""\.?([^.\[\]]+)|\[(?:"((?:[^"\\]|\\.)*)"|'([^']*)')\]""")
_TEXT_KINDS: dict[Kind, Callable[[str], Any]] = {
    Kind.DATETIME: datetime.fromisoformat,
    Kind.DATE: date.fromisoformat,
    Kind.TIME: time.fromisoformat,
    Kind.BYTES: lambda text: base64.b64decode(text, validate=True),
}


def condition(cls: type[Any], path: str, operator: str, value: str) -> Predicate:
    """The predicate of one `--filter`."""
    return _applied(field_at(cls, path), path, operator, value)


def condition_on_items(cls: type[Any], path: str, inside: str, operator: str, value: str) -> Predicate:
    """The predicate of one `--any`: true when some item of the list passes."""
    items = field_at(cls, path).any_path()
    for segment in [] if inside in {"", ".", "$"} else _segments(inside):
        items = items[segment]
    return _applied(items, f"{path} {inside}", operator, value)


def _applied(field: FieldExpr[Any], path: str, operator: str, value: str) -> Predicate:
    if operator in UNARY:
        return UNARY[operator](field)
    if operator not in OPERATORS:
        raise click.BadParameter(f"{operator!r} is no operator; there are {', '.join(OPERATORS)}.")
    literal = _literal(field, path, value)
    if operator in _SEVERAL:
        if not isinstance(literal, list) or (operator == "between" and len(cast("list[Any]", literal)) != 2):
            size = "two values" if operator == "between" else "values"
            raise click.BadParameter(f"{path} {operator} takes a JSON list of {size}, such as '[1, 2]'.")
        return _SEVERAL[operator](field, cast("list[Any]", literal))
    if operator in _TEXT:
        return _TEXT[operator](field, literal)
    if literal is None and operator in {"eq", "ne"}:
        return field.is_null() if operator == "eq" else field.is_not_null()
    if isinstance(literal, bool) and operator in {"eq", "ne"}:
        wanted = field.is_true() if literal else field.is_false()
        return wanted if operator == "eq" else ~wanted
    try:
        return _COMPARE[operator](field, literal)
    except TypeError as error:
        raise QueryError(f"{path} {operator} {value}: {error}") from error


def _literal(field: FieldExpr[Any], path: str, text: str) -> Any:
    """A JSON value as the field's kind needs it."""
    kind = field.ref.value_kind
    try:
        value = json.loads(text, parse_float=Decimal if kind is Kind.DECIMAL else None)
    except ValueError as error:
        hint = f"""Text needs double quotes inside the shell's: '"{text}"'."""
        raise QueryError(f"{text!r}, given for {path}, is not JSON.", hint=hint) from error
    convert = _TEXT_KINDS.get(kind)
    if convert is None:
        return value
    try:
        if isinstance(value, list):
            return [convert(item) if isinstance(item, str) else item for item in cast("list[Any]", value)]
        return convert(value) if isinstance(value, str) else value
    except (ValueError, binascii.Error) as error:
        forms = "base64" if kind is Kind.BYTES else "ISO 8601, such as 2026-03-01T12:00:00+00:00"
        raise QueryError(f"{text} is not a {kind} for {path}.", hint=f"Write it in {forms}.") from error


def field_at(cls: type[Any], path: str) -> FieldExpr[Any]:
    """The field, or the place inside one, that a path names."""
    spec: TypeSpec = cls.__spec__
    side, separator, rest = path.partition(".")
    if separator and side in {"left", "right"} and rest.startswith("$"):
        if spec.kind != "relation":
            raise QueryError(f"{path}: {spec.name} is an entity and has no {side} end.")
        first, *inner = _segments(rest)
        end: type[Any] = cls.__ends__[side == "right"]
        field = getattr(left(cls) if side == "left" else right(cls), _known(end.__spec__, first))
    else:
        first, *inner = _segments(path)
        field = getattr(cls, _known(spec, first))
    for segment in inner:
        field = field[segment]
    return field


def _known(spec: TypeSpec, name: str) -> str:
    """The name of a field, or an error that lists those there are."""
    names = [*(("left_key", "right_key") if spec.kind == "relation" else ()), *spec.by_name]
    if name not in names:
        raise UnknownFieldError(
            f"{spec.name} has no field {name!r}.", hint=f"Fields: {', '.join(names)}.", field=name, known=names
        )
    return name


def _segments(path: str) -> list[str]:
    """The names in `$.a.b`, `a.b` or `$["a.b"].c`."""
    rest = path.removeprefix("$")
    segments: list[str] = []
    at = 0
    while at < len(rest):
        match = _SEGMENT.match(rest, at)
        if match is None:
            raise QueryError(f"{path!r} is not a path.", hint="Write $.field, $.field.inner or $.field['inner key'].")
        segments.append(next(group for group in match.groups() if group is not None))
        at = match.end()
    if not segments:
        raise QueryError(f"{path!r} names no field.", hint="Write $.field.")
    return segments


def order(cls: type[Any], text: str) -> Order:
    """The criterion of one `--order-by`: `name`, or `-name` for downwards."""
    field = field_at(cls, text.removeprefix("-"))
    return field.desc() if text.startswith("-") else field.asc()


def moment(text: str) -> int | datetime:
    """A commit id, or a time in ISO 8601; like all times that the command line shows, it is UTC unless it says.

    Tables show no fractions of a second, so a time without one stands for all of its second. A date is its midnight.
    """
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        hint = "Write 42, or 2026-03-01T12:00:00+00:00."
        raise QueryError(f"{text!r} is neither a commit id nor a time in ISO 8601.", hint=hint) from error
    if ":" in text and not re.search(r"[.,]\d", text):
        when = when.replace(microsecond=999_999)
    return when if when.tzinfo is not None else when.replace(tzinfo=UTC)
