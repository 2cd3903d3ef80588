"""Physical rows of one declaration of a type as those of another with the same fingerprint.

The order of fields is not part of a fingerprint, but columns are numbered by it. When a program declares fields in
another order than the store, its rows are put in the store's order on the way in, and back on the way out.
"""

from __future__ import annotations

from collections.abc import Callable

from ontologia.model.physical import from_physical, layout, to_physical
from ontologia.model.spec import TypeSpec
from ontologia.store.rows import Row


def converter(source: TypeSpec, target: TypeSpec) -> Callable[[Row], Row] | None:
    """A function from rows of `source` to rows of `target`; None when they are laid out alike."""
    if source is target or layout(source).columns == layout(target).columns:
        return None
    if [f.name for f in source.fields] == [f.name for f in target.fields]:
        return None
    width = len(source.identity)

    def convert(row: Row) -> Row:
        values = from_physical(source, row)
        return to_physical(target, row[:width], [values[field.name] for field in target.fields])

    return convert
