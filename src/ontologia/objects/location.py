"""Where objects are: a URI taken apart into its scheme, bucket and prefix.

A URI that could mean two places, or one outside its prefix, is a `ConfigError`; nothing is asked of a server here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, cast

from ontologia.errors import ConfigError

Scheme = Literal["s3", "gs", "az"]
SCHEMES: tuple[Scheme, ...] = ("s3", "gs", "az")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")


@dataclass(frozen=True, slots=True)
class Location:
    """A prefix in a bucket; the empty prefix is the whole bucket."""

    scheme: Scheme
    bucket: str
    prefix: str

    @property
    def uri(self) -> str:
        """`s3://bucket/prefix`, without a slash at its end."""
        return f"{self.scheme}://{self.bucket}/{self.prefix}".rstrip("/")


def is_object_uri(uri: str) -> bool:
    """Whether a URI names object storage."""
    return uri.partition("://")[0].lower() in SCHEMES and "://" in uri


def parse_location(uri: str) -> Location:
    """Take a URI apart, or say what is wrong with it."""
    scheme, separator, rest = uri.partition("://")
    if not separator or scheme.lower() not in SCHEMES:
        raise ConfigError(f"{uri!r} names no object storage.", hint="Write s3://bucket/prefix (or gs://, az://).")
    bucket, _, prefix = rest.partition("/")
    if "@" in bucket:
        raise ConfigError(
            "A storage URI holds no credentials.", hint="Write s3://bucket/prefix, and set AWS_ACCESS_KEY_ID."
        )
    if not _BUCKET.fullmatch(bucket):
        raise ConfigError(f"{bucket!r} in {uri!r} is no name of a bucket.", hint="Write s3://bucket/prefix.")
    prefix = prefix if prefix == "/" else prefix.removesuffix("/")
    if _CONTROL.search(prefix) or (prefix and not {"", ".", ".."}.isdisjoint(prefix.split("/"))):
        raise ConfigError(
            f"The prefix {prefix!r} in {uri!r} is not one that every program reads alike.",
            hint="Use plain folder names with single slashes between them.",
        )
    return Location(cast(Scheme, scheme.lower()), bucket, prefix)
