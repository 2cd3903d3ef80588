"""Predicates and orders as SQL, the part that all dialects share.

The SQL means exactly what `reference` says, or `NotNative` is raised and the caller evaluates in Python. User text is
only ever a parameter. Negations are pushed down to the tests, and a test that may be NULL is only wrapped under one, so
that a plain conjunct stays `column = ?` and an index can serve it. Where columns come from is the backend's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from ontologia.errors import QueryError
from ontologia.model.comparable import comparable
from ontologia.model.physical import INT64_MAX
from ontologia.model.spec import Kind
from ontologia.query.literals import ANY_VALUE, Test, normalise, normalise_all, within
from ontologia.query.predicates import (
    TEXT_TESTS,
    And,
    Compare,
    Const,
    Op,
    Or,
    Order,
    Predicate,
    Ref,
    Side,
    postorder,
)

_CHUNK = 50
_INVERSE = {Op.EQ: "<>", Op.LT: ">=", Op.LE: ">", Op.GT: "<=", Op.GE: "<"}
_SIGNS = {Op.EQ: "=", Op.LT: "<", Op.LE: "<=", Op.GT: ">", Op.GE: ">="}


class NotNative(Exception):  # noqa: N818 - a signal to the backend, never shown to users
    """The engine cannot say this exactly: the caller evaluates it with `reference` instead."""


@dataclass(frozen=True, slots=True)
class Sql:
    """A piece of SQL and its parameters, in the order of their question marks."""

    text: str
    params: tuple[Any, ...] = ()

    def __add__(self, other: Sql) -> Sql:
        return Sql(self.text + other.text, self.params + other.params)


@dataclass(frozen=True, slots=True)
class Figure:
    """The columns that one result is read from, and how."""

    columns: tuple[Sql, ...]
    read: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Value:
    """What figures are made of: a compared column and, where that does not say it all, how to give values back."""

    main: Sql
    kind: Kind
    exact: Sql | None = None
    """The exact text beside it."""
    rank: Sql = Sql("")
    """Terms that order the rows as they come: of values that are equal but written differently, the first counts."""


Pick: TypeAlias = Literal["MIN", "MAX"]
"""Which of the values is shown."""
ColumnOf: TypeAlias = Callable[[Ref], str]
"""The main physical column of a field, as trusted SQL."""
EndpointOf: TypeAlias = Callable[[Side, Sql], Sql]
"""Wraps a test of an end's columns into one that holds when some version of the end in the window passes it."""

NEVER, ALWAYS = Sql("FALSE"), Sql("TRUE")


class Dialect(Protocol):
    """What differs between engines."""

    name: str
    distinct: str
    """The operator that is the exact complement of `=` when a side may be NULL; empty for an engine that has none."""
    max_nesting: int
    max_params: int
    summed: frozenset[Kind]
    """Kinds whose sums are exact (of floats: up to rounding)."""

    def literal(self, kind: Kind) -> str:
        """What stands for a bound value, in the form of `comparable`, beside a column of a kind."""
        ...

    def text_test(self, subject: Sql, op: Op, literal: str) -> Sql:
        """`endswith`, `contains`, `icontains` or `matches` of a text column; NULL for NULL."""
        ...

    def length(self, subject: Sql, ref: Ref) -> Sql:
        """The length that a reference names; NULL where there is none."""
        ...

    def json_test(self, subject: Sql, ref: Ref, op: Op, literal: Any) -> Sql:
        """A test of a place inside canonical JSON text; NULL counts as no."""
        ...

    def total(self, value: Value) -> Figure:
        """The sum of a column of a kind in `summed`; 0 in its class when there is nothing to sum."""
        ...

    def shown(self, value: Value, pick: Pick | None = None) -> Figure:
        """The value that all rows of a group have, or the least or greatest one; `NotNative` where it cannot be."""
        ...


@dataclass(frozen=True, slots=True)
class Context:
    """What a compilation is given: the dialect, the columns, the ends, and which int columns hold clamped values."""

    dialect: Dialect
    column: ColumnOf
    endpoint: EndpointOf | None = None
    wide: frozenset[str] = frozenset()
    """Fields with ints beyond 64 bits among their values; those of an end are given as `left.field`, `right.field`."""
    exact: ColumnOf | None = None
    """The column with the exact text of a field, where a backend can give it; only for kinds that have one."""
    rank: Sql = Sql("")

    def is_wide(self, ref: Ref) -> bool:
        name = ref.field if ref.side == "self" else f"{ref.side}.{ref.field}"
        return ref.value_kind is Kind.INT and ref.plain and name in self.wide


