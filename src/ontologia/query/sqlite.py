"""The SQLite dialect, and the functions that its connections need.

Columns are as in `model.physical`: BOOL 0 or 1, DATETIME and TIME microseconds, DATE ISO text, DECIMAL the ordered key,
JSON canonical text. SQLite's own functions are used where they are exact; they stop at NUL characters, round floats
inside JSON and overflow on long ints, and there a Python function with the meaning of `reference` takes over.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING, Any

from ontologia.base.canonical import canonical_json
from ontologia.model.physical import INT64_MAX
from ontologia.model.spec import Kind
from ontologia.query.functions import icontains, json_length, json_test, length_spec, matches_pattern, test_spec
from ontologia.query.literals import normalise
from ontologia.query.predicates import Op, Ref
from ontologia.query.sql import ALWAYS, NEVER, Figure, NotNative, Pick, Sql, Value, picked, starts_with

if TYPE_CHECKING:
    import sqlite3

_SAFE_SIZE = 1e290
"""Floats below this are read by SQLite up to an error in the last digits; above, they may come out infinite."""
_NATIVE_KEY = re.compile(r'[^"\\\x00-\x1f]+')
_ORDERINGS = {Op.LT: "<", Op.LE: "<=", Op.GT: ">", Op.GE: ">="}


def register_functions(connection: sqlite3.Connection) -> None:
    """Give a connection the Python functions that compiled SQL calls."""
    connection.create_function("onto_icontains", 2, icontains, deterministic=True)
    connection.create_function("onto_matches", 2, matches_pattern, deterministic=True)
    connection.create_function("onto_length", 1, len_or_none, deterministic=True)
    connection.create_function("onto_json_length", 2, json_length, deterministic=True)
    connection.create_function("onto_json_test", 2, json_test, deterministic=True)


def len_or_none(value: str | None) -> int | None:
    """The characters of a text; SQLite's own `length` stops at NUL."""
    return None if value is None else len(value)


