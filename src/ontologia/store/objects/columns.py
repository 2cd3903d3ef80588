"""The columns of a Parquet file of one type: which one holds what, and under which name.

The names and types are those of the public layout: system columns first, then one column per field with the type that
other readers expect. What such a column cannot say lies beside it, under names with a colon, which no field can have:
`{column}:exact` (the text of a value that keeps its offset), `{column}:order` (what orders exactly), `:big` (integers
beyond 64 bits) and `:update` (the row replaced an earlier one). Reading goes the way back: `projection` gives physical
rows as `model.physical` defines them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from ontologia.model.physical import Column, held_in_identity, layout
from ontologia.model.spec import FieldSpec, Kind, TypeKind, TypeSpec

COMMIT, VERSION, PAYLOAD = "commit_id", "schema_version_id", "fields_json"
BIG, UPDATE = ":big", ":update"
TYPE_NAME: dict[TypeKind, str] = {"entity": "entity_type", "relation": "relation_type"}
IDENTITY: dict[TypeKind, tuple[str, ...]] = {
    "entity": ("entity_key",),
    "relation": ("left_key", "right_key", "instance_key"),
}
_WITH_EXACT = frozenset({Kind.DATETIME, Kind.TIME})
_WITH_ORDER = frozenset({Kind.DECIMAL, Kind.TIME})
_TYPES = {
    Kind.INT: "BIGINT",
    Kind.FLOAT: "DOUBLE",
    Kind.BOOL: "BOOLEAN",
    Kind.DATETIME: "TIMESTAMPTZ",
    Kind.DATE: "DATE",
    Kind.TIME: "TIME",
    Kind.BYTES: "BLOB",
}


def quoted(name: str) -> str:
    """A name as an SQL identifier; the only way a name gets into a statement."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class FieldColumn:
    """A field and the column that holds its natural values."""

    field: FieldSpec
    name: str

    @property
    def exact(self) -> str | None:
        """The column with the text that the natural one leaves out."""
        return f"{self.name}:exact" if self.field.kind in _WITH_EXACT else None

    @property
    def order(self) -> str | None:
        """The column to compare, where that is not the natural one."""
        return f"{self.name}:order" if self.field.kind in _WITH_ORDER else None

    @property
    def text(self) -> str | None:
        """The column with the exact text of a value, for the kinds that have one beside what is compared."""
        return self.name if self.field.kind is Kind.DECIMAL else self.exact


@dataclass(frozen=True)
class FileColumns:
    """All columns of the files of a type."""

    spec: TypeSpec
    fields: tuple[FieldColumn, ...]

    @cached_property
    def identity(self) -> tuple[str, ...]:
        """The columns of the identity, in tie-break order."""
        return IDENTITY[self.spec.kind]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every column, in the order of the file."""
        return tuple(self._names())

    def _names(self) -> Iterator[str]:
        yield from (COMMIT, TYPE_NAME[self.spec.kind], *self.identity, VERSION, PAYLOAD)
        for column in self.fields:
            yield column.name
            yield from (extra for extra in (column.order, column.exact) if extra is not None)
        yield from (BIG, UPDATE)

    @cached_property
    def types(self) -> dict[str, str]:
        """The type that DuckDB reads each column as."""
        found = dict.fromkeys(self.names, "VARCHAR") | {COMMIT: "BIGINT", VERSION: "BIGINT", UPDATE: "BOOLEAN"}
        for column in self.fields:
            found[column.name] = _TYPES.get(column.field.kind, "VARCHAR")
            if column.field.kind is Kind.TIME and column.order is not None:
                found[column.order] = "BIGINT"
        return found

    @cached_property
    def natural(self) -> dict[str, str]:
        """Field name to the column with its natural values, as the catalog records it."""
        return {column.field.name: column.name for column in self.fields}

    @cached_property
    def compared(self) -> dict[str, str]:
        """Field name to the column that conditions, orders and groups use; a key is compared where the identity is."""
        found = {name: name for name in self.spec.identity if name != "key"}
        for column in self.fields:
            held = held_in_identity(column.field)
            found[column.field.name] = self.identity[-1] if held else column.order or column.name
        return found

    @cached_property
    def texts(self) -> dict[str, str]:
        """Field name to the column with the exact text of its values, for fields that have one."""
        return {column.field.name: column.text for column in self.fields if column.text is not None}

    def identity_list(self, alias: str = "t") -> str:
        """The identity columns, comma separated."""
        return ", ".join(f"{alias}.{quoted(name)}" for name in self.identity)

    def projection(self, alias: str = "t") -> str:
        """What to select so that rows are `(commit_id, *physical row)`, exactly as the encoder makes them."""
        shape = layout(self.spec)
        terms = [f"{alias}.{quoted(COMMIT)}"]
        terms += [f"{alias}.{quoted(name)}" for name in self.identity]
        by_field = {column.field.name: column for column in self.fields}
        for column in shape.columns[shape.identity_width :]:
            kept = None if column.field is None else by_field[column.field.name]
            terms.append(f"{_cell(column, kept, alias)} AS {column.name}")
        return ", ".join(terms)


def _cell(column: Column, kept: FieldColumn | None, alias: str) -> str:
    """The expression for one physical column."""
    if kept is None:
        return f"{alias}.{quoted(BIG)}"
    if column.exact:
        return f"{alias}.{quoted(kept.text or kept.name)}"
    subject = f"{alias}.{quoted(kept.order or kept.name)}"
    match column.kind:
        case Kind.BOOL:
            return f"CAST({subject} AS BIGINT)"
        case Kind.DATE:
            return f"CAST({subject} AS VARCHAR)"
        case Kind.DATETIME:
            return f"epoch_us({subject})"
        case _:
            return subject


@lru_cache(maxsize=1024)
def columns_of(spec: TypeSpec) -> FileColumns:
    """The columns of a type. They follow from the names of its fields, whatever order these are declared in.

    DuckDB does not tell `name` from `Name`, so fields whose names differ in case only, or that are called like a system
    column, are kept under a name of their own.
    """
    system = {COMMIT, TYPE_NAME[spec.kind], *IDENTITY[spec.kind], VERSION, PAYLOAD}
    taken = dict.fromkeys(system, 1)
    names: dict[str, str] = {}
    for name in sorted(field.name for field in spec.fields):
        alike = name.casefold()
        rank = taken.get(alike, 0)
        taken[alike] = rank + 1
        names[name] = name if rank == 0 else f"{name}:field{'' if rank == 1 else rank}"
    return FileColumns(spec, tuple(FieldColumn(field, names[field.name]) for field in spec.fields))
