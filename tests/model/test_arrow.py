"""Arrow out and in: natural types, nothing lost, and the first bad row named."""

from __future__ import annotations

import itertools
import json
import sqlite3
import time as clock
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any
from uuid import UUID

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model.storable_types import datetimes, decimals, floats, integers, json_values, texts
from pydantic import BaseModel
from pydantic import Field as Constraint

from ontologia.errors import InputError, RowError
from ontologia.model.arrow import (
    arrow_schema,
    physical_arrays,
    physical_from_dicts,
    table_from_any,
    to_arrow_table,
)
from ontologia.model.declare import Entity, Relation
from ontologia.model.fields import Field
from ontologia.model.physical import layout
from ontologia.model.rows import encoder


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    street: str
    since: date | None = None


class Thing(Entity):
    id: Field[str] = Field(primary_key=True)
    text: Field[str | None] = Field(default=None)
    number: Field[int | None] = Field(default=None)
    amount: Field[float | None] = Field(default=None)
    flag: Field[bool | None] = Field(default=None)
    price: Field[Decimal | None] = Field(default=None)
    moment: Field[datetime | None] = Field(default=None)
    day: Field[date | None] = Field(default=None)
    clock: Field[time | None] = Field(default=None)
    blob: Field[bytes | None] = Field(default=None)
    color: Field[Color | None] = Field(default=None)
    code: Field[UUID | None] = Field(default=None)
    tags: Field[list[str] | None] = Field(default=None)
    address: Field[Address | None] = Field(default=None)
    anything: Field[Any] = Field(default=None)


class Order(Entity):
    id: Field[int] = Field(primary_key=True)
    country: Field[str] = Field(default="DE")
    seats: Field[Annotated[int, Constraint(ge=1)]] = Field(default=1)
    labels: Field[list[str]] = Field(default_factory=list)


class Uses(Relation[Thing, Order]):
    seats: Field[int] = Field(default=1)


class Holds(Relation[Order, Order]):
    stint: Field[str] = Field(instance_key=True)


def rows_of(cls: type[Any], table: pa.Table) -> list[tuple[Any, ...]]:
    arrays = physical_arrays(cls, table)
    assert len(arrays) == len(layout(cls.__spec__).columns)
    return list(zip(*(array.to_pylist() for array in arrays), strict=True))


def columns_of(values: list[Any]) -> list[tuple[Any, ...]]:
    encode = encoder(type(values[0]))
    return list(zip(*map(encode, values), strict=True))


def failure(cls: type[Any], data: Any, first_row: int = 0) -> RowError:
    table = data if isinstance(data, pa.Table) else pa.table(data)
    with pytest.raises(RowError) as error:
        physical_arrays(cls, table, first_row)
    return error.value


def test_the_analytic_schema_has_natural_types_and_null_flags():
    schema = arrow_schema(Thing.__spec__)
    types = {field.name: str(field.type) for field in schema}
    assert types == {
        "id": "string",
        "text": "string",
        "number": "int64",
        "amount": "double",
        "flag": "bool",
        "price": "string",
        "moment": "timestamp[us, tz=UTC]",
        "day": "date32[day]",
        "clock": "time64[us]",
        "blob": "binary",
        "color": "string",
        "code": "string",
        "tags": "string",
        "address": "string",
        "anything": "string",
    }
    assert [field.name for field in schema if not field.nullable] == ["id"]
    assert arrow_schema(Uses.__spec__).names == ["left_key", "right_key", "seats"]


