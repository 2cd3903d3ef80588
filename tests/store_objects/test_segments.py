"""Folding: the same rows from few files, whatever was appended, asked for, lost or damaged in between."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_objects.parquet_files import SCHEMA, CountedObjects, commit, rows_of, stored

from ontologia.objects.cache import DiskCache
from ontologia.objects.port import Missing
from ontologia.store.objects.merging import Unmergeable, merge
from ontologia.store.objects.records import DataFile
from ontologia.store.objects.runs import KnownFiles
from ontologia.store.objects.segments import Part, Segments


class Reader:
    """Segments over a bucket, and what they asked for."""

    def __init__(self, root: Path, objects: CountedObjects, *, largest: int = 10**9, limit: int = 10**9) -> None:
        self.objects = objects
        self.cache = DiskCache(root, "s", limit)
        self.segments = Segments(self.cache, largest)
        self.hold = self.cache.hold()

    def locate(self, files: Sequence[DataFile]) -> list[Path]:
        return [
            self.cache.path(
                one.path, one.content_sha256, lambda one=one: self.objects.get(one.path).data, hold=self.hold
            )
            for one in files
        ]

    def parts(self, files: Sequence[DataFile]) -> list[Part]:
        self.hold = self.cache.hold()
        return self.segments.fold(files, self.locate, hold=self.hold)

    def rows(self, files: Sequence[DataFile]) -> list[dict[str, Any]]:
        return [row for part in self.parts(files) for row in pq.read_table(part.path).to_pylist()]


@pytest.fixture
def objects() -> CountedObjects:
    return CountedObjects()


def keys(number: int, count: int = 2) -> list[str]:
    return [f"k{(number * 7 + one) % 23:02d}" for one in range(count)]


def test_many_files_become_few_with_the_same_rows(tmp_path: Path, objects: CountedObjects) -> None:
    files = [commit(objects, number, keys(number)) for number in range(1, 51)]
    reader = Reader(tmp_path, objects)
    expected = [row for number in range(1, 51) for row in rows_of(number, keys(number))]
    assert reader.rows(files) == expected
    assert reader.rows(files) == expected
    parts = reader.parts(files)
    assert len(parts) <= math.log2(100)
    assert [one for part in parts for one in part.files] == files


def test_few_files_are_left_alone(tmp_path: Path, objects: CountedObjects) -> None:
    files = [commit(objects, number, keys(number)) for number in range(1, 5)]
    assert [len(part.files) for part in Reader(tmp_path, objects).parts(files)] == [1, 1, 1, 1]


def test_a_warm_read_needs_no_original(tmp_path: Path, objects: CountedObjects) -> None:
    files = [commit(objects, number, keys(number)) for number in range(1, 33)]
    reader = Reader(tmp_path, objects)
    before = reader.rows(files)
    assert len(objects.reads) == 32
    for one in files:
        reader.locate([one])[0].unlink()
    assert Reader(tmp_path, objects).rows(files) == before
    assert len(objects.reads) == 32


def test_a_new_file_does_not_refold_the_others(tmp_path: Path, objects: CountedObjects) -> None:
    reader = Reader(tmp_path, objects)
    files: list[DataFile] = []
    most = 0
    for number in range(1, 200):
        files.append(commit(objects, number, keys(number, 1)))
        most = max(most, len(reader.parts(files)))
    assert most <= math.log2(200) + 5
    assert len(objects.reads) == 199
    segments = [path for path in (tmp_path / "s" / "derived").iterdir() if path.suffix == ".parquet"]
    rewritten = sum(pq.read_metadata(path).num_rows for path in segments)
    assert rewritten < 2 * 199 * math.log2(199)


def test_a_window_reads_no_file_beyond_it(tmp_path: Path, objects: CountedObjects) -> None:
    files = [commit(objects, number, keys(number)) for number in range(1, 41)]
    reader = Reader(tmp_path, objects)
    reader.parts(files)
    for first, last in ((0, 20), (5, 40), (13, 29), (39, 40)):
        parts = reader.parts(files[first:last])
        assert [one for part in parts for one in part.files] == files[first:last]
        assert len(parts) < 14


def test_scattered_files_do_not_make_segments_of_their_own(tmp_path: Path, objects: CountedObjects) -> None:
    files = [commit(objects, number, keys(number)) for number in range(1, 41)]
    reader = Reader(tmp_path, objects)
    reader.parts(files)
    made = set((tmp_path / "s" / "derived").iterdir())
    scattered = files[::3]
    assert [one for part in reader.parts(scattered) for one in part.files] == scattered
    assert set((tmp_path / "s" / "derived").iterdir()) == made


def test_a_selection_that_comes_again_and_grows_is_folded_too(tmp_path: Path, objects: CountedObjects) -> None:
    files = [commit(objects, number, keys(number)) for number in range(1, 141)]
    reader = Reader(tmp_path, objects)
    reader.parts(files)
    most: list[int] = []
    for last in (120, 120, 126, 126, 140):
        selected = files[:last:2]
        parts = reader.parts(selected)
        assert [one for part in parts for one in part.files] == selected
        assert len(reader.parts(files[:last])) <= 12
        most.append(len(parts))
    assert most[0] == 60
    assert max(most[1:]) <= 12


def test_a_snapshot_takes_the_place_of_files(tmp_path: Path, objects: CountedObjects) -> None:
    files = [commit(objects, number, keys(number)) for number in range(1, 21)]
    reader = Reader(tmp_path, objects)
    reader.parts(files)
    rows = [row for number in range(1, 16) for row in rows_of(number, keys(number))]
    snapshot = replace(stored(objects, 99, rows), min_commit_id=1, max_commit_id=15)
    assert reader.rows([snapshot, *files[15:]]) == reader.rows(files)


def test_a_key_written_again_is_read_again(tmp_path: Path, objects: CountedObjects) -> None:
    files = [commit(objects, number, keys(number)) for number in range(1, 21)]
    reader = Reader(tmp_path, objects)
    reader.parts(files)
    files[3] = commit(objects, 4, ["new"])
    assert [row["entity_key"] for row in reader.rows(files) if row["commit_id"] == 4] == ["new"]


def test_versions_and_unknown_versions_are_not_mixed(tmp_path: Path, objects: CountedObjects) -> None:
    files = [commit(objects, number, keys(number)) for number in range(1, 41)]
    files[10:20] = [replace(one, schema_version_id=None) for one in files[10:20]]
    files[20:] = [replace(one, schema_version_id=2) for one in files[20:]]
    for part in Reader(tmp_path, objects).parts(files):
        assert len(part.files) == 1 or len({one.schema_version_id for one in part.files} - {None}) == 1
        assert len(part.files) == 1 or None not in {one.schema_version_id for one in part.files}


def test_segments_stay_below_their_limit(tmp_path: Path, objects: CountedObjects) -> None:
    files = [commit(objects, number, keys(number)) for number in range(1, 41)]
    largest = 4 * (files[0].size or 0) + 100
    parts = Reader(tmp_path, objects, largest=largest).parts(files)
    assert 1 < max(len(part.files) for part in parts) <= 4
    assert all(part.path.stat().st_size <= largest for part in parts)


def test_forgetting_a_member_forgets_its_segments(tmp_path: Path, objects: CountedObjects) -> None:
    files = [commit(objects, number, keys(number)) for number in range(1, 33)]
    reader = Reader(tmp_path, objects)
    holding = [part.path for part in reader.parts(files) if files[7] in part.files]
    reader.cache.forget(files[7].path)
    assert not any(path.exists() for path in holding)
    objects.delete(files[7].path)
    with pytest.raises(Missing):
        reader.parts(files)


def test_a_damaged_segment_is_made_again(tmp_path: Path, objects: CountedObjects) -> None:
    files = [commit(objects, number, keys(number)) for number in range(1, 33)]
    reader = Reader(tmp_path, objects)
    before = reader.rows(files)
    for part in reader.parts(files):
        part.path.write_bytes(b"x" * 100)
    assert Reader(tmp_path, objects).rows(files) == before


def test_files_with_other_columns_are_read_as_they_are(tmp_path: Path, objects: CountedObjects) -> None:
    other = SCHEMA.append(pa.field("more", pa.string()))
    files = [
        stored(objects, number, rows_of(number, keys(number)), schema=other if number == 9 else SCHEMA)
        for number in range(1, 17)
    ]
    reader = Reader(tmp_path, objects)
    for _ in range(2):
        parts = reader.parts(files)
        assert [one for part in parts for one in part.files] == files
        assert sum(pq.read_metadata(part.path).num_rows for part in parts) == 32


def test_large_row_groups_are_written_and_memory_is_not_filled(tmp_path: Path, objects: CountedObjects) -> None:
    sources: list[Path] = []
    for number in range(40):
        data = commit(objects, number, [f"k{one:05d}" for one in range(4000)], row_group_size=500)
        sources.append(tmp_path / f"{number}.parquet")
        sources[-1].write_bytes(objects.get(data.path).data)
    merge(sources, tmp_path / "merged")
    found = pq.read_metadata(tmp_path / "merged")
    assert found.num_rows == 160_000
    assert found.num_row_groups == 3


def test_what_is_no_parquet_file_is_not_merged(tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"x" * 100)
    with pytest.raises(Unmergeable):
        merge([tmp_path / "bad", tmp_path / "bad"], tmp_path / "merged")


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=300))
def test_runs_are_few_and_never_change(rows: list[int]) -> None:
    files = [
        DataFile("entity", "A", f"{n}", n, n, row_count=count, schema_version_id=1) for n, count in enumerate(rows)
    ]
    growing, names = KnownFiles(10**12), set[str]()
    for end in range(1, len(files) + 1):
        runs = growing.runs(files[:end])
        assert [one for run in runs for one in run.members] == files[:end]
        assert len(runs) <= math.log2(sum(rows[:end])) + 2
        names |= {run.name for run in runs}
    assert {run.name for run in KnownFiles(10**12).runs(files)} <= names


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 12)),
        st.tuples(st.just("read"), st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(1, 4))),
        st.tuples(st.just("restart"), st.none()),
        st.tuples(st.just("lose"), st.integers(0, 5)),
    ),
    min_size=3,
    max_size=12,
)


@settings(max_examples=15)
@given(ACTIONS)
def test_reading_gives_the_rows_of_the_wanted_files(actions: list[tuple[str, Any]]) -> None:
    objects = CountedObjects()
    files: list[DataFile] = []
    with TemporaryDirectory() as folder:
        root = Path(folder)
        reader = Reader(root, objects)
        script: list[tuple[str, Any]] = [("append", 9), *actions, ("read", (0.0, 1.0, 1))]
        for action, value in script:
            match action:
                case "append":
                    for _ in range(value):
                        number = len(files) + 1
                        files.append(commit(objects, number, keys(number, 1 + number % 3)))
                case "read":
                    low, high = sorted(round(bound * len(files)) for bound in value[:2])
                    wanted = files[low : high : value[2]]
                    if wanted:
                        expected = [row for one in wanted for row in _original(objects, one)]
                        assert reader.rows(wanted) == expected
                case "restart":
                    reader = Reader(root, objects)
                case _:
                    for path in sorted(root.rglob("*.parquet"))[value::6]:
                        os.unlink(path)  # noqa: PTH108 - as another process that makes room does


def _original(objects: CountedObjects, one: DataFile) -> list[dict[str, Any]]:
    return rows_of(one.min_commit_id, keys(one.min_commit_id, 1 + one.min_commit_id % 3))
