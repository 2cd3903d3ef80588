"""A file is left out of a read only when no row in it can matter."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ontologia.model.physical import to_physical
from ontologia.query import reference
from ontologia.query.expr import FieldExpr, field_expression
from ontologia.query.predicates import And, Const, Not, Or, Predicate
from ontologia.store.objects.columns import columns_of
from ontologia.store.objects.parquet import FileBuilder
from ontologia.store.objects.pruning import matching, superseding, with_identities, with_keys
from ontologia.store.objects.records import DataFile
from ontologia.testing.strategies import WIDE, comparisons, predicates, rows

COLUMNS = columns_of(WIDE)
often = settings(max_examples=3 * settings().max_examples)


def of(name: str) -> FieldExpr[Any]:
    return field_expression(WIDE, WIDE.by_name[name])


def file_of(some: list[dict[str, Any]], commit_id: int = 1) -> DataFile:
    """What is recorded about a file of these rows."""
    builder = FileBuilder(WIDE, 1, commit_id)
    builder.add([to_physical(WIDE, (row["id"],), [row[field.name] for field in WIDE.fields]) for row in some])
    made = builder.finish()
    assert made is not None
    path, keys = f"{commit_id}.parquet", (made.min_key, made.max_key)
    bare = DataFile("entity", "Wide", path, commit_id, commit_id, made.row_count, 1, updated=made.updated)
    return replace(bare, min_key=keys[0], max_key=keys[1], stats=made.stats)


@often
@given(st.lists(rows(), min_size=1, max_size=3), st.lists(comparisons() | predicates(), min_size=4, max_size=8))
def test_a_file_with_a_matching_row_is_never_left_out(some: list[dict[str, Any]], asked: list[Predicate]) -> None:
    file = file_of(some)
    for predicate in asked:
        if any(reference.matches(predicate, row) for row in some):
            assert matching([file], COLUMNS, predicate) == (file,), predicate


@given(st.lists(rows(), min_size=1, max_size=3), predicates())
def test_what_is_not_recorded_may_be_anything(some: list[dict[str, Any]], predicate: Predicate) -> None:
    file = replace(file_of(some), min_key=None, max_key=None, stats={})
    found = matching([file], COLUMNS, predicate)
    assert found == (file,) or not any(reference.matches(predicate, row) for row in some)


def plain_row(**values: Any) -> dict[str, Any]:
    row: dict[str, Any] = {field.name: None for field in WIDE.fields}
    row |= {"id": "k", "text": "m", "int": 5, "float": 2.5, "bool": True, "decimal": Decimal("2.5"), "json": "1"}
    row |= {"datetime": datetime(2026, 6, 1, tzinfo=UTC), "date": date(2026, 6, 1), "time": time(12), "bytes": b"m"}
    return row | {"events": "[]"} | values


@pytest.mark.parametrize(
    "predicate",
    [
        of("text") == "z",
        of("text").startswith("n"),
        of("text") < "m",
        of("int") > 5,
        of("int").in_([4, 6, 2**80]),
        of("int").between(6, 9),
        of("int") == 4.5,
        of("float") <= 2,
        of("bool").is_false(),
        of("decimal") > Decimal("2.5"),
        of("datetime") < datetime(2026, 6, 1, tzinfo=UTC),
        of("date") > date(2026, 6, 1),
        of("time") != time(12),
        of("id") == "x",
        of("id").startswith("ka"),
        (of("int") == 5) & (of("text") == "z"),
        (of("int") == 4) | (of("text") == "z"),
        ~((of("int") == 5) | Const(True)),
        Not(Not(of("int") == 4)),
        And((of("json").is_not_null(), Or((of("int") == 4, Const(False))))),
    ],
    ids=repr,
)
def test_a_file_beside_the_bounds_is_left_out(predicate: Predicate) -> None:
    file = file_of([plain_row()])
    left_out = "!=" not in repr(predicate)
    assert (matching([file], COLUMNS, predicate) == ()) == left_out


@pytest.mark.parametrize(
    "predicate",
    [of("text").startswith("m"), of("text").startswith("mn"), of("text").startswith(""), of("text") >= "mnp"],
    ids=repr,
)
def test_a_file_within_the_bounds_is_read(predicate: Predicate) -> None:
    file = file_of([plain_row(text="mno"), plain_row(id="l", text="mnp")])
    assert matching([file], COLUMNS, predicate) == (file,)


def test_bounds_of_another_program_in_another_form_are_not_used() -> None:
    file = replace(file_of([plain_row()]), stats={"datetime": ("2026-06-01", "2026-06-01"), "int": ("5", "5")})
    for predicate in (of("datetime") > datetime(2027, 1, 1, tzinfo=UTC), of("int") == 9):
        assert matching([file], COLUMNS, predicate) == (file,)


def keyed(number: int, low: str, high: str, *, updated: int | None = 0, last: int | None = None) -> DataFile:
    path = f"{number}.parquet"
    file = DataFile("entity", "Wide", path, number, last or number, 1, 1, updated=updated)
    return replace(file, min_key=(low,), max_key=(high,))


def test_keys_find_the_files_that_may_have_them() -> None:
    one, two, three = keyed(1, "a", "f"), keyed(2, "g", "k"), replace(keyed(3, "", ""), min_key=None)
    assert with_keys([one, two, three], 0, ["c", "z"]) == (one, three)
    assert with_keys([one, two, three], 0, ["fa"]) == (three,)
    assert with_keys([one, two], 0, []) == ()
    assert with_identities([one, two, three], [("h",), ("z",)]) == (two, three)
    assert with_identities([one, two, three], []) == ()


def test_only_later_files_with_updates_of_shared_keys_supersede() -> None:
    first, second = keyed(1, "a", "m"), keyed(2, "c", "e", updated=2)
    third, fourth = keyed(3, "x", "z", updated=1), keyed(4, "a", "z")
    unknown, snapshot = keyed(5, "a", "b", updated=None), keyed(6, "a", "z", updated=1, last=9)
    files = [first, second, third, fourth, unknown, snapshot]
    assert superseding(files, [first]) == (second, unknown, snapshot)
    assert superseding(files, [second]) == (snapshot,)
    assert superseding(files, [fourth]) == (unknown, snapshot)
    assert superseding(files, [snapshot]) == (snapshot,)
    assert superseding([second], [second]) == ()
    assert superseding(files, []) == ()


@given(
    st.lists(st.dictionaries(st.sampled_from("abcdef"), st.none(), min_size=1, max_size=3), min_size=1, max_size=5),
    st.data(),
)
def test_a_file_that_supersedes_a_scanned_row_is_never_left_out(
    commits: list[dict[str, None]], data: st.DataObject
) -> None:
    seen: set[str] = set()
    files: list[DataFile] = []
    for number, keys in enumerate(commits):
        files.append(keyed(number + 1, min(keys), max(keys), updated=len(seen & set(keys))))
        seen |= set(keys)
    picked = data.draw(st.lists(st.sampled_from(range(len(files))), min_size=1, unique=True))
    found = superseding(files, [files[at] for at in picked])
    for at in picked:
        for later in range(at + 1, len(files)):
            if set(commits[at]) & set(commits[later]):
                assert files[later] in found