def test_physical_columns_become_a_table_with_the_values_people_expect():
    full = Thing(
        id="a",
        text="é",
        number=3,
        amount=0.5,
        flag=True,
        price=Decimal("1.50"),
        moment=datetime(2024, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
        day=date(2024, 1, 2),
        clock=time(1, 0, 0, 5, tzinfo=timezone(timedelta(hours=2))),
        blob=b"\xff",
        color=Color.RED,
        code=UUID(int=5),
        tags=["x"],
        address=Address(street="A"),
        anything={"a": 1},
    )
    table = to_arrow_table(Thing.__spec__, columns_of([full, Thing(id="b")]))
    assert table.schema.equals(arrow_schema(Thing.__spec__), check_metadata=True)
    assert table.to_pylist() == [
        {
            "id": "a",
            "text": "é",
            "number": 3,
            "amount": 0.5,
            "flag": True,
            "price": "1.50",
            "moment": datetime(2024, 1, 1, tzinfo=UTC),
            "day": date(2024, 1, 2),
            "clock": time(23, 0, 0, 5),
            "blob": b"\xff",
            "color": "red",
            "code": str(UUID(int=5)),
            "tags": '["x"]',
            "address": '{"since":null,"street":"A"}',
            "anything": '{"a":1}',
        },
        {**dict.fromkeys(table.column_names), "id": "b"},
    ]
    assert to_arrow_table(Thing.__spec__, None).num_rows == 0
    uses = to_arrow_table(Uses.__spec__, columns_of([Uses(left_key="a", right_key=7, seats=2)]))
    assert uses.to_pylist() == [{"left_key": "a", "right_key": "7", "seats": 2}]


def test_integers_beyond_64_bits_are_whole_in_the_table():
    wide = to_arrow_table(Thing.__spec__, columns_of([Thing(id="a", number=2**70), Thing(id="b", number=1)]))
    assert wide.column("number").to_pylist() == [Decimal(2**70), Decimal(1)]
    wider = to_arrow_table(Thing.__spec__, columns_of([Thing(id="a", number=-(10**80)), Thing(id="b")]))
    assert wider.column("number").to_pylist() == [str(-(10**80)), None]


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "text": texts,
                "number": integers,
                "amount": floats,
                "flag": st.booleans(),
                "price": decimals,
                "moment": datetimes,
                "day": st.dates(),
                "clock": st.times(),
                "blob": st.binary(max_size=5),
                "color": st.sampled_from(Color),
                "code": st.uuids(),
                "tags": st.lists(texts, max_size=3),
                "anything": json_values,
            }
        ),
        min_size=1,
        max_size=4,
    )
)
def test_dicts_give_the_rows_that_objects_would(rows: list[dict[str, Any]]):
    given_rows = [{"id": f"k{number}", **row} for number, row in enumerate(rows)]
    expected = [encoder(Thing)(Thing.model_validate(row)) for row in given_rows]
    assert physical_from_dicts(Thing, given_rows) == expected
    assert physical_from_dicts(Thing, iter(given_rows)) == expected


ARROW_FORMS: dict[str, tuple[list[pa.DataType], st.SearchStrategy[Any]]] = {
    "text": ([pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())], texts),
    "number": ([pa.int64(), pa.int8(), pa.uint64(), pa.float64()], st.integers(-100, 100)),
    "amount": ([pa.float64(), pa.int32()], st.integers(-100, 100)),
    "flag": ([pa.bool_()], st.booleans()),
    "price": (
        [pa.decimal128(20, 4), pa.decimal256(50, 4)],
        st.integers(-(10**8), 10**8).map(lambda n: Decimal(n) / 10**4),
    ),
    "moment": (
        [
            pa.timestamp("us"),
            pa.timestamp("us", "UTC"),
            pa.timestamp("us", "+02:00"),
            pa.timestamp("us", "Europe/Berlin"),
        ],
        st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),  # noqa: DTZ001 - Arrow adds the zone
    ),
    "day": ([pa.date32(), pa.date64()], st.dates()),
    "clock": ([pa.time64("us"), pa.time64("ns")], st.times()),
    "blob": ([pa.binary(), pa.large_binary(), pa.binary_view()], st.binary(max_size=5)),
    "color": ([pa.string(), pa.dictionary(pa.int32(), pa.string())], st.sampled_from(["red", "blue"])),
    "code": ([pa.string(), pa.binary(16)], st.uuids()),
    "tags": ([pa.list_(pa.string()), pa.large_list(pa.string())], st.lists(texts, max_size=3)),
    "address": ([pa.struct([("street", pa.string())])], st.fixed_dictionaries({"street": texts})),
}


@given(st.sampled_from(sorted(ARROW_FORMS)), st.data())
@settings(max_examples=150)
def test_every_arrow_form_of_a_column_gives_the_rows_that_objects_would(name: str, data: st.DataObject):
    forms, values = ARROW_FORMS[name]
    form = data.draw(st.sampled_from(forms))
    if name == "number" and pa.types.is_unsigned_integer(form):
        values = st.integers(0, 2**64 - 1)
    column: list[Any] = data.draw(st.lists(st.none() | values, max_size=6))
    raw = column
    if name == "code":
        raw = [None if v is None else (v.bytes if form == pa.binary(16) else str(v)) for v in column]
    array = pa.array(raw, form.value_type).dictionary_encode() if pa.types.is_dictionary(form) else pa.array(raw, form)
    ids = [f"k{number}" for number in range(len(column))]
    seen = array.to_pylist()
    if name == "clock":
        seen = column
    expected = [
        encoder(Thing)(Thing.model_validate({"id": key, name: value})) for key, value in zip(ids, seen, strict=True)
    ]
    half = len(column) // 2
    table = pa.table(
        {"id": pa.array(ids, pa.string()), name: pa.chunked_array([array[:half], array[half:]], array.type)}
    )
    assert rows_of(Thing, table) == expected


