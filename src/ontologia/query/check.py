"""What may be asked of a type: fields it has, numbers that make sense, keys that could exist.

Each mistake is a `QueryError` that names it where the query is written, before anything is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from ontologia.errors import QueryError
from ontologia.model.spec import TypeSpec
from ontologia.query.aggregates import Aggregate, Fn, check_where
from ontologia.query.expr import FieldExpr, sortable
from ontologia.query.predicates import ORDERINGS, TEXT_TESTS, Order, Predicate, Ref, comparisons

_LARGEST = 2**63 - 1
_ENDS = ("left_key", "right_key")


def check_concrete(cls: type[Any]) -> None:
    """Refuse a class of which there are no rows: `Entity` and `Relation` themselves, and abstract ones."""
    if getattr(cls, "__declaration__", None) is None:
        raise QueryError(f"{cls.__name__} is abstract: nothing is stored of it.", hint="Query one of its subclasses.")


def check_moment(moment: datetime) -> datetime:
    """A moment with its offset; one without is local time."""
    try:
        return moment.astimezone(UTC)
    except (OverflowError, ValueError, OSError) as error:
        raise QueryError(f"as_of() cannot reach {moment}: its time in UTC is beyond what Python can say.") from error


def check_predicate(cls: type[Any], predicate: object) -> None:
    """Refuse what is no predicate, or speaks of another type."""
    if not isinstance(predicate, Predicate):
        raise QueryError(
            f"where() takes conditions such as {cls.__name__}.field == value, not {predicate!r}.",
            hint="Join conditions with & | ~, not with and, or, not.",
        )
    for leaf in comparisons(check_where(predicate)):
        check_ref(cls, leaf.ref)
        if leaf.op in ORDERINGS | TEXT_TESTS:
            check_has_order(cls, leaf.ref)


def check_ref(cls: type[Any], ref: Ref) -> None:
    """Refuse a reference to another type's field."""
    spec: TypeSpec = cls.__spec__
    if ref.side != "self" and spec.kind != "relation":
        raise QueryError(f"{ref!r} reaches the end of a relation, but {spec.name} is an entity.")
    owners = {base.__dict__["__spec__"].name for base in cls.__mro__ if "__spec__" in base.__dict__}
    if ref.owner and ref.owner not in owners:
        raise QueryError(
            f"{ref!r} belongs to {ref.owner}; this query is about {spec.name}.", hint=f"Fields: {_names(spec)}."
        )
    if ref.side == "self" and ref.field not in spec.by_name and ref.field not in spec.identity:
        raise QueryError(f"{spec.name} has no field {ref.field!r}.", hint=f"Fields: {_names(spec)}.")
    own = spec.by_name.get(ref.field) if ref.side == "self" else None
    if own is not None and own.kind is not ref.kind:
        raise QueryError(
            f"{ref!r} is {ref.kind}, but {spec.name} declares {ref.field} anew as {own.kind}.",
            hint=f"Write {cls.__name__}.{ref.field}.",
        )


def check_has_order(cls: type[Any], ref: Ref) -> None:
    """Refuse an order among end keys that are numbers or UUIDs: they are held as text, whose order is another one."""
    if ref.side != "self" or ref.field not in _ENDS or cls.__spec__.kind != "relation":
        return
    side = _ENDS.index(ref.field)
    key = cls.__ends__[side].__spec__.key_field
    if key is not None and key.type in ("int", "uuid"):
        raise QueryError(
            f"{ref!r} is the text of a key; it can be looked for, but has no order of its own.",
            hint=f"Use {('left', 'right')[side]}({cls.__name__}).{key.name} in a condition.",
        )


def _names(spec: TypeSpec) -> str:
    return ", ".join(field.name for field in spec.fields) or "none"


def check_order(cls: type[Any], criterion: object) -> Order:
    """The sort criterion meant by a field, or by its asc() or desc()."""
    if isinstance(criterion, FieldExpr):
        criterion = Order(sortable(criterion.ref, "order_by() and group_by()"))
    if not isinstance(criterion, Order):
        raise QueryError(f"Expected a field such as {cls.__name__}.name, not {criterion!r}.")
    check_ref(cls, criterion.ref)
    return criterion


def check_aggregates(cls: type[Any], aggregates: dict[str, Aggregate]) -> tuple[tuple[str, Aggregate], ...]:
    """Figures by name, every one over fields of this type."""
    if not aggregates:
        raise QueryError("agg() needs at least one figure, e.g. agg(n=count()).")
    for name, aggregate in aggregates.items():
        if not isinstance(aggregate, Aggregate):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise QueryError(f"{name} is {aggregate!r}, not an aggregate such as count() or sum({cls.__name__}.field).")
        for ref in _refs(aggregate):
            check_ref(cls, ref)
        if aggregate.ref is not None and aggregate.fn in (Fn.MIN, Fn.MAX):
            check_has_order(cls, aggregate.ref)
    return tuple(aggregates.items())


def _refs(aggregate: Aggregate) -> Iterable[Ref]:
    if aggregate.ref is not None:
        yield aggregate.ref
    if aggregate.predicate is not None:
        yield from (leaf.ref for leaf in comparisons(aggregate.predicate))


def check_number(what: str, number: object, *, signed: bool = False) -> int:
    """A whole number, not negative unless `signed`."""
    if isinstance(number, bool) or not isinstance(number, int) or (number < 0 and not signed):
        raise QueryError(f"{what}() takes a whole number{'' if signed else ' from 0 on'}, not {number!r}.")
    return min(number, _LARGEST)


def key_text(cls: type[Any], key: object) -> str:
    """The text under which a key is stored."""
    if isinstance(key, bool) or not isinstance(key, (str, int, UUID)):
        raise QueryError(f"{cls.__name__} keys are text, int or UUID, not {key!r}.")
    if isinstance(key, str) and any("\ud800" <= character <= "\udfff" for character in key):
        raise QueryError(f"The key {key!r} has half of a surrogate pair in it.")
    field = cls.__spec__.key_field
    if field is not None and field.type == "uuid" and not isinstance(key, UUID):
        try:
            return str(UUID(str(key)))
        except ValueError as error:
            raise QueryError(f"{key!r} is not a UUID, which keys of {cls.__name__} are.") from error
    return str(key)
