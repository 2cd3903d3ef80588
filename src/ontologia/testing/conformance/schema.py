"""Schema versions and migrations, as every backend must do them.

A migration is previewed, bound to what was previewed by a token, and applied whole or not at all. What old windows
show afterwards is the subject of `boundaries`.
"""

from __future__ import annotations

from typing import Any

import pytest

from ontologia import (
    Entity,
    Field,
    MigrationError,
    MigrationTokenError,
    MissingUpgraderError,
    Ontology,
    SchemaOutdatedError,
    upgrader,
)
from ontologia.testing.conformance.world import (
    Account,
    AccountInCents,
    AccountWithCurrency,
    AccountWithOwners,
    ConformanceSuite,
    OpenStore,
    Person,
    balance_in_cents,
    owner_as_list,
    put,
)


class PersonWithAge(Entity, name="Person"):
    """A person, one version on; older people need an upgrader."""

    id: Field[str] = Field(primary_key=True)
    name: Field[str] = Field(default="")
    age: Field[int]


def accounts(open_store: OpenStore) -> Ontology:
    """Version 1 with two commits."""
    onto = open_store(entity_types=[Account])
    put(onto, Account(id="a", owner="Anna", balance=1), Account(id="b", owner="Bert", balance=2))
    put(onto, Account(id="a", owner="Anna", balance=10))
    return onto


def migrated(open_store: OpenStore, cls: type[Entity], *upgraders: Any) -> Ontology:
    """The store with its account type brought to a class."""
    onto = open_store(entity_types=[cls], upgraders=upgraders)
    onto.migrate(apply=True, token=onto.migrate().token)
    return onto


