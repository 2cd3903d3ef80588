"""Which store is meant: a path, a URI, or what the settings say.

Two answers that disagree are an error; nothing is opened here.
"""

from __future__ import annotations

from pathlib import Path

from ontologia.config import DEFAULT_DB, OntologiaConfig
from ontologia.errors import ConfigError

MEMORY = ":memory:"
_SQLITE = "sqlite:"


def sqlite_path(db_path: str | None, storage_uri: str | None, config: OntologiaConfig) -> str:
    """The SQLite file that these arguments and settings name."""
    if db_path is None and storage_uri is None:
        db_path, storage_uri = _configured(config)
    for given in (db_path, storage_uri):
        if given is not None and (not isinstance(given, str) or not given.strip() or "\0" in given):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"{given!r} names no store.", hint="Give the path of a file, or a URI.")
    from_uri = None if storage_uri is None else path_of_uri(storage_uri)
    if db_path is not None and db_path.startswith((_SQLITE, "s3://", "gs://", "az://")):
        raise ConfigError(f"{db_path!r} is a URI, not a path.", hint="Pass it as storage_uri.")
    if db_path is not None and from_uri is not None and not _same(db_path, from_uri):
        raise ConfigError(
            f"The path {db_path!r} and the URI {storage_uri!r} name different stores.", hint="Give only one of them."
        )
    return db_path or from_uri or DEFAULT_DB


def _configured(config: OntologiaConfig) -> tuple[str | None, str | None]:
    """The path or the URI of the settings, whichever comes from the stronger place; the URI when both do."""
    if config.db is None or config.storage_uri is None:
        return config.db, config.storage_uri
    strength = [config.strength(name) for name in ("db", "storage_uri")]
    return (config.db, None) if strength[0] > strength[1] else (None, config.storage_uri)


def path_of_uri(uri: str) -> str:
    """The path in `sqlite:///relative.db`, `sqlite:////absolute.db` or `sqlite:///:memory:`."""
    scheme, separator, rest = uri.partition("://")
    if scheme in {"s3", "gs", "az"}:
        raise ConfigError(
            f"{uri!r}: this version keeps stores in SQLite only; object storage comes with the next one.",
            hint="Use sqlite:///path/to/onto.db.",
        )
    if not separator or scheme != "sqlite":
        raise ConfigError(f"{uri!r} is not a storage URI.", hint="Use sqlite:///path/to/onto.db.")
    if not rest.startswith("/") or len(rest) < 2:
        raise ConfigError(
            f"{uri!r} names no file.", hint="Use sqlite:///relative.db, sqlite:////absolute.db or sqlite:///:memory:."
        )
    return rest[1:]


def _same(first: str, second: str) -> bool:
    if MEMORY in (first, second):
        return first == second
    return Path(first).absolute() == Path(second).absolute()
