"""The store on S3 against the bare requests and raw DuckDB, as ratios of one run on a real server on this machine.

The raw side sends the same bytes in the same order with nothing in between, or reads the same rows from one Parquet
file. Requests are counted beside it. Ends with exit code 1 when a line misses its bound; `--quick` never does.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from measure import Result, conclude, fact, race, rate, seconds, show_progress, within

from ontologia import Entity, Field, OntologiaConfig, Ontology
from ontologia.base.clock import SystemClock
from ontologia.objects.counting import CountingObjects
from ontologia.objects.port import Objects
from ontologia.objects.s3 import open_objects
from ontologia.store.objects.backend import ObjectsBackend
from ontologia.store.objects.initialise import initialise

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
import s3server

HEAD, LOCK, TYPES = "meta/head.json", "meta/locks/ontology_write.json", "meta/schema/types.json"
RESULTS = Path(__file__).with_name("results") / "objects.json"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much work each line does."""

    commits: int = 1_000
    types: int = 20
    rows: int = 200
    turns: int = 40
    bulk: int = 100_000
    rounds: int = 5

    def quick(self) -> Sizes:
        """Enough to see that every line runs; too little to judge by."""
        return replace(self, commits=60, types=4, rows=20, turns=3, bulk=2_000, rounds=1)


class Item(Entity, abstract=True):
    id: Field[str] = Field(primary_key=True)
    tier: Field[str]
    score: Field[int]
    balance: Field[float]


@contextmanager
def server() -> Generator[str]:
    """A server of this run's own, and the credentials for it."""
    os.environ.update(s3server.credentials())
    running = s3server.start_seaweedfs()
    try:
        s3server.ensure_bucket(running.endpoint)
        yield running.endpoint
    finally:
        running.stop()


def item_types(number: int) -> list[type[Any]]:
    """So many types of the same shape."""
    return [cast("type[Any]", type(f"Item{n}", (Item,), {"__annotations__": {}})) for n in range(number)]


