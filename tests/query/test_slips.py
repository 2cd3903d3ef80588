"""Slips in queries are said where they are written, as one sentence, and never as a raw error or a wrong answer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from ontologia import Entity, Field, Ontology, Relation, count, max  # noqa: A004
from ontologia.errors import QueryError
from ontologia.query.builder import Query


class Base(Entity):
    id: Field[UUID] = Field(primary_key=True)
    value: Field[str] = Field(default="5")


class Sub(Base):
    value: Field[int] = Field(default=5)  # pyright: ignore[reportIncompatibleVariableOverride] - the slip
    day: Field[date] = Field(default=date(2020, 1, 1))
    free: Field[dict[str, Any]] = Field(default_factory=dict)


class Abstract(Entity, abstract=True):
    x: Field[int]


class Link(Relation[Sub, Sub]):
    weight: Field[int] = Field(default=1)


KEY = UUID("abcdef00-0000-0000-0000-000000000001")
LATE = datetime.max.replace(tzinfo=timezone(timedelta(hours=-14)))


@pytest.fixture
def query() -> Query:
    onto = Ontology(":memory:", entity_types=[Sub], relation_types=[Link])
    with onto.session() as s:
        s.ensure([Sub(id=KEY), Link(left_key=KEY, right_key=KEY)])
    return onto.query()


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda q: q.entities(Entity), "abstract"),
        (lambda q: q.entities(Abstract), "abstract"),
        (lambda q: q.relations(Relation), "abstract"),
        (lambda q: q.entities(Sub).via(Relation), "abstract"),
        (lambda q: q.entities(Sub).as_of(LATE), "beyond"),
        (lambda q: q.entities(Sub).where(Base.value == "5"), "declares value anew as int"),
        (lambda q: q.entities(Sub).group_by(Sub.free["a.b"], Sub.free["a"]["b"]), "both be called 'free.a.b'"),
        (lambda q: q.relations(Link).with_history().get(KEY, KEY), "history window"),
        (lambda _: max(Sub.day) > datetime(2019, 1, 1, tzinfo=UTC), "compared with date, not with datetime"),
    ],
)
def test_a_slip_is_refused_with_words(query: Query, ask: Callable[[Query], Any], words: str) -> None:
    with pytest.raises(QueryError, match=words):
        ask(query)


def test_a_relation_is_found_by_keys_in_any_spelling(query: Query) -> None:
    assert query.relations(Link).get(KEY, str(KEY).upper()) is not None


def test_a_decimal_of_millions_of_digits_is_compared_at_once(query: Query) -> None:
    assert query.entities(Sub).where(Sub.value < Decimal("1E+3000000")).count() == 1
    assert query.entities(Sub).where(Sub.value == Decimal("1E+3000000")).count() == 0


def test_many_values_are_looked_up_not_tried_in_turn(query: Query) -> None:
    assert query.entities(Sub).where(Sub.value.in_(range(40_000))).agg(n=count()) == {"n": 1}
