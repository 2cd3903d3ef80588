"""What may be asked of a type: fields it has, numbers that make sense, keys that could exist.

Each mistake is a `QueryError` that names it where the query is written, before anything is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from ontologia.errors import QueryError
from ontologia.model.spec import TypeSpec
from ontologia.query.aggregates import Aggregate, check_where
from ontologia.query.expr import FieldExpr, sortable
from ontologia.query.predicates import Order, Predicate, Ref, comparisons

_LARGEST = 2**63 - 1


def check_predicate(cls: type[Any], predicate: object) -> None:
    """Refuse what is no predicate, or speaks of another type."""
    if not isinstance(predicate, Predicate):
        raise QueryError(
            f"where() takes conditions such as {cls.__name__}.field == value, not {predicate!r}.",
            hint="Join conditions with & | ~, not with and, or, not.",
        )
    for leaf in comparisons(check_where(predicate)):
        check_ref(cls, leaf.ref)


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
