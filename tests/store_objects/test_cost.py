"""What a write and a read cost in requests: the bounds of the design, asserted on the real server.

`T` is the number of known types, three here; `F` the number of files that a query needs.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from store_objects.counted import Customer, Product, Subscription, new_store, open_counted, write

from ontologia import Ontology
from ontologia.config import OntologiaConfig
from ontologia.objects.counting import CountingObjects

T = 3


@pytest.fixture
def store(s3_uri: str, s3_config: OntologiaConfig) -> tuple[Ontology, CountingObjects]:
    new_store(s3_uri, s3_config)
    onto, counter = open_counted(s3_uri, s3_config)
    write(onto, Customer(id="c1", name="a"), Product(sku="p1", price=1.0))
    write(onto, Subscription(left_key="c1", right_key="p1", seats=1))
    counter.reset()
    return onto, counter


def elsewhere(config: OntologiaConfig, tmp_path: Path) -> OntologiaConfig:
    """The same settings on another machine: nothing is cached there."""
    return config.model_copy(update={"s3_cache_dir": str(tmp_path / "another-machine")})


def test_a_small_commit_costs_a_handful_of_requests_however_long_the_history(
    store: tuple[Ontology, CountingObjects],
) -> None:
    onto, counter = store
    costs = set()
    for number in range(70):
        counter.reset()
        write(onto, Customer(id=f"c{number % 10}", name=f"n{number}"))
        costs.add(counter.count)
        assert counter.count <= 8 + T
        assert counter.steps <= 6
    assert max(costs) - min(costs) <= 1, "only the list of every 64 manifests comes on top"


def test_a_large_commit_costs_the_requests_of_a_small_one(store: tuple[Ontology, CountingObjects]) -> None:
    onto, counter = store
    with onto.session() as session:
        session.ensure_rows(Customer, [{"id": f"x{n}", "name": f"n{n}"} for n in range(100_000)])
        session.commit()
    assert counter.count <= 8 + T
    counter.reset()
    with onto.session() as session:
        session.ensure_rows(Customer, [{"id": f"x{n}", "name": f"m{n}"} for n in range(0, 100_000, 2)])
        session.commit()
    assert counter.count <= 8 + T


def test_a_commit_after_another_writers_costs_little_more(
    store: tuple[Ontology, CountingObjects], s3_uri: str, s3_config: OntologiaConfig, tmp_path: Path
) -> None:
    onto, counter = store
    other, _ = open_counted(s3_uri, elsewhere(s3_config, tmp_path))
    for others in (1, 2, 5):
        for number in range(others):
            write(other, Customer(id=f"o{number}", name=f"by another {others}"))
        counter.reset()
        write(onto, Customer(id="mine", name=f"after {others}"))
        assert counter.count <= 8 + 2 * T + others
    other.close()


def test_queries_fetch_each_file_once_and_the_head_each_time(
    store: tuple[Ontology, CountingObjects], s3_uri: str, s3_config: OntologiaConfig, tmp_path: Path
) -> None:
    onto, _ = store
    for number in range(9):
        write(onto, Customer(id=f"c{number}", name="again"))
    reader, counter = open_counted(s3_uri, elsewhere(s3_config, tmp_path))
    assert len(reader.query().entities(Customer).collect()) == 9
    files = 10
    assert counter.count <= 3 + files
    counter.reset()
    reader.query().entities(Customer).where(Customer.name == "again").collect()
    assert counter.requests == [("get_if_changed", "meta/head.json")]
    write(onto, Customer(id="new", name="new"))
    counter.reset()
    assert reader.query().entities(Customer).where(Customer.name == "new").count() == 1
    assert counter.count <= 3
    reader.close()


def test_after_compaction_a_cold_query_fetches_one_file(
    store: tuple[Ontology, CountingObjects], s3_uri: str, s3_config: OntologiaConfig, tmp_path: Path
) -> None:
    onto, _ = store
    for number in range(9):
        write(onto, Customer(id=f"c{number}", name="again"))
    onto.compact(apply=True)
    reader, counter = open_counted(s3_uri, elsewhere(s3_config, tmp_path))
    assert len(reader.query().entities(Customer).collect()) == 9
    assert counter.count <= 3 + 1
    reader.close()


def test_finding_commits_does_not_walk_the_history(
    store: tuple[Ontology, CountingObjects], s3_uri: str, s3_config: OntologiaConfig, tmp_path: Path
) -> None:
    onto, _ = store
    for number in range(200):
        write(onto, Customer(id="c1", name=f"n{number}"))
    for commit_id in (1, 40, 100, 150, 201):
        reader, counter = open_counted(s3_uri, elsewhere(s3_config, tmp_path / str(commit_id)))
        assert reader.get_commit(commit_id).commit_id == commit_id
        assert counter.count <= 4
        reader.close()
    reader, counter = open_counted(s3_uri, elsewhere(s3_config, tmp_path / "list"))
    assert [commit.commit_id for commit in reader.list_commits(10)] == list(range(202, 192, -1))
    assert counter.count <= 12
    reader.close()
