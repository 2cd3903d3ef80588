"""Laws of reconciliation: what is written, once applied, is what was wanted, and applying it again writes nothing."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ontologia.store.reconcile import reconcile
from ontologia.store.rows import Row

widths = st.sampled_from([1, 3])


@st.composite
def states(draw: st.DrawFn, width: int) -> list[Row]:
    """Rows sorted and unique by identity."""
    identities = draw(st.sets(st.tuples(*[st.sampled_from(["a", "b", "c"])] * width), max_size=6))
    return [(*identity, draw(st.sampled_from([None, 0, 1, "x"]))) for identity in sorted(identities)]


@st.composite
def pairs(draw: st.DrawFn) -> tuple[list[Row], list[Row], int]:
    """Wanted rows, the current rows of some of their identities (and others), and the width of an identity."""
    width = draw(widths)
    return draw(states(width)), draw(states(width)), width


def applied(current: list[Row], rows: Any, width: int) -> dict[Row, Row]:
    return {row[:width]: row for row in [*current, *rows]}


@given(pairs())
def test_writing_the_difference_gives_what_was_wanted(case: tuple[list[Row], list[Row], int]) -> None:
    wanted, current, width = case
    delta = reconcile(wanted, current, width)
    after = applied(current, delta.rows, width)
    assert after == applied(current, wanted, width)
    assert list(reconcile(wanted, list(after.values()), width).rows) == []


@given(pairs())
def test_only_what_differs_is_written_and_in_order(case: tuple[list[Row], list[Row], int]) -> None:
    wanted, current, width = case
    delta = reconcile(wanted, current, width)
    assert not set(delta.rows) & set(current)
    assert list(delta.rows) == sorted(delta.rows, key=lambda row: row[:width])
    assert delta.inserted + delta.updated + delta.unchanged == len(wanted)


@given(pairs())
def test_what_is_superseded_exists_and_is_replaced(case: tuple[list[Row], list[Row], int]) -> None:
    wanted, current, width = case
    delta = reconcile(wanted, current, width)
    known = {row[:width] for row in current}
    assert set(delta.superseded) == {row[:width] for row in delta.rows} & known
    assert len(delta.superseded) == len(set(delta.superseded)) == delta.updated
