"""DuckDB as it runs here: in memory, within its limit, closed to everything but the files of the cache.

It is connected at first use, and every statement gets a cursor of its own, so that threads do not meet. A forked child
gets a database of its own: using the parent's, or only letting go of it, would crash.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import threading
import weakref
from functools import cache
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection

from ontologia.errors import ConfigError
from ontologia.objects.cache import DiskCache
from ontologia.query.duckdb import register_functions

_SPECIAL = re.compile(r"[*?[]")
_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_THREAD_BYTES = 48 << 20
"""What one thread needs in a sort that spills; with less, DuckDB runs out of memory instead."""
_SETTINGS = (
    "SET parquet_metadata_cache = true",
    "SET python_enable_replacements = false",
    "SET allow_community_extensions = false",
    "SET allow_persistent_secrets = false",
)


class Database:
    """One database per process."""

    def __init__(self, memory_limit: str, files: DiskCache) -> None:
        self._memory_limit = memory_limit
        self._files = files
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._connection: DuckDBPyConnection | None = None
        self._closing: weakref.finalize[..., Database] | None = None

    def cursor(self) -> DuckDBPyConnection:
        """A connection for one statement; the caller closes it."""
        if self._process != os.getpid():
            self._begin()
        with self._lock:
            if self._connection is None:
                self._connection = self._connect()
            return self._connection.cursor()

    def _connect(self) -> DuckDBPyConnection:
        spill = self._files.spill()
        try:
            connection = duckdb.connect(
                config={
                    "memory_limit": self._memory_limit,
                    "temp_directory": str(spill),
                    "autoinstall_known_extensions": "false",
                    "autoload_known_extensions": "false",
                }
            )
        except duckdb.Error as error:
            raise ConfigError(
                f"DuckDB does not start with s3_duckdb_memory_limit {self._memory_limit!r} ({error}).",
                hint="Write a number and a unit, such as 256MB.",
            ) from error
        register_functions(connection)
        for setting in _SETTINGS:
            connection.execute(setting)
        _bound_threads(connection)
        # The names are compared as they are given, and they are given as patterns that match nothing else.
        places = [name for path in self._files.directories for name in (str(path), as_pattern(path))]
        connection.execute("SET allowed_directories = ?", [places])
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        self._closing = weakref.finalize(self, _close, self._process, connection, spill)
        _connected().add(self)
        return connection

    def abandon(self) -> None:
        """Leave the parent's database alone for good, in a child process."""
        if self._connection is not None and self._process != os.getpid():
            # Its threads are not here. Whatever would take it down, at the latest the end of the interpreter, would
            # wait for them or crash; one reference that nobody gives back keeps that from happening.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))

    def close(self) -> None:
        """Let go of the database; the next statement would connect again."""
        with self._lock:
            self._connection = None
            if self._closing is not None:
                self._closing()


def as_pattern(path: Path) -> str:
    """A path as DuckDB takes it, where letters may stand for others: these stand for themselves."""
    return _SPECIAL.sub(r"[\g<0>]", str(path))


def _bound_threads(connection: DuckDBPyConnection) -> None:
    """No more threads than the memory is enough for."""
    row = connection.execute("SELECT current_setting('memory_limit'), current_setting('threads')").fetchone()
    limit, threads = row if row is not None else ("0 KiB", 1)
    number, _, unit = str(limit).partition(" ")
    enough = int(float(number) * _UNITS.get(unit, 1)) // _THREAD_BYTES
    connection.execute("SET threads = ?", [max(1, min(int(threads), enough))])


@cache
def _connected() -> weakref.WeakSet[Database]:
    """The databases of this process, which a child must not touch."""
    found: weakref.WeakSet[Database] = weakref.WeakSet()

    def abandon_all() -> None:
        for database in list(found):
            database.abandon()

    # Where there is no fork, there is nothing to do about it.
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=abandon_all)
    return found


def _close(process: int, connection: DuckDBPyConnection, spill: Path) -> None:
    if process == os.getpid():
        connection.close()
        shutil.rmtree(spill, ignore_errors=True)
