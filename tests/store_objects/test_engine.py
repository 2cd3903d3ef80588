"""The engine: the right rows from local files, whatever happens to these files, within its memory and nothing else."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from store_objects.parquet_files import SCHEMA, CountedObjects, commit, rows_of, stored

from ontologia.config import OntologiaConfig
from ontologia.errors import IntegrityError, StorageBackendError
from ontologia.objects.cache import DiskCache
from ontologia.objects.port import Held, Missing, Together
from ontologia.query.sql import NotNative, Sql
from ontologia.store.objects.engine import Engine
from ontologia.store.objects.records import DataFile

Start = Callable[..., Engine]


@pytest.fixture
def objects() -> CountedObjects:
    return CountedObjects()


@pytest.fixture
def start(tmp_path: Path, objects: CountedObjects) -> Iterator[Start]:
    """Engines on one cache, as different processes have them."""
    engines: list[Engine] = []
    together = Together(4)

    def started(root: Path = tmp_path, **settings: Any) -> Engine:
        config = OntologiaConfig(s3_cache_dir=str(root), **settings)
        cache = DiskCache(config.cache_path, "s", config.s3_cache_bytes)
        engines.append(Engine(config, cache, objects, together))
        return engines[-1]

    yield started
    for engine in engines:
        engine.close()
    together.close()


def select(engine: Engine, files: Sequence[DataFile], what: str = "*", rest: str = "", *values: Any) -> Sql:
    return Sql(f"SELECT {what} FROM ") + engine.relation(files) + Sql(f" AS t {rest}", values)


def in_order(engine: Engine, files: Sequence[DataFile]) -> Sql:
    return select(engine, files, "*", 'ORDER BY "commit_id", "entity_key"')


def expected(numbers: Sequence[int], keys: Sequence[str]) -> list[tuple[Any, ...]]:
    return [
        tuple(int(value) if isinstance(value, bool) else value for value in row.values())
        for number in numbers
        for row in rows_of(number, keys)
    ]


KEYS = ["a", "b", "c"]


def test_rows_are_those_of_the_files_with_truth_values_as_integers(start: Start, objects: CountedObjects) -> None:
    files = [commit(objects, number, KEYS) for number in range(1, 21)]
    engine = start()
    # The first time through Arrow, the second time directly.
    for _ in range(2):
        rows = list(engine.rows(in_order(engine, files)))
        assert rows == expected(range(1, 21), KEYS)
        assert {type(row[7]) for row in rows} == {int, type(None)}
    assert engine.one(in_order(engine, files)) == expected([1], KEYS)[0]
    assert engine.arrow(in_order(engine, files)).num_rows == 60
    assert engine.one(select(engine, files, "*", "WHERE FALSE")) is None


def test_both_ways_to_fetch_give_what_duckdb_gives(start: Start, objects: CountedObjects) -> None:
    files = [commit(objects, 1, KEYS)]
    engine = start()
    what = (
        "SUM(visits), COUNT(*), AVG(balance), MAX(name), 170141183460469231731687303715884105727::HUGEINT,"
        " 'x'::BLOB, NULL, [1, 2], '\x00é𝄞', -0.0::DOUBLE, 'nan'::DOUBLE, 9223372036854775807"
    )
    raw = duckdb.connect()
    given = raw.execute(f"SELECT {what} FROM read_parquet(?)", list(select(engine, files).params)).fetchall()
    raw.close()
    for _ in range(2):
        rows = list(engine.rows(select(engine, files, what)))
        assert repr(rows) == repr(given)
    many = select(engine, files, "i, i % 2 = 0", ", range(2500) AS r(i) WHERE entity_key = 'a' ORDER BY i")
    assert list(engine.rows(many)) == [(i, int(i % 2 == 0)) for i in range(2500)]
    engine._lengths.note(many.text, 1)
    assert list(engine.rows(many)) == [(i, int(i % 2 == 0)) for i in range(2500)]


def test_every_file_is_fetched_once_for_all_processes(start: Start, objects: CountedObjects) -> None:
    files = [commit(objects, number, KEYS) for number in range(1, 31)]
    one, engine = start(), start()
    for each in (one, engine):
        assert len(list(each.rows(in_order(each, files)))) == 90
    assert sorted(key for key, _ in objects.reads) == sorted(one.path for one in files)
    files.append(commit(objects, 31, KEYS))
    assert len(list(engine.rows(in_order(engine, files)))) == 93
    assert len(objects.reads) == 31


def test_files_are_fetched_side_by_side(start: Start, objects: CountedObjects) -> None:
    files = [commit(objects, number, KEYS) for number in range(1, 5)]
    barrier = threading.Barrier(4, timeout=20)
    fetch = objects.get

    def meeting(key: str) -> Held:
        barrier.wait()
        return fetch(key)

    objects.get = meeting
    start().relation(files)


def test_files_of_unknown_size_and_hash_are_read(start: Start, objects: CountedObjects) -> None:
    files = [
        replace(commit(objects, number, KEYS), size=None, content_sha256=None, row_count=None)
        for number in range(1, 21)
    ]
    engine = start()
    assert list(engine.rows(in_order(engine, files))) == expected(range(1, 21), KEYS)


def test_columns_that_some_files_lack_are_null_in_them(start: Start, objects: CountedObjects) -> None:
    wider = SCHEMA.append(pa.field("more", pa.string()))
    files = [commit(objects, 1, KEYS), stored(objects, 2, [*rows_of(2, KEYS)], schema=wider)]
    engine = start()
    assert list(engine.rows(select(engine, files, "COUNT(*), COUNT(more)"))) == [(6, 0)]


def test_a_file_that_is_not_there_is_missing(start: Start, objects: CountedObjects) -> None:
    files = [commit(objects, number, KEYS) for number in range(1, 4)]
    objects.delete(files[1].path)
    with pytest.raises(Missing, match=files[1].path):
        start().relation(files)


@pytest.mark.parametrize("folder", ["we[i]rd *?", "type=a", "it's", "ü{a,b}"])
def test_the_cache_may_lie_anywhere(start: Start, objects: CountedObjects, tmp_path: Path, folder: str) -> None:
    files = [commit(objects, number, KEYS) for number in range(1, 4)]
    decoy = tmp_path / "weird xy" / "s/objects/commits/1-a1/entities/!customer.parquet"
    decoy.parent.mkdir(parents=True)
    decoy.write_bytes(b"not this one")
    engine = start(tmp_path / folder)
    assert list(engine.rows(in_order(engine, files))) == expected(range(1, 4), KEYS)


def test_filters_and_columns_are_pushed_down(start: Start, objects: CountedObjects) -> None:
    engine = start()
    statement = select(engine, [commit(objects, 1, KEYS)], '"name"', 'WHERE "entity_key" = ?', "a")
    plan = "\n".join(engine.plan(statement))
    assert "READ_PARQUET" in plan
    assert "Filters: entity_key = 'a'" in plan
    assert "fields_json" not in plan


def test_files_swept_before_the_statement_runs_are_fetched_again(start: Start, objects: CountedObjects) -> None:
    files = [commit(objects, number, KEYS) for number in range(1, 31)]
    engine = start()
    statement = in_order(engine, files)
    for path in statement.params[0]:
        Path(path).unlink()
    assert list(engine.rows(statement)) == expected(range(1, 31), KEYS)


@pytest.mark.parametrize("known", [True, False], ids=["with a hash", "without one"])
def test_files_damaged_on_disk_are_fetched_again(start: Start, objects: CountedObjects, known: bool) -> None:  # noqa: FBT001
    files = [commit(objects, number, KEYS) for number in range(1, 4)]
    if not known:
        files = [replace(one, content_sha256=None) for one in files]
    engine = start()
    statement = in_order(engine, files)
    for path in statement.params[0]:
        data = Path(path).read_bytes()
        Path(path).write_bytes(data[:100] + b"\xff" * 300 + data[400:])
    assert list(engine.rows(statement)) == expected(range(1, 4), KEYS)


def test_damaged_segments_are_made_again(start: Start, objects: CountedObjects) -> None:
    files = [commit(objects, number, KEYS) for number in range(1, 31)]
    engine = start()
    engine.relation(files)
    statement = in_order(engine, files)
    assert len(statement.params[0]) < 10
    for path in statement.params[0]:
        Path(path).write_bytes(b"PAR1 is not all of it PAR1")
    assert list(engine.rows(statement)) == expected(range(1, 31), KEYS)


def test_an_object_that_is_no_parquet_file_is_named_and_not_kept(
    start: Start, objects: CountedObjects, tmp_path: Path
) -> None:
    good, bad = commit(objects, 1, KEYS), commit(objects, 2, KEYS)
    data = objects.get(bad.path).data
    broken = data[:100] + b"\xff" * 500 + data[600:]
    objects.put(bad.path, broken)
    bad = replace(bad, content_sha256=hashlib.sha256(broken).hexdigest())
    engine = start()
    with pytest.raises(IntegrityError) as raised:
        list(engine.rows(in_order(engine, [good, bad])))
    assert raised.value.key == bad.path
    kept = {path.parent.parent.name for path in tmp_path.rglob("*.parquet")}
    assert kept == {"1-a1"}


def test_what_is_too_deep_is_not_native(start: Start, objects: CountedObjects) -> None:
    engine = start()
    files = [commit(objects, 1, KEYS)]
    with pytest.raises(NotNative):
        engine.rows(select(engine, files, "*", "WHERE " + "NOT " * 3000 + "TRUE"))


def test_other_failures_are_told_before_the_first_row_is_asked_for(start: Start, objects: CountedObjects) -> None:
    engine = start()
    with pytest.raises(StorageBackendError, match="nonsense"):
        engine.rows(select(engine, [commit(objects, 1, KEYS)], "nonsense"))


def test_a_failure_in_the_middle_is_told_the_same_way(start: Start, objects: CountedObjects) -> None:
    engine = start()
    files = [commit(objects, 1, KEYS)]
    what = "CASE WHEN i > 99000 THEN error('too late') ELSE i END"
    rows = engine.rows(select(engine, files, what, ", range(100000) AS r(i) WHERE entity_key = 'a'"))
    with pytest.raises(StorageBackendError, match="too late"):
        list(rows)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_text('/etc/hostname')",
        "COPY (SELECT 1) TO '/tmp/ontologia-escaped.csv'",
        "ATTACH '/tmp/ontologia-escaped.db'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SELECT * FROM objects",
    ],
)
def test_nothing_but_the_cache_can_be_reached(start: Start, text: str) -> None:
    objects = [1]
    with pytest.raises(StorageBackendError):
        start().one(Sql(text))
    assert objects == [1]


def test_a_sort_larger_than_the_memory_limit_spills(start: Start, objects: CountedObjects, tmp_path: Path) -> None:
    engine = start(s3_duckdb_memory_limit="64MB")
    files = [commit(objects, 1, ["a"])]
    what, rest = "i, md5(i::VARCHAR) || repeat('x', 250) AS s", ", range(400000) AS r(i) ORDER BY s"
    rows = engine.rows(select(engine, files, what, rest))
    first = next(rows)
    spilled = sum(path.stat().st_size for path in (tmp_path / ".spill").rglob("*") if path.is_file())
    assert spilled > 30_000_000
    assert first[1].startswith("0000")
    assert sum(1 for _ in rows) == 399_999
    engine.close()
    assert not list((tmp_path / ".spill").iterdir())


def test_a_limit_too_small_is_explained(start: Start, objects: CountedObjects) -> None:
    engine = start(s3_duckdb_memory_limit="1MB")
    with pytest.raises(StorageBackendError, match="s3_duckdb_memory_limit"):
        engine.one(select(engine, [commit(objects, 1, KEYS)], "list(i)", ", range(5000000) AS r(i)"))


def test_a_stream_does_not_hold_the_whole_result(start: Start, objects: CountedObjects) -> None:
    engine = start(s3_duckdb_memory_limit="32MB")
    rows = engine.rows(
        select(engine, [commit(objects, 1, ["a"])], "repeat('x', 1000) || i::VARCHAR", ", range(1000000000) AS r(i)")
    )
    assert len([next(rows) for _ in range(20_000)]) == 20_000
    del rows
    assert engine.one(Sql("SELECT 1")) == (1,)


def test_the_files_of_a_statement_stay_while_it_lives(start: Start, objects: CountedObjects) -> None:
    engine = start(s3_cache_bytes=1)
    files = [commit(objects, number, KEYS) for number in range(1, 4)]
    statement = in_order(engine, files)
    other = commit(objects, 9, KEYS)
    assert len(list(engine.rows(in_order(engine, [other])))) == 3
    rows = engine.rows(statement)
    del statement
    assert len(list(engine.rows(in_order(engine, [other])))) == 3
    assert list(rows) == expected(range(1, 4), KEYS)
    assert len([key for key, _ in objects.reads if key != other.path]) == 3


def test_threads_read_at_once_while_files_are_added(start: Start, objects: CountedObjects) -> None:
    files = [commit(objects, number, KEYS) for number in range(1, 81)]
    engine = start()

    def read(last: int) -> bool:
        return list(engine.rows(in_order(engine, files[:last]))) == expected(range(1, last + 1), KEYS)

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(read, [1 + (number * 37) % 80 for number in range(40)]))


def test_fifty_thousand_rows_come_about_as_fast_as_duckdb_gives_them(start: Start, objects: CountedObjects) -> None:
    table = pa.table(
        {
            "commit_id": pa.array(range(50_000), pa.int64()),
            "entity_key": [f"key{number:08d}" for number in range(50_000)],
            "name": [f"name {number}" if number % 5 else None for number in range(50_000)],
            "visits": pa.array([number if number % 7 else None for number in range(50_000)], pa.int64()),
            "balance": [number / 8 for number in range(50_000)],
            "active": [number % 2 == 0 for number in range(50_000)],
        }
    )
    one = stored(objects, 1, table.to_pylist(), schema=table.schema)
    engine = start()
    statement = select(engine, [one])
    raw = duckdb.connect()
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(7):
        begun = time.perf_counter()
        assert sum(1 for _ in engine.rows(statement)) == 50_000
        ours.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        assert len(raw.execute(statement.text, list(statement.params)).fetchall()) == 50_000
        theirs.append(time.perf_counter() - begun)
    raw.close()
    assert min(ours) < 1.3 * min(theirs)


PROGRAM = """
import os, sys
from pathlib import Path
from store_objects.parquet_files import CountedObjects, commit
from ontologia.config import OntologiaConfig
from ontologia.objects.cache import DiskCache
from ontologia.objects.port import Together
from ontologia.query.sql import Sql
from ontologia.store.objects.engine import Engine

