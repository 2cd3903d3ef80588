"""Identity and the round trip of every kind of value, as every backend must do them.

What goes in comes out, to the last digit and offset, through objects and through tables, now and in the past;
writing it again is no change. What values mean in a query is the subject of `queries`.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

import ontologia
from ontologia import Entity, Field, Ontology
from ontologia.testing.conformance.world import (
    Colour,
    Company,
    ConformanceSuite,
    Customer,
    Employment,
    OpenStore,
    Person,
    Place,
    Sample,
    edges,
    keys,
    open_shop,
    put,
)

INDIA = timezone(timedelta(hours=5, minutes=30))

VALUES: list[tuple[str, Any]] = [
    *(("text", text) for text in ("", " ", "é", "e\u0301", "a\x00b", "😀", "'; DROP TABLE x; --", "NULL", "1", "%_\\")),
    *(("whole", number) for number in (0, -1, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 10**30, -(10**30), 10**5000)),
    *(("real", number) for number in (0.0, 0.1, -1.0, 1e308, 5e-324, 2.0**60, float("inf"), float("-inf"))),
    *(("flag", flag) for flag in (True, False)),
    *(("exact", Decimal(text)) for text in ("0", "1.10", "-1E+5", "1E-30", "12345678901234567890.0123456789", "-0.00")),
    ("moment", datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)),
    ("moment", datetime(2026, 3, 1, 12, 30, tzinfo=INDIA)),
    ("moment", datetime(2026, 3, 1, 12, 30)),  # noqa: DTZ001 - a value without an offset must stay without one
    ("moment", datetime(1, 1, 1, tzinfo=UTC)),
    ("moment", datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
    *(("day", day) for day in (date.min, date(1969, 12, 31), date(2026, 2, 28), date.max)),
    *(("clock", clock) for clock in (time(0, 0), time(23, 59, 59, 999999), time(1, 0, tzinfo=INDIA))),
    *(("blob", blob) for blob in (b"", b"\x00", b"\xff\xfe text")),
    ("token", UUID("018f0000-0000-7000-8000-000000000001")),
    ("colour", Colour.BLUE),
    ("mode", "off"),
    *(("words", words) for words in ([], ["b", "a", "b"], ["", "\x00"])),
    ("anything", {}),
    ("anything", {"b": [1, 1.0, None, True], "a": {"c": 10**20, "ü": "✓"}, "": "", "a.b": [[]]}),
    ("place", Place(city="Rome", since=date(2020, 1, 1))),
    *(("mixed", either) for either in (7, "7")),
]

COMPARED = [one for one in VALUES if one[0] not in {"flag", "words", "anything", "place"}]
"""Those of fields that are compared by `==` and have no questions of their own."""


def names(values: list[tuple[str, Any]]) -> list[str]:
    """What the tests of these values are called."""
    return [f"{field}-{number}" for number, (field, _) in enumerate(values)]


def same(found: Any, wanted: Any) -> bool:
    """Equal, of one class, and written alike: `1.0` is not `1.00`, noon in Rome is not eleven in London."""
    if isinstance(wanted, datetime | time):
        return found == wanted and found.isoformat() == wanted.isoformat()
    if isinstance(wanted, dict):
        return json.dumps(found, sort_keys=True) == json.dumps(wanted, sort_keys=True)
    if isinstance(wanted, int) and wanted.bit_length() > 10_000:
        return type(found) is int and found == wanted
    return type(found) is type(wanted) and found == wanted and repr(found) == repr(wanted)


class ValueConformance(ConformanceSuite):
    """How values and identities survive."""

    @pytest.mark.parametrize(("field", "value"), VALUES, ids=names(VALUES))
    def test_a_value_comes_back_as_it_was(self, open_store: OpenStore, field: str, value: Any) -> None:
        onto = open_shop(open_store)
        put(onto, Sample(id="s", **{field: value}))
        put(onto, Sample(id="s"))
        query = onto.query().entities(Sample)
        now, then = query.get("s"), query.as_of(1).get("s")
        assert now is not None
        assert getattr(now, field) is None
        assert same(getattr(then, field), value)
        first, second = query.with_history().collect()
        assert same(getattr(first, field), value)
        assert getattr(second, field) is None

    @pytest.mark.parametrize(("field", "value"), VALUES, ids=names(VALUES))
    def test_writing_a_value_again_is_no_change(self, open_store: OpenStore, field: str, value: Any) -> None:
        onto = open_shop(open_store)
        assert put(onto, Sample(id="s", **{field: value})) == 1
        found = onto.query().entities(Sample).get("s")
        assert found is not None
        assert same(getattr(found, field), value)
        assert put(onto, found) is None
        with onto.session() as session:
            session.ensure_rows(Sample, [{"id": "s", field: value}])
        assert onto.head() == 1
        assert onto.verify() == []

    @pytest.mark.parametrize(("field", "value"), VALUES, ids=names(VALUES))
    def test_rows_and_objects_say_the_same(self, open_store: OpenStore, field: str, value: Any) -> None:
        onto = open_shop(open_store)
        with onto.session() as session:
            session.ensure_rows(Sample, [{"id": "s", field: value}])
        assert put(onto, Sample(id="s", **{field: value})) is None

    def test_every_value_survives_reopening(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        put(onto, *(Sample(id=f"{number}", **{field: value}) for number, (field, value) in enumerate(VALUES)))
        onto.close()
        again = open_shop(open_store)
        for number, (field, value) in enumerate(VALUES):
            found = again.query().entities(Sample).get(f"{number}")
            assert same(getattr(found, field), value), f"{field} {value!r}"

    @pytest.mark.parametrize(("field", "value"), COMPARED, ids=names(COMPARED))
    def test_a_value_finds_itself(self, open_store: OpenStore, field: str, value: Any) -> None:
        onto = open_shop(open_store)
        put(onto, Sample(id="it", **{field: value}), Sample(id="none"))
        expression = getattr(Sample, field)
        query = onto.query().entities(Sample)
        assert keys(query.where(expression == value)) == ["it"]
        assert keys(query.where(expression != value)) == ["none"]
        assert keys(query.where(expression.in_([value]))) == ["it"]

    def test_keys_are_told_apart_exactly(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        names = [
            "a",
            "A",
            "a ",
            " a",
            "a\x00",
            "a\x00b",
            "é",
            "e\u0301",
            "1",
            "01",
            "1.0",
            "😀",
            "\uffff",
            "'",
            '"',
            "%",
        ]
        put(onto, *(Person(id=name, name=name) for name in names))
        assert onto.query().entities(Person).count() == len(names)
        for name in names:
            found = onto.query().entities(Person).get(name)
            assert found is not None
            assert found.name == name
        put(onto, *(Person(id=name, name="new") for name in names))
        assert onto.get_commit(2).counts == {"Person": len(names)}
        assert onto.verify() == []

    def test_text_sorts_by_code_point(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        names = ["b", "a", "B", "é", "z", "\uffff", "😀", "10", "9"]
        put(onto, *(Person(id=name) for name in names))
        assert keys(onto.query().entities(Person).order_by(Person.id)) == sorted(names)
        assert keys(onto.query().entities(Person).with_history()) == sorted(names)

    def test_a_key_of_numbers_is_a_number_on_reading(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        put(onto, *(Company(number=number, city=f"City {number}") for number in (10, 9, -1)))
        found = onto.query().entities(Company).get(9)
        assert found == Company(number=9, city="City 9")
        assert found is not None
        assert found.meta().key == "9"
        numbers = [company.number for company in onto.query().entities(Company).order_by(Company.number)]
        assert numbers == [-1, 9, 10]
        assert keys(onto.query().entities(Company).where(Company.number > 5).order_by(Company.number)) == ["9", "10"]

    def test_a_uuid_key_is_a_uuid_on_reading(self, open_store: OpenStore) -> None:
        class Device(Entity):
            serial: Field[UUID] = Field(primary_key=True)

        onto = open_store(entity_types=[Device])
        serial = UUID("018f0000-0000-7000-8000-0000000000ff")
        put(onto, Device(serial=serial))
        found = onto.query().entities(Device).get(serial)
        assert found == Device(serial=serial)

    def test_keyed_relations_hold_many_edges_between_a_pair(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        put(onto, Person(id="p"), Company(number=1))
        put(onto, *(Employment(left_key="p", right_key=1, stint=stint, pay=1) for stint in ("b", "a")))
        put(onto, Employment(left_key="p", right_key=1, stint="b", pay=2))
        found = onto.query().relations(Employment).order_by(Employment.stint).collect()
        assert [(edge.stint, edge.pay, edge.meta().instance_key) for edge in found] == [("a", 1, "a"), ("b", 2, "b")]
        assert found[0].right_key == 1

    def test_unkeyed_relations_hold_one_edge_between_a_pair(self, open_store: OpenStore) -> None:
        from ontologia.testing.conformance.world import Subscription

        onto = open_shop(open_store)
        put(onto, Subscription(left_key="c", right_key="p", seats=1))
        put(
            onto, Subscription(left_key="c", right_key="p", seats=2), Subscription(left_key="p", right_key="c", seats=3)
        )
        found = onto.query().relations(Subscription).order_by(Subscription.seats).collect()
        assert edges(found) == [("c", "p", ""), ("p", "c", "")]
        assert [edge.seats for edge in found] == [2, 3]

    def test_the_order_of_declared_fields_does_not_matter(self, open_store: OpenStore) -> None:
        class Straight(Entity, name="Thing"):
            id: Field[str] = Field(primary_key=True)
            number: Field[int]
            exact: Field[Decimal]
            label: Field[str] = Field(default="none", index=True)

        class Reversed(Entity, name="Thing"):
            label: Field[str] = Field(default="none")
            exact: Field[Decimal]
            number: Field[int]
            id: Field[str] = Field(primary_key=True)

        first = open_store(entity_types=[Straight])
        put(first, Straight(id="t", number=10**25, exact=Decimal("1.50"), label="x"))
        second = open_store(entity_types=[Reversed])
        second.validate()
        assert put(second, Reversed(id="t", number=10**25, exact=Decimal("1.50"), label="x")) is None
        assert put(second, Reversed(id="t", number=2, exact=Decimal(3), label="y")) == 2
        query = second.query().entities(Reversed)
        assert query.where(Reversed.number == 2).collect() == [Reversed(id="t", number=2, exact=Decimal(3), label="y")]
        assert query.as_of(1).one() == Reversed(id="t", number=10**25, exact=Decimal("1.50"), label="x")
        assert query.with_history().where(Reversed.label == "x").one().number == 10**25
        assert query.agg(total=ontologia.sum(Reversed.number)) == {"total": 2}
        assert first.query().entities(Straight).one() == Straight(id="t", number=2, exact=Decimal(3), label="y")
        assert second.diff(1, 2, Reversed)[0].after.label == "y"
        assert second.blame(Reversed, "t") == {"label": 2, "exact": 2, "number": 2, "id": 1}
        assert second.verify() == []

    def test_integers_beyond_64_bits_compare_sort_and_add_up(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        numbers = [0, 2**63 - 1, 2**63, 2**63 + 1, -(2**63) - 1, -(10**40), 10**40]
        put(onto, Sample(id="s0", whole=0))
        put(onto, *(Sample(id=f"s{at}", whole=number) for at, number in enumerate(numbers)), Sample(id="null"))
        query = onto.query().entities(Sample)
        assert [sample.whole for sample in query.order_by(Sample.whole)] == [*sorted(numbers), None]
        assert [sample.whole for sample in query.order_by(Sample.whole.desc())] == [
            *sorted(numbers, reverse=True),
            None,
        ]
        for number in numbers:
            assert query.where(Sample.whole == number).one().whole == number
            assert query.where(Sample.whole > number).count() == len([other for other in numbers if other > number])
            assert query.where(Sample.whole <= number).count() == len([other for other in numbers if other <= number])
        figures = query.agg(
            total=ontologia.sum(Sample.whole), low=ontologia.min(Sample.whole), high=ontologia.max(Sample.whole)
        )
        assert figures == {"total": sum(numbers), "low": min(numbers), "high": max(numbers)}
        assert query.as_of(1).where(Sample.whole == 0).count() == 1

    def test_others_notice_the_first_integer_beyond_64_bits(self, open_store: OpenStore) -> None:
        def seen(onto: Ontology) -> list[Any]:
            query = onto.query().entities(Sample)
            return [
                sorted(sample.whole or 0 for sample in query),
                query.where(Sample.whole > 10**29).count(),
                query.agg(total=ontologia.sum(Sample.whole)),
                [sample.whole for sample in query.order_by(Sample.whole.desc()).limit(1)],
                query.with_history().count(),
            ]

        first, second = open_shop(open_store), open_shop(open_store)
        put(first, Sample(id="a", whole=1))
        assert seen(first) == seen(second)
        put(second, Sample(id="b", whole=10**30))
        assert seen(first) == seen(second) == [[1, 10**30], 1, {"total": 10**30 + 1}, [10**30], 2]

    def test_sums_of_64_bit_integers_do_not_overflow(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        put(onto, *(Sample(id=f"s{at}", whole=2**63 - 1) for at in range(3)))
        assert onto.query().entities(Sample).agg(n=ontologia.sum(Sample.whole)) == {"n": 3 * (2**63 - 1)}

    def test_datetimes_compare_as_instants(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
        put(onto, Sample(id="utc", moment=noon), Sample(id="india", moment=noon.astimezone(INDIA)))
        query = onto.query().entities(Sample).order_by(Sample.id)
        assert keys(query.where(Sample.moment == noon)) == ["india", "utc"]
        assert keys(query.where(Sample.moment < noon + timedelta(microseconds=1))) == ["india", "utc"]
        assert query.where(Sample.moment < noon.astimezone(INDIA)).count() == 0
        assert put(onto, Sample(id="utc", moment=noon.astimezone(INDIA))) == 2, "another offset is another value"

    def test_decimals_compare_as_numbers(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        texts = ["-10", "-9.5", "0", "0.5", "0.50000000000000000001", "9", "10", "1E+30"]
        put(onto, *(Sample(id=f"{at}", exact=Decimal(text)) for at, text in enumerate(texts)))
        query = onto.query().entities(Sample)
        assert [str(sample.exact) for sample in query.order_by(Sample.exact)] == texts
        assert query.where(Sample.exact == Decimal("0.500")).one().id == "3"
        assert query.where(Sample.exact > Decimal("0.5")).count() == 4

    def test_a_default_is_kept_as_a_value(self, open_store: OpenStore) -> None:
        onto = open_shop(open_store)
        put(onto, Customer(id="c", name="Alice"))
        found = onto.query().entities(Customer).where(Customer.tier == "Standard").one()
        assert (found.tier, found.email, found.profile, found.active) == ("Standard", None, {}, True)
