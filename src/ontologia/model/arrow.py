"""Arrow at the border of the model: analytic tables out, bulk tables in.

Out: physical columns become a table with natural types. In: a table, a frame or dicts are checked against a class
and become physical columns or rows; the first bad row is named. pyarrow is imported when a function here is called.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from ontologia.errors import InputError, RowError
from ontologia.model.arrow_columns import (
    JSON_MARK,
    BulkColumn,
    PhysicalColumns,
    default_columns,
    physical_columns,
    shortened,
)
from ontologia.model.declaration import Declaration
from ontologia.model.declare import Stored
from ontologia.model.fields import MISSING
from ontologia.model.jsoninput import BY_NAME
from ontologia.model.physical import int_from_text, int_text, layout
from ontologia.model.rows import declaration_of, encoder
from ontologia.model.spec import FieldSpec, Kind, TypeSpec

if TYPE_CHECKING:
    import pyarrow as pa

_DAY = 86_400_000_000


def arrow_type(kind: Kind) -> pa.DataType:
    """The Arrow type that values of a kind have in an analytic table."""
    import pyarrow as pa

    return {
        Kind.TEXT: pa.string(),
        Kind.INT: pa.int64(),
        Kind.FLOAT: pa.float64(),
        Kind.BOOL: pa.bool_(),
        Kind.DECIMAL: pa.string(),
        Kind.DATETIME: pa.timestamp("us", "UTC"),
        Kind.DATE: pa.date32(),
        Kind.TIME: pa.time64("us"),
        Kind.BYTES: pa.binary(),
        Kind.JSON: pa.string(),
    }[kind]


def arrow_schema(spec: TypeSpec) -> pa.Schema:
    """The analytic schema of a type. JSON columns are marked, so that a table given back is read as JSON again."""
    import pyarrow as pa

    ends = [pa.field(name, pa.string(), nullable=False) for name in _end_names(spec)]
    return pa.schema([*ends, *(_arrow_field(field) for field in spec.fields)])


def _end_names(spec: TypeSpec) -> tuple[str, ...]:
    return ("left_key", "right_key") if spec.kind == "relation" else ()


def _arrow_field(field: FieldSpec) -> pa.Field:
    import pyarrow as pa

    metadata = JSON_MARK if field.kind is Kind.JSON else None
    return pa.field(field.name, arrow_type(field.kind), nullable=field.nullable, metadata=metadata)


def to_arrow_table(spec: TypeSpec, columns: Sequence[Sequence[Any]] | None) -> pa.Table:
    """Physical columns, in layout order, as an analytic table; None is a table without rows.

    Columns are Python values or Arrow arrays of them. Integers beyond 64 bits make their column a decimal one, or text
    when they are longer than 76 digits.
    """
    import pyarrow as pa

    schema = arrow_schema(spec)
    if columns is None:
        return schema.empty_table()
    shape = layout(spec)
    by_name = dict(zip(shape.names, columns, strict=True))
    big = _big_by_column(_values(by_name["big"]))
    arrays: list[pa.Array | pa.ChunkedArray] = [as_array(by_name[name], pa.string()) for name in _end_names(spec)]
    for number, field in enumerate(spec.fields):
        column = shape.main[field.name]
        if column in big:
            arrays.append(_wide_integers(_values(by_name[column]), big[column]))
            schema = schema.set(len(arrays) - 1, schema.field(field.name).with_type(arrays[-1].type))
        else:
            arrays.append(_analytic(field.kind, by_name[column], by_name.get(f"f{number}x")))
    return pa.Table.from_arrays(arrays, schema=schema)


def as_array(column: Sequence[Any], kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """A column as an Arrow array of a type."""
    import pyarrow as pa

    return column.cast(kind) if isinstance(column, pa.Array | pa.ChunkedArray) else pa.array(column, kind)


def _values(column: Sequence[Any]) -> Sequence[Any]:
    """A column as Python values; nothing when all are null."""
    import pyarrow as pa

    if isinstance(column, pa.Array | pa.ChunkedArray):
        return () if column.null_count == len(column) else column.to_pylist()
    return column


def _big_by_column(texts: Sequence[str | None]) -> dict[str, dict[int, int]]:
    import json

    found: dict[str, dict[int, int]] = {}
    if any(texts):
        for row, text in enumerate(texts):
            for column, digits in json.loads(text or "{}").items():
                found.setdefault(column, {})[row] = int_from_text(digits)
    return found


def _wide_integers(column: Sequence[int | None], big: dict[int, int]) -> pa.Array:
    import pyarrow as pa

    values = [big.get(row, value) for row, value in enumerate(column)]
    if max(map(abs, big.values())) < 10**76:
        from decimal import Decimal

        return pa.array([None if value is None else Decimal(value) for value in values], pa.decimal256(76, 0))
    return pa.array([None if value is None else int_text(value) for value in values], pa.string())


def _analytic(kind: Kind, main: Sequence[Any], exact: Sequence[str | None] | None) -> pa.Array | pa.ChunkedArray:
    import pyarrow as pa

    match kind:
        case Kind.BOOL:
            return as_array(main, pa.int8()).cast(pa.bool_())
        case Kind.DATE:
            return as_array(main, pa.string()).cast(pa.date32())
        case Kind.DATETIME:
            return as_array(main, pa.int64()).cast(pa.timestamp("us", "UTC"))
        case Kind.TIME:
            # An offset may put the instant on the day before or after: the table has the time of day in UTC.
            values = [None if value is None else value % _DAY for value in as_array(main, pa.int64()).to_pylist()]
            return pa.array(values, pa.int64()).cast(pa.time64("us"))
        case Kind.DECIMAL:
            return as_array(() if exact is None else exact, pa.string())
        case _:
            return as_array(main, arrow_type(kind))


def table_from_any(data: Any) -> pa.Table | Iterator[Any]:
    """Bulk data as one Arrow table, or as an iterator of dicts when dicts were given."""
    import pyarrow as pa

    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    if type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns"):
        return _from_pandas(data)
    if hasattr(data, "__arrow_c_stream__"):
        return _from_stream(data).read_all()
    if hasattr(data, "__arrow_c_array__"):
        return pa.Table.from_batches([pa.record_batch(data)])
    if isinstance(data, str | bytes | Mapping) or not isinstance(data, Iterable):
        raise _not_rows(data)
    return _from_iterable(iter(cast("Iterable[Any]", data)))


def _from_stream(data: Any) -> pa.RecordBatchReader:
    import pyarrow as pa

    try:
        return pa.RecordBatchReader.from_stream(data)
    except pa.ArrowInvalid as error:
        # A single column, such as a series, is a stream too, but not of rows.
        raise _not_rows(data) from error


def _not_rows(data: Any) -> InputError:
    return InputError(
        f"Cannot read rows from {type(data).__name__}.",
        hint="Give an Arrow table, a pandas or polars frame, or an iterable of dicts.",
    )


def _from_iterable(items: Iterator[Any]) -> pa.Table | Iterator[Any]:
    import pyarrow as pa

    first = next(items, MISSING)
    if first is MISSING:
        return iter(())
    if isinstance(first, pa.RecordBatch | pa.Table):
        return _joined([table_from_any(item) for item in itertools.chain([first], items)])
    return itertools.chain([first], items)


def _joined(tables: Sequence[Any]) -> pa.Table:
    """Batches as one table. A column that only some of them have is not filled with nulls: it may have a default."""
    import pyarrow as pa

    for number, table in enumerate(tables):
        if set(table.column_names) != set(tables[0].column_names):
            raise InputError(
                f"Batch {number} has the columns {', '.join(table.column_names)}, "
                f"the first one has {', '.join(tables[0].column_names)}.",
                hint="Give all batches the same columns, or write them one by one.",
            )
    try:
        return pa.concat_tables(tables, promote_options="default")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(
            f"The batches do not have the same types: {error}.", hint="Cast them to one schema."
        ) from error


def _from_pandas(frame: Any) -> pa.Table | Iterator[Any]:
    import pyarrow as pa

    try:
        return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        # A column of mixed Python values, or of long integers, has no Arrow type; they are good enough as they are.
        return iter(frame.astype(object).where(frame.notna(), None).to_dict("records"))


def physical_arrays(cls: type[Stored], table: pa.Table, first_row: int = 0) -> list[pa.Array | pa.ChunkedArray]:
    """The physical columns of a table's rows, in layout order; RowError names the first row that is not valid."""
    declaration = declaration_of(cls)
    _check_names(declaration, table.column_names)
    held: dict[str, PhysicalColumns] = {}
    problems: list[RowError] = []
    for part in (*declaration.ends, *declaration.parts):
        if part.name not in table.column_names:
            if part.default is MISSING and part.default_factory is None:
                raise _missing_column(declaration, part.name, table.column_names)
            held[part.name] = default_columns(part, table.num_rows)
            continue
        field = table.schema.field(part.name)
        try:
            held[part.name] = physical_columns(BulkColumn(part, table.column(part.name), field, first_row))
        except RowError as error:
            problems.append(error)
    if problems:
        raise min(problems, key=lambda error: error.row)
    return _in_layout(declaration, held, table.num_rows)


