"""The expressions users write: `Customer.tier == "Gold"`, `Order.total.desc()`, `left(Subscription).name`.

A `FieldExpr` is what a field is at class level. Its operators give `Predicate` values and check everything that can be
known without data: the field's kind, the class of the literal, the keys of closed nested types. What predicates mean is
said by `evaluate`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeVar, cast

from ontologia.errors import QueryError
from ontologia.model.spec import FieldSpec, Kind, TypeSpec
from ontologia.query.accept import refuse_singletons, stored_literal, text_literal
from ontologia.query.places import Place, UnknownKeyError
from ontologia.query.predicates import (
    COMPLEMENT,
    And,
    Compare,
    Const,
    Not,
    Op,
    Or,
    Order,
    Predicate,
    Ref,
    Side,
    all_of,
    any_of,
    comparisons,
    postorder,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "And",
    "Compare",
    "Const",
    "EndFields",
    "FieldExpr",
    "Not",
    "Op",
    "Or",
    "Order",
    "Predicate",
    "Ref",
    "Side",
    "all_of",
    "any_of",
    "comparisons",
    "field_expression",
    "left",
    "postorder",
    "right",
]

T = TypeVar("T")
_MEASURED = frozenset({Kind.TEXT, Kind.BYTES, Kind.JSON})


class FieldCodec(Protocol):
    """What is needed of a field's codec: the stored form of a Python value."""

    @property
    def encode(self) -> Callable[[Any], Any]: ...