def test_microseconds_are_written_only_where_there_are_any():
    moments = [datetime(1969, 12, 31, 23, 59, 59, fraction) for fraction in (0, 5, 0, 500_000)]  # noqa: DTZ001 - naive
    ids = ["a", "b", "c", "d"]
    table = pa.table({"id": ids, "moment": moments, "clock": [moment.time() for moment in moments]})
    expected = [Thing(id=key, moment=m, clock=m.time()) for key, m in zip(ids, moments, strict=True)]
    assert rows_of(Thing, table) == [encoder(Thing)(value) for value in expected]


def test_a_column_of_nulls_fits_every_nullable_field():
    names = [field.name for field in Thing.__spec__.fields if field.nullable]
    table = pa.table({"id": ["a"], **{name: pa.nulls(1) for name in names}})
    assert rows_of(Thing, table) == [encoder(Thing)(Thing(id="a"))]
    assert rows_of(Thing, pa.table({"id": pa.array([], pa.string())})) == []


def test_keys_and_defaults_of_every_sort():
    assert rows_of(Order, pa.table({"id": [1, 2]})) == [encoder(Order)(Order(id=number)) for number in (1, 2)]
    uses = pa.table({"left_key": ["a"], "right_key": [7]})
    assert rows_of(Uses, uses) == [encoder(Uses)(Uses(left_key="a", right_key=7))]
    holds = pa.table({"left_key": [1], "right_key": ["2"], "stint": ["s"]})
    assert rows_of(Holds, holds) == [encoder(Holds)(Holds(left_key=1, right_key=2, stint="s"))]


def test_a_default_made_by_a_factory_is_made_for_every_row():
    numbers = itertools.count()

    class Stamped(Entity):
        id: Field[str] = Field(primary_key=True)
        serial: Field[int] = Field(default_factory=lambda: next(numbers))

    assert [row[1] for row in rows_of(Stamped, pa.table({"id": ["a", "b", "c"]}))] == [0, 1, 2]


def test_wide_integers_from_arrow_survive():
    numbers = [5, 2**64 - 1, None, 2**64 - 1, 2**63]
    keys = ["a", "b", "c", "d", "e"]
    table = pa.table({"id": keys, "number": pa.array(numbers, pa.uint64())})
    expected = [Thing(id=key, number=number) for key, number in zip(keys, numbers, strict=True)]
    assert rows_of(Thing, table) == [encoder(Thing)(value) for value in expected]
    lowest = pa.table({"id": ["a"], "number": pa.array([-(2**63)], pa.int64())})
    assert rows_of(Thing, lowest) == [encoder(Thing)(Thing(id="a", number=-(2**63)))]


def test_json_fields_take_nested_arrow_and_json_text():
    struct = pa.table({"id": ["a"], "address": [{"street": "A", "since": date(2024, 1, 1)}], "tags": ['["x"]']})
    expected = Thing(id="a", address=Address(street="A", since=date(2024, 1, 1)), tags=["x"])
    assert rows_of(Thing, struct) == [encoder(Thing)(expected)]
    mapped = pa.table({"id": ["a"], "anything": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))})
    assert rows_of(Thing, mapped) == [encoder(Thing)(Thing(id="a", anything={"k": 1}))]
    text = pa.table({"id": ["a"], "anything": ['{"k":1}']})
    assert rows_of(Thing, text) == [encoder(Thing)(Thing(id="a", anything='{"k":1}'))]


def test_an_exported_table_can_be_given_back():
    values = [
        Thing(id="a", tags=["x"], address=Address(street="A", since=date(2024, 1, 1)), anything={"k": [1]}),
        Thing(id="b", anything="text", price=Decimal("1.50"), color=Color.BLUE, code=UUID(int=3), flag=False),
    ]
    table = to_arrow_table(Thing.__spec__, columns_of(values))
    assert rows_of(Thing, table) == [encoder(Thing)(value) for value in values]


