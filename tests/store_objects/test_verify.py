"""Whatever is changed in a bucket behind the store's back is found, and the commit it belongs to is named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from store_objects.counted import Customer, Product, Subscription, new_store, open_on, write
from store_objects.shops import SHOP, Novelty, a_history
from store_objects.upkeep import World, world

from ontologia import OntologiaConfig
from ontologia.objects.s3 import open_objects
from ontologia.store.protocol import Finding

HEAD = "meta/head.json"
CUSTOMERS = "meta/indices/entities/Customer.json"
RETIRED = "meta/retired/entities/Customer.json"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    """Eight commits over four types, one more type that was dropped, and one that was purged."""
    with world(tmp_path) as found:
        a_history(found.onto)
        with found.stranger(tmp_path / "other", entity_types=[Novelty]) as other:
            for purge in (False, True):
                write(other, Novelty(id="n", number=1))
                token = other.drop_type("entity", "Novelty", purge=purge).token
                other.drop_type("entity", "Novelty", purge=purge, apply=True, token=token)
        yield found


@pytest.fixture
def tidy(here: World) -> World:
    """The same, compacted and cleaned up, with a commit after it."""
    here.onto.compact(apply=True)
    here.later()
    here.onto.gc(apply=True)
    write(here.onto, Customer(id="c1", name="Anna", tier="Silver"))
    return here


def fresh(here: World) -> list[Finding]:
    """What another machine finds."""
    with here.stranger(
        Path(f"{here.config.s3_cache_dir}-{hashlib.sha256(repr(here.state()).encode()).hexdigest()}")
    ) as onto:
        return onto.verify()


def errors(here: World) -> list[tuple[str, int | None]]:
    return [(one.code, one.commit_id) for one in fresh(here) if one.severity == "error"]


def warnings(here: World) -> list[str]:
    found = fresh(here)
    assert [one for one in found if one.severity == "error"] == []
    return [one.code for one in found]


def manifest(here: World, number: int) -> str:
    (found,) = [key for key in here.stored(f"commits/{number}-") if key.endswith("manifest.json")]
    return found


def data(here: World, number: int, name: str) -> str:
    (found,) = [key for key in here.stored(f"commits/{number}-") if key.endswith(f"/{name}.parquet")]
    return found


def test_a_store_that_was_only_written_to_and_looked_after_is_sound(here: World) -> None:
    assert fresh(here) == []
    here.onto.compact(apply=True)
    assert fresh(here) == []
    here.later()
    here.onto.gc(apply=True)
    assert fresh(here) == []


def test_an_empty_store_is_sound(tmp_path: Path) -> None:
    with world(tmp_path) as empty:
        told: list[Any] = []
        assert empty.onto.verify(lambda *step: told.append(step)) == []
        assert told == []


def test_progress_goes_up_to_the_number_of_commits(here: World) -> None:
    told: list[tuple[int, int]] = []
    here.onto.verify(lambda done, total: told.append((done, total)))
    assert told[-1] == (8, 8)
    assert told == sorted(told)
    assert {total for _, total in told} == {8}


def test_nothing_is_written(here: World) -> None:
    before = here.state()
    here.onto.verify()
    assert here.state() == before


# The log


def change_metadata(record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "metadata": {"source": "forged"}}


def sealed(record: dict[str, Any]) -> dict[str, Any]:
    """A manifest that says of itself what it should."""
    content = {name: value for name, value in record.items() if name != "commit_sha256"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return {**content, "commit_sha256": hashlib.sha256(text.encode()).hexdigest()}


@pytest.mark.parametrize("number", [1, 3, 8])
@pytest.mark.parametrize("reseal", [False, True])
def test_a_changed_manifest_is_found(here: World, number: int, *, reseal: bool) -> None:
    seal = sealed if reseal else dict[str, Any]
    here.change(manifest(here, number), lambda record: seal(change_metadata(record)))
    assert errors(here) == [("commit-hash", number)]


@pytest.mark.parametrize("name", ["commit_id", "parent_commit_id", "created_at", "runtime_id", "files", "extra"])
def test_every_part_of_a_manifest_is_covered(here: World, name: str) -> None:
    others: dict[str, Any] = {"created_at": "2026-01-01T00:00:00+00:00", "files": []}
    here.change(manifest(here, 3), lambda record: {**record, name: others.get(name, 7)})
    assert ("commit-hash", 3) in errors(here)


def test_a_manifest_put_in_place_of_another_breaks_the_chain(here: World) -> None:
    here.storage.put(manifest(here, 4), here.storage.get(manifest(here, 3)).data)
    assert {("commit-hash", 4), ("chain", 4)} <= set(errors(here))


def test_a_missing_manifest_is_found_with_what_cannot_be_checked(here: World) -> None:
    here.storage.delete(manifest(here, 4))
    (found,) = [one for one in fresh(here) if one.severity == "error"]
    assert (found.code, found.commit_id) == ("chain", 4)
    assert "Commits 1 to 3 could not be checked" in found.message


def test_a_manifest_that_is_none_is_found(here: World) -> None:
    here.storage.put(manifest(here, 4), b"[]")
    assert errors(here) == [("chain", 4)]


def test_a_head_that_lies_about_the_last_commit_is_found(here: World) -> None:
    here.change(HEAD, lambda head: {**head, "commit_sha256": "0" * 64})
    assert errors(here) == [("commit-hash", 8)]
    write(here.onto, Customer(id="x", name="x"))
    here.change(HEAD, lambda head: {**head, "files": []})
    assert ("head", 9) in errors(here)


def test_a_log_that_was_cut_off_is_found(here: World) -> None:
    here.change(manifest(here, 3), lambda record: {**record, "parent_manifest_path": None, "parent_commit_id": None})
    assert {("commit-hash", 3), ("chain", 3)} <= set(errors(here))


# Rows


def rewritten(content: bytes, change: Callable[[pa.Table], pa.Table]) -> bytes:
    out = BytesIO()
    pq.write_table(change(pq.read_table(BytesIO(content))), out, store_schema=False)
    return out.getvalue()


def renamed(table: pa.Table) -> pa.Table:
    at = table.schema.get_field_index("name")
    return table.set_column(at, "name", pc.utf8_upper(table.column("name")))


def shorter(table: pa.Table) -> pa.Table:
    return table.slice(1)


@pytest.mark.parametrize("change", [renamed, shorter])
def test_a_changed_data_file_is_found(here: World, change: Callable[[pa.Table], pa.Table]) -> None:
    key = data(here, 1, "Customer")
    here.storage.put(key, rewritten(here.storage.get(key).data, change))
    assert errors(here) == [("rows-changed", 1)]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"x" * 5_000_000])
def test_what_is_no_data_file_is_found(here: World, content: bytes) -> None:
    here.storage.put(data(here, 5, "Customer"), content)
    assert errors(here) == [("rows-changed", 5)]


def test_a_missing_data_file_is_found(here: World) -> None:
    here.storage.delete(data(here, 2, "Product"))
    (found,) = [one for one in fresh(here) if one.severity == "error"]
    assert (found.code, found.commit_id, found.details["type_name"]) == ("rows-missing", 2, "Product")


def test_rows_of_a_dropped_type_are_looked_after_and_of_a_purged_one_are_not(here: World) -> None:
    here.storage.delete(data(here, 7, "Novelty"))
    assert errors(here) == [("rows-missing", 7)]
    assert [key for key in here.stored("commits/8-") if "Novelty" in key] == []


# Snapshots


def snapshot(here: World) -> str:
    return "snapshots/entities/Customer-1-6.parquet"


def forge(here: World, change: Callable[[pa.Table], pa.Table], *, on_record: bool) -> None:
    """Change a snapshot, and what is recorded about it too."""
    content = rewritten(here.storage.get(snapshot(here)).data, change)
    here.storage.put(snapshot(here), content)
    facts = {"content_sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    if on_record:
        for key in {CUSTOMERS, RETIRED} & set(here.stored()):
            here.change(
                key,
                lambda record: {
                    **record,
                    "entries": [
                        {**one, **facts} if one["path"] == snapshot(here) else one for one in record["entries"]
                    ],
                },
            )


def test_a_changed_snapshot_is_found(tidy: World) -> None:
    forge(tidy, renamed, on_record=False)
    assert {code for code, _ in errors(tidy)} == {"rows-changed", "rows-missing"}


def test_a_missing_snapshot_is_found(tidy: World) -> None:
    tidy.storage.delete(snapshot(tidy))
    found = errors(tidy)
    assert [one for one in found if one[0] == "rows-missing"] == [("rows-missing", n) for n in (1, 5, 6)]


def test_a_snapshot_with_too_few_rows_is_found_though_the_record_agrees(tidy: World) -> None:
    forge(tidy, shorter, on_record=True)
    assert ("rows-missing", 1) in errors(tidy)


def test_a_snapshot_with_other_rows_is_found_while_its_members_are_there(here: World) -> None:
    here.onto.compact(apply=True)
    forge(here, renamed, on_record=True)
    assert errors(here) == [("rows-changed", number) for number in (1, 5, 6)]


def test_a_snapshot_with_rows_of_another_commit_is_found(here: World) -> None:
    here.onto.compact(apply=True)

    def moved(table: pa.Table) -> pa.Table:
        return table.set_column(0, "commit_id", pc.add(table.column("commit_id"), pa.scalar(1, pa.int64())))

    forge(here, moved, on_record=True)
    assert ("rows-added", 2) in errors(here)


def test_a_damaged_member_is_found_though_its_snapshot_is_sound(here: World) -> None:
    here.onto.compact(apply=True)
    here.storage.put(data(here, 5, "Customer"), b"?")
    assert errors(here) == [("rows-changed", 5)]


# Schema


def test_a_changed_catalog_is_found(here: World) -> None:
    key = f"meta/schema/catalogs/{here.read(HEAD)['catalog']}.json"
    original = here.storage.get(key).data
    assert here.onto.verify() == []
    here.change(key, lambda record: {**record, "next_type_id": 99})
    assert [one.code for one in here.onto.verify() if one.severity == "error"] == ["catalog"]
    here.storage.delete(key)
    assert [one.code for one in here.onto.verify() if one.severity == "error"] == ["catalog"], "though it is cached"
    here.storage.put(key, original)
    assert here.onto.verify() == []


def other_types(record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "entities": record["entities"][1:]}


def other_registry(record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "entity": {**record["entity"], "Customer": {**record["entity"]["Customer"], "type_id": 9}}}


def no_versions(record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "versions": []}


def none_dropped(record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "dropped": []}


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("meta/schema/types.json", other_types),
        ("meta/schema/registry.json", other_registry),
        ("meta/schema/dropped.json", none_dropped),
        ("meta/schema/versions/entity/Customer.json", no_versions),
    ],
)
def test_public_records_that_disagree_with_the_catalog_are_told(
    here: World, key: str, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    here.change(key, change)
    assert warnings(here) == ["catalog"]
    here.storage.put(key, b"{")
    assert warnings(here) == ["catalog"]
    here.storage.delete(key)
    assert warnings(here) == ["catalog"]


def test_types_that_a_failed_commit_listed_are_nothing_to_tell(here: World) -> None:
    here.change("meta/schema/types.json", lambda types: {**types, "entities": [*types["entities"], "Ghost"]})
    assert warnings(here) == []


# Indices, ends, leftovers


def test_an_index_that_is_behind_is_a_warning(here: World) -> None:
    here.change(CUSTOMERS, lambda index: {**index, "max_indexed_commit": 6})
    assert warnings(here) == ["index"]


def test_an_index_that_readers_would_believe_is_an_error(here: World) -> None:
    here.change(CUSTOMERS, lambda index: {**index, "entries": index["entries"][1:]})
    (found,) = [one for one in fresh(here) if one.severity == "error"]
    assert (found.code, found.details["type_name"]) == ("index", "Customer")
    assert "commit 1" in found.message
    here.onto.repair_index(apply=True)
    assert fresh(here) == []


def test_ends_that_are_not_there_are_told_as_in_a_file(here: World) -> None:
    write(here.onto, *(Subscription(left_key=f"ghost{n}", right_key="p1", seats=n) for n in range(7)))
    (found,) = fresh(here)
    assert (found.severity, found.code) == ("warning", "dangling")
    assert found.message == (
        "Subscription: 7 of its rows name a missing Customer on the left:"
        " 'ghost0', 'ghost1', 'ghost2', 'ghost3', 'ghost4', …."
    )
    assert found.details == {
        "type_name": "Subscription",
        "side": "left",
        "count": 7,
        "keys": [f"ghost{n}" for n in range(5)],
    }
    write(here.onto, *(Customer(id=f"ghost{n}", name="Boo") for n in range(7)))
    assert fresh(here) == []


def test_an_end_whose_type_is_unknown_is_missing(tmp_path: Path) -> None:
    with world(tmp_path) as here:
        write(here.onto, Subscription(left_key="a", right_key="b", seats=1))
        assert [one.details["side"] for one in here.onto.verify()] == ["left", "right"]


def test_attempts_that_failed_are_counted(here: World) -> None:
    here.storage.put("commits/3-deadbeef/entities/Customer.parquet", b"12345")
    (found,) = fresh(here)
    assert (found.severity, found.code) == ("warning", "orphans")
    assert found.message.startswith("1 objects (5 bytes)")


def test_it_walks_a_long_log_side_by_side_and_without_lists(tmp_path: Path) -> None:
    with world(tmp_path) as here:
        for number in range(140):
            write(here.onto, Product(sku="p", price=float(number)))
        for key in here.stored("meta/manifests/"):
            here.storage.delete(key)
        assert fresh(here) == []
        here.change(manifest(here, 2), change_metadata)
        assert errors(here) == [("commit-hash", 2)]


# On a real server


def test_a_changed_byte_on_s3_is_found(s3_uri: str, s3_config: OntologiaConfig, tmp_path: Path) -> None:
    new_store(s3_uri, s3_config)
    objects = open_objects(s3_uri, s3_config)
    with open_on(objects, s3_config, **SHOP) as onto:
        a_history(onto)
        onto.compact(apply=True)
        assert onto.verify() == []
        for key in [one.key for one in objects.list("") if one.key.endswith(".parquet")]:
            good = objects.get(key).data
            objects.put(key, good[:200] + bytes([good[200] ^ 1]) + good[201:])
            assert "rows-changed" in {one.code for one in onto.verify()}, key
            objects.put(key, good)
            objects.delete(key)
            assert [one for one in onto.verify() if one.severity == "error"] or not key.startswith("snapshots/"), key
            objects.put(key, good)
        assert onto.verify() == []