class SchemaConformance(ConformanceSuite):
    """How types change."""

    def test_declared_and_stored_types_that_agree_are_valid(self, open_store: OpenStore) -> None:
        accounts(open_store).validate()
        open_store(entity_types=[Account, Person]).validate()

    def test_a_drifted_type_is_reported_field_by_field(self, open_store: OpenStore) -> None:
        accounts(open_store)
        with pytest.raises(SchemaOutdatedError, match="Account") as caught:
            open_store(entity_types=[AccountInCents]).validate()
        changes = {(change.field, change.change) for diff in caught.value.diffs for change in diff.changes}
        assert changes == {("balance", "removed"), ("cents", "added"), ("currency", "added")}

    def test_a_drifted_type_is_neither_read_nor_written(self, open_store: OpenStore) -> None:
        accounts(open_store)
        onto = open_store(entity_types=[AccountWithCurrency])
        with pytest.raises(SchemaOutdatedError):
            put(onto, AccountWithCurrency(id="c", owner="Carl", balance=3))
        query = onto.query().entities(AccountWithCurrency)
        for read in (query.collect, query.count, query.with_history().collect, lambda: query.get("a")):
            with pytest.raises(SchemaOutdatedError):
                read()
        assert onto.head() == 2

    def test_raw_rows_of_a_drifted_type_can_always_be_read(self, open_store: OpenStore) -> None:
        accounts(open_store)
        query = open_store(entity_types=[AccountInCents]).query().entities(AccountInCents)
        assert sorted((row["id"], row["balance"]) for row in query.rows()) == [("a", 10), ("b", 2)]
        assert [row["balance"] for row in query.with_history().rows()] == [1, 2, 10]
        assert query.as_of(1).to_arrow().column("balance").to_pylist() == [1, 2]

    def test_defaults_indexes_docs_and_order_are_no_drift(self, open_store: OpenStore) -> None:
        class Same(Entity, name="Account"):
            """Another docstring."""

            balance: Field[int] = Field(default=0, index=True)
            owner: Field[str] = Field(default="nobody", index=True)
            id: Field[str] = Field(primary_key=True)

        accounts(open_store)
        onto = open_store(entity_types=[Same])
        onto.validate()
        assert put(onto, Same(id="c")) == 3
        assert onto.query().entities(Same).where(Same.owner == "nobody").one().balance == 0
        assert onto.migrate().is_empty
        assert onto.verify() == []

    def test_a_preview_shows_the_plan_and_changes_nothing(self, open_store: OpenStore) -> None:
        accounts(open_store)
        onto = open_store(entity_types=[AccountInCents])
        plan = onto.migrate()
        assert not plan.applied
        assert plan.head == 2
        assert plan.row_estimates == {"Account": 2}
        assert plan.needed_upgraders == (("Account", 1),) == plan.missing_upgraders
        assert [diff.type_name for diff in plan.diffs] == ["Account"]
        assert onto.head() == 2
        assert onto.migrate().token == plan.token

    def test_a_migration_needs_the_token_of_its_preview(self, open_store: OpenStore) -> None:
        accounts(open_store)
        onto = open_store(entity_types=[AccountWithCurrency])
        with pytest.raises(MigrationTokenError):
            onto.migrate(apply=True)
        with pytest.raises(MigrationTokenError):
            onto.migrate(apply=True, token="wrong")  # noqa: S106 - not a secret
        assert onto.head() == 2

    def test_a_token_dies_with_the_head_it_was_made_for(self, open_store: OpenStore) -> None:
        old = accounts(open_store)
        onto = open_store(entity_types=[AccountWithCurrency])
        token = onto.migrate().token
        put(old, Account(id="c", owner="Carl", balance=3))
        with pytest.raises(MigrationTokenError):
            onto.migrate(apply=True, token=token)
        assert onto.migrate(apply=True, token=onto.migrate().token).applied

    def test_a_token_is_for_one_plan(self, open_store: OpenStore) -> None:
        accounts(open_store)
        token = open_store(entity_types=[AccountWithCurrency]).migrate().token
        with pytest.raises(MigrationTokenError):
            open_store(entity_types=[AccountInCents], upgraders=[balance_in_cents]).migrate(apply=True, token=token)

    def test_force_needs_no_token(self, open_store: OpenStore) -> None:
        accounts(open_store)
        onto = open_store(entity_types=[AccountWithCurrency])
        assert onto.migrate(apply=True, force=True).commit_id == 3

    def test_an_added_field_with_a_default_needs_no_upgrader(self, open_store: OpenStore) -> None:
        accounts(open_store)
        onto = migrated(open_store, AccountWithCurrency)
        onto.validate()
        assert onto.head() == 3
        assert onto.query().entities(AccountWithCurrency).get("a") == AccountWithCurrency(
            id="a", owner="Anna", balance=10, currency="EUR"
        )
        assert onto.get_commit(3).counts == {"Account": 2}
        assert onto.migrate().is_empty
        assert onto.verify() == []

    def test_a_migration_of_nothing_makes_no_commit(self, open_store: OpenStore) -> None:
        onto = accounts(open_store)
        assert onto.migrate().is_empty
        assert not onto.migrate(apply=True, force=True).applied
        assert onto.head() == 2

    def test_a_missing_upgrader_is_named(self, open_store: OpenStore) -> None:
        accounts(open_store)
        onto = open_store(entity_types=[AccountInCents])
        with pytest.raises(MissingUpgraderError, match="Account") as caught:
            onto.migrate(apply=True, force=True)
        assert (caught.value.type_name, caught.value.from_version) == ("Account", 1)
        assert onto.head() == 2

    def test_a_populated_type_migrates_again_and_again(self, open_store: OpenStore) -> None:
        accounts(open_store)
        second = migrated(open_store, AccountWithCurrency)
        put(second, AccountWithCurrency(id="b", owner="Bert", balance=20, currency="USD"))
        third = migrated(open_store, AccountInCents, balance_in_cents)
        put(third, AccountInCents(id="c", owner="Carl", cents=5))
        fourth = migrated(open_store, AccountWithOwners, balance_in_cents, owner_as_list)
        put(fourth, AccountWithOwners(id="a", owner=["Anna", "Adam"], cents=0))
        found = fourth.query().entities(AccountWithOwners).order_by(AccountWithOwners.id).collect()
        assert found == [
            AccountWithOwners(id="a", owner=["Anna", "Adam"], cents=0, currency="EUR"),
            AccountWithOwners(id="b", owner=["Bert"], cents=2000, currency="USD"),
            AccountWithOwners(id="c", owner=["Carl"], cents=5, currency="EUR"),
        ]
        stored = fourth.stored_types()[0]
        assert [version.version for version in stored.versions] == [1, 2, 3, 4]
        assert [version.since_commit for version in stored.versions] == [1, 3, 5, 7]
        assert fourth.head() == 8
        assert fourth.verify() == []

    def test_a_class_left_behind_by_a_migration_is_refused(self, open_store: OpenStore) -> None:
        old = accounts(open_store)
        assert old.query().entities(Account).count() == 2
        migrated(open_store, AccountWithCurrency)
        for read in (
            old.query().entities(Account).collect,
            old.query().entities(Account).as_of(1).collect,
            lambda: old.query().entities(Account).get("a"),
            old.query().entities(Account).count,
        ):
            with pytest.raises(SchemaOutdatedError):
                read()
        with pytest.raises(SchemaOutdatedError):
            put(old, Account(id="z", owner="Zoe", balance=0))

    def test_all_types_migrate_or_none(self, open_store: OpenStore) -> None:
        @upgrader("Person", from_version=1)
        def with_age(values: dict[str, Any]) -> dict[str, Any]:
            return {**values, "age": int(values["name"])}

        first = open_store(entity_types=[Account, Person])
        put(first, Account(id="a", owner="Anna", balance=1), Person(id="p", name="30"), Person(id="q", name="old"))
        onto = open_store(entity_types=[AccountWithCurrency, PersonWithAge], upgraders=[with_age])
        with pytest.raises(MigrationError, match="'q'") as caught:
            onto.migrate(apply=True, force=True)
        assert "old" in str(caught.value), "the old data of the row that failed is shown"
        assert onto.head() == 1
        assert [len(stored.versions) for stored in onto.stored_types()] == [1, 1]
        assert first.query().entities(Account).one().balance == 1
        put(first, Person(id="q", name="40"))
        assert onto.migrate(apply=True, force=True).commit_id == 3
        people = onto.query().entities(PersonWithAge).order_by(PersonWithAge.id).collect()
        assert [person.age for person in people] == [30, 40]
        assert onto.verify() == []

    @pytest.mark.parametrize("bad", [{"cents": "many"}, {"cents": 1, "colour": "red"}, {"id": "other", "cents": 1}, {}])
    def test_what_an_upgrader_gives_is_validated(self, open_store: OpenStore, bad: dict[str, Any]) -> None:
        @upgrader("Account", from_version=1)
        def broken(values: dict[str, Any]) -> dict[str, Any]:
            return {name: value for name, value in values.items() if name != "balance"} | bad

        accounts(open_store)
        onto = open_store(entity_types=[AccountInCents], upgraders=[broken])
        with pytest.raises(MigrationError):
            onto.migrate(apply=True, force=True)
        assert onto.head() == 2

    def test_an_upgrader_that_raises_leaves_the_store_as_it_was(self, open_store: OpenStore) -> None:
        @upgrader("Account", from_version=1)
        def broken(values: dict[str, Any]) -> dict[str, Any]:
            raise RuntimeError(f"out of luck with {values['id']}")

        old = accounts(open_store)
        onto = open_store(entity_types=[AccountInCents], upgraders=[broken])
        with pytest.raises(MigrationError, match="out of luck"):
            onto.migrate(apply=True, force=True)
        assert put(old, Account(id="c", owner="Carl", balance=1)) == 3
        assert old.verify() == []

    def test_progress_is_told_while_migrating(self, open_store: OpenStore) -> None:
        accounts(open_store)
        onto = open_store(entity_types=[AccountWithCurrency])
        steps: list[tuple[int, int]] = []
        onto.migrate(apply=True, force=True, progress=lambda done, total: steps.append((done, total)))
        assert steps[-1] == (2, 2)

    def test_many_rows_migrate(self, open_store: OpenStore) -> None:
        old = open_store(entity_types=[Account])
        with old.session() as session:
            session.ensure_rows(Account, [{"id": f"{n:05}", "owner": "x", "balance": n} for n in range(20000)])
        onto = migrated(open_store, AccountWithCurrency)
        assert onto.query().entities(AccountWithCurrency).where(AccountWithCurrency.balance == 12345).count() == 1
        assert onto.query().entities(AccountWithCurrency).count() == 20000
        assert onto.verify() == []