@pytest.mark.parametrize(
    ("columns", "row", "column", "value", "problem"),
    [
        ({"id": ["a", None]}, 1, "id", None, "a value is needed"),
        ({"id": ["a", ""]}, 1, "id", "''", "a key must not be empty"),
        ({"id": [1, 2]}, 0, "id", "1", "string"),
        ({"id": ["a", "b"], "amount": [1.0, float("nan")]}, 1, "amount", "nan", "nan cannot be stored"),
        ({"id": ["a", "b"], "number": [1.0, 1.5]}, 1, "number", "1.5", "integer"),
        ({"id": ["a", "b", "c"], "number": ["1", "x", "y"]}, 1, "number", "'x'", "integer"),
        ({"id": ["a", "b"], "color": ["red", "green"]}, 1, "color", "'green'", "'red' or 'blue'"),
        (
            {"id": ["a", "b"], "tags": [["x"], None], "address": [{"street": "A"}, {"road": "B"}]},
            1,
            "address",
            None,
            "valid string",
        ),
        ({"id": ["a", "b"], "tags": ['["x"]', "nonsense"]}, 1, "tags", "'nonsense'", "list"),
        ({"id": ["a"], "moment": pa.array([1_001], pa.timestamp("ns"))}, 0, "moment", "1001", "microseconds"),
        ({"id": ["a"], "clock": pa.array([1_001], pa.time64("ns"))}, 0, "clock", "1001", "microseconds"),
        ({"id": ["a"], "moment": pa.array([10**13], pa.timestamp("s"))}, 0, "moment", None, "year"),
        (
            {"id": ["a"], "moment": pa.array([253402300799], pa.timestamp("s", "+02:00"))},
            0,
            "moment",
            None,
            "Python cannot",
        ),
        (
            {"id": ["a"], "moment": pa.array([1_001], pa.timestamp("ns", "Europe/Berlin"))},
            0,
            "moment",
            "1001",
            "round it",
        ),
        ({"id": ["a"], "day": pa.array([10**8], pa.date32())}, 0, "day", "100000000", "year"),
    ],
)
def test_the_first_bad_row_is_named(columns: dict[str, Any], row: int, column: str, value: str | None, problem: str):
    error = failure(Thing, columns, first_row=100)
    assert (error.row, error.column) == (100 + row, column)
    assert problem in str(error)
    assert f"Row {100 + row}, {column}: " in str(error)
    if value is not None:
        assert error.value == value


def test_of_several_bad_columns_the_first_row_wins():
    error = failure(Thing, {"id": ["a", "b", ""], "amount": [0.0, float("nan"), 1.0]})
    assert (error.row, error.column) == (1, "amount")


def test_constraints_and_instance_keys_are_checked_in_bulk():
    assert failure(Order, {"id": [1, 2, 3], "seats": [1, 0, 0]}).row == 1
    blank = {"left_key": [1, 1], "right_key": [2, 2], "stint": ["a", " "]}
    assert "blank" in str(failure(Holds, blank))


def test_long_values_are_shortened_in_messages():
    error = failure(Order, {"id": ["x" * 500]})
    assert len(str(error.value)) <= 60


def test_unknown_missing_and_double_columns_are_errors_that_list_the_known_ones():
    unknown = failure(Order, {"id": [1], "sets": [1]})
    assert "Order has no field 'sets'; its fields are id, country, seats, labels" in str(unknown)
    missing = failure(Uses, {"left_key": ["a"]})
    assert (missing.column, "has no default" in str(missing)) == ("right_key", True)
    double = pa.table([pa.array([1]), pa.array([1])], names=["id", "id"])
    assert "twice" in str(failure(Order, double))


@pytest.mark.parametrize(
    ("row", "column", "value", "problem"),
    [
        ({"id": "x"}, "id", "'x'", "integer"),
        ({"id": 1, "sets": 2}, "sets", "2", "unknown field; the fields are id, country"),
        ({"seats": 2}, "id", None, "required"),
        ({"id": 1, "seats": 0}, "seats", "0", "greater than or equal"),
        (Order(id=1), None, "Order(id=1", "not a dict"),
    ],
)
def test_the_first_bad_dict_is_named(row: Any, column: str | None, value: str | None, problem: str):
    with pytest.raises(RowError) as error:
        physical_from_dicts(Order, [{"id": 1}, row], first_row=10)
    assert (error.value.row, error.value.column) == (11, column)
    assert problem in str(error.value)
    assert (error.value.value or "").startswith(value or "")


