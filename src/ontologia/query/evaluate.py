"""What every query means, in plain Python: the definition that all SQL must agree with.

Rows are mappings from field name to stored value. Logic is two-valued; numbers compare as exact numbers, text by code
point, datetimes and times as instants (no offset means UTC); values of different classes are never equal and never
ordered; what is missing inside JSON is null. Figures over rows are in `figures`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar, cast

from ontologia.base.canonical import canonical_json
from ontologia.errors import QueryError
from ontologia.model.comparable import instant, time_of_day
from ontologia.model.spec import Kind
from ontologia.query.declared import TAG, TAGGED_VALUE, declared_type
from ontologia.query.predicates import COMPLEMENT, And, Compare, Const, Not, Op, Or, Order, Predicate, Ref

Row: TypeAlias = Mapping[str, Any]
End: TypeAlias = Row | Sequence[Row] | None
"""One end of a relation: its row, its versions in the window, or None (or none) when it is not there."""
Evaluator: TypeAlias = Callable[[Row, Sequence[Row], Sequence[Row]], bool]
Item = TypeVar("Item")

_YES, _NO = -1, -2
_INFINITIES: dict[Any, float] = {"inf": math.inf, "-inf": -math.inf}
_MISSING: tuple[Row, ...] = ()
_ORDERED: dict[Op, Callable[[Any, Any], bool]] = {
    Op.EQ: lambda value, literal: value == literal,
    Op.LT: lambda value, literal: value < literal,
    Op.LE: lambda value, literal: value <= literal,
    Op.GT: lambda value, literal: value > literal,
    Op.GE: lambda value, literal: value >= literal,
}


def matches(predicate: Predicate, row: Row, left: End = None, right: End = None) -> bool:
    """Whether a row, with the ends it has, satisfies a predicate."""
    return _evaluator_of(_Same(predicate))(row, versions(left), versions(right))


class _Same:
    """A predicate as a cache key by identity: hashing a deep one would cost more than evaluating it."""

    __slots__ = ("predicate",)

    def __init__(self, predicate: Predicate) -> None:
        self.predicate = predicate

    def __hash__(self) -> int:
        return id(self.predicate)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.predicate is self.predicate


@lru_cache(maxsize=64)
def _evaluator_of(same: _Same) -> Evaluator:
    return evaluator(same.predicate)


def versions(end: End) -> Sequence[Row]:
    """The versions of an end as a sequence."""
    if end is None:
        return _MISSING
    return (end,) if isinstance(end, Mapping) else end


def evaluator(predicate: Predicate) -> Evaluator:
    """The predicate as a function of a row and the versions of its ends, for filtering many rows.

    The predicate becomes a list of tests, each with where to go on when it holds and when it fails, so that neither
    depth nor width of an expression costs Python frames.
    """
    tests: dict[int, tuple[Evaluator, int, int]] = {}
    waiting: list[tuple[Predicate, int, int, int]] = [(predicate, 0, _YES, _NO)]
    labels = 1
    while waiting:
        node, label, yes, no = waiting.pop()
        if isinstance(node, Not):
            waiting.append((node.term, label, no, yes))
        elif isinstance(node, And | Or) and node.terms:
            entries = [label, *range(labels, labels + len(node.terms) - 1)]
            labels += len(node.terms) - 1
            for term, entry, after in zip(node.terms, entries, [*entries[1:], None], strict=True):
                if isinstance(node, And):
                    waiting.append((term, entry, yes if after is None else after, no))
                else:
                    waiting.append((term, entry, yes, no if after is None else after))
        else:
            tests[label] = (_leaf_evaluator(node), yes, no)
    steps = [tests[label] for label in range(labels)]

    def evaluate(row: Row, left: Sequence[Row], right: Sequence[Row]) -> bool:
        at = 0
        while at >= 0:
            test, yes, no = steps[at]
            at = yes if test(row, left, right) else no
        return at == _YES

    return evaluate


def _leaf_evaluator(node: Predicate) -> Evaluator:
    if isinstance(node, Const):
        constant = node.value
        return lambda _row, _left, _right: constant
    if isinstance(node, And | Or):
        empty = isinstance(node, And)
        return lambda _row, _left, _right: empty
    if not isinstance(node, Compare):
        raise QueryError(f"{node!r} is not a condition on rows.")
    test = ref_test(node.ref, node.op, node.value)
    name = node.ref.field
    match node.ref.side:
        case "self":
            return lambda row, _left, _right: test(row[name])
        case "left":
            return lambda _row, left, _right: any(test(version[name]) for version in left)
        case "right":
            return lambda _row, _left, right: any(test(version[name]) for version in right)


def ref_test(ref: Ref, op: Op, literal: Any) -> Callable[[Any], bool]:
    """The test of a comparison, as a function of the stored value of its field."""
    test = value_test(ref.value_kind, op, literal)
    if ref.each is not None:
        read_items = _item_reader(ref)
        return lambda stored: any(map(test, read_items(stored)))
    if ref.plain and ref.kind is not Kind.JSON:
        return test
    read = reader(ref)
    return lambda stored: test(read(stored))


def reader(ref: Ref) -> Callable[[Any], Any]:
    """From the stored value of a field to the value that a (single-valued) reference names."""
    if ref.kind is not Kind.JSON:
        return measured if ref.length else _same
    path, measure = ref.path, measured if ref.length else _same
    if not ref.declared:
        return lambda stored: measure(descend(parse(stored), path))
    read = _typed_reader(ref)
    return lambda stored: measure(read(parse(stored)))


def _typed_reader(ref: Ref) -> Callable[[Any], Any]:
    declared, path = declared_type(ref.declared), ref.path
    return lambda value: _with_infinity(declared.read(*declared.at(value, path)))


def shown(ref: Ref) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """`reader` in two steps: to the value that a result shows, and on to the one that is compared.

    They differ for a whole field that is read by its type: it is shown as parsed JSON, which the codec can read.
    """
    if ref.plain and ref.declared:
        return parse, _typed_reader(ref)
    return reader(ref), _same


def _item_reader(ref: Ref) -> Callable[[Any], Iterable[Any]]:
    """From the stored value of a field to the values that a reference to the items of a list names."""
    path, each, measure = ref.path, cast("tuple[str, ...]", ref.each), measured if ref.length else _same
    if not ref.declared:
        return lambda stored: (measure(descend(item, each)) for item in _items(descend(parse(stored), path)))
    declared = declared_type(ref.declared)

    def read(stored: Any) -> Iterable[Any]:
        items, kind = declared.items(parse(stored), path)
        return (measure(_with_infinity(declared.read(*declared.at(item, each, kind)))) for item in items)

    return read


def value_of(ref: Ref, row: Row) -> Any:
    """The value that a reference names in a row; None when it is null or missing."""
    return reader(ref)(row[ref.field])


def value_test(kind: Kind, op: Op, literal: Any) -> Callable[[Any], bool]:
    """A test of one value, which may be None."""
    if op in COMPLEMENT:
        positive = value_test(kind, COMPLEMENT[op], literal)
        return lambda value: not positive(value)
    match op:
        case Op.NOT_NULL:
            return lambda value: value is not None
        case Op.TRUE:
            return lambda value: value is True
        case Op.FALSE:
            return lambda value: value is False
        case Op.IN:
            wanted = frozenset(order_key(kind, one) for one in literal)
            return lambda value: value is not None and order_key(kind, value) in wanted
        case Op.BETWEEN:
            low, high = value_test(kind, Op.GE, literal[0]), value_test(kind, Op.LE, literal[1])
            return lambda value: low(value) and high(value)
        case Op.STARTSWITH:
            return lambda value: isinstance(value, str) and value.startswith(literal)
        case Op.ENDSWITH:
            return lambda value: isinstance(value, str) and value.endswith(literal)
        case Op.CONTAINS:
            return lambda value: isinstance(value, str) and literal in value
        case Op.ICONTAINS:
            folded = literal.casefold()
            return lambda value: isinstance(value, str) and folded in value.casefold()
        case Op.MATCHES:
            search = re.compile(literal).search
            return lambda value: isinstance(value, str) and search(value) is not None
        case _:
            return _comparison(kind, op, literal)


def _comparison(kind: Kind, op: Op, literal: Any) -> Callable[[Any], bool]:
    compare = _ORDERED[op]
    form = _FORMS.get(kind)
    if form is not None:
        wanted = form(literal)
        return lambda value: value is not None and compare(form(value), wanted)
    if kind is not Kind.JSON:
        return lambda value: value is not None and compare(value, literal)
    rank, wanted = order_key(kind, literal)

    def test(value: Any) -> bool:
        if value is None or json_rank(value) != rank:
            return False
        return compare(order_key(kind, value)[1], wanted)

    return test


_FORMS: dict[Kind, Callable[[Any], Any]] = {Kind.DATETIME: instant, Kind.TIME: time_of_day}
_CONTAINER = 3
_RANKS: dict[type[Any], int] = {
    bool: 0,
    int: 1,
    float: 1,
    Decimal: 1,
    str: 2,
    list: _CONTAINER,
    dict: _CONTAINER,
    bytes: 4,
    datetime: 5,
    date: 6,
    time: 7,
}
_JSON_FORMS: dict[type[Any], Callable[[Any], Any]] = {
    datetime: instant,
    time: time_of_day,
    list: canonical_json,
    dict: canonical_json,
}


def json_rank(value: Any) -> int:
    """The class of a value inside JSON, numbers being one class. It is also the order among classes."""
    rank = _RANKS.get(cast("type[Any]", type(value)))
    return next(_RANKS[cls] for cls in _RANKS if isinstance(value, cls)) if rank is None else rank


@lru_cache(maxsize=512)
def _parsed(text: str) -> Any:
    return json.loads(text)


def parse(stored: str | None) -> Any:
    """The value of canonical JSON text; it is shared, so nobody may change it."""
    return None if stored is None else _parsed(stored)


def descend(value: Any, path: tuple[str, ...]) -> Any:
    """What is at a path of keys; None when there is nothing."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = cast("dict[str, Any]", value).get(key)
    return _with_infinity(value)


