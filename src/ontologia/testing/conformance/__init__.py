"""The contract of a backend in executable form: inherit `StoreConformance`, say how your store is opened, and pass.

    class TestMyBackend(StoreConformance):
        @pytest.fixture
        def open_store(self, tmp_path):
            return lambda **options: Ontology(storage_uri=f"mine://{tmp_path}", **options)

Each test starts with no store; every call of `open_store` within one test opens the same one. Needs `pytest`.
"""

from __future__ import annotations

from ontologia.testing.conformance.aggregates import AggregateConformance
from ontologia.testing.conformance.boundaries import BoundaryConformance
from ontologia.testing.conformance.errors import ErrorConformance
from ontologia.testing.conformance.history import HistoryConformance
from ontologia.testing.conformance.queries import QueryConformance
from ontologia.testing.conformance.relations import RelationConformance
from ontologia.testing.conformance.schema import SchemaConformance
from ontologia.testing.conformance.sessions import SessionConformance
from ontologia.testing.conformance.time import TimeConformance
from ontologia.testing.conformance.values import ValueConformance
from ontologia.testing.conformance.world import OpenStore

__all__ = ["OpenStore", "StoreConformance"]


class StoreConformance(
    SessionConformance,
    ValueConformance,
    QueryConformance,
    RelationConformance,
    AggregateConformance,
    TimeConformance,
    HistoryConformance,
    SchemaConformance,
    BoundaryConformance,
    ErrorConformance,
):
    """Everything that a backend must do, whatever it keeps its bytes in."""
