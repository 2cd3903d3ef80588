"""Writing under the lock: current rows in, new rows and one commit record out.

A row that is replaced moves from the live table to the past table of its version, and its successor takes a new
`seq`. All of it happens in one SQLite transaction, which `publish` ends.
"""

from __future__ import annotations

import itertools
import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from ontologia.base.canonical import canonical_json
from ontologia.base.clock import Clock
from ontologia.config import OntologiaConfig
from ontologia.errors import CommitStateUnknownError
from ontologia.model.comparable import from_instant, instant
from ontologia.model.physical import layout
from ontologia.model.spec import TypeKind, TypeSpec
from ontologia.store.catalog import Catalog, SchemaVersion, StoredType
from ontologia.store.commits import ROWS_PER_BLOCK, Commit, Part, RowDigest, commit_hash
from ontologia.store.protocol import VersionedRow
from ontologia.store.reconcile import Delta
from ontologia.store.rows import Row, big_columns, has_big, without_big
from ontologia.store.sqlite import catalog as catalogs
from ontologia.store.sqlite.tables import column_list, live_table, past_table
from ontologia.store.sqlite.unchanged import is_unchanged

_GROUP_SIZES = (1, 16, 256, 4096, 8192)
_CELLS_PER_INSERT = 400
_DENSE = 4
"""Read a whole range of identities when the store holds at most this many times the rows that are wanted."""


@dataclass
class _OpenPart:
    """What this writer has done to one type so far."""

    stored: StoredType
    first_seq: int
    next_seq: int
    live_rows: int
    inserted: int = 0
    updated: int = 0
    digest: RowDigest = field(default_factory=RowDigest)