class SqliteDialect:
    """SQLite 3.38 and later. With `quick_sums` ints are summed in 64 bits, which SQLite refuses to overflow."""

    name = "sqlite"
    distinct = "IS NOT"
    max_nesting = 12
    """SQLite's parser has a stack of 100 entries, of which a level of parentheses may take three."""
    max_params = 30_000
    summed = frozenset({Kind.INT, Kind.FLOAT})

    def __init__(self, *, quick_sums: bool = False) -> None:
        self.quick_sums = quick_sums

    def literal(self, kind: Kind) -> str:  # noqa: ARG002 - every column holds the comparable form itself
        return "?"

    def text_test(self, subject: Sql, op: Op, literal: str) -> Sql:
        match op:
            case Op.ENDSWITH:
                wanted = literal.encode()
                if not wanted:
                    return subject + Sql(" IS NOT NULL")
                # UTF-8 never has one character's bytes inside another's, so bytes may stand for characters.
                # The end of an empty text would be NULL, which is neither true nor false.
                tail = Sql("substr(CAST(") + subject + Sql(" AS BLOB), ?) = ?", (-len(wanted), wanted))
                return Sql("(") + subject + Sql(" <> '' AND ") + tail + Sql(")")
            case Op.CONTAINS:
                return Sql("instr(") + subject + Sql(", ?) > 0", (literal,))
            case Op.ICONTAINS:
                return Sql("onto_icontains(") + subject + Sql(", ?)", (literal.casefold(),))
            case _:
                return Sql("onto_matches(") + subject + Sql(", ?)", (literal,))

    def length(self, subject: Sql, ref: Ref) -> Sql:
        if ref.kind is Kind.BYTES:
            return Sql("length(") + subject + Sql(")")
        if ref.kind is Kind.TEXT:
            whole = Sql("onto_length(") + subject + Sql(") ELSE length(") + subject + Sql(") END")
            return Sql("CASE WHEN instr(") + subject + Sql(", char(0)) THEN ") + whole
        spec = length_spec(ref)
        path = None if ref.declared else native_path(ref.path)
        measured = Sql("onto_json_length(") + subject + Sql(", ?)", (spec,))
        if path is None:
            return measured
        kind = Sql("CASE json_type(") + subject + Sql(", ?) WHEN 'array' THEN json_array_length(", (path,))
        return kind + subject + Sql(", ?) ELSE ", (path,)) + measured + Sql(" END")

    def json_test(self, subject: Sql, ref: Ref, op: Op, literal: Any) -> Sql:
        path = None if ref.declared else native_path(ref.path)
        if path is None:
            return Sql("onto_json_test(") + subject + Sql(", ?)", (test_spec(ref, op, literal),))
        # Python is given only the part that it tests, because reading the rest is most of the work.
        part = Ref("self", ref.field, ref.kind, (), ref.each, ref.length)
        python = Sql("onto_json_test(") + subject + Sql(" -> ?, ?)", (path, test_spec(part, op, literal)))
        place = _Place(subject, path, python)
        if ref.each is not None:
            return place.some_item(ref.each, op, literal) if not ref.length else python
        match op:
            case Op.NOT_NULL:
                return place.kind + Sql(" <> 'null'")
            case Op.TRUE:
                return place.kind + Sql(" = 'true'")
            case Op.FALSE:
                return place.kind + Sql(" = 'false'")
            case Op.EQ | Op.IN:
                return place.equal(literal if op is Op.IN else (literal,))
            case Op.LT | Op.LE | Op.GT | Op.GE if not isinstance(literal, str):
                return place.ordered_number(op, literal)
            case Op.LT | Op.LE | Op.GT | Op.GE:
                return place.text(place.value + Sql(f" {_ORDERINGS[op]} ?", (literal,)))
            case Op.STARTSWITH:
                return place.text(starts_with(place.value, literal))
            case Op.ENDSWITH | Op.CONTAINS | Op.ICONTAINS | Op.MATCHES:
                return place.text(self.text_test(place.value, op, literal))
            case _:
                return python

    def total(self, value: Value) -> Figure:
        """Ints in high and low halves, because SQLite's own sum stops with an error beyond 64 bits."""
        subject = value.main
        if value.kind is Kind.FLOAT:
            # NULL is how SQLite says that it is not a number; of nothing, TOTAL is 0.0.
            return Figure((Sql("TOTAL(") + subject + Sql(")"),), _or_nan)
        if self.quick_sums:
            return Figure((Sql("SUM(") + subject + Sql(")"),), _or_zero)
        halves = Sql("SUM(") + subject + Sql(" >> 32)"), Sql("SUM(") + subject + Sql(" & 4294967295)")
        return Figure(halves, _from_halves)

    def shown(self, value: Value, pick: Pick | None = None) -> Figure:
        read = _SHOWN.get(value.kind)
        if read is None:
            raise NotNative(f"{value.kind} values are given back in Python")
        return Figure((picked(value.main, pick),), read)


_SHOWN: dict[Kind, Callable[[Any], Any]] = {
    Kind.TEXT: lambda value: value,
    Kind.INT: lambda value: value,
    Kind.FLOAT: lambda value: value,
    Kind.BOOL: lambda value: None if value is None else bool(value),
    Kind.DATE: lambda value: None if value is None else date.fromisoformat(value),
}
"""Kinds whose column gives the value back, and how."""


def _or_nan(whole: float | None) -> float:
    return math.nan if whole is None else whole


def _or_zero(whole: int | None) -> int:
    return whole or 0


def _from_halves(high: int | None, low: int | None) -> int:
    return ((high or 0) << 32) + (low or 0)


SQLITE = SqliteDialect()
SQLITE_QUICK = SqliteDialect(quick_sums=True)
"""Twice as fast at sums of ints; `integer overflow` from SQLite means: ask again with `SQLITE`."""


def native_path(path: tuple[str, ...]) -> str | None:
    """A JSON path for SQLite, or None when a key has characters that its paths cannot say."""
    if all(_NATIVE_KEY.fullmatch(key) for key in path):
        return "$" + "".join(f'."{key}"' for key in path)
    return None


