"""Reading one consistent moment of a SQLite store.

A snapshot runs statements on the connection it was given and reports what the engine cannot do; it never writes.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from ontologia.model.comparable import from_instant, instant
from ontologia.model.physical import layout
from ontologia.query.plan import Aggregation, Lookup, Mode, Scan, Window
from ontologia.query.sql import NotNative, Sql
from ontologia.query.sqlite import SQLITE, SQLITE_QUICK
from ontologia.store.catalog import Catalog, SchemaVersion, StoredType
from ontologia.store.commits import Change, Commit, Part, read_parts
from ontologia.store.protocol import StaleCatalog, VersionedRow
from ontologia.store.sqlite.catalog import recorded_types
from ontologia.store.sqlite.statements import (
    MISSING_TABLE,
    aggregate_statement,
    lookup_condition,
    scan_statement,
    version_rows,
)
from ontologia.store.sqlite.tables import column_list, live_table, past_table


class SqliteSnapshot:
    """A leased connection and the catalog that goes with it."""

    def __init__(self, connection: sqlite3.Connection, catalog: Catalog) -> None:
        self._connection = connection
        self._catalog = catalog

    def catalog(self) -> Catalog:
        return self._catalog

    def head(self) -> int:
        return self._connection.execute("SELECT COALESCE(MAX(commit_id), 0) FROM store_commits").fetchone()[0]

    def _run(self, statement: Sql) -> sqlite3.Cursor:
        try:
            return self._connection.execute(statement.text, statement.params)
        except sqlite3.OperationalError as error:
            text = str(error)
            if text.startswith(MISSING_TABLE):
                raise StaleCatalog from error
            if "stack overflow" in text or "too large" in text or "too many" in text:
                raise NotNative(text) from error
            raise

    def select(self, scan: Scan) -> Iterator[tuple[Any, ...]]:
        stored = self._catalog.get(scan.kind, scan.type_name)
        return self._run(scan_statement(self._catalog, stored, scan))

    def columns(self, scan: Scan) -> Sequence[Sequence[Any]]:
        return list(zip(*self.select(scan), strict=True))

    def raw(self, stored: StoredType, window: Window, lookup: Lookup | None = None) -> Iterator[VersionedRow]:
        for version in self._visible(stored, window):
            shape = layout(version.spec)
            rows = version_rows(stored, version, window, shape)
            statement = Sql(f"SELECT commit_id, {column_list(shape)} FROM (") + rows + Sql(")")
            if lookup is not None:
                statement += Sql(" WHERE ") + lookup_condition(lookup, "")
            for row in self._run(statement + Sql(" ORDER BY seq")):
                yield VersionedRow(row[0], version, row[1:])

    def _visible(self, stored: StoredType, window: Window) -> Sequence[SchemaVersion]:
        if window.mode is Mode.LATEST:
            return (stored.current,)
        if window.mode is Mode.AS_OF:
            return (stored.version_at(window.last or 0),)
        return stored.versions_between(window.low, 2**63 if window.last is None else window.last)

    def aggregate(self, aggregation: Aggregation) -> list[dict[str, Any]]:
        stored = self._catalog.get(aggregation.scan.kind, aggregation.scan.type_name)
        try:
            statement, plan = aggregate_statement(self._catalog, stored, aggregation, SQLITE_QUICK)
            rows = self._run(statement).fetchall()
        except sqlite3.OperationalError as error:
            if "integer overflow" not in str(error):
                raise
            # A sum beyond 64 bits: the dialect that adds in halves is slower and never overflows.
            statement, plan = aggregate_statement(self._catalog, stored, aggregation, SQLITE)
            rows = self._run(statement).fetchall()
        return plan.result(rows)

    def explain(self, scan: Scan) -> tuple[str, Sequence[Any], list[str]]:
        stored = self._catalog.get(scan.kind, scan.type_name)
        statement = scan_statement(self._catalog, stored, scan)
        # The epoch makes it a new statement after every change of the indexes; a prepared EXPLAIN is not made again.
        asked = f"EXPLAIN QUERY PLAN {statement.text} -- {self._catalog.epoch:d}"
        steps = self._connection.execute(asked, statement.params)
        return statement.text, statement.params, [row[3] for row in steps]

    def commit_at(self, moment: datetime) -> int:
        """By bisection: commit times never go back, so they need no index of their own."""
        wanted, low, high = instant(moment), 0, self.head()
        while low < high:
            middle = (low + high + 1) // 2
            created = self._connection.execute(
                "SELECT created_at FROM store_commits WHERE commit_id = ?", (middle,)
            ).fetchone()[0]
            low, high = (middle, high) if created <= wanted else (low, middle - 1)
        return low

    def commits(self, *, since: int, before: int | None, limit: int | None) -> list[Commit]:
        rows = self._connection.execute(
            "SELECT commit_id, parent_commit_id, created_at, runtime_id, metadata, parts, commit_sha256"
            " FROM store_commits WHERE commit_id > ? AND commit_id < ? ORDER BY commit_id DESC LIMIT ?",
            (since, 2**62 if before is None else before, -1 if limit is None else limit),
        )
        return [
            Commit(
                commit_id,
                parent,
                from_instant(created),
                runtime,
                json.loads(metadata),
                {part.type_name: part.rows for part in read_parts(parts)},
                sha256,
            )
            for commit_id, parent, created, runtime, metadata, parts, sha256 in rows
        ]

    def changes(self, commit_id: int) -> list[Change]:
        found: list[Change] = []
        types = {stored.type_id: stored for stored in recorded_types(self._connection, purged=False)}
        row = self._connection.execute("SELECT parts FROM store_commits WHERE commit_id = ?", (commit_id,)).fetchone()
        for part in read_parts(row[0]) if row else ():
            stored = types.get(part.type_id)
            if stored is not None:
                found += self._part_changes(stored, part, commit_id)
        return sorted(found, key=lambda c: c[:2] + tuple(part or "" for part in c[2:6]))

    def _part_changes(self, stored: StoredType, part: Part, commit_id: int) -> Iterator[Change]:
        identity, version = stored.spec.identity, part.version
        bounds = (part.first_seq, part.first_seq + part.rows)
        columns = ", ".join(identity)
        written = f"SELECT {columns} FROM {past_table(stored, stored.versions[version - 1])} WHERE seq >= ? AND seq < ?"
        parameters = bounds
        if version == stored.current.version:
            written += f" UNION ALL SELECT {columns} FROM {live_table(stored)} WHERE seq >= ? AND seq < ?"
            parameters += bounds
        # What a commit superseded ended at it, in its own version or, after a migration, in the one before.
        ended = " OR ".join(
            f"EXISTS (SELECT 1 FROM {past_table(stored, stored.versions[number - 1])} AS p"
            f" WHERE {' AND '.join(f'p.{column} = w.{column}' for column in identity)} AND p.ended <= ?)"
            for number in {version, max(version - 1, 1)}
        )
        statement = f"SELECT {columns}, {ended} FROM ({written}) AS w"
        marks = (commit_id,) * len({version, max(version - 1, 1)})
        for *names, replaced in self._connection.execute(statement, (*marks, *parameters)):
            key, left, right, instance = (*names, None, None, None) if len(names) == 1 else (None, *names)
            yield Change(stored.kind, stored.name, key, left, right, instance, "update" if replaced else "insert")
