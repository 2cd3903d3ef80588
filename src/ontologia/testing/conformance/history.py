"""The commit log, changes, differences, blame, and the proof of it all, as every backend must give them.

A store that was only ever written through its own doors verifies clean; what it says of its past agrees with what
its windows show.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from ontologia import InputError, NotFoundError, Ontology
from ontologia.testing.conformance.world import (
    START,
    Company,
    ConformanceSuite,
    Customer,
    Employment,
    OpenStore,
    Person,
    Product,
    Subscription,
    a_clock,
    open_shop,
    put,
)


def a_past(open_store: OpenStore) -> Ontology:
    """Four commits of three types."""
    clock = a_clock()
    onto = open_shop(open_store, clock=clock)
    commits = [
        [Customer(id="a", name="Anna"), Customer(id="b", name="Bert"), Product(sku="p", title="Pen")],
        [Customer(id="a", name="Anna", tier="Gold"), Subscription(left_key="a", right_key="p", seats=1)],
        [Customer(id="c", name="Carl"), Subscription(left_key="a", right_key="p", seats=2)],
        [Customer(id="a", name="Anna"), Customer(id="b", name="Bertha", visits=3)],
    ]
    for things in commits:
        put(onto, *things)
        clock.set(clock.now() + timedelta(minutes=1))
    return onto


class HistoryConformance(ConformanceSuite):
    """How the past is told."""

    def test_commits_are_listed_newest_first(self, open_store: OpenStore) -> None:
        onto = a_past(open_store)
        assert [commit.commit_id for commit in onto.list_commits()] == [4, 3, 2, 1]
        assert [commit.commit_id for commit in onto.list_commits(limit=2)] == [4, 3]
        assert [commit.commit_id for commit in onto.list_commits(since=2)] == [4, 3]
        assert [commit.commit_id for commit in onto.list_commits(limit=1, since=1)] == [4]
        assert onto.list_commits(since=4) == []
        assert len(onto.list_commits(limit=10**30)) == 4
        assert onto.list_commits(since=10**30) == []

    def test_a_commit_says_all_about_itself(self, open_store: OpenStore) -> None:
        onto = a_past(open_store)
        commit = onto.get_commit(2)
        assert (commit.commit_id, commit.parent_commit_id) == (2, 1)
        assert commit.created_at == START + timedelta(minutes=1)
        assert commit.counts == {"Customer": 1, "Subscription": 1}
        assert len(commit.commit_sha256) == 64
        assert commit == onto.list_commits(limit=1, since=1)[0] or commit in onto.list_commits()

    @pytest.mark.parametrize("missing", [0, -1, 5, 10**30])
    def test_a_commit_that_is_not_there_is_not_found(self, open_store: OpenStore, missing: int) -> None:
        onto = a_past(open_store)
        with pytest.raises(NotFoundError):
            onto.get_commit(missing)
        with pytest.raises(NotFoundError):
            onto.changes(missing)

    def test_hashes_depend_on_all_that_came_before(self, open_store: OpenStore) -> None:
        onto = a_past(open_store)
        hashes = [commit.commit_sha256 for commit in onto.list_commits()]
        assert len(set(hashes)) == 4

    def test_changes_say_kind_type_keys_and_operation(self, open_store: OpenStore) -> None:
        onto = a_past(open_store)
        first = {(one.kind, one.type_name, one.key, one.op) for one in onto.changes(1)}
        assert first == {
            ("entity", "Customer", "a", "insert"),
            ("entity", "Customer", "b", "insert"),
            ("entity", "Product", "p", "insert"),
        }
        second = {(one.type_name, one.key, one.left_key, one.right_key, one.op) for one in onto.changes(2)}
        assert second == {
            ("Customer", "a", None, None, "update"),
            ("Subscription", None, "a", "p", "insert"),
        }
        third = {(one.type_name, one.key or one.left_key, one.op) for one in onto.changes(3)}
        assert third == {("Customer", "c", "insert"), ("Subscription", "a", "update")}

    def test_changes_of_keyed_relations_name_the_instance(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        put(onto, Employment(left_key="p", right_key=1, stint="s"))
        change = onto.changes(1)[0]
        assert (change.kind, change.left_key, change.right_key, change.instance_key) == ("relation", "p", "1", "s")

    def test_differences_name_key_before_and_after(self, open_store: OpenStore) -> None:
        onto = a_past(open_store)
        items = onto.diff(1, 4, Customer)
        assert [(item.key, item.before, item.after) for item in items] == [
            ("b", Customer(id="b", name="Bert"), Customer(id="b", name="Bertha", visits=3)),
            ("c", None, Customer(id="c", name="Carl")),
        ]

    def test_a_difference_runs_both_ways(self, open_store: OpenStore) -> None:
        onto = a_past(open_store)
        forwards = onto.diff(1, 3, Customer)
        backwards = onto.diff(3, 1, Customer)
        assert [(one.key, one.after, one.before) for one in forwards] == [tuple(one) for one in backwards]
        assert onto.diff(2, 2, Customer) == []
        assert [one.key for one in onto.diff(0, 1, Customer)] == ["a", "b"]

    def test_differences_of_relations_name_both_keys(self, open_store: OpenStore) -> None:
        onto = a_past(open_store)
        item = onto.diff(2, 3, Subscription)[0]
        assert item.key == ("a", "p")
        assert (item.before.seats, item.after.seats) == (1, 2)

    def test_differences_of_all_types(self, open_store: OpenStore) -> None:
        onto = a_past(open_store)
        assert {(type(item.after).__name__, item.key) for item in onto.diff(2, 3)} == {
            ("Customer", "c"),
            ("Subscription", ("a", "p")),
        }

    def test_blame_names_the_commit_of_each_present_value(self, open_store: OpenStore) -> None:
        onto = a_past(open_store)
        anna = onto.blame(Customer, "a")
        assert anna["name"] == 1
        assert anna["tier"] == 4
        bert = onto.blame(Customer, "b")
        assert (bert["id"], bert["name"], bert["visits"], bert["email"]) == (1, 4, 4, 1)
        assert onto.blame(Subscription, ("a", "p"))["seats"] == 3

    def test_blame_of_what_is_not_there_is_not_found(self, open_store: OpenStore) -> None:
        onto = a_past(open_store)
        with pytest.raises(NotFoundError):
            onto.blame(Customer, "nobody")
        with pytest.raises(InputError):
            onto.blame(Subscription, "a")
        with pytest.raises(NotFoundError):
            onto.blame(Person, "never written")

    def test_blame_of_keyed_relations_takes_three_keys(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        put(onto, Employment(left_key="p", right_key=1, stint="s"), Employment(left_key="p", right_key=1, stint="t"))
        put(onto, Employment(left_key="p", right_key=1, stint="t", pay=1))
        assert onto.blame(Employment, ("p", 1, "s"))["pay"] == 1
        assert onto.blame(Employment, ("p", 1, "t"))["pay"] == 2

    def test_a_store_that_was_only_written_verifies_clean(self, open_store: OpenStore) -> None:
        assert a_past(open_store).verify() == []
        assert open_shop(open_store).verify() == []

    def test_dangling_ends_are_warnings(self, open_store: OpenStore) -> None:
        onto = a_past(open_store)
        put(onto, Subscription(left_key="ghost", right_key="p", seats=1))
        findings = onto.verify()
        assert [finding.severity for finding in findings] == ["warning"]
        assert "ghost" in findings[0].message
        put(onto, Customer(id="ghost", name="Boo"))
        assert onto.verify() == []

    def test_an_end_whose_type_was_never_written_dangles(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        put(onto, Employment(left_key="p", right_key=1, stint="s"))
        assert [finding.severity for finding in onto.verify()] == ["warning", "warning"]
        put(onto, Person(id="p"), Company(number=1))
        assert onto.verify() == []

    def test_verification_tells_how_far_it_is(self, open_store: OpenStore) -> None:
        steps: list[tuple[int, int]] = []
        a_past(open_store).verify(lambda done, total: steps.append((done, total)))
        assert steps[-1] == (4, 4)

    def test_the_backend_describes_itself(self, open_store: OpenStore) -> None:
        info = a_past(open_store).storage_info()
        assert info["backend"]
        assert info["uri"]
        assert info["format"] >= 1
