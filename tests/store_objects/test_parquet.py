"""Rows become Parquet files with the columns of the public layout, and come back from them unchanged."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontologia.base.canonical import canonical_json
from ontologia.model.physical import layout, to_physical
from ontologia.model.spec import FieldSpec, Kind, TypeSpec
from ontologia.store.objects import parquet
from ontologia.store.objects.columns import columns_of, quoted
from ontologia.store.objects.parquet import EncodedFile, FileBuilder, read_rows
from ontologia.store.objects.payload import payloads, values_of
from ontologia.store.rows import ColumnRows, Row
from ontologia.testing.strategies import WIDE, rows

PERSON = TypeSpec(
    "entity",
    "Person",
    (
        FieldSpec("id", "str", Kind.TEXT, primary_key=True),
        FieldSpec("age", "int", Kind.INT, nullable=True),
        FieldSpec("name", "str", Kind.TEXT, nullable=True),
        FieldSpec("born", "date", Kind.DATE, nullable=True),
    ),
)
KNOWS = TypeSpec("relation", "Knows", (FieldSpec("since", "int", Kind.INT),), left="Person", right="Person")
EAST, WEST = timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))


def physical(spec: TypeSpec, values: dict[str, Any]) -> Row:
    return to_physical(spec, (str(values["id"]),), [values[field.name] for field in spec.fields])


def built(spec: TypeSpec, some: Sequence[Row], updated: Sequence[Row] = (), commit_id: int = 7) -> EncodedFile:
    builder = FileBuilder(spec, 3, commit_id)
    builder.add(some, updated)
    made = builder.finish()
    assert made is not None
    return made


def table_of(made: EncodedFile) -> pa.Table:
    return pq.read_table(io.BytesIO(made.data))


def person(key: str, age: int | None = None, name: str | None = None, born: str | None = None) -> Row:
    return (key, age, name, born, None)


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'Asia/Tokyo'")
        yield connection


def read_back(database: duckdb.DuckDBPyConnection, spec: TypeSpec, made: EncodedFile, folder: Path) -> list[Row]:
    """All rows by DuckDB, as Python values."""
    path = folder / "one.parquet"
    path.write_bytes(made.data)
    select = f"SELECT {columns_of(spec).projection()} FROM read_parquet(?) AS t ORDER BY ALL"
    found = database.execute(select, [str(path)]).fetchall()
    table = database.sql(select, params=[str(path)]).to_arrow_table()
    assert [row for batch in table.to_batches() for row in read_rows(batch)] == found
    return found


def test_an_entity_file_has_the_columns_of_the_public_layout() -> None:
    table = table_of(built(PERSON, [person("a", 5, "Ann", "2000-02-29")], [("a",)]))
    assert table.to_pylist() == [
        {
            "commit_id": 7,
            "entity_type": "Person",
            "entity_key": "a",
            "schema_version_id": 3,
            "fields_json": '{"age":5,"born":"2000-02-29","id":"a","name":"Ann"}',
            "id": "a",
            "age": 5,
            "name": "Ann",
            "born": date(2000, 2, 29),
            ":big": None,
            ":update": True,
        }
    ]
    assert table.column_names == list(columns_of(PERSON).names)


def test_a_relation_file_has_the_columns_of_the_public_layout() -> None:
    table = table_of(built(KNOWS, [("a", "b", "", 1999, None)]))
    assert table.column_names[:7] == [
        "commit_id",
        "relation_type",
        "left_key",
        "right_key",
        "instance_key",
        "schema_version_id",
        "fields_json",
    ]
    assert table.to_pylist()[0] | {":big": None} == {
        "commit_id": 7,
        "relation_type": "Knows",
        "left_key": "a",
        "right_key": "b",
        "instance_key": "",
        "schema_version_id": 3,
        "fields_json": '{"since":1999}',
        "since": 1999,
        ":big": None,
        ":update": False,
    }


def test_every_kind_has_its_natural_type_for_other_readers() -> None:
    schema = parquet.file_schema(WIDE)
    natural = {kind: schema.field(kind.value).type for kind in Kind}
    assert natural == {
        Kind.TEXT: pa.string(),
        Kind.INT: pa.int64(),
        Kind.FLOAT: pa.float64(),
        Kind.BOOL: pa.bool_(),
        Kind.DECIMAL: pa.string(),
        Kind.DATETIME: pa.timestamp("us", "UTC"),
        Kind.DATE: pa.date32(),
        Kind.TIME: pa.time64("us"),
        Kind.BYTES: pa.binary(),
        Kind.JSON: pa.string(),
    }
    extras = [name for name in schema.names if ":" in name and not name.endswith("_or_null:exact")]
    assert [name for name in extras if "_or_null" not in name] == [
        "decimal:order",
        "datetime:exact",
        "time:order",
        "time:exact",
        ":big",
        ":update",
    ]


def test_the_file_says_the_types_without_help_from_arrow(database: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    path = tmp_path / "wide.parquet"
    with parquet.writer(str(path), WIDE) as writer:
        writer.write_table(parquet.file_schema(WIDE).empty_table())
    assert pq.read_schema(path).metadata is None
    assert pq.read_schema(path) == parquet.file_schema(WIDE)
    described = database.execute("SELECT column_name, column_type FROM (DESCRIBE FROM read_parquet(?))", [str(path)])
    types = {name: kind.replace("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ") for name, kind in described.fetchall()}
    assert types == columns_of(WIDE).types


def test_fields_that_share_a_name_with_others_keep_their_values(
    database: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    names = ["id", "Commit_ID", "commit_id", "entity_key", "fields_json", "Name", "name", "NAME", "filename", "rowid"]
    spec = TypeSpec(
        "entity",
        "Odd",
        tuple(
            FieldSpec(name, "datetime", Kind.DATETIME, nullable=True, primary_key=False)
            if name == "name"
            else FieldSpec(name, "str", Kind.TEXT, primary_key=name == "id")
            for name in names
        ),
    )
    columns = columns_of(spec)
    assert columns.natural == {
        "id": "id",
        "Commit_ID": "Commit_ID:field",
        "commit_id": "commit_id:field2",
        "entity_key": "entity_key:field",
        "fields_json": "fields_json:field",
        "NAME": "NAME",
        "Name": "Name:field",
        "name": "name:field2",
        "filename": "filename",
        "rowid": "rowid",
    }
    assert len({name.casefold() for name in columns.names}) == len(columns.names)
    values = {name: f"<{name}>" for name in names} | {"name": datetime(2026, 1, 1, tzinfo=EAST)}
    row = physical(spec, values)
    assert read_back(database, spec, built(spec, [row]), tmp_path) == [(7, *row)]


def test_escaped_names_do_not_depend_on_the_order_of_declaration() -> None:
    fields = tuple(
        FieldSpec(name, "str", Kind.TEXT, primary_key=name == "id") for name in ("id", "b", "B", "entity_TYPE")
    )
    forward, backward = TypeSpec("entity", "T", fields), TypeSpec("entity", "T", fields[::-1])
    assert columns_of(forward).natural == columns_of(backward).natural


def test_a_quote_in_a_name_stays_inside_the_name() -> None:
    assert quoted('a"; DROP TABLE x; --') == '"a""; DROP TABLE x; --"'


@given(st.lists(rows(), max_size=5))
def test_the_payload_is_canonical_and_gives_every_value_back(some: list[dict[str, Any]]) -> None:
    encoded = [physical(WIDE, row) for row in some]
    columns = list(zip(*encoded, strict=True)) if encoded else [()] * len(layout(WIDE).columns)
    texts = payloads(WIDE, columns)
    assert len(texts) == len(some)
    for text, row in zip(texts, encoded, strict=True):
        assert text == canonical_json(json.loads(text))
        values = values_of(WIDE, text)
        assert to_physical(WIDE, row[:1], [values[field.name] for field in WIDE.fields]) == row


@pytest.mark.parametrize("value", [2**63, -(2**64), 10**3000, 10**5000, -(10**5000)], ids=int.bit_length)
def test_integers_of_any_length_are_in_the_payload(value: int) -> None:
    row = to_physical(PERSON, ("a",), ["a", value, None, None])
    (text,) = payloads(PERSON, [(cell,) for cell in row])
    assert values_of(PERSON, text)["age"] == value
    if abs(value) < 10**3000:
        assert json.loads(text)["age"] == value


def test_infinite_floats_are_in_the_payload_as_inside_json_fields() -> None:
    spec = TypeSpec(
        "entity", "T", (FieldSpec("id", "str", Kind.TEXT, primary_key=True), FieldSpec("x", "float", Kind.FLOAT))
    )
    texts = payloads(spec, [("a", "b", "c"), (float("inf"), 1e16, float("-inf")), (None, None, None)])
    assert [json.loads(text)["x"] for text in texts] == [
        {"$type": "float", "$value": "inf"},
        1e16,
        {"$type": "float", "$value": "-inf"},
    ]
    assert [values_of(spec, text)["x"] for text in texts] == [float("inf"), 1e16, float("-inf")]


@given(st.lists(rows(), min_size=1, max_size=5))
def test_rows_come_back_from_a_file_as_they_went_in(
    database: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory, some: list[dict[str, Any]]
) -> None:
    encoded = sorted({row["id"]: physical(WIDE, row) for row in some}.values())
    found = read_back(database, WIDE, built(WIDE, encoded), tmp_path_factory.getbasetemp())
    assert [row[1:] for row in found] == encoded
    assert [list(map(type, row[1:])) for row in found] == [list(map(type, row)) for row in encoded]


def test_moments_at_the_ends_of_the_calendar_are_kept(database: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    moments = [
        datetime.min.replace(tzinfo=EAST),
        datetime.max.replace(tzinfo=WEST),
        datetime.min,  # noqa: DTZ901 - a value without an offset is a value too
        datetime.max.replace(tzinfo=UTC),
    ]
    times = [time.min.replace(tzinfo=EAST), time.max.replace(tzinfo=WEST), time.min, time.max]
    spec = TypeSpec(
        "entity",
        "Moment",
        (
            FieldSpec("id", "str", Kind.TEXT, primary_key=True),
            FieldSpec("at", "datetime", Kind.DATETIME),
            FieldSpec("clock", "time", Kind.TIME),
        ),
    )
    some = [
        to_physical(spec, (str(number),), [str(number), at, clock])
        for number, (at, clock) in enumerate(zip(moments, times, strict=True))
    ]
    made = built(spec, some)
    assert [row[1:] for row in read_back(database, spec, made, tmp_path)] == some
    assert values_of(spec, table_of(made).column("fields_json")[0].as_py())["at"].isoformat() == moments[0].isoformat()
    clocks = table_of(made).column("clock")
    assert clocks.to_pylist()[:2] == [time(10), time(11, 59, 59, 999999)]
    assert clocks.cast(pa.int64()).to_pylist()[:2] == [36_000_000_000, 43_199_999_999]


def test_a_file_of_a_hundred_thousand_rows_has_row_groups_and_the_bounds_of_all_blocks() -> None:
    builder = FileBuilder(PERSON, 1, 1)
    total = parquet.ROWS_PER_GROUP + 30_000
    for start in range(0, total, 10_000):
        numbers = range(start, min(start + 10_000, total))
        columns: list[list[Any]] = [[f"k{n:07d}" for n in numbers], list(numbers)]
        columns += [[None] * len(numbers), ["2026-01-01"] * len(numbers), [None] * len(numbers)]
        builder.add(ColumnRows(columns), [(f"k{start:07d}",)])
    made = builder.finish()
    assert made is not None
    facts = pq.ParquetFile(io.BytesIO(made.data)).metadata
    assert [facts.row_group(at).num_rows for at in range(facts.num_row_groups)] == [parquet.ROWS_PER_GROUP, 30_000]
    assert (made.row_count, made.updated) == (total, 13)
    assert (made.min_key, made.max_key) == (("k0000000",), (f"k{total - 1:07d}",))
    assert made.stats == {
        "id": ("k0000000", f"k{total - 1:07d}"),
        "age": (0, total - 1),
        "born": ("2026-01-01", "2026-01-01"),
    }
    assert facts.row_group(0).column(0).compression == "ZSTD"


def test_the_bounds_of_relations_are_those_of_each_identity_column() -> None:
    made = built(KNOWS, [("a", "z", "", 5, None), ("b", "c", "x", 3, None)])
    assert (made.min_key, made.max_key) == (("a", "c", ""), ("b", "z", "x"))


def test_bounds_that_cannot_be_told_are_left_out() -> None:
    spec = TypeSpec(
        "entity",
        "T",
        (
            FieldSpec("id", "str", Kind.TEXT, primary_key=True),
            FieldSpec("long", "str", Kind.TEXT),
            FieldSpec("wide", "int", Kind.INT),
            FieldSpec("endless", "float", Kind.FLOAT),
            FieldSpec("nothing", "int", Kind.INT, nullable=True),
            FieldSpec("yes", "bool", Kind.BOOL),
            FieldSpec("price", "decimal", Kind.DECIMAL),
            FieldSpec("at", "datetime", Kind.DATETIME),
            FieldSpec("clock", "time", Kind.TIME),
            FieldSpec("raw", "bytes", Kind.BYTES),
        ),
    )
    moment = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    values = ["k", "x" * 65, 2**70, float("inf"), None, True, Decimal("1.50"), moment, time(0, 0, 2), b"x"]
    builder = FileBuilder(spec, 1, 1)
    builder.add([to_physical(spec, ("k",), values)])
    builder.add([to_physical(spec, ("l",), ["l", "short", 1, 0.5, None, False, Decimal(-2), moment, time(0), b""])])
    made = builder.finish()
    assert made is not None
    key = to_physical(spec, ("k",), values)[layout(spec).names.index("f6")]
    least = made.stats["price"][0]
    assert made.stats == {
        "id": ("k", "l"),
        "yes": (False, True),
        "price": (least, key),
        "at": (1_000_000, 1_000_000),
        "clock": (0, 2_000_000),
    }
    assert least < key
    assert json.loads(canonical_json(made.stats)) == {name: list(bounds) for name, bounds in made.stats.items()}


def test_equal_rows_make_equal_bytes() -> None:
    some = [person(f"k{number:03d}", number, "n" * (number % 7)) for number in range(200)]
    first, second = built(PERSON, some, [("k003",)]), built(PERSON, list(some), [("k003",)])
    assert (first.data, first.content_sha256) == (second.data, second.content_sha256)
    assert built(PERSON, some).content_sha256 != first.content_sha256
    assert built(PERSON, ColumnRows([list(column) for column in zip(*some, strict=True)]), [("k003",)]) == first


def test_no_rows_make_no_file() -> None:
    builder = FileBuilder(PERSON, 1, 1)
    builder.add([])
    assert builder.finish() is None


@pytest.mark.parametrize("count", [2, 3, 40])
def test_duckdb_tells_nulls_from_a_text_that_is_the_only_one_beside_them(
    database: duckdb.DuckDBPyConnection, tmp_path: Path, count: int
) -> None:
    """DuckDB 2.0 takes it for null too when pages have bounds in their headers; ours must have none."""
    path = tmp_path / "nulls.parquet"
    path.write_bytes(built(PERSON, [person(f"{n:02d}", name=None if n % 2 else "b") for n in range(count)]).data)
    select = "SELECT entity_key FROM read_parquet(?) WHERE name IS NULL ORDER BY ALL"
    found = database.execute(select, [str(path)]).fetchall()
    assert found == [(f"{n:02d}",) for n in range(1, count, 2)]
    # A plain page, as columns with more values than a dictionary takes have them.
    plain = pa.table({"name": pa.array(["b", None])})
    with_index = tmp_path / "plain.parquet"
    options = parquet._form(PERSON).options
    pq.write_table(plain, with_index, use_dictionary=False, write_page_index=options["write_page_index"])
    assert database.execute(f"SELECT count(*) FROM '{with_index}' WHERE name IS NULL").fetchall() == [(1,)]
