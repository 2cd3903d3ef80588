"""From wanted rows and current rows to the rows that must be written. Pure.

Rows are physical rows; the leading `width` columns are the identity. Equal rows are left alone, so writing the same
state twice is no change at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ontologia.store.rows import Row


@dataclass(frozen=True, slots=True)
class Delta:
    """What a set of wanted rows comes to, given the current ones."""

    rows: Sequence[Row]
    """Rows to write, in identity order: new identities and new versions."""
    superseded: Sequence[Row]
    """Identities among them that exist already."""
    unchanged: int

    @property
    def inserted(self) -> int:
        return len(self.rows) - len(self.superseded)

    @property
    def updated(self) -> int:
        return len(self.superseded)


def reconcile(wanted: Sequence[Row], current: Sequence[Row], width: int) -> Delta:
    """Compare wanted rows, sorted and unique by identity, with the current rows of any of those identities."""
    if not current:
        return Delta(wanted, (), 0)
    wanted = list(wanted)
    if wanted == current:
        return Delta((), (), len(wanted))
    present = {row[:width]: row for row in current}
    rows: list[Row] = []
    superseded: list[Row] = []
    for row in wanted:
        identity = row[:width]
        old = present.get(identity)
        if old is None:
            rows.append(row)
        elif old != row:
            rows.append(row)
            superseded.append(identity)
    return Delta(rows, superseded, len(wanted) - len(rows))
