"""Random histories of a few types as Parquet files, and what they should read as, worked out in plain Python.

Files are written by the `FileBuilder` of the store; ranges of them may be merged into snapshots, as compaction does.
The other half is the definition: a list of rows with their commits, and a window over it.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from ontologia.model.physical import from_physical, to_physical
from ontologia.model.spec import FieldSpec, Kind, TypeSpec
from ontologia.query.plan import Mode, Window
from ontologia.query.sql import Sql
from ontologia.store.catalog import Catalog, SchemaVersion, StoredType
from ontologia.store.objects import parquet
from ontologia.store.objects.parquet import FileBuilder
from ontologia.store.objects.records import DataFile
from ontologia.store.rows import Row

FIELDS = (
    FieldSpec("n", "int", Kind.INT, nullable=True),
    FieldSpec("word", "str", Kind.TEXT, nullable=True),
    FieldSpec("at", "datetime", Kind.DATETIME),
    FieldSpec("price", "decimal", Kind.DECIMAL),
)
THING = TypeSpec("entity", "Thing", (FieldSpec("id", "str", Kind.TEXT, primary_key=True), *FIELDS))
LINK = TypeSpec(
    "relation",
    "Link",
    (FieldSpec("nr", "str", Kind.TEXT, instance_key=True), *FIELDS),
    left="Thing",
    right="Thing",
)
EAST = timezone(timedelta(hours=5))
KEYS: tuple[str, ...] = ("a", "b", "c", "d", "e")
Written = tuple[int, Row]
"""A commit and a physical row that it wrote."""


def stored_type(spec: TypeSpec, type_id: int = 1) -> StoredType:
    versions = (SchemaVersion(1, spec, 1, datetime(2026, 1, 1, tzinfo=UTC)),)
    return StoredType(type_id, spec.kind, spec.name, 1, frozenset(), versions)


@dataclass
class History:
    """What a store holds of some types: files, and every row in the order of writing."""

    folder: Path
    stored: dict[str, StoredType] = field(default_factory=dict[str, StoredType])
    files: dict[str, list[DataFile]] = field(default_factory=dict[str, list[DataFile]])
    written: dict[str, list[Written]] = field(default_factory=dict[str, list[Written]])
    head: int = 0
    asked: list[list[DataFile]] = field(default_factory=list[list[DataFile]])
    """The files of every relation that was asked for."""

    @property
    def catalog(self) -> Catalog:
        return Catalog({(one.kind, one.name): one for one in self.stored.values()})

    def add(self, spec: TypeSpec) -> StoredType:
        self.stored[spec.name] = stored_type(spec, len(self.stored) + 1)
        self.files[spec.name], self.written[spec.name] = [], []
        return self.stored[spec.name]

    def commit(self, spec: TypeSpec, rows: Sequence[Row], commit_id: int) -> None:
        """Write rows of one type; an identity that is there already is an update."""
        width = len(spec.identity)
        known = {row[:width] for _, row in self.written[spec.name]}
        ordered = sorted(rows, key=lambda row: row[:width])
        builder = FileBuilder(spec, 1, commit_id)
        builder.add(ordered, [row[:width] for row in ordered if row[:width] in known])
        made = builder.finish()
        self.head = max(self.head, commit_id)
        if made is None:
            return
        path = self.folder / f"{spec.name}-{commit_id}.parquet"
        path.write_bytes(made.data)
        self.files[spec.name].append(
            DataFile(
                spec.kind,
                spec.name,
                str(path),
                commit_id,
                commit_id,
                made.row_count,
                1,
                made.content_sha256,
                len(made.data),
                made.updated,
                made.min_key,
                made.max_key,
                made.stats,
            )
        )
        self.written[spec.name] += [(commit_id, row) for row in ordered]

    def merge(self, spec: TypeSpec, first: int, last: int) -> None:
        """Make one snapshot of the files from one place in the list to another."""
        files = self.files[spec.name]
        members = files[first : last + 1]
        if len(members) < 2:
            return
        sink = io.BytesIO()
        with parquet.writer(sink, spec) as writer:
            writer.write_table(pa.concat_tables([pq.read_table(one.path) for one in members]).combine_chunks())
        path = self.folder / f"{spec.name}-{members[0].min_commit_id}-{members[-1].max_commit_id}.parquet"
        path.write_bytes(sink.getvalue())
        files[first : last + 1] = [_merged(members, str(path))]

    def forget_statistics(self) -> None:
        """As if another program had written the index: paths and ranges, nothing else."""
        for name, files in self.files.items():
            self.files[name] = [
                DataFile(one.kind, one.type_name, one.path, one.min_commit_id, one.max_commit_id) for one in files
            ]

    def files_of(self, stored: StoredType, version: SchemaVersion, window: Window) -> tuple[DataFile, ...]:
        last = self.head if window.last is None else min(window.last, self.head)
        low = window.low if window.mode is Mode.HISTORY else 0
        return tuple(
            one
            for one in self.files[stored.name]
            if one.schema_version_id in (None, version.version)
            and one.min_commit_id <= last
            and one.max_commit_id > low
        )

    def relation(self, files: Sequence[DataFile], among: Sequence[DataFile] = ()) -> Sql:
        assert files
        assert not among or {one.path for one in files} <= {one.path for one in among}
        self.asked.append(list(files))
        return Sql("read_parquet(?, union_by_name = true)", ([one.path for one in files],))

    def visible(self, name: str, window: Window, head: int) -> list[Written]:
        """What a window shows, in order of commit and identity: the definition."""
        last = head if window.last is None else min(window.last, head)
        if window.mode is Mode.HISTORY:
            return [one for one in self.written[name] if window.low < one[0] <= last]
        width = len(self.stored[name].spec.identity)
        latest = {row[:width]: (commit, row) for commit, row in self.written[name] if commit <= last}
        return sorted(latest.values(), key=lambda one: (one[0], one[1][:width]))

    def values(self, name: str, row: Row) -> dict[str, Any]:
        """Stored values by name, the keys of a relation's ends among them."""
        spec = self.stored[name].spec
        ends = {"left_key": row[0], "right_key": row[1]} if spec.kind == "relation" else {}
        return from_physical(spec, row) | ends