FRAME = {"id": [1, 2], "country": ["DE", "FR"]}


@pytest.mark.parametrize(
    "make",
    [
        lambda: pa.table(FRAME),
        lambda: pa.table(FRAME).to_batches()[0],
        lambda: pa.table(FRAME).to_reader(),
        lambda: iter(pa.table(FRAME).to_batches(max_chunksize=1)),
        lambda: [pa.table(FRAME).slice(0, 1), pa.table(FRAME).slice(1)],
        lambda: pd.DataFrame(FRAME),
        lambda: pl.DataFrame(FRAME),
        lambda: [dict(zip(FRAME, values, strict=True)) for values in zip(*FRAME.values(), strict=True)],
    ],
)
def test_bulk_data_comes_in_every_usual_shape(make: Callable[[], Any]):
    data = table_from_any(make())
    rows = rows_of(Order, data) if isinstance(data, pa.Table) else physical_from_dicts(Order, data)
    assert rows == [encoder(Order)(Order(id=number, country=country)) for number, country in ((1, "DE"), (2, "FR"))]


def test_missing_numbers_in_pandas_are_nulls():
    frame = pd.DataFrame({"id": ["a", "b"], "number": [1, None], "amount": [0.5, None], "text": ["x", None]})
    data: Any = table_from_any(frame)
    assert rows_of(Thing, data) == [
        encoder(Thing)(Thing(id="a", number=1, amount=0.5, text="x")),
        encoder(Thing)(Thing(id="b")),
    ]


def test_a_frame_of_mixed_python_values_is_taken_row_by_row():
    frame = pd.DataFrame({"id": ["a", "b", "c"], "anything": [1, {"k": [2]}, None]})
    data: Any = table_from_any(frame)
    assert physical_from_dicts(Thing, data) == [
        encoder(Thing)(Thing(id=key, anything=value)) for key, value in (("a", 1), ("b", {"k": [2]}), ("c", None))
    ]


@pytest.mark.parametrize("data", ["orders.csv", b"x", {"id": [1]}, 3, None])
def test_what_is_no_bulk_data_is_refused_with_a_hint(data: Any):
    with pytest.raises(InputError, match="Cannot read rows from"):
        table_from_any(data)


def test_no_rows_are_no_error():
    data: Any = table_from_any([])
    assert physical_from_dicts(Order, data) == []


def test_a_million_plain_rows_are_checked_without_leaving_arrow():
    rows = 1_000_000

    class Sale(Entity):
        id: Field[str] = Field(primary_key=True)
        name: Field[str]
        tier: Field[str | None]
        seats: Field[int]
        amount: Field[float]

    keys = pa.array(range(rows), pa.int64()).cast(pa.string())
    table = pa.table(
        {
            "id": keys,
            "name": keys,
            "tier": keys,
            "seats": pa.array(range(rows), pa.int32()),
            "amount": pa.array(range(rows), pa.float64()),
        }
    )
    start = clock.process_time()
    arrays = physical_arrays(Sale, table)
    assert clock.process_time() - start < 1.0
    assert arrays[3].type == pa.int64()


def test_a_table_of_fetched_rows_costs_less_than_fetching_them():
    rows = 10_000
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (key TEXT PRIMARY KEY, f1 TEXT, f2 INTEGER, f3 REAL, f4 INTEGER, big TEXT)")
    values = [(f"key-{n}", "name", n, n / 3, n % 2, None) for n in range(rows)]
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", values)

    class Sale(Entity):
        id: Field[str] = Field(primary_key=True)
        name: Field[str]
        seats: Field[int]
        amount: Field[float]
        paid: Field[bool]

    def fetch() -> list[Any]:
        return connection.execute("SELECT * FROM t").fetchall()

    def build() -> pa.Table:
        return to_arrow_table(Sale.__spec__, list(zip(*fetch(), strict=True)))

    assert build().num_rows == rows
    fetched, built = (min(_seconds(work) for _ in range(7)) for work in (fetch, build))
    connection.close()
    # Fetching alone is the floor; the project's own bound for the whole read is 1.5 times that on a quiet machine.
    assert built < 3 * fetched, json.dumps({"fetch": fetched, "table": built})


def _seconds(work: Callable[[], Any]) -> float:
    start = clock.process_time()
    work()
    return clock.process_time() - start
