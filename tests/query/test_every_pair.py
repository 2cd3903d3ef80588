"""Each kind's tricky values against each tricky literal by each test: nothing here is left to chance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from query.engines import Engine, Row, duckdb_engine, sqlite_engine

from ontologia.base.canonical import canonical_json
from ontologia.model.spec import Kind
from ontologia.query import reference
from ontologia.query.expr import FieldExpr, Predicate, field_expression
from ontologia.query.sql import NotNative
from ontologia.testing.strategies import WIDE

EAST = timezone(timedelta(hours=5, minutes=30))
TEXTS = [
    "",
    "a",
    "A",
    "ab",
    "b",
    "a\0",
    "a\0b",
    "\0",
    "é",
    "ß",
    "SS",
    "😀",
    "\ud7ff",
    "\ue000",
    "\U0010ffff",
    "5",
    "\n",
    '"',
]
INTS = [0, 1, -1, 5, 2**53, 2**53 + 1, 2**63 - 2, 2**63 - 1, -(2**63) + 1]
BIG_INTS = [*INTS, 2**63, -(2**63), 2**64, 10**30, -(10**30)]
FLOATS = [0.0, 1.0, 5.0, 0.5, -0.5, 0.1, 2.0**53, 2.0**63, 1e16, 1e30, 5e-324, 1e-310, 1.7976931348623157e308, -1e300]
NUMBERS = [*BIG_INTS, *FLOATS, math.inf, -math.inf, Decimal("0.1"), Decimal("2.5"), Decimal("1e400"), Decimal("-0.5")]
JSON = [None, True, False, *BIG_INTS, *FLOATS, -0.0, *TEXTS, "true", "null", [], ["a"], {}, {"a": 1}]
INFINITE = [{"$type": "float", "$value": "inf"}, {"$type": "float", "$value": "-inf"}]
KEYS = ["a", "a.b", "é", "$", "[0]", "#", 'q"', "\\", "\x01", "*", ""]

VALUES: dict[Kind, list[Any]] = {
    Kind.TEXT: TEXTS,
    Kind.INT: BIG_INTS,
    Kind.FLOAT: [*FLOATS, math.inf, -math.inf],
    Kind.BOOL: [True, False],
    Kind.DECIMAL: [
        Decimal(text) for text in ("0", "1.00", "-1", "0.1", "-0.5", "2.5", "1e400", "-1e-400", "9007199254740993")
    ],
    Kind.DATETIME: [datetime(2024, 1, 1, 12, tzinfo=zone) for zone in (UTC, EAST, None)],
    Kind.DATE: [date(1, 1, 1), date(2024, 2, 29), date(9999, 12, 31)],
    Kind.TIME: [time(12), time(12, tzinfo=EAST), time(6, 30), time(23, 59, 59, 999999)],
    Kind.BYTES: [b"", b"\0", b"a", b"a\0", b"\xff"],
}


@pytest.fixture(scope="module", params=[sqlite_engine, duckdb_engine], ids=["sqlite", "duckdb"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with request.param() as opened:
        yield opened


def rows_with(name: str, values: list[Any]) -> list[Row]:
    plain: Row = {field.name: None for field in WIDE.fields}
    plain |= {"text": "", "int": 0, "float": 0.0, "bool": True, "bytes": b"", "json": "{}", "events": "[]"}
    return [plain | {"id": str(number), name: value} for number, value in enumerate(values)]


def conditions(place: FieldExpr[Any], literals: list[Any]) -> Iterator[Predicate]:
    kind = place.ref.value_kind
    yield from (place.is_null(), place.is_not_null())
    if kind in (Kind.BOOL, Kind.JSON):
        yield from (place.is_true(), place.is_false(), place.in_([True]), place.not_in([False]))
    for literal in literals if kind is not Kind.BOOL else []:
        yield from (place == literal, place != literal, place < literal, place <= literal)
        yield from (place > literal, place >= literal, place.in_([literal]), place.not_in([literal, literals[0]]))
        yield from (place.between(literals[1], literal), ~place.between(literal, literals[2]))
        if kind in (Kind.TEXT, Kind.JSON) and isinstance(literal, str):
            yield from (place.startswith(literal), place.endswith(literal), ~place.contains(literal))
            yield from (place.icontains(literal), ~place.startswith(literal))
    if kind in (Kind.TEXT, Kind.JSON):
        yield from (place.matches(pattern) for pattern in ("^a", "(?i)ss", ".", "^$"))


def agree(engine: Engine, rows: list[Row], asked: Iterator[Predicate]) -> int:
    """How many of the conditions the engine answered, and all of them as the reference does."""
    engine.load(rows)
    answered = 0
    for predicate in asked:
        try:
            found = engine.filter(predicate)
        except NotNative:
            continue
        answered += 1
        expected = [number for number, row in enumerate(rows) if reference.matches(predicate, row)]
        assert found == expected, (predicate, engine.condition(predicate))
    return answered


@pytest.mark.parametrize("kind", sorted(VALUES))
def test_every_value_and_literal_of_a_typed_field(engine: Engine, kind: Kind) -> None:
    place = field_expression(WIDE, WIDE.by_name[f"{kind}_or_null"])
    numeric = kind in (Kind.INT, Kind.FLOAT, Kind.DECIMAL)
    literals = NUMBERS if numeric else VALUES[kind]
    rows = rows_with(f"{kind}_or_null", [None, *VALUES[kind]])
    asked = list(conditions(place, literals))
    answered = agree(engine, rows, iter(asked))
    # Only literals on or beyond the bounds of clamped ints are left to Python.
    assert answered == len(asked) or (kind is Kind.INT and answered > len(asked) / 3)


def test_every_value_and_literal_inside_json(engine: Engine) -> None:
    place = field_expression(WIDE, WIDE.by_name["json"])["a"]
    rows = rows_with("json", [canonical_json({"a": value}) for value in [*JSON, *INFINITE]] + ["{}", "[]", '"a"', "5"])
    literals = ["a", *TEXTS, *BIG_INTS, *FLOATS, math.inf, -math.inf]
    asked = list(conditions(place, literals))
    assert agree(engine, rows, iter(asked)) == len(asked)


def test_every_value_and_literal_among_the_items_of_a_list(engine: Engine) -> None:
    field = field_expression(WIDE, WIDE.by_name["json"])
    values = [[value] for value in [*JSON, *INFINITE]] + [[{"k": value}] for value in [*JSON, *INFINITE]]
    others: list[Any] = [{"k": "a"}, "a", 5, [["a"]], ["a\0", "a"], [{"k": "b"}, {"k": "a"}], ['{"k":"a"}']]
    rows = rows_with("json", [canonical_json(value) for value in [*values, *others]])
    for place in (field.any_path(), field.any_path("k"), field.any_path("k").len_()):
        literals: list[Any] = (
            [0, 1, 2, Decimal("0.5")] if place.ref.length else ["a", "", "a\0", "5", 5, 0.5, 10**30, math.inf]
        )
        asked = list(conditions(place, literals))
        assert agree(engine, rows, iter(asked)) == len(asked)


def test_every_key_leads_to_its_value(engine: Engine) -> None:
    field = field_expression(WIDE, WIDE.by_name["json"])
    rows = rows_with("json", [canonical_json({key: {key: "x"}}) for key in KEYS])
    for key in KEYS:
        assert agree(engine, rows, conditions(field[key][key], ["a", "x", "y", 3])) > 20
        assert agree(engine, rows, conditions(field[key].len_(), [0, 1, 2])) > 20


def test_every_length_of_text_bytes_and_json(engine: Engine) -> None:
    for name, values in (
        ("text", TEXTS),
        ("bytes", VALUES[Kind.BYTES]),
        ("json", [canonical_json(v) for v in JSON[1:]]),
    ):
        place = field_expression(WIDE, WIDE.by_name[name]).len_()
        asked = list(conditions(place, [0, 1, 2, 3, 2.5, -1, 2**70]))
        assert agree(engine, rows_with(name, values), iter(asked)) == len(asked)