def _merged(members: Sequence[DataFile], path: str) -> DataFile:
    first = members[0]
    names = set(first.stats).intersection(*(one.stats for one in members))
    keys = [(one.min_key or (), one.max_key or ()) for one in members]
    return replace(
        first,
        path=path,
        max_commit_id=members[-1].max_commit_id,
        row_count=sum(one.row_count or 0 for one in members),
        updated=sum(one.updated or 0 for one in members),
        min_key=tuple(map(min, zip(*(low for low, _ in keys), strict=True))),
        max_key=tuple(map(max, zip(*(high for _, high in keys), strict=True))),
        stats={
            name: (min(one.stats[name][0] for one in members), max(one.stats[name][1] for one in members))
            for name in names
        },
    )


@st.composite
def some_values(draw: st.DrawFn) -> list[Any]:
    """Values for `FIELDS`."""
    return [
        draw(st.none() | st.integers(0, 4)),
        draw(st.none() | st.sampled_from(["x", "xy", "y", ""])),
        draw(st.sampled_from([datetime(2026, 1, day, tzinfo=zone) for day in (1, 2) for zone in (UTC, EAST, None)])),
        draw(st.sampled_from([Decimal("1.5"), Decimal("1.50"), Decimal(-3), Decimal(10)])),
    ]


def things(values: dict[str, list[Any]]) -> list[Row]:
    return [to_physical(THING, (key,), [key, *some]) for key, some in values.items()]


def links(values: dict[tuple[str, str], list[Any]]) -> list[Row]:
    return [to_physical(LINK, (left, right, "1"), ["1", *some]) for (left, right), some in values.items()]


@dataclass(frozen=True)
class Story:
    """How a history came about."""

    things: list[dict[str, list[Any]]]
    """For each commit the rows it wrote, which may be none."""
    links: list[dict[tuple[str, str], list[Any]]]
    merges: list[tuple[str, int, int]]
    anonymous: bool
    """Whether nothing is recorded about the files."""

    def told(self, folder: Path) -> History:
        history = History(folder)
        history.add(THING)
        history.add(LINK)
        for number, (some, others) in enumerate(zip(self.things, self.links, strict=True)):
            history.commit(THING, things(some), number + 1)
            history.commit(LINK, links(others), number + 1)
        history.head = len(self.things)
        for name, first, count in self.merges:
            history.merge(history.stored[name].spec, first, first + count)
        if self.anonymous:
            history.forget_statistics()
        return history


@st.composite
def stories(draw: st.DrawFn) -> Story:
    length = draw(st.integers(1, 6))
    keys = st.sampled_from(KEYS)
    some = st.lists(st.dictionaries(keys, some_values(), max_size=3), min_size=length, max_size=length)
    pairs = st.dictionaries(st.tuples(keys, keys), some_values(), max_size=3)
    merges = st.tuples(st.sampled_from(["Thing", "Link"]), st.integers(0, 3), st.integers(1, 4))
    return Story(
        draw(some),
        draw(st.lists(pairs, min_size=length, max_size=length)),
        draw(st.lists(merges, max_size=2)),
        draw(st.integers(0, 3)) == 0,
    )


@st.composite
def windows(draw: st.DrawFn, length: int) -> Window:
    match draw(st.sampled_from(list(Mode))):
        case Mode.LATEST:
            return Window()
        case Mode.AS_OF:
            return Window(Mode.AS_OF, 0, draw(st.integers(0, length + 1)))
        case Mode.HISTORY:
            return Window(Mode.HISTORY, draw(st.integers(0, length)), draw(st.none() | st.integers(0, length + 1)))
