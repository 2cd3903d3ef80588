"""A prefix on the test server as others see it: through `onto`, and through boto3 without any code of ours.

Tests tamper with objects here, and read back what was really written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import s3server
from skins.runs import Run, onto

from ontologia.config import OntologiaConfig
from ontologia.objects.port import Together
from ontologia.objects.s3 import open_objects

HEAD = "meta/head.json"
LOCK = "meta/locks/ontology_write.json"
TYPES = "meta/schema/types.json"
CUSTOMERS = "meta/indices/entities/Customer.json"
PRODUCTS = "meta/indices/entities/Product.json"
SUBSCRIPTIONS = "meta/indices/relations/Subscription.json"


@dataclass(frozen=True)
class Bucket:
    """One prefix."""

    uri: str
    config: OntologiaConfig

    @property
    def env(self) -> dict[str, str]:
        """The settings, as a shell would set them."""
        return environment(self.config)

    def onto(self, *arguments: object, env: Mapping[str, str] | None = None) -> Run:
        """`onto` on this store."""
        return onto(*arguments, "--storage-uri", self.uri, env={**self.env, **(env or {})})

    @property
    def _place(self) -> tuple[str, str]:
        name, _, prefix = self.uri.removeprefix("s3://").partition("/")
        return name, prefix

    @property
    def _client(self) -> Any:
        return _client(str(self.config.s3_endpoint_url))

    def tags(self, under: str = "") -> dict[str, str]:
        """Every object whose key begins so, with its tag."""
        name, prefix = self._place
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=name, Prefix=f"{prefix}/{under}")
        found = [one for page in pages for one in page.get("Contents", ())]
        return {one["Key"].removeprefix(f"{prefix}/"): one["ETag"] for one in found}

    def bytes(self, key: str) -> bytes:
        name, prefix = self._place
        return self._client.get_object(Bucket=name, Key=f"{prefix}/{key}")["Body"].read()

    def read(self, key: str) -> Any:
        return json.loads(self.bytes(key))

    def write(self, key: str, value: Any) -> None:
        name, prefix = self._place
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self._client.put_object(Bucket=name, Key=f"{prefix}/{key}", Body=body)

    def delete(self, key: str) -> None:
        name, prefix = self._place
        self._client.delete_object(Bucket=name, Key=f"{prefix}/{key}")

    def head(self) -> int:
        return self.read(HEAD)["commit_id"]

    def elsewhere(self, folder: Path | str) -> Bucket:
        """The same prefix from a machine that has nothing cached."""
        return Bucket(self.uri, self.config.model_copy(update={"s3_cache_dir": str(folder)}))

    def with_settings(self, **settings: Any) -> Bucket:
        return Bucket(self.uri, self.config.model_copy(update=settings))


@cache
def _client(endpoint: str) -> Any:
    """One client for all tests of a process: making one takes longer than most requests."""
    return s3server.client(endpoint)


def environment(config: OntologiaConfig) -> dict[str, str]:
    """The settings of object storage as variables of the environment."""
    values = {name: getattr(config, name) for name in OntologiaConfig.model_fields if name.startswith("s3_")}
    return {f"ONTOLOGIA_{name.upper()}": str(value) for name, value in values.items() if value is not None}


_MOULDS: dict[str, dict[str, bytes]] = {}


def cast(bucket: Bucket, mould: str, make: Callable[[Bucket], object]) -> Bucket:
    """The store that `make` makes: made the first time, and copied object by object for every test after that."""
    if mould not in _MOULDS:
        make(bucket)
        _MOULDS[mould] = {key: bucket.bytes(key) for key in bucket.tags()}
        return bucket
    objects, together = open_objects(bucket.uri, bucket.config), Together(4)
    together.all([lambda key=key, data=data: objects.put(key, data) for key, data in _MOULDS[mould].items()])
    together.close()
    objects.close()
    return bucket
