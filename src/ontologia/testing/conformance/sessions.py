"""Sessions and reconciliation, as every backend must do them.

Wanted state goes in, the difference comes out as one commit or none; a failure leaves both the store and the queue
as they were. What may be stored in a field is the subject of `values`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ontologia import (
    BatchSizeExceededError,
    DanglingEndpointError,
    ImportConflictError,
    InputError,
    OntologiaConfig,
    RowError,
    UnknownTypeError,
)
from ontologia.testing.conformance.world import (
    START,
    ConformanceSuite,
    Customer,
    OpenStore,
    Person,
    Product,
    Subscription,
    a_clock,
    keys,
    open_shop,
    put,
)


class SessionConformance(ConformanceSuite):
    """How wanted state becomes commits."""

    def test_an_empty_store_has_head_0(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        assert onto.head() == 0
        assert onto.list_commits() == []
        assert onto.query().entities(Customer).collect() == []

    def test_commit_ids_count_from_1_without_gaps(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        assert [put(onto, Customer(id="c1", name=f"Name {number}")) for number in range(3)] == [1, 2, 3]
        assert onto.head() == 3

    def test_one_object_a_list_and_a_generator_may_be_ensured(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        with onto.session() as session:
            session.ensure(Customer(id="a", name="A"))
            session.ensure([Customer(id="b", name="B"), Product(sku="p", title="P")])
            session.ensure(Customer(id=letter, name=letter) for letter in "cd")
        assert onto.head() == 1
        assert keys(onto.query().entities(Customer).order_by(Customer.id)) == ["a", "b", "c", "d"]
        assert onto.get_commit(1).counts == {"Customer": 4, "Product": 1}

    def test_leaving_the_block_commits(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        with onto.session() as session:
            session.ensure(Customer(id="c1", name="Alice"))
        assert onto.head() == 1

    def test_an_error_in_the_block_commits_nothing(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)

        def fail_halfway() -> None:
            with onto.session() as session:
                session.ensure(Customer(id="c1", name="Alice"))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail_halfway()
        assert onto.head() == 0

    def test_leaving_the_block_after_a_commit_makes_no_second_one(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        with onto.session() as session:
            session.ensure(Customer(id="c1", name="Alice"))
            assert session.commit() == 1
        assert onto.head() == 1

    def test_a_session_may_commit_several_times(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        with onto.session() as session:
            session.ensure(Customer(id="c1", name="Alice"))
            assert session.commit() == 1
            session.ensure(Customer(id="c1", name="Alicia"))
            assert session.commit() == 2
            assert session.commit() is None

    def test_an_unchanged_batch_makes_no_commit(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        things = (
            Customer(id="c1", name="Alice", profile={"b": [1, 2.5], "a": None}),
            Product(sku="p1", title="Pen"),
            Subscription(left_key="c1", right_key="p1", seats=3),
        )
        assert put(onto, *things) == 1
        assert put(onto, *things) is None
        assert onto.head() == 1

    def test_only_what_differs_is_written(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        put(onto, *(Customer(id=f"c{number}", name="Same") for number in range(5)))
        put(onto, *(Customer(id=f"c{number}", name="New" if number == 3 else "Same") for number in range(6)))
        assert onto.get_commit(2).counts == {"Customer": 2}
        assert [(change.key, change.op) for change in onto.changes(2)] == [("c3", "update"), ("c5", "insert")]

    def test_a_state_that_returns_is_a_new_version(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        for name in ("Alice", "Alicia", "Alice"):
            put(onto, Customer(id="c1", name=name))
        history = onto.query().entities(Customer).with_history().collect()
        assert [version.name for version in history] == ["Alice", "Alicia", "Alice"]

    def test_identities_that_are_not_named_stay_as_they_are(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        put(onto, Customer(id="c1", name="Alice"), Customer(id="c2", name="Bob"))
        put(onto, Customer(id="c2", name="Bobby"))
        found = onto.query().entities(Customer).get("c1")
        assert found == Customer(id="c1", name="Alice")
        assert found is not None
        assert found.meta().commit_id == 1

    def test_the_last_of_equal_identities_wins(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        put(onto, Customer(id="c1", name="First"), Customer(id="c2", name="Other"), Customer(id="c1", name="Last"))
        assert onto.get_commit(1).counts == {"Customer": 2}
        assert onto.query().entities(Customer).where(Customer.id == "c1").one().name == "Last"

    def test_the_last_wins_among_objects_and_tables(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        with onto.session() as session:
            session.ensure(Customer(id="c1", name="Object"))
            session.ensure_rows(Customer, [{"id": "c1", "name": "Row"}, {"id": "c2", "name": "Row"}])
            session.ensure(Customer(id="c2", name="Object"))
        named = {customer.id: customer.name for customer in onto.query().entities(Customer)}
        assert named == {"c1": "Row", "c2": "Object"}
        assert onto.get_commit(1).counts == {"Customer": 2}

    def test_the_last_of_equal_identities_in_a_table_wins(self, open_store: OpenStore) -> None:
        pa = pytest.importorskip("pyarrow")
        onto = open_shop(open_store)
        table = pa.table({"id": ["b", "a", "b", "a"], "name": ["1", "2", "3", "4"]})
        with onto.session() as session:
            assert session.ensure_rows(Customer, table) == 4
        assert {customer.id: customer.name for customer in onto.query().entities(Customer)} == {"a": "4", "b": "3"}

    def test_tables_frames_and_dicts_are_taken_in_bulk(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        columns: dict[str, list[Any]] = {"id": ["a", "b"], "name": ["A", "B"], "visits": [1, None]}
        pa = pytest.importorskip("pyarrow")
        table = pa.table(columns)
        forms = [table, table.to_batches(), table.to_reader(), table.to_pylist()]
        for number, form in enumerate(forms):
            with onto.session() as session:
                session.ensure_rows(Customer, form)
            assert onto.head() == 1, f"form {number} differs from the first"
        assert onto.query().entities(Customer).where(Customer.id == "b").one().visits is None

    @pytest.mark.parametrize("library", ["pandas", "polars"])
    def test_data_frames_are_taken_in_bulk(self, open_store: OpenStore, library: str) -> None:
        frames = pytest.importorskip(library)
        onto = open_shop(open_store)
        with onto.session() as session:
            session.ensure_rows(Product, frames.DataFrame({"sku": ["a", "b"], "title": ["A", "B"]}))
        assert keys(onto.query().entities(Product).order_by(Product.sku)) == ["a", "b"]

    def test_a_bad_row_is_named_and_nothing_is_queued(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        session = onto.session()
        rows: list[dict[str, Any]] = [{"id": "a", "name": "A"}, {"id": "b", "name": "B", "visits": "many"}]
        with pytest.raises(RowError) as caught:
            session.ensure_rows(Customer, rows)
        assert (caught.value.row, caught.value.column) == (1, "visits")
        assert session.commit() is None

    def test_more_rows_than_a_block_reconcile_as_a_few(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        rows: list[dict[str, Any]] = [{"id": f"k{number:06}", "title": "Same"} for number in range(0, 40000, 2)]
        with onto.session() as session:
            session.ensure_rows(Product, [{"sku": row["id"], "title": row["title"]} for row in rows])
        changed = {"k000000", "k016384", "k039998"}
        again = [{"sku": row["id"], "title": "New" if row["id"] in changed else "Same"} for row in rows]
        with onto.session() as session:
            session.ensure_rows(Product, [*again, {"sku": "k000001", "title": "Between"}])
        assert onto.get_commit(2).counts == {"Product": 4}
        assert {(change.key, change.op) for change in onto.changes(2)} == {
            *((key, "update") for key in changed),
            ("k000001", "insert"),
        }
        assert onto.query().entities(Product).count() == 20001
        assert onto.verify() == []

    def test_one_commit_holds_every_type_or_none(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store, check_endpoints=True)
        session = onto.session()
        session.ensure([Customer(id="c1", name="Alice"), Subscription(left_key="c1", right_key="p1", seats=1)])
        with pytest.raises(DanglingEndpointError):
            session.commit()
        assert onto.head() == 0
        assert onto.query().entities(Customer).collect() == []

    def test_a_failed_commit_keeps_the_queue(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store, check_endpoints=True)
        session = onto.session()
        session.ensure([Customer(id="c1", name="Alice"), Subscription(left_key="c1", right_key="p1", seats=1)])
        with pytest.raises(DanglingEndpointError):
            session.commit()
        session.ensure(Product(sku="p1", title="Pen"))
        assert session.commit() == 1
        assert onto.get_commit(1).counts == {"Customer": 1, "Product": 1, "Subscription": 1}

    def test_a_failed_commit_uses_up_no_id(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store, check_endpoints=True)
        put(onto, Customer(id="c1", name="Alice"))
        with pytest.raises(DanglingEndpointError):
            put(onto, Subscription(left_key="c1", right_key="nowhere", seats=1))
        assert put(onto, Customer(id="c1", name="Alicia")) == 2

    def test_checked_endpoints_may_come_in_the_same_commit(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store, check_endpoints=True)
        relation = Subscription(left_key="c1", right_key="p1", seats=1)
        assert put(onto, relation, Customer(id="c1", name="Alice"), Product(sku="p1", title="Pen")) == 1

    def test_a_missing_endpoint_is_named(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store, check_endpoints=True)
        put(onto, Customer(id="c1", name="Alice"))
        with pytest.raises(DanglingEndpointError, match="p9") as caught:
            put(onto, Subscription(left_key="c1", right_key="p9", seats=1))
        assert caught.value.key == "p9"

    def test_the_batch_limit_says_what_to_do(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store, config=OntologiaConfig(max_batch_size=2))
        session = onto.session()
        session.ensure(Customer(id=f"c{number}", name="N") for number in range(3))
        with pytest.raises(BatchSizeExceededError, match="max_batch_size") as caught:
            session.commit()
        assert (caught.value.rows, caught.value.limit) == (3, 2)
        assert onto.head() == 0
        assert put(onto, Customer(id="a", name="A"), Customer(id="b", name="B")) == 1

    def test_a_commit_carries_its_circumstances(self, open_store: OpenStore) -> None:
        clock = a_clock()
        onto = open_shop(open_store, clock=clock, config=OntologiaConfig(runtime_id="writer-a"))
        session = onto.session()
        session.ensure(Customer(id="c1", name="Alice"))
        session.commit(meta={"source": "crm", "ünïcode": "✓"})
        clock.set(START + timedelta(minutes=1))
        put(onto, Customer(id="c1", name="Alicia"))
        first, second = onto.get_commit(1), onto.get_commit(2)
        assert (first.runtime_id, first.metadata, first.created_at) == (
            "writer-a",
            {"source": "crm", "ünïcode": "✓"},
            START,
        )
        assert (first.parent_commit_id, second.parent_commit_id) == (None, 1)
        assert second.created_at == START + timedelta(minutes=1)
        assert len({first.commit_sha256, second.commit_sha256}) == 2

    def test_commit_times_never_go_back(self, open_store: OpenStore) -> None:
        clock = a_clock()
        onto = open_shop(open_store, clock=clock)
        put(onto, Customer(id="c1", name="Alice"))
        clock.set(START - timedelta(hours=1))
        put(onto, Customer(id="c1", name="Alicia"))
        assert onto.get_commit(2).created_at >= onto.get_commit(1).created_at

    @pytest.mark.parametrize("meta", [{"n": 1}, {1: "n"}, {"n": None}])
    def test_metadata_maps_text_to_text(self, open_store: OpenStore, meta: Any) -> None:
        session = open_shop(open_store).session()
        session.ensure(Customer(id="c1", name="Alice"))
        with pytest.raises(InputError):
            session.commit(meta=meta)
        assert session.commit() == 1

    def test_what_is_not_an_entity_or_relation_is_refused(self, open_store: OpenStore) -> None:
        session = open_shop(open_store).session()
        wrong: Any
        for wrong in ("c1", 5, Customer, [Customer(id="a", name="A"), "b"], None):
            with pytest.raises(InputError):
                session.ensure(wrong)

    def test_a_type_the_store_was_not_opened_with_is_refused(self, open_store: OpenStore) -> None:
        onto = open_store(entity_types=[Customer])
        with pytest.raises(UnknownTypeError, match="Person"):
            onto.session().ensure(Person(id="x"))
        with pytest.raises(UnknownTypeError, match="Person"):
            onto.session().ensure_rows(Person, [{"id": "x"}])

    def test_a_preview_counts_and_writes_nothing(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        put(onto, Customer(id="c1", name="Alice"), Customer(id="c2", name="Bob"))
        session = onto.session()
        session.ensure([Customer(id="c1", name="Alice"), Customer(id="c2", name="B"), Customer(id="c3", name="C")])
        counts = session.preview().types["Customer"]
        assert (counts.inserted, counts.updated, counts.unchanged) == (1, 1, 1)
        assert onto.head() == 1
        assert session.commit() == 2

    def test_existing_rows_may_be_skipped_or_refused(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        put(onto, Customer(id="c1", name="Alice"))
        rows = [{"id": "c1", "name": "Other"}, {"id": "c2", "name": "Bob"}]
        with pytest.raises(ImportConflictError), onto.session() as session:
            session.ensure_rows(Customer, rows, on_conflict="abort")
        assert onto.head() == 1
        with onto.session() as session:
            session.ensure_rows(Customer, rows, on_conflict="skip")
        assert {customer.name for customer in onto.query().entities(Customer)} == {"Alice", "Bob"}

    def test_a_session_asks_about_what_is_committed(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        session = onto.session()
        session.ensure(Customer(id="c1", name="Alice"))
        assert session.query().entities(Customer).count() == 0
        session.commit()
        assert session.query().entities(Customer).count() == 1

    def test_two_openings_of_a_store_see_each_other(self, open_store: OpenStore) -> None:
        first, second = open_shop(open_store), open_shop(open_store)
        put(first, Customer(id="c1", name="Alice"))
        assert second.head() == 1
        assert put(second, Customer(id="c1", name="Alice")) is None
        put(second, Product(sku="p1", title="Pen"))
        assert keys(first.query().entities(Product)) == ["p1"]
        put(first, Customer(id="c1", name="Alicia"))
        assert [commit.parent_commit_id for commit in second.list_commits()] == [2, 1, None]

    def test_what_was_committed_is_there_after_reopening(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        put(onto, Customer(id="c1", name="Alice", profile={"a": [1]}))
        onto.close()
        again = open_shop(open_store)
        assert again.head() == 1
        assert again.query().entities(Customer).get("c1") == Customer(id="c1", name="Alice", profile={"a": [1]})
