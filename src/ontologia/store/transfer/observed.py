"""What the values of a column have in common: what they could be read as, and whether they tell rows apart.

Rows are counted from 0. Saying where a row is in its file, and deciding what to make of a column, is left to the
proposal.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, NamedTuple

_INT = re.compile(r"[+-]?(0|[1-9]\d*)")
_FLOAT = re.compile(r"[+-]?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_FAMILIES = {"numbers": ("int", "float"), "dates": ("date", "datetime"), "true or false": ("bool",)}
_FEW = 100
"""One odd value in this many, or fewer, is worth a word."""


class Almost(NamedTuple):
    """A column that is text only because of few values: so many of so many fit, and the first that does not."""

    what: str
    fit: int
    of: int
    row: int
    value: Any


@dataclass
class Column:
    """What is known of a column after looking at all of its values."""

    kinds: dict[str, int] = field(default_factory=dict[str, int])
    """How many values there are of each kind."""
    empty: int | None = None
    """The first row without a value."""
    again: tuple[int, int, Any] | None = None
    """The first value that came twice, behind the two rows that have it."""
    _firsts: dict[str, tuple[int, Any]] = field(default_factory=dict[str, tuple[int, Any]])
    _rows: dict[Any, int] | None = field(default_factory=dict[Any, int])
    """Each value with its row, for as long as the column tells rows apart."""

    def see(self, row: int, value: Any, kind: str | None) -> None:
        """Take in the value of the next row."""
        if kind is None:
            self._rows = None
            if self.empty is None:
                self.empty = row
            return
        if kind not in self.kinds:
            self._firsts[kind] = (row, value)
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if self._rows is not None:
            if isinstance(value, dict | list):
                self._rows = None
            elif self._rows.setdefault(value, row) != row:
                self.again = (self._rows[value], row, value)
                self._rows = None

    @property
    def identifies(self) -> bool:
        """Whether every row has a value and no two the same."""
        return self._rows is not None and self.empty is None

    @property
    def kind(self) -> str:
        """The narrowest type that all values have."""
        kinds = self.kinds.keys()
        if len(kinds) == 1:
            return next(iter(kinds))
        if kinds == {"int", "float"}:
            return "float"
        if kinds == {"date", "datetime"}:
            return "datetime"
        return "any" if "any" in kinds else "str"

    @property
    def almost(self) -> Almost | None:
        """What the column would be without few odd values."""
        if self.kind != "str":
            return None
        total = sum(self.kinds.values())
        for what, family in _FAMILIES.items():
            fit = sum(self.kinds.get(kind, 0) for kind in family)
            if 0 < (total - fit) * _FEW <= total:
                return Almost(what, fit, total, *min(self._firsts[kind] for kind in self.kinds if kind not in family))
        return None


def kind_of_text(text: str) -> str:
    """What a cell of text could be read as."""
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


def kind_of_value(value: Any) -> str | None:
    """What a value is; None for null."""
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
