"""Making a store where there is none, and emptying one that is there.

A file may hold other layers' tables beside the store's: only tables whose names start with `store_` are dropped.
Emptying is one transaction and needs the token of its preview, which binds it to the store and the head that were
seen.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from ontologia.base.canonical import sha256_json
from ontologia.base.clock import SystemClock
from ontologia.config import OntologiaConfig
from ontologia.errors import RefusedError, UninitializedStorageError
from ontologia.store.sqlite.backend import SqliteBackend
from ontologia.store.sqlite.connections import Connections


@dataclass(frozen=True, slots=True)
class Reset:
    """What making or emptying a store would do, or did."""

    uri: str
    exists: bool
    head: int = 0
    tables: tuple[str, ...] = ()
    token: str = ""


class Resetting:
    """Previews and carries out the making or emptying of one store."""

    def __init__(self, path: str, config: OntologiaConfig) -> None:
        self._path = path
        self._config = config
        self._uri = f"sqlite:///{path}"

    def preview(self) -> Reset:
        """What is there now; nothing is created."""
        if not Path(self._path).exists():
            return Reset(self._uri, exists=False)
        connections = Connections(self._path, self._config, read_only=True)
        try:
            with connections.lease("read") as connection:
                return self._plan(connection)
        finally:
            connections.close()

    def apply(self, token: str | None, *, force: bool) -> Reset:
        """Make a store, or with `force` and the token of the preview empty the one that is there."""
        plan = self.preview()
        if plan.exists and not force:
            raise RefusedError(
                f"There is a store at {self._path} already (head {plan.head}).",
                hint="To empty it, preview with `onto init --force --dry-run` and pass the token.",
                path=self._path,
            )
        if plan.exists:
            self._empty(token)
        SqliteBackend(self._path, self._config, SystemClock()).close()
        return plan

    def _plan(self, connection: sqlite3.Connection) -> Reset:
        tables = tuple(
            name
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'store_*' ORDER BY name"
            )
        )
        if "store_meta" not in tables:
            return Reset(self._uri, exists=False)
        head = connection.execute("SELECT COALESCE(MAX(commit_id), 0) FROM store_commits").fetchone()[0]
        store_id = connection.execute("SELECT value FROM store_meta WHERE name = 'store_id'").fetchone()[0]
        token = sha256_json({"reset": store_id, "head": head})[:16]
        return Reset(self._uri, exists=True, head=head, tables=tables, token=token)

    def _empty(self, token: str | None) -> None:
        connections = Connections(self._path, self._config, read_only=False)
        try:
            with connections.lease("empty") as connection:
                connections.begin(connection)
                plan = self._plan(connection)
                if not plan.exists:
                    raise UninitializedStorageError(f"There is no store at {self._path} any more.")
                if token != plan.token:
                    raise RefusedError(
                        f"Emptying {self._path} needs the token of its preview"
                        + ("." if token is None else f"; {token!r} does not fit the present state."),
                        hint="Preview with `onto init --force --dry-run` and pass its token.",
                        path=self._path,
                    )
                for table in plan.tables:
                    connection.execute(f"DROP TABLE {table}")
                connection.execute("COMMIT")
        finally:
            connections.close()
