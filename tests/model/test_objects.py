"""Objects: what they accept, how they behave, what they say about themselves."""

from __future__ import annotations

import copy
import json
import math
import pickle
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import AfterValidator, BaseModel, ValidationError
from pydantic import Field as Constraint

from ontologia.errors import MetadataUnavailableError
from ontologia.model.declare import Entity, Meta, Relation
from ontologia.model.fields import Field
from ontologia.model.rows import encoder, hydrator, identity


class Tier(Enum):
    GOLD = "gold"
    BASIC = "basic"


class Address(BaseModel):
    street: str
    number: int = 1


@dataclass
class Point:
    x: float
    y: float = 0.0


class Customer(Entity):
    id: Field[str] = Field(primary_key=True)
    name: Field[str]
    seats: Field[Annotated[int, Constraint(ge=0)]] = Field(default=1)
    tier: Field[Tier] = Field(default=Tier.BASIC)
    score: Field[float | None] = Field(default=None)
    price: Field[Decimal | None] = Field(default=None)
    at: Field[datetime | None] = Field(default=None)
    profile: Field[dict[str, Any]] = Field(default_factory=dict)
    anything: Field[Any] = Field(default=None)
    address: Field[Address | None] = Field(default=None)
    spots: Field[list[Point]] = Field(default_factory=list)
    blob: Field[bytes] = Field(default=b"")


class Product(Entity):
    sku: Field[int] = Field(primary_key=True)


class Token(Entity):
    id: Field[UUID] = Field(primary_key=True)


class Uses(Relation[Customer, Product]):
    seats: Field[int] = Field(default=1)


class Holds(Relation[Product, Token]):
    stint: Field[str] = Field(instance_key=True)


def problems(error: pytest.ExceptionInfo[ValidationError]) -> dict[str, str]:
    return {str(problem["loc"][0]): problem["msg"] for problem in error.value.errors()}


def refused(**values: Any) -> dict[str, str]:
    with pytest.raises(ValidationError) as error:
        Customer.model_validate({"id": "c1", "name": "Alice", **values})
    assert error.value.title == "Customer"
    return problems(error)


def test_values_are_validated_and_defaults_filled_in():
    customer = Customer(id="c1", name="Alice", seats="3", address={"street": "A"})  # pyright: ignore[reportArgumentType]
    assert (customer.seats, customer.tier, customer.profile) == (3, Tier.BASIC, {})
    assert customer.address == Address(street="A", number=1)
    assert Customer(id="c2", name="B").profile is not Customer(id="c3", name="C").profile


