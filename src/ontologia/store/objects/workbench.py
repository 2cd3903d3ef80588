"""Data files on this machine while they are looked at: fetched in pieces, hashed, counted, compared.

Upkeep reads from the bucket, never from the cache: it is there to find out what the bucket holds. Nothing is kept in
memory whole; a scratch folder holds what is being worked on and goes when the work is done.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ontologia.config import OntologiaConfig
from ontologia.objects.port import Missing, Objects, Together
from ontologia.store.objects.columns import COMMIT, quoted
from ontologia.store.objects.database import as_pattern
from ontologia.store.objects.manifests import ManifestLog
from ontologia.store.objects.records import DataFile, Head, Manifest

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from ontologia.store.objects.backend import ObjectsBackend

PIECE = 4_000_000
"""Bytes of a large object that are in memory at once, for each thread that fetches."""
_CHUNK = 512
"""Manifests that are looked at together."""

RowSums = dict[int, tuple[int, int]]
"""For each commit the number of its rows, and the sum of their hashes, which no order changes."""


@dataclass(frozen=True, slots=True)
class Copy:
    """An object as a file here, and what it was found to be."""

    path: Path
    size: int
    sha256: str

    def is_what(self, file: DataFile) -> bool:
        """Whether hash and size are those on record, where they are."""
        return file.content_sha256 in (None, self.sha256) and file.size in (None, self.size)


class Workbench:
    """A scratch folder, and an engine that keeps to the memory it was given."""

    def __init__(self, objects: Objects, together: Together, config: OntologiaConfig, folder: Path) -> None:
        self._objects = objects
        self._together = together
        self._config = config
        self._folder = folder
        self._numbers = count()
        self._engine: DuckDBPyConnection | None = None

    def new_path(self) -> Path:
        """Where the next file may be put."""
        return self._folder / f"{next(self._numbers)}.parquet"

    def fetch(self, file: DataFile) -> Copy:
        """The object of a file; `Missing` when it is gone."""
        path = self.new_path()
        if file.size is not None and file.size <= PIECE:
            data = self._objects.get(file.path).data
            path.write_bytes(data)
            return Copy(path, len(data), hashlib.sha256(data).hexdigest())
        size, digest = self._objects.size(file.path), hashlib.sha256()
        with path.open("wb") as out:
            for start in range(0, size, PIECE):
                piece = self._objects.get_range(file.path, start, min(start + PIECE, size))
                digest.update(piece)
                out.write(piece)
        return Copy(path, size, digest.hexdigest())

    def fetch_all(self, files: Sequence[DataFile]) -> list[Copy | None]:
        """Several objects side by side; None for those that are gone."""
        return self._together.all([lambda file=file: self._try(file) for file in files])

    def _try(self, file: DataFile) -> Copy | None:
        try:
            return self.fetch(file)
        except Missing:
            return None

    def engine(self) -> DuckDBPyConnection:
        """A connection whose memory is limited as queries' is, and which spills into the scratch folder."""
        if self._engine is None:
            import duckdb

            spill, limit = str(self._folder / "spill"), self._config.s3_duckdb_memory_limit
            settings: dict[str, Any] = {"memory_limit": limit, "temp_directory": spill, "threads": 2}
            self._engine = duckdb.connect(config=settings)
        return self._engine

    def row_sums(self, paths: Sequence[Path], columns: Sequence[str]) -> RowSums:
        """What rows some files have, in a form that shows whether two sets of files have the same."""
        hashed = ", ".join(quoted(name) for name in columns)
        found = (
            self.engine()
            .execute(
                f"SELECT {quoted(COMMIT)}, COUNT(*), SUM(hash({hashed}))"
                " FROM read_parquet(?, union_by_name = true, hive_partitioning = false) GROUP BY ALL",
                [[as_pattern(path) for path in paths]],
            )
            .fetchall()
        )
        return {commit: (rows, total) for commit, rows, total in found}

    def sums_of(self, path: Path) -> tuple[list[str], RowSums | None]:
        """The columns of a file, and what rows it has; nothing for what is no Parquet file of ours."""
        import duckdb
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            columns: list[str] = pq.read_schema(path).names
            return columns, self.row_sums([path], columns)
        except (pa.ArrowException, duckdb.Error):
            return [], None

    def row_counts(self, path: Path) -> dict[int, int] | None:
        """How many rows a file has of each commit; None for what is no Parquet file."""
        import duckdb

        statement = f"SELECT {quoted(COMMIT)}, COUNT(*) FROM read_parquet(?, hive_partitioning = false) GROUP BY ALL"
        try:
            return dict(self.engine().execute(statement, [as_pattern(path)]).fetchall())
        except duckdb.Error:
            return None

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
        shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def workbench(backend: ObjectsBackend) -> Generator[Workbench]:
    """A workbench for one piece of work on a store."""
    bench = Workbench(backend.objects, backend.together, backend.config, backend.cache.spill())
    try:
        yield bench
    finally:
        bench.close()


def file_sha256(path: Path) -> str:
    """The hash of a file here."""
    with path.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def row_count(path: Path) -> int | None:
    """The number of rows that a Parquet file says it has; None for what is no Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows: int = pq.read_metadata(path).num_rows
    except pa.ArrowException:
        return None
    return rows


def log_between(manifests: ManifestLog, head: Head, first: int, last: int) -> Iterator[Manifest]:
    """Manifests of a range of commits, oldest first, a bounded number of them at a time."""
    for start in range(first, last + 1, _CHUNK):
        end = min(start + _CHUNK, last + 1)
        yield from reversed(manifests.between(start - 1, end, None, head))
