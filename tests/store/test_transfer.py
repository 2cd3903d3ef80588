"""What is exported comes back exactly, in every format and for every kind of value."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from ontologia import Entity, Field, InputError, NotFoundError, Ontology, Relation, RowError, UnknownTypeError
from ontologia.store.transfer import write
from ontologia.store.transfer.csvfile import plain_name
from ontologia.store.transfer.infer import class_name, propose
from ontologia.store.transfer.load import load
from ontologia.store.transfer.places import FORMATS, Format, file_name, source_files
from ontologia.store.transfer.write import write_file


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Note(BaseModel):
    text: str
    at: datetime | None = None
    blob: bytes = b""


class Thing(Entity):
    id: Field[str] = Field(primary_key=True)
    text: Field[str | None] = Field(default=None)
    number: Field[int | None] = Field(default=None)
    ratio: Field[float | None] = Field(default=None)
    flag: Field[bool | None] = Field(default=None)
    price: Field[Decimal | None] = Field(default=None)
    moment: Field[datetime | None] = Field(default=None)
    day: Field[date | None] = Field(default=None)
    clock: Field[time | None] = Field(default=None)
    blob: Field[bytes | None] = Field(default=None)
    token: Field[UUID | None] = Field(default=None)
    colour: Field[Colour | None] = Field(default=None)
    level: Field[Literal[1, 2, 3] | None] = Field(default=None)
    anything: Field[Any] = Field(default=None)
    tags: Field[list[str]] = Field(default_factory=list[str])
    note: Field[Note | None] = Field(default=None)
    either: Field[int | str | Decimal | None] = Field(default=None)


class Counter(Entity):
    id: Field[int] = Field(primary_key=True)


class Link(Relation[Thing, Counter]):
    slot: Field[str] = Field(instance_key=True)
    weight: Field[float] = Field(default=1.0)


class Pair(Relation[Counter, Counter]):
    """A relation without fields."""


CLASSES: dict[str, type[Any]] = {cls.__name__: cls for cls in (Thing, Counter, Link, Pair)}
texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=12)
awkward = st.sampled_from(
    ["", " ", "-", "null", "NaN", '"', 'a"b', "a,b", "a\nb", "a\r\nb", "\r", "007", "1e5", "true"]
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
zones: st.SearchStrategy[Any] = st.sampled_from(
    [None, UTC, timezone(timedelta(hours=5, minutes=30)), timezone(-timedelta(hours=3, seconds=7))]
)
moments = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=zones)  # noqa: DTZ001 - naive ones too
decimals = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30)
floats = st.floats(allow_nan=False) | st.just(math.inf)


@st.composite
def things(draw: st.DrawFn) -> Thing:
    def maybe(strategy: st.SearchStrategy[Any]) -> Any:
        return draw(st.none() | strategy)

    return Thing(
        id=draw(texts.filter(bool) | awkward.filter(bool)),
        text=maybe(texts | awkward),
        number=maybe(st.integers() | st.sampled_from([2**63, -(2**63), 10**400])),
        ratio=maybe(floats),
        flag=maybe(st.booleans()),
        price=maybe(decimals | st.sampled_from([Decimal("1.10"), Decimal("1E+3"), Decimal("0E-5")])),
        moment=maybe(moments),
        day=maybe(st.dates()),
        clock=maybe(st.times() | st.times(timezones=st.just(UTC))),
        blob=maybe(st.binary(max_size=8)),
        token=maybe(st.uuids()),
        colour=maybe(st.sampled_from(Colour)),
        level=maybe(st.sampled_from([1, 2, 3])),
        anything=draw(anything | awkward),
        tags=draw(st.lists(texts | awkward, max_size=3)),
        note=maybe(st.builds(Note, text=texts, at=st.none() | moments, blob=st.binary(max_size=4))),
        either=maybe(st.integers() | texts | decimals),
    )


def exported(store: Ontology, folder: Path, form: Format, *, meta: bool = False) -> list[Path]:
    """Every type of a store as files."""
    paths: list[Path] = []
    for cls in CLASSES.values():
        rows = store.query().entities(cls) if issubclass(cls, Entity) else store.query().relations(cls)
        paths.append(folder / file_name(cls.__name__, form))
        write_file(rows, cls.__spec__, form, paths[-1], meta=meta)
    return paths


def imported(store: Ontology, paths: list[Path], **options: Any) -> dict[str, int]:
    """Files into a store, as one commit."""
    session = store.session()
    read = load(session, source_files(paths, options.pop("type_name", None), CLASSES), CLASSES, "abort", **options)
    session.commit()
    return read


def everything(store: Ontology) -> dict[str, list[str]]:
    """The whole content, as text that shows types and scales."""
    return {
        name: sorted(
            repr(one)
            for one in (store.query().entities(cls) if issubclass(cls, Entity) else store.query().relations(cls))
        )
        for name, cls in CLASSES.items()
    }


@pytest.mark.parametrize("form", FORMATS)
@settings(max_examples=25)
@given(rows=st.lists(things(), max_size=4), numbers=st.sets(st.integers(), max_size=3))
def test_an_exported_store_comes_back_exactly(
    form: Format, tmp_path_factory: pytest.TempPathFactory, rows: list[Thing], numbers: set[int]
) -> None:
    folder = tmp_path_factory.mktemp("transfer")
    with Ontology(":memory:") as store, Ontology(":memory:") as copy:
        with store.session() as session:
            session.ensure(rows)
            session.ensure(Counter(id=number) for number in numbers)
            session.ensure(Link(left_key=row.id, right_key=1, slot="s,\n", weight=math.inf) for row in rows)
            session.ensure(Pair(left_key=number, right_key=7) for number in numbers)
        paths = exported(store, folder, form)
        imported(copy, paths)
        assert everything(copy) == everything(store)
        imported(copy, paths)
        assert copy.head() <= 1, "what is there already makes no commit"


@pytest.mark.parametrize("form", FORMATS)
def test_metadata_is_written_and_ignored_when_read(form: Format, tmp_path: Path) -> None:
    with Ontology(":memory:") as store, Ontology(":memory:") as copy:
        with store.session() as session:
            session.ensure([Thing(id="a", text="x"), Counter(id=1), Link(left_key="a", right_key=1, slot="s")])
        paths = exported(store, tmp_path, form, meta=True)
        assert form == "parquet" or "commit_id" in paths[0].read_text()
        read = imported(copy, paths)
        assert {name: rows for name, rows in read.items() if rows} == {"Thing": 1, "Counter": 1, "Link": 1}
        assert everything(copy) == everything(store)


@pytest.mark.parametrize("form", FORMATS)
def test_an_integer_too_long_for_python_to_print_comes_back(form: Format, tmp_path: Path) -> None:
    with Ontology(":memory:") as store, Ontology(":memory:") as copy:
        with store.session() as session:
            session.ensure([Thing(id="a", number=10**5000), Thing(id="b", number=-(10**5000))])
        imported(copy, exported(store, tmp_path, form))
        assert [thing.number for thing in copy.query().entities(Thing)] == [10**5000, -(10**5000)]


def test_integers_that_outgrow_their_column_make_parquet_start_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "_ROWS_PER_GROUP", 2)
    with Ontology(":memory:") as store, Ontology(":memory:") as copy:
        with store.session() as session:
            session.ensure(Thing(id=f"{n:02}", number=10**n) for n in range(30))
        path = tmp_path / "Thing.parquet"
        write_file(store.query().entities(Thing), Thing.__spec__, "parquet", path, meta=False)
        imported(copy, [path])
        assert everything(copy) == everything(store)


def test_a_file_that_cannot_be_finished_is_not_left_behind(tmp_path: Path) -> None:
    def broken() -> Any:
        yield Counter(id=1)
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        write_file(broken(), Counter.__spec__, "csv", tmp_path / "Counter.csv", meta=False)
    assert list(tmp_path.iterdir()) == []


def attempt(tmp_path: Path, name: str, content: str | bytes, **options: Any) -> Ontology:
    """An import of one file into an empty store."""
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    store = Ontology(":memory:")
    imported(store, [path], **options)
    return store


@pytest.mark.parametrize(
    ("name", "content", "line", "column", "words"),
    [
        ("Thing.csv", "id,number\na,1\nb,x\n", 3, "number", "valid integer"),
        ("Thing.csv", 'id,text,number\na,"two\nlines",1\nb,,x\n', 4, "number", "valid integer"),
        ("Thing.csv", "id,number\n\n\na,1\n\nb,x\n", 6, "number", "valid integer"),
        ("Thing.csv", "id,anything\na,1\nb,plain text\n", 3, "anything", "double quotes"),
        ("Thing.csv", "id,blob\na,!!\n", 2, "blob", "base64"),
        ("Thing.csv", "id,text\n,x\n", 2, "id", "empty"),
        ("Thing.csv", "id,text\na,x\nb\n", 3, None, "1 cells where the header has 2"),
        ("Thing.csv", "id,txet\na,x\n", 1, "txet", "its fields are"),
        ("Thing.csv", "id,id\na,b\n", 1, "id", "twice"),
        ("Thing.jsonl", '{"id": "a"}\n\n{"id": "b", "number": "x"}\n', 3, "number", "valid integer"),
        ("Thing.jsonl", '{"id": "a"}\n{"id": \n', 2, None, "not JSON"),
        ("Thing.jsonl", '{"id": "a", "ratio": NaN}\n', 1, None, "not JSON"),
        ("Thing.jsonl", "[1]\n", 1, None, "object"),
        ("Thing.jsonl", '{"id": "a", "txet": 1}\n', 1, "txet", "unknown field"),
        ("Thing.jsonl", '{"type": "Thing", "key": "a", "fields": {"id": "b"}}\n', 1, "id", "key is 'a'"),
        ("Thing.jsonl", '{"type": "Counter", "key": "1", "fields": {}}\n', 1, None, "in a file of 'Thing'"),
    ],
)
def test_a_bad_row_names_its_line_and_column(
    tmp_path: Path, *, name: str, content: str, line: int, column: str | None, words: str
) -> None:
    with pytest.raises(RowError, match=words) as caught:
        attempt(tmp_path, name, content)
    assert caught.value.details.get("line") == line
    assert caught.value.details.get("column") == column
    assert f"line {line}" in caught.value.message
    assert name in caught.value.message


def test_a_bad_row_late_in_a_large_file_names_its_line(tmp_path: Path) -> None:
    lines = [f'{{"id": "{n}", "number": {n}}}' for n in range(25_000)]
    lines[23_456] = '{"id": "x", "number": "many"}'
    with pytest.raises(RowError) as caught:
        attempt(tmp_path, "Thing.jsonl", "\n".join(lines))
    assert caught.value.line == 23_457


def test_nothing_of_a_bad_import_is_kept(tmp_path: Path) -> None:
    (tmp_path / "Counter.csv").write_text("id\n1\n2\n")
    (tmp_path / "Thing.csv").write_text("id,number\na,1\nb,x\n")
    with Ontology(":memory:") as store:
        with pytest.raises(RowError):
            imported(store, [tmp_path])
        assert store.head() == 0


def test_text_that_is_not_utf8_is_a_row_error(tmp_path: Path) -> None:
    for name in ("Thing.csv", "Thing.jsonl"):
        with pytest.raises(RowError):
            attempt(tmp_path, name, b"id,text\na,\xff\xfe\n" if name.endswith("csv") else b'{"id": "\xff"}\n')


def test_a_parquet_file_that_is_none_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a readable Parquet file"):
        attempt(tmp_path, "Thing.parquet", "hello")


def test_a_parquet_file_of_another_tool_is_read_by_its_columns(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    path = tmp_path / "things.parquet"
    parquet.write_table(pa.table({"id": ["a", "b"], "number": pa.array([1, None], pa.int32())}), path)
    with Ontology(":memory:") as store:
        imported(store, [path], type_name="Thing")
        assert [thing.number for thing in store.query().entities(Thing)] == [1, None]
        parquet.write_table(pa.table({"id": ["a", None]}), path)
        with pytest.raises(RowError, match="row 2") as caught:
            imported(store, [path], type_name="Thing")
    assert caught.value.row == 2


def test_an_empty_cell_is_null_and_quotes_are_empty_text(tmp_path: Path) -> None:
    with attempt(tmp_path, "Thing.csv", 'id,text\na,\nb,""\n') as store:
        assert [thing.text for thing in store.query().entities(Thing)] == [None, ""]


def test_a_header_matches_fields_whatever_its_case_and_punctuation(tmp_path: Path) -> None:
    with attempt(tmp_path, "thing.csv", "\ufeffID,Text\na,x\n") as store:
        assert [thing.text for thing in store.query().entities(Thing)] == ["x"]
    assert plain_name("First Name") == plain_name("firstName") == plain_name("first-name") == "first_name"


def test_one_jsonl_file_may_hold_several_types(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {"kind": "relation", "type": "Link", "left_key": "a", "right_key": "1", "instance_key": "s", "fields": {}},
        {"kind": "entity", "type": "Thing", "key": "a", "fields": {"text": "x"}},
        {"kind": "entity", "type": "Counter", "key": "1", "fields": {}},
    ]
    content = "\n".join(map(json.dumps, records))
    with attempt(tmp_path, "dump.jsonl", content) as store:
        link = store.query().relations(Link).one()
        assert (link.left and link.left.text, link.right and link.right.id, link.slot) == ("x", 1, "s")


def test_a_file_must_say_its_type(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not say which type"):
        attempt(tmp_path, "other.csv", "id\na\n")
    with pytest.raises(RowError, match="neither a record"):
        attempt(tmp_path, "other.jsonl", '{"id": "a"}\n')
    with pytest.raises(UnknownTypeError, match="line 1: 'Other'"):
        attempt(tmp_path, "other.jsonl", '{"type": "Other", "fields": {}}\n')
    with pytest.raises(InputError, match="suffix"):
        attempt(tmp_path, "Thing.txt", "")
    with pytest.raises(NotFoundError):
        source_files([tmp_path / "nowhere.csv"], None, CLASSES)
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFoundError):
        source_files([tmp_path / "empty"], None, CLASSES)


def test_progress_ends_at_the_size_of_the_files(tmp_path: Path) -> None:
    (tmp_path / "Counter.jsonl").write_text("".join(f'{{"id": {n}}}\n' for n in range(12_000)))
    seen: list[int] = []
    with Ontology(":memory:") as store:
        imported(store, [tmp_path / "Counter.jsonl"], progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == (tmp_path / "Counter.jsonl").stat().st_size


@given(name=st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=20))
def test_every_type_name_has_its_file(name: str) -> None:
    path = Path(file_name(name, "jsonl"))
    assert len(path.parts) == 1
    assert source_name(path, name) == name


def source_name(path: Path, name: str) -> str | None:
    """The type that a file's name says."""
    from ontologia.store.transfer.places import _type_of

    return _type_of(path, "jsonl", None, {name, "Other"})


