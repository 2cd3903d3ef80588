"""The state machine on object storage: a quick run on the real server with every test run, a long one in `make soak`.

Each example has a prefix and a cache of its own. Between the steps that every store knows, it is compacted, cleaned up
and its indices are repaired, none of which may change an answer.
"""

from __future__ import annotations

import tempfile
from datetime import timedelta
from typing import Any

import pytest
import s3server
from hypothesis import settings
from hypothesis.stateful import rule, run_state_machine_as_test

from ontologia import OntologiaConfig, Ontology
from ontologia.store.objects.initialise import initialise
from ontologia.testing.stateful import OpenStore, StoreMachine


class S3Machine(StoreMachine):
    """A store under a prefix."""

    def new_store(self) -> OpenStore:
        self.folder = tempfile.TemporaryDirectory(prefix="ontologia-machine-")
        config = OntologiaConfig(
            s3_endpoint_url=s3server.endpoint(), s3_region=s3server.REGION, s3_cache_dir=self.folder.name
        )
        uri = s3server.fresh_uri()
        initialise(uri, config)

        def open_again(**options: Any) -> Ontology:
            return Ontology(storage_uri=uri, config=config, **options)

        return open_again

    @rule()
    def compact(self) -> None:
        """Merge files."""
        self.onto.compact(apply=True)

    @rule()
    def clean_up(self) -> None:
        """Remove what nobody needs."""
        # The clock of the machine is behind that of the server: a grace that even the newest object is past.
        self.onto.gc(grace=timedelta(days=-3650), apply=True)

    @rule()
    def indices_are_sound(self) -> None:
        """After every step the indices are what they should be."""
        assert self.onto.verify_index() == []

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "folder"):
            self.folder.cleanup()


def test_the_store_on_s3_does_what_a_few_lists_do(s3_environment: None) -> None:
    run_state_machine_as_test(S3Machine, settings=settings(max_examples=15, stateful_step_count=20))


@pytest.mark.soak
def test_the_store_on_s3_does_what_a_few_lists_do_for_a_long_time(s3_environment: None) -> None:
    run_state_machine_as_test(S3Machine, settings=settings(max_examples=300, stateful_step_count=50))