class _Place:
    """A place inside a JSON column that SQLite has a path for."""

    def __init__(self, subject: Sql, path: str, python: Sql) -> None:
        self.subject = subject
        self.path = path
        self.python = python
        self.kind = Sql("json_type(") + subject + Sql(", ?)", (path,))
        self.value = Sql("json_extract(") + subject + Sql(", ?)", (path,))

    def equal(self, values: tuple[Any, ...]) -> Sql:
        """Equality is equality of canonical text, and SQLite gives parts of a text back unchanged."""
        texts = _fragments(values)
        if texts is None:
            return self.python
        return Sql("(") + self.subject + Sql(" -> ?)", (self.path,)) + _one_of(texts) if texts else NEVER

    def text(self, test: Sql) -> Sql:
        """A test of text. SQLite cuts text off at an escaped NUL, so where there might be one, Python tests."""
        start = Sql("CASE ") + self.kind + Sql(" WHEN 'text' THEN CASE WHEN ") + self._has_nul() + Sql(" THEN ")
        return start + self.python + Sql(" ELSE ") + test + Sql(" END ELSE FALSE END")

    def ordered_number(self, op: Op, literal: float) -> Sql:
        """An ordering of numbers: ints by SQLite, floats too unless they are close to the literal.

        SQLite gives an int beyond 64 bits as a float beside it, which is on the right side of every smaller int.
        """
        test = normalise(Kind.INT, op, literal)
        whole = self.python
        if test is False:
            whole = NEVER
        elif test[0] is Op.NOT_NULL:
            whole = ALWAYS
        elif abs(test[1]) < INT64_MAX:
            whole = self.value + Sql(f" {_ORDERINGS[test[0]]} ?", (test[1],))
        start = Sql("CASE ") + self.kind + Sql(" WHEN 'integer' THEN ") + whole + Sql(" WHEN 'real' THEN ")
        floats = self._ordered_float(op, literal)
        return start + floats + Sql(" WHEN 'object' THEN ") + self.python + Sql(" ELSE FALSE END")

    def _ordered_float(self, op: Op, literal: float) -> Sql:
        """SQLite reads a float with an error in the last digits, so near the literal Python decides."""
        if not abs(literal) < _SAFE_SIZE:
            return self.python
        near = float(literal)
        far = Sql("abs(") + self.value + Sql(" - ?) > ? THEN ", (near, abs(near) * 1e-9 + 1e-290))
        native = self.value + Sql(f" {_ORDERINGS[op]} ?", (near,))
        start = Sql("CASE WHEN abs(") + self.value + Sql(") < ? AND ", (_SAFE_SIZE,)) + far
        return start + native + Sql(" ELSE ") + self.python + Sql(" END")

    def some_item(self, keys: tuple[str, ...], op: Op, literal: Any) -> Sql:
        """Whether some item of the list here passes; equality by SQLite, the rest in Python."""
        inner = native_path(keys)
        values = literal if op is Op.IN else (literal,)
        texts = _fragments(values) if op in (Op.EQ, Op.IN) and inner is not None else None
        if not texts:
            return self.python
        items = Sql("EXISTS (SELECT 1 FROM json_each(") + self.subject + Sql(", ?) AS item WHERE ", (self.path,))
        if keys:
            found = Sql("item.type = 'object' AND (item.value -> ?)", (inner,)) + _one_of(texts)
            return Sql("(") + self.kind + Sql(" = 'array' AND ") + items + found + Sql("))")
        if not all(isinstance(value, str) for value in values):
            return self.python
        found = items + Sql("item.type = 'text' AND item.value") + _one_of(tuple(values)) + Sql(")")
        start = Sql("CASE WHEN ") + self.kind + Sql(" <> 'array' THEN FALSE WHEN ") + self._has_nul() + Sql(" THEN ")
        return start + self.python + Sql(" ELSE ") + found + Sql(" END")

    def _has_nul(self) -> Sql:
        return Sql("instr(") + self.subject + Sql(", '\\u0000')")


def _one_of(values: tuple[Any, ...]) -> Sql:
    return Sql(" = ?", values) if len(values) == 1 else Sql(f" IN ({', '.join('?' * len(values))})", values)


def _fragments(values: tuple[Any, ...]) -> tuple[str, ...] | None:
    """Every canonical JSON text of a value equal to one of these; None when one is infinite, which JSON cannot say."""
    texts: dict[str, None] = {}
    for value in values:
        if isinstance(value, str | bool):
            texts.setdefault(canonical_json(value))
            continue
        if math.isinf(value) if isinstance(value, float) else False:
            return None
        for kind in (Kind.INT, Kind.FLOAT):
            test = normalise(kind, Op.EQ, value)
            if test is not False:
                texts.setdefault(json.dumps(test[1]))
        if value == 0:
            texts.setdefault("-0.0")
    return tuple(texts)