class SqliteWriter:
    """One write transaction."""

    def __init__(self, connection: sqlite3.Connection, cached: Catalog, config: OntologiaConfig, clock: Clock) -> None:
        self._connection = connection
        self._runtime_id = config.runtime_id
        self._patience = config.lock_timeout_ms / 1000
        self._clock = clock
        self._parts: dict[int, _OpenPart] = {}
        self.committed = False
        self.annotated = False
        self._purged = False
        row = connection.execute(
            "SELECT m.value, c.commit_id, c.commit_sha256, c.created_at FROM store_meta m"
            " LEFT JOIN store_commits c ON c.commit_id = (SELECT MAX(commit_id) FROM store_commits)"
            " WHERE m.name = 'epoch'"
        ).fetchone()
        self.head: int = row[1] or 0
        self._head_sha256: str | None = row[2]
        self._head_time: int = row[3] or 0
        self._catalog = cached if cached.epoch == row[0] else catalogs.read_catalog(connection)

    def catalog(self) -> Catalog:
        return self._catalog

    def _now(self) -> datetime:
        """The time of this commit: never before its parent's, whatever the clock says."""
        return from_instant(max(instant(self._clock.now()), self._head_time))

    def _keep(self, stored: StoredType) -> StoredType:
        types: dict[tuple[TypeKind, str], StoredType] = {**self._catalog.types, (stored.kind, stored.name): stored}
        self._catalog = Catalog(types, catalogs.read_epoch(self._connection))
        return stored

    def register(self, spec: TypeSpec) -> StoredType:
        known = self._catalog.find(spec.kind, spec.name)
        since = self.head + 1
        if known is None:
            return self._keep(catalogs.add_type(self._connection, spec, since, self._now()))
        self._retire(known)
        self._part(known)
        following = self._keep(catalogs.add_version(self._connection, known, spec, since, self._now()))
        self._parts[known.type_id].stored = following
        return following

    def _retire(self, stored: StoredType) -> None:
        """Move every live row to the past of its version."""
        columns = column_list(layout(stored.spec))
        self._connection.execute(
            f"INSERT INTO {past_table(stored, stored.current)} (seq, commit_id, {columns}, ended)"
            f" SELECT seq, commit_id, {columns}, ? FROM {live_table(stored)}",
            (self.head + 1,),
        )

    def annotate(self, stored: StoredType, spec: TypeSpec) -> StoredType:
        self.annotated = True
        return self._keep(catalogs.set_spec(self._connection, stored, spec))

    def is_dense(self, stored: StoredType, total: int) -> bool:
        return 0 < self._part(stored).live_rows <= _DENSE * total

    def is_unchanged(self, stored: StoredType, columns: Sequence[Any]) -> bool:
        return is_unchanged(self._connection, stored, columns)

    def current(self, stored: StoredType, wanted: Sequence[Row], total: int) -> list[Row]:
        part = self._part(stored)
        if part.live_rows == 0 or not wanted:
            return []
        shape = layout(stored.spec)
        identity = ", ".join(stored.spec.identity)
        select = f"SELECT {column_list(shape)} FROM {live_table(stored)} WHERE "
        width = shape.identity_width
        if len(wanted) > 1 and self.is_dense(stored, total):
            marks = f"({', '.join('?' * width)})"
            return self._connection.execute(
                f"{select} ({identity}) >= {marks} AND ({identity}) <= {marks} ORDER BY {identity}",
                (*wanted[0][:width], *wanted[-1][:width]),
            ).fetchall()
        found: list[Row] = []
        for condition, parameters in _identity_groups(stored, [row[:width] for row in wanted]):
            found += self._connection.execute(f"{select} {condition} ORDER BY {identity}", parameters)
        return found

    def exists(self, stored: StoredType, keys: Sequence[str]) -> set[str]:
        found: set[str] = set()
        for condition, parameters in _identity_groups(stored, [(key,) for key in keys]):
            found.update(
                key
                for (key,) in self._connection.execute(
                    f"SELECT key FROM {live_table(stored)} WHERE {condition}", parameters
                )
            )
        return found

    def append(self, stored: StoredType, delta: Delta) -> None:
        if not delta.rows:
            return
        part = self._part(stored)
        self._supersede(stored, delta.superseded)
        stored = self._widen(stored, delta.rows)
        _insert(self._connection, stored, delta.rows, part.next_seq, self.head + 1)
        part.next_seq += len(delta.rows)
        part.inserted += delta.inserted
        part.updated += delta.updated
        part.live_rows += delta.inserted
        part.digest.add(delta.rows)

    def _supersede(self, stored: StoredType, identities: Sequence[Row]) -> None:
        if not identities:
            return
        live, past = live_table(stored), past_table(stored, stored.current)
        columns = column_list(layout(stored.spec))
        for condition, parameters in _identity_groups(stored, identities):
            self._connection.execute(
                f"INSERT INTO {past} (seq, commit_id, {columns}, ended)"
                f" SELECT seq, commit_id, {columns}, ? FROM {live} WHERE {condition}",
                (self.head + 1, *parameters),
            )
            self._connection.execute(f"DELETE FROM {live} WHERE {condition}", parameters)

    def _widen(self, stored: StoredType, rows: Sequence[Row]) -> StoredType:
        """Note integer fields that meet a value beyond 64 bits for the first time."""
        wide = big_columns(rows)
        if not wide:
            return stored
        names = {column: name for name, column in layout(stored.spec).main.items()}
        fresh = frozenset(names[column] for column in wide) - stored.wide
        if not fresh:
            return stored
        following = self._keep(catalogs.set_wide(self._connection, stored, fresh))
        self._parts[stored.type_id].stored = following
        return following

    def _part(self, stored: StoredType) -> _OpenPart:
        part = self._parts.get(stored.type_id)
        if part is None:
            row = self._connection.execute(
                "SELECT next_seq, live_rows FROM store_marks WHERE type_id = ? ORDER BY commit_id DESC LIMIT 1",
                (stored.type_id,),
            ).fetchone()
            next_seq, live_rows = row or (1, 0)
            part = self._parts[stored.type_id] = _OpenPart(stored, next_seq, next_seq, live_rows)
        return part

    def retired(self, stored: StoredType, version: SchemaVersion) -> Iterator[VersionedRow]:
        shape = layout(version.spec)
        identity = ", ".join(version.spec.identity)
        width = shape.identity_width
        select = (
            f"SELECT {identity}, commit_id, {column_list(shape)} FROM {past_table(stored, version)}"
            f" WHERE ended = ? AND ({identity}) > ({', '.join('?' * width)}) ORDER BY {identity} LIMIT ?"
        )
        # Page by page, because tables may be renamed while the rows are rewritten.
        last: Row = ("",) * width
        while page := self._connection.execute(select, (self.head + 1, *last, ROWS_PER_BLOCK)).fetchall():
            for row in page:
                yield VersionedRow(row[width], version, row[width + 1 :])
            last = page[-1][:width]

    def drop(self, stored: StoredType, *, purge: bool) -> int:
        removed = 0
        # Freed pages are overwritten, so that purged rows are gone from the file too.
        self._connection.execute(f"PRAGMA secure_delete = {'ON' if purge else 'OFF'}")
        self._purged = purge
        tables = [live_table(stored), *(past_table(stored, version) for version in stored.versions)]
        if purge:
            for table in tables:
                removed += self._connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]
                self._connection.execute(f"DROP TABLE {table}")
        else:
            # Readers that know the type from before must not find its table any more.
            following = replace(stored, generation=stored.generation + 1)
            self._connection.execute(f"ALTER TABLE {live_table(stored)} RENAME TO {live_table(following)}")
            self._connection.execute(
                "UPDATE store_types SET generation = ? WHERE type_id = ?", (following.generation, stored.type_id)
            )
        self._connection.execute(
            "UPDATE store_types SET dropped_at = ?, purged = ? WHERE type_id = ?",
            (instant(self._now()), int(purge), stored.type_id),
        )
        catalogs.touch(self._connection)
        types = {name: kept for name, kept in self._catalog.types.items() if kept.type_id != stored.type_id}
        self._catalog = Catalog(types, catalogs.read_epoch(self._connection))
        return removed

    def seal(self) -> bool:
        self._connection.execute("COMMIT")
        self.committed = True
        return self._empty_log() if self._purged else True

    def _empty_log(self) -> bool:
        """Fold the log into the file, so that what was purged stays readable in neither; waits for readers."""
        self._connection.execute("PRAGMA secure_delete = OFF")
        deadline = time.monotonic() + self._patience
        while self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.01)
        return True

    def publish(self, metadata: dict[str, str]) -> Commit:
        commit_id, created = self.head + 1, self._now()
        parts: list[Part] = []
        for type_id, open_part in self._parts.items():
            stored = open_part.stored
            touched = open_part.next_seq > open_part.first_seq
            if not touched and stored.current.since_commit != commit_id:
                continue
            part = Part(
                type_id,
                stored.kind,
                stored.name,
                stored.current.version,
                stored.spec.fingerprint,
                open_part.inserted,
                open_part.updated,
                open_part.first_seq,
                open_part.digest.hexdigest(),
            )
            parts.append(part)
            self._connection.execute(
                "INSERT INTO store_marks VALUES (?, ?, ?, ?)",
                (type_id, commit_id, open_part.next_seq, open_part.live_rows),
            )
        sha256 = commit_hash(
            commit_id=commit_id,
            parent_sha256=self._head_sha256,
            created_at=created.isoformat(),
            runtime_id=self._runtime_id,
            metadata=metadata,
            parts=parts,
        )
        parent = self.head or None
        self._connection.execute(
            "INSERT INTO store_commits VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                commit_id,
                parent,
                instant(created),
                self._runtime_id,
                canonical_json(metadata),
                canonical_json(parts),
                sha256,
            ),
        )
        self._settle(commit_id, sha256)
        counts = {part.type_name: part.rows for part in parts}
        return Commit(commit_id, parent, created, self._runtime_id, dict(metadata), counts, sha256)

    def _settle(self, commit_id: int, sha256: str) -> None:
        """End the transaction; when the engine reports a failure, read back whether the commit is there."""
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as failure:
            try:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                found = self._connection.execute(
                    "SELECT commit_sha256 FROM store_commits WHERE commit_id = ?", (commit_id,)
                ).fetchone()
            except sqlite3.Error as error:
                raise CommitStateUnknownError(
                    f"SQLite failed to commit ({failure}), and whether commit {commit_id} was kept could not be read.",
                    hint=f"Look for commit {commit_id} with hash {sha256} before committing again.",
                    commit_id=commit_id,
                    commit_sha256=sha256,
                ) from error
            if found != (sha256,):
                raise
        self.committed = True