def items(cls: type[Any], commit: int, rows: int) -> list[Any]:
    """The rows of one commit; a fifth of them replace rows of the one before."""
    first = commit * rows - (rows // 5 if commit else 0)
    tiers = ("Gold", "Silver", "Standard", "Standard")
    return [
        cls(id=f"k{n:08d}", tier=tiers[n % 4], score=n % 1000 + commit, balance=n * 0.25)
        for n in range(first, first + rows)
    ]


@dataclass(frozen=True, slots=True)
class Place:
    """One server, and a folder for caches."""

    endpoint: str
    folder: Path

    def config(self, cache: str) -> OntologiaConfig:
        return OntologiaConfig(
            s3_endpoint_url=self.endpoint, s3_region=s3server.REGION, s3_cache_dir=str(self.folder / cache)
        )

    def store(self, types: list[type[Any]], cache: str = "cache", uri: str = "") -> tuple[Ontology, CountingObjects]:
        """A store whose requests are counted; a new one unless a URI is given."""
        config = self.config(cache)
        if not uri:
            uri = s3server.fresh_uri()
            initialise(uri, config)
        counter = CountingObjects(open_objects(uri, config))
        onto = Ontology(backend=ObjectsBackend(counter, config, SystemClock()), config=config, entity_types=types)
        counter.reset()
        return onto, counter


def commit(onto: Ontology, rows: list[Any]) -> None:
    with onto.session() as session:
        session.ensure(rows)
        session.commit()


def small_commits(place: Place, sizes: Sizes) -> Iterator[Result]:
    """One-row commits against the requests that they consist of."""
    types = item_types(3)
    onto, counter = place.store(types)
    for cls in types:
        commit(onto, items(cls, 0, 10))
    bare = _BareCommit(open_objects(s3server.fresh_uri(), place.config("raw")))
    numbers = count(1)

    def ours() -> float:
        rows = [items(types[0], next(numbers), 1) for _ in range(sizes.turns)]
        return seconds(lambda: [commit(onto, one) for one in rows])

    def raw() -> float:
        bare.record(onto, counter, items(types[0], next(numbers), 1))
        return seconds(lambda: [bare.run() for _ in range(sizes.turns)])

    times = race(ours, raw, sizes.rounds)
    bare.close()
    yield within("commit.latency", f"{sizes.turns} one-row commits, 3 types", times, 1.3)
    yield from _requests(onto, counter, types, sizes)
    onto.close()


def _requests(onto: Ontology, counter: CountingObjects, types: list[type[Any]], sizes: Sizes) -> Iterator[Result]:
    most = 8 + len(types)
    counter.reset()
    commit(onto, items(types[0], 10_000, 1))
    requests, steps = counter.count, counter.steps
    yield fact("commit.requests", "  requests of one", str(requests), f"<= {most}", passed=requests <= most)
    yield fact("commit.steps", "  one after the other", str(steps), "<= 6", passed=steps <= 6)
    counter.reset()
    commit(onto, items(types[0], 20_000, sizes.bulk))
    requests = counter.count
    name = f"  requests of {sizes.bulk} rows"
    yield fact("commit.bulk", name, str(requests), f"<= {most}", passed=requests <= most)


class _BareCommit:
    """The requests of a commit with nothing in between, and with the bytes that a real one has just sent."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._bodies: dict[str, bytes] = {}
        self._pool = ThreadPoolExecutor(8)

    def record(self, onto: Ontology, counter: CountingObjects, rows: list[Any]) -> None:
        """Commit for real, and keep what was sent."""
        counter.reset()
        commit(onto, rows)
        written = {key for method, key in counter.requests if method in {"put", "create", "replace"}} - {LOCK}
        self._bodies = {key: counter.inner.get(key).data for key in written}
        self._objects.put(HEAD, self._bodies[HEAD])
        self._objects.put(TYPES, b"{}")

    def run(self) -> None:
        objects = self._objects
        tag = objects.create(LOCK, b"x" * 230)
        types = self._pool.submit(objects.get, TYPES)
        head = objects.get(HEAD)
        types.result()
        self._put("commits/")
        objects.replace(HEAD, self._bodies[HEAD], head.etag)
        self._put("meta/indices/")
        objects.delete(LOCK, if_match=tag)

    def _put(self, prefix: str) -> None:
        def put(key: str) -> str:
            return self._objects.put(key, self._bodies[key])

        list(self._pool.map(put, [key for key in self._bodies if key.startswith(prefix)]))

    def close(self) -> None:
        self._pool.shutdown()
        self._objects.close()


def long_history(place: Place, sizes: Sizes) -> Iterator[Result]:
    """Queries over a long history of many types, against the same rows in one Parquet file."""
    types = item_types(sizes.types)
    onto, _ = place.store(types, "writer")
    uri = onto.storage_info()["uri"]
    for number in range(sizes.commits):
        commit(onto, items(types[number % sizes.types], number // sizes.types, sizes.rows))
        show_progress(f"history: commit {number + 1} of {sizes.commits}")
    cls = types[0]
    one = place.folder / "one.parquet"
    pq.write_table(_rows_of(onto, cls), one, compression="zstd")
    yield from _cold(place, types, uri, sizes)
    reader, _ = place.store(types, "reader", uri)
    yield from _warm(reader, cls, one, sizes)
    reader.close()
    files = sizes.commits // sizes.types
    compaction = onto.compact(apply=True)
    yield fact(
        "compact.files", f"compaction of {files} files a type", f"{len(compaction.rewrites)} written", "", passed=True
    )
    cold, counter = place.store(types, "compacted", uri)
    cold.query().entities(cls).collect()
    yield fact(
        "cold.compacted", "cold query after compaction", f"{counter.count} req", "<= 4", passed=counter.count <= 4
    )
    cold.close()
    onto.close()


def _rows_of(onto: Ontology, cls: type[Any]) -> pa.Table:
    found = onto.query().entities(cls).with_history().to_arrow()
    return found.rename_columns(["entity_key" if name == "id" else name for name in found.column_names])


def _cold(place: Place, types: list[type[Any]], uri: str, sizes: Sizes) -> Iterator[Result]:
    files = sizes.commits // sizes.types
    cold, counter = place.store(types, "cold", uri)
    first = seconds(lambda: cold.query().entities(types[0]).collect())
    most = 3 + files
    yield fact(
        "cold.requests",
        f"cold query, {files} files",
        f"{counter.count} req",
        f"<= {most}",
        f"{first * 1000:.0f} ms",
        passed=counter.count <= most,
    )
    counter.reset()
    cold.query().entities(types[0]).collect()
    yield fact("warm.requests", "  again", f"{counter.count} req", "<= 1", passed=counter.count <= 1)
    cold.close()


LATEST = "SELECT * FROM read_parquet(?) QUALIFY ROW_NUMBER() OVER (PARTITION BY entity_key ORDER BY commit_id DESC) = 1"


def _warm(reader: Ontology, cls: type[Any], one: Path, sizes: Sizes) -> Iterator[Result]:
    raw = duckdb.connect()
    query = reader.query().entities(cls)
    gold = f"SELECT * FROM ({LATEST}) WHERE tier = 'Gold' ORDER BY commit_id, entity_key"

    def rows(sql: str) -> object:
        return raw.execute(sql, [str(one)]).fetchall()

    def arrow(sql: str) -> object:
        return raw.sql(sql, params=[str(one)]).to_arrow_table()

    lines: list[tuple[str, str, Callable[[], object], Callable[[], object], float | None]] = [
        (
            "warm.filter",
            "filter, as Arrow",
            lambda: query.where(cls.tier == "Gold").to_arrow(),
            lambda: arrow(gold),
            1.5,
        ),
        (
            "warm.count",
            "count with a filter",
            lambda: query.where(cls.score > 500).count(),
            lambda: rows(f"SELECT COUNT(*) FROM ({LATEST}) WHERE score > 500"),
            1.5,
        ),
        (
            "warm.sum",
            "sum by group",
            lambda: query.group_by(cls.tier).agg(n=_sum(cls.score)),
            lambda: rows(f"SELECT tier, SUM(score) FROM ({LATEST}) GROUP BY 1"),
            1.5,
        ),
        (
            "warm.history",
            "all versions, as Arrow",
            lambda: query.with_history().to_arrow(),
            lambda: arrow("SELECT * FROM read_parquet(?) ORDER BY commit_id, entity_key"),
            1.5,
        ),
        (
            "warm.objects",
            "filter, as objects",
            lambda: query.where(cls.tier == "Gold").collect(),
            lambda: rows(gold),
            None,
        ),
    ]
    turns = max(sizes.turns // 4, 1)
    for name, work, ours, bare, most in lines:
        for _ in range(2):
            ours()
            bare()
        times = race(
            lambda ours=ours: seconds(lambda: [ours() for _ in range(turns)]) / turns,
            lambda bare=bare: seconds(lambda: [bare() for _ in range(turns)]) / turns,
            sizes.rounds,
        )
        yield within(name, work, times, most)
    raw.close()


def _sum(field: Any) -> Any:
    import ontologia

    return ontologia.sum(field)


def bulk_write(place: Place, sizes: Sizes) -> Iterator[Result]:
    """Many rows in one commit, against making the same Parquet file and putting it."""
    cls = item_types(1)[0]
    rows = items(cls, 0, sizes.bulk)
    data = pa.table({name: [getattr(row, name) for row in rows] for name in ("id", "tier", "score", "balance")})
    raw = open_objects(s3server.fresh_uri(), place.config("raw"))

    def ours() -> float:
        onto, _ = place.store([cls])
        with onto.session() as session:
            session.ensure_rows(cls, data)
            taken = seconds(session.commit)
        onto.close()
        return taken

    def bare() -> float:
        def work() -> None:
            sink = pa.BufferOutputStream()
            pq.write_table(data, sink, compression="zstd")
            raw.put("file.parquet", sink.getvalue().to_pybytes())

        return seconds(work)

    yield rate("bulk.rate", f"{sizes.bulk} rows in one commit", race(ours, bare, min(sizes.rounds, 3)), 0.0)


Benchmark = Callable[[Place, Sizes], Iterator[Result]]
BENCHMARKS: dict[str, Benchmark] = {"commits": small_commits, "history": long_history, "bulk": bulk_write}


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write; 1 when a line misses its bound."""
    parser = argparse.ArgumentParser(description="Measure the store on S3 against bare requests and raw DuckDB.")
    parser.add_argument("--quick", action="store_true", help="small sizes: see that it runs, not how fast")
    parser.add_argument("--only", action="append", choices=BENCHMARKS, metavar="NAME", help="repeatable")
    parser.add_argument("--json", type=Path, default=RESULTS, metavar="PATH", help="where to write the results")
    options = parser.parse_args(arguments)
    sizes = Sizes().quick() if options.quick else Sizes()
    results: list[Result] = []
    with server() as endpoint, tempfile.TemporaryDirectory(prefix="ontologia-bench-") as folder:
        for name in options.only or BENCHMARKS:
            for result in BENCHMARKS[name](Place(endpoint, Path(folder)), sizes):
                results.append(result)
                show_progress(f"{name}: {result.work.strip()}")
    return conclude(results, options.json, sizes, quick=options.quick)


if __name__ == "__main__":
    raise SystemExit(main())
