"""What a type checker sees of declared classes; checked with the rest of the tree, and by `test_typing`."""

from __future__ import annotations

from typing import Any, assert_type

from ontologia.model.declare import Entity, Meta, Relation
from ontologia.model.fields import Field
from ontologia.query.expr import FieldExpr
from ontologia.query.predicates import Predicate


class Customer(Entity):
    id: Field[str] = Field(primary_key=True)
    name: Field[str]
    tier: Field[str] = Field(default="Standard", index=True)
    profile: Field[dict[str, Any]] = Field(default_factory=dict)
    email: Field[str | None] = Field(default=None)


class Product(Entity, name="product"):
    sku: Field[int] = Field(primary_key=True)


class Subscription(Relation[Customer, Product]):
    seats: Field[int]


customer = Customer(id="c1", name="Alice")
assert_type(customer.tier, str)
assert_type(customer.email, str | None)
assert_type(customer.profile, dict[str, Any])
assert_type(Customer.tier, FieldExpr[str])
assert_type(Customer.tier == "Gold", Predicate)
customer.tier = "Gold"
assert_type(Customer.model_validate({"id": "c1", "name": "Alice"}), Customer)


def reads(subscription: Subscription) -> Meta:
    assert_type(subscription.left, Customer | None)
    assert_type(subscription.right, Product | None)
    assert_type(subscription.seats, int)
    return subscription.meta()


subscription = Subscription(left_key="c1", right_key=7, seats=3)
members = {customer, subscription}
