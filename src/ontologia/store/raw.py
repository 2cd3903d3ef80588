"""Rows as they were written: dicts and Arrow tables in their own schema versions, never upgraded.

A filter on a raw read sees the raw values; a field that a version does not have is null there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from ontologia.model.arrow import to_arrow_table
from ontologia.model.physical import from_physical
from ontologia.model.spec import Kind, TypeSpec
from ontologia.query import reference
from ontologia.query.plan import Scan
from ontologia.query.sql import NotNative
from ontologia.store.catalog import SchemaVersion, StoredType
from ontologia.store.protocol import Snapshot, VersionedRow
from ontologia.store.reads import declared, visible_versions

META_COLUMNS = ("commit_id", "schema_version_id")


def raw_rows(snapshot: Snapshot, cls: type[Any], scan: Scan) -> Iterator[VersionedRow]:
    """Rows of a concrete scan with their versions, in order."""
    stored = declared(snapshot.catalog(), cls)
    if stored is None:
        return iter(())
    if visible_versions(stored, scan.window) <= {stored.current.version}:
        try:
            native = snapshot.select(scan)
        except NotNative:
            pass
        else:
            return (VersionedRow(row[0], stored.current, row[1:]) for row in native)
    return _filtered(snapshot.raw(stored, scan.window, scan.lookup), stored, scan)


def _filtered(rows: Iterable[VersionedRow], stored: StoredType, scan: Scan) -> Iterator[VersionedRow]:
    if scan.where is None and not scan.order and not scan.sliced:
        return iter(rows)
    known = dict.fromkeys(stored.spec.by_name)
    pairs = [(row, {**known, **_by_name(row.version.spec, row.row)}) for row in rows]
    if scan.where is not None:
        where = scan.where
        pairs = [pair for pair in pairs if reference.matches(where, pair[1])]
    if scan.order:
        pairs = reference.sort_rows(pairs, scan.order, key=lambda pair: pair[1])
    end = None if scan.limit is None else scan.offset + scan.limit
    return (row for row, _ in pairs[scan.offset : end])


def _by_name(spec: TypeSpec, row: tuple[Any, ...]) -> dict[str, Any]:
    values = from_physical(spec, row)
    return values if spec.kind == "entity" else {"left_key": row[0], "right_key": row[1], **values}


def as_dict(found: VersionedRow) -> dict[str, Any]:
    """A raw row for a person or a program: fields by name, JSON parsed, then commit and schema version."""
    spec = found.version.spec
    values = _by_name(spec, found.row)
    for field in spec.fields:
        if field.kind is Kind.JSON and values[field.name] is not None:
            values[field.name] = json.loads(values[field.name])
    for name, value in zip(meta_names(spec), (found.commit_id, found.version.version), strict=True):
        values[name] = value
    return values


def meta_names(spec: TypeSpec) -> tuple[str, ...]:
    """Names of the columns beside the fields; a field of the same name keeps it, and the column gets an underscore."""
    return tuple(f"{name}_" if name in spec.by_name else name for name in META_COLUMNS)


def arrow_table(rows: Iterable[VersionedRow], spec: TypeSpec, *, meta: bool) -> Any:
    """Raw rows as one Arrow table; versions with other columns are united by name."""
    import pyarrow as pa

    by_version: dict[int, tuple[SchemaVersion, list[VersionedRow]]] = {}
    for row in rows:
        by_version.setdefault(row.version.version, (row.version, []))[1].append(row)
    if not by_version:
        return _with_meta(to_arrow_table(spec, None), spec, [], meta=meta)
    tables = [
        _with_meta(
            to_arrow_table(version.spec, list(zip(*(found.row for found in members), strict=True))),
            version.spec,
            members,
            meta=meta,
        )
        for version, members in by_version.values()
    ]
    if len(tables) == 1:
        return tables[0]
    return pa.concat_tables([_comparable_types(table, tables) for table in tables], promote_options="permissive")


def _with_meta(table: Any, spec: TypeSpec, rows: list[VersionedRow], *, meta: bool) -> Any:
    import pyarrow as pa

    if not meta:
        return table
    commit_id, version = meta_names(spec)
    table = table.append_column(commit_id, pa.array([row.commit_id for row in rows], pa.int64()))
    return table.append_column(version, pa.array([row.version.version for row in rows], pa.int64()))


def _comparable_types(table: Any, tables: list[Any]) -> Any:
    """The same table with columns as text where versions disagree about their type."""
    import pyarrow as pa

    for number, field in enumerate(table.schema):
        types = {other.schema.field(field.name).type for other in tables if field.name in other.column_names}
        if len(types) > 1:
            text = pa.array([None if v is None else str(v) for v in table.column(number).to_pylist()], pa.string())
            table = table.set_column(number, pa.field(field.name, pa.string()), text)
    return table
