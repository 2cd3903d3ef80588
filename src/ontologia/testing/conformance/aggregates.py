"""Figures and groups, as every backend must compute them.

They honour filter, window, limit and offset; nulls count for nothing; sums of whole numbers and decimals are exact.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from ontologia import (
    Ontology,
    QueryError,
    avg,
    avg_len,
    count,
    count_distinct,
    count_where,
    left,
    max,  # noqa: A004 - the public name
    min,  # noqa: A004 - the public name
    sum,  # noqa: A004 - the public name
)
from ontologia.testing.conformance.world import (
    ConformanceSuite,
    Customer,
    OpenStore,
    Product,
    Sale,
    Subscription,
    open_shop,
    put,
)

SALES: list[dict[str, Any]] = [
    {"id": "1", "country": "IT", "year": 2025, "amount": 10, "price": Decimal("0.10"), "weight": 1.5, "tags": ["a"]},
    {
        "id": "2",
        "country": "IT",
        "year": 2026,
        "amount": 20,
        "price": Decimal("0.20"),
        "weight": 2.5,
        "tags": ["a", "b"],
    },
    {"id": "3", "country": "DE", "year": 2026, "amount": None, "price": None, "weight": None},
    {"id": "4", "country": None, "year": 2026, "amount": 2**62, "price": Decimal("1E+20"), "weight": 0.25},
    {"id": "5", "country": "DE", "year": 2026, "amount": 2**62, "price": Decimal("-0.30")},
]


def market(open_store: OpenStore) -> Ontology:
    """Two commits: the second changes the first sale and adds nothing."""
    onto = open_shop(open_store)
    put(onto, *(Sale(**row) for row in SALES))
    changed: dict[str, Any] = SALES[0] | {"amount": 11}
    put(onto, Sale(**changed))
    return onto


class AggregateConformance(ConformanceSuite):
    """How figures are computed."""

    def test_without_groups_one_dict_comes_back(self, open_store: OpenStore) -> None:
        figures = (
            market(open_store)
            .query()
            .entities(Sale)
            .agg(
                n=count(),
                total=sum(Sale.amount),
                price=sum(Sale.price),
                weight=sum(Sale.weight),
                least=min(Sale.amount),
                most=max(Sale.country),
                countries=count_distinct(Sale.country),
                rich=count_where(Sale.amount > 15),
                tags=avg_len(Sale.tags),
            )
        )
        assert figures == {
            "n": 5,
            "total": 11 + 20 + 2**63,
            "price": Decimal("100000000000000000000.00"),
            "weight": 4.25,
            "least": 11,
            "most": "IT",
            "countries": 2,
            "rich": 3,
            "tags": 0.6,
        }
        assert isinstance(figures["total"], int)
        assert isinstance(figures["price"], Decimal)

    def test_a_mean_leaves_out_null(self, open_store: OpenStore) -> None:
        query = market(open_store).query().entities(Sale)
        assert query.where(Sale.country == "IT").agg(mean=avg(Sale.amount)) == {"mean": 15.5}
        assert query.where(Sale.country == "DE").agg(mean=avg(Sale.weight)) == {"mean": None}

    def test_figures_over_nothing(self, open_store: OpenStore) -> None:
        nothing = {"n": 0, "total": 0, "mean": None, "least": None, "kinds": 0}
        query = market(open_store).query().entities(Sale)
        figures = {
            "n": count(),
            "total": sum(Sale.amount),
            "mean": avg(Sale.amount),
            "least": min(Sale.amount),
            "kinds": count_distinct(Sale.amount),
        }
        for empty in (query.where(Sale.id == "none"), query.as_of(0), query.limit(0), query.history_since(99)):
            assert empty.agg(**figures) == nothing, f"{empty!r}"
            assert empty.group_by(Sale.country).agg(**figures) == []

    def test_groups_are_dicts_keyed_by_field_name(self, open_store: OpenStore) -> None:
        groups = market(open_store).query().entities(Sale).group_by(Sale.country).agg(n=count(), total=sum(Sale.amount))
        by_country = {group["country"]: group for group in groups}
        assert by_country == {
            "IT": {"country": "IT", "n": 2, "total": 31},
            "DE": {"country": "DE", "n": 2, "total": 2**62},
            None: {"country": None, "n": 1, "total": 2**62},
        }

    def test_groups_by_several_fields(self, open_store: OpenStore) -> None:
        groups = market(open_store).query().entities(Sale).group_by(Sale.country, Sale.year).agg(n=count())
        assert {(group["country"], group["year"]): group["n"] for group in groups} == {
            ("IT", 2025): 1,
            ("IT", 2026): 1,
            ("DE", 2026): 2,
            (None, 2026): 1,
        }

    def test_having_keeps_groups(self, open_store: OpenStore) -> None:
        query = market(open_store).query().entities(Sale).group_by(Sale.country)
        total = sum(Sale.amount)

        def countries(condition: Any) -> set[Any]:
            return {group["country"] for group in query.having(condition).agg(total=total)}

        assert countries(total > 31) == {"DE", None}
        assert countries(count() >= 2) == {"IT", "DE"}
        assert countries((count() >= 2) & ~(total > 31)) == {"IT"}
        assert countries((count() == 1) | (total == 31)) == {None, "IT"}

    def test_figures_honour_the_window(self, open_store: OpenStore) -> None:
        query = market(open_store).query().entities(Sale).where(Sale.country == "IT")
        figures = {"n": count(), "total": sum(Sale.amount)}
        assert query.agg(**figures) == {"n": 2, "total": 31}
        assert query.as_of(1).agg(**figures) == {"n": 2, "total": 30}
        assert query.with_history().agg(**figures) == {"n": 3, "total": 41}
        assert query.history_since(1).agg(**figures) == {"n": 1, "total": 11}
        assert query.between(1, 1).agg(**figures) == {"n": 2, "total": 30}

    def test_figures_honour_limit_and_offset(self, open_store: OpenStore) -> None:
        query = market(open_store).query().entities(Sale).order_by(Sale.id)
        assert query.limit(2).agg(n=count(), total=sum(Sale.amount)) == {"n": 2, "total": 31}
        assert query.limit(2).offset(1).agg(n=count(), total=sum(Sale.amount)) == {"n": 2, "total": 20}
        groups = query.limit(3).group_by(Sale.country).agg(n=count())
        assert {group["country"]: group["n"] for group in groups} == {"IT": 2, "DE": 1}
        history = query.with_history().limit(3).offset(3)
        assert history.agg(n=count()) == {"n": 3}

    def test_figures_honour_conditions_on_ends(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        put(
            onto,
            Customer(id="a", name="A", tier="Gold"),
            Customer(id="b", name="B"),
            Product(sku="p", title="P"),
            Subscription(left_key="a", right_key="p", seats=3),
            Subscription(left_key="b", right_key="p", seats=5),
            Subscription(left_key="ghost", right_key="p", seats=7),
        )
        put(onto, Customer(id="a", name="A"))
        query = onto.query().relations(Subscription)
        gold = left(Subscription).tier == "Gold"
        assert query.where(gold).agg(total=sum(Subscription.seats)) == {"total": 0}
        assert query.as_of(1).where(gold).agg(total=sum(Subscription.seats)) == {"total": 3}
        assert query.as_of(1).where(~gold).agg(total=sum(Subscription.seats)) == {"total": 12}

    def test_figures_of_nested_values(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        ages: list[Any] = [30, 40.5, "50", None]
        put(onto, *(Customer(id=f"{at}", name="N", profile={"age": age}) for at, age in enumerate(ages)))
        query = onto.query().entities(Customer)
        assert query.agg(total=sum(Customer.profile["age"])) == {"total": 70.5}

    def test_a_figure_that_makes_no_sense_is_an_error(self, open_store: OpenStore) -> None:
        query: Any = market(open_store).query().entities(Sale)
        for make in (
            query.agg,
            lambda: query.agg(n=5),
            lambda: query.agg(n=sum(Sale.country)),
            lambda: query.agg(n=sum(Customer.visits)),
            query.group_by,
            lambda: query.group_by(Sale.country).agg(country=count()),
            lambda: query.group_by(Sale.country).having(Sale.year > 3),
        ):
            with pytest.raises(QueryError):
                make()
