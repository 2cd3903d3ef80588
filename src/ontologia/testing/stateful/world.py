"""The types that the state machine writes: nodes that change their shape, marks of many kinds, two relations.

Every version of `Node` comes with the upgrader that leads to it and with conditions whose meaning is said twice,
as an expression and in plain Python. Needs `hypothesis`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from ontologia import Entity, Field, Relation, left, right, upgrader

Values = dict[str, Any]
Law = Callable[[Values], bool]


class Mark(Entity):
    """Values that engines get wrong."""

    id: Field[int] = Field(primary_key=True)
    size: Field[int | None] = Field(default=None)
    exact: Field[Decimal | None] = Field(default=None)
    seen: Field[datetime | None] = Field(default=None)
    data: Field[dict[str, Any]] = Field(default_factory=dict[str, Any])


class NodeAtFirst(Entity, name="Node"):
    """Version 1."""

    id: Field[str] = Field(primary_key=True)
    label: Field[str] = Field(index=True)
    size: Field[int]


class NodeWithColour(Entity, name="Node"):
    """Version 2 adds a field."""

    id: Field[str] = Field(primary_key=True)
    label: Field[str] = Field(index=True)
    size: Field[int]
    colour: Field[str | None] = Field(default=None)


class NodeWithWeight(Entity, name="Node"):
    """Version 3 puts one field in the place of another."""

    id: Field[str] = Field(primary_key=True)
    label: Field[str] = Field(index=True)
    weight: Field[Decimal]
    colour: Field[str | None] = Field(default=None)


class NodeWithFlags(Entity, name="Node"):
    """Version 4 adds a list, lets a field be null, and declares in another order."""

    flags: Field[list[str]] = Field(default_factory=list[str])
    colour: Field[str | None] = Field(default=None)
    weight: Field[Decimal]
    label: Field[str | None] = Field(default=None)
    id: Field[str] = Field(primary_key=True)


class LinkAtFirst(Relation[NodeAtFirst, Mark], name="Link"):
    """One edge between a pair."""

    strength: Field[int]


class LinkWithColour(Relation[NodeWithColour, Mark], name="Link"):
    """The same, one version of its left end on."""

    strength: Field[int]


class LinkWithWeight(Relation[NodeWithWeight, Mark], name="Link"):
    """The same, two versions on."""

    strength: Field[int]


class LinkWithFlags(Relation[NodeWithFlags, Mark], name="Link"):
    """The same, three versions on."""

    strength: Field[int]


class Visit(Relation[Mark, Mark]):
    """Many edges between a pair."""

    turn: Field[str] = Field(instance_key=True)
    note: Field[str | None] = Field(default=None)


def weighed(values: Values) -> Values:
    """Version 2 to version 3, in plain Python."""
    return {name: value for name, value in values.items() if name != "size"} | {"weight": Decimal(values["size"]) / 4}


@upgrader("Node", from_version=2)
def to_weight(values: Values) -> Values:
    """Version 2 to version 3."""
    return weighed(values)


STEPS: list[Callable[[Values], Values]] = [
    lambda values: {**values, "colour": None},
    weighed,
    lambda values: {**values, "flags": []},
]
"""What each version's rows become in the next one."""


@dataclass(frozen=True)
class Era:
    """One version of the declared types."""

    node: type[Any]
    link: type[Any]
    conditions: list[tuple[Any, Law]]


def _node_conditions(cls: type[Any]) -> list[tuple[Any, Law]]:
    found: list[tuple[Any, Law]] = [
        (cls.label == "b", lambda row: row["label"] == "b"),
        (cls.label > "a", lambda row: row["label"] is not None and row["label"] > "a"),
        (cls.label.contains("%"), lambda row: row["label"] is not None and "%" in row["label"]),
        (cls.id.in_(["n1", "n3"]), lambda row: row["id"] in {"n1", "n3"}),
    ]
    fields = cls.__spec__.by_name
    if "size" in fields:
        found.append((cls.size >= 3, lambda row: row["size"] >= 3))
    if "colour" in fields:
        found.append((cls.colour.is_null(), lambda row: row["colour"] is None))
    if "weight" in fields:
        found.append((cls.weight < Decimal("0.75"), lambda row: row["weight"] < Decimal("0.75")))
    if "flags" in fields:
        found.append((cls.flags.any_path() == "x", lambda row: "x" in row["flags"]))
    return found


