"""Listings: any text as prefix, from a key on, each object once, on every server of the run."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import s3server
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from objects.conftest import BadLine
from objects.relay import LOSE_ANSWER, Accident

from ontologia.config import OntologiaConfig
from ontologia.objects.port import Together
from ontologia.objects.s3 import BucketObjects, open_objects

# Names on which the order of keys and that of folders differ, and neighbours of one another.
KEYS = (
    *("commits/1-a/m", "commits/1-a/x/y", "commits/1-a-b/m", "commits/12-a/m", "commits/12-b/m", "commits/11é/m"),
    *("commits/120-a/m", "commits/13-a/m", "commits/2-a/m", "commits/0-a/m", "commits.json", "commits-old/1"),
    *("a", "a0", "a-b", "a.b", "z/é/1", "z/e/1"),
)


@pytest.fixture
def filled(objects: BucketObjects) -> BucketObjects:
    for key in KEYS:
        objects.put(key, key.encode())
    return objects


def listed(objects: BucketObjects, prefix: str, after: str | None = None) -> list[str]:
    return [line.key for line in objects.list(prefix, after=after)]


@pytest.mark.parametrize(
    "prefix",
    ["", "commits/", "commits/1", "commits/12", "commits/12-", "commits/0", "commits", "a", "a-", "z/é", "zz", "none/"],
)
def test_any_text_is_a_prefix(filled: BucketObjects, prefix: str):
    assert sorted(listed(filled, prefix)) == sorted(key for key in KEYS if key.startswith(prefix))


@pytest.mark.parametrize("after", ["", "a", "a-b", "commits/1-a", "commits/1-a/m", "commits/12", "commits/2-a/m", "zz"])
@pytest.mark.parametrize("prefix", ["", "commits/", "commits/1"])
def test_a_listing_begins_after_a_key(filled: BucketObjects, prefix: str, after: str):
    wanted = sorted(key for key in KEYS if key.startswith(prefix) and key > after)
    assert sorted(listed(filled, prefix, after)) == wanted


def test_a_line_tells_size_tag_and_time(objects: BucketObjects):
    etag = objects.put("a/b", b"12345")
    (line,) = objects.list("a/")
    assert (line.key, line.size, line.etag) == ("a/b", 5, etag)
    assert line.modified.tzinfo is not None


def test_what_was_just_written_or_removed_is_listed_so(objects: BucketObjects):
    objects.put("a/b", b"1")
    assert listed(objects, "a/") == ["a/b"]
    objects.delete("a/b")
    assert listed(objects, "a/") == []


def test_a_listing_goes_on_past_a_thousand_keys_and_where_it_broke(
    s3_uri: str, s3_config: OntologiaConfig, bad_line: Callable[..., BadLine]
):
    objects = open_objects(s3_uri, s3_config)
    keys = sorted(f"many/{number}" for number in range(2100))
    together = Together()
    together.all([lambda key=key: objects.put(key, b"") for key in keys])
    together.close()
    assert listed(objects, "many/") == keys
    assert listed(objects, "many/1") == [key for key in keys if key.startswith("many/1")]
    assert listed(objects, "", after=keys[1500]) == keys[1501:]
    line = bad_line(s3_uri)
    listing = line.objects.list("many/")
    seen = [next(listing).key for _ in range(500)]
    line.relay.accidents += [LOSE_ANSWER, Accident(500)]
    assert seen + [one.key for one in listing] == keys
    assert len(line.relay.seen) == 5
    assert len(line.pauses) == 2
    line.relay.seen.clear()
    assert [one.key for one in line.objects.list("many/10")] == [key for key in keys if key.startswith("many/10")]
    assert len(line.relay.seen) == 1, "a listing ends with its last key"
    objects.delete_many(keys)
    assert listed(objects, "") == []
    objects.close()


SEGMENT = st.text("ab-.0~%é", min_size=1, max_size=3).filter(lambda name: name.strip(".") != "")


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    keys=st.sets(st.lists(SEGMENT, min_size=1, max_size=3).map("/".join), min_size=1, max_size=8),
    prefix=st.text("ab-/0.!", max_size=3).filter(lambda text: {"", ".", ".."}.isdisjoint(text.split("/")[:-1])),
    after=st.none() | st.text("ab-.0/", min_size=1, max_size=4).filter(lambda text: "//" not in text),
)
def test_a_listing_is_the_sorted_keys_filtered(objects: BucketObjects, keys: set[str], prefix: str, after: str | None):
    objects = open_objects(s3server.fresh_uri(), objects._stores._config)
    for key in keys:
        objects.put(key, b"")
    wanted = [key for key in sorted(keys) if key.startswith(prefix) and (after is None or key > after)]
    assert sorted(listed(objects, prefix, after)) == wanted
    objects.close()
