"""What the port promises, on every server of the run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import s3server
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ontologia.config import OntologiaConfig
from ontologia.objects.port import Conflict, Missing, Unsupported
from ontologia.objects.s3 import BucketObjects, open_objects


def test_what_was_put_is_read_back_with_its_tag(objects: BucketObjects):
    etag = objects.put("a/b", b"data")
    held = objects.get("a/b")
    assert held.data == b"data"
    assert held.etag == etag
    assert '"' not in etag


def test_an_empty_object_is_an_object(objects: BucketObjects):
    objects.put("empty", b"")
    assert objects.get("empty").data == b""
    assert objects.size("empty") == 0


def test_an_object_that_is_not_there_is_missing(objects: BucketObjects):
    for read in (objects.get, objects.size, lambda key: objects.get_range(key, 0, 1)):
        with pytest.raises(Missing):
            read("nothing")
    with pytest.raises(Missing):
        objects.get_if_changed("nothing", "abc")


def test_an_object_is_sent_again_only_when_it_changed(objects: BucketObjects):
    etag = objects.put("a", b"1")
    assert objects.get_if_changed("a", etag) is None
    objects.put("a", b"2")
    held = objects.get_if_changed("a", etag)
    assert held is not None
    assert held.data == b"2"


def test_a_part_of_an_object_is_read_by_its_bytes(objects: BucketObjects):
    objects.put("a", b"0123456789")
    assert objects.get_range("a", 2, 5) == b"234"
    assert objects.get_range("a", 8, 100) == b"89"
    assert objects.get_range("a", 4, 4) == b""
    assert objects.size("a") == 10


def test_what_exists_is_not_created_again(objects: BucketObjects):
    etag = objects.create("a", b"1")
    with pytest.raises(Conflict):
        objects.create("a", b"2")
    assert objects.get("a").data == b"1"
    assert objects.get("a").etag == etag


def test_what_changed_is_not_replaced(objects: BucketObjects):
    first = objects.put("a", b"1")
    second = objects.replace("a", b"2", first)
    with pytest.raises(Conflict):
        objects.replace("a", b"3", first)
    assert objects.get("a").data == b"2"
    assert objects.replace("a", b"3", second) == objects.get("a").etag


def test_what_is_gone_is_not_replaced(objects: BucketObjects):
    etag = objects.put("a", b"1")
    objects.delete("a")
    with pytest.raises(Conflict):
        objects.replace("a", b"2", etag)
    with pytest.raises(Missing):
        objects.get("a")


def test_deleting_what_is_gone_is_no_error(objects: BucketObjects):
    objects.put("a", b"1")
    objects.delete("a")
    objects.delete("a")
    with pytest.raises(Missing):
        objects.get("a")


def test_what_changed_is_not_deleted_under_a_condition(objects: BucketObjects):
    first = objects.put("a", b"1")
    second = objects.put("a", b"2")
    with pytest.raises(Conflict):
        objects.delete("a", if_match=first)
    assert objects.get("a").data == b"2"
    objects.delete("a", if_match=second)
    with pytest.raises(Missing):
        objects.get("a")


def test_deleting_what_is_gone_under_a_condition_is_a_conflict(objects: BucketObjects):
    with pytest.raises(Conflict):
        objects.delete("a", if_match="abc")


def test_a_server_without_conditional_deletion_says_so(objects: BucketObjects):
    etag = objects.put("a", b"1")
    objects.conditional_delete = False
    with pytest.raises(Unsupported):
        objects.delete("a", if_match=etag)
    assert objects.get("a").data == b"1"


def test_many_objects_are_deleted_at_once_whether_they_are_there_or_not(objects: BucketObjects):
    for number in range(5):
        objects.put(f"a/{number}", b"1")
    objects.delete_many([f"a/{number}" for number in range(1, 9)])
    assert [line.key for line in objects.list("")] == ["a/0"]
    objects.delete_many([])


def test_a_large_object_comes_back_whole(objects: BucketObjects):
    data = bytes(range(256)) * 20_000
    objects.put("large", data)
    assert objects.get("large").data == data
    assert objects.size("large") == len(data)


@pytest.mark.parametrize("operation", ["create", "replace"])
def test_of_sixteen_writers_at_once_one_wins(objects: BucketObjects, operation: str):
    etag = objects.put("a", b"start") if operation == "replace" else ""
    start = Barrier(16)

    def write(number: int) -> int | None:
        start.wait()
        try:
            data = f"writer {number}".encode()
            objects.create("a", data) if operation == "create" else objects.replace("a", data, etag)
        except Conflict:
            return None
        return number

    with ThreadPoolExecutor(16) as pool:
        winners = [number for number in pool.map(write, range(16)) if number is not None]
    assert len(winners) == 1
    assert objects.get("a").data == f"writer {winners[0]}".encode()


def test_of_sixteen_deletions_at_once_one_succeeds(s3_uri: str, s3_config: OntologiaConfig):
    objects = open_objects(s3_uri, s3_config)
    etag = objects.put("a", b"1")
    start = Barrier(16)

    def delete(_: int) -> bool:
        start.wait()
        try:
            objects.delete("a", if_match=etag)
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(delete, range(16))) == 1
    objects.close()


KEYS = st.lists(
    st.text(st.characters(exclude_categories=["C"], exclude_characters="/\\"), min_size=1, max_size=8).filter(
        lambda name: name.strip(". ") != "" and name == name.strip()
    ),
    min_size=1,
    max_size=3,
).map("/".join)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=KEYS, data=st.binary(max_size=100))
def test_a_key_is_in_the_bucket_exactly_as_it_was_given(s3_endpoint: str, s3_environment: None, key: str, data: bytes):
    uri = s3server.fresh_uri()
    objects = open_objects(uri, OntologiaConfig(s3_endpoint_url=s3_endpoint))
    objects.put(key, data)
    other = s3server.client(s3_endpoint)
    held = other.get_object(Bucket=s3server.BUCKET, Key=f"{objects.prefix}/{key}")
    assert held["Body"].read() == data
    assert [line.key for line in objects.list("")] == [key]
    assert objects.get(key).data == data
    etag = objects.get(key).etag
    objects.delete(key, if_match=etag)
    assert list(objects.list("")) == []
    objects.close()
    other.close()


@pytest.mark.parametrize("prefix", ["a%20b/ü x", "plain", "deep/er/prefix", "a+b=c&d"])
def test_a_prefix_is_in_the_bucket_exactly_as_it_was_given(s3_uri: str, s3_config: OntologiaConfig, prefix: str):
    objects = open_objects(f"{s3_uri}/{prefix}/", s3_config)
    objects.put("k", b"1")
    other = s3server.client(str(s3_config.s3_endpoint_url))
    assert other.get_object(Bucket=s3server.BUCKET, Key=f"{objects.prefix}/k")["Body"].read() == b"1"
    assert objects.prefix.endswith(prefix)
    assert objects.uri == f"{s3_uri}/{prefix}"
    assert [line.key for line in objects.list("")] == ["k"]
    objects.close()
    other.close()


def test_a_bucket_alone_is_the_empty_prefix(s3_uri: str, s3_config: OntologiaConfig):
    below = open_objects(s3_uri, s3_config)
    whole = open_objects(f"s3://{s3server.BUCKET}", s3_config)
    assert whole.prefix == ""
    assert whole.uri == f"s3://{s3server.BUCKET}"
    below.put("k", b"1")
    assert whole.get(f"{below.prefix}/k").data == b"1"
    assert [line.key for line in whole.list(below.prefix)] == [f"{below.prefix}/k"]
    below.close()
    whole.close()


def test_two_prefixes_know_nothing_of_each_other(s3_uri: str, s3_config: OntologiaConfig):
    one, other = open_objects(f"{s3_uri}/a", s3_config), open_objects(f"{s3_uri}/ab", s3_config)
    one.put("k", b"1")
    assert list(other.list("")) == []
    with pytest.raises(Missing):
        other.get("k")
    one.close()
    other.close()