class FieldExpr(Generic[T]):
    """A field in a query; operators and methods make conditions, `asc()` and `desc()` sort criteria."""

    __slots__ = ("_encode", "_place", "ref")

    ref: Ref

    def __init__(self, ref: Ref, place: Place, encode: Callable[[Any], Any] | None = None) -> None:
        self.ref = ref
        self._place = place
        self._encode = encode

    def __repr__(self) -> str:
        return repr(self.ref)

    def __hash__(self) -> int:
        return hash(self.ref)

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self!r} has no truth value of its own: write {self!r}.is_true() or {self!r}.is_not_null().")

    # Without these, `in` and `for` would try [0], [1], [2], …
    __iter__ = None

    def __contains__(self, item: object) -> NoReturn:
        raise TypeError(f"`in` cannot make a condition: write {self!r}.contains(…) for text, .any_path() for lists.")

    def __eq__(self, other: object) -> Predicate:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._compare(Op.EQ, other)

    def __ne__(self, other: object) -> Predicate:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._compare(Op.NE, other)

    def __lt__(self, other: object) -> Predicate:
        return self._compare(Op.LT, other)

    def __le__(self, other: object) -> Predicate:
        return self._compare(Op.LE, other)

    def __gt__(self, other: object) -> Predicate:
        return self._compare(Op.GT, other)

    def __ge__(self, other: object) -> Predicate:
        return self._compare(Op.GE, other)

    def in_(self, values: Iterable[object]) -> Predicate:
        """Equal to one of the values; false for no values."""
        return self._test(Op.IN, self._several(Op.IN, values))

    def not_in(self, values: Iterable[object]) -> Predicate:
        """The complement of `in_`: also true of null."""
        return self._test(Op.NOT_IN, self._several(Op.NOT_IN, values))

    def between(self, low: object, high: object) -> Predicate:
        """From low to high, both included."""
        return self._test(Op.BETWEEN, (self._literal(Op.BETWEEN, low), self._literal(Op.BETWEEN, high)))

    def startswith(self, prefix: str) -> Predicate:
        """Text that starts with this, literally."""
        return self._text(Op.STARTSWITH, prefix)

    def endswith(self, suffix: str) -> Predicate:
        """Text that ends with this, literally."""
        return self._text(Op.ENDSWITH, suffix)

    def contains(self, part: str) -> Predicate:
        """Text that has this in it, literally and with regard to case."""
        return self._text(Op.CONTAINS, part)

    def icontains(self, part: str) -> Predicate:
        """Text that has this in it, without regard to case."""
        return self._text(Op.ICONTAINS, part)

    def matches(self, pattern: str) -> Predicate:
        """Text in which the regular expression is found (`re.search`)."""
        return self._text(Op.MATCHES, pattern)

    def is_null(self) -> Predicate:
        """Null, or missing from a JSON value."""
        return self._test(Op.NULL, None)

    def is_not_null(self) -> Predicate:
        """Neither null nor missing."""
        return self._test(Op.NOT_NULL, None)

    def is_true(self) -> Predicate:
        """The value is True; null is not."""
        return self._flag(Op.TRUE)

    def is_false(self) -> Predicate:
        """The value is False; null is not."""
        return self._flag(Op.FALSE)

    def path(self, dotted: str) -> FieldExpr[Any]:
        """A place inside a JSON value: `path("address.city")`. A key with a dot in it is written `["a.b"]`."""
        place: FieldExpr[Any] = self
        for segment in _segments(self.ref, dotted):
            place = place[segment]
        return place

    def __getitem__(self, key: str) -> FieldExpr[Any]:
        ref = self.ref
        if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance] - users do write [0]
            raise QueryError(
                f"{ref!r} is descended into by text keys, not by {key!r}.",
                hint="Use any_path() for the items of a list.",
                field=ref.label,
            )
        self._only_json(f"[{key!r}]")
        try:
            inside = self._place.descend(key)
        except UnknownKeyError as problem:
            known = ", ".join(sorted(problem.known))
            raise QueryError(
                f"There is no {key!r} in {ref!r}.",
                hint=f"Known are: {known}." if known else f"It is {self._place.describe()} and has no keys.",
                field=ref.label,
                known=sorted(problem.known),
            ) from None
        # Whatever is inside JSON may be missing.
        deeper = {"path": (*ref.path, key)} if ref.each is None else {"each": (*ref.each, key)}
        return FieldExpr(replace(ref, nullable=True, declared=inside.reading, **deeper), inside)

    def any_path(self, dotted: str | None = None) -> FieldExpr[Any]:
        """Some item of the list here, or what each item has at a path: `any_path("kind") == "click"`."""
        ref = self.ref
        self._only_json("any_path()")
        if ref.each is not None:
            raise QueryError(f"any_path() is used twice in {ref!r}; one list can be looked through.", field=ref.label)
        if not self._place.may_be_list:
            raise QueryError(
                f"{ref!r} is {self._place.describe()}, never a list, so any_path() has no items to look through.",
                field=ref.label,
            )
        inside = self._place.items()
        item = replace(ref, each=(), nullable=True, declared=inside.reading)
        place: FieldExpr[Any] = FieldExpr(item, inside)
        for segment in _segments(ref, dotted) if dotted is not None else ():
            place = place[segment]
        return place

    def len_(self) -> FieldExpr[int]:
        """The length: characters of text, items of a list, keys of a dict, bytes; null of null."""
        ref = self.ref
        if ref.length or ref.kind not in _MEASURED:
            raise QueryError(f"{ref!r} has no length: len_() is for text, bytes, lists and dicts.", field=ref.label)
        return FieldExpr(replace(ref, length=True), Place(("int",)))

    def asc(self) -> Order:
        """Sort upwards, null last."""
        return Order(sortable(self.ref, "order_by()"))

    def desc(self) -> Order:
        """Sort downwards, null last."""
        return Order(sortable(self.ref, "order_by()"), descending=True)

    def on(self, side: Side, owner: str) -> FieldExpr[T]:
        """The same field of one end of a relation."""
        return FieldExpr(replace(self.ref, side=side, nullable=True, owner=owner), self._place, self._encode)

    def _only_json(self, what: str) -> None:
        ref = self.ref
        if ref.kind is not Kind.JSON or ref.length:
            raise QueryError(f"{what} is for fields that hold JSON, and {ref!r} is {ref.value_kind}.", field=ref.label)

    def _literal(self, op: Op, value: object) -> Any:
        if isinstance(value, FieldExpr):
            other = cast("FieldExpr[Any]", value)
            raise QueryError(
                f"{self!r} is compared with another field, {other!r}; a field is compared with a value.",
                hint="Read both fields and compare them in Python, or store the outcome as a field.",
                field=self.ref.label,
            )
        refuse_singletons(self.ref, op, value)
        if self.ref.kind is Kind.BOOL and op not in (Op.IN, Op.NOT_IN):
            raise QueryError(
                f"{self!r} is true or false and is not compared by {op}.",
                hint="Use is_true() or is_false().",
                field=self.ref.label,
            )
        return stored_literal(self.ref, op, value, self._place, self._encode)

    def _several(self, op: Op, values: object) -> tuple[Any, ...]:
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise QueryError(
                f"{self!r}.{op}() takes the values as a list, not {type(values).__name__} {values!r}.",
                field=self.ref.label,
            )
        return tuple(self._literal(op, value) for value in cast("Iterable[object]", values))

    def _compare(self, op: Op, value: object) -> Predicate:
        return self._test(op, self._literal(op, value))

    def _test(self, op: Op, value: Any) -> Predicate:
        """Negative tests are complements; only among the items of a list are they tests of their own."""
        ref = self.ref
        if ref.plain and op in (Op.NULL, Op.NOT_NULL):
            # Whether a whole field is null needs no reading.
            ref = replace(ref, declared="")
        if op in COMPLEMENT and ref.each is None:
            return Not(Compare(ref, COMPLEMENT[op], value))
        return Compare(ref, op, value)

    def _text(self, op: Op, value: str) -> Predicate:
        ref = self.ref
        if isinstance(value, FieldExpr):
            self._literal(op, value)
        if ref.value_kind not in (Kind.TEXT, Kind.JSON):
            raise QueryError(f"{op}() is for text, and {ref!r} is {ref.value_kind}.", field=ref.label)
        if ref.kind is Kind.JSON and self._place.only_list:
            raise QueryError(
                f"{op}() is for text, and {ref!r} is a list.",
                hint=f"Write {ref!r}.any_path() == … to look for an item.",
                field=ref.label,
            )
        if ref.kind is Kind.JSON and not self._place.may_be_text:
            raise QueryError(f"{op}() is for text, and {ref!r} is {self._place.describe()}.", field=ref.label)
        return self._test(op, text_literal(ref, op, value))

    def _flag(self, op: Op) -> Predicate:
        ref = self.ref
        if ref.value_kind not in (Kind.BOOL, Kind.JSON):
            raise QueryError(f"{op}() is for bool fields, and {ref!r} is {ref.value_kind}.", field=ref.label)
        return Compare(ref, op)


