"""Questions about entities, as every backend must answer them: operators, logic, order, slices, streams.

Logic is two-valued everywhere, so each condition is checked together with its complement and in every window.
Windows themselves are the subject of `time`.
"""

from __future__ import annotations

from typing import Any

import pytest

from ontologia import NotFoundError, Ontology, QueryError
from ontologia.query.predicates import Predicate
from ontologia.testing.conformance.world import (
    START,
    ConformanceSuite,
    Customer,
    OpenStore,
    Person,
    Sale,
    Sample,
    a_clock,
    keys,
    open_shop,
    put,
)

PEOPLE: list[dict[str, Any]] = [
    {"id": "a", "name": "Anna", "tier": "Gold", "visits": 3, "email": "anna@x.org", "profile": {"age": 30}},
    {"id": "b", "name": "bert", "tier": "Gold", "visits": None, "profile": {"age": 30.5, "home": {"city": "Rome"}}},
    {"id": "c", "name": "Carl", "visits": 0, "email": "CARL@X.ORG", "active": False, "profile": {"age": "30"}},
    {"id": "d", "name": "%nn_", "tier": "", "visits": -5, "email": "", "profile": {"age": None, "home": "Rome"}},
    {
        "id": "e",
        "name": "Anna\nMaria",
        "visits": 10,
        "profile": {"events": [{"kind": "click", "n": 1}, {"kind": "view"}], "vip": True},
    },
    {"id": "f", "name": "Ärmel", "visits": 2, "profile": {"events": [], "vip": False, "home": {"city": None}}},
]

CONDITIONS: list[tuple[Predicate, str]] = [
    (Customer.tier == "Gold", "ab"),
    (Customer.tier != "Gold", "cdef"),
    (Customer.tier == "", "d"),
    (Customer.visits == 0, "c"),
    (Customer.visits != 0, "abdef"),
    (Customer.visits < 3, "cdf"),
    (Customer.visits <= 3, "acdf"),
    (Customer.visits > 2, "ae"),
    (Customer.visits >= 2, "aef"),
    (Customer.visits > 2.5, "ae"),
    (Customer.visits.between(0, 3), "acf"),
    (Customer.visits.between(3, 0), ""),
    (Customer.visits.in_([3, 0, 99]), "ac"),
    (Customer.visits.in_([]), ""),
    (Customer.visits.not_in([3, 0]), "bdef"),
    (Customer.visits.not_in([]), "abcdef"),
    (Customer.visits.is_null(), "b"),
    (Customer.visits.is_not_null(), "acdef"),
    (Customer.email.is_null(), "bef"),
    (Customer.active.is_true(), "abdef"),
    (Customer.active.is_false(), "c"),
    (Customer.name.startswith("An"), "ae"),
    (Customer.name.startswith("an"), ""),
    (Customer.name.startswith(""), "abcdef"),
    (Customer.name.startswith("%"), "d"),
    (Customer.name.endswith("a"), "ae"),
    (Customer.email.endswith("g"), "a"),
    (Customer.email.startswith("a"), "a"),
    (Customer.name.contains("nn"), "ade"),
    (Customer.name.contains("_"), "d"),
    (Customer.name.contains("NN"), ""),
    (Customer.name.icontains("NN"), "ade"),
    (Customer.name.icontains("ÄR"), "f"),
    (Customer.email.icontains("X.org"), "ac"),
    (Customer.email.contains("x"), "a"),
    (Customer.name.matches("^An+a$"), "a"),
    (Customer.name.matches("n.*M"), ""),
    (Customer.name.matches("(?s)n.*M"), "e"),
    (Customer.email.matches("(?i)carl|anna"), "ac"),
    (Customer.name.len_() == 4, "abcd"),
    (Customer.email.len_() == 0, "d"),
    (Customer.email.len_() < 100, "acd"),
    (Customer.profile["age"] == 30, "a"),
    (Customer.profile["age"] == "30", "c"),
    (Customer.profile["age"] >= 30, "ab"),
    (Customer.profile["age"] != 30, "bcdef"),
    (Customer.profile["age"].is_null(), "def"),
    (Customer.profile["age"].is_not_null(), "abc"),
    (Customer.profile.path("home.city") == "Rome", "b"),
    (Customer.profile["home"]["city"].is_null(), "acdef"),
    (Customer.profile["home"] == "Rome", "d"),
    (Customer.profile["vip"].is_true(), "e"),
    (Customer.profile["vip"].is_false(), "f"),
    (Customer.profile.path("events").any_path("kind") == "click", "e"),
    (Customer.profile["events"].any_path("kind").in_(["click", "tap"]), "e"),
    (Customer.profile["events"].any_path("kind") != "click", "e"),
    (Customer.profile["events"].any_path("n").is_null(), "e"),
    (Customer.profile["events"].any_path("n") > 1, ""),
    (Customer.profile["events"].len_() == 2, "e"),
    (Customer.profile.len_() == 1, "ac"),
    ((Customer.tier == "Gold") & (Customer.visits > 1), "a"),
    ((Customer.tier == "Gold") | (Customer.visits > 1), "abef"),
    ((Customer.tier == "Gold") & ~Customer.visits.is_null(), "a"),
    (~((Customer.visits > 1) | (Customer.visits < 0)), "bc"),
    (~(Customer.visits > 1) & ~(Customer.visits <= 1), "b"),
    (~~(Customer.visits == 3), "a"),
]


