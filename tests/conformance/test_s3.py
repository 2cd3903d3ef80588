"""The conformance suite on object storage: the whole of it on a real S3 server, and once more on moto's.

Each test has a prefix of its own; opening it again is opening it from another machine, with a cache of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ontologia import Ontology
from ontologia.config import OntologiaConfig
from ontologia.store.objects.initialise import initialise
from ontologia.testing.conformance import OpenStore, StoreConformance


def set_settings(monkeypatch: pytest.MonkeyPatch, endpoint: str, folder: Path) -> None:
    """Tests make settings of their own: where the server is comes from the environment, as it would for users."""
    monkeypatch.setenv("ONTOLOGIA_S3_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("ONTOLOGIA_S3_REGION", "us-east-1")
    monkeypatch.setenv("ONTOLOGIA_S3_CACHE_DIR", str(folder / "cache"))


def opener(uri: str) -> Iterator[OpenStore]:
    """Stores at one prefix, closed at the end."""
    opened: list[Ontology] = []
    made: list[object] = []

    def open_again(**options: Any) -> Ontology:
        if not made and options.get("create", True) and not options.get("read_only"):
            made.append(initialise(uri, OntologiaConfig()))
        opened.append(Ontology(storage_uri=uri, **options))
        return opened[-1]

    yield open_again
    for onto in opened:
        onto.close()


class TestS3(StoreConformance):
    """A store on the S3 server of the run."""

    @pytest.fixture
    def open_store(
        self, s3_endpoint: str, s3_uri: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> Iterator[OpenStore]:
        set_settings(monkeypatch, s3_endpoint, tmp_path)
        yield from opener(s3_uri)


class TestMoto(StoreConformance):
    """A store on moto: a second reading of what S3 does."""

    @pytest.fixture
    def open_store(
        self, moto_endpoint: str, moto_uri: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> Iterator[OpenStore]:
        set_settings(monkeypatch, moto_endpoint, tmp_path)
        yield from opener(moto_uri)