def _in_layout(declaration: Declaration, held: dict[str, PhysicalColumns], rows: int) -> list[Any]:
    import pyarrow as pa

    spec = declaration.spec
    identity = [held[name].text for name in _end_names(spec)]
    key = spec.key_field
    if key is not None:
        identity.append(held[key.name].text)
    elif spec.kind == "relation":
        identity.append(pa.repeat(pa.scalar("", pa.string()), rows))
    arrays: list[Any] = list(identity)
    for column in layout(spec).columns[len(identity) : -1]:
        columns = held[cast("FieldSpec", column.field).name]
        arrays.append(columns.exact if column.exact else columns.main)
    big = {f"f{number}": held[field.name].big for number, field in enumerate(spec.fields) if held[field.name].big}
    return [*arrays, _big_column(big, rows)]


def _big_column(big: dict[str, dict[int, str]], rows: int) -> pa.Array:
    import json

    import pyarrow as pa

    if not big:
        return pa.nulls(rows, pa.string())
    texts: list[str | None] = [None] * rows
    for row in sorted({row for column in big.values() for row in column}):
        texts[row] = json.dumps({name: column[row] for name, column in big.items() if row in column})
    return pa.array(texts, pa.string())


def _check_names(declaration: Declaration, names: Sequence[str]) -> None:
    for name in names:
        if name not in declaration.names:
            raise RowError(
                f"{declaration.spec.name} has no field {name!r}; its fields are {', '.join(declaration.names)}.",
                hint="Drop or rename the column.",
                column=name,
            )
        if names.count(name) > 1:
            raise RowError(f"The column {name!r} is there twice.", column=name)


