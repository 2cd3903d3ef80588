"""Ontologia: the system of record for AI agents.

The public names are in `__all__`; each is loaded from its module when first used, so that `import ontologia` costs
next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ontologia.config import OntologiaConfig
    from ontologia.errors import (
        BatchSizeExceededError,
        CommitStateUnknownError,
        ConfigError,
        DanglingEndpointError,
        EventLoopLimitError,
        FormatVersionError,
        HandlerError,
        HeadMismatchError,
        ImportConflictError,
        InputError,
        IntegrityError,
        LeaseExpiredError,
        LockContentionError,
        MetadataUnavailableError,
        MigrationError,
        MigrationTokenError,
        MissingUpgraderError,
        NotFoundError,
        OntologiaError,
        QueryError,
        RefusedError,
        RetryableError,
        RowError,
        SchemaBoundaryError,
        SchemaError,
        SchemaOutdatedError,
        StorageBackendError,
        StorageError,
        UninitializedStorageError,
        UnknownFieldError,
        UnknownTypeError,
    )
    from ontologia.model.declare import Entity, Relation
    from ontologia.model.fields import Field
    from ontologia.model.upgrade import load_upgraders, upgrader
    from ontologia.ontology import Ontology
    from ontologia.query.aggregates import avg, avg_len, count, count_distinct, count_where, max, min, sum  # noqa: A004
    from ontologia.query.expr import left, right

__version__ = "0.1.0"

__all__ = [
    "BatchSizeExceededError",
    "CommitStateUnknownError",
    "ConfigError",
    "DanglingEndpointError",
    "Entity",
    "EventLoopLimitError",
    "Field",
    "FormatVersionError",
    "HandlerError",
    "HeadMismatchError",
    "ImportConflictError",
    "InputError",
    "IntegrityError",
    "LeaseExpiredError",
    "LockContentionError",
    "MetadataUnavailableError",
    "MigrationError",
    "MigrationTokenError",
    "MissingUpgraderError",
    "NotFoundError",
    "OntologiaConfig",
    "OntologiaError",
    "Ontology",
    "QueryError",
    "RefusedError",
    "Relation",
    "RetryableError",
    "RowError",
    "SchemaBoundaryError",
    "SchemaError",
    "SchemaOutdatedError",
    "StorageBackendError",
    "StorageError",
    "UninitializedStorageError",
    "UnknownFieldError",
    "UnknownTypeError",
    "avg",
    "avg_len",
    "count",
    "count_distinct",
    "count_where",
    "left",
    "load_upgraders",
    "max",
    "min",
    "right",
    "sum",
    "upgrader",
]

_HOMES = {
    "Entity": "model.declare",
    "Field": "model.fields",
    "OntologiaConfig": "config",
    "Ontology": "ontology",
    "Relation": "model.declare",
    "left": "query.expr",
    "load_upgraders": "model.upgrade",
    "right": "query.expr",
    "upgrader": "model.upgrade",
} | dict.fromkeys(("avg", "avg_len", "count", "count_distinct", "count_where", "max", "min", "sum"), "query.aggregates")
"""Where names live; the rest are errors."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ontologia' has no attribute {name!r}")
    value = getattr(import_module(f"ontologia.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
