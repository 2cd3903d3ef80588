"""The catalog of types as objects: one immutable record that the head names, and the public ones beside it.

The record under `meta/schema/catalogs/` is the truth, because the same swap of the head that publishes a commit puts
it in force. `types.json`, `registry.json`, `dropped.json` and the version histories say the same in the public layout;
they are written under the lock before the swap, and rewritten from the record whenever it changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from ontologia.base.canonical import sha256_json
from ontologia.errors import IntegrityError
from ontologia.model.spec import TypeKind, TypeSpec
from ontologia.store.catalog import Catalog, SchemaVersion, StoredType
from ontologia.store.objects import keys
from ontologia.store.objects.records import decode

TypeName = tuple[TypeKind, str]


@dataclass(frozen=True, slots=True)
class Dropped:
    """A type that was forgotten: its rows were committed between two commits, and are gone when it was purged."""

    kind: TypeKind
    type_name: str
    type_id: int
    since_commit: int
    last_commit: int
    dropped_at: str
    purged: bool

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Dropped:
        return cls(**{name: record[name] for name in cls.__slots__})

    def holds(self, kind: TypeKind, name: str, commit_id: int) -> bool:
        """Whether rows of this name and commit were this type's."""
        return (self.kind, self.type_name) == (kind, name) and self.since_commit <= commit_id <= self.last_commit


@dataclass(frozen=True)
class Schema:
    """All that is recorded about types at one moment."""

    catalog: Catalog = field(default_factory=Catalog)
    dropped: tuple[Dropped, ...] = ()
    next_type_id: int = 1
    parent: str | None = None
    """The hash of the state that this one followed."""
    attempt: str = ""
    """Who wrote this state: the same change, tried again, is another record."""

    @property
    def types(self) -> list[TypeName]:
        return sorted(self.catalog.types)

    def with_type(self, stored: StoredType) -> Schema:
        """With a type that is new or has changed."""
        types: dict[TypeName, StoredType] = {**self.catalog.types, (stored.kind, stored.name): stored}
        following = max(self.next_type_id, stored.type_id + 1)
        return replace(self, catalog=Catalog(types, self.catalog.epoch + 1), next_type_id=following)

    def without_type(self, stored: StoredType, head: int, now: datetime, *, purge: bool) -> Schema:
        """Without a type that is dropped."""
        types = {name: kept for name, kept in self.catalog.types.items() if kept.type_id != stored.type_id}
        born = stored.versions[0].since_commit
        mark = Dropped(stored.kind, stored.name, stored.type_id, born, head, now.isoformat(), purge)
        return Schema(
            Catalog(types, self.catalog.epoch + 1), (*self.dropped, mark), self.next_type_id, self.parent, self.attempt
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "epoch": self.catalog.epoch,
            "next_type_id": self.next_type_id,
            "types": [_type_record(self.catalog.types[name]) for name in self.types],
            "dropped": [one.to_json() for one in self.dropped],
            "parent": self.parent,
            "attempt": self.attempt,
        }

    @cached_property
    def sha256(self) -> str:
        """The hash that the head names this state by."""
        return sha256_json(self.to_json())

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Schema:
        stored = [_read_type(one) for one in record["types"]]
        types: dict[TypeName, StoredType] = {(one.kind, one.name): one for one in stored}
        dropped = tuple(Dropped.from_json(one) for one in record["dropped"])
        return cls(
            Catalog(types, record["epoch"]), dropped, record["next_type_id"], record["parent"], record["attempt"]
        )

    def public_records(self, changed: Iterable[TypeName], now: datetime) -> dict[str, dict[str, Any]]:
        """The records of the public layout that say the same: always the lists, version histories where changed."""
        by_kind: dict[TypeKind, list[str]] = {
            kind: [name for one, name in self.types if one == kind] for kind in ("entity", "relation")
        }
        when = now.isoformat()
        records: dict[str, dict[str, Any]] = {
            keys.TYPES: {
                "entities": by_kind["entity"],
                "relations": by_kind["relation"],
                "updated_at": when,
                "catalog": self.sha256,
            },
            keys.REGISTRY: {
                kind: {name: _type_record(self.catalog.types[kind, name]) for name in names}
                for kind, names in by_kind.items()
            },
        }
        if self.dropped:
            records[keys.DROPPED] = {"dropped": [one.to_json() for one in self.dropped], "updated_at": when}
        for name in changed:
            stored = self.catalog.types.get(name)
            if stored is not None:
                versions = [_version_record(one) for one in stored.versions]
                records[keys.versions(*name)] = {"type_name": name[1], "kind": name[0], "versions": versions}
        return records


