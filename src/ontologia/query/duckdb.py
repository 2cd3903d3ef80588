"""The DuckDB dialect, and the functions that its connections need.

Compared columns have the types of Parquet files: TEXT, DECIMAL (the ordered key) and JSON (canonical text) VARCHAR; INT
and TIME (microseconds) BIGINT; FLOAT DOUBLE; BOOL BOOLEAN; DATETIME TIMESTAMPTZ; DATE DATE; BYTES BLOB. A literal is
brought to the type of its column, never the other way round, so that a scan can skip what a condition rules out. DuckDB
rewrites the floats and long ints of JSON that it reads, so those go through Python functions with the meaning of
`reference`; text and short ints do not.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from ontologia.model.physical import EXACT_KINDS, INT64_MAX, restore
from ontologia.model.spec import Kind
from ontologia.query.functions import icontains, json_length, json_test, length_spec, matches_pattern, test_spec
from ontologia.query.literals import normalise
from ontologia.query.predicates import Op, Ref
from ontologia.query.sql import ALWAYS, NEVER, Figure, NotNative, Pick, Sql, Value, picked

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_NATIVE_KEY = re.compile(r'[^"\\*\x00-\x1f]+')
_SIGNS = {Op.EQ: "=", Op.LT: "<", Op.LE: "<=", Op.GT: ">", Op.GE: ">="}

_LITERALS = {Kind.DATETIME: "make_timestamptz(?)", Kind.DATE: "CAST(? AS DATE)"}
_PLAIN_DECIMAL = r"-?[0-9]{1,18}(\.[0-9]{1,18})?"
"""Decimals of so few digits are summed by DuckDB; the whole part and the fraction each fit in 64 bits."""
_FRACTION = 18


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
    distinct = ""
    """DuckDB 2.0 takes IS DISTINCT FROM, like IS NULL, for true throughout a Parquet page that has bounds and only one
    text beside nulls. Our files have no such pages; other programs' may have, and there this one is easily avoided."""
    max_nesting = 200
    max_params = 30_000
    summed = frozenset({Kind.INT, Kind.FLOAT, Kind.DECIMAL})

    def literal(self, kind: Kind) -> str:
        return _LITERALS.get(kind, "?")

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

    def total(self, value: Value) -> Figure:
        """DuckDB sums 64-bit ints in 128 bits."""
        if value.kind is Kind.DECIMAL:
            return _decimal_total(value)
        return Figure((Sql("SUM(") + value.main + Sql(")"),), _int_total if value.kind is Kind.INT else _float_total)

    def shown(self, value: Value, pick: Pick | None = None) -> Figure:
        back = restore(value.kind)
        if value.kind not in EXACT_KINDS or back is None:
            return Figure((picked(value.main, pick),), _itself)
        exact, rank = _exact(value), value.rank
        # A moment is read as a number: DuckDB would give it in the time zone of the session.
        main = Sql("epoch_us(") + value.main + Sql(")") if value.kind is Kind.DATETIME else value.main
        first = Sql("first({'main': ") + main + Sql(", 'exact': ") + exact + Sql("} ORDER BY ")

        def read(*cells: dict[str, Any] | None) -> Any:
            found = cells[-1]
            return None if found is None else back(found["main"], found["exact"])

        if pick is None:
            return Figure((main, first + rank + Sql(")")), read)
        down = Sql(" DESC, " if pick == "MAX" else ", ")
        present = Sql(") FILTER (WHERE ") + value.main + Sql(" IS NOT NULL)")
        return Figure((first + value.main + down + rank + present,), read)


def _itself(value: Any) -> Any:
    return value


def _exact(value: Value) -> Sql:
    if value.exact is None or not value.rank.text:
        raise NotNative(f"{value.kind} values are given back in Python")
    return value.exact


def _decimal_total(value: Value) -> Figure:
    """The sum of whole parts and of fractions, as far as decimals are plain; one that is not leaves it to Python."""
    text = _exact(value)
    fraction = Sql("split_part(") + text + Sql(", '.', 2)")
    sign = Sql("CASE WHEN starts_with(") + text + Sql(", '-') THEN -1 ELSE 1 END")
    padded = Sql("TRY_CAST(rpad(") + fraction + Sql(f", {_FRACTION}, '0') AS BIGINT)")
    columns = (
        Sql("SUM(TRY_CAST(split_part(") + text + Sql(", '.', 1) AS BIGINT))"),
        Sql("SUM(") + padded + Sql(" * ") + sign + Sql(")"),
        Sql("MAX(length(") + fraction + Sql("))"),
        Sql("COUNT(*) FILTER (WHERE NOT regexp_full_match(") + text + Sql(", ?))", (_PLAIN_DECIMAL,)),
    )
    return Figure(columns, _decimal_from_parts)


def _decimal_from_parts(whole: int | None, fraction: int | None, places: int | None, odd: int) -> Decimal:
    if odd:
        raise NotNative("long decimals are added in Python")
    scale = places or 0
    parts = (whole or 0) * 10**_FRACTION + (fraction or 0)
    sign, digits, _ = Decimal(parts // 10 ** (_FRACTION - scale)).as_tuple()
    return Decimal((sign, digits, -scale))


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
