"""What a filter is once written down: references to values, comparisons, and the logic that joins them.

Predicates are frozen values that mean the same to every engine; `evaluate` says what, the SQL dialects obey it. They
are made by the operators of `expr`, not checked again here, and any depth of nesting is walked without recursion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NoReturn

from ontologia.model.spec import Kind

Side = Literal["self", "left", "right"]


class Op(StrEnum):
    """The tests of one value. `COMPLEMENT` holds those that are defined as the opposite of another."""

    EQ = "=="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN = "in_"
    NOT_IN = "not_in"
    BETWEEN = "between"
    STARTSWITH = "startswith"
    ENDSWITH = "endswith"
    CONTAINS = "contains"
    ICONTAINS = "icontains"
    MATCHES = "matches"
    NULL = "is_null"
    NOT_NULL = "is_not_null"
    TRUE = "is_true"
    FALSE = "is_false"


COMPLEMENT = {Op.NE: Op.EQ, Op.NOT_IN: Op.IN, Op.NULL: Op.NOT_NULL}
"""Negative tests and the positive test whose exact opposite they are."""
OPPOSITE = {positive: negative for negative, positive in COMPLEMENT.items()}
SYMBOLS = frozenset({Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE})
ORDERINGS = frozenset({Op.LT, Op.LE, Op.GT, Op.GE, Op.BETWEEN})
TEXT_TESTS = frozenset({Op.STARTSWITH, Op.ENDSWITH, Op.CONTAINS, Op.ICONTAINS, Op.MATCHES})
NULLARY = frozenset({Op.NULL, Op.NOT_NULL, Op.TRUE, Op.FALSE})


@dataclass(frozen=True, slots=True)
class Ref:
    """The value that is tested: a field, a place inside a JSON field, each item of a list there, or a length."""

    side: Side
    field: str
    kind: Kind
    path: tuple[str, ...] = ()
    each: tuple[str, ...] | None = None
    """Not None: every item of the list at `path`, descended into by these keys; `()` is the item itself."""
    length: bool = False
    nullable: bool = True
    owner: str = ""
    """The type whose class was written: the entity, or the relation that `left()` and `right()` were given."""
    declared: str = ""
    """The canonical type of the whole field, where what JSON holds at the place must be read by it (see `declared`)."""

    @property
    def value_kind(self) -> Kind:
        """The kind of the value that is compared."""
        return Kind.INT if self.length else self.kind

    @property
    def plain(self) -> bool:
        """True when the value is the field itself."""
        return not self.path and self.each is None and not self.length

    @property
    def label(self) -> str:
        """The name of the value in a result."""
        name = ".".join((self.field, *self.path))
        return f"len_{name}" if self.length else name

    def __repr__(self) -> str:
        base = self.owner if self.side == "self" else f"{self.side}({self.owner})"
        text = f"{base}.{self.field}" if base else self.field
        text += "".join(f"[{segment!r}]" for segment in self.path)
        if self.each is not None:
            # Dots are joined back only where splitting would give the same keys.
            dotted = all(segment and "." not in segment for segment in self.each)
            text += f".any_path({'.'.join(self.each)!r})" if dotted and self.each else ".any_path()"
            if not dotted:
                text += "".join(f"[{segment!r}]" for segment in self.each)
        return f"{text}.len_()" if self.length else text


class Predicate:
    """A condition that is true or false of every row; combine with `&`, `|` and `~`."""

    __slots__ = ()

    def __and__(self, other: Predicate) -> Predicate:
        return _joined(And, self, other)

    def __or__(self, other: Predicate) -> Predicate:
        return _joined(Or, self, other)

    def __invert__(self) -> Predicate:
        return self.term if isinstance(self, Not) else Not(self)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "A query condition has no truth value of its own: join conditions with & | ~ instead of and, or, not, "
            "put each comparison in parentheses, and use between() instead of a chained comparison."
        )

    def __repr__(self) -> str:
        return render(self)

    def rendered(self, *, negated: bool) -> tuple[str, bool]:
        """A single condition as Python text, and whether it can stand beside an operator without parentheses."""
        return f"~({self!r})" if negated else repr(self), True


@dataclass(frozen=True, slots=True, repr=False)
class Const(Predicate):
    """Always true, or always false."""

    value: bool

    def rendered(self, *, negated: bool) -> tuple[str, bool]:
        return f"~Const({self.value})" if negated else f"Const({self.value})", True


@dataclass(frozen=True, slots=True, repr=False)
class Compare(Predicate):
    """One test of one value. With `ref.each` it holds when some item passes the test."""

    ref: Ref
    op: Op
    value: Any = None

    def rendered(self, *, negated: bool) -> tuple[str, bool]:
        if negated and self.op in OPPOSITE and self.ref.each is None:
            return render_test(repr(self.ref), OPPOSITE[self.op], self.value, negated=False)
        return render_test(repr(self.ref), self.op, self.value, negated=negated)


@dataclass(frozen=True, slots=True, repr=False)
class And(Predicate):
    """True when every term is."""

    terms: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Or(Predicate):
    """True when some term is."""

    terms: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Not(Predicate):
    """The exact complement of its term."""

    term: Predicate


@dataclass(frozen=True, slots=True, repr=False)
class Order:
    """One sort criterion; null values come last in both directions."""

    ref: Ref
    descending: bool = field(default=False)

    def __repr__(self) -> str:
        return f"{self.ref!r}.{'desc' if self.descending else 'asc'}()"


def _joined(kind: type[And | Or], first: Predicate, second: Predicate) -> Predicate:
    """Flat, so that a chain of a thousand `&` is one wide node."""
    terms: list[Predicate] = []
    for side in (first, second):
        if not isinstance(side, Predicate):  # pyright: ignore[reportUnnecessaryIsInstance] - `&` binds before `==`
            raise TypeError(f"{side!r} is not a query condition: put each comparison in parentheses.")
        terms.extend(side.terms if isinstance(side, kind) else (side,))
    return kind(tuple(terms))


def all_of(terms: Iterable[Predicate]) -> Predicate:
    """The conjunction of any number of predicates, in linear time; true when there are none."""
    return _many(And, tuple(terms))


def any_of(terms: Iterable[Predicate]) -> Predicate:
    """The disjunction of any number of predicates, in linear time; false when there are none."""
    return _many(Or, tuple(terms))


def _many(kind: type[And | Or], terms: tuple[Predicate, ...]) -> Predicate:
    if len(terms) == 1:
        return terms[0]
    return kind(terms) if terms else Const(kind is And)


def postorder(predicate: Predicate) -> list[tuple[Predicate, bool]]:
    """Every node except `Not`, children before parents, each with whether an odd number of `~` is directly on it."""
    found: list[tuple[Predicate, bool]] = []
    waiting: list[tuple[Predicate, bool]] = [(predicate, False)]
    while waiting:
        node, negated = waiting.pop()
        if isinstance(node, Not):
            waiting.append((node.term, not negated))
            continue
        found.append((node, negated))
        if isinstance(node, And | Or):
            waiting.extend((term, False) for term in node.terms)
    found.reverse()
    return found


def comparisons(predicate: Predicate) -> Iterator[Compare]:
    """Every field comparison in a predicate, in the order written."""
    return (node for node, _ in postorder(predicate) if isinstance(node, Compare))


def render(predicate: Predicate) -> str:
    """The predicate as the Python that makes it."""
    done: list[tuple[str, bool]] = []
    for node, negated in postorder(predicate):
        if isinstance(node, And | Or):
            count = len(node.terms)
            parts = done[len(done) - count :]
            del done[len(done) - count :]
            sign = " & " if isinstance(node, And) else " | "
            text = sign.join(part if closed else f"({part})" for part, closed in parts)
            done.append((f"~({text})", True) if negated else (text, False))
        else:
            done.append(node.rendered(negated=negated))
    return done[0][0]


def render_test(subject: str, op: Op, value: Any, *, negated: bool) -> tuple[str, bool]:
    """One test as Python text, and whether it can stand beside an operator without parentheses."""
    if op in SYMBOLS:
        text, closed = f"{subject} {op} {value!r}", False
    elif op in NULLARY:
        text, closed = f"{subject}.{op}()", True
    elif op is Op.BETWEEN:
        text, closed = f"{subject}.between({value[0]!r}, {value[1]!r})", True
    elif op in (Op.IN, Op.NOT_IN):
        text, closed = f"{subject}.{op}({list(value)!r})", True
    else:
        text, closed = f"{subject}.{op}({value!r})", True
    if negated:
        return (f"~{text}" if closed else f"~({text})"), True
    return text, closed
