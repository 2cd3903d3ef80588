"""What happens on a bad line: what may be sent twice is, and of what may not, nothing is guessed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from objects.conftest import BadLine
from objects.relay import BREAK_BEFORE, LOSE_ANSWER, Accident

from ontologia.errors import StorageBackendError
from ontologia.objects.failures import Failed, Failure
from ontologia.objects.port import Conflict, Missing, OutcomeUnknown, Unsupported
from ontologia.objects.retry import CONDITIONAL, IDEMPOTENT, Policy, Retries

Connect = Callable[..., BadLine]

ERROR = Accident(500)
SLOW_DOWN = Accident(503, "SlowDown")
TOO_MANY = Accident(429, "TooManyRequests")
HANG = Accident(hang=True)
PASSING = {"broken": BREAK_BEFORE, "500": ERROR, "SlowDown": SLOW_DOWN, "429": TOO_MANY, "lost": LOSE_ANSWER}


@pytest.mark.parametrize("name", PASSING)
def test_what_may_be_sent_twice_is(bad_line: Connect, name: str):
    line = bad_line()
    line.objects.put("a", b"1")
    for request in (
        lambda: line.objects.get("a").data,
        lambda: line.objects.put("a", b"1"),
        lambda: line.objects.size("a"),
        lambda: line.objects.get_range("a", 0, 1),
        lambda: [one.key for one in line.objects.list("")],
        lambda: line.objects.get_if_changed("a", "another"),
        lambda: line.objects.delete("b"),
        lambda: line.objects.delete_many(["b", "c"]),
    ):
        wanted = request()
        line.relay.seen.clear()
        line.pauses.clear()
        line.relay.accidents += [PASSING[name], PASSING[name]]
        assert request() == wanted
        assert len(line.relay.seen) == 3
        assert len(line.pauses) == 2
        assert line.pauses[1] > line.pauses[0] / 2


def test_a_server_that_asks_for_fewer_requests_is_given_longer_pauses(bad_line: Connect):
    line = bad_line()
    line.objects.put("a", b"1")
    line.relay.accidents += [ERROR]
    line.objects.get("a")
    line.relay.accidents += [SLOW_DOWN]
    line.objects.get("a")
    assert line.pauses[1] >= 5 * line.pauses[0]


def test_retries_end(bad_line: Connect):
    line = bad_line()
    line.relay.always = lambda _: ERROR
    with pytest.raises(StorageBackendError, match="500 InternalError") as caught:
        line.objects.get("a")
    assert len(line.relay.seen) == IDEMPOTENT.attempts
    assert sum(line.pauses) < IDEMPOTENT.within_s
    assert caught.value.operation == "get"
    assert caught.value.key == "a"


@pytest.mark.parametrize("name", PASSING)
@pytest.mark.parametrize("operation", ["create", "replace", "delete"])
def test_a_write_under_a_condition_is_never_sent_twice(bad_line: Connect, name: str, operation: str):
    line = bad_line()
    etag = line.objects.put("a", b"1")
    line.relay.seen.clear()
    line.relay.accidents += [PASSING[name]]
    writes: dict[str, Callable[[], object]] = {
        "create": lambda: line.objects.create("new", b"2"),
        "replace": lambda: line.objects.replace("a", b"2", etag),
        "delete": lambda: line.objects.delete("a", if_match=etag),
    }
    with pytest.raises(OutcomeUnknown):
        writes[operation]()
    assert len(line.relay.seen) == 1
    assert line.pauses == []


def test_a_write_of_unknown_outcome_may_have_happened(bad_line: Connect):
    line = bad_line()
    etag = line.objects.put("a", b"1")
    line.relay.accidents += [LOSE_ANSWER]
    with pytest.raises(OutcomeUnknown):
        line.objects.replace("a", b"2", etag)
    assert line.objects.get("a").data == b"2"
    line.relay.accidents += [BREAK_BEFORE]
    with pytest.raises(OutcomeUnknown):
        line.objects.create("b", b"1")
    with pytest.raises(Missing):
        line.objects.get("b")


def test_an_answer_that_does_not_come_in_time_is_an_unknown_outcome(bad_line: Connect):
    line = bad_line(s3_request_timeout_s=0.3)
    etag = line.objects.put("a", b"1")
    for write in (
        lambda: line.objects.create("b", b"1"),
        lambda: line.objects.replace("a", b"2", etag),
        lambda: line.objects.delete("a", if_match=etag),
    ):
        line.relay.accidents += [HANG]
        with pytest.raises(OutcomeUnknown):
            write()


def test_a_read_that_gets_no_answer_in_time_is_tried_again(bad_line: Connect):
    line = bad_line(s3_request_timeout_s=0.3)
    line.objects.put("a", b"1")
    line.relay.accidents += [HANG]
    assert line.objects.get("a").data == b"1"
    assert len(line.pauses) == 1


def test_a_conflict_among_writers_at_once_is_a_conflict(bad_line: Connect):
    line = bad_line()
    etag = line.objects.put("a", b"1")
    conflict = Accident(409, "ConditionalRequestConflict")
    line.relay.accidents += [conflict, conflict, conflict]
    with pytest.raises(Conflict):
        line.objects.create("b", b"1")
    with pytest.raises(Conflict):
        line.objects.replace("a", b"2", etag)
    with pytest.raises(Conflict):
        line.objects.delete("a", if_match=etag)


def test_a_deletion_over_a_connection_that_the_server_closed_meanwhile_is_sent_over_a_new_one(bad_line: Connect):
    line = bad_line()
    for _ in range(3):
        etag = line.objects.put("a", b"1")
        line.objects.delete("a", if_match=etag)
        (idle,) = line.objects._deletion._idle
        idle.connection.sock.shutdown(2)  # as seen from here: the other side has hung up
    with pytest.raises(Missing):
        line.objects.get("a")


def test_a_deletion_keeps_its_connection(bad_line: Connect):
    line = bad_line()
    used: set[int] = set()
    for _ in range(3):
        line.objects.delete("a", if_match=line.objects.put("a", b"1"))
        (idle,) = line.objects._deletion._idle
        used.add(id(idle.connection))
    assert len(used) == 1
    line.objects.close()
    assert line.objects._deletion._idle == []


def test_tags_are_sent_as_http_wants_them(bad_line: Connect):
    line = bad_line()
    first = line.objects.create("a", b"1")
    assert line.objects.get_if_changed("a", first) is None
    second = line.objects.replace("a", b"2", first)
    line.objects.delete("a", if_match=second)
    assert [condition.lower() for condition in line.relay.conditions] == [
        "if-none-match: *",
        f'if-none-match: "{first}"',
        f'if-match: "{first}"',
        f'if-match: "{second}"',
    ]


def test_a_server_that_does_not_know_conditional_deletion_is_not_asked_again(bad_line: Connect):
    line = bad_line()
    etag = line.objects.put("a", b"1")
    line.relay.accidents += [Accident(501, "NotImplemented")]
    with pytest.raises(Unsupported):
        line.objects.delete("a", if_match=etag)
    assert not line.objects.conditional_delete


class Time:
    """Time that passes only in pauses and requests."""

    def __init__(self) -> None:
        self.now = 0.0

    def pass_by(self, seconds: float) -> None:
        self.now += seconds


@given(
    kinds=st.lists(st.sampled_from(["unsent", "lost", "throttled", "refused", None]), max_size=10),
    took=st.floats(0, 20),
    chance=st.floats(0, 1),
    policy=st.sampled_from([IDEMPOTENT, CONDITIONAL]),
)
def test_a_policy_bounds_attempts_and_time(kinds: list[str | None], took: float, chance: float, policy: Policy):
    clock, left, attempts = Time(), list(kinds), 0

    def attempt() -> str:
        nonlocal attempts
        attempts += 1
        began = clock.now
        assert began <= policy.within_s
        clock.pass_by(took)
        kind = left.pop(0) if left else None
        if kind is None:
            return "done"
        raise Failed(Failure(kind))  # pyright: ignore[reportArgumentType]

    retries = Retries(pause=clock.pass_by, now=lambda: clock.now, chance=lambda: chance)
    try:
        assert retries.run(policy, attempt) == "done"
    except Failed as failed:
        last = failed.failure.kind
        spent = attempts == policy.attempts or clock.now + policy.pause(attempts, last, 1.0) > policy.within_s
        assert last not in policy.again or spent
    assert attempts <= policy.attempts