def people(open_store: OpenStore, **options: Any) -> Ontology:
    """A store in which every customer was changed once, so that live and past rows both exist."""
    onto = open_shop(open_store, **options)
    put(onto, *(Customer(**row) for row in PEOPLE))
    later: dict[str, Any] = {"name": "later", "visits": 1000, "email": "e", "profile": {}}
    put(onto, *(Customer(**(row | later)) for row in PEOPLE))
    put(onto, *(Customer(**row) for row in PEOPLE))
    return onto


class QueryConformance(ConformanceSuite):
    """How questions about entities are answered."""

    @pytest.mark.parametrize("number", range(len(CONDITIONS)))
    def test_a_condition_and_its_complement_share_out_all_rows(self, open_store: OpenStore, number: int) -> None:
        condition, expected = CONDITIONS[number]
        onto = people(open_store)
        others = "".join(sorted(set("abcdef") - set(expected)))
        query = onto.query().entities(Customer)
        windows = [query, query.as_of(1), query.as_of(3), query.between(1, 1), query.history_since(2)]
        for window in windows:
            assert "".join(sorted(keys(window.where(condition)))) == expected, f"{condition!r} in {window!r}"
            assert "".join(sorted(keys(window.where(~condition)))) == others, f"~{condition!r} in {window!r}"
            assert window.where(condition).count() == len(expected)
        history = query.with_history()
        assert len(history.where(condition).collect()) + len(history.where(~condition).collect()) == 18

    def test_conditions_add_up(self, open_store: OpenStore) -> None:
        query = people(open_store).query().entities(Customer)
        assert keys(query.where(Customer.tier == "Gold").where(Customer.visits == 3)) == ["a"]
        assert keys(query.where(Customer.tier == "Gold", Customer.visits == 3)) == ["a"]

    def test_builders_are_immutable(self, open_store: OpenStore) -> None:
        query = people(open_store).query().entities(Customer)
        query.where(Customer.id == "a")
        query.limit(1)
        query.as_of(0)
        query.order_by(Customer.name)
        assert query.count() == 6

    def test_null_sorts_last_both_ways(self, open_store: OpenStore) -> None:
        query = people(open_store).query().entities(Customer)
        assert keys(query.order_by(Customer.visits)) == ["d", "c", "f", "a", "e", "b"]
        assert keys(query.order_by(Customer.visits.desc())) == ["e", "a", "f", "c", "d", "b"]
        assert keys(query.as_of(1).order_by(Customer.visits.desc())) == ["e", "a", "f", "c", "d", "b"]
        assert keys(query.order_by(Customer.profile["home"]["city"], Customer.id)) == ["b", "a", "c", "d", "e", "f"]

    def test_several_sort_criteria_count_in_order(self, open_store: OpenStore) -> None:
        query = people(open_store).query().entities(Customer)
        assert keys(query.order_by(Customer.tier, Customer.id.desc())) == ["d", "b", "a", "f", "e", "c"]
        assert keys(query.order_by(Customer.tier).order_by(Customer.id.desc())) == ["d", "b", "a", "f", "e", "c"]

    def test_limit_and_offset_cut_the_sorted_rows(self, open_store: OpenStore) -> None:
        query = people(open_store).query().entities(Customer).order_by(Customer.id)
        assert keys(query.limit(2)) == ["a", "b"]
        assert keys(query.limit(2).offset(3)) == ["d", "e"]
        assert keys(query.offset(4)) == ["e", "f"]
        assert keys(query.limit(0)) == []
        assert keys(query.offset(100)) == []
        assert keys(query.where(Customer.visits > 0).limit(1).offset(1)) == ["e"]

    def test_limit_and_offset_cut_every_window(self, open_store: OpenStore) -> None:
        onto = people(open_store)
        windows = [onto.query().entities(Customer), onto.query().entities(Customer).as_of(2)]
        windows += [onto.query().entities(Customer).with_history(), onto.query().entities(Customer).between(2, 3)]
        for window in windows:
            everything = [(one.meta().commit_id, one.id) for one in window]
            sliced = [(one.meta().commit_id, one.id) for one in window.limit(4).offset(1)]
            assert sliced == everything[1:5], f"{window!r}"
            assert window.limit(4).offset(1).count() == len(sliced)

    def test_pages_without_an_order_never_repeat_or_leave_out(self, open_store: OpenStore) -> None:
        query = people(open_store).query().entities(Customer)
        pages = [key for start in range(0, 6, 2) for key in keys(query.limit(2).offset(start))]
        assert sorted(pages) == list("abcdef")

    def test_get_first_one_count_and_exists(self, open_store: OpenStore) -> None:
        query = people(open_store).query().entities(Customer)
        found = query.get("a")
        assert found is not None
        assert found.name == "Anna"
        assert query.get("nobody") is None
        assert query.where(Customer.tier == "Gold").get("c") is None
        first = query.order_by(Customer.id.desc()).first()
        assert first is not None
        assert first.id == "f"
        assert query.where(Customer.id == "zzz").first() is None
        assert query.where(Customer.id == "b").one().id == "b"
        assert (query.count(), query.where(Customer.visits > 2).count()) == (6, 2)
        assert query.where(Customer.id == "a").exists()
        assert not query.where(Customer.id == "zzz").exists()

    def test_one_refuses_none_and_many(self, open_store: OpenStore) -> None:
        query = people(open_store).query().entities(Customer)
        with pytest.raises(NotFoundError, match="no row"):
            query.where(Customer.id == "zzz").one()
        with pytest.raises(NotFoundError, match="more than one"):
            query.one()

    def test_count_honours_limit_and_offset(self, open_store: OpenStore) -> None:
        query = people(open_store).query().entities(Customer)
        assert query.limit(4).count() == 4
        assert query.limit(4).offset(4).count() == 2
        assert query.with_history().limit(10).offset(3).count() == 10
        assert not query.limit(0).exists()

    def test_iteration_streams_what_was_there_when_it_began(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        put(onto, *(Person(id=f"{number:05}", name="old") for number in range(10000)))
        stream = iter(onto.query().entities(Person).order_by(Person.id))
        seen = [next(stream) for _ in range(10)]
        put(onto, *(Person(id=f"{number:05}", name="new") for number in range(10500)))
        seen += list(stream)
        assert len(seen) == 10000
        assert {person.name for person in seen} == {"old"}
        assert onto.query().entities(Person).where(Person.name == "new").count() == 10500

    def test_a_stream_may_be_left_early(self, open_store: OpenStore) -> None:
        onto = people(open_store)
        for _ in range(50):
            assert next(iter(onto.query().entities(Customer))) is not None
        assert put(onto, Customer(id="new", name="New")) == 4

    def test_results_know_where_they_come_from(self, open_store: OpenStore) -> None:
        onto = people(open_store, clock=a_clock())
        put(onto, Customer(id="a", name="Again"))
        meta = onto.query().entities(Customer).where(Customer.id == "a").one().meta()
        assert (meta.commit_id, meta.type_name, meta.key, meta.committed_at) == (4, "Customer", "a", START)
        assert (meta.left_key, meta.right_key, meta.instance_key) == (None, None, None)
        history = onto.query().entities(Customer).with_history().where(Customer.id == "a")
        assert [version.meta().commit_id for version in history] == [1, 2, 3, 4]
        then = onto.query().entities(Customer).as_of(2).get("b")
        assert then is not None
        assert then.meta().commit_id == 2

    def test_what_was_read_is_equal_to_what_was_written(self, open_store: OpenStore) -> None:
        found = people(open_store).query().entities(Customer).order_by(Customer.id).collect()
        assert found == [Customer(**row) for row in PEOPLE]

    def test_rows_are_plain_dicts(self, open_store: OpenStore) -> None:
        onto = people(open_store)
        rows = list(onto.query().entities(Customer).where(Customer.id == "b").rows())
        assert len(rows) == 1
        assert rows[0]["profile"] == {"age": 30.5, "home": {"city": "Rome"}}
        assert rows[0]["visits"] is None
        assert (rows[0]["commit_id"], rows[0]["schema_version_id"]) == (3, 1)

    def test_arrow_tables_hold_the_same_rows(self, open_store: OpenStore) -> None:
        pytest.importorskip("pyarrow")
        query = people(open_store).query().entities(Customer).where(Customer.visits > 0).order_by(Customer.visits)
        table = query.to_arrow()
        assert table.column("id").to_pylist() == ["f", "a", "e"]
        assert table.column("visits").to_pylist() == [2, 3, 10]
        assert query.limit(0).to_arrow().num_rows == 0
        assert query.limit(0).to_arrow().schema.equals(table.schema)

    def test_arrow_tables_of_the_past_say_when(self, open_store: OpenStore) -> None:
        pytest.importorskip("pyarrow")
        table = people(open_store).query().entities(Customer).where(Customer.id == "a").with_history().to_arrow()
        assert table.column("commit_id").to_pylist() == [1, 2, 3]
        assert table.column("visits").to_pylist() == [3, 1000, 3]

    @pytest.mark.parametrize("wrong", [None, True, False])
    def test_comparing_with_none_or_a_bool_is_a_type_error_with_a_hint(self, wrong: Any) -> None:
        with pytest.raises(TypeError, match="is_"):
            assert Customer.email == wrong

    def test_a_typing_error_in_a_field_is_found_before_anything_is_read(self, open_store: OpenStore) -> None:
        anything: Any = Customer
        with pytest.raises(AttributeError):
            _ = anything.teir == "Gold"
        with pytest.raises(QueryError, match="city"):
            _ = Sample.place["town"]
        query = people(open_store).query().entities(Customer)
        with pytest.raises(QueryError, match="Person"):
            query.where(Person.name == "x")
        with pytest.raises(QueryError):
            query.order_by(Sale.year)

    def test_a_literal_of_the_wrong_class_is_an_error(self) -> None:
        for make in (
            lambda: Customer.visits == "3",
            lambda: Customer.name == 3,
            lambda: Customer.name.startswith(3),  # pyright: ignore[reportArgumentType]
            lambda: Customer.visits.startswith("3"),
            lambda: Customer.name.matches("("),
            lambda: Customer.visits.in_("3"),
        ):
            with pytest.raises((QueryError, TypeError)):
                make()

    def test_slices_and_windows_that_make_no_sense_are_errors(self, open_store: OpenStore) -> None:
        query: Any = people(open_store).query().entities(Customer)
        for make in (
            lambda: query.limit(-1),
            lambda: query.offset(-1),
            lambda: query.limit("2"),
            lambda: query.as_of("yesterday"),
            lambda: query.as_of(1).with_history(),
            lambda: query.where("tier == 'Gold'"),
            lambda: query.where(True),
            lambda: query.get("\ud800"),
            lambda: query.get(None),
        ):
            with pytest.raises(QueryError):
                make()

    def test_a_type_that_was_never_written_is_empty(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        query = onto.query().entities(Sale)
        assert query.collect() == []
        assert query.where(Sale.year > 1).order_by(Sale.year).as_of(3).collect() == []
        assert query.count() == 0
        assert query.get("x") is None
        assert list(query.with_history().rows()) == []

    def test_a_query_explains_itself(self, open_store: OpenStore) -> None:
        query = people(open_store).query().entities(Customer).where(Customer.tier == "Gold")
        explanation = query.explain()
        assert str(explanation)
        assert query.to_sql() == explanation.sql

    def test_deep_and_wide_conditions_are_answered(self, open_store: OpenStore) -> None:
        query = people(open_store).query().entities(Customer)
        condition = Customer.id == "a"
        for number in range(500):
            condition = ~(~condition & (Customer.visits != number + 5000))
        assert keys(query.where(condition)) == ["a"]
        assert query.where(Customer.visits.in_(range(3000))).count() == 4
