"""Proof that a file still says what was committed.

Every commit's rows are read back in order and hashed, every commit hash is recomputed from its parent's, and the live
and past tables are checked against each other. Findings name the commit; nothing is changed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ontologia.errors import IntegrityError
from ontologia.model.comparable import from_instant
from ontologia.model.physical import Layout, layout
from ontologia.model.spec import TypeSpec
from ontologia.store.catalog import SchemaVersion, StoredType
from ontologia.store.commits import Part, RowDigest, commit_hash, read_parts
from ontologia.store.protocol import Finding, Progress
from ontologia.store.sqlite.catalog import catalog_hash, read_catalog, recorded_types
from ontologia.store.sqlite.tables import column_list, live_table, past_table

_BATCH = 8192


def verify(connection: sqlite3.Connection, progress: Progress | None) -> Iterator[Finding]:
    """All findings, in the order of the log."""
    try:
        yield from _structure(connection)
        yield from _Verification(connection, progress).run()
    except (sqlite3.DatabaseError, IntegrityError, ValueError, TypeError, LookupError, ArithmeticError) as error:
        yield Finding("error", "unreadable", f"The file cannot be read to its end: {error}.")


def _structure(connection: sqlite3.Connection) -> Iterator[Finding]:
    for (text,) in connection.execute("PRAGMA integrity_check(10)"):
        if text != "ok":
            yield Finding("error", "structure", f"SQLite reports damage: {text}.")


@dataclass
class _Account:
    """What the log says about one type so far."""

    rows: int = 0
    live: int = 0
    marks: int = 0
    versions: set[int] = field(default_factory=set[int])


class _Verification:
    def __init__(self, connection: sqlite3.Connection, progress: Progress | None) -> None:
        self._connection = connection
        self._progress = progress
        self._catalog: dict[int, StoredType] = {
            stored.type_id: stored for stored in recorded_types(connection, purged=True)
        }
        self._accounts: dict[int, _Account] = {}
        self._purged = {
            type_id for (type_id,) in connection.execute("SELECT type_id FROM store_types WHERE purged = 1")
        }

    def run(self) -> Iterator[Finding]:
        yield from self._schemas()
        parent_id: int | None = None
        parent_sha256: str | None = None
        total = self._connection.execute("SELECT COUNT(*) FROM store_commits").fetchone()[0]
        commits = self._connection.execute(
            "SELECT commit_id, parent_commit_id, created_at, runtime_id, metadata, parts, commit_sha256"
            " FROM store_commits ORDER BY commit_id"
        )
        for number, (commit_id, parent, created, runtime, metadata, listed, sha256) in enumerate(commits, 1):
            if parent != parent_id or commit_id != (parent_id or 0) + 1:
                yield _error("chain", f"Commit {commit_id} does not follow commit {parent_id or 0}.", commit_id)
            parts = read_parts(listed)
            for part in parts:
                yield from self._part(commit_id, part)
            computed = commit_hash(
                commit_id=commit_id,
                parent_sha256=parent_sha256,
                created_at=from_instant(created).isoformat(),
                runtime_id=runtime,
                metadata=json.loads(metadata),
                parts=parts,
            )
            if computed != sha256:
                yield _error("commit-hash", f"The record of commit {commit_id} was changed.", commit_id)
            parent_id, parent_sha256 = commit_id, sha256
            if self._progress is not None:
                self._progress(number, total)
        yield from self._strays()
        for stored in self._catalog.values():
            if stored.type_id not in self._purged:
                yield from self._succession(stored)
        yield from self._dangling()

    def _schemas(self) -> Iterator[Finding]:
        sealed = self._connection.execute("SELECT value FROM store_meta WHERE name = 'catalog_sha256'").fetchone()
        if sealed != (catalog_hash(self._connection),):
            yield _error("catalog", "What is recorded about types, or about the store itself, was changed.", None)
        for type_id, version, fingerprint, spec in self._connection.execute(
            "SELECT type_id, version, fingerprint, spec FROM store_versions"
        ):
            parsed = TypeSpec.from_json(json.loads(spec))
            if parsed.fingerprint != fingerprint:
                since = self._catalog[int(type_id)].versions[int(version) - 1].since_commit
                message = f"Schema version {version} of {parsed.name} was changed."
                yield _error("schema", message, since)

    def _part(self, commit_id: int, part: Part) -> Iterator[Finding]:
        stored = self._catalog.get(part.type_id)
        if stored is None or not 0 < part.version <= len(stored.versions):
            yield _error("catalog", f"The type {part.type_name} of commit {commit_id} is not recorded.", commit_id)
            return
        version = stored.versions[part.version - 1]
        if version.spec.fingerprint != part.fingerprint or (stored.kind, stored.name) != (part.kind, part.type_name):
            message = f"Schema version {part.version} of {part.type_name} is not the one commit {commit_id} wrote in."
            yield _error("schema", message, commit_id, type_name=part.type_name)
        account = self._accounts.setdefault(part.type_id, _Account())
        if part.version not in account.versions:
            account.versions.add(part.version)
            if version.since_commit != commit_id:
                message = f"Schema version {part.version} of {part.type_name} began with commit {commit_id}."
                yield _error("schema", message, commit_id, type_name=part.type_name)
        account.rows += part.rows
        account.live += part.inserted
        expected = (part.first_seq + part.rows, account.live)
        mark = self._connection.execute(
            "SELECT next_seq, live_rows FROM store_marks WHERE type_id = ? AND commit_id = ?", (part.type_id, commit_id)
        ).fetchone()
        if mark != expected:
            message = f"The mark of {part.type_name} at commit {commit_id} was changed."
            yield _error("mark", message, commit_id, type_name=part.type_name)
        account.marks += 1
        yield from self._rows(commit_id, part, stored)

    def _rows(self, commit_id: int, part: Part, stored: StoredType) -> Iterator[Finding]:
        if stored.type_id in self._purged:
            return
        version = stored.versions[part.version - 1]
        shape = layout(version.spec)
        digest, rows = RowDigest(), 0
        source, parameters = self._source(stored, version, shape, part)
        cursor = self._connection.execute(source, parameters)
        wrong_commit = False
        while batch := cursor.fetchmany(_BATCH):
            rows += len(batch)
            wrong_commit |= any(row[0] != commit_id for row in batch)
            try:
                digest.add([row[1:] for row in batch])
            except (KeyError, OverflowError, UnicodeEncodeError):
                wrong_commit = True
        if rows != part.rows:
            message = f"Commit {commit_id} wrote {part.rows} rows of {part.type_name}, {rows} are there."
            yield _error("rows-missing", message, commit_id, type_name=part.type_name)
        elif wrong_commit or digest.hexdigest() != part.rows_sha256:
            message = f"Rows of {part.type_name} written by commit {commit_id} were changed."
            yield _error("rows-changed", message, commit_id, type_name=part.type_name)

    def _source(
        self, stored: StoredType, version: SchemaVersion, shape: Layout, part: Part
    ) -> tuple[str, tuple[int, ...]]:
        columns = f"commit_id, {column_list(shape)}"
        bounds = (part.first_seq, part.first_seq + part.rows)
        past = f"SELECT seq, {columns} FROM {past_table(stored, version)} WHERE seq >= ? AND seq < ?"
        if version is not stored.current:
            return f"SELECT {columns} FROM ({past}) ORDER BY seq", bounds
        live = f"SELECT seq, {columns} FROM {live_table(stored)} WHERE seq >= ? AND seq < ?"
        return f"SELECT {columns} FROM ({live} UNION ALL {past}) ORDER BY seq", (*bounds, *bounds)

    def _strays(self) -> Iterator[Finding]:
        """Rows that no commit accounts for."""
        for stored in self._catalog.values():
            if stored.type_id in self._purged:
                continue
            tables = [live_table(stored), *(past_table(stored, version) for version in stored.versions)]
            held = sum(self._connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] for table in tables)
            account = self._accounts.get(stored.type_id, _Account())
            if held > account.rows:
                message = f"{stored.name} has {held - account.rows} rows that no commit wrote."
                yield _error("rows-added", message, None, type_name=stored.name)
            marks = self._connection.execute(
                "SELECT COUNT(*) FROM store_marks WHERE type_id = ?", (stored.type_id,)
            ).fetchone()[0]
            if marks != account.marks:
                yield _error("mark", f"{stored.name} has marks of commits that do not exist.", None)
            yield from self._widths(stored)

    def _widths(self, stored: StoredType) -> Iterator[Finding]:
        """Fields with integers beyond 64 bits must be recorded as such, or engines would compare them wrongly."""
        names = {column: name for name, column in layout(stored.spec).main.items()}
        found: set[str] = set()
        for (big,) in self._connection.execute(f"SELECT big FROM {live_table(stored)} WHERE big IS NOT NULL"):
            found.update(names[column] for column in json.loads(big))
        if found - stored.wide:
            message = f"{stored.name} holds integers beyond 64 bits in {', '.join(sorted(found))} without saying so."
            yield _error("catalog", message, None, type_name=stored.name)

    def _succession(self, stored: StoredType) -> Iterator[Finding]:
        """Each past row must end exactly where the next row of its identity begins."""
        identity = ", ".join(stored.spec.identity)
        past = " UNION ALL ".join(
            f"SELECT seq, commit_id, {identity}, ended FROM {past_table(stored, version)}"
            for version in stored.versions
        )
        rows = self._connection.execute(
            f"SELECT commit_id, ended, next FROM (SELECT commit_id, ended,"
            f" LEAD(commit_id) OVER (PARTITION BY {identity} ORDER BY seq) AS next FROM ("
            f"{past} UNION ALL SELECT seq, commit_id, {identity}, NULL FROM {live_table(stored)}))"
            " WHERE ended IS NOT next LIMIT 10"
        )
        for commit_id, _ended, _next in rows:
            message = f"A row of {stored.name} written by commit {commit_id} ends at the wrong commit."
            yield _error("succession", message, commit_id, type_name=stored.name)

    def _dangling(self) -> Iterator[Finding]:
        known = {(stored.kind, stored.name): stored for stored in self._live_types()}
        for stored in self._live_types():
            if stored.kind != "relation":
                continue
            for side, end in (("left", stored.spec.left), ("right", stored.spec.right)):
                entity = known.get(("entity", end or ""))
                missing = f"SELECT {side}_key FROM {live_table(stored)} AS r"
                if entity is not None:
                    missing += f" WHERE NOT EXISTS (SELECT 1 FROM {live_table(entity)} AS e WHERE e.key = r.{side}_key)"
                count = self._connection.execute(f"SELECT COUNT(*) FROM ({missing})").fetchone()[0]
                if count:
                    keys = [key for (key,) in self._connection.execute(f"{missing} LIMIT 5")]
                    shown = ", ".join(repr(key) for key in keys) + (", …" if count > len(keys) else "")
                    yield Finding(
                        "warning",
                        "dangling",
                        f"{stored.name}: {count} of its rows name a missing {end} on the {side}: {shown}.",
                        details={"type_name": stored.name, "side": side, "count": count, "keys": keys},
                    )

    def _live_types(self) -> list[StoredType]:
        return list(read_catalog(self._connection).types.values())


def _error(code: str, message: str, commit_id: int | None, **details: Any) -> Finding:
    return Finding("error", code, message, commit_id, details)
