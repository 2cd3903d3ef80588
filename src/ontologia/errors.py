"""The error tree: every failure a caller can meet, grouped by what the caller would do about it.

Each class carries a stable `kind` code; codes are only ever added. A message is one sentence that says what
happened and to what; `hint` says what to do next. Nothing here knows how an error is shown.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar


class OntologiaError(Exception):
    """Base of every error that Ontologia raises on purpose."""

    kind: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: dict[str, Any] = details

    def __getattr__(self, name: str) -> Any:
        """Details read as attributes: `error.commit_id`."""
        if not name.startswith("_"):
            details = self.__dict__.get("details", {})
            if name in details:
                return details[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __str__(self) -> str:
        return f"{self.message} {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.hint, self.details)

    def to_dict(self) -> dict[str, Any]:
        """The error as JSON-able data, the same for every skin."""
        details = json.loads(json.dumps(self.details, default=str))
        return {"kind": self.kind, "message": self.message, "hint": self.hint, "details": details}


def _rebuild(cls: type[OntologiaError], message: str, hint: str | None, details: dict[str, Any]) -> OntologiaError:
    return cls(message, hint=hint, **details)


class InputError(OntologiaError):
    """The request is wrong: change it and call again."""

    kind = "input"


class ConfigError(InputError):
    """A setting, URI or command-line option that makes no sense."""

    kind = "config"


class QueryError(InputError):
    """A query that cannot mean anything: an unknown field, a wrong literal, a misplaced call."""

    kind = "query"


class UnknownFieldError(QueryError, AttributeError):
    """A field that a type does not have; the hint lists those it has."""

    kind = "unknown-field"


class RowError(InputError):
    """One row of a bulk write or import is not valid: `row` or `line`, `column`, and why."""

    kind = "row"


class UnknownTypeError(InputError):
    """A type that this store or this program does not know."""

    kind = "unknown-type"


class NotFoundError(InputError):
    """The named thing (a commit, the one expected row) is not there."""

    kind = "not-found"


class BatchSizeExceededError(InputError):
    """A commit with more rows than `max_batch_size`."""

    kind = "batch-size"


class DanglingEndpointError(InputError):
    """A relation whose end does not exist, in a store that checks endpoints."""

    kind = "dangling-endpoint"


class ImportConflictError(InputError):
    """Imported rows meet existing ones and the policy is to abort."""

    kind = "import-conflict"


class RefusedError(OntologiaError):
    """Refused for safety: a destructive step without its confirmation."""

    kind = "refused"


class RetryableError(OntologiaError):
    """Nothing was written; the same call may succeed later."""

    kind = "retry"


class LockContentionError(RetryableError):
    """Another writer held the store for longer than `lock_timeout_ms`."""

    kind = "lock-contention"


class LeaseExpiredError(RetryableError):
    """The write lease ran out before the commit was published."""

    kind = "lease-expired"


class HeadMismatchError(RetryableError):
    """Other writers moved the head more often than the retry budget allows."""

    kind = "head-mismatch"


class CommitStateUnknownError(OntologiaError):
    """The outcome of a commit could not be learned: read back before doing anything else."""

    kind = "commit-state-unknown"


class SchemaError(OntologiaError):
    """Declared types and stored types do not agree."""

    kind = "schema"


class SchemaOutdatedError(SchemaError):
    """The stored schema differs from the declared one: migrate first."""

    kind = "schema-outdated"


class SchemaBoundaryError(SchemaError):
    """A query reaches rows of an older schema version that nothing can bring to today's type."""

    kind = "schema-boundary"


class MigrationError(SchemaError):
    """A migration could not be planned or applied; the store is as it was."""

    kind = "migration"


class MigrationTokenError(MigrationError):
    """The confirmation token does not fit the present plan and head."""

    kind = "migration-token"


class MissingUpgraderError(MigrationError):
    """A schema change needs an upgrader that was not given."""

    kind = "missing-upgrader"


class StorageError(OntologiaError):
    """The storage underneath failed or is not what was expected."""

    kind = "storage"


class StorageBackendError(StorageError):
    """A storage operation failed: `operation` and where it happened are in the details."""

    kind = "storage-backend"


class UninitializedStorageError(StorageError):
    """There is no store at the given place."""

    kind = "uninitialized"


class FormatVersionError(StorageError):
    """The store was written by a newer Ontologia."""

    kind = "format-version"


class MetadataUnavailableError(StorageError):
    """An object has no stored origin, or the origin cannot be read."""

    kind = "metadata-unavailable"


class IntegrityError(OntologiaError):
    """Stored bytes are not what was committed: `commit_id` names the first commit concerned."""

    kind = "integrity"


class HandlerError(OntologiaError):
    """An event handler failed."""

    kind = "handler"


class EventLoopLimitError(OntologiaError):
    """A chain of events grew past its limit."""

    kind = "event-loop-limit"
