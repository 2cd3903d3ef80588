"""Hypothesis strategies for rows and queries: what a new backend is compared with the reference evaluator on.

They cover every kind, null and not, and lean towards what engines get wrong: NUL and astral characters, numbers at the
edges of their types, equal instants with different offsets, JSON of every class in one place. Literals and values come
from the same small pools, so that random conditions do hold for random rows. Needs `hypothesis`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import cache
from typing import Any

from hypothesis import strategies as st

from ontologia.base.canonical import canonical_json
from ontologia.model.spec import FieldSpec, Kind, TypeSpec
from ontologia.query import aggregates as agg
from ontologia.query.aggregates import Aggregate
from ontologia.query.expr import FieldExpr, field_expression
from ontologia.query.predicates import And, Const, Not, Or, Order, Predicate, Side

_OPEN: dict[Kind, Any] = {
    Kind.TEXT: "str",
    Kind.INT: "int",
    Kind.FLOAT: "float",
    Kind.BOOL: "bool",
    Kind.DECIMAL: "decimal",
    Kind.DATETIME: "datetime",
    Kind.DATE: "date",
    Kind.TIME: "time",
    Kind.BYTES: "bytes",
    Kind.JSON: "any",
}
WIDE = TypeSpec(
    "entity",
    "Wide",
    (
        FieldSpec("id", "str", Kind.TEXT, primary_key=True),
        *(FieldSpec(kind.value, shape, kind) for kind, shape in _OPEN.items()),
        *(FieldSpec(f"{kind.value}_or_null", shape, kind, nullable=True) for kind, shape in _OPEN.items()),
        FieldSpec("events", {"list": {"dict": "any"}}, Kind.JSON),
        FieldSpec("tags", {"list": "str"}, Kind.JSON, nullable=True),
    ),
)
"""A type with a field of every kind, null allowed and not, and lists."""

_ZONES = [UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-8)), None]
_COMMON: list[Any] = [0, 1, 5, 1.0, 5.0, 0.5, 2.5, "a", "ab", "5"]
"""Values that are both in rows and in conditions more often than chance would have it."""
_COMMON_KEYS = ["a", "b"]
_KEYS = ["a", "b", "kind", "a.b", "é", 'q"', "\\", "\x01", "*", ""]
_TEXTS = [
    "",
    "a",
    "A",
    "ab",
    "aB",
    "b",
    "a\0",
    "a\0b",
    "\0",
    "é",
    "ß",
    "SS",
    "😀",
    "\ud7ff",
    "\ue000",
    "\U0010ffff",
    "5",
]
_PATTERNS = ["a", "^a", "b$", "(?i)AB", ".", "^$", "[a-b]+", "\\d", "x|😀"]
_INTS = [0, 1, -1, 2, 5, 2**31, 2**53, 2**53 + 1, 2**63 - 2, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**30]
_FLOATS = [0.0, 1.0, 0.5, -0.5, 0.1, 2.0**53, 2.0**63, 1e16, 1e-310, 5e-324, 1.7976931348623157e308, -1e300, 1e30]
_INFINITE = [float("inf"), float("-inf")]
_DECIMALS = ["0", "1", "1.00", "-1", "0.1", "0.5", "1e30", "-1e-30", "9007199254740993", "123456789.123456789", "1e400"]


@cache
def texts() -> st.SearchStrategy[str]:
    """Short texts, often equal to or inside one another."""
    return st.sampled_from(_TEXTS) | st.text(st.sampled_from("aAbB\0éß😀\ue000"), max_size=4) | st.text(max_size=3)


def ints(*, wide: bool = True) -> st.SearchStrategy[int]:
    """Ints around the edges; `wide` ones go beyond 64 bits."""
    limit = 2**63 - 1
    pool = _INTS if wide else [value for value in _INTS if abs(value) <= limit]
    return st.sampled_from(pool) | st.integers(-3, 6)


def floats() -> st.SearchStrategy[float]:
    """Floats that can be stored: no nan, no negative zero."""
    wild = st.floats(allow_nan=False).map(lambda value: value + 0.0)
    return st.sampled_from(_FLOATS + _INFINITE) | st.integers(-3, 6).map(float) | wild


def decimals() -> st.SearchStrategy[Decimal]:
    wild = st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-100, max_value=100)
    return st.sampled_from(_DECIMALS).map(Decimal) | wild


def datetimes() -> st.SearchStrategy[datetime]:
    """Few instants, many offsets, and none at all."""
    moments = st.sampled_from(
        [datetime(2024, 2, 29, 12, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 7, tzinfo=UTC)]
    )
    first, last = datetime(1900, 1, 1), datetime(2100, 1, 1)  # noqa: DTZ001 - hypothesis wants them without offset
    wild = st.datetimes(first, last, timezones=st.just(UTC))
    return st.builds(_in_zone, moments | wild, st.sampled_from(_ZONES))


def _in_zone(moment: datetime, zone: timezone | None) -> datetime:
    return moment.replace(tzinfo=None) if zone is None else moment.astimezone(zone)


def _with_offset(moment: time, zone: timezone | None) -> time:
    return moment.replace(tzinfo=zone)


@cache
def json_values() -> st.SearchStrategy[Any]:
    """JSON of every class; nested a little."""
    finite = st.sampled_from(_FLOATS) | st.floats(allow_nan=False, allow_infinity=False)
    infinite = st.sampled_from(["inf", "-inf"]).map(lambda value: {"$type": "float", "$value": value})
    common = st.sampled_from(_COMMON)
    leaves = common | common | st.none() | st.booleans() | ints() | finite | texts() | infinite
    records = st.dictionaries(st.sampled_from(_COMMON_KEYS), leaves, min_size=1, max_size=2)
    return records | st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys(), inner, max_size=3),
        max_leaves=6,
    )


@cache
def _keys() -> st.SearchStrategy[str]:
    return st.sampled_from(_COMMON_KEYS) | st.sampled_from(_KEYS)


def _present(field: FieldSpec) -> st.SearchStrategy[Any]:
    if field.kind is Kind.JSON:
        return _json_of(canonical_json(field.type))
    return _scalars(field.kind, wide=field.nullable)


@cache
def _scalars(kind: Kind, *, wide: bool) -> st.SearchStrategy[Any]:
    match kind:
        case Kind.TEXT:
            return texts()
        case Kind.INT:
            return ints(wide=wide)
        case Kind.FLOAT:
            return floats()
        case Kind.BOOL:
            return st.booleans()
        case Kind.DECIMAL:
            return decimals()
        case Kind.DATETIME:
            return datetimes()
        case Kind.DATE:
            return st.sampled_from([date(1, 1, 1), date(2024, 2, 29), date(9999, 12, 31)]) | st.dates()
        case Kind.TIME:
            return st.builds(_with_offset, st.times() | st.just(time(12)), st.sampled_from(_ZONES))
        case Kind.BYTES | Kind.JSON:
            return st.sampled_from([b"", b"\0", b"a", b"\xff"]) | st.binary(max_size=3)


@cache
def _json_of(shape: str) -> st.SearchStrategy[str]:
    if shape == '{"list":"str"}':
        return st.lists(texts(), max_size=3).map(canonical_json)
    if shape == '{"list":{"dict":"any"}}':
        item = st.dictionaries(_keys(), json_values(), max_size=3)
        return st.lists(item, max_size=3).map(canonical_json)
    # Null as a whole is a null field, and never the text "null".
    return json_values().filter(lambda value: value is not None).map(canonical_json)


def rows(spec: TypeSpec = WIDE) -> st.SearchStrategy[dict[str, Any]]:
    """Rows of a type: field name to stored value. Only nullable int fields hold ints beyond 64 bits."""
    return st.fixed_dictionaries(
        {f.name: st.none() | _present(f) if f.nullable else _present(f) for f in spec.fields},
    )


@cache
def _literals(kind: Kind) -> st.SearchStrategy[Any]:
    match kind:
        case Kind.INT | Kind.FLOAT | Kind.DECIMAL:
            return ints() | floats() | decimals()
        case Kind.JSON:
            return st.sampled_from(_COMMON) | texts() | ints() | floats()
        case _:
            return _scalars(kind, wide=True)


@st.composite
def places(draw: st.DrawFn, spec: TypeSpec = WIDE, side: Side = "self", *, single: bool = False) -> FieldExpr[Any]:
    """A field, a place inside one, a length; unless `single`, also the items of a list."""
    field = draw(st.sampled_from(spec.fields))
    place = field_expression(spec, field, None, side)
    if field.kind is Kind.JSON:
        if not isinstance(field.type, dict):
            for key in draw(st.lists(_keys(), max_size=2)):
                place = place[key]
        if not single and (isinstance(field.type, dict) or draw(st.integers(0, 3)) == 0):
            place = place.any_path()
            if field.type != {"list": "str"}:
                # The items of `events` are dicts by their type, so only what is in them is compared.
                for key in draw(st.lists(_keys(), min_size=isinstance(field.type, dict), max_size=1)):
                    place = place[key]
    if field.kind in (Kind.TEXT, Kind.BYTES, Kind.JSON) and draw(st.integers(0, 4)) == 0:
        return place.len_()
    return place


@st.composite
def comparisons(draw: st.DrawFn, spec: TypeSpec = WIDE, sides: Sequence[Side] = ("self",)) -> Predicate:
    """One test of one place."""
    place = draw(places(spec, draw(st.sampled_from(list(sides)))))
    kind = place.ref.value_kind
    tests = ["null", "not_null", "in", "not_in"]
    if kind is not Kind.BOOL:
        tests += ["==", "!=", "<", "<=", ">", ">=", "between"]
    if kind in (Kind.BOOL, Kind.JSON):
        tests += ["true", "false"]
    if kind in (Kind.TEXT, Kind.JSON):
        tests += ["startswith", "endswith", "contains", "icontains", "matches"]
    return _test(draw, place, draw(st.sampled_from(tests)))


def _test(draw: st.DrawFn, place: FieldExpr[Any], test: str) -> Predicate:
    # The items of this list are text by its type, and are compared with nothing else.
    only_text = place.ref.field == "tags" and place.ref.each is not None and not place.ref.length
    literals = texts() if only_text else _literals(place.ref.value_kind)
    match test:
        case "null":
            return place.is_null()
        case "not_null":
            return place.is_not_null()
        case "true":
            return place.is_true()
        case "false":
            return place.is_false()
        case "in" | "not_in":
            inside = literals | st.booleans() if place.ref.value_kind is Kind.JSON else literals
            values = draw(st.lists(inside, max_size=4))
            return place.in_(values) if test == "in" else place.not_in(values)
        case "between":
            return place.between(draw(literals), draw(literals))
        case "matches":
            return place.matches(draw(st.sampled_from(_PATTERNS)))
        case "startswith" | "endswith" | "contains" | "icontains":
            return getattr(place, test)(draw(texts()))
        case _:
            operator = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}[test]
            return getattr(place, f"__{operator}__")(draw(literals))


def predicates(spec: TypeSpec = WIDE, sides: Sequence[Side] = ("self",)) -> st.SearchStrategy[Predicate]:
    """Conditions on fields of a type, joined at random; with `sides`, also on ends of that same type."""
    leaves = comparisons(spec, sides) | st.booleans().map(Const)
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(lambda terms: And(tuple(terms))),
            st.lists(inner, min_size=1, max_size=3).map(lambda terms: Or(tuple(terms))),
            inner.map(Not),
        ),
        max_leaves=5,
    )


def orders(spec: TypeSpec = WIDE) -> st.SearchStrategy[list[Order]]:
    """Sort criteria."""
    return st.lists(st.builds(Order, places(spec, single=True).map(lambda place: place.ref), st.booleans()), max_size=3)


@st.composite
def aggregates(draw: st.DrawFn, spec: TypeSpec = WIDE) -> Aggregate:
    """A figure over fields of a type."""
    place = draw(places(spec, single=True))
    figures = [agg.count_distinct(place), agg.min(place), agg.max(place), agg.count()]
    if place.ref.value_kind in (Kind.INT, Kind.FLOAT, Kind.DECIMAL, Kind.JSON):
        figures += [agg.sum(place), agg.avg(place)]
    if place.ref.length:
        figures.append(Aggregate(agg.Fn.AVG_LEN, place.ref))
    figures.append(agg.count_where(draw(predicates(spec))))
    return draw(st.sampled_from(figures))
