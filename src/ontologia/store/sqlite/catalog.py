"""Reading and changing the catalog tables.

Every change counts up the epoch, by which readers and writers notice; all of it runs inside a writer's transaction.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from datetime import datetime

from ontologia.base.canonical import canonical_json, sha256_json
from ontologia.errors import IntegrityError
from ontologia.model.comparable import from_instant, instant
from ontologia.model.physical import layout
from ontologia.model.spec import TypeKind, TypeSpec
from ontologia.store.catalog import Catalog, SchemaVersion, StoredType
from ontologia.store.sqlite.tables import create_live, create_past, index_name, live_table


def read_epoch(connection: sqlite3.Connection) -> int:
    """A number that changes with every change of the catalog."""
    row = connection.execute("SELECT value FROM store_meta WHERE name = 'epoch'").fetchone()
    if row is None:
        raise IntegrityError("The store has lost the epoch of its catalog.", hint="Restore it from a backup.")
    return row[0]


def read_catalog(connection: sqlite3.Connection) -> Catalog:
    """All types that are not dropped, with their versions."""
    types: dict[tuple[TypeKind, str], StoredType] = {}
    for stored in _types(connection, "dropped_at IS NULL"):
        types[stored.kind, stored.name] = stored
    return Catalog(types, read_epoch(connection))


def recorded_types(connection: sqlite3.Connection, *, purged: bool) -> list[StoredType]:
    """Every type there ever was: dropped ones included, and with `purged` those whose rows are gone."""
    return _types(connection, "TRUE" if purged else "purged = 0")


def _types(connection: sqlite3.Connection, condition: str) -> list[StoredType]:
    try:
        return _parsed_types(connection, condition)
    except (ValueError, TypeError, LookupError, OverflowError) as error:
        raise IntegrityError(
            f"The catalog of the store is damaged ({type(error).__name__}: {error}).", hint="Restore it from a backup."
        ) from error


def _parsed_types(connection: sqlite3.Connection, condition: str) -> list[StoredType]:
    versions: dict[int, list[SchemaVersion]] = {}
    for type_id, version, spec, since, created in connection.execute(
        "SELECT type_id, version, spec, since_commit, created_at FROM store_versions ORDER BY type_id, version"
    ):
        versions.setdefault(type_id, []).append(
            SchemaVersion(version, TypeSpec.from_json(json.loads(spec)), since, from_instant(created))
        )
    return [
        StoredType(type_id, kind, name, generation, frozenset(json.loads(wide)), tuple(versions[type_id]))
        for type_id, kind, name, generation, wide in connection.execute(
            f"SELECT type_id, kind, name, generation, wide FROM store_types WHERE {condition}"
        )
    ]


def touch(connection: sqlite3.Connection) -> None:
    """Tell every reader and writer that the catalog has changed, and seal it as it is now."""
    connection.execute("UPDATE store_meta SET value = value + 1 WHERE name = 'epoch'")
    connection.execute("INSERT OR REPLACE INTO store_meta VALUES ('catalog_sha256', ?)", (catalog_hash(connection),))


def catalog_hash(connection: sqlite3.Connection) -> str:
    """A hash over all that is recorded about types and about the store itself, which no commit's hash covers."""
    sources = (
        "SELECT name, value FROM store_meta WHERE name <> 'catalog_sha256' ORDER BY name",
        "SELECT * FROM store_types ORDER BY type_id",
        "SELECT * FROM store_versions ORDER BY type_id, version",
    )
    return sha256_json([connection.execute(source).fetchall() for source in sources])


def add_type(connection: sqlite3.Connection, spec: TypeSpec, since_commit: int, now: datetime) -> StoredType:
    """Record a type that is new to the store, with its tables."""
    type_id = connection.execute(
        "INSERT INTO store_types (kind, name, generation) VALUES (?, ?, 1) RETURNING type_id", (spec.kind, spec.name)
    ).fetchone()[0]
    first = SchemaVersion(1, spec, since_commit, now)
    stored = StoredType(type_id, spec.kind, spec.name, 1, frozenset(), (first,))
    _write_version(connection, stored, first)
    _run(connection, create_live(stored) + create_past(stored, first))
    set_indexes(connection, stored)
    touch(connection)
    return stored


def add_version(
    connection: sqlite3.Connection, stored: StoredType, spec: TypeSpec, since_commit: int, now: datetime
) -> StoredType:
    """Record the next version of a type: its current rows retire to the past, and an empty live table takes over."""
    version = SchemaVersion(stored.current.version + 1, spec, since_commit, now)
    following = replace(
        stored, generation=stored.generation + 1, wide=frozenset(), versions=(*stored.versions, version)
    )
    connection.execute(f"DROP TABLE {live_table(stored)}")
    connection.execute(
        "UPDATE store_types SET generation = ?, wide = '[]' WHERE type_id = ?", (following.generation, stored.type_id)
    )
    _write_version(connection, following, version)
    _run(connection, create_live(following) + create_past(following, version))
    set_indexes(connection, following)
    touch(connection)
    return following


def set_spec(connection: sqlite3.Connection, stored: StoredType, spec: TypeSpec) -> StoredType:
    """Replace what is not part of the fingerprint in the current version."""
    version = replace(stored.current, spec=spec)
    following = replace(stored, versions=(*stored.versions[:-1], version))
    connection.execute(
        "UPDATE store_versions SET spec = ? WHERE type_id = ? AND version = ?",
        (canonical_json(spec.to_json()), stored.type_id, version.version),
    )
    set_indexes(connection, following)
    touch(connection)
    return following


def set_wide(connection: sqlite3.Connection, stored: StoredType, fields: frozenset[str]) -> StoredType:
    """Record that integer fields hold values beyond 64 bits; the new generation makes readers notice."""
    following = replace(stored, generation=stored.generation + 1, wide=stored.wide | fields)
    connection.execute(f"ALTER TABLE {live_table(stored)} RENAME TO {live_table(following)}")
    connection.execute(
        "UPDATE store_types SET generation = ?, wide = ? WHERE type_id = ?",
        (following.generation, json.dumps(sorted(following.wide)), stored.type_id),
    )
    touch(connection)
    return following


def set_indexes(connection: sqlite3.Connection, stored: StoredType) -> None:
    """Make the indexes of the live table those that the spec asks for."""
    shape = layout(stored.spec)
    table = live_table(stored)
    wanted = {shape.main[field.name] for field in stored.spec.fields if field.index}
    wanted -= set(stored.spec.identity)
    present = {
        name
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = ? AND name GLOB 'store_index_*_f*'",
            (table,),
        )
    }
    names = {index_name(stored, column): column for column in wanted}
    for name in present - set(names):
        connection.execute(f"DROP INDEX {name}")
    for name, column in names.items():
        if name not in present:
            connection.execute(f"CREATE INDEX {name} ON {table} ({column})")


def _write_version(connection: sqlite3.Connection, stored: StoredType, version: SchemaVersion) -> None:
    connection.execute(
        "INSERT INTO store_versions VALUES (?, ?, ?, ?, ?, ?)",
        (
            stored.type_id,
            version.version,
            version.spec.fingerprint,
            canonical_json(version.spec.to_json()),
            version.since_commit,
            instant(version.created_at),
        ),
    )


def _run(connection: sqlite3.Connection, statements: list[str]) -> None:
    for statement in statements:
        connection.execute(statement)
