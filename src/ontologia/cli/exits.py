"""Exit codes: what a script can tell from how `onto` ended.

One table maps the error tree to codes; the first class that fits wins. The codes are part of the contract and only
ever added to.
"""

from __future__ import annotations

from ontologia import errors

OK, FAILURE, USAGE, SCHEMA, UNHEALTHY, STORAGE, CONFLICT, REFUSED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 7, 130

MEANINGS: dict[int, str] = {
    OK: "done",
    FAILURE: "failed: a bad row, nothing found, another writer in the way",
    USAGE: "makes no sense: an unknown option, type, field or setting",
    SCHEMA: "declared and stored types differ, or old rows need an upgrader",
    UNHEALTHY: "the store is not what was committed, or doctor found a fault",
    STORAGE: "no store there, or the storage underneath failed",
    CONFLICT: "an import met existing rows with other values",
    REFUSED: "refused for safety: a confirmation or token is missing or stale",
    INTERRUPTED: "interrupted from the keyboard",
}

CODES: tuple[tuple[type[BaseException], int], ...] = (
    (errors.ImportConflictError, CONFLICT),
    (errors.RefusedError, REFUSED),
    (errors.MigrationTokenError, REFUSED),
    (errors.SchemaError, SCHEMA),
    (errors.IntegrityError, UNHEALTHY),
    (errors.StorageError, STORAGE),
    (errors.RowError, FAILURE),
    (errors.NotFoundError, FAILURE),
    (errors.BatchSizeExceededError, FAILURE),
    (errors.DanglingEndpointError, FAILURE),
    (errors.InputError, USAGE),
    (errors.OntologiaError, FAILURE),
    (KeyboardInterrupt, INTERRUPTED),
    (OSError, STORAGE),
)


def exit_code(error: BaseException) -> int:
    """The code that an error ends the program with."""
    return next((code for cls, code in CODES if isinstance(error, cls)), FAILURE)
