"""The port between the store and whatever keeps its bytes.

A backend holds an append-only log of commits and the rows they wrote, per type and schema version. It knows specs and
physical rows, never classes. Reads go through a `Snapshot` (one consistent moment), writes through a `Writer` (the
write lock is held from entering to leaving). `ontologia.testing.conformance` is the contract in executable form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from ontologia.model.spec import TypeSpec
from ontologia.query.plan import Aggregation, Lookup, Scan, Window
from ontologia.store.catalog import Catalog, SchemaVersion, StoredType
from ontologia.store.commits import Change, Commit
from ontologia.store.reconcile import Delta
from ontologia.store.rows import Row


class StaleCatalog(Exception):  # noqa: N818 - a signal between a backend and its reader, never shown
    """Another process changed the catalog; refresh it and read again."""


class VersionedRow(NamedTuple):
    """A physical row with the commit that wrote it and the schema version it is in."""

    commit_id: int
    version: SchemaVersion
    row: Row


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that verification found wrong, or worth knowing."""

    severity: str
    """`error` breaks trust in the store; `warning` does not."""
    code: str
    message: str
    commit_id: int | None = None
    details: dict[str, Any] = field(default_factory=dict[str, Any])


Progress = Callable[[int, int], None]
"""Called with work done and work in all."""


class Snapshot(Protocol):
    """A consistent view. Native reads raise `NotNative` for what the engine cannot say exactly."""

    def head(self) -> int: ...
    def catalog(self) -> Catalog: ...

    def select(self, scan: Scan) -> Iterator[tuple[Any, ...]]:
        """`(commit_id, *physical row)` of current-version rows, filtered, ordered and sliced by the engine."""
        ...

    def columns(self, scan: Scan) -> Sequence[Sequence[Any]]:
        """What `select` gives, column by column: Python values or Arrow arrays; nothing when there are no rows."""
        ...

    def raw(self, stored: StoredType, window: Window, lookup: Lookup | None = None) -> Iterator[VersionedRow]:
        """Every row of a window in its own version, ordered by commit and identity."""
        ...

    def aggregate(self, aggregation: Aggregation) -> list[dict[str, Any]]:
        """Figures over current-version rows; one dict per group, or exactly one without groups."""
        ...

    def explain(self, scan: Scan) -> tuple[str, Sequence[Any], list[str]]:
        """The statement, its parameters and the engine's plan for a native scan."""
        ...

    def commit_at(self, moment: datetime) -> int:
        """The last commit at or before a moment; 0 when there is none."""
        ...

    def commits(self, *, since: int, before: int | None, limit: int | None) -> list[Commit]:
        """Commits with `since < id < before`, newest first."""
        ...

    def changes(self, commit_id: int) -> list[Change]: ...


class Writer(Protocol):
    """The write lock, and what may be done under it. Nothing is visible to others before `publish` or `seal`."""

    head: int
    annotated: bool
    """Whether `annotate` changed anything."""

    def catalog(self) -> Catalog: ...

    def register(self, spec: TypeSpec) -> StoredType:
        """Record a new type, or a new schema version of a known one; current rows of the old version retire."""
        ...

    def annotate(self, stored: StoredType, spec: TypeSpec) -> StoredType:
        """Take over what is not part of the fingerprint: indexes, defaults, documentation."""
        ...

    def is_dense(self, stored: StoredType, total: int) -> bool:
        """Whether `total` wanted rows are likely to be most of the rows in their range of identities."""
        ...

    def is_unchanged(self, stored: StoredType, columns: Sequence[Any]) -> bool:
        """Whether a run of wanted rows, as physical Arrow columns, is there already; False when it is hard to tell."""
        ...

    def current(self, stored: StoredType, wanted: Sequence[Row], total: int) -> list[Row]:
        """Current rows of the wanted identities, in identity order. `total` says how many will be asked for in all."""
        ...

    def exists(self, stored: StoredType, keys: Sequence[str]) -> set[str]:
        """Which of these entity keys have a current row."""
        ...

    def append(self, stored: StoredType, delta: Delta) -> None: ...

    def retired(self, stored: StoredType, version: SchemaVersion) -> Iterator[VersionedRow]:
        """Rows that were current in `version` until this writer registered its successor, in identity order."""
        ...

    def drop(self, stored: StoredType, *, purge: bool) -> int:
        """Forget a type; with `purge` its rows too. The number of rows removed."""
        ...

    def seal(self) -> bool:
        """Make changes of the catalog visible that come with no commit; False when purged rows linger for a while."""
        ...

    def publish(self, metadata: dict[str, str]) -> Commit:
        """Make everything appended one commit; the one atomic step."""
        ...


class Backend(Protocol):
    """Where a store lives."""

    uri: str

    def cached_catalog(self) -> Catalog:
        """The catalog as last read, at no cost; reading with it raises `StaleCatalog` when it is out of date."""
        ...

    def current_row(self, stored: StoredType, key: str) -> tuple[Any, ...] | None:
        """`(commit_id, *physical row)` of the current state of one entity, by the shortest way there is."""
        ...

    def current_count(self, stored: StoredType) -> int:
        """How many current rows a type has, without counting them."""
        ...

    def snapshot(self, *, single: bool = False) -> AbstractContextManager[Snapshot]:
        """A consistent view; `single` promises one statement, which needs no transaction."""
        ...

    def write(self) -> AbstractContextManager[Writer]:
        """Take the write lock, waiting at most `lock_timeout_ms`."""
        ...

    def refresh(self) -> None:
        """Read the catalog again, after `StaleCatalog`."""
        ...

    def commit_time(self, commit_id: int) -> datetime:
        """When a commit was made; cached, commits never change."""
        ...

    def verify(self, progress: Progress | None = None) -> Iterable[Finding]:
        """Recompute every hash and cross-check every table."""
        ...

    def storage_info(self) -> dict[str, Any]: ...

    def close(self) -> None: ...