def _segments(ref: Ref, dotted: str) -> list[str]:
    segments = dotted.split(".")
    if not all(segments):
        raise QueryError(f"The path {dotted!r} in {ref!r} has an empty segment.", field=ref.label)
    return segments


def sortable(ref: Ref, use: str) -> Ref:
    """The reference, when it names one value of the queried type itself."""
    if ref.each is not None:
        raise QueryError(f"{ref!r} stands for many values and cannot be used in {use}.", field=ref.label)
    if ref.side != "self":
        raise QueryError(
            f"{ref!r} belongs to an end of the relation and cannot be used in {use}.",
            hint="Use fields of the queried type itself; ends can be filtered on.",
            field=ref.label,
        )
    return ref


def field_expression(
    spec: TypeSpec, field: FieldSpec, codec: FieldCodec | None = None, side: Side = "self"
) -> FieldExpr[Any]:
    """The expression that a field is at class level."""
    place = Place.of(field.type)
    reading = place.reading if field.kind is Kind.JSON else ""
    nullable = field.nullable or side != "self"
    ref = Ref(side, field.name, field.kind, nullable=nullable, owner=spec.name, declared=reading)
    return FieldExpr(ref, place, None if codec is None else codec.encode)


class EndFields:
    """The fields of the entity at one end of a relation, as expressions."""

    __slots__ = ("_entity", "_owner", "_side")

    def __init__(self, side: Side, owner: str, entity: type[Any]) -> None:
        self._side: Side = side
        self._owner = owner
        self._entity = entity

    def __getattr__(self, name: str) -> FieldExpr[Any]:
        spec = cast("TypeSpec", self._entity.__spec__)
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in spec.by_name:
            known = sorted(spec.by_name)
            raise QueryError(
                f"{self!r} is a {spec.name} and has no field {name!r}.",
                hint=f"Known are: {', '.join(known)}.",
                field=name,
                known=known,
            )
        return cast("FieldExpr[Any]", getattr(self._entity, name)).on(self._side, self._owner)

    def __repr__(self) -> str:
        return f"{self._side}({self._owner})"


def left(relation: type[Any]) -> EndFields:
    """The fields of a relation's left end: `left(Subscription).tier == "Gold"`."""
    return _end("left", relation)


def right(relation: type[Any]) -> EndFields:
    """The fields of a relation's right end: `right(Subscription).price > 10`."""
    return _end("right", relation)


def _end(side: Side, relation: type[Any]) -> EndFields:
    ends = cast("tuple[type[Any], type[Any]] | None", getattr(relation, "__ends__", None))
    if ends is None:
        raise QueryError(
            f"{side}() takes a relation class, not {getattr(relation, '__name__', relation)!r}.",
            hint="Write left(Subscription).tier with the relation that the query is over.",
        )
    spec = cast("TypeSpec", relation.__spec__)
    return EndFields(side, spec.name, ends[0] if side == "left" else ends[1])
