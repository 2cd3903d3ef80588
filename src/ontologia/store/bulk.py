"""What `ensure_rows` accepts, brought to one of two shapes: physical Arrow columns, or physical rows.

Validation happens on the way, in `model.arrow`; nothing is written here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ontologia.model.arrow import physical_arrays, physical_from_dicts, table_from_any
from ontologia.store.pending import ObjectRows, PendingRows, Policy, TableRows


def bulk_rows(cls: type[Any], data: Any, policy: Policy) -> tuple[PendingRows, int]:
    """Rows waiting for a commit, and how many were given."""
    given = table_from_any(data)
    if not isinstance(given, Iterator):
        return TableRows.of(cls, physical_arrays(cls, given), policy), given.num_rows
    rows = ObjectRows(cls, policy)
    physical = physical_from_dicts(cls, given)
    rows.add(physical)
    return rows, len(physical)
