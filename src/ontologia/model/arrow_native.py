"""Arrow columns of plain types to physical columns, without leaving Arrow.

Each function takes a column (not dictionary-encoded, times to the microsecond) and gives `(main, exact)`, the same
cells that the encoder of objects would write. `Unfit` without a row means: try another way; with one, a wrong value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ontologia.model.fields import MISSING
from ontologia.model.physical import INT64_MAX
from ontologia.model.spec import Kind

if TYPE_CHECKING:
    import pyarrow as pa

    Column = pa.ChunkedArray
    Cells = tuple[Any, Any]

_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, the range of Python's dates, in days since 1970."""
_DAY = 86_400_000_000
_UTC = frozenset({"UTC", "Etc/UTC", "Z", "+00:00", "-00:00", "GMT", "Etc/GMT", "UCT", "Zulu"})


class Unfit(Exception):  # noqa: N818 - not an error but a turn of the road; an error only when it has a row
    """The column is not of the expected type, or one of its values is not allowed."""

    def __init__(self, row: int | None = None, problem: str = "", value: Any = MISSING) -> None:
        super().__init__(problem)
        self.row = row
        self.problem = problem
        self.value = value


def _cast(column: Column, target: pa.DataType) -> Column:
    """A cast that loses nothing, or Unfit."""
    import pyarrow as pa

    if column.type == target:
        return column
    try:
        return column.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise Unfit from None


def _first(mask: Any) -> int | None:
    """The first row where a mask is true."""
    import pyarrow.compute as pc

    row = int(pc.index(mask, value=True).as_py())
    return row if row >= 0 else None


def _text(column: Column) -> Cells:
    import pyarrow as pa

    kind = column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        raise Unfit
    return _cast(column, pa.string()), None


def _bytes(column: Column) -> Cells:
    import pyarrow as pa

    kind, is_a = column.type, pa.types
    if not (
        is_a.is_binary(kind)
        or is_a.is_large_binary(kind)
        or is_a.is_fixed_size_binary(kind)
        or is_a.is_binary_view(kind)
    ):
        raise Unfit
    return _cast(column, pa.binary()), None


def _int(column: Column) -> Cells:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise Unfit
    whole = _cast(column, pa.int64())
    lowest = pc.min(whole).as_py()
    if lowest is not None and lowest < -INT64_MAX:
        # The one value that fits in 64 bits but not in a physical column.
        raise Unfit
    return whole, None


def _float(column: Column) -> Cells:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise Unfit
    numbers = _cast(column, pa.float64())
    row = _first(pc.is_nan(numbers))
    if row is not None:
        raise Unfit(row, "nan cannot be stored; use null for a missing number", float("nan"))
    # Adding zero turns -0.0 into 0.0.
    return pc.add(numbers, pa.scalar(0.0)), None


def _bool(column: Column) -> Cells:
    import pyarrow as pa

    if not pa.types.is_boolean(column.type):
        raise Unfit
    return column.cast(pa.int64()), None


def _in_range(numbers: Column, low: int, high: int, problem: str) -> None:
    """Refuse the first number outside a range."""
    import pyarrow.compute as pc

    row = _first(pc.or_(pc.less(numbers, low), pc.greater(numbers, high)))
    if row is not None:
        raise Unfit(row, problem, numbers[row].as_py())


def _date(column: Column) -> Cells:
    import pyarrow as pa

    if not pa.types.is_date(column.type):
        raise Unfit
    days = _cast(column, pa.date32())
    _in_range(days.cast(pa.int32()), _FIRST_DAY, _LAST_DAY, "the year must be between 1 and 9999; in days since 1970")
    return days.cast(pa.string()), None


def to_microseconds(column: Column) -> Column:
    """Timestamps and times to the microsecond. Finer ones, and years that Python does not have, are refused."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    raw = column.cast(pa.int32() if pa.types.is_time32(kind) else pa.int64())
    per_day = {"s": 86_400, "ms": 86_400_000, "us": _DAY, "ns": _DAY * 1000}[kind.unit]
    if pa.types.is_time(kind):
        _in_range(raw, 0, per_day - 1, f"not a time of day; in {kind.unit} since midnight")
    elif kind.unit != "ns":
        low, high = _FIRST_DAY * per_day, (_LAST_DAY + 1) * per_day - 1
        _in_range(raw, low, high, f"the year must be between 1 and 9999; in {kind.unit} since 1970")
    if kind.unit == "ns":
        row = _first(pc.not_equal(raw, pc.multiply(pc.divide(raw, 1000), 1000)))
        if row is not None:
            raise Unfit(row, "the store keeps microseconds, round it first; in nanoseconds", raw[row].as_py())
    return column.cast(pa.time64("us") if pa.types.is_time(kind) else pa.timestamp("us", kind.tz))


def _datetime(column: Column) -> Cells:
    import pyarrow as pa

    if not pa.types.is_timestamp(column.type):
        raise Unfit
    zone = column.type.tz
    if zone is not None and zone not in _UTC:
        # Each value keeps its own offset, which only Python's calendar knows.
        raise Unfit
    micros = column.cast(pa.int64())
    if zone is not None:
        return micros, pa.nulls(len(column), pa.string())
    return micros, _iso(micros, "%Y-%m-%dT%H:%M:%S")


def _time(column: Column) -> Cells:
    import pyarrow as pa

    if not pa.types.is_time(column.type):
        raise Unfit
    micros = column.cast(pa.int64())
    return micros, _iso(micros, "%H:%M:%S")


def _iso(micros: Column, form: str) -> Any:
    """What Python's `isoformat` writes: microseconds only where there are any."""
    import pyarrow as pa
    import pyarrow.compute as pc

    seconds = pc.floor_temporal(micros.cast(pa.timestamp("us")), unit="second")
    whole = pc.strftime(seconds.cast(pa.timestamp("s")), format=form)
    rest = pc.subtract(micros, seconds.cast(pa.int64()))
    if not pc.any(pc.not_equal(rest, 0)).as_py():
        return whole
    digits = pc.utf8_lpad(rest.cast(pa.string()), width=6, padding="0")
    return pc.if_else(pc.equal(rest, 0), whole, pc.binary_join_element_wise(whole, digits, "."))


NATIVE: dict[Kind, Callable[[Any], tuple[Any, Any]]] = {
    Kind.TEXT: _text,
    Kind.BYTES: _bytes,
    Kind.INT: _int,
    Kind.FLOAT: _float,
    Kind.BOOL: _bool,
    Kind.DATE: _date,
    Kind.DATETIME: _datetime,
    Kind.TIME: _time,
}
"""The kinds that have a native way. Decimals do not: their order-preserving text is made per distinct value."""
