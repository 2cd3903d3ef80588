"""Relations, conditions on their ends, and traversals, as every backend must do them.

Ends are seen at the same moment as the relation; conditions on them compose like any others. In history windows a
condition on an end holds when it holds for some version of that end in the window.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from ontologia import MetadataUnavailableError, Ontology, QueryError, left, right
from ontologia.query.predicates import Predicate
from ontologia.testing.conformance.world import (
    Company,
    ConformanceSuite,
    Customer,
    Employment,
    OpenStore,
    PartOf,
    Person,
    Product,
    Subscription,
    edges,
    keys,
    open_shop,
    put,
)

Edge = tuple[str, str]

CUSTOMERS: dict[int, dict[str, str]] = {1: {"a": "Gold", "b": "Silver"}, 2: {"a": "Silver"}, 3: {"b": "Gold"}}
PRODUCTS: dict[int, dict[str, int]] = {1: {"p": 10, "q": 20}, 2: {"q": 5}, 3: {}}
SEATS: dict[int, dict[Edge, int]] = {
    1: {("a", "p"): 1, ("b", "q"): 2, ("a", "ghost"): 3, ("ghost", "p"): 4},
    2: {("b", "q"): 20, ("b", "p"): 5},
    3: {("a", "p"): 10},
}
"""What each commit writes; `ghost` is never written."""

Row = tuple[list[str], list[int], int]
"""A relation as a condition sees it: tiers of the left end, prices of the right one, and its own seats."""

CONDITIONS: list[tuple[str, Predicate, Callable[[Row], bool]]] = [
    ("left", left(Subscription).tier == "Gold", lambda row: "Gold" in row[0]),
    ("not left", ~(left(Subscription).tier == "Gold"), lambda row: "Gold" not in row[0]),
    ("unequal left", left(Subscription).tier != "Gold", lambda row: "Gold" not in row[0]),
    ("right", right(Subscription).price > 8, lambda row: any(price > 8 for price in row[1])),
    (
        "both",
        (left(Subscription).tier == "Gold") & (right(Subscription).price > 8),
        lambda row: "Gold" in row[0] and any(price > 8 for price in row[1]),
    ),
    (
        "either",
        (left(Subscription).tier == "Gold") | (right(Subscription).price < 8),
        lambda row: "Gold" in row[0] or any(price < 8 for price in row[1]),
    ),
    (
        "neither",
        ~((left(Subscription).tier == "Gold") | (right(Subscription).price < 8)),
        lambda row: not ("Gold" in row[0] or any(price < 8 for price in row[1])),
    ),
    (
        "not both",
        ~((left(Subscription).tier == "Gold") & (Subscription.seats > 2)),
        lambda row: not ("Gold" in row[0] and row[2] > 2),
    ),
    (
        "end or own",
        (left(Subscription).tier == "Silver") | (Subscription.seats >= 4),
        lambda row: "Silver" in row[0] or row[2] >= 4,
    ),
    (
        "own and not end",
        (Subscription.seats > 1) & ~(right(Subscription).price == Decimal(20)),
        lambda row: row[2] > 1 and 20 not in row[1],
    ),
    ("left is there", left(Subscription).id.is_not_null(), lambda row: bool(row[0])),
    ("left is missing", left(Subscription).id.is_null(), lambda row: not row[0]),
    ("left among", left(Subscription).tier.in_(["Gold", "x"]), lambda row: "Gold" in row[0]),
    ("left not among", left(Subscription).tier.not_in(["Gold"]), lambda row: "Gold" not in row[0]),
]


def market(open_store: OpenStore) -> Ontology:
    """Three commits of customers, products and subscriptions."""
    onto = open_shop(open_store)
    for commit in (1, 2, 3):
        put(
            onto,
            *(Customer(id=key, name=key, tier=tier) for key, tier in CUSTOMERS[commit].items()),
            *(Product(sku=key, title=key, price=Decimal(price)) for key, price in PRODUCTS[commit].items()),
            *(Subscription(left_key=a, right_key=b, seats=seats) for (a, b), seats in SEATS[commit].items()),
        )
    return onto


def as_of(commit: int) -> dict[Edge, Row]:
    """The relations after a commit, with their ends at that moment."""
    tiers = {key: tier for at in range(1, commit + 1) for key, tier in CUSTOMERS[at].items()}
    prices = {key: price for at in range(1, commit + 1) for key, price in PRODUCTS[at].items()}
    seats = {edge: number for at in range(1, commit + 1) for edge, number in SEATS[at].items()}
    return {
        (a, b): ([tiers[a]] if a in tiers else [], [prices[b]] if b in prices else [], number)
        for (a, b), number in seats.items()
    }


def history(low: int, high: int) -> list[tuple[int, Edge, Row]]:
    """The relations written in (low, high], with every version of their ends in the same window."""
    window = range(low + 1, high + 1)
    return [
        (
            at,
            (a, b),
            (
                [CUSTOMERS[c][a] for c in window if a in CUSTOMERS[c]],
                [PRODUCTS[c][b] for c in window if b in PRODUCTS[c]],
                number,
            ),
        )
        for at in window
        for (a, b), number in sorted(SEATS[at].items())
    ]


def found_edges(query: Any) -> list[Edge]:
    """Pairs of keys that a query finds."""
    return [(one.left_key, one.right_key) for one in query]


class RelationConformance(ConformanceSuite):
    """How relations are read and followed."""

    def test_relations_come_with_both_ends(self, open_store: OpenStore) -> None:
        query = market(open_store).query().relations(Subscription)
        found = query.where(Subscription.seats == 10).one()
        assert found.left == Customer(id="a", name="a", tier="Silver")
        assert found.right == Product(sku="p", title="p", price=Decimal(10))
        assert found.left is not None
        assert found.left.meta().commit_id == 2
        meta = found.meta()
        assert (meta.commit_id, meta.type_name, meta.key) == (3, "Subscription", None)
        assert (meta.left_key, meta.right_key, meta.instance_key) == ("a", "p", "")

    def test_a_missing_end_is_none(self, open_store: OpenStore) -> None:
        query = market(open_store).query().relations(Subscription)
        assert query.where(Subscription.right_key == "ghost").one().right is None
        assert query.where(Subscription.left_key == "ghost").one().left is None

    def test_ends_are_found_by_odd_keys(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        odd = ["n", "n\x00", "n\x00m", "N", "ñ", "'", '"', "[1]", "\\u0000", "😀"]
        put(onto, *(Customer(id=key, name=key) for key in odd))
        put(onto, *(Subscription(left_key=key, right_key="p", seats=1) for key in odd))
        query = onto.query().relations(Subscription)
        for window in (query, query.as_of(2), query.with_history()):
            assert {(one.left_key, one.left and one.left.name) for one in window} == {(key, key) for key in odd}
        targets = onto.query().entities(Customer).as_of(2).where(Customer.id != "n").via(Subscription)
        assert targets.count() == 0, "the product is missing"
        put(onto, Product(sku="p", title="P"))
        assert len(onto.query().entities(Customer).via(Subscription).collect()) == len(odd)
        assert {item.key for item in onto.diff(0, 1, Customer)} == set(odd)

    def test_an_end_may_come_later(self, open_store: OpenStore) -> None:
        onto = market(open_store)
        put(onto, Product(sku="ghost", title="Boo"))
        query = onto.query().relations(Subscription).where(Subscription.right_key == "ghost")
        end = query.one().right
        assert end is not None
        assert end.title == "Boo"
        assert query.as_of(3).one().right is None

    def test_ends_are_those_of_the_moment_asked_for(self, open_store: OpenStore) -> None:
        query = market(open_store).query().relations(Subscription).where(Subscription.left_key == "a")
        tiers = {commit: {one.left.tier for one in query.as_of(commit) if one.left is not None} for commit in (1, 2, 3)}
        assert tiers == {1: {"Gold"}, 2: {"Silver"}, 3: {"Silver"}}

    def test_an_object_that_was_not_read_has_no_ends(self) -> None:
        made = Subscription(left_key="a", right_key="p", seats=1)
        with pytest.raises(MetadataUnavailableError):
            _ = made.left
        with pytest.raises(MetadataUnavailableError):
            made.meta()

    @pytest.mark.parametrize(("name", "condition", "law"), CONDITIONS, ids=[one[0] for one in CONDITIONS])
    def test_conditions_on_ends_compose_now_and_then(
        self, open_store: OpenStore, name: str, condition: Predicate, law: Callable[[Row], bool]
    ) -> None:
        query = market(open_store).query().relations(Subscription)
        for commit, window in ((3, query), (1, query.as_of(1)), (2, query.as_of(2)), (3, query.as_of(3))):
            rows = as_of(commit)
            wanted = sorted(edge for edge, row in rows.items() if law(row))
            assert sorted(found_edges(window.where(condition))) == wanted, f"{name} in {window!r}"
            assert window.where(condition).count() == len(wanted)
            assert sorted(found_edges(window.where(~condition))) == sorted(set(rows) - set(wanted)), f"~ in {window!r}"

    @pytest.mark.parametrize(("name", "condition", "law"), CONDITIONS, ids=[one[0] for one in CONDITIONS])
    def test_conditions_on_ends_compose_in_history(
        self, open_store: OpenStore, name: str, condition: Predicate, law: Callable[[Row], bool]
    ) -> None:
        query = market(open_store).query().relations(Subscription)
        windows = [(0, 3, query.with_history()), (1, 3, query.history_since(1)), (2, 3, query.history_since(2))]
        windows += [(0, 2, query.between(1, 2)), (1, 2, query.between(2, 2))]
        for low, high, window in windows:
            for predicate, accept in ((condition, True), (~condition, False)):
                wanted = [(at, edge) for at, edge, row in history(low, high) if law(row) is accept]
                found = [(one.meta().commit_id, (one.left_key, one.right_key)) for one in window.where(predicate)]
                assert found == wanted, f"{name} in {window!r}"
                assert window.where(predicate).count() == len(wanted)

    def test_keys_of_ends_are_fields(self, open_store: OpenStore) -> None:
        query = market(open_store).query().relations(Subscription)
        assert found_edges(query.where(Subscription.left_key == "b").order_by(Subscription.right_key)) == [
            ("b", "p"),
            ("b", "q"),
        ]
        assert found_edges(query.order_by(Subscription.seats.desc()).limit(1)) == [("b", "q")]

    def test_relations_of_the_past_come_in_order_of_their_keys(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        stints = [("q", 2, "a"), ("p", 10, "b"), ("p", 2, "b"), ("p", 2, "a"), ("p", 10, "a")]
        put(onto, *(Employment(left_key=a, right_key=b, stint=c) for a, b, c in stints))
        put(onto, *(Employment(left_key=a, right_key=b, stint=c, pay=1) for a, b, c in stints[:2]))
        ordered = sorted((a, str(b), c) for a, b, c in stints)
        found = onto.query().relations(Employment).with_history().collect()
        assert edges(found) == [*ordered, ("p", "10", "b"), ("q", "2", "a")]
        assert [one.meta().commit_id for one in found] == [1] * 5 + [2] * 2

    def test_many_relations_come_with_their_ends(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        put(
            onto,
            *(Customer(id=f"c{number}", name=f"n{number}") for number in range(300)),
            *(Product(sku=f"p{number}", title="t") for number in range(40)),
            *(
                Subscription(left_key=f"c{number}", right_key=f"p{number * step % 50}", seats=step)
                for number in range(300)
                for step in range(1, 20)
            ),
        )
        found = onto.query().relations(Subscription).collect()
        assert all(one.left is not None and one.left.id == one.left_key for one in found)
        assert {one.right_key for one in found if one.right is None} == {f"p{number}" for number in range(40, 50)}

    def test_a_traversal_gives_paths_and_distinct_targets(self, open_store: OpenStore) -> None:
        onto = market(open_store)
        query = onto.query().entities(Customer).order_by(Customer.id)
        paths = query.via(Subscription).collect()
        assert [(path.source.id, path.target.sku) for path in paths] == [("a", "p"), ("b", "p"), ("b", "q")]
        assert [path.edges[0].seats for path in paths] == [10, 5, 20]
        assert keys(query.via(Subscription).targets()) == ["p", "q"]
        assert query.via(Subscription).count() == 3
        assert query.via(Subscription).exists()

    def test_a_traversal_honours_filter_limit_and_window(self, open_store: OpenStore) -> None:
        query = market(open_store).query().entities(Customer)
        assert keys(query.where(Customer.tier == "Gold").via(Subscription).targets()) == ["p", "q"]
        assert keys(query.as_of(1).where(Customer.tier == "Gold").via(Subscription).targets()) == ["p"]
        assert [path.target.price for path in query.as_of(1).via(Subscription).collect()] == [Decimal(10), Decimal(20)]
        only = query.order_by(Customer.id).limit(1).via(Subscription).collect()
        assert [path.source.id for path in only] == ["a"]
        assert len(query.order_by(Customer.id).via(Subscription).limit(2).offset(2).collect()) == 1
        assert query.as_of(0).via(Subscription).collect() == []

    def test_a_hop_may_have_a_condition(self, open_store: OpenStore) -> None:
        query = market(open_store).query().entities(Customer).order_by(Customer.id)
        assert keys(query.via(Subscription, where=Subscription.seats > 10).targets()) == ["q"]

    def test_a_hop_starts_from_whichever_side_fits(self, open_store: OpenStore) -> None:
        onto = market(open_store)
        buyers = onto.query().entities(Product).where(Product.sku == "p").via(Subscription).targets()
        assert sorted(keys(buyers)) == ["a", "b"]

    def test_several_hops_and_both_directions(self, open_store: OpenStore) -> None:
        onto = market(open_store)
        put(onto, Product(sku="box", title="Box"), *(PartOf(left_key=key, right_key="box") for key in ("p", "q")))
        customers = onto.query().entities(Customer).order_by(Customer.id)
        paths = customers.via(Subscription).via(PartOf).collect()
        assert [[node.meta().key for node in path.nodes] for path in paths] == [
            ["a", "p", "box"],
            ["b", "p", "box"],
            ["b", "q", "box"],
        ]
        assert keys(customers.via(Subscription).via(PartOf).targets()) == ["box"]
        box = onto.query().entities(Product).where(Product.sku == "box")
        assert box.via(PartOf).collect() == []
        assert sorted(keys(box.via(PartOf, reverse=True).targets())) == ["p", "q"]
        assert sorted(keys(box.via(PartOf, reverse=True).via(Subscription).targets())) == ["a", "b"]

    def test_cycles_end_with_the_hops(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        put(onto, Product(sku="x", title="X"), PartOf(left_key="x", right_key="x"))
        path = onto.query().entities(Product).via(PartOf).via(PartOf).collect()[0]
        assert keys(path.nodes) == ["x", "x", "x"]

    def test_number_keys_join_their_ends(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        put(onto, Person(id="p"), Company(number=7, city="Rome"), Employment(left_key="p", right_key=7, stint="s"))
        found = onto.query().relations(Employment).where(right(Employment).city == "Rome").one()
        assert found.right == Company(number=7, city="Rome")
        assert onto.query().entities(Person).via(Employment).targets() == [Company(number=7, city="Rome")]

    def test_a_relation_that_does_not_fit_is_refused(self, open_store: OpenStore) -> None:
        query: Any = open_shop(open_store).query()
        with pytest.raises(QueryError, match="Employment"):
            query.entities(Customer).via(Employment)
        with pytest.raises(QueryError):
            query.entities(Customer).via(Customer)
        with pytest.raises(QueryError, match="tier"):
            _ = left(Subscription).teir
        with pytest.raises(QueryError):
            query.entities(Customer).where(left(Subscription).tier == "Gold")