def _with_infinity(value: Any) -> Any:
    """The value itself, or the infinite float that it stands for: JSON has none, so the codec writes one as a tag."""
    if not isinstance(value, dict) or len(cast("dict[str, Any]", value)) != 2:
        return cast("Any", value)
    record = cast("dict[str, Any]", value)
    name = record.get(TAGGED_VALUE) if record.get(TAG) == "float" else None
    return _INFINITIES.get(name, record) if isinstance(name, str) else record


def _items(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def measured(value: Any) -> int | None:
    """Characters of text, items of a list, keys of a dict, bytes; None for what has no length."""
    return len(cast("str", value)) if isinstance(value, str | bytes | list | dict) else None


def _same(value: Any) -> Any:
    return value


def order_key(kind: Kind, value: Any) -> Any:
    """A sort key of a value that is not null; equal keys mean equal values."""
    form = _FORMS.get(kind)
    if form is not None:
        return form(value)
    if kind is not Kind.JSON:
        return value
    form = _JSON_FORMS.get(type(cast("object", value)))
    return json_rank(value), value if form is None else form(value)


def sort_rows(rows: Iterable[Item], orders: Sequence[Order], key: Callable[[Item], Row] | None = None) -> list[Item]:
    """Rows (or things that `key` gives the row of) in order; stable, null last in both directions."""
    ordered = list(rows)
    for order in reversed(orders):
        read, name, kind = reader(order.ref), order.ref.field, order.ref.value_kind
        present: list[tuple[Any, Item]] = []
        absent: list[Item] = []
        for item in ordered:
            row = cast("Row", item) if key is None else key(item)
            value = read(row[name])
            if value is None:
                absent.append(item)
            else:
                present.append((order_key(kind, value), item))
        present.sort(key=lambda pair: pair[0], reverse=order.descending)
        ordered = [item for _, item in present] + absent
    return ordered
