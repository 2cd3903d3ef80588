"""Rows as they were written: dicts and Arrow tables in their own schema versions, never upgraded.

A filter on a raw read sees the raw values; a field that a version does not have is null there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ontologia.model.arrow import as_array, to_arrow_table
from ontologia.model.spec import Kind, TypeSpec
from ontologia.query import reference
from ontologia.query.plan import Lookup, Scan
from ontologia.store.catalog import SchemaVersion, StoredType
from ontologia.store.protocol import Snapshot, VersionedRow
from ontologia.store.reads import named_values, native_columns, native_rows, sides_of

if TYPE_CHECKING:
    import pyarrow as pa

META_COLUMNS = ("commit_id", "schema_version_id")


def raw_rows(snapshot: Snapshot, cls: type[Any], scan: Scan) -> Iterator[VersionedRow]:
    """Rows of a concrete scan with their versions, in order."""
    spec: TypeSpec = cls.__spec__
    stored = snapshot.catalog().find(spec.kind, spec.name)
    if stored is None:
        return iter(())
    native = _native(snapshot, spec, stored, scan)
    if native is not None:
        return (VersionedRow(row[0], stored.current, row[1:]) for row in native)
    return _filtered(snapshot, cls, snapshot.raw(stored, scan.window, scan.lookup), scan)


def _native(snapshot: Snapshot, spec: TypeSpec, stored: StoredType, scan: Scan) -> Iterator[tuple[Any, ...]] | None:
    """Rows straight from the engine, when the declared type is the stored one."""
    return native_rows(snapshot, stored, scan) if stored.spec.fingerprint == spec.fingerprint else None


def _filtered(snapshot: Snapshot, cls: type[Any], rows: Iterable[VersionedRow], scan: Scan) -> Iterator[VersionedRow]:
    if scan.where is None and not scan.order and not scan.sliced:
        return iter(rows)
    spec: TypeSpec = cls.__spec__
    pairs = [(row, _comparable_values(spec, row)) for row in rows]
    if scan.where is not None:
        where = scan.where
        left, right = _ends(snapshot, cls, [row.row for row, _ in pairs], scan)
        pairs = [
            (found, values)
            for found, values in pairs
            if reference.matches(where, values, left.get(found.row[0]), right.get(found.row[1]))
        ]
    if scan.order:
        pairs = reference.sort_rows(pairs, scan.order, key=lambda pair: pair[1])
    end = None if scan.limit is None else scan.offset + scan.limit
    return (row for row, _ in pairs[scan.offset : end])


def _ends(
    snapshot: Snapshot, cls: type[Any], rows: list[tuple[Any, ...]], scan: Scan
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, list[dict[str, Any]]]]:
    """Raw versions of the ends that the condition speaks of, by side and key."""
    found: tuple[dict[str, list[dict[str, Any]]], dict[str, list[dict[str, Any]]]] = ({}, {})
    for number in sides_of(scan.where):
        end: TypeSpec = cls.__ends__[number].__spec__
        stored = snapshot.catalog().find("entity", end.name)
        if stored is not None:
            lookup = Lookup("key", tuple(sorted({row[number] for row in rows})))
            for version in snapshot.raw(stored, scan.window, lookup):
                found[number].setdefault(version.row[0], []).append(_comparable_values(end, version))
    return found


def _comparable_values(spec: TypeSpec, found: VersionedRow) -> dict[str, Any]:
    """Values as the declared type's conditions can test them; null where the version has none of that kind."""
    fields = found.version.spec.by_name
    values = named_values(found.version.spec, found.row)
    same = {f.name for f in spec.fields if f.name in fields and fields[f.name].kind is f.kind}
    ends = {name: values[name] for name in ("left_key", "right_key") if spec.kind == "relation"}
    return {f.name: values[f.name] if f.name in same else None for f in spec.fields} | ends


def as_dict(found: VersionedRow) -> dict[str, Any]:
    """A raw row for a person or a program: fields by name, JSON parsed, then commit and schema version."""
    spec = found.version.spec
    values = named_values(spec, found.row)
    for field in spec.fields:
        if field.kind is Kind.JSON and values[field.name] is not None:
            values[field.name] = json.loads(values[field.name])
    for name, value in zip(meta_names(spec), (found.commit_id, found.version.version), strict=True):
        values[name] = value
    return values


def meta_names(spec: TypeSpec) -> tuple[str, ...]:
    """Names of the columns beside the fields; a field of the same name keeps it, and the column gets an underscore."""
    return tuple(f"{name}_" if name in spec.by_name else name for name in META_COLUMNS)


def arrow_table(snapshot: Snapshot, cls: type[Any], scan: Scan, *, meta: bool) -> pa.Table:
    """Raw rows of a concrete scan as one Arrow table; versions with other columns are united by name."""
    import pyarrow as pa

    spec: TypeSpec = cls.__spec__
    stored = snapshot.catalog().find(spec.kind, spec.name)
    if stored is None:
        return _table(spec, (), None, meta=meta)
    native = native_columns(snapshot, stored, scan) if stored.spec.fingerprint == spec.fingerprint else None
    if native is not None:
        return _table(stored.spec, native, stored.current, meta=meta).select(_column_names(cls, meta=meta))
    by_version: dict[int, tuple[SchemaVersion, list[tuple[Any, ...]]]] = {}
    for found in _filtered(snapshot, cls, snapshot.raw(stored, scan.window, scan.lookup), scan):
        rows = by_version.setdefault(found.version.version, (found.version, []))[1]
        rows.append((found.commit_id, *found.row))
    tables = [
        _table(version.spec, list(zip(*rows, strict=True)), version, meta=meta) for version, rows in by_version.values()
    ]
    if not tables:
        return _table(spec, (), None, meta=meta)
    return pa.concat_tables([_comparable_types(table, tables) for table in tables], promote_options="permissive")


def _column_names(cls: type[Any], *, meta: bool) -> list[str]:
    spec: TypeSpec = cls.__spec__
    ends = ["left_key", "right_key"] if spec.kind == "relation" else []
    return [*ends, *(field.name for field in spec.fields), *(meta_names(spec) if meta else ())]


def _table(spec: TypeSpec, columns: Sequence[Sequence[Any]], version: SchemaVersion | None, *, meta: bool) -> pa.Table:
    """Rows of one version as a table; the first column has their commit ids."""
    import pyarrow as pa

    table = to_arrow_table(spec, columns[1:] if columns else None)
    if meta:
        commits, versions = meta_names(spec)
        number = version.version if version is not None else 0
        table = table.append_column(commits, as_array(columns[0] if columns else (), pa.int64()))
        table = table.append_column(versions, pa.repeat(pa.scalar(number, pa.int64()), table.num_rows))
    return table


def _comparable_types(table: pa.Table, tables: list[pa.Table]) -> pa.Table:
    """The same table with columns as text where versions disagree about their type."""
    import pyarrow as pa

    for number, field in enumerate(table.schema):
        types = {other.schema.field(field.name).type for other in tables if field.name in other.column_names}
        if len(types) > 1:
            text = pa.array([None if v is None else str(v) for v in table.column(number).to_pylist()], pa.string())
            table = table.set_column(number, pa.field(field.name, pa.string()), text)
    return table
