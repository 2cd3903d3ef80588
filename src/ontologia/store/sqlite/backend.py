"""The SQLite backend: opens or creates the file, hands out snapshots and writers, and keeps the catalog at hand.

It promises what `protocol.Backend` says. Statements, connections and verification are its neighbours' business.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from ontologia.base.clock import Clock
from ontologia.config import OntologiaConfig
from ontologia.errors import FormatVersionError, IntegrityError, NotFoundError, StorageBackendError
from ontologia.model.comparable import from_instant
from ontologia.store.catalog import Catalog, StoredType
from ontologia.store.protocol import Finding, Progress, StaleCatalog
from ontologia.store.sqlite import catalog as catalogs
from ontologia.store.sqlite.connections import Connections, missing_store
from ontologia.store.sqlite.reader import SqliteSnapshot
from ontologia.store.sqlite.statements import MISSING_TABLE, count_statement, point_statement
from ontologia.store.sqlite.tables import CORE, FORMAT
from ontologia.store.sqlite.verify import verify
from ontologia.store.sqlite.writer import SqliteWriter

OLDEST_SQLITE = (3, 38)
"""The first with the JSON operators that queries use."""


class SqliteBackend:
    """A store in one SQLite file."""

    def __init__(
        self, path: str, config: OntologiaConfig, clock: Clock, *, read_only: bool = False, create: bool = True
    ) -> None:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            wanted = ".".join(map(str, OLDEST_SQLITE))
            raise StorageBackendError(
                f"This Python has SQLite {sqlite3.sqlite_version}; a store needs {wanted} or newer.",
                hint="Use a Python built with a newer SQLite.",
                operation="open",
                path=path,
            )
        self.uri = f"sqlite:///{path}"
        self.path = path
        self._config = config
        self._clock = clock
        self._connections = Connections(path, config, read_only=read_only)
        self._catalog = Catalog(epoch=-1)
        self._times: dict[int, datetime] = {}
        if not create and not self._connections.exists():
            raise missing_store(path)
        with self._connections.lease("open") as connection:
            self._prepare(connection, create=create and not read_only)

    def _prepare(self, connection: sqlite3.Connection, *, create: bool) -> None:
        if not _has_store(connection):
            if not create:
                raise missing_store(self.path)
            self._create(connection)
        row = connection.execute("SELECT value FROM store_meta WHERE name = 'format'").fetchone()
        found = None if row is None else row[0]
        if not isinstance(found, int) or found < 1:
            raise IntegrityError(
                f"{self.path} does not say which store format it has.", hint="Restore it from a backup.", path=self.path
            )
        if found > FORMAT:
            raise FormatVersionError(
                f"{self.path} has store format {found}; this Ontologia reads up to {FORMAT}.",
                hint="Upgrade Ontologia.",
                path=self.path,
                found=found,
                supported=FORMAT,
            )
        if not self._connections.read_only and connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            # A copy made by VACUUM INTO has lost the mode that lets readers and a writer work at once.
            self._connections.insist(connection, "PRAGMA journal_mode = WAL")
        self._catalog = catalogs.read_catalog(connection)
        self._connections.settled = True

    def _create(self, connection: sqlite3.Connection) -> None:
        self._connections.insist(connection, "PRAGMA journal_mode = WAL")
        self._connections.begin(connection)
        if not _has_store(connection):
            # One statement at a time: executescript would commit the transaction first.
            for statement in CORE.split(";"):
                if statement.strip():
                    connection.execute(statement)
            connection.executemany(
                "INSERT INTO store_meta VALUES (?, ?)",
                [("format", FORMAT), ("epoch", 0), ("store_id", str(uuid.uuid4()))],
            )
            catalogs.touch(connection)
        connection.execute("COMMIT")

    def current_row(self, stored: StoredType, key: str) -> tuple[Any, ...] | None:
        return self._one(point_statement(stored), key)

    def current_count(self, stored: StoredType) -> int:
        found = self._one(count_statement(stored), stored.type_id)
        return 0 if found is None else found[0]

    def _one(self, statement: str, parameter: str | int) -> tuple[Any, ...] | None:
        """The row that a statement finds, by the shortest way there is."""
        connections = self._connections
        try:
            connection = connections.acquire()
            try:
                return connection.execute(statement, (parameter,)).fetchone()
            finally:
                connections.release(connection)
        except sqlite3.Error as error:
            if str(error).startswith(MISSING_TABLE):
                raise StaleCatalog from error
            raise connections.translate(error, "read") from error

    def cached_catalog(self) -> Catalog:
        """The catalog as last read; what is done with it may raise `StaleCatalog`."""
        return self._catalog

    @contextmanager
    def snapshot(self, *, single: bool = False) -> Generator[SqliteSnapshot]:
        with self._connections.lease("read") as connection:
            if single:
                yield SqliteSnapshot(connection, self._catalog)
                return
            connection.execute("BEGIN")
            # A catalog of its own: other threads may put a newer one in the cache while this moment is being read.
            catalog = self._catalog
            if catalogs.read_epoch(connection) != catalog.epoch:
                catalog = self._catalog = catalogs.read_catalog(connection)
            yield SqliteSnapshot(connection, catalog)
            connection.execute("COMMIT")

    @contextmanager
    def write(self) -> Generator[SqliteWriter]:
        with self._connections.lease("write", writer=True) as connection:
            self._connections.begin(connection)
            writer = SqliteWriter(connection, self._catalog, self._config, self._clock)
            try:
                yield writer
            finally:
                # Only what was committed is known to be there: SQLite may have ended a failed transaction by itself.
                if writer.committed:
                    self._catalog = writer.catalog()
                elif connection.in_transaction:
                    connection.execute("ROLLBACK")

    def refresh(self) -> None:
        """Read the catalog again."""
        with self._connections.lease("read") as connection:
            self._catalog = catalogs.read_catalog(connection)

    def commit_time(self, commit_id: int) -> datetime:
        known = self._times.get(commit_id)
        if known is None:
            with self._connections.lease("read") as connection:
                row = connection.execute(
                    "SELECT created_at FROM store_commits WHERE commit_id = ?", (commit_id,)
                ).fetchone()
            if row is None:
                raise NotFoundError(f"There is no commit {commit_id}.", hint="`onto commits` lists them.")
            known = self._times[commit_id] = from_instant(row[0])
        return known

    def verify(self, progress: Progress | None = None) -> Iterable[Finding]:
        with self._connections.lease("verify") as connection:
            connection.execute("BEGIN")
            yield from verify(connection, progress)
            connection.execute("COMMIT")

    def storage_info(self) -> dict[str, Any]:
        with self._connections.lease("read") as connection:
            meta = dict(connection.execute("SELECT name, value FROM store_meta").fetchall())
            journal = connection.execute("PRAGMA journal_mode").fetchone()[0]
        size = self._connections.file.stat().st_size if self._connections.file.exists() else 0
        return {
            "backend": "sqlite",
            "uri": self.uri,
            "path": self.path,
            "format": meta["format"],
            "store_id": meta["store_id"],
            "bytes": size,
            "journal_mode": journal,
            "synchronous": self._config.sqlite_synchronous,
            "read_only": self._connections.read_only,
            "sqlite_version": sqlite3.sqlite_version,
        }

    def close(self) -> None:
        self._connections.close()

    def __repr__(self) -> str:
        return f"SqliteBackend({self.path!r})"


def _has_store(connection: sqlite3.Connection) -> bool:
    found = connection.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'store_meta'")
    return found.fetchone() is not None
