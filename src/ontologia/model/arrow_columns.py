"""One column of a bulk table, checked and brought to physical form.

A field of a plain type never leaves Arrow; anything else (constraints, enums, models, text to be parsed) goes through
the same Pydantic rules as an object's field, once per distinct value. The first row that is not valid is a RowError.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from types import GenericAlias
from typing import TYPE_CHECKING, Any, NoReturn, cast

from pydantic import TypeAdapter, ValidationError

from ontologia.errors import RowError
from ontologia.model.arrow_native import NATIVE, Unfit, to_microseconds
from ontologia.model.declaration import Part
from ontologia.model.dump import shown
from ontologia.model.fields import MISSING
from ontologia.model.jsoninput import BY_NAME
from ontologia.model.physical import EXACT_KINDS, to_physical
from ontologia.model.shapes import Scalar, UnionOf
from ontologia.model.spec import FieldSpec, Kind, TypeSpec
from ontologia.model.validation import validated_type

if TYPE_CHECKING:
    import pyarrow as pa

JSON_MARK = {b"ontologia": b"json"}
"""Metadata of an Arrow field whose text is JSON."""
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class PhysicalColumns:
    """The physical columns of one field. `text` is what identity columns hold, for fields that are keys."""

    main: Any
    exact: Any = None
    text: Any = None
    big: dict[int, str] = field(default_factory=dict[int, str])


@dataclass(frozen=True, slots=True)
class BulkColumn:
    """A field and the column that was given for it."""

    part: Part
    column: pa.ChunkedArray
    arrow_field: pa.Field
    first_row: int

    def refuse(self, row: int, problem: str, value: Any = MISSING) -> NoReturn:
        """Raise the error of one row."""
        number = self.first_row + row
        shown = None if value is MISSING else shortened(value)
        got = "" if shown is None else f", got {shown}"
        raise RowError(
            f"Row {number}, {self.part.name}: {problem}{got}.", row=number, column=self.part.name, value=shown
        )


def shortened(value: Any) -> str:
    """A value as a message shows it."""
    text = shown(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def physical_columns(bulk: BulkColumn) -> PhysicalColumns:
    """Check one column and bring it to physical form."""
    import pyarrow as pa

    part, column = bulk.part, _decoded(bulk.column)
    if not part.spec.nullable and column.null_count:
        bulk.refuse(_first_null(column), "a value is needed, this one is null")
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        _refuse_unreadable(bulk, column, None)
    if pa.types.is_null(column.type):
        return _nulls(part, len(column))
    native = NATIVE.get(part.spec.kind) if _is_plain(part) else None
    try:
        if pa.types.is_timestamp(column.type) or pa.types.is_time(column.type):
            column = to_microseconds(column)
        if native is not None:
            return _checked_key(bulk, *native(column))
    except Unfit as unfit:
        if unfit.row is not None:
            bulk.refuse(unfit.row, unfit.problem, unfit.value)
    return _by_value(bulk, column)


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column itself, without a dictionary between the rows and the values."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        return column
    kind = column.type.value_type
    if pa.types.is_string_view(kind):
        # Arrow has no way to pick from text views.
        kind = pa.large_string()
    chunks = [chunk.dictionary.cast(kind).take(chunk.indices) for chunk in column.chunks]
    return pa.chunked_array(chunks, kind)


def _is_plain(part: Part) -> bool:
    """True when the annotation is a bare type, so that being of that type is all there is to check."""
    plain = {
        Kind.TEXT: str,
        Kind.INT: int,
        Kind.FLOAT: float,
        Kind.BOOL: bool,
        Kind.DECIMAL: Decimal,
        Kind.DATETIME: datetime,
        Kind.DATE: date,
        Kind.TIME: time,
        Kind.BYTES: bytes,
    }.get(part.spec.kind)
    return plain is not None and part.annotation in (plain, plain | None)


def _first_null(column: pa.ChunkedArray) -> int:
    import pyarrow.compute as pc

    return int(pc.index(column.is_null(), value=True).as_py())


def _nulls(part: Part, rows: int) -> PhysicalColumns:
    import pyarrow as pa

    kind = part.spec.kind
    main = pa.nulls(rows, physical_type(kind))
    exact = pa.nulls(rows, pa.string()) if kind in EXACT_KINDS else None
    return PhysicalColumns(main, exact, pa.nulls(rows, pa.string()))


def physical_type(kind: Kind) -> pa.DataType:
    """The Arrow type of a field's main physical column."""
    import pyarrow as pa

    if kind in {Kind.INT, Kind.BOOL, Kind.DATETIME, Kind.TIME}:
        return pa.int64()
    if kind is Kind.FLOAT:
        return pa.float64()
    return pa.binary() if kind is Kind.BYTES else pa.string()


