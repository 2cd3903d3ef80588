"""Windows of time, as every backend must show them: latest, as of a commit or a moment, and history in its one order.

Everything here happens within one schema version; what migrations do to the past is the subject of `schema`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from ontologia import Ontology
from ontologia.testing.conformance.world import (
    START,
    ConformanceSuite,
    OpenStore,
    Person,
    Product,
    a_clock,
    keys,
    open_shop,
    put,
)

STATES: list[dict[str, str]] = [{"b": "b1", "a": "a1"}, {"a": "a2", "c": "c2"}, {"b": "b3"}, {"a": "a4", "b": "b4"}]
"""What each commit writes, by key; between the second and the third comes one of another type."""
COMMITS = (1, 2, 4, 5)
VERSIONS = [(1, "a1"), (1, "b1"), (2, "a2"), (2, "c2"), (4, "b3"), (5, "a4"), (5, "b4")]


def lives(open_store: OpenStore) -> Ontology:
    """Five commits, one minute after another."""
    clock = a_clock()
    onto = open_shop(open_store, clock=clock)
    for number, state in enumerate(STATES):
        if number == 2:
            put(onto, Product(sku="p", title="Other"))
            clock.set(clock.now() + timedelta(minutes=1))
        put(onto, *(Person(id=key, name=name) for key, name in state.items()))
        clock.set(clock.now() + timedelta(minutes=1))
    return onto


def state_at(commit: int) -> dict[str, str]:
    """What people are called after a commit."""
    return {key: name for at, state in zip(COMMITS, STATES, strict=True) if at <= commit for key, name in state.items()}


class TimeConformance(ConformanceSuite):
    """How the past is shown."""

    @pytest.mark.parametrize("commit", [-5, 0, 1, 2, 3, 4, 5, 6, 10**12, 10**30])
    def test_as_of_shows_the_last_version_up_to_a_commit(self, open_store: OpenStore, commit: int) -> None:
        query = lives(open_store).query().entities(Person).as_of(commit)
        assert {person.id: person.name for person in query} == state_at(commit)
        assert query.count() == len(state_at(commit))
        found = query.get("b")
        assert (found.name if found is not None else None) == state_at(commit).get("b")

    def test_latest_is_as_of_the_head(self, open_store: OpenStore) -> None:
        query = lives(open_store).query().entities(Person).order_by(Person.id)
        assert query.collect() == query.as_of(5).collect() == query.as_of(99).collect()

    def test_history_shows_every_version_in_order_of_commit_and_key(self, open_store: OpenStore) -> None:
        history = lives(open_store).query().entities(Person).with_history().collect()
        assert [(one.meta().commit_id, one.name) for one in history] == VERSIONS

    @pytest.mark.parametrize("since", [-3, 0, 1, 2, 3, 4, 5, 9])
    def test_history_since_leaves_out_the_commit_itself(self, open_store: OpenStore, since: int) -> None:
        history = lives(open_store).query().entities(Person).history_since(since)
        assert [(one.meta().commit_id, one.name) for one in history] == [one for one in VERSIONS if one[0] > since]

    @pytest.mark.parametrize(("first", "last"), [(1, 1), (1, 2), (2, 4), (3, 3), (0, 9), (-2, 1), (4, 2), (6, 9)])
    def test_between_has_both_commits(self, open_store: OpenStore, first: int, last: int) -> None:
        history = lives(open_store).query().entities(Person).between(first, last)
        assert [(one.meta().commit_id, one.name) for one in history] == [
            one for one in VERSIONS if first <= one[0] <= last
        ]
        assert history.count() == len([one for one in VERSIONS if first <= one[0] <= last])

    def test_history_of_one_key(self, open_store: OpenStore) -> None:
        query = lives(open_store).query().entities(Person).with_history().where(Person.id == "a")
        assert [(one.meta().commit_id, one.name) for one in query] == [(1, "a1"), (2, "a2"), (5, "a4")]

    def test_history_may_be_sorted_otherwise(self, open_store: OpenStore) -> None:
        query = lives(open_store).query().entities(Person).with_history()
        names = [one.name for one in query.order_by(Person.name.desc())]
        assert names == sorted((name for _, name in VERSIONS), reverse=True)

    def test_ties_of_a_sorted_history_keep_its_order(self, open_store: OpenStore) -> None:
        query = lives(open_store).query().entities(Person).with_history().order_by(Person.id)
        assert [(one.id, one.meta().commit_id) for one in query] == [
            ("a", 1),
            ("a", 2),
            ("a", 5),
            ("b", 1),
            ("b", 4),
            ("b", 5),
            ("c", 2),
        ]

    def test_history_of_many_rows_in_one_commit_is_in_key_order(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        names = [f"{number * 7919 % 1000:04}" for number in range(1000)]
        put(onto, *(Person(id=name) for name in names))
        put(onto, *(Person(id=name, name="x") for name in names[::3]))
        found = [(one.meta().commit_id, one.id) for one in onto.query().entities(Person).with_history()]
        assert found == [(1, name) for name in sorted(names)] + [(2, name) for name in sorted(names[::3])]

    def test_as_of_a_moment_is_the_last_commit_up_to_it(self, open_store: OpenStore) -> None:
        onto = lives(open_store)
        query = onto.query().entities(Person)
        for commit in range(1, 6):
            moment = onto.get_commit(commit).created_at
            exactly = {person.id: person.name for person in query.as_of(moment)}
            just_before = {person.id: person.name for person in query.as_of(moment - timedelta(microseconds=1))}
            just_after = {person.id: person.name for person in query.as_of(moment + timedelta(microseconds=1))}
            assert exactly == just_after == state_at(commit)
            assert just_before == state_at(commit - 1)

    def test_as_of_a_moment_before_the_first_commit_is_empty(self, open_store: OpenStore) -> None:
        query = lives(open_store).query().entities(Person)
        assert query.as_of(START - timedelta(days=1)).collect() == []
        assert query.as_of(datetime(1, 1, 1, tzinfo=UTC)).count() == 0
        assert query.as_of(datetime(9999, 1, 1, tzinfo=UTC)).count() == 3

    def test_a_moment_is_an_instant_whatever_its_offset(self, open_store: OpenStore) -> None:
        query = lives(open_store).query().entities(Person).order_by(Person.id)
        moment = START.astimezone(timezone(timedelta(hours=-7)))
        assert keys(query.as_of(moment)) == ["a", "b"]

    def test_commits_of_one_moment_are_all_included(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store, clock=a_clock())
        for name in ("first", "second", "third"):
            put(onto, Person(id="a", name=name))
        assert onto.query().entities(Person).as_of(START).one().name == "third"

    def test_a_window_stays_where_it_is_when_commits_follow(self, open_store: OpenStore) -> None:
        onto = lives(open_store)
        query = onto.query().entities(Person)
        before = [query.as_of(2).order_by(Person.id).collect(), query.between(1, 4).collect()]
        put(onto, *(Person(id=key, name="new") for key in "abcd"))
        assert [query.as_of(2).order_by(Person.id).collect(), query.between(1, 4).collect()] == before

    def test_rows_of_the_past_are_raw_and_in_order(self, open_store: OpenStore) -> None:
        rows = list(lives(open_store).query().entities(Person).history_since(2).rows())
        assert rows == [
            {"id": "b", "name": "b3", "commit_id": 4, "schema_version_id": 1},
            {"id": "a", "name": "a4", "commit_id": 5, "schema_version_id": 1},
            {"id": "b", "name": "b4", "commit_id": 5, "schema_version_id": 1},
        ]