def compile_predicate(
    predicate: Predicate,
    *,
    dialect: Dialect,
    column: ColumnOf,
    endpoint: EndpointOf | None = None,
    wide: frozenset[str] = frozenset(),
) -> Sql:
    """A condition for WHERE: true exactly for the rows that the predicate holds for, false or NULL for the others."""
    context = Context(dialect, column, endpoint, wide)
    done: list[tuple[Sql, int]] = []
    for node, negated in _negation_normal(predicate):
        if isinstance(node, And | Or):
            parts = done[len(done) - len(node.terms) :]
            del done[len(done) - len(node.terms) :]
            conjunction = isinstance(node, And) != negated
            done.append(_joined(parts, conjunction=conjunction))
            if done[-1][1] > dialect.max_nesting:
                raise NotNative(f"conditions are nested more than {dialect.max_nesting} deep")
        else:
            done.append((_leaf(node, context, negated=negated), 0))
    compiled = done[0][0]
    if len(compiled.params) > dialect.max_params:
        raise NotNative(f"there are more than {dialect.max_params} values")
    return compiled


def _negation_normal(predicate: Predicate) -> list[tuple[Predicate, bool]]:
    """Nodes, children first, each with whether its complement is meant; `~` is pushed down as far as it goes."""
    found: list[tuple[Predicate, bool]] = []
    inherited: list[bool] = [False]
    # Parents come before their children in the reversed list, and a parent hands its sign to as many as it has.
    for node, negated in reversed(postorder(predicate)):
        sign = inherited.pop() != negated
        found.append((node, sign))
        if isinstance(node, And | Or):
            inherited.extend([sign] * len(node.terms))
    found.reverse()
    return found


