"""The commit log as values: what a commit is, what it touched, and how its content hash is made.

The hash of a commit covers its parent's hash, its own record and, through one digest per type, every row it wrote; so a
changed value breaks the chain at the commit it belongs to.
"""

from __future__ import annotations

import hashlib
import json
import sys
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from ontologia.base.canonical import sha256_json
from ontologia.model.spec import TypeKind
from ontologia.store.rows import ColumnRows, Row

ROWS_PER_BLOCK = 8192
"""Rows are hashed column by column in blocks of this many; part of the format."""


class Part(NamedTuple):
    """What one commit did to one type; stored as a JSON list in this order."""

    type_id: int
    kind: TypeKind
    type_name: str
    version: int
    fingerprint: str
    inserted: int
    updated: int
    first_seq: int
    rows_sha256: str

    @property
    def rows(self) -> int:
        return self.inserted + self.updated


def read_parts(text: str) -> list[Part]:
    """The parts of a commit from their stored text."""
    return [Part(*fields) for fields in json.loads(text)]


@dataclass(frozen=True, slots=True)
class Commit:
    """One entry of the log."""

    commit_id: int
    parent_commit_id: int | None
    created_at: datetime
    runtime_id: str
    metadata: dict[str, str]
    counts: dict[str, int]
    """Rows written, by type name."""
    commit_sha256: str

    def to_dict(self) -> dict[str, Any]:
        """The commit as JSON-able data."""
        return {
            "commit_id": self.commit_id,
            "parent_commit_id": self.parent_commit_id,
            "created_at": self.created_at.isoformat(),
            "runtime_id": self.runtime_id,
            "metadata": self.metadata,
            "counts": self.counts,
            "commit_sha256": self.commit_sha256,
        }

    def _repr_html_(self) -> str:
        from html import escape

        rows = "".join(
            f"<tr><th>{escape(str(name))}</th><td>{escape(str(value))}</td></tr>"
            for name, value in self.to_dict().items()
        )
        return f"<table>{rows}</table>"


class Change(NamedTuple):
    """One row that a commit wrote."""

    kind: TypeKind
    type_name: str
    key: str | None
    left_key: str | None
    right_key: str | None
    instance_key: str | None
    op: Literal["insert", "update"]


class DiffItem(NamedTuple):
    """One identity that differs between two commits; `before` is None for a new one."""

    key: Any
    before: Any
    after: Any


def commit_hash(
    *,
    commit_id: int,
    parent_sha256: str | None,
    created_at: str,
    runtime_id: str,
    metadata: dict[str, str],
    parts: Iterable[Part],
) -> str:
    """The content hash of a commit."""
    return sha256_json(
        {
            "commit_id": commit_id,
            "parent": parent_sha256,
            "created_at": created_at,
            "runtime_id": runtime_id,
            "metadata": metadata,
            "parts": list(parts),
        }
    )


class RowDigest:
    """A digest over physical rows in order, independent of how they are handed over."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._waiting: list[Row] = []

    def add(self, rows: Sequence[Row]) -> None:
        """Take in the next rows."""
        if self._waiting:
            rows = [*self._waiting, *rows]
        if len(rows) == ROWS_PER_BLOCK:
            self._waiting = []
            self._block(rows)
            return
        whole = len(rows) - len(rows) % ROWS_PER_BLOCK
        for start in range(0, whole, ROWS_PER_BLOCK):
            self._block(rows[start : start + ROWS_PER_BLOCK])
        self._waiting = list(rows[whole:])

    def hexdigest(self) -> str:
        """The digest of all rows taken in; ends the digest."""
        if self._waiting:
            self._block(self._waiting)
            self._waiting = []
        return self._hash.hexdigest()

    def _block(self, rows: Sequence[Row]) -> None:
        columns = rows.columns if isinstance(rows, ColumnRows) else zip(*rows, strict=True)
        self._hash.update(len(rows).to_bytes(4, "little") + b"".join(map(_column_bytes, columns)))


_TAGS = {type(None): b"n", int: b"i", float: b"f", str: b"t", bytes: b"b"}


def _column_bytes(values: Sequence[Any]) -> bytes:
    """One column of a block: a type tag per value, then the numbers, then lengths and contents."""
    types = set(map(type, values))
    if len(types) == 1:
        (only,) = types
        return _TAGS[only] * len(values) + _typed_bytes(only, values)
    tags = b"".join(map(_TAGS.__getitem__, map(type, values)))
    kinds = [kind for kind in (int, float, str, bytes) if kind in types]
    return tags + b"".join(_typed_bytes(kind, [value for value in values if type(value) is kind]) for kind in kinds)


def _typed_bytes(kind: type, values: Sequence[Any]) -> bytes:
    if kind is str:
        return _little_endian(array("Q", map(len, values))) + "".join(values).encode()
    if kind is int:
        return _little_endian(array("q", values))
    if kind is float:
        return _little_endian(array("d", values))
    return b"" if kind is type(None) else _little_endian(array("Q", map(len, values))) + b"".join(values)


def _little_endian(numbers: array[Any]) -> bytes:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()
