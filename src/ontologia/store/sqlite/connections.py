"""Connections to one SQLite file: opening, pooling, waiting for the write lock, and turning driver errors into ours.

A connection is leased for one read or one write and given back; streams keep theirs until they end. No `sqlite3`
exception leaves this package.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import tempfile
import time
import weakref
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ontologia.config import OntologiaConfig
from ontologia.errors import (
    IntegrityError,
    LockContentionError,
    OntologiaError,
    StorageBackendError,
    UninitializedStorageError,
)
from ontologia.query.sqlite import register_functions
from ontologia.store.binding import MEMORY

_CACHE_KIB = 65536
_STATEMENTS = 512


class Connections:
    """All connections of this process to one file."""

    def __init__(self, path: str, config: OntologiaConfig, *, read_only: bool) -> None:
        self.path = path
        self.read_only = read_only
        self.settled = False
        """Once the store is known to be there, a file that is missing is an error, not an empty store."""
        self._config = config
        self._readers: deque[sqlite3.Connection] = deque()
        self._writers: deque[sqlite3.Connection] = deque()
        self._inherited: list[deque[sqlite3.Connection]] = []
        self._process = os.getpid()
        self._closed = False
        self._frozen: tuple[Any, ...] | None = None
        """What an immutable file looked like when it was opened."""
        folder = _private_folder() if path == MEMORY else None
        self.file = Path(path) if folder is None else Path(folder, "onto.db")
        # Also for those who never close: an Ontology that is forgotten leaves no connection and no temporary store.
        self._finalizer = weakref.finalize(self, _give_up, self._process, self._readers, self._writers, folder)

    def acquire(self, *, writer: bool = False) -> sqlite3.Connection:
        """A connection to give back with `release`; writers never wait inside SQLite."""
        self._closed = False
        if self._process != os.getpid():
            # Connections must not cross a fork: the child starts with none, and does not close its parent's.
            self._inherited += [self._readers, self._writers]
            self._readers, self._writers, self._process = deque(), deque(), os.getpid()
        if self._frozen is not None and self._frozen != self._appearance():
            # Somebody may write after all: what was read from the file so far says nothing about it now.
            _close_all(self._readers)
            self._frozen = None
        try:
            return (self._writers if writer else self._readers).pop()
        except IndexError:
            return self._open(0 if writer else self._config.lock_timeout_ms)

    def release(self, connection: sqlite3.Connection, *, writer: bool = False) -> None:
        """Give a connection back, with no transaction left open."""
        if connection.in_transaction:
            connection.rollback()
        if self._closed:
            # A stream that outlived the store it reads from.
            connection.close()
            return
        (self._writers if writer else self._readers).append(connection)

    @contextmanager
    def lease(self, operation: str, *, writer: bool = False) -> Generator[sqlite3.Connection]:
        """A connection for one piece of work."""
        try:
            connection = self.acquire(writer=writer)
            try:
                yield connection
            finally:
                self.release(connection, writer=writer)
        except sqlite3.Error as error:
            raise self.translate(error, operation) from error

    def exists(self) -> bool:
        """Whether there is a file; one that may not even be looked for is an error."""
        try:
            return self.file.exists()
        except OSError as error:
            raise StorageBackendError(
                f"{self.path} cannot be reached: {error.strerror}.",
                hint="Check the path and the permissions of its directories.",
                operation="open",
                path=self.path,
            ) from error

    def _open(self, wait_ms: int) -> sqlite3.Connection:
        if not self.exists() and (self.read_only or self.settled):
            raise missing_store(self.path)
        if self.file.is_dir():
            raise StorageBackendError(
                f"{self.path} is a directory, not a store.", hint="Name a file.", operation="open", path=self.path
            )
        connection = sqlite3.connect(
            f"file:{quote(str(self.file.absolute()))}?{self._mode()}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=_STATEMENTS,
            timeout=self._config.lock_timeout_ms / 1000,
        )
        try:
            synchronous = "OFF" if self.path == MEMORY else self._config.sqlite_synchronous.upper()
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            connection.execute(f"PRAGMA query_only = {'ON' if self.read_only else 'OFF'}")
            register_functions(connection)
            # Opening may meet another process that creates or recovers the file, and must wait for it like any reader.
            connection.execute(f"PRAGMA busy_timeout = {wait_ms}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _mode(self) -> str:
        """How to open the file: a reader leaves nothing behind and needs no right to write."""
        if not self.read_only:
            return "mode=rw" if self.settled else "mode=rwc"
        if os.access(self.file, os.W_OK) and os.access(self.file.absolute().parent, os.W_OK):
            # A connection that may write removes the log's files when it closes; one that may not leaves them.
            return "mode=rw"
        if self._log().exists():
            return "mode=ro"
        self._frozen = self._appearance()
        return "mode=ro&immutable=1"

    def _log(self) -> Path:
        return self.file.with_name(f"{self.file.name}-wal")

    def _appearance(self) -> tuple[Any, ...]:
        """Enough of the file to notice that it was written to."""
        try:
            state = self.file.stat()
        except OSError:
            return ()
        return state.st_ino, state.st_size, state.st_mtime_ns, self._log().exists()

    def begin(self, connection: sqlite3.Connection) -> None:
        """Take the write lock."""
        self.insist(connection, "BEGIN IMMEDIATE")

    def insist(self, connection: sqlite3.Connection, statement: str) -> None:
        """Run a statement that needs a lock, waiting with short, uneven pauses so that no writer starves."""
        deadline = time.monotonic() + self._config.lock_timeout_ms / 1000
        while True:
            try:
                connection.execute(statement)
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    raise
                if time.monotonic() >= deadline:
                    raise self._contention() from error
                time.sleep(random.uniform(0.0005, 0.004))  # noqa: S311 - jitter, not a secret
            else:
                return

    def _contention(self) -> LockContentionError:
        wait = self._config.lock_timeout_ms
        return LockContentionError(
            f"Another writer held {self.path} for more than {wait} ms.",
            hint="Nothing was written; try again, or raise lock_timeout_ms.",
            path=self.path,
            waited_ms=wait,
        )

    def translate(self, error: sqlite3.Error, operation: str) -> OntologiaError:
        """The typed error for a driver error."""
        text = str(error)
        details = {"operation": operation, "path": self.path}
        if isinstance(error, sqlite3.OperationalError) and is_busy(error):
            return self._contention()
        if "not a database" in text:
            return StorageBackendError(
                f"{self.path} is not a SQLite database.", hint="Check the path, or restore the file.", **details
            )
        if "malformed" in text or "corrupt" in text or "decode to UTF-8" in text:
            return IntegrityError(
                f"{self.path} is damaged ({text}).",
                hint="Restore it from a backup; `onto verify` says more.",
                **details,
            )
        hints = {
            "disk is full": "Free some space and try again; nothing of this commit was kept.",
            "readonly": "This store was opened with read_only=True."
            if self.read_only
            else "Make the file and its directory writable.",
            "unable to open": "Check that the directory exists and may be read and written.",
            "disk I/O": "Check the disk and the file's permissions; nothing of this commit was kept.",
        }
        hint = next((hint for part, hint in hints.items() if part in text), "Nothing was changed.")
        return StorageBackendError(f"SQLite failed to {operation} {self.path}: {text}.", hint=hint, **details)

    def close(self) -> None:
        """Close every idle connection; the last one out folds the log into the file."""
        self._closed = True
        _close_all(self._readers)
        _close_all(self._writers)
        if self.path == MEMORY:
            self._finalizer()


def _private_folder() -> str:
    """A place for a store of its own, in RAM where the system has a RAM disk."""
    ram = Path("/dev/shm")  # noqa: S108 - a directory of our own is made below it
    return tempfile.mkdtemp(prefix="ontologia-", dir=ram if os.access(ram, os.W_OK) else None)


def _close_all(pool: deque[sqlite3.Connection]) -> None:
    while pool:
        pool.pop().close()


def _give_up(
    process: int, readers: deque[sqlite3.Connection], writers: deque[sqlite3.Connection], folder: str | None
) -> None:
    """Let go of everything, unless this is a child process that only has a copy of it."""
    if process == os.getpid():
        _close_all(readers)
        _close_all(writers)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def is_busy(error: sqlite3.OperationalError) -> bool:
    """True when another connection is in the way."""
    # An error that the driver makes itself (text that is not UTF-8) has no code.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def missing_store(path: str) -> UninitializedStorageError:
    """The error for a file that is not there."""
    return UninitializedStorageError(
        f"There is no store at {path}.", hint="Check the path, or create one with `onto init`.", path=path
    )
