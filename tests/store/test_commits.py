"""Laws of the digests that the commit chain is made of: they see every value, its type and its place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ontologia.store.commits import ROWS_PER_BLOCK, Part, RowDigest, commit_hash

values = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=4),
    st.binary(max_size=4),
)
tables = st.integers(1, 3).flatmap(lambda width: st.lists(st.tuples(*[values] * width), min_size=1, max_size=8))


def digest(*pieces: list[Any]) -> str:
    one = RowDigest()
    for piece in pieces:
        one.add(piece)
    return one.hexdigest()


def exactly(rows: list[Any]) -> list[Any]:
    """Rows such that equal means equal: 1, 1.0 and True are told apart, and so are the two zeros."""
    return [[(type(value), repr(value)) for value in row] for row in rows]


@given(tables, st.data())
def test_a_digest_does_not_depend_on_how_rows_are_handed_over(rows: list[Any], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(rows)))
    assert digest(rows[:cut], rows[cut:]) == digest(rows) == digest(*([row] for row in rows))


@pytest.mark.parametrize("count", [ROWS_PER_BLOCK - 1, ROWS_PER_BLOCK, ROWS_PER_BLOCK + 1, 2 * ROWS_PER_BLOCK + 5])
@pytest.mark.parametrize("cut", [1, ROWS_PER_BLOCK - 1, ROWS_PER_BLOCK, 3000])
def test_a_digest_does_not_depend_on_the_borders_of_blocks(count: int, cut: int) -> None:
    rows = [(f"k{number}", number, None if number % 3 else 0.5) for number in range(count)]
    pieces = [rows[start : start + cut] for start in range(0, count, cut)] if cut > 1 else [rows[:1], rows[1:]]
    assert digest(*pieces) == digest(rows)


@given(tables, tables)
def test_different_rows_have_different_digests(first: list[Any], second: list[Any]) -> None:
    assume(len(first[0]) == len(second[0]))
    assert (digest(first) == digest(second)) == (exactly(first) == exactly(second))


@given(tables, st.data())
def test_changing_one_value_or_its_type_changes_the_digest(rows: list[Any], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(rows) - 1))
    column = data.draw(st.integers(0, len(rows[0]) - 1))
    value = data.draw(values)
    assume((type(value), repr(value)) != (type(rows[at][column]), repr(rows[at][column])))
    changed = [list(row) for row in rows]
    changed[at][column] = value
    assert digest(changed) != digest(rows)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([("a", "bc")], [("ab", "c")]),
        ([("a",), ("bc",)], [("ab",), ("c",)]),
        ([("1",)], [(1,)]),
        ([(1,)], [(1.0,)]),
        ([("a",)], [(b"a",)]),
        ([("",)], [(None,)]),
        ([(1, None), (None, 1)], [(None, 1), (1, None)]),
        ([("é",)], [("e\u0301",)]),
        ([("a\x00",)], [("a",)]),
    ],
)
def test_rows_that_look_alike_have_different_digests(first: list[Any], second: list[Any]) -> None:
    assert digest(first) != digest(second)


def record(**changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "commit_id": 2,
        "parent_sha256": "a" * 64,
        "created_at": "2026-01-01T00:00:00+00:00",
        "runtime_id": "w",
        "metadata": {"k": "v"},
        "parts": [_part("Customer"), _part("Product")],
    }
    return whole | changes


def _part(name: str) -> Part:
    known: dict[str, Any] = {"kind": "entity", "type_name": name, "fingerprint": "f" * 64, "rows_sha256": "e" * 64}
    return Part(**{name: known.get(name, 1) for name in Part._fields})


@pytest.mark.parametrize(
    "changes",
    [
        {"commit_id": 3},
        {"parent_sha256": None},
        {"parent_sha256": "b" * 64},
        {"created_at": "2026-01-01T00:00:00.000001+00:00"},
        {"runtime_id": "x"},
        {"metadata": {}},
        {"metadata": {"k": "w"}},
        {"parts": [_part("Customer")]},
        {"parts": []},
    ],
)
def test_a_commit_hash_covers_its_whole_record(changes: dict[str, Any]) -> None:
    assert commit_hash(**record(**changes)) != commit_hash(**record())


@pytest.mark.parametrize("name", Part._fields)
def test_a_commit_hash_covers_every_part(name: str) -> None:
    part = _part("Customer")
    old: Any = getattr(part, name)
    changed = part._replace(**{name: old + 1 if isinstance(old, int) else f"{old}x"})
    assert commit_hash(**record(parts=[changed])) != commit_hash(**record(parts=[part]))
