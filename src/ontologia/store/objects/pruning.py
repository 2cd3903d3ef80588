"""Which files of a type can be left out of a read, by what is recorded about them. Pure.

A file is left out only when no row in it can matter; what is not recorded is taken to be anything. Conditions on
columns may leave out files that are scanned, never files that say which rows are superseded: a row that no longer
matches must still hide the one that did.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any

from ontologia.model.comparable import comparable
from ontologia.model.spec import Kind
from ontologia.query.literals import normalise, normalise_all
from ontologia.query.predicates import And, Compare, Const, Op, Or, Predicate, postorder
from ontologia.query.sql import successor
from ontologia.store.objects.columns import FileColumns
from ontologia.store.objects.records import DataFile

Files = tuple[DataFile, ...]
Bounds = tuple[Any, Any]


def with_keys(files: Iterable[DataFile], position: int, values: Iterable[str]) -> Files:
    """Files that may have one of these values in an identity column."""
    ordered = sorted(values)
    return tuple(one for one in files if _has_between(ordered, _key_bounds(one, position)))


def with_identities(files: Iterable[DataFile], identities: Sequence[Sequence[str]]) -> Files:
    """Files that may have a row of one of these identities."""
    kept = tuple(files)
    for position, values in enumerate(zip(*identities, strict=True)):
        kept = with_keys(kept, position, set(values))
    return kept if identities else ()


def _key_bounds(file: DataFile, position: int) -> Bounds | None:
    if file.min_key is None or file.max_key is None:
        return None
    return file.min_key[position], file.max_key[position]


def _has_between(ordered: Sequence[str], bounds: Bounds | None) -> bool:
    if bounds is None:
        return True
    at = bisect_left(ordered, bounds[0])
    return at < len(ordered) and ordered[at] <= bounds[1]


def superseding(files: Iterable[DataFile], scanned: Sequence[DataFile]) -> Files:
    """Files with rows that may have replaced a row of a scanned file.

    Identities are unique within a commit, so only rows of later commits replace anything, and only rows that were
    updates when they were written.
    """
    if not scanned:
        return ()
    first = min(one.min_commit_id for one in scanned)
    later = (one for one in files if one.updated != 0 and one.max_commit_id > first)
    return tuple(one for one in later if any(_may_share_keys(one, other) for other in scanned))


def _may_share_keys(one: DataFile, other: DataFile) -> bool:
    if one.min_key is None or one.max_key is None or other.min_key is None or other.max_key is None:
        return True
    lows, highs = zip(one.min_key, other.max_key, strict=True), zip(other.min_key, one.max_key, strict=True)
    return all(low <= high for low, high in (*lows, *highs))


def matching(files: Iterable[DataFile], columns: FileColumns, predicate: Predicate) -> Files:
    """Files in which some row may satisfy a predicate."""
    nodes = postorder(predicate)
    return tuple(one for one in files if _may_match(nodes, columns, one))


def _may_match(nodes: Sequence[tuple[Predicate, bool]], columns: FileColumns, file: DataFile) -> bool:
    """For each node whether it may hold, and whether it may not, for some row of the file."""
    done: list[tuple[bool, bool]] = []
    for node, negated in nodes:
        if isinstance(node, And | Or):
            terms = done[len(done) - len(node.terms) :]
            del done[len(done) - len(node.terms) :]
            holds, fails = zip(*terms, strict=True) if terms else ((), ())
            found = (all(holds), any(fails)) if isinstance(node, And) else (any(holds), all(fails))
        elif isinstance(node, Const):
            found = (node.value, not node.value)
        else:
            found = (not isinstance(node, Compare) or _may_hold(node, columns, file), True)
        done.append((found[1], found[0]) if negated else found)
    return done[0][0]


def _may_hold(node: Compare, columns: FileColumns, file: DataFile) -> bool:
    bounds = _bounds(node, columns, file)
    if bounds is None:
        return True
    try:
        return _passes(node.ref.kind, node.op, node.value, bounds)
    except TypeError:
        # Bounds of another program, in another form than ours.
        return True


def _bounds(node: Compare, columns: FileColumns, file: DataFile) -> Bounds | None:
    ref = node.ref
    if ref.side != "self" or not ref.plain:
        return None
    column = columns.compared[ref.field]
    if column in columns.identity:
        return _key_bounds(file, columns.identity.index(column))
    return file.stats.get(columns.natural[ref.field])


def _passes(kind: Kind, op: Op, value: Any, bounds: Bounds) -> bool:
    """Whether some value between the bounds passes a test."""
    low, high = bounds
    match op:
        case Op.IN:
            return any(low <= comparable(kind, one) <= high for one in normalise_all(kind, value))
        case Op.BETWEEN:
            return _passes(kind, Op.GE, value[0], bounds) and _passes(kind, Op.LE, value[1], bounds)
        case Op.TRUE | Op.FALSE:
            return low <= (op is Op.TRUE) <= high
        case Op.STARTSWITH:
            after = successor(value) if value else None
            return high >= value and (after is None or low < after)
        case Op.EQ | Op.LT | Op.LE | Op.GT | Op.GE:
            test = normalise(kind, op, value)
            return test is not False and _ordered(test[0], comparable(kind, test[1]), low, high)
        case _:
            return True


def _ordered(op: Op, literal: Any, low: Any, high: Any) -> bool:
    match op:
        case Op.EQ:
            return low <= literal <= high
        case Op.LT:
            return low < literal
        case Op.LE:
            return low <= literal
        case Op.GT:
            return high > literal
        case Op.GE:
            return high >= literal
        case _:
            return True
