"""Forgetting a type: preview with a token, refusal while others depend on it, and purging for good.

A dropped type can be declared anew and starts empty. Unless purged, its rows stay for `changes` and `verify`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ontologia.base.canonical import sha256_json
from ontologia.errors import InputError, RefusedError
from ontologia.model.spec import TypeKind
from ontologia.query.aggregates import count
from ontologia.query.plan import Aggregation, Scan
from ontologia.store.catalog import Catalog
from ontologia.store.protocol import Backend, Snapshot
from ontologia.store.retrying import with_fresh_heads


@dataclass(frozen=True, slots=True)
class Drop:
    """What dropping a type would do, or did."""

    kind: TypeKind
    type_name: str
    versions: int
    current_rows: int
    dependents: tuple[str, ...]
    purge: bool
    token: str
    applied: bool = False
    removed_rows: int = 0
    lingering: bool = False
    """Purged rows stay readable in the log until the readers that are open now have closed."""


class Dropping:
    """Previews and carries out drops."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def preview(self, kind: str, name: str, *, purge: bool) -> Drop:
        """What would be dropped now."""
        with self._backend.snapshot() as snapshot:
            drop = _plan(snapshot.catalog(), kind, name, snapshot.head(), purge=purge)
            return replace(drop, current_rows=_count(snapshot, drop.kind, name))

    def apply(self, kind: str, name: str, token: str | None, *, purge: bool) -> Drop:
        """Drop what the token stands for."""
        with self._backend.snapshot() as snapshot:
            stored = snapshot.catalog().types.get((kind, name)) if kind in ("entity", "relation") else None
            rows = 0 if stored is None else _count(snapshot, stored.kind, name)
        return with_fresh_heads(lambda: replace(self._apply(kind, name, token, purge=purge), current_rows=rows))

    def _apply(self, kind: str, name: str, token: str | None, *, purge: bool) -> Drop:
        with self._backend.write() as writer:
            drop = _plan(writer.catalog(), kind, name, writer.head, purge=purge)
            if token != drop.token:
                raise RefusedError(
                    f"Dropping {name} needs the token of its preview"
                    + ("." if token is None else f"; {token!r} does not fit the present state."),
                    hint="Preview first and pass its token.",
                )
            if drop.dependents:
                raise RefusedError(
                    f"{name} is an end of {', '.join(drop.dependents)}.", hint="Drop those relations first."
                )
            removed = writer.drop(writer.catalog().get(drop.kind, name), purge=purge)
            gone = writer.seal()
        return replace(drop, applied=True, removed_rows=removed, lingering=not gone)


def _count(snapshot: Snapshot, kind: TypeKind, name: str) -> int:
    return snapshot.aggregate(Aggregation(Scan(kind, name), (), (("n", count()),)))[0]["n"]


def _plan(catalog: Catalog, kind: str, name: str, head: int, *, purge: bool) -> Drop:
    if kind not in ("entity", "relation"):
        raise InputError(f"{kind!r} is not a kind of type.", hint="Say entity or relation.")
    which = kind
    stored = catalog.get(which, name)
    dependents = tuple(
        sorted(
            other.name
            for other in catalog.types.values()
            if which == "entity" and other.kind == "relation" and name in (other.spec.left, other.spec.right)
        )
    )
    token = sha256_json({"head": head, "drop": [kind, name, stored.type_id, purge]})[:16]
    return Drop(which, name, len(stored.versions), 0, dependents, purge, token)
