"""obstore's stores, built from our settings: which server, which region, which credentials, how long to wait.

A request that carries many bytes is given more time, so a few stores of different patience stand side by side. All
are built anew when the server says that the credentials are stale. obstore's own retries are off: see `retry`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ontologia.config import OntologiaConfig
from ontologia.errors import ConfigError
from ontologia.objects.credentials import Chain, find_chain
from ontologia.objects.location import Location
from ontologia.objects.profiles import read_profile

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, S3Store

    Store = S3Store | GCSStore | AzureStore

SMALL = 1 << 20
"""Up to so many bytes a request is given no more time than one without any."""
SLOWEST = 256 << 10
"""Bytes per second of the slowest line that a large write is still expected to pass."""
LONGEST_READ = timedelta(hours=1)
"""A read may take long as long as bytes keep coming."""
DEFAULT_REGION = "us-east-1"


class Stores:
    """The stores of one location."""

    def __init__(self, location: Location, config: OntologiaConfig) -> None:
        self._location, self._config = location, config
        self._lock = threading.Lock()
        self._built: dict[int, Store] = {}
        self.chain: Chain | None = find_chain(os.environ) if location.scheme == "s3" else None
        self.timeout_s = config.s3_request_timeout_s

    def store(self, size: int = 0) -> Store:
        """The store for a request that carries so many bytes."""
        patience = 0 if size <= SMALL else max(1, (size // SLOWEST // max(1, int(self.timeout_s))).bit_length())
        with self._lock:
            if patience not in self._built:
                self._built[patience] = self._build(patience)
            return self._built[patience]

    def renew(self) -> bool:
        """Ask for credentials again; whether there is hope that they are other ones."""
        if self.chain is not None and not self.chain.renew():
            return False
        with self._lock:
            self._built.clear()
        return self._location.scheme == "s3"

    def close(self) -> None:
        """Let go of all connections."""
        with self._lock:
            self._built.clear()

    def _build(self, patience: int) -> Store:
        import obstore.store
        from obstore.exceptions import BaseError

        scheme, bucket, prefix = self._location.scheme, self._location.bucket, self._location.prefix or None
        client = self._client(patience)
        retries: Any = {"max_retries": 0, "retry_timeout": timedelta(0)}
        try:
            if scheme == "gs":
                return obstore.store.GCSStore(bucket, prefix=prefix, client_options=client, retry_config=retries)
            if scheme == "az":
                return obstore.store.AzureStore(bucket, prefix=prefix, client_options=client, retry_config=retries)
            options: Any = s3_options(self._location, self._config, os.environ)
            provider: Any = self.chain
            return obstore.store.S3Store(
                bucket,
                prefix=prefix,
                config=options,
                client_options=client,
                retry_config=retries,
                credential_provider=provider,
            )
        except (BaseError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise ConfigError(
                f"{self._location.uri} cannot be opened: {reason}.", hint="Check the settings of this storage."
            ) from error

    def _client(self, patience: int) -> Any:
        wait = timedelta(seconds=self.timeout_s * 2**patience)
        options: dict[str, Any] = {
            "connect_timeout": timedelta(seconds=min(5.0, self.timeout_s)),
            # This one runs from the sending of a request and anew with every piece of the answer.
            "read_timeout": wait,
            "timeout": max(LONGEST_READ, wait),
        }
        if self._location.scheme == "s3":
            address = endpoint(self._config, os.environ)
            options["allow_http"] = address is not None and address.startswith("http://")
            authority = os.environ.get("AWS_CA_BUNDLE")
            if authority:
                options["root_certificate"] = _read_authority(authority)
        return options


def _read_authority(path: str) -> bytes:
    try:
        return Path(path).expanduser().read_bytes()
    except OSError as error:
        raise ConfigError(f"AWS_CA_BUNDLE names {path}, which cannot be read.", hint="Correct the path.") from error


def s3_options(location: Location, config: OntologiaConfig, environ: Mapping[str, str]) -> dict[str, Any]:
    """What obstore needs to know to reach a bucket.

    All of it is said, so that no variable of the environment that obstore reads by itself overrides a setting of ours.
    """
    address = endpoint(config, environ)
    options: dict[str, Any] = {"region": region(config, environ), "conditional_put": "etag"}
    if address is None:
        options["virtual_hosted_style_request"] = "." not in location.bucket
    else:
        options |= {"endpoint": address, "aws_endpoint_url_s3": address, "virtual_hosted_style_request": False}
    return options


def endpoint(config: OntologiaConfig, environ: Mapping[str, str]) -> str | None:
    """The address of the server: the setting, else what the environment or the profile says, else AWS."""
    if config.s3_endpoint_url:
        return config.s3_endpoint_url
    address = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")
    if not address:
        profile = read_profile(environ)
        address = profile.get("endpoint_url") if profile else None
    return address.rstrip("/") if address else None


def region(config: OntologiaConfig, environ: Mapping[str, str]) -> str:
    """The region of the bucket: the setting, the environment, the profile, or the one that is the default."""
    found = config.s3_region or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    if not found:
        profile = read_profile(environ)
        found = profile.get("region") if profile else None
    return found or DEFAULT_REGION
