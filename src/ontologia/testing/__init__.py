"""What others test with: conformance suites for backends, state machines, strategies and faults."""

import pytest

# These are inherited by the tests of a backend; without this their asserts would say nothing when they fail.
pytest.register_assert_rewrite("ontologia.testing.conformance", "ontologia.testing.stateful")
