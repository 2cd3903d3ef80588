"""The JSON objects of the layout as values: head, lock, manifest, index, and lists of manifests.

Their required keys are those of the public layout. Keys that this program adds are optional: a record without them,
written by another program, is read all the same. What is not such a record is an `IntegrityError` that names the key.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from ontologia.base.canonical import canonical_json, sha256_json
from ontologia.errors import IntegrityError
from ontologia.model.spec import TypeKind
from ontologia.store.commits import Commit

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Head:
    """The one mutable pointer: the last commit, and the catalog that goes with it."""

    commit_id: int
    manifest_path: str | None
    updated_at: str
    runtime_id: str
    commit_sha256: str | None = None
    store_id: str | None = None
    """New with every initialisation: what an earlier one left under the prefix is not part of this store."""
    catalog: str | None = None
    """The hash, and so the key, of the catalog in force."""
    files: tuple[DataFile, ...] | None = None
    """What the last commit wrote; as in its manifest."""
    conditional_delete: bool = True
    """False for a server that was found, when the store was made, to delete whatever the condition says."""
    fence: int = 0
    """Counted up by clean-up, which thereby makes every swap fail that was under way."""
    format: int = 1

    def to_json(self) -> dict[str, Any]:
        record: dict[str, Any] = {
            "commit_id": self.commit_id,
            "manifest_path": self.manifest_path,
            "updated_at": self.updated_at,
            "runtime_id": self.runtime_id,
            "commit_sha256": self.commit_sha256,
            "store_id": self.store_id,
            "catalog": self.catalog,
            "files": None if self.files is None else [one.to_json() for one in self.files],
            "conditional_delete": None if self.conditional_delete else False,
            "fence": self.fence or None,
        }
        return {name: value for name, value in record.items() if value is not None or name == "manifest_path"} | {
            "format": self.format
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Head:
        files = record.get("files")
        head = cls(
            int(record["commit_id"]),
            record["manifest_path"],
            record["updated_at"],
            record["runtime_id"],
            record.get("commit_sha256"),
            record.get("store_id"),
            record.get("catalog"),
            None if files is None else tuple(DataFile.from_json(one) for one in files),
            record.get("conditional_delete") is not False,
            int(record.get("fence", 0)),
            int(record.get("format", 1)),
        )
        if (head.manifest_path is None) != (head.commit_id == 0):
            raise ValueError("manifest_path and commit_id do not fit")
        return head


@dataclass(frozen=True, slots=True)
class LockRecord:
    """Who holds the write lock, and until when."""

    owner_id: str
    acquired_at: datetime
    expires_at: datetime
    lease_ttl_ms: int
    nonce: str = ""
    """Tells two holders with one name apart."""

    def to_json(self) -> dict[str, Any]:
        return {
            "owner_id": self.owner_id,
            "acquired_at": self.acquired_at.isoformat(),
            "expires_at": self.expires_at.isoformat(),
            "lease_ttl_ms": self.lease_ttl_ms,
            "nonce": self.nonce,
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> LockRecord:
        return cls(
            record["owner_id"],
            _moment(record["acquired_at"]),
            _moment(record["expires_at"]),
            int(record["lease_ttl_ms"]),
            record.get("nonce", ""),
        )


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file: the rows of one type that a commit, or a range of commits, wrote.

    In a manifest it covers one commit; in an index it may be a snapshot that covers several. What is None was not
    recorded by the writer, and must be assumed to be anything.
    """

    kind: TypeKind
    type_name: str
    path: str
    min_commit_id: int
    max_commit_id: int
    row_count: int | None = None
    schema_version_id: int | None = None
    content_sha256: str | None = None
    size: int | None = None
    updated: int | None = None
    """How many of the rows replaced an earlier one."""
    min_key: tuple[str, ...] | None = None
    max_key: tuple[str, ...] | None = None
    """Bounds of the identities, one value per identity column; each column by itself."""
    stats: Mapping[str, tuple[Any, Any]] = field(default_factory=dict[str, tuple[Any, Any]])
    """Bounds of typed columns by column name, where they are known; nulls aside."""
    _text: list[str] = field(default_factory=list[str], init=False, repr=False, compare=False)
    """The entry as text, once it was asked for: every commit writes every entry again."""

    @property
    def is_snapshot(self) -> bool:
        return self.min_commit_id < self.max_commit_id

    def covers(self, commit_id: int) -> bool:
        return self.min_commit_id <= commit_id <= self.max_commit_id

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "row_count": self.row_count,
            "schema_version_id": self.schema_version_id,
            "content_sha256": self.content_sha256,
            "size": self.size,
            "updated": self.updated,
        }
        return {name: value for name, value in facts.items() if value is not None}

    def to_json(self) -> dict[str, Any]:
        """As in a manifest, which is for ever: without bounds, because they are values that a purge must remove."""
        return {
            "kind": self.kind,
            "type_name": self.type_name,
            "path": self.path,
            "min_commit_id": self.min_commit_id,
            "max_commit_id": self.max_commit_id,
        } | self._facts()

    def to_entry(self) -> dict[str, Any]:
        """As in the index of its type."""
        entry: dict[str, Any] = {
            "min_commit_id": self.min_commit_id,
            "max_commit_id": self.max_commit_id,
            "path": self.path,
        }
        if self.min_key is not None and self.max_key is not None:
            entry |= {"min_key": list(self.min_key), "max_key": list(self.max_key)}
        if self.stats:
            entry["stats"] = {name: list(bounds) for name, bounds in self.stats.items()}
        return entry | self._facts()

    def entry_text(self) -> str:
        """The entry as canonical JSON."""
        if not self._text:
            self._text.append(canonical_json(self.to_entry()))
        return self._text[0]

    @classmethod
    def from_json(cls, record: Mapping[str, Any], commit_id: int = 0) -> DataFile:
        """From a manifest; `commit_id` is the manifest's."""
        return cls.from_entry(
            {"min_commit_id": commit_id, "max_commit_id": commit_id, **record}, record["kind"], record["type_name"]
        )

    @classmethod
    def from_entry(cls, record: Mapping[str, Any], kind: TypeKind, name: str) -> DataFile:
        """From the index of a type."""
        if kind not in ("entity", "relation") or record["min_commit_id"] > record["max_commit_id"]:
            raise ValueError("no such range or kind")
        stats = cast("Mapping[str, Sequence[Any]]", record.get("stats") or {})
        return cls(
            kind,
            str(name),
            str(record["path"]),
            int(record["min_commit_id"]),
            int(record["max_commit_id"]),
            record.get("row_count"),
            record.get("schema_version_id"),
            record.get("content_sha256"),
            record.get("size"),
            record.get("updated"),
            _texts(record.get("min_key")),
            _texts(record.get("max_key")),
            {column: (bounds[0], bounds[1]) for column, bounds in stats.items()},
        )


