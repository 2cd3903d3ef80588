"""The SQLite dialect, and the functions that its connections need.

Columns are as in `model.physical`: BOOL 0 or 1, DATETIME and TIME microseconds, DATE ISO text, DECIMAL the ordered key,
JSON canonical text. SQLite's own functions are used where they are exact; they stop at NUL characters, round floats
inside JSON and overflow on long ints, and there a Python function with the meaning of `reference` takes over.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from ontologia.base.canonical import canonical_json
from ontologia.model.physical import INT64_MAX
from ontologia.model.spec import Kind
from ontologia.query.functions import icontains, json_length, json_test, length_spec, matches_pattern, test_spec
from ontologia.query.literals import normalise
from ontologia.query.predicates import Op, Ref
from ontologia.query.sql import NEVER, Sql

if TYPE_CHECKING:
    import sqlite3

_NATIVE_KEY = re.compile(r'[^"\\\x00-\x1f]+')
_INT_TESTS = {Op.LT: "<", Op.LE: "<=", Op.GT: ">", Op.GE: ">="}


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
    """SQLite 3.38 and later."""

    name = "sqlite"
    distinct = "IS NOT"
    max_nesting = 12
    """SQLite's parser has a stack of 100 entries, of which a level of parentheses may take three."""
    max_params = 30_000

    def text_test(self, subject: Sql, op: Op, literal: str) -> Sql:
        match op:
            case Op.ENDSWITH:
                wanted = literal.encode()
                if not wanted:
                    return subject + Sql(" IS NOT NULL")
                # UTF-8 never has one character's bytes inside another's, so bytes may stand for characters.
                return Sql("substr(CAST(") + subject + Sql(" AS BLOB), ?) = ?", (-len(wanted), wanted))
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
        path = native_path(ref.path)
        measured = Sql("onto_json_length(") + subject + Sql(", ?)", (spec,))
        if path is None:
            return measured
        kind = Sql("CASE json_type(") + subject + Sql(", ?) WHEN 'array' THEN json_array_length(", (path,))
        return kind + subject + Sql(", ?) ELSE ", (path,)) + measured + Sql(" END")

    def json_test(self, subject: Sql, ref: Ref, op: Op, literal: Any) -> Sql:
        path = native_path(ref.path)
        if ref.each is None and path is not None:
            native = _native_json_test(subject, path, op, literal)
            if native is not None:
                return native
            if not (op in _INT_TESTS and isinstance(literal, int | float)):
                return _python_test(subject, ref, op, literal)
            return _number_test(subject, path, ref, op, literal)
        return _python_test(subject, ref, op, literal)

    def int_sum(self, subject: Sql) -> tuple[Sql, ...]:
        """High and low halves, because SQLite's own sum stops with an error beyond 64 bits."""
        return Sql("SUM(") + subject + Sql(" >> 32)"), Sql("SUM(") + subject + Sql(" & 4294967295)")

    def read_int_sum(self, *cells: int | None) -> int:
        high, low = cells
        return ((high or 0) << 32) + (low or 0)


SQLITE = SqliteDialect()


def native_path(path: tuple[str, ...]) -> str | None:
    """A JSON path for SQLite, or None when a key has characters that its paths cannot say."""
    if all(_NATIVE_KEY.fullmatch(key) for key in path):
        return "$" + "".join(f'."{key}"' for key in path)
    return None


def _python_test(subject: Sql, ref: Ref, op: Op, literal: Any) -> Sql:
    return Sql("onto_json_test(") + subject + Sql(", ?)", (test_spec(ref, op, literal),))


def _native_json_test(subject: Sql, path: str, op: Op, literal: Any) -> Sql | None:
    """Tests that SQLite does exactly; equality is equality of canonical text."""
    kind = Sql("json_type(") + subject + Sql(", ?)", (path,))
    match op:
        case Op.NOT_NULL:
            return kind + Sql(" <> 'null'")
        case Op.TRUE:
            return kind + Sql(" = 'true'")
        case Op.FALSE:
            return kind + Sql(" = 'false'")
        case Op.EQ | Op.IN:
            values = literal if op is Op.IN else (literal,)
            if any(isinstance(value, float) and math.isinf(value) for value in values):
                return None
            texts = tuple(dict.fromkeys(text for value in values for text in _fragments(value)))
            if not texts:
                return NEVER
            marks = ", ".join("?" * len(texts))
            found = Sql("(") + subject + Sql(" -> ?)", (path,))
            return found + (Sql(" = ?", texts) if len(texts) == 1 else Sql(f" IN ({marks})", texts))
        case _:
            return None


def _fragments(value: Any) -> list[str]:
    """Every canonical JSON text of a value that is equal to this one."""
    if isinstance(value, str | bool):
        return [canonical_json(value)]
    texts: list[str] = []
    for kind in (Kind.INT, Kind.FLOAT):
        test = normalise(kind, Op.EQ, value)
        if test is not False and not (isinstance(test[1], float) and math.isinf(test[1])):
            texts.append(json.dumps(test[1]))
    return [*texts, "-0.0"] if value == 0 else texts


def _number_test(subject: Sql, path: str, ref: Ref, op: Op, literal: float) -> Sql:
    """An ordering of numbers: ints by SQLite, the rest in Python.

    SQLite gives an int beyond 64 bits as a float beside it, which is on the right side of every smaller int.
    """
    python = _python_test(subject, ref, op, literal)
    test = normalise(Kind.INT, op, literal)
    whole = python
    if test is False:
        whole = NEVER
    elif test[0] is Op.NOT_NULL:
        whole = Sql("TRUE")
    elif abs(test[1]) < INT64_MAX:
        sign = _INT_TESTS[test[0]]
        whole = Sql("json_extract(") + subject + Sql(f", ?) {sign} ?", (path, test[1]))
    start = Sql("CASE json_type(") + subject + Sql(", ?) WHEN 'integer' THEN ", (path,)) + whole
    return start + Sql(" WHEN 'real' THEN ") + python + Sql(" WHEN 'object' THEN ") + python + Sql(" ELSE FALSE END")
