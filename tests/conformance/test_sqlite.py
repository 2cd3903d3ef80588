"""The conformance suite on SQLite: once on a file, once in memory.

A store in memory belongs to the `Ontology` that made it, so tests that open their store twice run on the file only.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ontologia import OntologiaConfig, Ontology
from ontologia.testing.conformance import OpenStore, StoreConformance


class TestFile(StoreConformance):
    """A store in one file."""

    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Iterator[OpenStore]:
        opened: list[Ontology] = []

        def open_again(**options: Any) -> Ontology:
            # Surviving a power cut is not what is tested here, and syncing is most of the time of a small commit.
            options.setdefault("config", OntologiaConfig(sqlite_synchronous="normal"))
            opened.append(Ontology(tmp_path / "onto.db", **options))
            return opened[-1]

        yield open_again
        for onto in opened:
            onto.close()


class TestMemory(StoreConformance):
    """A store that is gone when it is closed."""

    @pytest.fixture
    def open_store(self) -> Iterator[OpenStore]:
        opened: list[Ontology] = []

        def open_once(**options: Any) -> Ontology:
            if opened:
                pytest.skip("a store in memory cannot be opened twice")
            opened.append(Ontology(":memory:", **options))
            return opened[-1]

        yield open_once
        for onto in opened:
            onto.close()