def test_unknown_missing_and_constrained_arguments_are_errors():
    assert refused(nme="x") == {"nme": "Extra inputs are not permitted"}
    assert refused(seats=-1) == {"seats": "Input should be greater than or equal to 0"}
    with pytest.raises(ValidationError) as error:
        Customer(id="c1")  # pyright: ignore[reportCallIssue]
    assert problems(error) == {"name": "Field required"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"score": math.nan}, "nan cannot be stored"),
        ({"price": Decimal("NaN")}, "finite"),
        ({"price": Decimal("Infinity")}, "finite"),
        ({"price": Decimal("1E+5000000")}, "exponent 5000000"),
        ({"price": Decimal("1E-5000000")}, "exponent -5000000"),
        ({"name": "\ud800"}, "unicode"),
        ({"id": "\ud800"}, "unicode"),
        ({"id": ""}, "at least 1 character"),
        ({"profile": {"a": {1, 2}}}, r"set is not a JSON value (at $.a)"),
        ({"profile": {"a": [(1,)]}}, r"tuple is not a JSON value (at $.a[0])"),
        ({"profile": {"a": math.inf}}, "inf is not a JSON number"),
        ({"profile": {"a": {1: 2}}}, "key 1 is not a str"),
        ({"profile": {"\ud800": 2}}, "lone surrogate"),
        ({"anything": object()}, "object is not a JSON value"),
        ({"anything": datetime(2024, 1, 1, tzinfo=UTC)}, "datetime is not a JSON value"),
        ({"spots": [Point(1, math.nan)]}, "nan cannot be stored (at $[0].y)"),
        ({"spots": [Point("x")]}, "expected float, got str (at $[0].x)"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_what_cannot_be_stored_is_refused_at_construction(values: dict[str, Any], message: str):
    (problem,) = refused(**values).values()
    assert message in problem


def test_json_nested_beyond_every_reader_is_refused():
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    assert "levels deep" in refused(anything=deep)["anything"]


def test_a_subclass_of_a_model_is_refused_because_it_would_come_back_as_its_base():
    class Palace(Address):
        towers: int = 3

    assert "expected Address, got Palace" in refused(address=Palace(street="A"))["address"]


def test_infinity_is_stored_and_negative_zero_becomes_zero():
    customer = Customer(id="c1", name="A", score=-0.0)
    assert math.copysign(1, customer.score or 0.0) == 1
    customer.score = math.inf
    assert customer.score == math.inf
    customer.score = -0.0
    assert math.copysign(1, customer.score) == 1


def test_subclasses_of_datetime_become_plain_datetimes():
    class Stamp(datetime):
        pass

    class Nowhere(tzinfo):
        def utcoffset(self, dt: datetime | None) -> timedelta | None:  # noqa: ARG002 - the name is tzinfo's
            return None

    customer = Customer(id="c1", name="A", at=Stamp(2024, 1, 2, 3, tzinfo=UTC))
    assert type(customer.at) is datetime
    customer.at = datetime(2024, 1, 1, tzinfo=Nowhere())
    assert customer.at.tzinfo is None


def test_assignment_validates_and_refuses_keys_and_unknown_names():
    customer = Customer(id="c1", name="Alice")
    customer.tier = "gold"  # pyright: ignore[reportAttributeAccessIssue]
    assert customer.tier is Tier.GOLD
    with pytest.raises(ValidationError) as error:
        customer.seats = -1
    assert (error.value.title, problems(error)) == (
        "Customer",
        {"seats": "Input should be greater than or equal to 0"},
    )
    assert customer.seats == 1
    with pytest.raises(AttributeError, match=r"Customer\.id is part of the identity"):
        customer.id = "c2"
    with pytest.raises(AttributeError, match="Customer has no field 'nme'; its fields are name, seats"):
        customer.nme = "x"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(AttributeError, match="cannot be deleted"):
        del customer.name
    with pytest.raises(AttributeError, match="part of the identity"):
        Uses(left_key="c1", right_key=1).left_key = "c2"


def test_properties_with_setters_still_work():
    class Shouting(Customer):
        @property
        def loud(self) -> str:
            return self.name.upper()

        @loud.setter
        def loud(self, value: str) -> None:
            self.name = value.lower()

    shouting = Shouting(id="c1", name="alice")
    shouting.loud = "BOB"
    assert (shouting.name, shouting.loud) == ("bob", "BOB")


def test_dump_and_validate_are_inverse():
    customer = Customer(
        id="c1",
        name="Alice",
        tier=Tier.GOLD,
        price=Decimal("1.50"),
        at=datetime(2024, 1, 1, tzinfo=UTC),
        profile={"a": [1]},
        address=Address(street="A"),
        spots=[Point(1.0)],
        blob=b"\xff",
    )
    dumped = customer.model_dump()
    assert dumped["address"] == {"street": "A", "number": 1}
    assert dumped["tier"] is Tier.GOLD
    assert Customer.model_validate(dumped) == customer
    dumped["profile"]["a"].append(2)
    assert customer.profile == {"a": [1]}
    as_json = customer.model_dump(mode="json")
    assert (as_json["tier"], as_json["price"], as_json["blob"]) == ("gold", "1.50", "_w==")
    assert list(as_json) == [field.name for field in Customer.__spec__.fields]
    infinite = Customer(id="c1", name="A", score=math.inf).model_dump(mode="json")
    assert json.loads(json.dumps(infinite, allow_nan=False))["score"] == "Infinity"
    assert Customer.model_validate(infinite).score == math.inf
    with pytest.raises(TypeError, match="takes a mapping"):
        Customer.model_validate([("id", "c1")])  # pyright: ignore[reportArgumentType]


def test_equality_is_type_and_values_and_hash_is_identity():
    one, same, other = (Customer(id="c1", name=name) for name in ("Alice", "Alice", "Bob"))
    assert one == same != other
    assert hash(one) == hash(same) == hash(other)
    assert len({one, same}) == 1
    assert Product(sku=1) != Token(id=UUID(int=1))
    assert one != "c1"


def test_repr_reads_like_the_call_that_makes_it():
    assert repr(Product(sku=3)) == "Product(sku=3)"
    assert repr(Uses(left_key="c1", right_key=3)) == "Uses(left_key='c1', right_key=3, seats=1)"
    page = Customer(id="<b>", name="A")._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page


def test_keys_of_ends_are_typed_like_the_ends():
    holds = Holds(left_key="7", right_key=str(UUID(int=5)), stint="a")
    assert (holds.left_key, holds.right_key) == (7, UUID(int=5))
    assert identity(holds) == ("7", str(UUID(int=5)), "a")
    assert identity(Uses(left_key="c1", right_key=7)) == ("c1", "7", "")
    for bad in ({"left_key": "", "right_key": 1}, {"left_key": "c1"}, {"left_key": "c1", "right_key": "x"}):
        with pytest.raises(ValidationError):
            Uses.model_validate(bad)
    for blank in ("", "  ", None, "\ud800"):
        with pytest.raises(ValidationError):
            Holds(left_key=1, right_key=UUID(int=5), stint=blank)  # pyright: ignore[reportArgumentType]


def test_an_object_that_was_not_read_has_no_meta_and_no_ends():
    with pytest.raises(MetadataUnavailableError, match="not read from a store"):
        Product(sku=1).meta()
    for end in ("left", "right"):
        with pytest.raises(MetadataUnavailableError, match="ends of this Uses"):
            getattr(Uses(left_key="c1", right_key=1), end)


def test_meta_asks_for_the_time_only_when_asked():
    asked: list[int] = []

    def time_of(commit_id: int) -> datetime:
        asked.append(commit_id)
        return datetime(2024, 1, 1, tzinfo=UTC)

    holds = hydrator(Holds)(encoder(Holds)(Holds(left_key=1, right_key=UUID(int=2), stint="a")), 7, time_of)
    assert asked == []
    assert holds.meta() == Meta(7, "Holds", None, "1", str(UUID(int=2)), "a", datetime(2024, 1, 1, tzinfo=UTC))
    assert asked == [7]


def test_ends_are_attached_one_by_one():
    uses = Uses(left_key="c1", right_key=1)
    uses.attach("right", Product(sku=1))
    assert (uses.left, uses.right) == (None, Product(sku=1))
    uses.attach("left", Customer(id="c1", name="A"))
    assert uses.left == Customer(id="c1", name="A")
    assert uses.right == Product(sku=1)


def test_copies_are_equal_and_independent():
    customer = Customer(
        id="c1", name="Alice", profile={"a": [1]}, at=datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    )
    for made in (copy.copy(customer), copy.deepcopy(customer), pickle.loads(pickle.dumps(customer))):  # noqa: S301
        assert made == customer
        made.name = "Bob"
        assert customer.name == "Alice"
    deep = copy.deepcopy(customer)
    deep.profile["a"].append(2)
    assert customer.profile == {"a": [1]}


def test_an_attribute_read_does_not_go_through_the_descriptor():
    customer = Customer(id="c1", name="Alice")
    assert customer.__dict__["name"] == "Alice"
    assert not hasattr(type(customer).__dict__["name"], "__set__")


class Vast(Entity):
    id: Field[int] = Field(primary_key=True)
    number: Field[int] = Field(default=0)
    self: Field[str] = Field(default="x")


def test_integers_longer_than_python_prints_can_be_shown_and_dumped():
    vast = Vast(id=1, number=10**5000, self="me")
    assert f"number={hex(10**5000)}, self='me'" in repr(vast)
    assert hex(10**5000) in vast._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert vast.model_dump(mode="json") == {"id": 1, "number": 10**5000, "self": "me"}


def test_an_integer_key_has_a_size_that_can_be_written():
    assert identity(Vast(id=10**600)) == (str(10**600),)
    with pytest.raises(ValidationError, match="an integer key must be below"):
        Vast(id=10**5000)


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (Annotated[int, AfterValidator(float)], "a float cannot be stored as int"),
        (Annotated[datetime, AfterValidator(str)], "a str cannot be stored as datetime"),
        (Annotated[float, AfterValidator(lambda _: 10**400)], "too large for a float"),
    ],
)
def test_a_validator_that_returns_another_type_is_refused(annotation: Any, message: str):
    odd: Any = type(
        "Odd",
        (Entity,),
        {"__annotations__": {"id": Field[str], "odd": Field[annotation]}, "id": Field(primary_key=True)},
    )
    with pytest.raises(ValidationError, match=message):
        odd(id="k", odd=1)