root, size = Path(sys.argv[1]), int(sys.argv[2])
objects = CountedObjects()
files = [commit(objects, number, ["a", "b", "c"]) for number in range(1, 21)]
config = OntologiaConfig(s3_cache_dir=str(root), s3_cache_bytes=size, s3_cache_file_bytes=int(sys.argv[3]))
engine = Engine(config, DiskCache(root, "s", size), objects, Together(4))

def count(files=files):
    return engine.one(Sql("SELECT COUNT(*) FROM ") + engine.relation(files) + Sql(" AS t"))[0]
"""


def run(program: str, *arguments: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PROGRAM + program, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def test_a_forked_child_reads_with_a_database_of_its_own(tmp_path: Path) -> None:
    child = """
assert count() == 60
child = os.fork()
if child == 0:
    assert count() == 60
    assert engine._database._process == os.getpid()
    DiskCache(root, "s", size).forget("")
    assert count(files[:12]) == 36
    print("child", flush=True)
    os._exit(0)
print(os.waitpid(child, 0)[1])
for forget in (False, True):
    idle = os.fork()
    if idle == 0:
        if forget:
            del engine
        sys.exit(0)
    print(os.waitpid(idle, 0)[1])
assert count() == 60
"""
    output, _ = run(child, tmp_path, 10**9, 10**9).communicate(timeout=60)
    assert output == "child\n0\n0\n0\n"


@pytest.mark.parametrize("largest", [10**9, 100], ids=["local files", "files in place"])
def test_an_engine_that_nobody_closes_ends_quietly(tmp_path: Path, largest: int) -> None:
    program = "assert count() == 60\nrows = engine.rows(Sql('SELECT * FROM range(1000000)'))\nnext(rows)\nprint('end')"
    child = run(program, tmp_path, 10**9, largest)
    assert child.communicate(timeout=60) == ("end\n", "")
    assert child.returncode == 0
    assert not list((tmp_path / ".spill").iterdir())


def test_two_processes_read_through_a_cache_that_holds_almost_nothing(tmp_path: Path) -> None:
    program = "for last in [20, 3, 11, 20, 15, 4]:\n    assert count(files[:last]) == 3 * last\nprint('end')"
    children = [run(program, tmp_path, 3000, 10**9) for _ in range(2)]
    for child in children:
        output, errors = child.communicate(timeout=60)
        assert (output, errors) == ("end\n", "")