def _checked_key(bulk: BulkColumn, main: Any, exact: Any) -> PhysicalColumns:
    """A native column as it is; keys are also looked at for emptiness, and given as text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    spec = bulk.part.spec
    if not spec.primary_key and not spec.instance_key:
        return PhysicalColumns(main, exact)
    text = main if spec.kind is Kind.TEXT else main.cast(pa.string())
    trimmed = pc.utf8_trim_whitespace(text) if spec.instance_key else text
    row = pc.index(pc.equal(trimmed, ""), value=True).as_py()
    if row >= 0:
        bulk.refuse(
            row, "a key must not be blank" if spec.instance_key else "a key must not be empty", text[row].as_py()
        )
    return PhysicalColumns(main, exact, text)


def _by_value(bulk: BulkColumn, column: pa.ChunkedArray) -> PhysicalColumns:
    """Each distinct value through Pydantic and the codec; then the rows by looking them up."""
    import pyarrow as pa

    if pa.types.is_nested(column.type) or isinstance(column.type, pa.BaseExtensionType):
        return _from_values(bulk, _python_values(bulk, column, None), None)
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = cast("Any", encoded).unify_dictionaries().combine_chunks()
    return _from_values(bulk, _python_values(bulk, encoded.dictionary, encoded.indices), encoded.indices)


def _python_values(bulk: BulkColumn, column: Any, indices: Any) -> list[Any]:
    """Python values as Pydantic expects them, text of JSON fields parsed."""
    import pyarrow as pa

    options: dict[str, Any] = {"maps_as_pydicts": "strict"} if pa.types.is_nested(column.type) else {}
    try:
        values: list[Any] = column.to_pylist(**options)
    except (ValueError, OverflowError):
        _refuse_unreadable(bulk, column, indices)
    is_text = (
        pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type)
    )
    marked = (bulk.arrow_field.metadata or {}).get(b"ontologia") == b"json"
    if bulk.part.spec.kind is not Kind.JSON or not is_text or not (marked or not _can_be_text(bulk.part)):
        return values
    return [None if text is None else _parsed(bulk, text, at, indices) for at, text in enumerate(values)]


def _refuse_unreadable(bulk: BulkColumn, column: Any, indices: Any) -> NoReturn:
    """Name the first value that Python has no type for, such as a local time after the year 9999."""
    for at, scalar in enumerate(column):
        try:
            scalar.as_py()
        except (ValueError, OverflowError) as error:
            bulk.refuse(at if indices is None else _first_use(indices, at), f"Python cannot hold this value ({error})")
    raise RowError(
        f"The column {bulk.part.name} cannot be read as {column.type}.", row=bulk.first_row, column=bulk.part.name
    )


def _can_be_text(part: Part) -> bool:
    members = part.shape.members if isinstance(part.shape, UnionOf) else (part.shape,)
    return any(isinstance(member, Scalar) and member.name not in {"int", "float", "bool", "null"} for member in members)


def _parsed(bulk: BulkColumn, text: str, at: int, indices: Any) -> Any:
    """What JSON text says; text that is not JSON is left for validation to refuse."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    try:
        return bulk.part.take(value)
    except (ValueError, RecursionError) as error:
        problem = error.errors(include_url=False)[0]["msg"] if isinstance(error, ValidationError) else str(error)
        bulk.refuse(at if indices is None else _first_use(indices, at), problem, text)


def _from_values(bulk: BulkColumn, values: list[Any], indices: Any) -> PhysicalColumns:
    """Validated and encoded values as physical columns; with `indices`, spread over the rows."""
    import pyarrow as pa

    kind: Any = validated_type(bulk.part.argument())
    adapter = TypeAdapter[list[Any]](cast("Any", GenericAlias(list, (kind,))))
    try:
        valid = adapter.validate_python(values, **BY_NAME)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        at = int(first["loc"][0])
        problem = first["msg"][:1].lower() + first["msg"][1:]
        bulk.refuse(at if indices is None else _first_use(indices, at), problem, values[at])
    part = bulk.part
    single = replace_key(part.spec)
    spec = TypeSpec("entity", "", (single,))
    encode = None if part.codec is None else part.codec.encode
    rows = [to_physical(spec, (), [v if v is None or encode is None else encode(v)]) for v in valid]
    main = _spread(pa.array([row[0] for row in rows], physical_type(part.spec.kind)), indices)
    exact = _spread(pa.array([row[1] for row in rows], pa.string()), indices) if part.spec.kind in EXACT_KINDS else None
    text = None
    if part.spec.primary_key or part.spec.instance_key:
        text = _spread(pa.array([str(value) for value in valid], pa.string()), indices)
    return PhysicalColumns(main, exact, text, _big([row[-1] for row in rows], indices))


def replace_key(spec: FieldSpec) -> FieldSpec:
    """The field without its role as a key, so that its column is its own."""
    return FieldSpec(spec.name, spec.type, spec.kind, spec.nullable)


def _spread(array: pa.Array, indices: Any) -> pa.Array:
    return array if indices is None else array.take(indices)


def _first_use(indices: Any, at: int) -> int:
    import pyarrow as pa
    import pyarrow.compute as pc

    return int(pc.index(indices, pa.scalar(at, indices.type)).as_py())


def _big(texts: list[str | None], indices: Any) -> dict[int, str]:
    """Digits of integers beyond 64 bits by row."""
    digits = {at: json.loads(text)["f0"] for at, text in enumerate(texts) if text is not None}
    if not digits or indices is None:
        return digits
    return {row: digits[at] for row, at in enumerate(indices.to_pylist()) if at in digits}


def default_columns(part: Part, rows: int) -> PhysicalColumns:
    """The columns of a field that the table leaves out: its default in every row."""
    import pyarrow as pa

    factory: Callable[[], Any] | None = part.default_factory
    values = [part.default] if factory is None else [factory() for _ in range(rows)]
    name = part.name
    bulk = BulkColumn(part, pa.chunked_array([pa.nulls(0)]), pa.field(name, pa.null()), 0)
    indices = pa.repeat(pa.scalar(0, pa.int32()), rows) if factory is None else None
    return _from_values(bulk, values, indices)
