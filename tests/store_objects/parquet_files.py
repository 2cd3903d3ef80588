"""Data files of the public layout written by hand, and a bucket in memory that counts what is read from it."""

from __future__ import annotations

import hashlib
import io
import threading
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ontologia.objects.memory import MemoryObjects
from ontologia.objects.port import Held
from ontologia.store.objects.records import DataFile

SCHEMA = pa.schema(
    [
        ("commit_id", pa.int64()),
        ("entity_type", pa.string()),
        ("entity_key", pa.string()),
        ("schema_version_id", pa.int64()),
        ("fields_json", pa.string()),
        ("name", pa.string()),
        ("balance", pa.float64()),
        ("active", pa.bool_()),
        ("visits", pa.int64()),
    ]
)


class CountedObjects(MemoryObjects):
    """What was read, request by request: the key and the number of bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[tuple[str, int]] = []
        self._noting = threading.Lock()

    def _note(self, key: str, size: int) -> None:
        with self._noting:
            self.reads.append((key, size))

    def get(self, key: str) -> Held:
        held = super().get(key)
        self._note(key, len(held.data))
        return held

    def get_range(self, key: str, start: int, end: int) -> bytes:
        data = super().get(key).data[start:end]
        self._note(key, len(data))
        return data


def rows_of(commit_id: int, keys: Sequence[str]) -> list[dict[str, Any]]:
    """What a commit says about some entities, nulls included."""
    return [
        {
            "commit_id": commit_id,
            "entity_type": "Customer",
            "entity_key": key,
            "schema_version_id": 1,
            "fields_json": f'{{"name":"{key} {commit_id}"}}',
            "name": f"{key} {commit_id}" if commit_id % 3 else None,
            "balance": commit_id + number / 8,
            "active": [True, False, None][(commit_id + number) % 3],
            "visits": None if number % 5 == 4 else number,
        }
        for number, key in enumerate(sorted(keys))
    ]


def parquet(rows: Sequence[dict[str, Any]], schema: pa.Schema = SCHEMA, row_group_size: int | None = None) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), schema), buffer, row_group_size=row_group_size)
    return buffer.getvalue()


def stored(
    objects: MemoryObjects,
    commit_id: int,
    rows: Sequence[dict[str, Any]],
    *,
    schema: pa.Schema = SCHEMA,
    row_group_size: int | None = None,
    **other: Any,
) -> DataFile:
    """A data file in the bucket, and how the index names it."""
    data = parquet(rows, schema, row_group_size)
    key = f"commits/{commit_id}-a{commit_id:x}/entities/Customer.parquet"
    objects.put(key, data)
    facts: dict[str, Any] = {
        "row_count": len(rows),
        "schema_version_id": 1,
        "content_sha256": hashlib.sha256(data).hexdigest(),
        "size": len(data),
    }
    return DataFile("entity", "Customer", key, commit_id, commit_id, **{**facts, **other})


def commit(objects: MemoryObjects, commit_id: int, keys: Sequence[str], **other: Any) -> DataFile:
    """The data file of a commit that writes some entities."""
    return stored(objects, commit_id, rows_of(commit_id, keys), **other)
