"""The past as answers: what a commit changed, how two commits differ, which commit each value comes from.

Costs grow with what changed between the commits in question, not with the whole history.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ontologia.errors import InputError, NotFoundError
from ontologia.model.rows import identity
from ontologia.query.plan import Lookup, Mode, Scan, Window
from ontologia.store.commits import Change, Commit, DiffItem
from ontologia.store.protocol import Snapshot
from ontologia.store.reads import Reader, declared, named_values


def get_commit(snapshot: Snapshot, commit_id: int) -> Commit:
    """One commit of the log."""
    head = snapshot.head()
    inside = 0 < commit_id <= head
    found = snapshot.commits(since=commit_id - 1, before=commit_id + 1, limit=1) if inside else []
    if not found:
        raise NotFoundError(f"There is no commit {commit_id}.", hint=f"The head is commit {head}.", commit_id=commit_id)
    return found[0]


def changes_of(snapshot: Snapshot, commit_id: int) -> list[Change]:
    """Every row that a commit wrote."""
    get_commit(snapshot, commit_id)
    return snapshot.changes(commit_id)


def diff(reader: Reader, cls: type[Any], first: int, second: int) -> list[DiffItem]:
    """Identities of a type whose state differs between two commits, in identity order."""
    with reader.backend.snapshot() as snapshot:
        stored = declared(snapshot.catalog(), cls)
        if stored is None:
            return []
        for commit_id in (first, second):
            _check_commit(snapshot, commit_id)
        low, high = sorted((first, second))
        width = len(stored.spec.identity)
        touched = {row.row[:width] for row in snapshot.raw(stored, Window(Mode.HISTORY, low, high))}
        before = _states(reader, snapshot, cls, touched, first)
        after = _states(reader, snapshot, cls, touched, second)
    items = (DiffItem(_key(cls, one), before.get(one), after.get(one)) for one in sorted(touched))
    return [item for item in items if item.before != item.after]


def _check_commit(snapshot: Snapshot, commit_id: int) -> None:
    """Refuse a commit that is not there; 0 is the empty store before the first."""
    head = snapshot.head()
    if not 0 <= commit_id <= head:
        raise NotFoundError(f"There is no commit {commit_id}.", hint=f"The head is commit {head}.", commit_id=commit_id)


def _states(
    reader: Reader, snapshot: Snapshot, cls: type[Any], identities: set[tuple[str, ...]], commit_id: int
) -> dict[tuple[str, ...], Any]:
    spec = cls.__spec__
    width = len(spec.identity)
    lookup = Lookup(spec.identity[0], tuple(sorted({one[0] for one in identities})))
    scan = Scan(spec.kind, spec.name, Window(Mode.AS_OF, 0, commit_id), lookup=lookup)
    wanted = (row for row in reader.rows(snapshot, cls, scan) if row[1 : width + 1] in identities)
    return {identity(thing): thing for thing in reader.built(cls, wanted)}


def _key(cls: type[Any], identity: tuple[str, ...]) -> Any:
    """An identity as users write it: the key itself, or the keys of both ends (and the instance)."""
    if cls.__spec__.kind == "entity":
        return identity[0]
    return identity if identity[-1] else identity[:-1]


def blame(reader: Reader, cls: type[Any], key: Any) -> dict[str, int]:
    """For each field, the commit that gave it its present value."""
    identity = _identity(cls, key)
    spec = cls.__spec__
    width = len(spec.identity)
    scan = Scan(spec.kind, spec.name, Window(Mode.HISTORY), lookup=Lookup(spec.identity[0], (identity[0],)))
    origin: dict[str, int] = {}
    previous: dict[str, Any] = {}
    with reader.backend.snapshot() as snapshot:
        for commit_id, *row in reader.rows(snapshot, cls, scan):
            if tuple(row[:width]) != identity:
                continue
            values = named_values(spec, tuple(row))
            for field in spec.fields:
                value = values[field.name]
                if field.name not in previous or previous[field.name] != value:
                    origin[field.name] = commit_id
            previous = values
    if not previous:
        raise NotFoundError(f"There is no {spec.name} {key!r}.", hint="Check the key.", type_name=spec.name)
    return origin


def _identity(cls: type[Any], key: Any) -> tuple[str, ...]:
    spec = cls.__spec__
    if spec.kind == "entity":
        if isinstance(key, tuple):
            raise InputError(f"{spec.name} has a single key, not {key!r}.")
        return (str(key),)
    parts = tuple(map(str, cast("Sequence[Any]", key))) if isinstance(key, tuple | list) else ()
    wanted = 3 if spec.key_field is not None else 2
    if len(parts) != wanted:
        names = "left_key, right_key" + (", instance_key" if wanted > 2 else "")
        raise InputError(f"{spec.name} rows are named by ({names}), not {key!r}.")
    return parts if wanted > 2 else (*parts, "")
