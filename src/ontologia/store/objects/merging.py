"""Several Parquet files with the same columns as one, row after row. Memory is bounded by a row group, not by files.

Small row groups become large ones, because reading many costs more than reading few.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ontologia.errors import IntegrityError

if TYPE_CHECKING:
    import pyarrow as pa

GROUP_ROWS = 65_536
GROUP_BYTES = 32_000_000


class Unmergeable(Exception):  # noqa: N818 - a signal to our own code, never shown
    """The files do not have the same columns, or are no Parquet files."""


def merge(sources: Sequence[Path], target: Path) -> None:
    """Write one file with the rows of all sources, in their order; `OSError` when a disk fails or a file is gone."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(sources[0]).remove_metadata()
        # Fast to read matters more than small: the file is local, and was made to be read often. For the index of
        # pages see `parquet`: DuckDB misreads their headers without it.
        with pq.ParquetWriter(target, schema, compression="snappy", write_page_index=True) as writer:
            for batches in _groups(_batches(sources, schema)):
                writer.write_table(pa.Table.from_batches(batches, schema), row_group_size=GROUP_ROWS)
    except pa.ArrowException as error:
        raise Unmergeable(str(error)) from error


def unreadable(path: Path) -> str | None:
    """Why a file cannot be read to its end; None when it can."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for _ in file.iter_batches(GROUP_ROWS):
                pass
    except (pa.ArrowException, OSError) as error:
        return str(error)
    return None


def _batches(sources: Sequence[Path], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    for source in sources:
        file: Any
        with pq.ParquetFile(source, pre_buffer=False) as file:
            if not file.schema_arrow.equals(schema):
                raise Unmergeable(str(source))
            if file.metadata.num_rows <= GROUP_ROWS and source.stat().st_size <= GROUP_BYTES // 4:
                batches = file.read(use_threads=False).to_batches()
            else:
                batches = file.iter_batches(GROUP_ROWS)
            for batch in batches:
                yield batch.replace_schema_metadata(None)


def _groups(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Batches that fill a row group together."""
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if group and (rows + len(batch) > GROUP_ROWS or size + batch.nbytes > GROUP_BYTES):
            yield group
            group, rows, size = [], 0, 0
        group.append(batch)
        rows, size = rows + len(batch), size + batch.nbytes
    if group:
        yield group


def damaged(key: str, reason: str) -> IntegrityError:
    """The error for a data file that cannot be read as such."""
    return IntegrityError(
        f"The data file {key} cannot be read ({reason.splitlines()[0] if reason else 'no reason given'}).",
        hint="`onto verify` tells what else is wrong; restore the object from a backup.",
        key=key,
    )
