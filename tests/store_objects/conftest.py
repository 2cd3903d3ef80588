"""Fixtures of the tests on object storage: a prefix, and the environment in which children find it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from store_objects.buckets import Bucket, cast, environment
from store_objects.counted import new_store
from store_objects.nursery import Nursery

from ontologia import OntologiaConfig


@pytest.fixture
def bucket(s3_uri: str, s3_config: OntologiaConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A prefix without a store, which processes that are started now find too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    for name, value in environment(s3_config).items():
        monkeypatch.setenv(name, value)
    return Bucket(s3_uri, s3_config)


@pytest.fixture
def store(bucket: Bucket) -> Bucket:
    """An empty store."""
    return cast(bucket, "empty", lambda made: new_store(made.uri, made.config))


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Where processes come from that are to be killed."""
    with Nursery() as found:
        yield found