ERAS = [
    Era(node, link, _node_conditions(node))
    for node, link in (
        (NodeAtFirst, LinkAtFirst),
        (NodeWithColour, LinkWithColour),
        (NodeWithWeight, LinkWithWeight),
        (NodeWithFlags, LinkWithFlags),
    )
]

MARK_CONDITIONS: list[tuple[Any, Law]] = [
    (Mark.size > 2**63, lambda row: row["size"] is not None and row["size"] > 2**63),
    (Mark.size != 5, lambda row: row["size"] != 5),
    (Mark.exact <= Decimal(1), lambda row: row["exact"] is not None and row["exact"] <= 1),
    (Mark.seen.is_not_null(), lambda row: row["seen"] is not None),
    (Mark.data["k"] == 1, lambda row: row["data"].get("k") == 1 and not isinstance(row["data"].get("k"), bool)),
    (Mark.id >= 2, lambda row: row["id"] >= 2),
]

VISIT_CONDITIONS: list[tuple[Any, Law]] = [
    (Visit.turn == "t", lambda row: row["turn"] == "t"),
    (Visit.note.is_null(), lambda row: row["note"] is None),
    (Visit.left_key == 1, lambda row: row["left_key"] == 1),
]

Versions = list[Values]
EndLaw = Callable[[Values, Versions, Versions], bool]


def link_conditions(era: Era) -> list[tuple[Any, EndLaw]]:
    """Conditions on a link and on the versions of its ends."""
    link = era.link
    return [
        (link.strength > 1, lambda row, _left, _right: row["strength"] > 1),
        (left(link).label == "b", lambda _row, nodes, _right: any(node["label"] == "b" for node in nodes)),
        (left(link).id.is_null(), lambda _row, nodes, _right: not nodes),
        (right(link).id >= 2, lambda _row, _left, marks: any(mark["id"] >= 2 for mark in marks)),
        (right(link).size == 5, lambda _row, _left, marks: any(mark["size"] == 5 for mark in marks)),
    ]


INDIA = timezone(timedelta(hours=5, minutes=30))
MOMENTS = [datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 1, 1, 17, 30, tzinfo=INDIA)]
node_keys = st.sampled_from(["n1", "n2", "n3", "N1", "ñ", "n1\x00"])
mark_keys = st.sampled_from([1, 2, 10, -1])
labels = st.sampled_from(["", "a", "b", "%", "é"])


def nodes(era: int) -> st.SearchStrategy[Values]:
    """Values of a node in a version."""
    fields: dict[str, st.SearchStrategy[Any]] = {"id": node_keys, "label": labels}
    fields |= {"size": st.integers(0, 5)} if era < 2 else {"weight": st.integers(0, 8).map(lambda n: Decimal(n) / 4)}
    if era > 0:
        fields["colour"] = st.sampled_from([None, "red"])
    if era > 2:
        fields["label"] = labels | st.none()
        fields["flags"] = st.lists(st.sampled_from(["x", "y"]), max_size=2)
    return st.fixed_dictionaries(fields)


marks = st.fixed_dictionaries(
    {
        "id": mark_keys,
        "size": st.sampled_from([None, 0, 5, 2**63 - 1, 2**63 + 1, -(10**20)]),
        "exact": st.sampled_from([None, *map(Decimal, ("1", "1.0", "-3E+2", "0.30"))]),
        "seen": st.sampled_from([None, *MOMENTS]),
        "data": st.sampled_from([{}, {"k": 1}, {"k": 1.0, "b": [None]}, {"k": True}, {"k": "1"}]),
    }
)
links = st.fixed_dictionaries({"left_key": node_keys, "right_key": mark_keys, "strength": st.integers(0, 3)})
visits = st.fixed_dictionaries(
    {
        "left_key": mark_keys,
        "right_key": mark_keys,
        "turn": st.sampled_from(["t", "T", "u"]),
        "note": st.sampled_from([None, "", "x"]),
    }
)


def plain(values: Mapping[str, Any]) -> str:
    """A text that two rows share when, and only when, they hold the same values to the last digit and offset."""
    return repr(sorted((name, _plain(value)) for name, value in values.items()))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, dict):
        return sorted((name, _plain(inner)) for name, inner in value.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return repr(value)  # pyright: ignore[reportUnknownArgumentType]
