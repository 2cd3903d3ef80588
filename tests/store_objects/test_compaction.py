"""Compaction: what is merged, that no answer changes, and that it may be stopped anywhere."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_objects.counted import Customer, Product, Subscription, new_store, open_counted, write
from store_objects.shops import Stint, a_history, everything
from store_objects.upkeep import World, world

from ontologia import (
    HeadMismatchError,
    IntegrityError,
    LeaseExpiredError,
    LockContentionError,
    OntologiaConfig,
    Ontology,
    UnknownTypeError,
)
from ontologia.store.objects import compaction
from ontologia.store.objects.compaction import plan
from ontologia.store.objects.records import DataFile
from ontologia.testing.conformance.world import (
    AccountInCents,
    AccountWithCurrency,
    Sample,
    balance_in_cents,
)

CUSTOMERS = "meta/indices/entities/Customer.json"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as found:
        yield found


def file(first: int, last: int | None = None, *, rows: int = 1, size: int = 1000, version: int = 1) -> DataFile:
    return DataFile("entity", "T", f"{first}-{last}", first, last or first, rows, version, size=size)


def merged(group: tuple[DataFile, ...]) -> DataFile:
    """What a group becomes; merging compresses a little."""
    rows, size = sum(one.row_count or 0 for one in group), sum(one.size or 0 for one in group)
    first = group[0]
    return file(
        first.min_commit_id,
        group[-1].max_commit_id,
        rows=rows,
        size=size,
        version=first.schema_version_id or 1,
    )


def after(entries: list[DataFile], most: int = compaction.SNAPSHOT_BYTES) -> list[DataFile]:
    """Entries once what is planned for them is done."""
    groups = plan(entries, most)
    gone = {one.path for group in groups for one in group}
    kept = [one for one in entries if one.path not in gone]
    return sorted([*kept, *map(merged, groups)], key=lambda one: one.min_commit_id)


# The plan


def ranges(groups: list[tuple[DataFile, ...]]) -> list[tuple[int, int]]:
    return [(group[0].min_commit_id, group[-1].max_commit_id) for group in groups]


def test_files_of_single_commits_are_gathered_whatever_their_sizes() -> None:
    assert ranges(plan([file(n, rows=rows) for n, rows in enumerate([1000, 100, 10, 1], 1)])) == [(1, 4)]
    assert plan([file(1)]) == []
    assert plan([]) == []


def test_a_large_snapshot_is_left_alone_until_its_neighbour_is_about_as_large() -> None:
    large = file(1, 9, rows=1000)
    assert ranges(plan([large, file(10), file(11)])) == [(10, 11)]
    assert plan([large, file(10)]) == []
    assert ranges(plan([large, file(10, rows=400), file(11, rows=400)])) == [(1, 11)]


def test_schema_versions_are_never_merged_with_each_other() -> None:
    entries = [file(n, version=1 if n < 4 else 2) for n in range(1, 7)]
    assert ranges(plan(entries)) == [(1, 3), (4, 6)]
    assert plan([file(1, version=1), file(2, version=2)]) == []


def test_a_snapshot_does_not_grow_beyond_what_readers_cache() -> None:
    entries = [file(n, size=30) for n in range(1, 11)]
    assert ranges(plan(entries, 100)) == [(1, 3), (4, 6), (7, 9)]
    assert plan([file(1, size=200), file(2, size=200)], 100) == []


@given(st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 3), st.integers(1, 60)), max_size=60))
def test_what_was_compacted_is_left_alone(made: list[tuple[int, int, int]]) -> None:
    versions = sorted(version for _, version, _ in made)
    entries = [
        file(n, rows=rows, size=size, version=version)
        for n, ((rows, _, size), version) in enumerate(zip(made, versions, strict=True), 1)
    ]
    done = after(entries, 100)
    assert plan(done, 100) == []
    assert sum(one.row_count or 0 for one in done) == sum(one.row_count or 0 for one in entries)
    assert all(
        one.schema_version_id == two.schema_version_id for group in plan(entries, 100) for one in group for two in group
    )


@settings(max_examples=20)
@given(st.integers(1, 400), st.integers(1, 7))
def test_the_number_of_files_grows_with_the_logarithm_of_the_history(commits: int, every: int) -> None:
    entries: list[DataFile] = []
    rewritten = 0
    for number in range(1, commits + 1):
        entries.append(file(number))
        if number % every == 0:
            rewritten += sum(one.row_count or 0 for group in plan(entries) for one in group)
            entries = after(entries)
    snapshots = [one for one in after(entries) if one.is_snapshot]
    assert len(snapshots) <= math.log2(commits) + 1
    assert rewritten <= 2 * commits * (math.log2(commits) + 1)


# What it does


def test_a_preview_says_what_would_be_done_and_does_nothing(here: World) -> None:
    for number in range(4):
        write(here.onto, Customer(id="a", name=f"{number}"))
    before = here.state()
    preview = here.onto.compact()
    assert here.state() == before
    done = here.onto.compact(apply=True)
    assert (preview.applied, done.applied) == (False, True)
    assert done.rewrites == preview.rewrites
    (rewrite,) = done.rewrites
    assert (rewrite.files, rewrite.rows, rewrite.path) == (4, 4, "snapshots/entities/Customer-1-4.parquet")
    (entry,) = here.read(CUSTOMERS)["entries"]
    assert (entry["min_commit_id"], entry["max_commit_id"], entry["row_count"], entry["updated"]) == (1, 4, 4, 3)
    assert (entry["min_key"], entry["max_key"], entry["stats"]["name"]) == (["a"], ["a"], ["0", "3"])
    assert set(before) <= set(here.state()), "the members stay until clean-up"


def test_doing_it_again_does_nothing(here: World) -> None:
    a_history(here.onto)
    assert here.onto.compact(apply=True).rewrites
    before = here.state()
    assert here.onto.compact(apply=True).rewrites == ()
    assert here.state() == before


def test_one_type_can_be_named(here: World) -> None:
    for number in range(3):
        write(here.onto, Customer(id="a", name=f"{number}"), Product(sku="p", price=float(number)))
    assert {one.type_name for one in here.onto.compact("Product", apply=True).rewrites} == {"Product"}
    assert here.stored("snapshots/") == ["snapshots/entities/Product-1-3.parquet"]
    with pytest.raises(UnknownTypeError, match="Nobody"):
        here.onto.compact("Nobody")


def test_progress_tells_rows(here: World) -> None:
    for number in range(3):
        write(here.onto, Customer(id="a", name=f"{number}"), Product(sku="p", price=float(number)))
    told: list[tuple[int, int]] = []
    here.onto.compact(apply=True, progress=lambda done, total: told.append((done, total)))
    assert told == [(3, 6), (6, 6)]


def test_every_answer_is_the_same_before_and_after(here: World, tmp_path: Path) -> None:
    a_history(here.onto)
    before = everything(here.onto)
    with here.stranger(tmp_path / "another") as stranger:
        assert everything(stranger) == before
        assert len(here.onto.compact(apply=True).rewrites) == 3
        assert everything(here.onto) == before
        assert everything(stranger) == before, "who knew the old files"
        write(here.onto, Customer(id="c9", name="New"))
        assert stranger.query().entities(Customer).count() == 4
    with here.stranger(tmp_path / "third") as fresh:
        past = {name: answer for name, answer in before.items() if " as of " in name and " of 9" not in name}
        found = everything(fresh)
        assert {name: found[name] for name in past} == past
    assert here.onto.verify() == []
    assert here.onto.verify_index() == []


Write = tuple[str, str, int]
writes = st.lists(
    st.lists(st.tuples(st.sampled_from("abcé"), st.sampled_from("pq"), st.integers(0, 3)), min_size=1, max_size=4),
    min_size=1,
    max_size=8,
)


def answers(onto: Ontology, head: int) -> list[Any]:
    query = onto.query()
    asked: list[Any] = [query.entities(Customer), query.relations(Subscription), query.relations(Stint)]
    windows = [
        window
        for one in asked
        for window in (
            one,
            one.with_history(),
            *map(one.as_of, range(head + 1)),
            *map(one.history_since, range(head + 1)),
        )
    ]
    return [[(repr(thing), thing.meta()) for thing in window] for window in windows]


@settings(max_examples=max(5, settings().max_examples // 10))
@given(writes, st.sets(st.integers(0, 7)))
def test_no_window_shows_whether_a_store_was_compacted(
    tmp_path_factory: pytest.TempPathFactory, commits: list[list[Write]], stops: set[int]
) -> None:
    with world(tmp_path_factory.mktemp("equal")) as here, world(tmp_path_factory.mktemp("plain")) as plain:
        for number, rows in enumerate(commits):
            for one in (here, plain):
                write(
                    one.onto,
                    *{key: Customer(id=key, name=f"{value}") for key, _, value in rows}.values(),
                    *{(a, b): Subscription(left_key=a, right_key=b, seats=n) for a, b, n in rows}.values(),
                    *{(a, b, n): Stint(left_key=a, right_key=b, term=f"{n}", pay=number) for a, b, n in rows}.values(),
                )
            if number in stops:
                here.onto.compact(apply=True)
        here.onto.compact(apply=True)
        head = plain.onto.head()
        assert answers(here.onto, head) == answers(plain.onto, head)
        changes = [[one.onto.changes(number) for number in range(1, head + 1)] for one in (here, plain)]
        assert changes[0] == changes[1]
        assert [one for one in here.onto.verify() if one.severity == "error"] == []


def test_a_snapshot_has_every_column_and_type_of_its_members(tmp_path: Path) -> None:
    moment = datetime(2026, 3, 1, 12, 30, 0, 123456, tzinfo=UTC)
    with world(tmp_path, entity_types=[Sample], relation_types=[]) as here:
        for number in range(3):
            write(
                here.onto,
                Sample(
                    id=f"s{number}",
                    whole=10**30 if number == 1 else number,
                    real=1.5,
                    exact=Decimal("1.50"),
                    moment=moment + timedelta(days=number),
                    clock=time(12, 30, tzinfo=UTC) if number else None,
                    blob=b"\x00\xff",
                    anything={"a": [1, None]},
                ),
            )
        members = [here.storage.get(key).data for key in here.stored("commits/") if key.endswith("Sample.parquet")]
        before = [(repr(one), one.meta()) for one in here.onto.query().entities(Sample).with_history()]
        here.onto.compact(apply=True)
        (key,) = here.stored("snapshots/")
        table = pq.read_table(BytesIO(here.storage.get(key).data))
        parts = [
            pq.read_table(BytesIO(data))
            for data in sorted(members, key=lambda one: pq.read_table(BytesIO(one))["commit_id"][0].as_py())
        ]
        assert all(part.schema == table.schema for part in parts)
        assert table.to_pylist() == [row for part in parts for row in part.to_pylist()]
        assert str(table.schema.field("moment").type) == "timestamp[us, tz=UTC]"
        assert [(repr(one), one.meta()) for one in here.onto.query().entities(Sample).with_history()] == before


def test_rows_lie_in_the_order_of_commits_and_identities_in_sized_row_groups(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ontologia.store.objects.combining.ROWS_PER_GROUP", 8)
    monkeypatch.setattr("ontologia.store.objects.combining._BATCH", 4)
    for number in range(6):
        write(here.onto, *(Customer(id=key, name=f"{number}") for key in "dbca"))
    here.onto.compact(apply=True)
    snapshot = pq.ParquetFile(BytesIO(here.storage.get("snapshots/entities/Customer-1-6.parquet").data))
    rows = snapshot.read(["commit_id", "entity_key"]).to_pylist()
    assert rows == [{"commit_id": n, "entity_key": key} for n in range(1, 7) for key in "abcd"]
    assert snapshot.num_row_groups == 3


def test_versions_of_a_type_stay_apart_and_their_rows_readable(tmp_path: Path) -> None:
    from ontologia.testing.conformance.world import Account

    with world(tmp_path, entity_types=[Account], relation_types=[]) as here:
        for number in range(3):
            write(here.onto, Account(id="a", owner="x", balance=number))
        steps: list[tuple[type[Any], Any]] = [
            (AccountWithCurrency, lambda n: AccountWithCurrency(id="a", owner="x", balance=n, currency="NOK")),
            (AccountInCents, lambda n: AccountInCents(id="a", owner="x", cents=n, currency="SEK")),
        ]
        for cls, make in steps:
            with here.stranger(
                tmp_path / cls.__name__, entity_types=[cls], relation_types=[], upgraders=[balance_in_cents]
            ) as newer:
                newer.migrate(apply=True, force=True)
                for number in range(3):
                    write(newer, make(number + 10))
                query = newer.query().entities(cls)
                windows = [query, query.with_history(), *map(query.as_of, range(1, newer.head() + 1))]
                before = [[(repr(one), one.meta()) for one in window] for window in windows]
                newer.compact(apply=True)
                assert [[(repr(one), one.meta()) for one in window] for window in windows] == before
                assert newer.verify() == []
        entries = here.read("meta/indices/entities/Account.json")["entries"]
        assert [(one["schema_version_id"], one["min_commit_id"], one["max_commit_id"]) for one in entries] == [
            (1, 1, 3),
            (2, 4, 7),
            (3, 8, 11),
        ]


def test_a_type_that_was_dropped_and_declared_anew_begins_with_its_second_birth(here: World) -> None:
    for number in range(3):
        write(here.onto, Product(sku="old", price=float(number)))
    here.onto.compact(apply=True)
    dropped = here.onto.drop_type("entity", "Product")
    here.onto.drop_type("entity", "Product", apply=True, token=dropped.token)
    for number in range(3):
        write(here.onto, Product(sku="new", price=float(number)))
    (rewrite,) = here.onto.compact("Product", apply=True).rewrites
    assert (rewrite.min_commit_id, rewrite.max_commit_id) == (4, 6)
    assert [one.sku for one in here.onto.query().entities(Product).with_history()] == ["new"] * 3
    assert here.onto.verify() == []


def test_lists_of_manifests_are_written_where_they_are_missing(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(130):
        write(here.onto, Customer(id="a", name=f"{number}"))
    lists = here.stored("meta/manifests/")
    wanted = {key: here.read(key) for key in lists}
    assert lists == ["meta/manifests/1-64.json", "meta/manifests/65-128.json"]
    here.storage.delete(lists[0])
    here.storage.put(lists[1], b"{}")
    with here.stranger(Path(here.config.s3_cache_dir or "") / "other") as stranger:
        stranger.compact(apply=True)
    assert {key: here.read(key) for key in here.stored("meta/manifests/")} == wanted


# What stops it


def three(here: World) -> None:
    for number in range(3):
        write(here.onto, Customer(id="a", name=f"{number}"), Product(sku="p", price=float(number)))


def test_a_head_that_moved_meanwhile_stops_it_before_the_index(here: World, tmp_path: Path) -> None:
    three(here)
    with here.stranger(tmp_path / "other") as other:

        def intrude() -> None:
            here.storage.delete("meta/locks/ontology_write.json")
            write(other, Customer(id="a", name="meanwhile"))

        here.interfere("put", "snapshots/*", after=intrude)
        with pytest.raises((HeadMismatchError, LeaseExpiredError)):
            here.onto.compact("Customer", apply=True)
    assert [one["max_commit_id"] for one in here.read(CUSTOMERS)["entries"]] == [1, 2, 3, 4]
    assert here.onto.query().entities(Customer).one().name == "meanwhile"
    assert here.onto.verify() == []


def test_a_head_that_moved_stops_it_though_the_index_is_as_it_was(here: World, tmp_path: Path) -> None:
    three(here)
    before = here.storage.get(CUSTOMERS)
    with here.stranger(tmp_path / "other") as other:

        def intrude() -> None:
            here.storage.delete("meta/locks/ontology_write.json")
            here.storage.delete("meta/schema/types.json")
            write(other, Customer(id="a", name="meanwhile"))

        here.interfere("put", "snapshots/*", after=intrude)
        with pytest.raises(HeadMismatchError, match="from commit 3 to 4"):
            here.onto.compact("Customer", apply=True)
    assert here.storage.get(CUSTOMERS) == before


def test_a_lease_that_runs_out_meanwhile_stops_it_before_the_index(here: World) -> None:
    three(here)
    before = here.read(CUSTOMERS)
    ttl = timedelta(milliseconds=here.config.s3_lease_ttl_ms)
    here.interfere("put", "snapshots/*", after=lambda: here.later(ttl * 0.7))
    with pytest.raises(LeaseExpiredError):
        here.onto.compact("Customer", apply=True)
    assert here.read(CUSTOMERS) == before
    assert here.stored("snapshots/") == ["snapshots/entities/Customer-1-3.parquet"]
    assert here.onto.compact("Customer", apply=True).rewrites, "what was left over is no obstacle"
    assert here.onto.verify() == []


class Stopped(BaseException):
    """The process ends here."""


def stop() -> None:
    raise Stopped


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("point", [("put", "snapshots/*"), ("replace", "meta/indices/*")])
def test_it_may_end_at_any_write(here: World, tmp_path: Path, nth: int, moment: str, point: tuple[str, str]) -> None:
    three(here)
    before = answers(here.onto, 3)
    fault = here.interfere(*point, nth=nth, **{moment: stop})
    with pytest.raises(Stopped):
        here.onto.compact(apply=True)
    assert fault.seen >= nth
    with here.stranger(tmp_path / "next") as following:
        assert answers(following, 3) == before
        assert following.verify() == []
        following.compact(apply=True)
        assert answers(following, 3) == before
        assert len(here.read(CUSTOMERS)["entries"]) == 1
        assert following.verify() == []


@pytest.mark.parametrize("fault", [{"lose_response": True}, {"fail": "timeout"}])
def test_a_lost_response_to_the_index_is_resolved_by_reading_it(here: World, fault: dict[str, Any]) -> None:
    three(here)
    here.interfere("replace", CUSTOMERS, **fault)
    assert here.onto.compact("Customer", apply=True).rewrites
    assert len(here.read(CUSTOMERS)["entries"]) == 1
    write(here.onto, Customer(id="b", name="x"))
    assert here.onto.verify_index() == []


def test_an_index_that_is_written_late_by_the_last_writer_does_not_bring_members_back(here: World) -> None:
    three(here)
    late = here.storage.get(CUSTOMERS).data
    here.interfere("replace", CUSTOMERS, before=lambda: here.storage.put(CUSTOMERS, late))
    here.onto.compact("Customer", apply=True)
    assert len(here.read(CUSTOMERS)["entries"]) == 1


def test_another_writer_is_waited_for_no_longer_than_any_commit(here: World) -> None:
    three(here)
    with here.backend.lease(), pytest.raises(LockContentionError):
        here.onto.compact(apply=True)
    assert here.stored("snapshots/") == []


def test_an_index_that_lacks_a_commit_is_not_made_permanent(here: World) -> None:
    three(here)
    here.change(CUSTOMERS, lambda index: {**index, "entries": [index["entries"][0], index["entries"][2]]})
    here.backend.indices.forget()
    with pytest.raises(IntegrityError, match="commit 2") as caught:
        here.onto.compact(apply=True)
    assert "index repair" in (caught.value.hint or "")
    assert here.stored("snapshots/") == []
    here.onto.repair_index(apply=True)
    assert here.onto.compact("Customer", apply=True).rewrites[0].rows == 3


@pytest.mark.parametrize("damage", ["missing", "changed"])
def test_a_damaged_member_is_told_and_not_merged(here: World, damage: str) -> None:
    three(here)
    path = here.read(CUSTOMERS)["entries"][1]["path"]
    if damage == "missing":
        here.storage.delete(path)
    else:
        here.storage.put(path, here.storage.get(here.read(CUSTOMERS)["entries"][0]["path"]).data)
    with pytest.raises(IntegrityError, match="2-") as caught:
        here.onto.compact("Customer", apply=True)
    assert caught.value.details["key"] == path
    assert here.stored("snapshots/") == []


def test_a_snapshot_that_came_out_wrong_is_not_written(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    three(here)
    monkeypatch.setattr("ontologia.store.objects.combining._in_form", _emptied)
    with pytest.raises(IntegrityError, match="did not come out"):
        here.onto.compact("Customer", apply=True)
    assert here.stored("snapshots/") == []


def _emptied(batch: Any, schema: Any) -> Any:
    """Every row with another name: a fault of the machine."""
    import pyarrow as pa

    columns = {name: batch.column(name) for name in schema.names} | {"name": pa.array(["?"] * batch.num_rows)}
    return pa.Table.from_arrays(list(columns.values()), schema=schema)


# On a real server


def test_a_cold_query_after_compaction_takes_four_requests(
    s3_uri: str, s3_config: OntologiaConfig, tmp_path: Path
) -> None:
    new_store(s3_uri, s3_config)
    onto, _ = open_counted(s3_uri, s3_config)
    for number in range(6):
        write(onto, Customer(id=f"c{number % 2}", name=f"{number}"))
    onto.compact(apply=True)
    onto.close()
    cold = s3_config.model_copy(update={"s3_cache_dir": str(tmp_path / "cold")})
    reader, counter = open_counted(s3_uri, cold)
    assert [one.name for one in reader.query().entities(Customer)] == ["4", "5"]
    assert len(counter.requests) <= 4
    assert reader.verify() == []
    reader.close()