def _missing_column(declaration: Declaration, name: str, names: Sequence[str]) -> RowError:
    given = ", ".join(names) or "none"
    return RowError(
        f"{declaration.spec.name}.{name} has no default and the table has no such column; it has {given}.",
        column=name,
    )


def physical_from_dicts(cls: type[Stored], rows: Iterable[Any], first_row: int = 0) -> list[tuple[Any, ...]]:
    """The physical rows of dicts; RowError names the first one that is not valid."""
    declaration = declaration_of(cls)
    encode = encoder(cls)
    validate = declaration.validator.validate_python
    new = cast("Callable[[type[Any]], Any]", object.__new__)
    found: list[tuple[Any, ...]] = []
    for number, row in enumerate(rows, first_row):
        if not isinstance(row, Mapping):
            raise RowError(
                f"Row {number} is not a dict but {type(row).__name__}.",
                hint="Objects go to ensure(), dicts and tables to ensure_rows().",
                row=number,
                column=None,
                value=shortened(row),
            )
        try:
            held = validate(dict(cast("Mapping[str, Any]", row)), **BY_NAME)[0]
        except ValidationError as error:
            raise _row_error(declaration, number, error) from error
        value = new(cls)
        value.__dict__.update(held)
        found.append(encode(value))
    return found


def _row_error(declaration: Declaration, number: int, error: ValidationError) -> RowError:
    first = error.errors(include_url=False)[0]
    place = first["loc"]
    column = str(place[0]) if place else None
    if first["type"] == "extra_forbidden" and len(place) == 1:
        problem = f"unknown field; the fields are {', '.join(declaration.names)}"
    else:
        problem = first["msg"][:1].lower() + first["msg"][1:]
    value = None if first["type"] == "missing" else shortened(first["input"])
    message = f"Row {number}, {column}: {problem}" + ("." if value is None else f", got {value}.")
    return RowError(message, row=number, column=column, value=value)
