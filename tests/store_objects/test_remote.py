"""Large files read in place: only what a statement needs is read, and what goes wrong is told as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from store_objects.parquet_files import CountedObjects, commit, rows_of

from ontologia.config import OntologiaConfig
from ontologia.errors import IntegrityError, StorageBackendError
from ontologia.objects.cache import DiskCache
from ontologia.objects.port import Missing, Together
from ontologia.query.sql import Sql
from ontologia.store.objects.engine import Engine
from ontologia.store.objects.records import DataFile

Start = Callable[[], Engine]
KEYS = [f"k{number:06d}" for number in range(20_000)]


@pytest.fixture(scope="module")
def bucket() -> tuple[CountedObjects, DataFile]:
    """One file of 20 row groups, some hundred kilobytes."""
    objects = CountedObjects()
    return objects, commit(objects, 1, KEYS, row_group_size=1000)


@pytest.fixture
def objects(bucket: tuple[CountedObjects, DataFile]) -> CountedObjects:
    """A bucket with a copy of the large file."""
    copied = CountedObjects()
    copied.put(bucket[1].path, bucket[0].get(bucket[1].path).data)
    return copied


@pytest.fixture
def large(bucket: tuple[CountedObjects, DataFile]) -> DataFile:
    return bucket[1]


@pytest.fixture
def start(tmp_path: Path, objects: CountedObjects) -> Iterator[Start]:
    engines: list[Engine] = []
    together = Together(4)

    def started() -> Engine:
        config = OntologiaConfig(s3_cache_dir=str(tmp_path), s3_cache_file_bytes=100_000)
        engines.append(Engine(config, DiskCache(tmp_path, "s", 10**9), objects, together))
        return engines[-1]

    yield started
    for engine in engines:
        engine.close()
    together.close()


def select(engine: Engine, files: Sequence[DataFile], what: str, rest: str = "", *values: Any) -> Sql:
    return Sql(f"SELECT {what} FROM ") + engine.relation(files) + Sql(f" AS t {rest}", values)


def bytes_read(objects: CountedObjects) -> int:
    read = sum(size for _, size in objects.reads)
    objects.reads.clear()
    return read


def test_only_the_wanted_columns_and_row_groups_are_read(
    start: Start, objects: CountedObjects, large: DataFile
) -> None:
    engine, size = start(), large.size or 0
    statement = select(engine, [large], "balance", 'WHERE "entity_key" = ?', "k012345")
    assert bytes_read(objects) == 65_536
    rows = list(engine.rows(statement))
    assert rows == [(1 + 12_345 / 8,)]
    assert len(objects.reads) == 1
    assert bytes_read(objects) < size / 10
    # The first time through Arrow, the second time directly.
    assert list(engine.rows(statement)) == rows
    assert bytes_read(objects) < size / 10
    assert engine.one(select(engine, [large], 'SUM("visits")')) == (sum(n for n in range(20_000) if n % 5 != 4),)
    assert bytes_read(objects) < size / 3
    assert "Filters" in "\n".join(engine.plan(statement))


def test_all_rows_are_those_of_the_file(start: Start, large: DataFile) -> None:
    engine = start()
    rows = list(engine.rows(select(engine, [large], "*", 'ORDER BY "entity_key"')))
    assert rows == [
        tuple(int(value) if isinstance(value, bool) else value for value in row.values()) for row in rows_of(1, KEYS)
    ]


def test_the_footer_is_fetched_once_for_all_processes(start: Start, objects: CountedObjects, large: DataFile) -> None:
    start().relation([large])
    assert len(objects.reads) == 1
    for engine in (start(), start()):
        engine.relation([large])
    assert len(objects.reads) == 1


def test_small_and_large_files_are_read_together(start: Start, objects: CountedObjects, large: DataFile) -> None:
    small = [commit(objects, number, ["k000007", "new"]) for number in range(2, 12)]
    engine = start()
    statement = select(engine, [large, *small], "commit_id", 'WHERE "entity_key" = ? ORDER BY 1', "k000007")
    assert [row[0] for row in engine.rows(statement)] == list(range(1, 12))
    assert engine.one(select(engine, [large, *small], "COUNT(*)")) == (20_020,)
    bytes_read(objects)
    latest = (
        'WHERE "commit_id" <= 5 QUALIFY ROW_NUMBER() OVER (PARTITION BY "entity_key" ORDER BY "commit_id" DESC) = 1'
    )
    found = select(engine, [large, *small], 'COUNT(*) OVER (), MAX("commit_id") OVER ()', latest)
    assert engine.one(found) == (20_008, 5)
    assert bytes_read(objects) < (large.size or 0) / 2
    plan = "\n".join(engine.plan(statement))
    assert plan.count("'k000007'") == 2


def test_several_large_files_are_one_relation(start: Start, objects: CountedObjects, large: DataFile) -> None:
    other = commit(objects, 2, KEYS[:7000], row_group_size=500)
    engine = start()
    assert engine.one(select(engine, [large, other], 'COUNT(*), SUM("commit_id")')) == (27_000, 34_000)


def test_two_relations_in_one_statement_do_not_meet(start: Start, objects: CountedObjects, large: DataFile) -> None:
    other = commit(objects, 2, KEYS[:7000], row_group_size=500)
    engine = start()
    both = (
        Sql("SELECT COUNT(*) FROM ")
        + engine.relation([large])
        + Sql(" AS a JOIN ")
        + engine.relation([other])
        + Sql(" AS b USING (entity_key)")
    )
    assert list(engine.rows(both)) == [(7000,)]


def test_a_large_footer_is_read_whole(start: Start, objects: CountedObjects) -> None:
    one = commit(objects, 3, KEYS, row_group_size=20)
    engine = start()
    statement = select(engine, [one], "COUNT(*)", 'WHERE "entity_key" >= ?', KEYS[19_970])
    assert len(objects.reads) == 2
    assert engine.one(statement) == (30,)


def test_a_large_object_that_is_gone_is_missing_from_the_start(
    start: Start, objects: CountedObjects, large: DataFile
) -> None:
    objects.delete(large.path)
    with pytest.raises(Missing, match="commits/1-a1"):
        start().relation([large])


def test_a_large_object_that_goes_while_it_is_read_is_missing(
    start: Start, objects: CountedObjects, large: DataFile
) -> None:
    engine = start()
    statement = select(engine, [large], "*")
    objects.delete(large.path)
    for _ in range(2):
        with pytest.raises(Missing, match="commits/1-a1"):
            list(engine.rows(statement))


def test_a_failing_request_is_told_as_it_is(start: Start, objects: CountedObjects, large: DataFile) -> None:
    engine = start()
    statement = select(engine, [large], "*")
    failure = StorageBackendError("The server is tired.", operation="get")

    def fail(key: str, start: int, end: int) -> bytes:
        raise failure

    objects.get_range = fail
    with pytest.raises(StorageBackendError) as raised:
        list(engine.rows(statement))
    assert raised.value is failure
    del objects.get_range


@pytest.mark.parametrize("place", ["pages", "footer", "end"])
def test_a_damaged_large_object_is_named(start: Start, objects: CountedObjects, large: DataFile, place: str) -> None:
    data = objects.get(large.path).data
    length = int.from_bytes(data[-8:-4], "little")
    first = {"pages": 100, "footer": len(data) - length - 8, "end": len(data) - 20}[place]
    objects.put(large.path, data[:first] + b"\xff" * min(20_000, len(data) - first - 10 * (place == "footer")))
    if place != "end":
        damaged = bytearray(data)
        damaged[first : first + 2000] = b"\xff" * 2000
        objects.put(large.path, bytes(damaged))
    engine = start()
    with pytest.raises(IntegrityError) as raised:
        list(engine.rows(select(engine, [large], "*")))
    assert raised.value.key == large.path


def test_a_key_written_again_gets_its_new_footer(start: Start, objects: CountedObjects, large: DataFile) -> None:
    engine = start()
    engine.relation([large])
    smaller = commit(objects, 1, KEYS[:9000], row_group_size=1000)
    assert smaller.path == large.path
    assert engine.one(select(engine, [smaller], "COUNT(*)")) == (9000,)


def test_an_error_of_the_statement_does_not_blame_the_file(start: Start, large: DataFile) -> None:
    engine = start()
    with pytest.raises(StorageBackendError, match="my own"):
        list(engine.rows(select(engine, [large], "error('my own')")))


def test_forgetting_a_large_object_forgets_its_footer(
    start: Start, objects: CountedObjects, large: DataFile, tmp_path: Path
) -> None:
    start().relation([large])
    DiskCache(tmp_path, "s", 10**9).forget(large.path)
    start().relation([replace(large)])
    assert len(objects.reads) == 2
