"""The past across schema changes, and types that are forgotten, as every backend must show them.

A window that reaches before a migration gives today's type or an error that says what is missing; never less than
was asked for. Raw reads give every row in its own version.
"""

from __future__ import annotations

from typing import Any

import pytest

import ontologia
from ontologia import Field, Ontology, RefusedError, Relation, SchemaBoundaryError, left, upgrader
from ontologia.testing.conformance.schema import accounts, migrated
from ontologia.testing.conformance.world import (
    Account,
    AccountInCents,
    AccountWithCurrency,
    AccountWithOwners,
    Company,
    ConformanceSuite,
    Customer,
    Employment,
    OpenStore,
    Person,
    Product,
    Subscription,
    balance_in_cents,
    keys,
    open_shop,
    owner_as_list,
    put,
)


def three_versions(open_store: OpenStore, *upgraders: Any) -> Ontology:
    """Commits 1-2 in version 1, 3-4 in version 2, 5-6 in version 3; opened with these upgraders."""
    accounts(open_store)
    second = migrated(open_store, AccountWithCurrency)
    put(second, AccountWithCurrency(id="b", owner="Bert", balance=20, currency="USD"))
    third = migrated(open_store, AccountInCents, balance_in_cents)
    put(third, AccountInCents(id="c", owner="Carl", cents=5))
    return open_store(entity_types=[AccountInCents], upgraders=upgraders)


class Holder(Relation[Person, Account]):
    """Joins people to accounts of version 1."""


class HolderInCents(Relation[Person, AccountInCents], name="Holder"):
    """Joins people to accounts of version 3."""


