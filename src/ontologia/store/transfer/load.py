"""An import: every row of every file into one session, so that one commit takes all of them or none.

Errors of single rows are given their place in the file; committing, or only previewing, is left to the caller.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ontologia.errors import RowError
from ontologia.store.pending import Policy
from ontologia.store.session import Session
from ontologia.store.transfer.places import SourceFile
from ontologia.store.transfer.read import Batch, Classes, bad_row, read_batches

BytesRead = Callable[[int], None]
"""Called with the number of bytes read so far, over all files."""


def load(
    session: Session, sources: Sequence[SourceFile], classes: Classes, policy: Policy, progress: BytesRead | None = None
) -> dict[str, int]:
    """Give every row to the session; the number of rows read, by type name. Committing is left to the caller."""
    read: dict[str, int] = {}
    before = 0
    for source in sources:
        for batch in read_batches(source, classes):
            _ensure(session, source, batch, policy)
            name = batch.cls.__spec__.name
            read[name] = read.get(name, 0) + batch.rows
            if progress is not None:
                progress(before + batch.position)
        before += source.size
    return read


def _ensure(session: Session, source: SourceFile, batch: Batch, policy: Policy) -> None:
    try:
        session.ensure_rows(batch.cls, batch.data, on_conflict=policy)
    except RowError as error:
        row: int | None = error.details.get("row")
        if row is None:
            raise bad_row(source, "columns", error.message.rstrip("."), column=error.details.get("column")) from error
        place = batch.place(row)
        kind, _, number = place.partition(" ")
        problem = re.sub(rf"^Row {row}, ", "", error.message).rstrip(".")
        found = {"column": error.details.get("column"), "value": error.details.get("value")}
        raise bad_row(source, place, problem, **{kind: int(number)}, **found) from error
