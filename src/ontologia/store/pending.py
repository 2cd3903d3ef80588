"""Wanted rows waiting for a commit: sorted, each identity once, the last one said wins.

Single objects wait in a dict, bulk tables wait as Arrow columns; both give their rows in identity order, in blocks,
so that a commit of a million rows never holds a million Python rows at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ontologia.model.physical import layout
from ontologia.store.commits import ROWS_PER_BLOCK
from ontologia.store.rows import ColumnRows, Row

Policy = Literal["upsert", "skip", "abort"]
"""What to do with wanted rows whose identity exists with other values."""


@dataclass
class ObjectRows:
    """Rows given one by one."""

    cls: type[Any]
    policy: Policy = "upsert"
    rows: dict[Row, Row] = field(default_factory=dict[Row, Row])
    given: int = 0

    def add(self, rows: Sequence[Row]) -> None:
        """Take in physical rows; an identity that is here already is replaced."""
        width = len(self.cls.__spec__.identity)
        known = self.rows
        for row in rows:
            known[row[:width]] = row
        self.given += len(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def blocks(self) -> Iterator[Sequence[Row]]:
        ordered = [self.rows[identity] for identity in sorted(self.rows)]
        for start in range(0, len(ordered), ROWS_PER_BLOCK):
            yield ordered[start : start + ROWS_PER_BLOCK]


@dataclass
class TableRows:
    """Rows given as physical Arrow columns."""

    cls: type[Any]
    columns: list[Any]
    policy: Policy = "upsert"
    given: int = 0

    @classmethod
    def of(cls, model: type[Any], columns: Sequence[Any], policy: Policy) -> TableRows:
        """Sorted by identity, the last of equal identities kept."""
        import pyarrow as pa

        table = pa.table(list(columns), names=list(layout(model.__spec__).names))
        unique = _sorted_unique(table, list(model.__spec__.identity))
        return cls(model, unique.columns, policy, len(table))

    @classmethod
    def united(cls, several: Sequence[TableRows]) -> TableRows:
        """Several tables of one class as one; what comes later wins."""
        import pyarrow as pa

        first = several[0]
        columns = zip(*(rows.columns for rows in several), strict=True)
        joined = [
            pa.chunked_array([chunk for column in same for chunk in column.chunks], type=same[0].type)
            for same in columns
        ]
        united = cls.of(first.cls, joined, first.policy)
        united.given = sum(rows.given for rows in several)
        return united

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def blocks(self) -> Iterator[Sequence[Row]]:
        for run in self.runs(ROWS_PER_BLOCK):
            yield rows_of(run)

    def runs(self, size: int) -> Iterator[list[Any]]:
        """The columns cut into runs of rows."""
        for start in range(0, len(self), size):
            yield [column.slice(start, size) for column in self.columns]


PendingRows = ObjectRows | TableRows


def rows_of(columns: Sequence[Any]) -> ColumnRows:
    """Physical Arrow columns as rows."""
    return ColumnRows([_values(column) for column in columns])


def _sorted_unique(table: Any, identity: list[str]) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if len(table) < 2:
        return table
    if not _strictly_ascending(table, identity):
        order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in identity])
        table = table.take(order)
        same = None
        for name in identity:
            column = table.column(name)
            equal = pc.equal(column.slice(0, len(table) - 1), column.slice(1))
            same = equal if same is None else pc.and_(same, equal)
        if pc.any(same).as_py():
            # The sort is stable, so the last of equal identities is the last one given.
            keep = pa.chunked_array([*pc.invert(same).chunks, pa.array([True])])
            table = table.filter(keep)
    return table


def _strictly_ascending(table: Any, identity: list[str]) -> bool:
    import pyarrow.compute as pc

    if len(identity) > 1:
        return False
    column = table.column(identity[0])
    return pc.all(pc.less(column.slice(0, len(table) - 1), column.slice(1))).as_py() is True


def _values(column: Any) -> list[Any]:
    """A slice of a physical column as Python values, by the quickest way for its type."""
    import pyarrow as pa

    kind = column.type
    if column.null_count == len(column):
        return [None] * len(column)
    if column.null_count == 0 and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return column.to_numpy().tolist()
    if pa.types.is_string(kind):
        return column.to_numpy().tolist() if column.null_count == 0 else column.to_pylist()
    return column.to_pylist()
