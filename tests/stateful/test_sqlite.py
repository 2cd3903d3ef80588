"""The state machine on SQLite: a quick run with every test run, a long one in `make soak`.

Each example has a file of its own in a directory that is removed when the example ends.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from ontologia import OntologiaConfig, Ontology
from ontologia.testing.stateful import OpenStore, StoreMachine


class SqliteMachine(StoreMachine):
    """A store in a file."""

    def new_store(self) -> OpenStore:
        self.folder = tempfile.TemporaryDirectory(prefix="ontologia-machine-")
        path = Path(self.folder.name, "onto.db")

        def open_again(**options: Any) -> Ontology:
            return Ontology(path, config=OntologiaConfig(sqlite_synchronous="normal"), **options)

        return open_again

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "folder"):
            self.folder.cleanup()


def test_the_store_does_what_a_few_lists_do() -> None:
    run_state_machine_as_test(SqliteMachine, settings=settings(max_examples=40, stateful_step_count=25))


@pytest.mark.soak
def test_the_store_does_what_a_few_lists_do_for_a_long_time() -> None:
    run_state_machine_as_test(SqliteMachine, settings=settings(max_examples=1500, stateful_step_count=60))