def _moment(text: str) -> datetime:
    """A time; one without an offset, from another program, is UTC."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _texts(values: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)


@dataclass(frozen=True, slots=True)
class Manifest:
    """One commit: what it wrote and what it follows. Never changed once written."""

    commit_id: int
    parent_commit_id: int | None
    parent_manifest_path: str | None
    created_at: str
    runtime_id: str
    metadata: dict[str, str]
    files: tuple[DataFile, ...]
    parent_sha256: str | None = None
    registered: tuple[tuple[TypeKind, str, int], ...] = ()
    """Types that got a schema version with this commit: kind, name, version."""
    extras: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What other layers write with a commit: `events`, `action_log_id`."""

    def _content(self) -> dict[str, Any]:
        return {
            "commit_id": self.commit_id,
            "parent_commit_id": self.parent_commit_id,
            "parent_manifest_path": self.parent_manifest_path,
            "created_at": self.created_at,
            "runtime_id": self.runtime_id,
            "metadata": self.metadata,
            "files": [one.to_json() for one in self.files],
            "parent_sha256": self.parent_sha256,
            "registered": [list(one) for one in self.registered],
            **self.extras,
        }

    @property
    def commit_sha256(self) -> str:
        """The hash of all that this manifest says, its parent's hash included."""
        return sha256_json(self._content())

    def to_json(self) -> dict[str, Any]:
        content = self._content()
        return content | {"commit_sha256": sha256_json(content)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Manifest:
        known = {"commit_sha256", *cls.__slots__} - {"extras"}
        commit_id = int(record["commit_id"])
        return cls(
            commit_id,
            record["parent_commit_id"],
            record["parent_manifest_path"],
            record["created_at"],
            record["runtime_id"],
            dict(record["metadata"]),
            tuple(DataFile.from_json(one, commit_id) for one in record["files"]),
            record.get("parent_sha256"),
            tuple((kind, name, version) for kind, name, version in record.get("registered", ())),
            {name: value for name, value in record.items() if name not in known},
        )

    def file_of(self, kind: TypeKind, name: str) -> DataFile | None:
        """What this commit wrote of a type."""
        return next((one for one in self.files if (one.kind, one.type_name) == (kind, name)), None)

    def to_commit(self) -> Commit:
        """As the rest of the store knows it."""
        counts = {name: 0 for _, name, _ in self.registered}
        counts |= {one.type_name: one.row_count or 0 for one in self.files}
        return Commit(
            self.commit_id,
            self.parent_commit_id,
            datetime.fromisoformat(self.created_at),
            self.runtime_id,
            dict(self.metadata),
            counts,
            self.commit_sha256,
        )


@dataclass(frozen=True, slots=True)
class Index:
    """Which files have rows of a type, for all commits up to a watermark. Advisory: manifests are the truth."""

    kind: TypeKind
    type_name: str
    max_indexed_commit: int = 0
    entries: tuple[DataFile, ...] = ()
    store_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        record: dict[str, Any] = {
            "type_name": self.type_name,
            "max_indexed_commit": self.max_indexed_commit,
            "entries": [one.to_entry() for one in self.entries],
        }
        return record if self.store_id is None else record | {"store_id": self.store_id}

    def encode(self) -> bytes:
        """As it is stored: the canonical JSON of `to_json`; entries that have not changed are not made again."""
        rest = canonical_json(replace(self, entries=()).to_json())
        entries = ",".join(one.entry_text() for one in self.entries)
        return rest.replace('"entries":[]', f'"entries":[{entries}]', 1).encode()

    @classmethod
    def from_json(cls, record: Mapping[str, Any], kind: TypeKind) -> Index:
        name = str(record["type_name"])
        entries = tuple(DataFile.from_entry(one, kind, name) for one in record["entries"])
        ordered = tuple(sorted(entries, key=lambda one: one.min_commit_id))
        if any(one.max_commit_id >= two.min_commit_id for one, two in itertools.pairwise(ordered)):
            raise ValueError("entries overlap")
        return cls(kind, name, int(record["max_indexed_commit"]), ordered, record.get("store_id"))

    def covers(self, commit_id: int) -> bool:
        return any(one.covers(commit_id) for one in self.entries)

    def with_files(self, files: Sequence[DataFile], watermark: int) -> Index:
        """With the files of later commits, less what is covered already, and a new watermark."""
        added = [one for one in files if not self.covers(one.max_commit_id)]
        entries = tuple(sorted((*self.entries, *added), key=lambda one: one.min_commit_id))
        return replace(self, entries=entries, max_indexed_commit=watermark)


def encode(record: Mapping[str, Any]) -> bytes:
    """A record as it is stored."""
    return canonical_json(record).encode()


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("not an object")
    return cast("Mapping[str, Any]", value)


def decode(data: bytes, key: str, read: Callable[[Mapping[str, Any]], T]) -> T:
    """A stored record, or an `IntegrityError` that says where it lies."""
    try:
        return read(_object(json.loads(data)))
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise IntegrityError(
            f"{key} is not what it should be ({type(error).__name__}: {error}).",
            hint="`onto verify` tells what else is wrong; restore the object from a backup.",
            key=key,
        ) from error
