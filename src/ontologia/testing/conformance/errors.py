"""Mistakes and refusals that every backend must meet in the same way.

Each one has its own class under `OntologiaError`, changes nothing, and leaves the store as usable as before. What
can go wrong with one kind of storage only is tested with that backend.
"""

from __future__ import annotations

from typing import Any

import pytest

from ontologia import ConfigError, InputError, OntologiaError, QueryError, UninitializedStorageError, UnknownTypeError
from ontologia.testing.conformance.world import (
    Account,
    AccountWithCurrency,
    ConformanceSuite,
    Customer,
    OpenStore,
    Product,
    open_shop,
    put,
)


class ErrorConformance(ConformanceSuite):
    """How mistakes are met."""

    def test_a_store_that_must_exist_and_does_not_is_an_error(self, open_store: OpenStore) -> None:
        with pytest.raises(UninitializedStorageError):
            open_shop(open_store, create=False)
        with pytest.raises(UninitializedStorageError):
            open_shop(open_store, read_only=True)

    def test_a_store_that_exists_opens_without_being_created(self, open_store: OpenStore) -> None:
        put(open_shop(open_store), Customer(id="a", name="A"))
        assert open_shop(open_store, create=False).head() == 1

    def test_a_read_only_store_answers_and_refuses_to_write(self, open_store: OpenStore) -> None:
        put(open_shop(open_store), Customer(id="a", name="A"))
        onto = open_shop(open_store, read_only=True)
        assert onto.query().entities(Customer).get("a") == Customer(id="a", name="A")
        assert onto.verify() == []
        assert onto.migrate().is_empty
        with pytest.raises(OntologiaError):
            put(onto, Customer(id="b", name="B"))
        with pytest.raises(OntologiaError):
            put(onto, Product(sku="p", title="P"))
        assert onto.head() == 1

    def test_two_classes_of_one_name_are_refused(self, open_store: OpenStore) -> None:
        with pytest.raises(ConfigError, match="Account"):
            open_store(entity_types=[Account, AccountWithCurrency])

    def test_types_must_be_classes_of_entities_and_relations(self, open_store: OpenStore) -> None:
        wrong: Any
        for wrong in (int, "Customer", Customer(id="a", name="A")):
            with pytest.raises(ConfigError):
                open_store(entity_types=[wrong])

    def test_questions_need_classes_of_the_right_kind(self, open_store: OpenStore) -> None:
        query: Any = open_shop(open_store).query()
        for make in (
            lambda: query.entities("Customer"),
            lambda: query.entities(Customer(id="a", name="A")),
            lambda: query.relations(Customer),
        ):
            with pytest.raises(QueryError):
                make()

    def test_dropping_what_is_not_there_is_an_error(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        with pytest.raises(UnknownTypeError, match="Nothing"):
            onto.drop_type("entity", "Nothing")
        with pytest.raises(InputError):
            onto.drop_type("thing", "Customer")

    def test_an_unknown_bulk_column_is_an_error_that_lists_the_known_ones(self, open_store: OpenStore) -> None:
        session = open_shop(open_store).session()
        with pytest.raises(InputError, match="title"):
            session.ensure_rows(Product, [{"sku": "a", "titel": "A"}])

    @pytest.mark.parametrize(
        "row",
        [{"sku": "a"}, {"title": "A"}, {"sku": "", "title": "A"}, {"sku": None, "title": "A"}, {"sku": 1, "title": 2}],
    )
    def test_a_bulk_row_that_is_not_valid_is_an_error(self, open_store: OpenStore, row: dict[str, Any]) -> None:
        onto = open_shop(open_store)
        with pytest.raises(InputError):
            onto.session().ensure_rows(Product, [row])
        assert onto.head() == 0

    def test_every_error_is_one_sentence_with_a_kind(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        with pytest.raises(OntologiaError) as caught:
            onto.get_commit(99)
        assert caught.value.kind == "not-found"
        assert caught.value.to_dict()["kind"] == "not-found"
        assert caught.value.message.endswith(".")
