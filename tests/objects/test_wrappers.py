"""The wrappers: requests counted with the steps they take, and faults that a caller sees as it would see real ones."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from ontologia.config import OntologiaConfig
from ontologia.errors import StorageBackendError
from ontologia.objects.counting import CountingObjects
from ontologia.objects.faults import Fault, FaultyObjects
from ontologia.objects.port import Conflict, Missing, Objects, OutcomeUnknown, Together
from ontologia.objects.s3 import open_objects


@pytest.fixture
def inner(s3_uri: str, s3_config: OntologiaConfig) -> Iterator[Objects]:
    objects = open_objects(s3_uri, s3_config)
    yield objects
    objects.close()


@pytest.fixture
def together() -> Iterator[Together]:
    pool = Together(4)
    yield pool
    pool.close()


def test_every_request_is_counted_whether_it_succeeds_or_not(inner: Objects):
    counting = CountingObjects(inner)
    etag = counting.put("a", b"1")
    counting.get("a")
    counting.get_if_changed("a", etag)
    counting.get_range("a", 0, 1)
    counting.size("a")
    with pytest.raises(Conflict):
        counting.create("a", b"2")
    etag = counting.replace("a", b"2", etag)
    list(counting.list(""))
    counting.delete("a", if_match=etag)
    counting.delete("a")
    counting.delete_many(["a", "b"])
    with pytest.raises(Missing):
        counting.get("a")
    methods = ["put", "get", "get_if_changed", "get_range", "size", "create", "replace", "list", "delete", "delete"]
    assert [method for method, _ in counting.requests] == [*methods, "delete_many", "get"]
    assert counting.count == counting.steps == 12
    assert dict(counting.requests)["list"] == ""
    counting.reset()
    assert counting.count == counting.steps == 0
    assert counting.requests == []


def test_requests_side_by_side_are_one_step_on_any_machine(inner: Objects, together: Together):
    counting = CountingObjects(inner)
    counting.put("a", b"1")
    together.all([lambda number=number: counting.put(f"b/{number}", b"1") for number in range(12)])
    counting.get("a")
    assert counting.count == 14
    assert counting.steps == 3


def test_requests_after_one_another_in_a_task_are_steps_of_their_own(inner: Objects, together: Together):
    counting = CountingObjects(inner)

    def twice(key: str) -> None:
        counting.put(key, b"1")
        counting.get(key)

    together.all([lambda key=key: twice(key) for key in "abc"])
    assert counting.count == 6
    assert counting.steps == 2


def test_a_task_begun_before_a_request_is_side_by_side_with_it(inner: Objects, together: Together):
    counting = CountingObjects(inner)
    under_way = together.start(counting.put, "a", b"1")
    counting.put("b", b"1")
    under_way.result()
    assert counting.steps == 1


def test_a_reset_begins_the_steps_anew_in_every_thread(inner: Objects, together: Together):
    counting = CountingObjects(inner)
    counting.put("a", b"1")
    counting.get("a")
    counting.reset()
    counting.get("a")
    assert counting.steps == 1
    threads = [threading.Thread(target=lambda: (counting.get("a"), counting.get("a"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counting.count == 5
    assert counting.steps == 2
    together.start(counting.get, "a").result()
    together.start(counting.get, "a").result()
    assert counting.steps == 3


def test_a_task_that_fails_has_taken_its_steps_all_the_same(inner: Objects, together: Together):
    counting = CountingObjects(inner)
    for _ in range(2):
        with pytest.raises(Missing):
            together.all([lambda: counting.get("nothing"), lambda: counting.get("nothing either")])
    assert counting.count == 4
    assert counting.steps == 2


def test_a_wrapper_hands_on_where_it_is_and_what_it_can(inner: Objects):
    wrapped = CountingObjects(FaultyObjects(inner))
    assert (wrapped.uri, wrapped.bucket, wrapped.prefix) == (inner.uri, inner.bucket, inner.prefix)
    assert wrapped.conditional_delete
    wrapped.conditional_delete = False
    assert not inner.conditional_delete


@pytest.mark.parametrize("how", ["error", "timeout", "throttled"])
def test_a_request_that_fails_was_not_carried_out(inner: Objects, how: str):
    etag = inner.put("a", b"1")
    faulty = FaultyObjects(inner)
    faulty.add(Fault("*", times=None, fail=how))  # pyright: ignore[reportArgumentType]
    with pytest.raises(OutcomeUnknown):
        faulty.replace("a", b"2", etag)
    with pytest.raises(OutcomeUnknown):
        faulty.create("b", b"2")
    with pytest.raises(OutcomeUnknown):
        faulty.delete("a", if_match=etag)
    for request in (
        lambda: faulty.put("a", b"2"),
        lambda: faulty.get("a"),
        lambda: faulty.delete("a"),
        lambda: list(faulty.list("")),
    ):
        with pytest.raises(StorageBackendError) as caught:
            request()
        assert caught.value.bucket == inner.bucket
    assert inner.get("a").data == b"1"
    assert [line.key for line in inner.list("")] == ["a"]
    faulty.clear()
    assert faulty.get("a").data == b"1"


def test_a_request_whose_response_is_lost_was_carried_out(inner: Objects):
    etag = inner.put("a", b"1")
    faulty = FaultyObjects(inner, Fault("replace", "a", lose_response=True))
    with pytest.raises(OutcomeUnknown):
        faulty.replace("a", b"2", etag)
    assert inner.get("a").data == b"2"
    faulty.add(Fault("put", lose_response=True))
    with pytest.raises(StorageBackendError, match="no answer in time"):
        faulty.put("b", b"1")
    assert inner.get("b").data == b"1"


def test_a_refusal_is_no_unknown_outcome(inner: Objects):
    faulty = FaultyObjects(inner, Fault("create", fail="refused"))
    with pytest.raises(StorageBackendError, match="AccessDenied"):
        faulty.create("a", b"1")


def test_a_fault_befalls_the_calls_it_names_and_no_others(inner: Objects):
    faulty = FaultyObjects(inner)
    fault = faulty.add(Fault("put", "meta/*", nth=2, times=2, fail="error"))
    outcomes: list[bool] = []
    for key in ("meta/a", "data/a", "meta/b", "data/b", "meta/c", "meta/d"):
        try:
            faulty.put(key, b"1")
            outcomes.append(True)
        except StorageBackendError:
            outcomes.append(False)
    assert outcomes == [True, True, False, True, False, True]
    assert fault.seen == 4


def test_what_is_to_run_before_and_after_a_request_does(inner: Objects):
    seen: list[tuple[str, bytes]] = []
    inner.put("a", b"1")
    faulty = FaultyObjects(
        inner,
        Fault(
            "put",
            "a",
            before=lambda: seen.append(("before", inner.get("a").data)),
            after=lambda: seen.append(("after", inner.get("a").data)),
        ),
    )
    faulty.put("a", b"2")
    assert seen == [("before", b"1"), ("after", b"2")]


def test_another_writer_can_be_let_in_between(inner: Objects):
    etag = inner.put("a", b"1")
    faulty = FaultyObjects(inner, Fault("replace", "a", before=lambda: inner.put("a", b"other")))
    with pytest.raises(Conflict):
        faulty.replace("a", b"2", etag)


def test_a_request_can_be_held_up_until_a_test_lets_it_go(inner: Objects, together: Together):
    gate, reached = threading.Event(), threading.Event()

    def wait() -> None:
        reached.set()
        gate.wait(10)

    faulty = FaultyObjects(inner, Fault("get", before=wait))
    inner.put("a", b"1")
    held = together.start(faulty.get, "a")
    assert reached.wait(10)
    assert not held.done()
    gate.set()
    assert held.result().data == b"1"


KILLED = """
import sys
from ontologia.config import OntologiaConfig
from ontologia.objects.faults import Fault, FaultyObjects, kill_process
from ontologia.objects.s3 import open_objects
uri, endpoint = sys.argv[1:]
objects = open_objects(uri, OntologiaConfig(s3_endpoint_url=endpoint))
faulty = FaultyObjects(objects, Fault("put", "b", after=kill_process))
faulty.put("a", b"1")
faulty.put("b", b"1")
faulty.put("c", b"1")
"""


def test_a_process_can_be_killed_between_two_requests(inner: Objects, s3_config: OntologiaConfig):
    result = subprocess.run([sys.executable, "-c", KILLED, inner.uri, str(s3_config.s3_endpoint_url)], check=False)
    assert result.returncode == -9
    assert [line.key for line in inner.list("")] == ["a", "b"]
