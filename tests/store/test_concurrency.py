"""Many writers and readers on one file: nothing is lost, nothing is half seen, and whoever waits too long is told so.

Writers are real processes and real threads; what they do is in `children.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from store.children import Item, ItemWithNote, Pair, Twin, open_items, write_batch

from ontologia import LockContentionError, OntologiaConfig, Ontology, SchemaOutdatedError
from ontologia.testing.faults import Child

SCRIPT = Path(__file__).with_name("children.py")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "onto.db")


def test_processes_that_write_at_once_lose_nothing(path: str) -> None:
    writers, commits = 4, 20
    open_items(path)
    children = [Child(SCRIPT, ["write", path, f"w{number}", commits]) for number in range(writers)]
    acknowledged = [int(line) for child in children for line in child.wait()]
    onto = open_items(path)
    assert sorted(acknowledged) == list(range(1, writers * commits + 1))
    assert onto.head() == writers * commits
    assert onto.query().entities(Item).count() == writers * commits + 1
    assert onto.query().entities(Item).with_history().where(Item.id == "shared").count() == writers * commits
    assert onto.verify() == []


def test_processes_that_create_one_store_at_once_share_it(path: str) -> None:
    children = [Child(SCRIPT, ["create", path]) for _ in range(5)]
    for child in children:
        child.say("go")
    assert sorted(int(line) for child in children for line in child.wait()) == [1, 2, 3, 4, 5]
    assert open_items(path).query().entities(Item).count() == 5


def test_threads_may_share_one_ontology(path: str) -> None:
    onto = open_items(path)

    def work(name: str) -> list[int | None]:
        found: list[int | None] = []
        for number in range(15):
            found.append(write_batch(onto, name, number, rows=3))
            mine = onto.query().entities(Item).where(Item.writer == name).collect()
            assert {item.number for item in mine} == {number}
        return found

    with ThreadPoolExecutor(6) as pool:
        acknowledged = [commit for commits in pool.map(work, "abcdef") for commit in commits]
    assert sorted(commit for commit in acknowledged if commit is not None) == list(range(1, 91))
    assert onto.verify() == []


def test_threads_that_share_one_store_in_memory_lose_nothing() -> None:
    onto = Ontology(":memory:", entity_types=[Item, Twin], relation_types=[Pair])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: [write_batch(onto, name, number, rows=2) for number in range(10)], "abcd"))
    assert onto.head() == 40
    assert onto.verify() == []
    onto.close()


def test_readers_see_whole_commits_only(path: str) -> None:
    onto = open_items(path)
    write_batch(onto, "w", 1)
    seen: set[int] = set()
    with Child(SCRIPT, ["batches", path, "w"]) as child:
        for _ in range(60):
            pairs = onto.query().relations(Pair).collect()
            numbers = {
                (pair.number, pair.left and pair.left.number, pair.right and pair.right.number) for pair in pairs
            }
            assert len(pairs) == 20
            assert len(numbers) == 1, "relations and their ends come from one moment"
            assert len(set(next(iter(numbers)))) == 1
            seen.add(pairs[0].number)
            items = onto.query().entities(Item).collect()
            assert len({item.number for item in items}) == 1
            child.next_line()
        child.kill()
    assert len(seen) > 5, "the writer was at work meanwhile"


def test_a_stream_shows_one_moment_while_others_write(path: str) -> None:
    onto = open_items(path)
    write_batch(onto, "w", 1, rows=3000)
    with Child(SCRIPT, ["batches", path, "w"]) as child:
        stream = iter(onto.query().entities(Item).order_by(Item.id))
        found = [next(stream)]
        for _ in range(5):
            child.next_line()
        found += list(stream)
        child.kill()
    assert len(found) == 3000
    assert {item.number for item in found} == {1}


def test_a_writer_that_waits_too_long_is_told_and_may_try_again(path: str) -> None:
    onto = open_items(path, settings={"lock_timeout_ms": 100})
    session = onto.session()
    session.ensure(Item(id="a", writer="w", number=1))
    with Child(SCRIPT, ["hold", path]) as child:
        assert child.next_line() == "held"
        with pytest.raises(LockContentionError) as caught:
            session.commit()
        assert caught.value.waited_ms == 100
        assert onto.query().entities(Item).count() == 0, "readers are not kept waiting"
        child.say("let go")
        assert child.next_line() == "free"
    assert session.commit() == 1


def test_a_writer_that_may_wait_gets_its_turn(path: str) -> None:
    onto = open_items(path)
    results: list[int | None] = []
    with Child(SCRIPT, ["hold", path]) as child:
        assert child.next_line() == "held"
        thread = threading.Thread(target=lambda: results.append(write_batch(onto, "w", 1)))
        thread.start()
        thread.join(0.1)
        assert thread.is_alive()
        child.say("let go")
        thread.join(30)
    assert results == [1]


def test_a_preview_and_a_migration_wait_for_the_lock_too(path: str) -> None:
    write_batch(open_items(path), "w", 1)
    config = OntologiaConfig(lock_timeout_ms=50)
    newer = Ontology(path, config, entity_types=[ItemWithNote])
    with Child(SCRIPT, ["hold", path]) as child:
        assert child.next_line() == "held"
        waits: list[Callable[[], object]] = [lambda: newer.migrate(apply=True, force=True)]
        for wait in waits:
            with pytest.raises(LockContentionError):
                wait()


def test_a_migration_refuses_those_who_still_write_the_old_type(path: str) -> None:
    old = open_items(path)
    write_batch(old, "w", 1)
    with Child(SCRIPT, ["until-refused", path, "late"]) as child:
        for _ in range(5):
            child.next_line()
        newer = Ontology(path, OntologiaConfig(lock_timeout_ms=60_000), entity_types=[ItemWithNote])
        newer.migrate(apply=True, force=True)
        *acknowledged, kind = child.wait()
    assert kind == "schema-outdated"
    stored = newer.query().entities(ItemWithNote).where(ItemWithNote.writer == "late")
    assert stored.count() == len(acknowledged)
    for read in (
        old.query().entities(Item).collect,
        old.query().entities(Item).count,
        old.query().relations(Pair).collect,
    ):
        with pytest.raises(SchemaOutdatedError):
            read()
    assert newer.verify() == []


def test_an_ontology_may_be_used_on_both_sides_of_a_fork(path: str) -> None:
    assert Child(SCRIPT, ["fork", path]).wait() == ["3"]
    assert open_items(path).verify() == []