def _insert(
    connection: sqlite3.Connection, stored: StoredType, rows: Sequence[Row], first_seq: int, commit_id: int
) -> None:
    """Add live rows. Every value bound and every statement started costs, so there are few of either.

    The first row says its number and SQLite counts on from there; the others come many to a statement.
    """
    shape = layout(stored.spec)
    table = live_table(stored)
    connection.execute(
        f"INSERT INTO {table} (seq, commit_id, {column_list(shape)}) VALUES (?, ?, {_marks(len(shape.columns))})",
        (first_seq, commit_id, *rows[0]),
    )
    if len(rows) == 1:
        return
    names, rest = shape.names, rows[1:]
    if not has_big(rest):
        names, rest = names[:-1], without_big(rest)
    insert = f"INSERT INTO {table} (commit_id, {', '.join(names)}) VALUES "
    one = f"({commit_id:d}, {_marks(len(names))})"
    group = max(_CELLS_PER_INSERT // len(names), 1)
    whole = len(rest) - len(rest) % group
    if whole:
        connection.executemany(
            insert + ", ".join([one] * group),
            (tuple(itertools.chain.from_iterable(rest[at : at + group])) for at in range(0, whole, group)),
        )
    connection.executemany(insert + one, rest[whole:])


def _marks(count: int) -> str:
    return ", ".join("?" * count)


def _identity_groups(stored: StoredType, identities: Sequence[Row]) -> Iterator[tuple[str, list[Any]]]:
    """Conditions that name these identities, in few shapes so that SQLite keeps their statements prepared."""
    columns = stored.spec.identity
    start = 0
    while start < len(identities):
        rest = len(identities) - start
        size = next((size for size in _GROUP_SIZES if size >= rest), _GROUP_SIZES[-1])
        group = list(identities[start : start + size])
        start += len(group)
        # The last identity fills up the group: naming a row twice changes nothing.
        group += [group[-1]] * (size - len(group))
        parameters = [value for identity in group for value in identity]
        if size == 1:
            yield " AND ".join(f"{column} = ?" for column in columns), parameters
        elif len(columns) == 1:
            yield f"{columns[0]} IN ({', '.join('?' * size)})", parameters
        else:
            one = f"({', '.join('?' * len(columns))})"
            yield f"({', '.join(columns)}) IN (VALUES {', '.join([one] * size)})", parameters
