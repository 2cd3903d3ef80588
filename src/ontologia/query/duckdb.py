"""The DuckDB dialect, and the functions that its connections need.

The physical columns have natural types: TEXT, DATE (ISO), DECIMAL (the ordered key) and JSON (canonical text)
VARCHAR; INT, DATETIME and TIME (microseconds) BIGINT; FLOAT DOUBLE; BOOL BOOLEAN; BYTES BLOB. DuckDB rewrites the
floats and long ints of JSON that it reads, so those go through Python functions with the meaning of `reference`; text
and short ints do not.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from ontologia.model.physical import INT64_MAX
from ontologia.model.spec import Kind
from ontologia.query.functions import icontains, json_length, json_test, length_spec, matches_pattern, test_spec
from ontologia.query.literals import normalise
from ontologia.query.predicates import Op, Ref
from ontologia.query.sql import ALWAYS, NEVER, Figure, Sql

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_NATIVE_KEY = re.compile(r'[^"\\*\x00-\x1f]+')
_SIGNS = {Op.EQ: "=", Op.LT: "<", Op.LE: "<=", Op.GT: ">", Op.GE: ">="}

COLUMN_TYPES = {
    Kind.TEXT: "VARCHAR",
    Kind.INT: "BIGINT",
    Kind.FLOAT: "DOUBLE",
    Kind.BOOL: "BOOLEAN",
    Kind.DECIMAL: "VARCHAR",
    Kind.DATETIME: "BIGINT",
    Kind.DATE: "VARCHAR",
    Kind.TIME: "BIGINT",
    Kind.BYTES: "BLOB",
    Kind.JSON: "VARCHAR",
}
"""The type of the main physical column of each kind."""


def register_functions(connection: DuckDBPyConnection) -> None:
    """Give a connection the Python functions that compiled SQL calls."""
    for name, function, gives in (
        ("onto_icontains", icontains, "BOOLEAN"),
        ("onto_matches", matches_pattern, "BOOLEAN"),
        ("onto_json_length", json_length, "BIGINT"),
        ("onto_json_test", json_test, "BOOLEAN"),
    ):
        # The type stubs want type objects; type names are documented and need no import of DuckDB here.
        types, result = cast("Any", ["VARCHAR", "VARCHAR"]), cast("Any", gives)
        connection.create_function(name, function, types, result, null_handling=cast("Any", "special"))


class DuckdbDialect:
    """DuckDB with its built-in JSON functions."""

    name = "duckdb"
    distinct = "IS DISTINCT FROM"
    max_nesting = 200
    max_params = 30_000

    def text_test(self, subject: Sql, op: Op, literal: str) -> Sql:
        match op:
            case Op.ENDSWITH:
                return Sql("ends_with(") + subject + Sql(", ?)", (literal,))
            case Op.CONTAINS:
                return Sql("contains(") + subject + Sql(", ?)", (literal,))
            case Op.ICONTAINS:
                return Sql("onto_icontains(") + subject + Sql(", ?)", (literal.casefold(),))
            case _:
                return Sql("onto_matches(") + subject + Sql(", ?)", (literal,))

    def length(self, subject: Sql, ref: Ref) -> Sql:
        if ref.kind is not Kind.JSON:
            return Sql("octet_length(" if ref.kind is Kind.BYTES else "length(") + subject + Sql(")")
        measured = Sql("onto_json_length(") + subject + Sql(", ?)", (length_spec(ref),))
        path = None if ref.declared else native_path(ref.path)
        if path is None:
            return measured
        items = Sql("CAST(json_array_length(") + subject + Sql(", ?) AS BIGINT)", (path,))
        kind = Sql("CASE json_type(") + subject + Sql(", ?) WHEN 'ARRAY' THEN ", (path,))
        return kind + items + Sql(" ELSE ") + measured + Sql(" END")

    def json_test(self, subject: Sql, ref: Ref, op: Op, literal: Any) -> Sql:
        python = Sql("onto_json_test(") + subject + Sql(", ?)", (test_spec(ref, op, literal),))
        path = None if ref.declared else native_path(ref.path)
        if ref.each is not None or path is None:
            return python
        kind = Sql("json_type(") + subject + Sql(", ?)", (path,))
        text = Sql("json_extract_string(") + subject + Sql(", ?)", (path,))
        match op:
            case Op.NOT_NULL:
                return kind + Sql(" <> 'NULL'")
            case Op.TRUE | Op.FALSE:
                wanted = "true" if op is Op.TRUE else "false"
                return Sql("(") + kind + Sql(" = 'BOOLEAN' AND ") + text + Sql(" = ?)", (wanted,))
            case Op.EQ | Op.LT | Op.LE | Op.GT | Op.GE if isinstance(literal, str):
                return Sql("(") + kind + Sql(" = 'VARCHAR' AND ") + text + Sql(f" {_SIGNS[op]} ?)", (literal,))
            case Op.IN if literal and all(isinstance(value, str) for value in literal):
                marks = ", ".join("?" * len(literal))
                return Sql("(") + kind + Sql(" = 'VARCHAR' AND ") + text + Sql(f" IN ({marks}))", literal)
            case Op.EQ | Op.LT | Op.LE | Op.GT | Op.GE:
                return _number_test(kind, text, python, op, literal)
            case _:
                return python

    def total(self, subject: Sql, kind: Kind) -> Figure:
        """DuckDB sums 64-bit ints in 128 bits."""
        return Figure((Sql("SUM(") + subject + Sql(")"),), _int_total if kind is Kind.INT else _float_total)


def _int_total(whole: int | None) -> int:
    return whole or 0


def _float_total(whole: float | None) -> float:
    return 0.0 if whole is None else whole


DUCKDB = DuckdbDialect()


def native_path(path: tuple[str, ...]) -> str | None:
    """A JSON path for DuckDB, or None when a key has characters that its paths cannot say."""
    if all(_NATIVE_KEY.fullmatch(key) for key in path):
        return "$" + "".join(f'."{key}"' for key in path)
    return None


def _number_test(kind: Sql, text: Sql, python: Sql, op: Op, literal: float) -> Sql:
    """Ints up to 64 bits by DuckDB; floats and longer ints, which it calls DOUBLE, in Python."""
    test = normalise(Kind.INT, op, literal)
    if test is False:
        whole = NEVER
    elif test[0] is Op.NOT_NULL:
        whole = ALWAYS
    elif abs(test[1]) <= INT64_MAX:
        whole = Sql("TRY_CAST(") + text + Sql(f" AS HUGEINT) {_SIGNS[test[0]]} ?", (test[1],))
    else:
        whole = python
    ints = Sql("CASE WHEN ") + kind + Sql(" IN ('UBIGINT', 'BIGINT') THEN ") + whole
    return ints + Sql(" WHEN ") + kind + Sql(" IN ('DOUBLE', 'OBJECT') THEN ") + python + Sql(" ELSE FALSE END")