class BoundaryConformance(ConformanceSuite):
    """How the past reads after the present has changed its shape."""

    def test_old_windows_come_through_the_upgraders(self, open_store: OpenStore) -> None:
        query = three_versions(open_store, balance_in_cents).query().entities(AccountInCents)
        states = {commit: {one.id: (one.cents, one.currency) for one in query.as_of(commit)} for commit in range(7)}
        assert states == {
            0: {},
            1: {"a": (100, "EUR"), "b": (200, "EUR")},
            2: {"a": (1000, "EUR"), "b": (200, "EUR")},
            3: {"a": (1000, "EUR"), "b": (200, "EUR")},
            4: {"a": (1000, "EUR"), "b": (2000, "USD")},
            5: {"a": (1000, "EUR"), "b": (2000, "USD")},
            6: {"a": (1000, "EUR"), "b": (2000, "USD"), "c": (5, "EUR")},
        }

    def test_history_comes_through_the_upgraders_in_order(self, open_store: OpenStore) -> None:
        query = three_versions(open_store, balance_in_cents).query().entities(AccountInCents).with_history()
        found = [(one.meta().commit_id, one.id, one.cents) for one in query]
        assert found == [
            (1, "a", 100),
            (1, "b", 200),
            (2, "a", 1000),
            (3, "a", 1000),
            (3, "b", 200),
            (4, "b", 2000),
            (5, "a", 1000),
            (5, "b", 2000),
            (6, "c", 5),
        ]

    def test_filters_orders_and_slices_see_upgraded_values(self, open_store: OpenStore) -> None:
        query = three_versions(open_store, balance_in_cents).query().entities(AccountInCents)
        assert keys(query.as_of(2).where(AccountInCents.cents >= 1000)) == ["a"]
        assert keys(query.as_of(2).where(~(AccountInCents.cents >= 1000))) == ["b"]
        assert keys(query.as_of(1).order_by(AccountInCents.cents.desc())) == ["b", "a"]
        assert keys(query.as_of(1).order_by(AccountInCents.cents.desc()).limit(1).offset(1)) == ["a"]
        assert query.as_of(1).where(AccountInCents.currency == "EUR").count() == 2
        found = query.as_of(2).get("a")
        assert found is not None
        assert found.cents == 1000
        assert [one.meta().commit_id for one in query.with_history().where(AccountInCents.cents == 1000)] == [2, 3, 5]

    def test_figures_see_upgraded_values(self, open_store: OpenStore) -> None:
        query = three_versions(open_store, balance_in_cents).query().entities(AccountInCents)
        total = ontologia.sum(AccountInCents.cents)
        assert query.as_of(1).agg(total=total) == {"total": 300}
        groups = query.as_of(4).group_by(AccountInCents.currency).agg(total=total)
        assert {group["currency"]: group["total"] for group in groups} == {"EUR": 1000, "USD": 2000}
        assert query.between(1, 2).limit(2).agg(total=total) == {"total": 300}

    def test_without_the_upgrader_the_boundary_is_named(self, open_store: OpenStore) -> None:
        query = three_versions(open_store).query().entities(AccountInCents)
        for read in (
            query.as_of(4).collect,
            query.as_of(1).collect,
            query.with_history().collect,
            query.history_since(3).collect,
            query.between(4, 6).collect,
            lambda: query.as_of(4).agg(total=ontologia.sum(AccountInCents.cents)),
            lambda: query.as_of(4).get("b"),
        ):
            with pytest.raises(SchemaBoundaryError):
                read()
        with pytest.raises(SchemaBoundaryError, match="from_version=2") as caught:
            query.as_of(4).where(AccountInCents.currency == "USD").collect()
        error = caught.value
        assert (error.type_name, error.from_version, error.to_version) == ("Account", 2, 3)
        assert error.missing_upgrader == ("Account", 2)
        assert error.commit_id in {3, 4}
        assert "commit" in str(error)

    def test_windows_after_the_last_migration_need_no_upgrader(self, open_store: OpenStore) -> None:
        query = three_versions(open_store).query().entities(AccountInCents)
        assert query.count() == 3
        assert keys(query.as_of(5).order_by(AccountInCents.id)) == ["a", "b"]
        assert [one.meta().commit_id for one in query.history_since(4)] == [5, 5, 6]
        assert query.between(5, 5).count() == 2
        assert query.as_of(0).collect() == []

    def test_raw_rows_keep_their_own_version(self, open_store: OpenStore) -> None:
        query = three_versions(open_store).query().entities(AccountInCents)
        rows = list(query.with_history().rows())
        assert [row["schema_version_id"] for row in rows] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
        assert rows[0] == {"id": "a", "owner": "Anna", "balance": 1, "commit_id": 1, "schema_version_id": 1}
        assert rows[5]["currency"] == "USD"
        assert "balance" not in rows[-1]
        assert sorted(row["balance"] for row in query.as_of(2).rows()) == [2, 10]

    def test_raw_tables_unite_all_versions(self, open_store: OpenStore) -> None:
        pytest.importorskip("pyarrow")
        table = three_versions(open_store).query().entities(AccountInCents).with_history().to_arrow()
        assert table.num_rows == 9
        assert set(table.column_names) >= {"id", "owner", "balance", "currency", "cents", "commit_id"}
        assert table.column("balance").to_pylist() == [1, 2, 10, 10, 2, 20, None, None, None]
        assert table.column("cents").to_pylist()[6:] == [1000, 2000, 5]

    def test_raw_tables_of_a_changed_type_unite(self, open_store: OpenStore) -> None:
        pytest.importorskip("pyarrow")
        three_versions(open_store)
        onto = migrated(open_store, AccountWithOwners, balance_in_cents, owner_as_list)
        assert onto.query().entities(AccountWithOwners).with_history().to_arrow().num_rows == 12
        found = onto.query().entities(AccountWithOwners).as_of(1).get("a")
        assert found == AccountWithOwners(id="a", owner=["Anna"], cents=100)

    def test_differences_and_blame_reach_across_a_migration(self, open_store: OpenStore) -> None:
        onto = three_versions(open_store, balance_in_cents)
        items = onto.diff(1, 6, AccountInCents)
        assert [(item.key, item.before and item.before.cents, item.after.cents) for item in items] == [
            ("a", 100, 1000),
            ("b", 200, 2000),
            ("c", None, 5),
        ]
        assert onto.blame(AccountInCents, "a")["cents"] == 2
        assert onto.blame(AccountInCents, "b")["currency"] == 4

    def test_ends_of_old_windows_are_upgraded_too(self, open_store: OpenStore) -> None:
        @upgrader("Account", from_version=1)
        def to_cents(values: dict[str, Any]) -> dict[str, Any]:
            return {"id": values["id"], "owner": values["owner"], "cents": values["balance"] * 100}

        old = open_store(entity_types=[Person, Account], relation_types=[Holder])
        put(old, Person(id="p"), Account(id="a", owner="Anna", balance=1), Holder(left_key="p", right_key="a"))
        types: dict[str, Any] = {"entity_types": [Person, AccountInCents], "relation_types": [HolderInCents]}
        onto = open_store(**types, upgraders=[to_cents])
        onto.migrate(apply=True, force=True)
        put(onto, AccountInCents(id="a", owner="Anna", cents=7))
        query = onto.query().relations(HolderInCents)
        end = query.as_of(1).one().right
        assert end is not None
        assert end.cents == 100
        rich = ontologia.right(HolderInCents).cents >= 100
        assert [query.as_of(at).where(rich).count() for at in (1, 2, 3)] == [1, 1, 0]
        assert [query.as_of(at).where(~rich).count() for at in (1, 2, 3)] == [0, 0, 1]
        people = onto.query().entities(Person).as_of(1)
        assert [path.target.cents for path in people.via(HolderInCents)] == [100]
        unaware = open_store(**types)
        with pytest.raises(SchemaBoundaryError):
            unaware.query().relations(HolderInCents).as_of(1).collect()
        with pytest.raises(SchemaBoundaryError):
            unaware.query().relations(HolderInCents).as_of(1).where(rich).count()

    def test_relations_migrate_with_their_keys(self, open_store: OpenStore) -> None:
        class EmploymentWithBonus(Relation[Person, Company], name="Employment"):
            stint: Field[str] = Field(instance_key=True)
            pay: Field[int] = Field(default=0)
            bonus: Field[int] = Field(default=5)

        old = open_shop(open_store)
        put(old, *(Employment(left_key="p", right_key=1, stint=stint) for stint in "ab"))
        onto = open_store(relation_types=[EmploymentWithBonus])
        onto.migrate(apply=True, force=True)
        assert {one.stint: one.bonus for one in onto.query().relations(EmploymentWithBonus).as_of(1)} == {
            "a": 5,
            "b": 5,
        }
        put(onto, EmploymentWithBonus(left_key="p", right_key=1, stint="a", bonus=6))
        assert onto.query().relations(EmploymentWithBonus).where(EmploymentWithBonus.bonus == 5).one().stint == "b"

    def test_dropping_a_type_needs_the_token_of_its_preview(self, open_store: OpenStore) -> None:
        onto = accounts(open_store)
        drop = onto.drop_type("entity", "Account")
        assert (drop.current_rows, drop.applied) == (2, False)
        with pytest.raises(RefusedError):
            onto.drop_type("entity", "Account", apply=True)
        with pytest.raises(RefusedError):
            onto.drop_type("entity", "Account", apply=True, token="wrong")  # noqa: S106 - not a secret
        put(onto, Account(id="z", owner="Zoe", balance=0))
        with pytest.raises(RefusedError):
            onto.drop_type("entity", "Account", apply=True, token=drop.token)
        assert onto.query().entities(Account).count() == 3

    def test_a_type_that_others_depend_on_is_not_dropped(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        put(
            onto,
            Customer(id="a", name="A"),
            Product(sku="p", title="P"),
            Subscription(left_key="a", right_key="p", seats=1),
        )
        drop = onto.drop_type("entity", "Customer")
        assert drop.dependents == ("Subscription",)
        with pytest.raises(RefusedError, match="Subscription"):
            onto.drop_type("entity", "Customer", apply=True, token=drop.token)
        relation = onto.drop_type("relation", "Subscription")
        onto.drop_type("relation", "Subscription", apply=True, token=relation.token)
        onto.drop_type("entity", "Customer", apply=True, token=onto.drop_type("entity", "Customer").token)
        assert [stored.name for stored in onto.stored_types()] == ["Product"]
        assert onto.query().entities(Product).where(~(Product.sku == "x")).count() == 1

    @pytest.mark.parametrize("purge", [False, True])
    def test_a_dropped_type_may_be_declared_anew(self, open_store: OpenStore, *, purge: bool) -> None:
        onto = accounts(open_store)
        token = onto.drop_type("entity", "Account", purge=purge).token
        dropped = onto.drop_type("entity", "Account", purge=purge, apply=True, token=token)
        assert dropped.applied
        assert dropped.removed_rows == (3 if purge else 0)
        head = onto.head()
        assert onto.query().entities(Account).with_history().collect() == []
        assert onto.verify() == []
        again = open_store(entity_types=[AccountWithOwners])
        again.validate()
        put(again, AccountWithOwners(id="a", owner=["New"], cents=1))
        query = again.query().entities(AccountWithOwners)
        assert query.one().owner == ["New"]
        assert query.with_history().count() == 1
        assert query.as_of(head).collect() == []
        assert [version.version for version in again.stored_types()[0].versions] == [1]
        assert again.get_commit(1).counts == {"Account": 2}
        assert again.verify() == []

    @pytest.mark.parametrize("purge", [False, True])
    def test_others_notice_that_a_type_was_dropped(self, open_store: OpenStore, *, purge: bool) -> None:
        other, onto = accounts(open_store), open_store(entity_types=[Account])
        query = other.query().entities(Account)
        assert (query.count(), len(query.collect())) == (2, 2)
        token = onto.drop_type("entity", "Account", purge=purge).token
        onto.drop_type("entity", "Account", purge=purge, apply=True, token=token)
        assert (query.collect(), query.count(), query.get("a"), list(query.rows())) == ([], 0, None, [])
        put(onto, Account(id="new", owner="Nora", balance=1))
        assert keys(query) == ["new"]
        assert query.get("a") is None
        assert put(other, Account(id="new", owner="Nora", balance=1)) is None
        assert other.verify() == []

    def test_a_stream_outlives_a_migration(self, open_store: OpenStore) -> None:
        old = open_store(entity_types=[Account])
        put(old, *(Account(id=f"{number:04}", owner="x", balance=number) for number in range(3000)))
        stream = iter(old.query().entities(Account).order_by(Account.id))
        first = next(stream)
        migrated(open_store, AccountWithCurrency)
        assert [account.balance for account in (first, *stream)] == list(range(3000))

    def test_conditions_on_the_end_of_a_dropped_relation_do_not_linger(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        put(onto, Customer(id="a", name="A", tier="Gold"), Subscription(left_key="a", right_key="p", seats=1))
        onto.drop_type("relation", "Subscription", apply=True, token=onto.drop_type("relation", "Subscription").token)
        assert onto.query().relations(Subscription).where(left(Subscription).tier == "Gold").collect() == []
