"""Making a store under a prefix, and a new one in place of the old: refused unless meant, whole wherever it stops."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from store_objects.counted import Customer, Product, open_on, write
from store_objects.shops import SHOP, a_history, everything
from store_objects.upkeep import START, Storage

from ontologia import (
    HeadMismatchError,
    LeaseExpiredError,
    LockContentionError,
    OntologiaConfig,
    Ontology,
    RefusedError,
    StorageBackendError,
    UninitializedStorageError,
)
from ontologia.base.clock import ManualClock
from ontologia.objects.faults import Fault, FaultyObjects
from ontologia.objects.s3 import open_objects
from ontologia.store.maintenance import Initialisation
from ontologia.store.objects.initialise import initialise, initialise_on
from ontologia.store.objects.schema import Schema

HEAD = "meta/head.json"
LOCK = "meta/locks/ontology_write.json"
CATALOG = f"meta/schema/catalogs/{Schema().sha256}.json"
NEW = {HEAD, CATALOG, "meta/schema/types.json", "meta/schema/registry.json"}


@dataclass
class Prefix:
    """An empty prefix."""

    storage: Storage
    objects: FaultyObjects
    clock: ManualClock
    config: OntologiaConfig

    def init(self, **options: Any) -> Initialisation:
        return initialise_on(self.objects, self.config, clock=self.clock, **options)

    def stored(self) -> set[str]:
        return {one.key for one in self.storage.list("")}

    def state(self) -> dict[str, bytes]:
        return {key: self.storage.get(key).data for key in self.stored()}

    def read(self, key: str) -> Any:
        return json.loads(self.storage.get(key).data)

    def open(self, folder: str = "first") -> Ontology:
        config = self.config.model_copy(update={"s3_cache_dir": f"{self.config.s3_cache_dir}/{folder}"})
        return open_on(self.storage, config, self.clock, **SHOP)

    def token(self) -> str:
        token = self.init(force=True, dry_run=True).token
        assert token is not None
        return token


@pytest.fixture
def prefix(tmp_path: Path) -> Prefix:
    clock = ManualClock(START)
    storage = Storage(clock)
    config = OntologiaConfig(s3_cache_dir=str(tmp_path), s3_lock_timeout_ms=50)
    return Prefix(storage, FaultyObjects(storage), clock, config)


@pytest.fixture
def used(prefix: Prefix) -> Prefix:
    """A store with a history, compacted, with a type dropped."""
    prefix.init()
    with prefix.open() as onto:
        a_history(onto)
        onto.compact(apply=True)
        prefix.clock.set(START + timedelta(days=8))
        onto.gc(apply=True)
        token = onto.drop_type("relation", "Stint").token
        onto.drop_type("relation", "Stint", apply=True, token=token)
    return prefix


# A new store


def test_a_store_is_made_of_few_objects(prefix: Prefix) -> None:
    done = prefix.init()
    assert (done.applied, done.existing, done.token, done.notes) == (True, None, None, ())
    assert set(done.keys) == prefix.stored() == NEW
    head = prefix.read(HEAD)
    assert len(head.pop("store_id")) == 32
    assert head == {
        "commit_id": 0,
        "manifest_path": None,
        "updated_at": START.isoformat(),
        "runtime_id": "onto-init",
        "catalog": Schema().sha256,
        "format": 1,
    }
    assert prefix.read("meta/schema/types.json") == {
        "entities": [],
        "relations": [],
        "updated_at": START.isoformat(),
        "catalog": Schema().sha256,
    }
    with prefix.open() as onto:
        assert onto.head() == 0
        assert onto.verify() == []
        assert write(onto, Customer(id="a", name="x")) == 1


def test_a_dry_run_writes_nothing_and_says_that_writing_was_not_tried(prefix: Prefix) -> None:
    plan = prefix.init(dry_run=True)
    assert prefix.stored() == set()
    assert (plan.applied, plan.existing, plan.token, set(plan.keys)) == (False, None, None, NEW)
    assert "Only reading was tried" in plan.notes[0]


def test_no_store_is_opened_before_it_is_made(prefix: Prefix) -> None:
    with pytest.raises(UninitializedStorageError, match="no store"):
        prefix.open()
    assert prefix.stored() == set()


def test_what_lies_under_the_prefix_already_stays(prefix: Prefix) -> None:
    prefix.storage.put("notes.txt", b"mine")
    assert "1 objects" in prefix.init(dry_run=True).notes[1]
    prefix.init()
    assert prefix.stored() == NEW | {"notes.txt"}


class Forgetful(Storage):
    """A server that ignores conditions."""

    def create(self, key: str, data: bytes) -> str:
        return self.put(key, data)


class Simple(Storage):
    """A server that ignores the condition of a deletion."""

    def delete(self, key: str, *, if_match: str | None = None) -> None:
        del if_match
        super().delete(key)


def test_a_server_that_does_not_keep_its_word_is_refused(tmp_path: Path) -> None:
    clock = ManualClock(START)
    storage = Forgetful(clock)
    with pytest.raises(StorageBackendError, match="create-if-absent"):
        initialise_on(storage, OntologiaConfig(s3_cache_dir=str(tmp_path)), clock=clock)
    assert list(storage.list("")) == []


def test_a_server_without_conditional_delete_is_used_and_told_about(tmp_path: Path) -> None:
    clock = ManualClock(START)
    storage = Simple(clock)
    done = initialise_on(storage, OntologiaConfig(s3_cache_dir=str(tmp_path)), clock=clock)
    assert not storage.conditional_delete
    assert ["delete-if-match" in note for note in done.notes] == [True]
    assert {one.key for one in storage.list("")} == NEW | {LOCK}, "the lock was left to run out"


class Stopped(BaseException):
    """The process ends here."""


def stop() -> None:
    raise Stopped


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("key", [CATALOG, "meta/schema/types.json", "meta/schema/registry.json"])
def test_a_prefix_whose_making_was_stopped_can_be_made_again(prefix: Prefix, moment: str, key: str) -> None:
    fault = Fault("put", key)
    setattr(fault, moment, stop)
    prefix.objects.add(fault)
    with pytest.raises(Stopped):
        prefix.init()
    with pytest.raises(UninitializedStorageError):
        prefix.open()
    assert prefix.init(dry_run=True).existing is None
    prefix.init()
    with prefix.open() as onto:
        assert write(onto, Customer(id="a", name="x")) == 1


@pytest.mark.parametrize("fault", [{"lose_response": True}, {"fail": "timeout"}])
def test_a_lost_response_to_the_head_is_never_guessed_at(prefix: Prefix, fault: dict[str, Any]) -> None:
    prefix.objects.add(Fault("create", HEAD, **fault))
    if "lose_response" in fault:
        assert prefix.init().applied
    else:
        with pytest.raises(StorageBackendError, match="could not be learned"):
            prefix.init()
        prefix.init()
    with prefix.open() as onto:
        assert onto.head() == 0


def test_of_two_at_once_one_makes_the_store(prefix: Prefix) -> None:
    ends: list[str] = []

    def make() -> None:
        try:
            prefix.init()
            ends.append("made")
        except (RefusedError, LockContentionError) as error:
            ends.append(error.kind)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ends.count("made") == 1


def test_a_store_made_meanwhile_is_not_made_again(prefix: Prefix) -> None:
    prefix.objects.add(Fault("create", LOCK, before=lambda: initialise_on(prefix.storage, prefix.config)))
    with pytest.raises(RefusedError):
        prefix.init()
    with prefix.open() as onto:
        assert onto.head() == 0


# In place of another


@pytest.mark.parametrize("options", [{}, {"force": True}, {"force": True, "token": "0" * 16}])
def test_a_store_is_not_emptied_without_the_token(used: Prefix, options: dict[str, Any]) -> None:
    before = used.state()
    with pytest.raises(RefusedError) as caught:
        used.init(**options)
    assert "--force --dry-run" in (caught.value.hint or "")
    assert used.state() == before


def test_the_preview_says_what_would_be_lost(used: Prefix) -> None:
    before = used.state()
    assert used.init(dry_run=True).token is None
    plan = used.init(force=True, dry_run=True)
    assert used.state() == before
    store_id = used.read(HEAD)["store_id"]
    assert plan.existing == {"commit_id": 6, "store_id": store_id, "objects": len(before)}
    assert plan.token is not None
    assert (len(plan.token), plan.applied) == (16, False)
    assert used.init(force=True, dry_run=True).token == plan.token, "it stands for the state, not for the preview"


def test_a_token_fits_one_state_of_one_prefix(used: Prefix) -> None:
    token = used.token()
    with used.open() as onto:
        write(onto, Customer(id="new", name="x"))
    with pytest.raises(RefusedError, match="does not fit"):
        used.init(force=True, token=token)
    another = Storage(used.clock)
    another.uri = "s3://memory/another"
    another.put(HEAD, used.storage.get(HEAD).data)
    assert initialise_on(another, used.config, force=True, dry_run=True).token != used.token()


def test_a_new_store_begins_empty_and_nothing_of_the_old_one_is_left(used: Prefix) -> None:
    before = used.read(HEAD)["store_id"]
    used.storage.put("events/default/1.json", b"{}")
    told: list[tuple[int, int]] = []
    done = used.init(force=True, token=used.token(), progress=lambda *step: told.append(step))
    assert done.applied
    assert done.existing is not None
    assert done.existing["commit_id"] == 6
    assert used.stored() == NEW
    assert used.read(HEAD)["store_id"] != before
    assert told[-1][0] == told[-1][1] > 10
    with used.open("second") as onto:
        assert_new(onto)


def assert_new(onto: Ontology) -> None:
    """A store that has never had anything, and takes what it is given."""
    assert onto.head() == 0
    assert onto.stored_types() == []
    assert onto.list_commits() == []
    for number in (1, 2, 3):
        assert write(onto, Customer(id="new", name=f"{number}"), Product(sku="q", price=1.0 * number)) == number
        assert [one.name for one in onto.query().entities(Customer).with_history()] == [
            f"{n}" for n in range(1, number + 1)
        ]
    assert onto.query().entities(Product).as_of(1).one().price == 1.0
    assert [len(onto.changes(n)) for n in (1, 2, 3)] == [2, 2, 2]
    assert [one.commit_id for one in onto.list_commits()] == [3, 2, 1]
    assert [one for one in onto.verify() if one.severity == "error"] == []
    assert onto.verify_index() == []
    onto.compact(apply=True)
    assert onto.query().entities(Customer).one().name == "3"


@pytest.mark.parametrize("batches", [0, 1, 3, 5])
def test_old_rows_are_never_seen_however_much_of_them_is_left(
    used: Prefix, batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ontologia.store.objects.initialise._BATCH", 4)
    token = used.token()
    probing = 1
    used.objects.add(Fault("delete_many", nth=probing + batches + 1, before=stop))
    with pytest.raises(Stopped):
        used.init(force=True, token=token)
    assert used.read(HEAD)["commit_id"] == 0
    used.storage.delete(LOCK)
    with used.open("second") as onto:
        assert_new(onto)
        used.clock.set(used.clock.now() + timedelta(days=8))
        onto.gc(apply=True)
        assert onto.gc().removals == ()
        assert onto.verify() == []


@pytest.mark.parametrize("key", [CATALOG, "meta/schema/types.json", HEAD])
def test_stopped_before_the_swap_the_old_store_is_whole(used: Prefix, key: str) -> None:
    with used.open("other") as onto:
        before = onto.query().entities(Customer).collect()
    method = "replace" if key == HEAD else "put"
    used.objects.add(Fault(method, key, before=stop))
    with pytest.raises(Stopped):
        used.init(force=True, token=used.token())
    used.storage.delete(LOCK)
    with used.open("second") as onto:
        assert [repr(one) for one in onto.query().entities(Customer)] == [repr(one) for one in before]
        assert write(onto, Customer(id="more", name="x")) == 7
        assert [one for one in onto.verify() if one.severity == "error"] == []


def test_who_has_the_old_store_open_is_told_to_open_the_new_one(used: Prefix) -> None:
    with used.open("second") as onto:
        assert onto.query().entities(Customer).count() == 3
        session = onto.session()
        session.ensure(Customer(id="late", name="x"))
        used.init(force=True, token=used.token())
        with pytest.raises(StorageBackendError, match="initialised anew"):
            onto.query().entities(Customer).count()
        with pytest.raises(StorageBackendError, match="initialised anew"):
            session.commit()
    with used.open("third") as onto:
        assert onto.head() == 0
        assert list(onto.query().entities(Customer)) == []


def test_a_head_that_moves_after_the_token_was_checked_is_not_lost(used: Prefix) -> None:
    token = used.token()
    with used.open("other") as other:

        def intrude() -> None:
            used.storage.delete(LOCK)
            write(other, Customer(id="late", name="x"))

        used.objects.add(Fault("replace", HEAD, before=intrude))
        with pytest.raises(HeadMismatchError):
            used.init(force=True, token=token)
        assert other.query().entities(Customer).where(Customer.id == "late").count() == 1
        assert other.head() == 7


def test_a_lease_that_runs_out_stops_the_removal(used: Prefix) -> None:
    before = used.stored()
    ttl = timedelta(milliseconds=used.config.s3_lease_ttl_ms)
    token = used.token()
    later = used.clock.now() + ttl * 0.7
    used.objects.add(Fault("replace", HEAD, after=lambda: used.clock.set(later)))
    with pytest.raises(LeaseExpiredError):
        used.init(force=True, token=token)
    assert before <= used.stored()
    with used.open("second") as onto:
        assert onto.head() == 0


def test_a_writer_is_waited_for(used: Prefix) -> None:
    token = used.token()
    record = {"owner_id": "busy", "lease_ttl_ms": 30_000, "acquired_at": used.clock.now().isoformat()}
    expires = (used.clock.now() + timedelta(seconds=30)).isoformat()
    used.storage.put(LOCK, json.dumps({**record, "expires_at": expires}).encode())
    with pytest.raises(LockContentionError, match="busy"):
        used.init(force=True, token=token)


@pytest.mark.parametrize("content", [b"{", b"[]", b"{}"])
def test_a_head_that_cannot_be_read_is_still_a_store(used: Prefix, content: bytes) -> None:
    used.storage.put(HEAD, content)
    with pytest.raises(RefusedError):
        used.init()
    plan = used.init(force=True, dry_run=True)
    assert plan.existing is not None
    assert HEAD in plan.existing["problem"]
    used.init(force=True, token=plan.token)
    with used.open("second") as onto:
        assert_new(onto)


# On a real server


def test_a_store_on_s3_is_made_and_made_anew(s3_uri: str, s3_config: OntologiaConfig) -> None:
    assert initialise(s3_uri, s3_config, dry_run=True).existing is None
    assert list(open_objects(s3_uri, s3_config).list("")) == []
    assert initialise(s3_uri, s3_config).notes == ()
    with pytest.raises(RefusedError):
        initialise(s3_uri, s3_config)
    with open_on(open_objects(s3_uri, s3_config), s3_config, **SHOP) as onto:
        a_history(onto)
        assert everything(onto)
        token = initialise(s3_uri, s3_config, force=True, dry_run=True).token
        assert initialise(s3_uri, s3_config, force=True, token=token).applied
        assert {one.key for one in open_objects(s3_uri, s3_config).list("")} == NEW
        with pytest.raises(StorageBackendError, match="initialised anew"):
            onto.head()
    with open_on(open_objects(s3_uri, s3_config), s3_config, **SHOP) as onto:
        assert_new(onto)
