"""Values inside closed types mean what they mean as fields: past the tags of unions, into decimals and datetimes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel

from ontologia import Entity, Field, Ontology, avg, count, count_distinct, max, min, sum  # noqa: A004
from ontologia.errors import QueryError
from ontologia.query.builder import EntityQuery


class Click(BaseModel):
    kind: Literal["click"]
    who: str
    x: int


class View(BaseModel):
    kind: Literal["view"]
    who: str
    inner: Click | dict[str, int] | None = None


class Tier(Enum):
    GOLD = "gold"


@dataclass
class Line:
    price: Decimal
    at: datetime
    day: date
    alarm: time
    raw: bytes
    token: UUID
    tier: Tier
    note: str | datetime


@dataclass
class Other:
    note: str


class Event(Entity):
    id: Field[str] = Field(primary_key=True)
    events: Field[list[Click | View]]
    last: Field[Click | View | None]
    line: Field[Line]
    mixed: Field[str | datetime | int]
    either: Field[Line | Other]
    free: Field[Any] = Field(default=None)


EAST = timezone(timedelta(hours=1))
NEW_YEAR = datetime(2020, 1, 1, tzinfo=UTC)


def line(price: str, note: str | datetime = "n") -> Line:
    token = UUID("abcdef00-0000-0000-0000-000000000001")
    return Line(Decimal(price), NEW_YEAR, date(2020, 1, 1), time(9), b"abc", token, Tier.GOLD, note)


@pytest.fixture
def events() -> Iterator[EntityQuery[Event]]:
    click, view = Click(kind="click", who="bob", x=1), View(kind="view", who="al")
    deep = View(kind="view", who="cy", inner=Click(kind="click", who="di", x=7))
    with Ontology(":memory:", entity_types=[Event]) as onto:
        with onto.session() as s:
            s.ensure(
                [
                    Event(id="a", events=[click, view], last=click, line=line("5.00"), mixed="x", either=line("1")),
                    Event(id="b", events=[deep], last=deep, line=line("10", NEW_YEAR), mixed=3, either=Other("n")),
                    Event(id="c", events=[], last=None, line=line("-1"), mixed=NEW_YEAR, either=Other("m")),
                ]
            )
        yield onto.query().entities(Event)


def ids(query: EntityQuery[Event]) -> str:
    return "".join(one.id for one in query.order_by(Event.id))


E = Event.events
L = Event.line


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        (E.any_path("kind") == "click", "a"),
        (E.any_path("who").in_(["al", "cy"]), "ab"),
        (E.any_path("who") != "bob", "ab"),
        (E.any_path("inner.x") == 7, "b"),
        (E.any_path("inner.x").is_null(), "a"),
        (Event.last.path("who") == "bob", "a"),
        (Event.last.path("who") != "bob", "bc"),
        (Event.last.path("who").startswith("b"), "a"),
        (Event.last.path("inner")["x"] > 6, "b"),
        (Event.last.path("who").len_() == 3, "a"),
        (Event.last.is_null(), "c"),
        (E.len_() == 2, "a"),
        (Event.mixed.len_() == 1, "a"),
        (Event.mixed.in_(["x", 3]), "ab"),
        (Event.mixed == datetime(2020, 1, 1, 1, tzinfo=EAST), "c"),
        (Event.mixed.is_not_null(), "abc"),
        (Event.either.path("note") == "n", "ab"),
        (Event.either.path("price") == 1, "a"),
        (L.path("price") == 5, "a"),
        (L.path("price") == Decimal(5), "a"),
        (L.path("price").in_([5, 10.0]), "ab"),
        (L.path("price") > 1, "ab"),
        (L.path("price").between(Decimal(-1), 5.0), "ac"),
        (L.path("at") == datetime(2020, 1, 1, 1, tzinfo=EAST), "abc"),
        (L.path("at") > datetime(2020, 1, 1, tzinfo=EAST), "abc"),
        (L.path("at") <= "2020-01-01T01:00:00+01:00", "abc"),
        (L.path("day") >= date(2020, 1, 1), "abc"),
        (L.path("alarm") == time(10, tzinfo=EAST), "abc"),
        (L.path("raw") == b"abc", "abc"),
        (L.path("raw").len_() == 3, "abc"),
        (L.path("token") == "ABCDEF00-0000-0000-0000-000000000001", "abc"),
        (L.path("token") == UUID("abcdef00-0000-0000-0000-000000000001"), "abc"),
        (L.path("tier") == Tier.GOLD, "abc"),
        (L.path("note") == NEW_YEAR, "b"),
        (L.path("note") == "n", "ac"),
    ],
    ids=repr,
)
def test_conditions_inside_closed_types_mean_what_they_say(
    events: EntityQuery[Event], condition: Any, found: str
) -> None:
    assert ids(events.where(condition)) == found
    assert ids(events.where(~condition)) == "".join(sorted(set("abc") - set(found)))


def test_orders_groups_and_figures_see_no_tags(events: EntityQuery[Event]) -> None:
    assert [one.id for one in events.order_by(Event.mixed)] == ["b", "a", "c"]
    assert [one.id for one in events.order_by(L.path("price").desc())] == ["b", "a", "c"]
    assert events.group_by(Event.last.path("who")).agg(n=count()) == [
        {"last.who": "bob", "n": 1},
        {"last.who": "cy", "n": 1},
        {"last.who": None, "n": 1},
    ]
    assert [one["mixed"] for one in events.group_by(Event.mixed).agg(n=count())] == [3, "x", NEW_YEAR]
    price = L.path("price")
    assert events.agg(s=sum(price), m=max(price), a=avg(price), n=count_distinct(price)) == {
        "s": Decimal(14),
        "m": Decimal(10),
        "a": Decimal(14) / 3,
        "n": 3,
    }
    assert events.agg(first=min(L.path("at")), mixed=max(Event.mixed)) == {"first": NEW_YEAR, "mixed": NEW_YEAR}
    assert len(events.group_by(Event.id).having(max(price) > Decimal(4)).agg(n=count())) == 2
    assert len(events.group_by(Event.id).having(max(Event.mixed) == "x").agg(n=count())) == 1


def test_figures_are_copies_that_may_be_changed() -> None:
    with Ontology(":memory:", entity_types=[Event]) as onto:
        with onto.session() as s:
            s.ensure(
                Event(id="a", events=[], last=None, line=line("1"), mixed=1, either=Other("n"), free={"k": {"n": 1}})
            )
        query = onto.query().entities(Event)
        for _ in range(2):
            (group,) = query.group_by(Event.free["k"]).agg(m=max(Event.free["k"]))
            assert group == {"free.k": {"n": 1}, "m": {"n": 1}}
            group["free.k"]["n"] = group["m"]["n"] = 2


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: L.path("price") == "five", "compared with Decimal, not with str"),
        (lambda: L.path("at") == "soon", "compared with datetime, not with str"),
        (lambda: L.path("at") > date(2020, 1, 1), "compared with datetime, not with date"),
        (lambda: L.path("at").startswith("2020"), "is for text"),
        (lambda: L.path("tier") == "silver", "'gold'"),
        (lambda: E.any_path("kind") == "clic", "'click', 'view'"),
        (lambda: L.path("token") == "nonsense", "UUID"),
    ],
)
def test_what_could_never_hold_inside_a_closed_type_is_refused(ask: Any, words: str) -> None:
    with pytest.raises(QueryError) as caught:
        ask()
    assert words in str(caught.value)


def test_what_looks_like_a_tag_in_open_data_is_data() -> None:
    with Ontology(":memory:", entity_types=[Event]) as onto:
        odd = {"k": {"$type": "float", "$value": [1]}}
        with onto.session() as s:
            s.ensure(Event(id="a", events=[], last=None, line=line("1"), mixed=1, either=Other("n"), free=odd))
        query = onto.query().entities(Event)
        assert query.where(Event.free["k"] > 3).count() == 0
        assert query.where(Event.free["k"]["$value"].len_() == 1).count() == 1
        assert [one.id for one in query.order_by(Event.free["k"])] == ["a"]
