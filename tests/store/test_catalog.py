"""Which schema version a commit has, and which ones a window may show: laws against a plain count of commits."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ontologia import UnknownTypeError
from ontologia.model.spec import FieldSpec, Kind, TypeSpec
from ontologia.store.catalog import Catalog, SchemaVersion, StoredType

SPEC = TypeSpec("entity", "Thing", (FieldSpec("id", "str", Kind.TEXT, primary_key=True),))
starts = st.sets(st.integers(1, 12), min_size=1, max_size=4).map(sorted)


def stored(since: list[int]) -> StoredType:
    versions = tuple(SchemaVersion(n, SPEC, at, datetime.now(UTC)) for n, at in enumerate(since, 1))
    return StoredType(1, "entity", "Thing", 1, frozenset(), versions)


def version_of(since: list[int], commit: int) -> int:
    """The version that rows of a commit are in: how many versions had begun by then."""
    return sum(at <= commit for at in since)


@given(starts, st.integers(0, 15))
def test_the_version_at_a_commit_is_the_last_that_had_begun(since: list[int], commit: int) -> None:
    expected = max(version_of(since, commit), 1)
    assert stored(since).version_at(commit).version == expected


@given(starts, st.integers(0, 15), st.integers(0, 15))
def test_a_window_shows_the_versions_of_its_commits(since: list[int], low: int, high: int) -> None:
    assume(low < high)
    written = {version_of(since, commit) for commit in range(max(low + 1, since[0]), high + 1)}
    assert {version.version for version in stored(since).versions_between(low, high)} == written


def test_an_unknown_type_is_named_with_the_known_ones() -> None:
    catalog = Catalog({("entity", "Thing"): stored([1])})
    assert catalog.get("entity", "Thing").current.version == 1
    with pytest.raises(UnknownTypeError, match="Thing") as caught:
        catalog.get("entity", "Thng")
    assert caught.value.type_name == "Thng"
    assert catalog.find("relation", "Thing") is None