def _joined(parts: list[tuple[Sql, int]], *, conjunction: bool) -> tuple[Sql, int]:
    """Terms in parentheses, in chunks, because engines parse a long chain as one deep expression."""
    if not parts:
        return (ALWAYS if conjunction else NEVER), 0
    if len(parts) == 1:
        return parts[0]
    if len(parts) > _CHUNK:
        size = max(_CHUNK, -(-len(parts) // _CHUNK))
        chunks = [parts[start : start + size] for start in range(0, len(parts), size)]
        return _joined([_joined(chunk, conjunction=conjunction) for chunk in chunks], conjunction=conjunction)
    text = (" AND " if conjunction else " OR ").join(part.text for part, _ in parts)
    params = tuple(param for part, _ in parts for param in part.params)
    return Sql(f"({text})", params), 1 + max(depth for _, depth in parts)


def _leaf(node: Predicate, context: Context, *, negated: bool) -> Sql:
    if isinstance(node, Const):
        return ALWAYS if node.value != negated else NEVER
    if not isinstance(node, Compare):
        raise QueryError(f"{node!r} is not a condition on rows.")
    if node.ref.side == "self":
        return _comparison(node, context, negated=negated)
    if context.endpoint is None:
        raise NotNative("conditions on ends have no tables here")
    inside = _comparison(node, context, negated=False)
    found = context.endpoint(node.ref.side, inside)
    return Sql(f"NOT ({found.text})", found.params) if negated else found


def _comparison(node: Compare, context: Context, *, negated: bool) -> Sql:
    ref, op, value = node.ref, node.op, node.value
    subject = Sql(context.column(ref))
    if ref.kind is Kind.JSON and (ref.each is not None or not ref.length):
        return _signed(context.dialect.json_test(subject, ref, op, value), nullable=True, negated=negated)
    nullable = ref.nullable
    if ref.length:
        subject = context.dialect.length(subject, ref)
        # Lengths inside JSON may be missing even where the field is not null.
        nullable = nullable or ref.kind is Kind.JSON
    kind = ref.value_kind
    form = _Form(subject, context.dialect.literal(kind), context.dialect.distinct, nullable)
    match op:
        case Op.IN:
            wanted: list[Test] = [_test(kind, Op.EQ, one, context, ref) for one in normalise_all(kind, value)]
            return _membership(form, wanted, negated=negated)
        case Op.BETWEEN:
            low = _test(kind, Op.GE, value[0], context, ref)
            high = _test(kind, Op.LE, value[1], context, ref)
            return _range(form, low, high, negated=negated)
        case Op.TRUE | Op.FALSE:
            return _signed_test(form, (Op.EQ, op is Op.TRUE), negated=negated)
        case Op.STARTSWITH:
            return _signed(starts_with(subject, value), nullable=nullable, negated=negated)
        case _ if op in TEXT_TESTS:
            return _signed(context.dialect.text_test(subject, op, value), nullable=nullable, negated=negated)
        case _:
            return _signed_test(form, _test(kind, op, value, context, ref), negated=negated)


def _test(kind: Kind, op: Op, value: Any, context: Context, ref: Ref) -> Test:
    """The test in the form that the physical column is compared in."""
    if op is Op.NOT_NULL:
        return ANY_VALUE
    test = normalise(kind, op, value)
    if test is False or test[0] is Op.NOT_NULL:
        return test
    op, value = test
    if kind is Kind.INT:
        # Clamped values sit on the bounds, so only a literal on or beyond a bound cannot tell them apart.
        if context.is_wide(ref) and not -INT64_MAX < value < INT64_MAX:
            raise NotNative(f"{ref!r} holds ints beyond 64 bits")
        return within(op, value, -INT64_MAX, INT64_MAX)
    return op, comparable(kind, value)


@dataclass(frozen=True, slots=True)
class _Form:
    """How one value is compared: the column, what stands for a literal, and what null means."""

    subject: Sql
    mark: str
    distinct: str
    nullable: bool


def _signed_test(form: _Form, test: Test, *, negated: bool) -> Sql:
    """One comparison or its exact complement."""
    subject, mark = form.subject, form.mark
    if test is False:
        return ALWAYS if negated else NEVER
    op, value = test
    if op is Op.NOT_NULL:
        return subject + Sql(" IS NULL" if negated else " IS NOT NULL")
    if not negated:
        return subject + Sql(f" {_SIGNS[op]} {mark}", (value,))
    if op is Op.EQ and form.nullable and form.distinct:
        return subject + Sql(f" {form.distinct} {mark}", (value,))
    return _or_null(form, subject + Sql(f" {_INVERSE[op]} {mark}", (value,)))


def _or_null(form: _Form, test: Sql) -> Sql:
    return Sql("(") + test + Sql(" OR ") + form.subject + Sql(" IS NULL)") if form.nullable else test


def _range(form: _Form, low: Test, high: Test, *, negated: bool) -> Sql:
    if low is False or high is False:
        return ALWAYS if negated else NEVER
    if low[0] is Op.GE and high[0] is Op.LE:
        inside = form.subject + Sql(f" BETWEEN {form.mark} AND {form.mark}", (low[1], high[1]))
    else:
        tests = [_signed_test(form, one, negated=False) for one in (low, high)]
        inside = Sql("(") + tests[0] + Sql(" AND ") + tests[1] + Sql(")")
    return _signed(inside, nullable=form.nullable, negated=negated)


def _membership(form: _Form, tests: Sequence[Test], *, negated: bool) -> Sql:
    wanted = tuple(dict.fromkeys(test[1] for test in tests if test is not False))
    if not wanted:
        return ALWAYS if negated else NEVER
    marks = ", ".join([form.mark] * len(wanted))
    if not negated:
        return form.subject + Sql(f" IN ({marks})", wanted)
    return _or_null(form, form.subject + Sql(f" NOT IN ({marks})", wanted))


def _signed(test: Sql, *, nullable: bool, negated: bool) -> Sql:
    """A test, or its exact complement when it is NULL for NULL."""
    if not negated:
        return test
    if nullable:
        return Sql("NOT COALESCE(") + test + Sql(", FALSE)")
    return Sql("NOT (") + test + Sql(")")


def starts_with(subject: Sql, prefix: str) -> Sql:
    """A range, because an index serves it and no engine stumbles over NUL characters in it."""
    if not prefix:
        return subject + Sql(" IS NOT NULL")
    after = successor(prefix)
    if after is None:
        return subject + Sql(" >= ?", (prefix,))
    return Sql("(") + subject + Sql(" >= ? AND ", (prefix,)) + subject + Sql(" < ?)", (after,))


def successor(prefix: str) -> str | None:
    """The least text above every text that starts with the prefix, by code point; None when there is none."""
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    # Surrogates are no characters: the next one after U+D7FF is U+E000.
    return kept[:-1] + chr(0xE000 if 0xD800 <= following <= 0xDFFF else following)


def compile_order(
    orders: Sequence[Order], *, dialect: Dialect, column: ColumnOf, wide: frozenset[str] = frozenset()
) -> Sql:
    """The terms of an ORDER BY; null last in both directions, and no extra term where there is no null."""
    context = Context(dialect, column, wide=wide)
    terms = Sql("")
    for order in orders:
        subject = comparable_value(order.ref, context)
        if terms.text:
            terms += Sql(", ")
        if order.ref.nullable or (order.ref.length and order.ref.kind is Kind.JSON):
            terms += subject + Sql(" IS NULL, ")
        terms += subject + Sql(" DESC" if order.descending else " ASC")
        if dialect.name == "duckdb":
            terms += Sql(" NULLS LAST")
    return terms


def picked(subject: Sql, pick: Pick | None) -> Sql:
    """The least or greatest value of a column, or the column itself."""
    return subject if pick is None else Sql(f"{pick}(") + subject + Sql(")")


def comparable_value(ref: Ref, context: Context) -> Sql:
    """The column or length that orders and groups a reference's values exactly."""
    if context.is_wide(ref):
        raise NotNative(f"{ref!r} holds ints beyond 64 bits")
    subject = Sql(context.column(ref))
    if ref.length:
        return context.dialect.length(subject, ref)
    if ref.kind is Kind.JSON:
        raise NotNative(f"{ref!r} may hold values of different classes")
    return subject
