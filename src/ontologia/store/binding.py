"""Which store is meant: a path, a URI, or what the settings say.

Two answers that disagree are an error; nothing is opened here. Whether a bucket or a file is there is for its backend
to find out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ontologia.config import DEFAULT_DB, OntologiaConfig
from ontologia.errors import ConfigError
from ontologia.objects.location import SCHEMES, parse_location

MEMORY = ":memory:"
_SQLITE = "sqlite:"

Scheme = Literal["sqlite", "s3", "gs", "az"]
_AMBIGUOUS = re.compile(r"[\s%]")
"""What some programs read literally and others as an escape or an end."""


@dataclass(frozen=True, slots=True)
class Binding:
    """One store. A SQLite store has a `path`; one on object storage has a `bucket` and, mostly, a `prefix`."""

    scheme: Scheme
    uri: str
    """In its one normal form: without a slash at the end."""
    path: str = ""
    bucket: str = ""
    prefix: str = ""

    @property
    def on_objects(self) -> bool:
        """Whether the store is on object storage."""
        return self.scheme != "sqlite"


def bind(db_path: str | None, storage_uri: str | None, config: OntologiaConfig) -> Binding:
    """The store that these arguments and settings name."""
    if db_path is None and storage_uri is None:
        db_path, storage_uri = _configured(config)
    for given in (db_path, storage_uri):
        if given is not None and (not isinstance(given, str) or not given.strip() or "\0" in given):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"{given!r} names no store.", hint="Give the path of a file, or a URI.")
    if db_path is not None and db_path.startswith((_SQLITE, *(f"{scheme}://" for scheme in SCHEMES))):
        raise ConfigError(f"{db_path!r} is a URI, not a path.", hint="Pass it as storage_uri.")
    bound = None if storage_uri is None else bind_uri(storage_uri)
    if bound is None:
        return _file(db_path or DEFAULT_DB)
    if db_path is None:
        return bound
    if bound.on_objects or not _same(db_path, bound.path):
        raise ConfigError(
            f"The path {db_path!r} and the URI {storage_uri!r} name different stores.", hint="Give only one of them."
        )
    return _file(db_path)


def bind_uri(uri: str) -> Binding:
    """The store that a URI names."""
    scheme, separator, rest = uri.partition("://")
    if separator and scheme in SCHEMES:
        return _objects(uri)
    if not separator or scheme != "sqlite":
        raise ConfigError(
            f"{_quoted(uri)} is not a storage URI.", hint="Use sqlite:///path/to/onto.db or s3://bucket/prefix."
        )
    if not rest.startswith("/") or len(rest) < 2:
        raise ConfigError(
            f"{uri!r} names no file.", hint="Use sqlite:///relative.db, sqlite:////absolute.db or sqlite:///:memory:."
        )
    return _file(rest[1:])


def _file(path: str) -> Binding:
    return Binding("sqlite", f"sqlite:///{path}", path=path)


def _objects(uri: str) -> Binding:
    """What looks like a URI for other programs is refused with what to do instead; the rest is taken apart."""
    scheme, _, rest = uri.partition("://")
    form = f"Use {scheme}://bucket/prefix."
    bucket, _, prefix = rest.partition("/")
    if "@" in bucket or (":" in bucket and "@" in prefix):
        raise ConfigError(
            f"{_quoted(uri)} carries credentials.",
            hint=f"{form} Credentials come from the environment or the shared AWS configuration.",
        )
    if ":" in bucket:
        raise ConfigError(
            f"{uri!r} has a server where the bucket belongs.",
            hint=f"{form} The server is the setting s3_endpoint_url (ONTOLOGIA_S3_ENDPOINT_URL).",
        )
    if not bucket:
        raise ConfigError(f"{uri!r} names no bucket.", hint=form)
    if "?" in rest or "#" in rest:
        raise ConfigError(
            f"{uri!r} has a query or a fragment; a storage URI has none.", hint=f"{form} Options are settings."
        )
    if _AMBIGUOUS.search(rest):
        raise ConfigError(f"{uri!r} has a blank or a percent sign in it.", hint=f"{form} Choose a plainer prefix.")
    place = parse_location(f"{scheme}://{rest.rstrip('/')}")
    return Binding(place.scheme, place.uri, bucket=place.bucket, prefix=place.prefix)


def _quoted(uri: str) -> str:
    """A URI for a message, without what somebody typed as a password."""
    return re.sub(r"//.*@", "//…@", repr(uri))


def _configured(config: OntologiaConfig) -> tuple[str | None, str | None]:
    """The path or the URI of the settings, whichever comes from the stronger place; the URI when both do."""
    if config.db is None or config.storage_uri is None:
        return config.db, config.storage_uri
    strength = [config.strength(name) for name in ("db", "storage_uri")]
    return (config.db, None) if strength[0] > strength[1] else (None, config.storage_uri)


def _same(first: str, second: str) -> bool:
    if MEMORY in (first, second):
        return first == second
    return Path(first).absolute() == Path(second).absolute()
