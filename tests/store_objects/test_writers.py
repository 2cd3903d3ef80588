"""Several writers at once, each a process of its own: nothing is lost or half seen, nobody commits over another.

The server may misbehave, leases may be too short for the work, and a writer may stand still at the worst moment.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from store_objects.buckets import HEAD, LOCK, Bucket
from store_objects.counted import Customer, Subscription, write
from store_objects.nursery import Forked, Nursery
from store_objects.shops import batch, numbers, opened

from ontologia import Ontology

WRITERS = 4
COMMITS = 12
PATIENT = {"s3_lock_timeout_ms": 60_000}


def outcomes(children: list[Forked]) -> list[list[list[str]]]:
    """What each writer said, line by line and word by word."""
    return [[line.split() for line in child.wait()] for child in children]


def assert_log(bucket: Bucket, said: list[list[list[str]]], *, all_done: bool) -> None:
    """Ids are 1, 2, 3 …; each is one writer's; whatever was acknowledged is there, and each writer's in its order."""
    with Ontology(storage_uri=bucket.uri, config=bucket.config, entity_types=[Customer]) as onto:
        head = onto.head()
        log = {one.commit_id: one.runtime_id for one in onto.list_commits()}
        assert sorted(log) == list(range(1, head + 1))
        acknowledged = {int(words[1]): f"w{at}" for at, lines in enumerate(said) for words in lines if words[0] == "ok"}
        assert len(acknowledged) == sum(words[0] == "ok" for lines in said for words in lines), "each id once"
        assert {number: log[number] for number in acknowledged} == acknowledged
        for lines in said:
            own = [int(words[1]) for words in lines if words[0] == "ok"]
            assert own == sorted(own)
        unknown = sum(words[0] == "commit-state-unknown" for lines in said for words in lines)
        assert len(acknowledged) <= head <= len(acknowledged) + unknown
        if all_done:
            assert head == len(acknowledged)
        rows = onto.query().entities(Customer)
        written = Counter(one.name for one in rows if one.id != "shared")
        for at in range(len(said)):
            assert written[f"w{at}"] == list(log.values()).count(f"w{at}")
        shared = onto.query().entities(Customer).with_history().where(Customer.id == "shared")
        assert [one.meta().commit_id for one in shared] == list(range(1, head + 1)), "every commit changed the same row"
        assert [finding for finding in onto.verify() if finding.severity == "error"] == []


def test_processes_that_write_at_once_lose_nothing(nursery: Nursery, store: Bucket, tmp_path: Path) -> None:
    children = [
        nursery.start("write", store, f"w{at}", COMMITS, s3_cache_dir=str(tmp_path / f"machine{at % 2}"), **PATIENT)
        for at in range(WRITERS)
    ]
    said = outcomes(children)
    assert [words[0] for lines in said for words in lines] == ["ok"] * WRITERS * COMMITS
    assert_log(store, said, all_done=True)
    with opened(store.uri, store.config) as onto:
        assert onto.verify_index() == []
        assert onto.storage_info()["last_index_warning"] is None
    assert LOCK not in store.tags()
    assert store.onto("verify").code == 0


def test_processes_on_a_server_that_misbehaves_lose_nothing(nursery: Nursery, store: Bucket, tmp_path: Path) -> None:
    children = [
        nursery.start("write", store, f"w{at}", COMMITS, 0.1, s3_lease_ttl_ms=1500, s3_lock_timeout_ms=10_000)
        for at in range(3)
    ]
    said = outcomes(children)
    words = Counter(words[0] for lines in said for words in lines)
    assert words["ok"] + words["commit-state-unknown"] == 3 * COMMITS
    assert len(words) > 1, "the server did misbehave"
    assert_log(store, said, all_done=False)
    with opened(store.uri, store.config.model_copy(update=PATIENT)) as onto:
        write(onto, Customer(id="last", name="x"))
        assert onto.verify_index() == []


def test_leases_too_short_for_the_work_lose_nothing(nursery: Nursery, store: Bucket, tmp_path: Path) -> None:
    """Writers take over from each other while the other is still at it; whoever is too late writes nothing."""
    children = [
        nursery.start("write", store, f"w{at}", 6, 0.08, 0.25, s3_lease_ttl_ms=300, s3_lock_timeout_ms=10_000)
        for at in range(3)
    ]
    assert_log(store, outcomes(children), all_done=False)


def stands_still(slow: Forked) -> None:
    """Wait until a process has stopped itself."""
    assert slow.next_line() == "stopped"
    while Path(f"/proc/{slow.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        os.sched_yield()


@pytest.mark.parametrize(
    ("point", "ended"),
    [
        (("after", "put", "commits/*/manifest.json"), ["lease-expired"]),
        (("before", "replace", HEAD), ["committed 3", "head-mismatch"]),
    ],
    ids=["before-the-guard", "after-the-guard"],
)
def test_a_writer_that_stood_still_past_its_lease_never_commits_over_another(
    nursery: Nursery, store: Bucket, tmp_path: Path, point: tuple[str, str, str], ended: list[str]
) -> None:
    with opened(store.uri, store.config.model_copy(update=PATIENT)) as onto:
        write(onto, Customer(id="shared", name="first"))
        slow = nursery.start("pause", store, *point, s3_lease_ttl_ms=300, s3_cache_dir=str(tmp_path / "slow"))
        stands_still(slow)
        assert write(onto, Customer(id="shared", name="second")) == 2
        slow.signal(signal.SIGCONT)
        said = slow.wait()
        assert said[1] in ended
        head = 3 if said[1] == "committed 3" else 2
        assert said[2] == f"head {head}"
        history = onto.query().entities(Customer).with_history().where(Customer.id == "shared")
        names = ["first", "second", "paused"][:head]
        assert [(one.meta().commit_id, one.name) for one in history] == list(enumerate(names, 1))
        assert onto.query().entities(Customer).where(Customer.id == "paused").count() == head - 2
        assert onto.verify() == []
        assert write(onto, Customer(id="shared", name="last")) == head + 1
        assert onto.verify_index() == []


def test_a_writer_that_stood_still_while_nobody_came_goes_on(nursery: Nursery, store: Bucket) -> None:
    slow = nursery.start("pause", store, "before", "replace", HEAD, s3_lease_ttl_ms=300)
    stands_still(slow)
    slow.signal(signal.SIGCONT)
    assert slow.wait()[1:] == ["committed 1", "head 1"]
    assert store.head() == 1


def test_readers_see_whole_commits_while_others_write(nursery: Nursery, store: Bucket, tmp_path: Path) -> None:
    with opened(store.uri, store.elsewhere(tmp_path / "reader").config) as onto:
        with opened(store.uri, store.config) as writer:
            batch(writer, 1)
        seen: set[int] = set()
        child = nursery.start("batches", store, **PATIENT)
        for turn in range(12):
            child.next_line()
            if turn == 5:
                with opened(store.uri, store.config.model_copy(update=PATIENT)) as keeper:
                    keeper.compact(apply=True)
            found = {one.seats for one in onto.query().relations(Subscription)}
            assert len(found) == 1, "a commit was seen in part"
            pairs = onto.query().relations(Subscription).collect()
            ends = {(p.seats, p.left and p.left.tier, p.right and p.right.price) for p in pairs}
            assert len(ends) == 1, "relations and their ends come from one moment"
            number = next(iter(ends))[0]
            assert ends == {(number, f"tier-{number}", float(number))}
            seen.add(number)
            past = onto.head() - 1
            assert numbers(onto, past) == {past}
        child.signal(signal.SIGKILL)
        child.wait(expect=-9)
        assert len(seen) > 5, "the writer was at work meanwhile"
