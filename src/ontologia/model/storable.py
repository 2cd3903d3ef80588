"""What can be stored at all: checks that return the value they were given, or refuse it and say where it was.

They are stricter than JSON libraries on purpose: a tuple, an int as a key or a nan would be written without complaint
and read back as something else.
"""

from __future__ import annotations

import math
from decimal import Decimal
from types import NoneType
from typing import Any, NoReturn, cast

from ontologia.model.comparable import DECIMAL_EXPONENT_LIMIT

MAX_DEPTH = 100
"""Deepest nesting of a stored JSON value: what every JSON reader, in Python and in SQL, can read back."""


class UnstorableError(ValueError):
    """A value, somewhere inside another, that has no exact JSON."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path: list[str] = []

    def __str__(self) -> str:
        return f"{self.problem} (at ${''.join(reversed(self.path))})" if self.path else self.problem


def exact(value: Any) -> Any:
    """The value as the very str, int, float or bytes that a subclass of one wraps; others as they are."""
    match value:
        case bool():
            return value
        case str():
            return str.__str__(value)
        case int():
            return int.__int__(value)
        case float():
            return float.__float__(value)
        case bytes():
            return bytes(memoryview(value))
        case _:
            return value


def refuse(problem: str) -> NoReturn:
    raise UnstorableError(problem)


def check_text(value: str) -> str:
    """Text that is valid Unicode."""
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            refuse("text with a lone surrogate cannot be stored")
    return value


def check_decimal(value: Decimal) -> Decimal:
    """A finite decimal of a size that can be ordered."""
    if not value.is_finite():
        refuse(f"{value} cannot be stored: decimals must be finite")
    exponent = int(value.as_tuple().exponent)
    if value and not -DECIMAL_EXPONENT_LIMIT <= value.adjusted() <= DECIMAL_EXPONENT_LIMIT:
        refuse(f"decimal with exponent {value.adjusted()} cannot be stored: the limit is {DECIMAL_EXPONENT_LIMIT}")
    if not -DECIMAL_EXPONENT_LIMIT <= exponent <= DECIMAL_EXPONENT_LIMIT:
        refuse(f"decimal with exponent {exponent} cannot be stored: the limit is {DECIMAL_EXPONENT_LIMIT}")
    return value


def check_json(value: Any, depth: int = 0) -> Any:
    """Any JSON value, unchanged: str, int, finite float, bool, None, list, dict with str keys, and nothing else."""
    kind = type(cast("object", value))
    if kind is str:
        if not value.isascii():
            check_text(value)
    elif kind is dict or kind is list:
        if depth >= MAX_DEPTH:
            refuse(f"nested more than {MAX_DEPTH} levels deep")
        _check_items(value, depth + 1)
    elif kind is float:
        if not math.isfinite(value):
            refuse(f"{value} is not a JSON number")
    elif kind not in {int, bool, NoneType}:
        refuse(f"{kind.__name__} is not a JSON value")
    return value


def _check_items(value: dict[Any, Any] | list[Any], depth: int) -> None:
    key: Any = None
    try:
        if isinstance(value, dict):
            for key, item in value.items():
                if type(key) is not str:
                    refuse(f"key {key!r} is not a str")
                check_text(key)
                check_json(item, depth)
        else:
            for key, item in enumerate(value):  # noqa: B007 - as above
                check_json(item, depth)
    except UnstorableError as error:
        error.path.append(step(key))
        raise


def step(key: Any) -> str:
    """One step of the path to a refused value; a key that is itself refused is shown escaped."""
    return f"[{key}]" if isinstance(key, int) else "." + str(key).encode(errors="backslashreplace").decode()
