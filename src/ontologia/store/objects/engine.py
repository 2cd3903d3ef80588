"""Where statements run: DuckDB over data files that were fetched, or that are read in place when they are large.

`relation` makes files ready and gives the SQL to read them; the statement that it becomes part of keeps them on disk
for as long as it lives. Files that another process removed, or that turn out damaged, are fetched again before anybody
notices. What cannot be mended is told apart: the statement is `NotNative`, a data file is damaged (`IntegrityError`),
or the storage failed (`StorageBackendError`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

import duckdb
from duckdb import DuckDBPyConnection

from ontologia.config import OntologiaConfig
from ontologia.errors import OntologiaError, StorageBackendError
from ontologia.objects.cache import DiskCache
from ontologia.objects.port import Missing, Objects, Together
from ontologia.query.sql import NotNative, Sql
from ontologia.store.objects.database import Database
from ontologia.store.objects.merging import damaged, unreadable
from ontologia.store.objects.records import DataFile
from ontologia.store.objects.results import Lengths, Row, begin, first_row
from ontologia.store.objects.scanning import Scanned, Scans

if TYPE_CHECKING:
    import pyarrow as pa

    from ontologia.store.objects.remote import RemoteFiles

T = TypeVar("T")

_ATTEMPTS = 3
_NOT_FILES = (
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.ConversionException,
    duckdb.InterruptException,
    duckdb.NotImplementedException,
    duckdb.OutOfMemoryException,
    duckdb.OutOfRangeException,
    duckdb.ParserException,
    duckdb.PermissionException,
)
_TOO_DEEP = ("expression depth", "stack overflow", "recursion", "too many parameters", "memory exhausted")


class Engine:
    """Statements over the data files of one store; safe to use from several threads."""

    def __init__(self, config: OntologiaConfig, cache: DiskCache, objects: Objects, together: Together) -> None:
        self._scans = Scans(config, cache, objects, together)
        self._database = Database(config.s3_duckdb_memory_limit, cache)
        self._uri = objects.uri
        self._lengths = Lengths()

    def relation(self, files: Sequence[DataFile], among: Sequence[DataFile] = ()) -> Sql:
        """What to select from: all rows of these files, which are at least one, of one type, and oldest first.

        Rows of the files `among` which they were chosen may come too. Files that are not local are fetched now;
        `Missing` names one that is not there.
        """
        return self._scans.relation(files, among)

    def rows(self, statement: Sql) -> Iterator[Row]:
        """The rows of a result, as they come. The statement runs at once; truth values are 0 and 1."""
        started = self._run(statement, lambda cursor, run: begin(cursor, run.text, run.params, self._lengths))
        return chain.from_iterable(self._chunks(*started))

    def one(self, statement: Sql) -> Row | None:
        """The first row of a result."""
        row, cursor, _ = self._run(statement, lambda cursor, run: first_row(cursor, run.text, run.params))
        cursor.close()
        return row

    def arrow(self, statement: Sql) -> pa.Table:
        """A whole result."""
        table, cursor, _ = self._run(
            statement, lambda cursor, run: cursor.sql(run.text, params=run.params).to_arrow_table()
        )
        cursor.close()
        return table

    def plan(self, statement: Sql) -> list[str]:
        """How DuckDB would run a statement, line by line."""
        row = self.one(Sql(f"EXPLAIN {statement.text}", statement.params))
        return [] if row is None else str(row[1]).splitlines()

    def keys(self, statement: Sql) -> set[str]:
        """The data files that a statement reads."""
        local = {one.path for scanned in _scanned(statement) for one in scanned.files}
        return local.union(*(files.keys for _, files in _remote(statement)))

    def close(self) -> None:
        self._database.close()

    def _run(self, statement: Sql, start: Callable[[DuckDBPyConnection, Sql], T]) -> tuple[T, DuckDBPyConnection, Sql]:
        """Start a statement on a cursor of its own; with files fetched anew when something is wrong with them."""
        for attempt in range(1, _ATTEMPTS + 1):
            cursor = self._database.cursor()
            try:
                for name, files in _remote(statement):
                    cursor.register(name, files.dataset)
                return start(cursor, statement), cursor, statement
            except (duckdb.Error, OSError) as error:
                cursor.close()
                if attempt == _ATTEMPTS or not _may_be_a_file(error, statement):
                    raise self._failure(error, statement) from error
            except BaseException:
                cursor.close()
                raise
            statement = Sql(
                statement.text,
                tuple(self._scans.again(one) if isinstance(one, Scanned) else one for one in statement.params),
            )
        raise AssertionError("unreachable")

    def _chunks(
        self, chunks: Iterator[Iterable[Row]], cursor: DuckDBPyConnection, statement: Sql
    ) -> Iterator[Iterable[Row]]:
        """What is left of a result; the statement, and with it its files, is held until the end."""
        try:
            yield from chunks
        except (duckdb.Error, OSError) as error:
            failure = self._failure(error, statement)
            if isinstance(failure, Missing):
                text = f"{failure} was removed while it was read"
                failure = self._backend_error(text, "Its rows are in a snapshot by now: run the query again.")
            raise failure from error
        finally:
            cursor.close()

    def _failure(self, error: Exception, statement: Sql) -> Exception:
        """What a failure of DuckDB means to the caller."""
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        for name, files in _remote(statement):
            # The libraries in between know no more of a failure than its text.
            if files.failures:
                failure = files.failures[0]
                files.failures.clear()
                return failure
            if name in text:
                return damaged(", ".join(files.keys), text)
        if any(part in text.lower() for part in _TOO_DEEP):
            return NotNative(text)
        if isinstance(error, duckdb.OutOfMemoryException):
            return self._backend_error(text, "Raise s3_duckdb_memory_limit, or ask for less at a time.")
        if _may_be_a_file(error, statement):
            return self._culprit(text, statement)
        return self._backend_error(text, "Nothing was changed.")

    def _culprit(self, text: str, statement: Sql) -> OntologiaError:
        """The error that names the file that cannot be read; nothing of it is kept."""
        for scanned in _scanned(statement):
            for part in scanned.parts:
                if not part.path.exists():
                    return self._backend_error(text, "Run it again; a larger s3_cache_bytes keeps files for longer.")
                reason = unreadable(part.path)
                if reason is not None:
                    self._scans.drop(part.files)
                    return damaged(part.files[0].path, reason)
        return self._backend_error(text, "Nothing was changed.")

    def _backend_error(self, text: str, hint: str) -> StorageBackendError:
        return StorageBackendError(
            f"DuckDB failed to read {self._uri}: {text.rstrip('.')}.", hint=hint, operation="query", uri=self._uri
        )


def _scanned(statement: Sql) -> list[Scanned]:
    return [one for one in statement.params if isinstance(one, Scanned)]


def _remote(statement: Sql) -> list[tuple[str, RemoteFiles]]:
    return [named for scanned in _scanned(statement) for named in scanned.remote.items()]


def _may_be_a_file(error: Exception, statement: Sql) -> bool:
    """Whether a data file may be behind an error: what DuckDB says of damaged bytes may be anything."""
    certain = isinstance(error, _NOT_FILES) or "UDF" in str(error)
    return not certain and any(scanned.files for scanned in _scanned(statement))
