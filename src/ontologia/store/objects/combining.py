"""The snapshot of some data files of one type and schema version: the rows of all, one file after the other.

Each member is in the order of its commits and identities and none overlaps the next, so the snapshot is in that order
too. It is read back and compared with its members, row by row through hashes, before anybody gets to see it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ontologia.errors import IntegrityError
from ontologia.store.objects.columns import BIG, PAYLOAD
from ontologia.store.objects.parquet import ROWS_PER_GROUP
from ontologia.store.objects.records import DataFile
from ontologia.store.objects.standing import combined
from ontologia.store.objects.workbench import Copy, Workbench, file_sha256

_BATCH = 16_384
_GROUP_BYTES = 64_000_000


def combine(bench: Workbench, members: Sequence[DataFile], key: str) -> tuple[Path, DataFile]:
    """A local file with all rows of the members, in order, and what an index says of it under its key."""
    copies = [_checked(file, copy) for file, copy in zip(members, bench.fetch_all(members), strict=True)]
    paths = [copy.path for copy in copies]
    target = bench.new_path()
    schema = _write(paths, target)
    rows = _compare(bench, paths, target, schema.names, key)
    for path in paths:
        path.unlink()
    made = Copy(target, target.stat().st_size, file_sha256(target))
    bounds = (members[0].min_commit_id, members[-1].max_commit_id)
    return target, replace(combined(members, key, bounds, made), row_count=rows)


def _checked(file: DataFile, copy: Copy | None) -> Copy:
    if copy is None or not copy.is_what(file):
        what = "is missing" if copy is None else "is not what was committed"
        raise IntegrityError(
            f"The data file {file.path} {what}.",
            hint="`onto verify` tells what else is wrong; restore it from a backup.",
            key=file.path,
            commit_id=file.min_commit_id,
        )
    return copy


def _write(paths: Sequence[Path], target: Path) -> Any:
    schema: Any = pa.unify_schemas([pq.read_schema(path) for path in paths])
    names: list[str] = schema.names
    options: dict[str, Any] = {
        "compression": "zstd",
        "use_dictionary": [name for name in names if name != PAYLOAD],
        "write_statistics": [name for name in names if name not in {PAYLOAD, BIG} and not name.endswith(":exact")],
        "write_page_index": True,
        "store_schema": False,
    }
    with pq.ParquetWriter(target, schema, **options) as writer:
        for table in _row_groups(paths, schema):
            writer.write_table(table, ROWS_PER_GROUP)
    return schema


def _row_groups(paths: Sequence[Path], schema: Any) -> Iterator[Any]:
    """All rows in tables that make good row groups."""
    waiting: list[Any] = []
    for path in paths:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_BATCH):
                waiting.append(_in_form(batch, schema))
                rows, size = sum(one.num_rows for one in waiting), sum(one.nbytes for one in waiting)
                if rows >= ROWS_PER_GROUP or size >= _GROUP_BYTES:
                    yield pa.concat_tables(waiting).combine_chunks()
                    waiting.clear()
    if waiting:
        yield pa.concat_tables(waiting).combine_chunks()


def _in_form(batch: Any, schema: Any) -> Any:
    """The columns of a batch as the whole has them; one that a file of another program lacks is null."""
    columns = [
        batch.column(field.name) if field.name in batch.schema.names else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _compare(bench: Workbench, paths: Sequence[Path], target: Path, columns: Sequence[str], key: str) -> int:
    """The number of rows, once the file was found to have the same as its members."""
    wanted, found = bench.row_sums(paths, columns), bench.row_sums([target], columns)
    if wanted != found or pq.read_schema(target).names != list(columns):
        raise IntegrityError(
            f"{key} did not come out with the rows of its {len(paths)} files; it was not written.",
            hint="This is a bug in Ontologia, or a fault of this machine; nothing was changed.",
            key=key,
        )
    return sum(rows for rows, _ in found.values())