def _type_record(stored: StoredType) -> dict[str, Any]:
    return {
        "type_id": stored.type_id,
        "kind": stored.kind,
        "name": stored.name,
        "generation": stored.generation,
        "wide": sorted(stored.wide),
        "schema_version_id": stored.current.version,
        "versions": [_version_record(one) for one in stored.versions],
    }


def _version_record(version: SchemaVersion) -> dict[str, Any]:
    from ontologia.store.objects.columns import columns_of

    return {
        "schema_version_id": version.version,
        "schema": version.spec.to_json(),
        "fingerprint": version.spec.fingerprint,
        "columns": columns_of(version.spec).natural,
        "since_commit": version.since_commit,
        "created_at": version.created_at.isoformat(),
    }


def _read_type(record: Mapping[str, Any]) -> StoredType:
    versions = tuple(
        SchemaVersion(
            one["schema_version_id"],
            TypeSpec.from_json(one["schema"]),
            one["since_commit"],
            datetime.fromisoformat(one["created_at"]),
        )
        for one in record["versions"]
    )
    return StoredType(
        record["type_id"],
        record["kind"],
        record["name"],
        record["generation"],
        frozenset(record["wide"]),
        versions,
    )


def new_type(schema: Schema, spec: TypeSpec, since_commit: int, now: datetime) -> StoredType:
    """A type that is new to the store."""
    first = SchemaVersion(1, spec, since_commit, now)
    return StoredType(schema.next_type_id, spec.kind, spec.name, 1, frozenset(), (first,))


def new_version(stored: StoredType, spec: TypeSpec, since_commit: int, now: datetime) -> StoredType:
    """The same type with one more version."""
    version = SchemaVersion(stored.current.version + 1, spec, since_commit, now)
    return replace(
        stored, generation=stored.generation + 1, wide=frozenset[str](), versions=(*stored.versions, version)
    )


def annotated(stored: StoredType, spec: TypeSpec) -> StoredType:
    """The same type with what is not part of the fingerprint replaced in its current version."""
    version = replace(stored.current, spec=spec)
    return replace(stored, generation=stored.generation + 1, versions=(*stored.versions[:-1], version))


def widened(stored: StoredType, fields: frozenset[str]) -> StoredType:
    """The same type with more fields that hold integers beyond 64 bits."""
    return replace(stored, generation=stored.generation + 1, wide=stored.wide | fields)


def read_schema(data: bytes, sha256: str) -> Schema:
    """The catalog of a hash; an IntegrityError when it is not what the hash says."""
    key = keys.catalog(sha256)
    schema = decode(data, key, Schema.from_json)
    if schema.sha256 != sha256:
        raise IntegrityError(
            f"{key} does not have the content that its name says.", hint="Restore it from a backup.", key=key
        )
    return schema


@dataclass(frozen=True, slots=True)
class KnownTypes:
    """What `types.json` says, or why it cannot be read."""

    names: tuple[TypeName, ...] = ()
    catalog: str | None = None
    """The catalog that it was written from; None when another program wrote it."""
    problem: str | None = None


def known_types(data: bytes) -> KnownTypes:
    """The types that `types.json` lists; an IntegrityError when it is malformed."""

    def names(record: Mapping[str, Any]) -> KnownTypes:
        found: list[TypeName] = []
        kinds: tuple[tuple[str, TypeKind], ...] = (("entities", "entity"), ("relations", "relation"))
        for folder, kind in kinds:
            for name in record[folder]:
                if not isinstance(name, str):
                    raise TypeError(f"{name!r} is no type name")
                found.append((kind, name))
        return KnownTypes(tuple(found), record.get("catalog"))

    return decode(data, keys.TYPES, names)