@pytest.mark.parametrize(
    ("stem", "name"),
    [
        ("customers", "Customer"),
        ("loan_applications", "LoanApplication"),
        ("companies", "Company"),
        ("address", "Address"),
        ("2024-orders", "T2024Order"),
        ("status", "Status"),
    ],
)
def test_a_file_name_gives_the_name_of_one_thing(stem: str, name: str) -> None:
    assert class_name(stem) == name


def test_a_proposal_takes_the_narrowest_type_of_a_column(tmp_path: Path) -> None:
    path = tmp_path / "customers.csv"
    path.write_text(
        "Customer ID,zip,age,score,active,joined,seen,mixed,nothing\n"
        "c1,007,1,1,true,2026-01-01,2026-01-01T10:00:00Z,1,\n"
        "c2,123,,2.5,false,2026-01-02,2026-01-02,x,\n"
    )
    spec = propose(path, None, None).spec
    assert spec.name == "Customer"
    assert {field.name: (field.type, field.nullable) for field in spec.fields} == {
        "customer_id": ("str", False),
        "zip": ("str", False),
        "age": ("int", True),
        "score": ("float", False),
        "active": ("bool", False),
        "joined": ("date", False),
        "seen": ("datetime", False),
        "mixed": ("str", False),
        "nothing": ("str", True),
    }
    assert spec.key_field is not None
    assert spec.key_field.name == "customer_id"


def test_a_proposal_for_json_lines_keeps_structure_as_json(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"id": 1, "tags": ["a"]}\n{"id": 2, "extra": true}\n')
    spec = propose(path, None, None).spec
    assert {f.name: (f.type, f.nullable) for f in spec.fields} == {
        "id": ("int", False),
        "tags": ("any", True),
        "extra": ("bool", True),
    }


def test_a_proposal_needs_a_column_that_can_be_the_key(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n1,x\n1,x\n")
    with pytest.raises(InputError, match="unique in every row"):
        propose(path, None, None)
    with pytest.raises(InputError, match="again, as line"):
        propose(path, None, "a")
    with pytest.raises(InputError, match="no column 'c'"):
        propose(path, None, "c")
    path.write_text("a,b\n")
    with pytest.raises(InputError, match="no rows"):
        propose(path, None, None)
