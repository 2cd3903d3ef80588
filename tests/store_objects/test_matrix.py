"""The test matrix of the store on S3, entry by entry: `test_NN_…` is entry NN of the specification.

Entries with a subject of their own go deeper elsewhere: writers (2), crashes (3), the lock (9). Here each entry is
shown once, on the real server, against SQLite where the two must agree.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from skins.runs import MODELS, fill, onto, shop
from store_objects.broken import WRITE
from store_objects.buckets import CUSTOMERS, HEAD, LOCK, PRODUCTS, SUBSCRIPTIONS, TYPES, Bucket
from store_objects.counted import Customer, Product, open_counted, open_on, write
from store_objects.nursery import Nursery
from store_objects.shops import (
    SHOP,
    START,
    Account,
    AccountInCents,
    AccountWithCurrency,
    AccountWithOwners,
    Stint,
    a_history,
    balance_in_cents,
    batch,
    customers,
    everything,
    numbers,
    opened,
    owner_as_list,
    three_commits,
)

from ontologia import (
    HeadMismatchError,
    LeaseExpiredError,
    LockContentionError,
    MigrationTokenError,
    OntologiaConfig,
    Ontology,
)
from ontologia.base.clock import ManualClock, SystemClock
from ontologia.cli import exits
from ontologia.objects.faults import Fault, FaultyObjects
from ontologia.objects.s3 import open_objects


def here(bucket: Bucket, **options: Any) -> Ontology:
    """The shop in a bucket."""
    return opened(bucket.uri, bucket.config, **options)


@pytest.fixture
def both(store: Bucket, tmp_path: Path) -> Iterator[tuple[Ontology, Ontology]]:
    """The same types in a file and in a bucket, at the same times."""
    config = OntologiaConfig(runtime_id="parity", sqlite_synchronous="normal")
    file = Ontology(str(tmp_path / "onto.db"), config, clock=ManualClock(START), **SHOP)
    bucket = here(store.with_settings(runtime_id="parity"), clock=ManualClock(START))
    yield file, bucket
    file.close()
    bucket.close()


def test_01_the_same_writes_give_the_same_answers_in_a_file_and_in_a_bucket(both: tuple[Ontology, Ontology]) -> None:
    for one in both:
        a_history(one)
    in_file, in_bucket = map(everything, both)
    for name, answer in in_file.items():
        assert in_bucket[name] == answer, name
    assert [one.verify() for one in both] == [[], []]


def test_02_competing_writers_take_turns_and_lose_nothing(store: Bucket, tmp_path: Path) -> None:
    acknowledged: list[int | None] = []

    def work(name: str) -> None:
        machine = store.elsewhere(tmp_path / name).with_settings(runtime_id=name)
        with here(machine) as onto:
            acknowledged.extend(write(onto, Customer(id=f"{name}{n}", name="x")) for n in range(6))

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one for one in acknowledged if one) == list(range(1, 13))
    with here(store) as onto:
        assert onto.query().entities(Customer).count() == 12
        assert onto.verify() == []


def test_02_a_writer_whose_head_is_stale_never_overwrites_another_commit(store: Bucket, tmp_path: Path) -> None:
    objects = FaultyObjects(open_objects(store.uri, store.config))
    with open_on(objects, store.config) as onto, here(store.elsewhere(tmp_path / "b")) as other:
        write(onto, Customer(id="mine", name="1"))

        def intrude() -> None:
            store.delete(LOCK)
            assert write(other, Customer(id="other", name="1")) == 2

        objects.add(Fault("replace", HEAD, before=intrude))
        assert write(onto, Customer(id="mine", name="2"), Customer(id="other", name="2")) == 3
        assert [(one.id, one.meta().commit_id) for one in onto.query().entities(Customer).with_history()] == [
            ("mine", 1),
            ("other", 2),
            ("mine", 3),
            ("other", 3),
        ]
        assert onto.verify() == []


@pytest.mark.parametrize(("moment", "head"), [("before", 1), ("after", 2)])
def test_03_a_crash_around_the_head_update_leaves_one_whole_state(
    store: Bucket, nursery: Nursery, moment: str, head: int
) -> None:
    with here(store) as onto:
        batch(onto, 1)
    nursery.killed("die", store, "commit", moment, "replace", HEAD)
    assert store.head() == head
    with here(store) as onto:
        assert numbers(onto) == {head}


def test_03_a_lock_left_behind_is_taken_over_when_its_lease_has_run_out(store: Bucket, nursery: Nursery) -> None:
    nursery.killed("die", store, "commit", "before", "replace", HEAD, runtime_id="victim")
    left_behind = store.read(LOCK)
    assert left_behind["owner_id"] == "victim"
    with here(store.with_settings(s3_lock_timeout_ms=30)) as onto:
        with pytest.raises(LockContentionError, match="victim"):
            write(onto, Customer(id="next", name="x"))
        past = datetime.now(UTC) - timedelta(seconds=1)
        store.write(LOCK, {**left_behind, "expires_at": past.isoformat()})
        assert write(onto, Customer(id="next", name="x")) == 1
    assert LOCK not in store.tags()


def test_04_windows_over_commits_and_schema_versions_agree_with_sqlite(store: Bucket, tmp_path: Path) -> None:
    versions: list[tuple[type[Any], Callable[[str, int], Any]]] = [
        (Account, lambda key, n: Account(id=key, owner=f"o{n}", balance=n)),
        (AccountWithCurrency, lambda key, n: AccountWithCurrency(id=key, owner=f"o{n}", balance=n, currency="NOK")),
        (AccountInCents, lambda key, n: AccountInCents(id=key, owner=f"o{n}", cents=n, currency="SEK")),
        (AccountWithOwners, lambda key, n: AccountWithOwners(id=key, owner=[f"o{n}"], cents=n)),
    ]
    upgraders = [balance_in_cents, owner_as_list]
    answers: list[list[Any]] = []
    places: list[dict[str, Any]] = [
        {"db_path": str(tmp_path / "accounts.db")},
        {"storage_uri": store.uri, "config": store.config},
    ]
    for place in places:
        number = 0
        for cls, make in versions:
            with Ontology(entity_types=[cls], upgraders=upgraders, clock=ManualClock(START), **place) as onto:
                if number:
                    assert onto.migrate(apply=True, token=onto.migrate().token).applied
                for key in "ab":
                    number += 1
                    write(onto, make(key, number))
        with Ontology(entity_types=[AccountWithOwners], upgraders=upgraders, **place) as onto:
            query = onto.query().entities(AccountWithOwners)
            windows = [*map(query.as_of, range(1, 12)), *map(query.history_since, (0, 3, 6, 9))]
            found = [[(repr(one), one.meta().commit_id) for one in window] for window in windows]
            answers.append([*found, [sorted(row.items(), key=str) for row in query.with_history().rows()]])
            assert onto.verify() == []
    assert answers[0] == answers[1]


def test_05_the_command_line_takes_a_storage_uri_and_refuses_two_places(store: Bucket, tmp_path: Path) -> None:
    fill(store.config, storage_uri=store.uri)
    shop(tmp_path / "here.db")
    asked = ["query", "entities", "Customer", "--json"]
    in_bucket, in_file = store.onto(*asked).json, onto(*asked, "--db", "here.db").json
    assert [{**row, "committed_at": None} for row in in_bucket] == [{**row, "committed_at": None} for row in in_file]
    run = store.onto("info", "--db", "here.db")
    assert run.code == exits.USAGE
    assert "here.db" in run.err
    same = onto("info", "--db", "here.db", "--storage-uri", f"sqlite:///{tmp_path}/here.db", "--json")
    assert (same.code, same.json["head"]) == (0, 3), same.err
    info = store.onto("info", "--json").json
    assert (info["backend"], f"s3://{info['bucket']}/{info['prefix']}") == ("s3", store.uri)


def test_06_init_writes_nothing_in_a_dry_run_and_empties_only_with_a_token(bucket: Bucket) -> None:
    assert bucket.onto("init", "--dry-run").code == 0
    assert bucket.tags() == {}
    assert bucket.onto("init").code == 0
    head = bucket.read(HEAD)
    assert (head["commit_id"], head["manifest_path"], head["runtime_id"]) == (0, None, "onto-init")
    assert bucket.read(TYPES).keys() >= {"entities", "relations", "updated_at"}
    fill(bucket.config, storage_uri=bucket.uri)
    before = bucket.tags()
    for arguments in ([], ["--force"], ["--force", "--token", "0" * 16]):
        assert bucket.onto("init", *arguments).code == exits.REFUSED
    token = bucket.onto("init", "--force", "--dry-run", "--json").json["token"]
    assert bucket.tags() == before
    assert bucket.onto("init", "--force", "--token", token).code == 0
    assert bucket.onto("info", "--json").json["head"] == 0
    with here(bucket) as onto:
        assert onto.query().entities(Customer).count() == 0
        assert write(onto, Customer(id="new", name="x")) == 1
        assert [one.id for one in onto.query().entities(Customer).with_history()] == ["new"]
        assert onto.verify() == []


def test_06_compact_writes_nothing_unless_told_to_apply(store: Bucket) -> None:
    with here(store) as onto:
        for number in range(10):
            write(onto, Customer(id=f"c{number % 3}", name=f"n{number}"))
        before, tags = customers(onto), store.tags()
    plan = store.onto("compact", "--json").json
    assert (plan["applied"], [one["type_name"] for one in plan["rewrites"]]) == (False, ["Customer"])
    assert store.tags() == tags
    assert store.onto("compact", "--type", "Customer", "--apply").code == 0
    assert store.tags(under="snapshots/entities/Customer-")
    with here(store) as onto:
        assert customers(onto) == before


def test_07_a_migration_is_bound_to_its_token_and_waits_for_the_lock(store: Bucket) -> None:
    with Ontology(storage_uri=store.uri, config=store.config, entity_types=[Account]) as old:
        write(old, Account(id="a", owner="Anna", balance=1))
        impatient = store.with_settings(s3_lock_timeout_ms=30)
        newer = Ontology(storage_uri=store.uri, config=impatient.config, entity_types=[AccountWithCurrency])
        stale = newer.migrate().token
        write(old, Account(id="b", owner="Bert", balance=2))
        with pytest.raises(MigrationTokenError):
            newer.migrate(apply=True, token=stale)
        hold(store, "somebody-else")
        with pytest.raises(LockContentionError) as caught:
            newer.migrate(apply=True, token=newer.migrate().token)
        assert caught.value.owner_id == "somebody-else"
        assert newer.head() == 2
        store.delete(LOCK)
        done = newer.migrate(apply=True, token=newer.migrate().token)
        assert (done.applied, done.commit_id) == (True, 3)
        assert [one.currency for one in newer.query().entities(AccountWithCurrency)] == ["EUR", "EUR"]
        assert newer.verify() == []
        newer.close()


def hold(bucket: Bucket, owner: str, seconds: float = 300) -> None:
    """Take the lock the way another program would."""
    now = datetime.now(UTC)
    times = {"acquired_at": now.isoformat(), "expires_at": (now + timedelta(seconds=seconds)).isoformat()}
    bucket.write(LOCK, {"owner_id": owner, "lease_ttl_ms": int(seconds * 1000), **times})


def test_08_commits_are_inspected_alike_in_a_file_and_in_a_bucket(store: Bucket, tmp_path: Path) -> None:
    fill(store.config, storage_uri=store.uri)
    shop(tmp_path / "here.db")
    unlike = {"created_at", "commit_sha256"}

    def shown(*arguments: str) -> tuple[Any, Any]:
        found = [store.onto(*arguments, "--json").json, onto(*arguments, "--db", "here.db", "--json").json]
        for answer in found:
            for one in answer if isinstance(answer, list) else [answer]:
                assert unlike <= one.keys()
                for name in unlike:
                    one.pop(name)
        return found[0], found[1]

    for arguments in (["commits"], ["commits", "--limit", "2"], ["commits", "--since", "1"]):
        in_bucket, in_file = shown(*arguments)
        assert in_bucket == in_file
    for number in "123":
        in_bucket, in_file = shown("commits", "examine", number)
        assert in_bucket == in_file
        assert in_bucket["changes"]
    assert store.onto("commits", "examine", "9").code == onto("commits", "examine", "9", "--db", "here.db").code != 0


def test_09_a_lease_that_was_taken_over_is_not_given_back_by_its_old_owner(store: Bucket) -> None:
    objects = FaultyObjects(open_objects(store.uri, store.config))
    with open_on(objects, store.config) as onto:
        write(onto, Customer(id="a", name="1"))
        objects.add(Fault("delete", LOCK, before=lambda: hold(store, "the-next")))
        assert write(onto, Customer(id="a", name="2")) == 2
    assert store.read(LOCK)["owner_id"] == "the-next"


def test_10_predicates_and_projections_reach_the_typed_columns_of_the_scan(store: Bucket) -> None:
    with here(store) as onto:
        for number in range(3):
            write(onto, *(Product(sku=f"p{number}{n}", price=float(n)) for n in range(40)))
        plan = onto.query().entities(Product).where(Product.price > 30.0).explain()
        assert plan.native
        text = "\n".join(plan.plan)
        scan = text[text.upper().index("PARQUET") :]
        assert "price" in scan, "the scan has the column"
        assert "30.0" in scan, "and its filter"
        assert "fields_json" not in text, "the payload is not read"
        assert onto.query().entities(Product).where(Product.price > 30.0).count() == 27
        by_key = "\n".join(onto.query().entities(Product).where(Product.sku == "p11").explain().plan)
        assert "p11" in by_key[by_key.upper().index("PARQUET") :]


@pytest.mark.parametrize(
    "arguments",
    [
        ["info"],
        ["query", "entities", "Customer", "--models", "models.py"],
        ["migrate", "--models", "models.py"],
        ["import", "Product.csv", "--models", "models.py"],
        ["export", "--output", "out"],
        ["index", "verify"],
        ["compact", "--apply"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_11_commands_on_a_prefix_without_a_store_fail_at_once(bucket: Bucket, arguments: list[str]) -> None:
    Path("models.py").write_text(MODELS)
    Path("Product.csv").write_text("sku,title\np9,New\n")
    run = bucket.onto(*arguments)
    assert (run.code, run.out) == (exits.STORAGE, "")
    assert run.err.startswith("error[uninitialized]: ")
    assert f"onto init --storage-uri {bucket.uri}" in run.err
    assert bucket.tags() == {}


def lag(bucket: Bucket) -> None:
    index = bucket.read(CUSTOMERS)
    bucket.write(CUSTOMERS, {**index, "max_indexed_commit": 1, "entries": index["entries"][:1]})


def no_index(bucket: Bucket) -> None:
    bucket.delete(CUSTOMERS)


def no_entry_for_head(bucket: Bucket) -> None:
    index = bucket.read(CUSTOMERS)
    bucket.write(CUSTOMERS, {**index, "entries": index["entries"][:-1]})


def path_of_another_attempt(bucket: Bucket) -> None:
    index = bucket.read(CUSTOMERS)
    *others, last = index["entries"]
    orphan = "commits/3-deadbeef/entities/Customer.parquet"
    bucket.write(orphan, bucket.bytes(others[0]["path"]))
    bucket.write(CUSTOMERS, {**index, "entries": [*others, {**last, "path": orphan}]})


def garbled(bucket: Bucket) -> None:
    bucket.write(CUSTOMERS, b'{"type_name": "Customer", "max_ind')


@pytest.mark.parametrize(
    ("tamper", "code"),
    [
        (lag, "lag"),
        (no_index, "missing"),
        (no_entry_for_head, "missing-latest-entry"),
        (path_of_another_attempt, "path-mismatch"),
        (garbled, "unreadable"),
    ],
)
def test_12_an_index_that_is_wrong_is_told_and_never_believed(
    store: Bucket, tmp_path: Path, tamper: Callable[[Bucket], None], code: str
) -> None:
    with here(store) as onto:
        three_commits(onto)
    with here(store) as onto:
        right = customers(onto)
    tamper(store)
    stranger = store.elsewhere(tmp_path / "stranger")
    found = stranger.onto("index", "verify", "--json")
    assert found.code == exits.UNHEALTHY == 4
    assert [(one["type_name"], one["code"]) for one in found.json["problems"]] == [("Customer", code)]
    with here(stranger) as onto:
        assert "Customer" in onto.storage_info()["last_index_warning"]
        assert customers(onto) == right
        assert "Customer" in onto.storage_info()["last_index_warning"]
    assert "Customer" in stranger.onto("info", "--json").json["last_index_warning"]
    with here(stranger) as onto:
        write(onto, Product(sku="q", price=2.0))
        assert onto.verify_index() == [], "the next commit mends it"
        assert customers(onto) == right


def test_12_a_snapshot_that_covers_the_head_is_coverage(store: Bucket, tmp_path: Path) -> None:
    with here(store) as onto:
        three_commits(onto)
    with here(store) as onto:
        right = customers(onto)
        onto.compact("Customer", apply=True)
    (entry,) = store.read(CUSTOMERS)["entries"]
    assert (entry["min_commit_id"], entry["max_commit_id"]) == (1, 3)
    assert store.onto("index", "verify").code == 0
    with here(store.elsewhere(tmp_path / "stranger")) as onto:
        assert customers(onto) == right
        assert onto.storage_info()["last_index_warning"] is None
    index = store.read(CUSTOMERS)
    store.write(CUSTOMERS, {**index, "entries": [{**entry, "max_commit_id": 2}]})
    run = store.onto("index", "verify", "--json")
    assert (run.code, run.json["problems"][0]["code"]) == (4, "missing-latest-entry")


def test_13_repair_restores_the_indices_and_commits_nothing(store: Bucket) -> None:
    with here(store) as onto:
        three_commits(onto)
    with here(store) as onto:
        right = customers(onto)
    head, good = store.bytes(HEAD), store.read(CUSTOMERS)
    lag(store)
    store.delete(PRODUCTS)
    tampered = store.tags()
    plan = store.onto("index", "repair", "--json").json
    assert (plan["applied"], sorted(plan["written"])) == (False, [CUSTOMERS, PRODUCTS])
    assert store.tags() == tampered
    assert store.onto("index", "repair", "--apply").code == 0
    assert store.onto("index", "verify").code == 0
    assert store.onto("info", "--json").json["last_index_warning"] is None
    for key in (CUSTOMERS, PRODUCTS):
        assert store.read(key)["max_indexed_commit"] == 3
    entries = [(one["min_commit_id"], one["max_commit_id"], one["path"]) for one in store.read(CUSTOMERS)["entries"]]
    assert entries == [(one["min_commit_id"], one["max_commit_id"], one["path"]) for one in good["entries"]]
    assert store.bytes(HEAD) == head
    repaired = store.tags()
    assert store.onto("index", "repair", "--apply").code == 0
    assert store.tags() == repaired, "once more changes nothing"
    with here(store) as onto:
        assert customers(onto) == right


def test_14_untouched_types_keep_up_and_cost_no_walk(store: Bucket, tmp_path: Path) -> None:
    with here(store) as onto:
        write(onto, Product(sku="p", price=1.0))
        for number in range(12):
            write(onto, Customer(id="a", name=f"n{number}"))
    index = store.read(PRODUCTS)
    assert (index["max_indexed_commit"], len(index["entries"])) == (13, 1)
    reader, counter = open_counted(store.uri, store.elsewhere(tmp_path / "cold").config)
    assert reader.query().entities(Product).count() == 1
    assert [one for one in counter.requests if "manifest" in one[1]] == []
    reader.close()
    store.write(PRODUCTS, {**index, "max_indexed_commit": 0, "entries": []})
    with here(store.elsewhere(tmp_path / "colder")) as onto:
        assert [one.sku for one in onto.query().entities(Product)] == ["p"]
        assert "Product" in onto.storage_info()["last_index_warning"]


@pytest.mark.parametrize("fault", ["missing", "malformed", "of another shape"])
def test_15_without_a_list_of_types_a_commit_succeeds_and_leaves_the_indices(store: Bucket, fault: str) -> None:
    with here(store) as onto:
        three_commits(onto)
    with here(store) as onto:
        if fault == "missing":
            store.delete(TYPES)
        else:
            store.write(TYPES, b"{" if fault == "malformed" else b'{"entities": [1], "relations": 7}')
        before = {key: store.bytes(key) for key in (CUSTOMERS, PRODUCTS)}
        assert write(onto, Customer(id="a", name="4")) == 4
        assert TYPES in onto.storage_info()["last_index_warning"]
        assert {key: store.bytes(key) for key in before} == before
        assert onto.query().entities(Customer).where(Customer.id == "a").one().name == "4"
    for command in ("verify", "repair"):
        run = store.onto("index", command)
        assert run.code not in (0, exits.FAILURE), "no list of types, no verdict"
        assert TYPES in run.err
    assert {key: store.bytes(key) for key in before} == before


def test_16_history_has_one_order_before_and_after_compaction(store: Bucket) -> None:
    with here(store) as onto:
        for number in range(5):
            names = ["b", "a", "é", "Z", "aa"][number:] + ["b", "a", "é", "Z", "aa"][:number]
            write(onto, *(Customer(id=name, name=f"{number}") for name in names))
            edges = [(one, other) for one in "ba" for other in "qp"]
            write(onto, *(Stint(left_key=a, right_key=b, term=t, pay=number) for a, b in edges for t in "21"))
        wanted = sorted((n, key) for n in (1, 3, 5, 7, 9) for key in ("b", "a", "é", "Z", "aa"))

        def seen(since: int) -> tuple[list[Any], list[Any]]:
            customers = onto.query().entities(Customer)
            stints = onto.query().relations(Stint)
            history = customers.with_history() if since == 0 else customers.history_since(since)
            edges = stints.with_history() if since == 0 else stints.history_since(since)
            metas = [one.meta() for one in edges]
            return [(one.meta().commit_id, one.id) for one in history], [
                (m.commit_id, m.left_key, m.right_key, m.instance_key) for m in metas
            ]

        before = [seen(since) for since in (0, 3, 4)]
        assert before[0][0] == wanted
        assert [rows == sorted(rows) for _, rows in before] == [True] * 3
        assert len(before[0][1]) == 40
        assert onto.compact(apply=True).rewrites
        assert [seen(since) for since in (0, 3, 4)] == before


@pytest.mark.parametrize("indexed", [True, False])
def test_17_a_head_that_moves_before_the_snapshot_is_published_stops_or_replans_it(
    store: Bucket, tmp_path: Path, *, indexed: bool
) -> None:
    with here(store) as onto:
        three_commits(onto)
    objects = FaultyObjects(open_objects(store.uri, store.config))
    elsewhere = store.elsewhere(tmp_path / "b").config
    others = FaultyObjects(open_objects(store.uri, elsewhere))
    if not indexed:
        others.add(Fault(WRITE, "meta/indices/*", times=None, fail="error"))
    with open_on(objects, store.config) as onto, open_on(others, elsewhere) as other:
        before = customers(other)
        published: list[bytes] = []

        def intrude() -> None:
            store.delete(LOCK)
            assert write(other, Customer(id="a", name="meanwhile")) == 4
            published.append(store.bytes(CUSTOMERS))

        objects.add(Fault("put", "snapshots/*", after=intrude))
        try:
            onto.compact("Customer", apply=True)
        except (HeadMismatchError, LeaseExpiredError):
            assert store.bytes(CUSTOMERS) == published[0], "nothing was published"
        else:
            assert store.read(CUSTOMERS)["max_indexed_commit"] == 4
        for reader in (onto, other):
            assert reader.query().entities(Customer).where(Customer.id == "a").one().name == "meanwhile"
            history = [one.meta().commit_id for one in reader.query().entities(Customer).with_history()]
            assert history == [1, 2, 2, 3, 4]
            assert customers(reader)[5] == before[5]
        assert onto.repair_index(apply=True).head == 4
        assert onto.verify_index() == []
        assert onto.verify() == []


def test_17_compaction_under_an_unsafe_lease_publishes_nothing(store: Bucket) -> None:
    with here(store) as onto:
        three_commits(onto)
    clock = ManualClock(SystemClock().now())
    objects = FaultyObjects(open_objects(store.uri, store.config))
    with open_on(objects, store.config, clock) as onto:
        right = customers(onto)
        before = store.bytes(CUSTOMERS), store.bytes(HEAD)
        ttl = timedelta(milliseconds=store.config.s3_lease_ttl_ms)
        objects.add(Fault("put", "snapshots/*", after=lambda: clock.set(clock.now() + ttl * 0.8)))
        with pytest.raises(LeaseExpiredError):
            onto.compact("Customer", apply=True)
        assert (store.bytes(CUSTOMERS), store.bytes(HEAD)) == before
        assert customers(onto) == right
        assert onto.compact("Customer", apply=True).applied, "it can be done again"
        assert customers(onto) == right
        assert SUBSCRIPTIONS not in store.tags()
