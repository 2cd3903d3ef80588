"""What looking after a store on object storage finds, plans and does, as values for library and command line alike.

Every destructive step comes as a plan first (`applied` is False) and only then as a deed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, runtime_checkable

from ontologia.model.spec import TypeKind
from ontologia.store.protocol import Progress

GRACE = timedelta(days=7)
"""How long clean-up leaves what no reader should need any more: somebody may have begun reading before."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Files of one type that become, or became, one snapshot."""

    kind: TypeKind
    type_name: str
    min_commit_id: int
    max_commit_id: int
    files: int
    rows: int
    path: str
    """The key of the snapshot."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """A plan to merge files, or its result."""

    rewrites: tuple[Rewrite, ...]
    head: int
    applied: bool = False


@dataclass(frozen=True, slots=True)
class IndexProblem:
    """One thing wrong with the index of a type."""

    kind: TypeKind
    type_name: str
    code: str
    """`missing`, `lag`, `unreadable`, `missing-latest-entry`, `path-mismatch` or `wrong-entries`."""
    message: str
    max_indexed_commit: int
    head: int


@dataclass(frozen=True, slots=True)
class IndexRepair:
    """Indices that would be, or were, written anew from the manifests."""

    problems: tuple[IndexProblem, ...]
    written: tuple[str, ...]
    """Keys of the index objects."""
    head: int
    applied: bool = False


@dataclass(frozen=True, slots=True)
class Removal:
    """One object that clean-up removes, and why."""

    key: str
    size: int
    reason: str
    """`orphan` (an attempt that never became a commit), `superseded` (its rows are in a snapshot), `stale`."""


@dataclass(frozen=True, slots=True)
class Cleanup:
    """Objects that would be, or were, removed."""

    removals: tuple[Removal, ...]
    head: int
    grace: timedelta = GRACE
    applied: bool = False

    @property
    def bytes(self) -> int:
        return sum(removal.size for removal in self.removals)


@dataclass(frozen=True, slots=True)
class Initialisation:
    """A store that would be, or was, made."""

    uri: str
    keys: tuple[str, ...]
    """Objects that are written."""
    existing: dict[str, Any] | None = None
    """The store that is there already: its `commit_id`, `store_id` and number of `objects`."""
    token: str | None = None
    """What re-initialising needs, from its dry run."""
    applied: bool = False
    notes: tuple[str, ...] = ()
    """What the probe of the server found worth knowing."""


@runtime_checkable
class Maintenance(Protocol):
    """What a backend on object storage can do beyond the port of all backends."""

    def compact(
        self, type_name: str | None = None, *, apply: bool = False, progress: Progress | None = None
    ) -> Compaction: ...

    def verify_index(self) -> list[IndexProblem]: ...

    def repair_index(self, *, apply: bool = False, progress: Progress | None = None) -> IndexRepair: ...

    def repair_schema(self, *, apply: bool = False) -> tuple[str, ...]: ...

    def gc(self, *, grace: timedelta = GRACE, apply: bool = False, progress: Progress | None = None) -> Cleanup: ...


Warn = Callable[[str], None]
"""Takes a sentence for the operator."""
