"""The tables of a store in SQLite, and the names under which they are found.

Per type there is one live table (current rows) and, per schema version, one past table (superseded rows with the
commit that ended them). A row's `seq` is unique in its type and grows in order of commit and identity, so that
history reads in order without sorting and a window of commits is a range of `seq`. Tables are named by numbers, never
by user text; a live table's name carries the type's generation, so that a reader with an old catalog fails instead of
misreading.
"""

from __future__ import annotations

from ontologia.model.physical import Layout, layout
from ontologia.model.spec import Kind
from ontologia.store.catalog import SchemaVersion, StoredType

FORMAT = 1
"""Version of this layout; a higher one in a file is refused."""

CORE = """
CREATE TABLE store_meta (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
CREATE TABLE store_commits (
    commit_id INTEGER PRIMARY KEY,
    parent_commit_id INTEGER,
    created_at INTEGER NOT NULL,
    runtime_id TEXT NOT NULL,
    metadata TEXT NOT NULL,
    parts TEXT NOT NULL,
    commit_sha256 TEXT NOT NULL
);
CREATE TABLE store_types (
    type_id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    generation INTEGER NOT NULL,
    wide TEXT NOT NULL DEFAULT '[]',
    dropped_at INTEGER,
    purged INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX store_types_by_name ON store_types (kind, name) WHERE dropped_at IS NULL;
CREATE TABLE store_versions (
    type_id INTEGER NOT NULL,
    version INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    spec TEXT NOT NULL,
    since_commit INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (type_id, version)
) WITHOUT ROWID;
CREATE TABLE store_marks (
    type_id INTEGER NOT NULL,
    commit_id INTEGER NOT NULL,
    next_seq INTEGER NOT NULL,
    live_rows INTEGER NOT NULL,
    PRIMARY KEY (type_id, commit_id)
) WITHOUT ROWID;
"""

_AFFINITY = {
    Kind.INT: "INTEGER",
    Kind.BOOL: "INTEGER",
    Kind.DATETIME: "INTEGER",
    Kind.TIME: "INTEGER",
    Kind.FLOAT: "REAL",
    Kind.BYTES: "BLOB",
}


def live_table(stored: StoredType) -> str:
    """Name of the table of current rows."""
    return f"store_live_{stored.type_id}_{stored.generation}"


def past_table(stored: StoredType, version: SchemaVersion) -> str:
    """Name of the table of superseded rows of one schema version."""
    return f"store_past_{stored.type_id}_v{version.version}"


def index_name(stored: StoredType, column: str) -> str:
    """Name of the index on a field of the live table."""
    return f"store_index_{stored.type_id}_{column}"


def create_live(stored: StoredType) -> list[str]:
    """Statements that make the live table with its identity index."""
    shape = layout(stored.spec)
    table = live_table(stored)
    identity = ", ".join(stored.spec.identity)
    create = f"CREATE TABLE {table} (seq INTEGER PRIMARY KEY, commit_id INTEGER NOT NULL,"
    statements = [f"{create} {_column_definitions(shape)}, UNIQUE ({identity}))"]
    if stored.kind == "relation":
        statements.append(f"CREATE INDEX {index_name(stored, f'right_{stored.generation}')} ON {table} (right_key)")
    return statements


def create_past(stored: StoredType, version: SchemaVersion) -> list[str]:
    """Statements that make the past table of a version."""
    shape = layout(version.spec)
    table = past_table(stored, version)
    identity = ", ".join(version.spec.identity)
    create = f"CREATE TABLE {table} (seq INTEGER PRIMARY KEY, commit_id INTEGER NOT NULL,"
    statements = [
        f"{create} {_column_definitions(shape)}, ended INTEGER NOT NULL)",
        f"CREATE INDEX {table}_by_identity ON {table} ({identity}, ended)",
    ]
    if stored.kind == "relation":
        statements.append(f"CREATE INDEX {table}_by_right ON {table} (right_key)")
    return statements


def _column_definitions(shape: Layout) -> str:
    return ", ".join(
        f"{column.name} {'TEXT' if column.exact else _AFFINITY.get(column.kind, 'TEXT')}"
        + (" NOT NULL" if number < shape.identity_width else "")
        for number, column in enumerate(shape.columns)
    )


def column_list(shape: Layout, alias: str = "") -> str:
    """The physical columns, comma separated, behind an optional table alias."""
    return ", ".join(f"{alias}.{name}" for name in shape.names) if alias else ", ".join(shape.names)
