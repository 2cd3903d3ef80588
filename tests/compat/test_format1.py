"""A store of format 1, kept in git, opens for ever: its content, its history, its hashes.

The file was made by `build.py` and is never made again. Tests work on a copy.
"""

from __future__ import annotations

import shutil
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from compat.build import INDIA, LOANS, START, TYPES, BorrowerInCents, Loan, Owes, Review

from ontologia import Ontology, SchemaBoundaryError, right

HASHES = {
    1: "e1b918f282b4d2cf9d82582f31d60fd6c0ce1d61e5257d7531f32423d426e3dd",
    2: "91cfda75e617a0eb93293ad8d9022e02dc57a6e6799f8c2be191b50c80a835b9",
    3: "84fbfd1a85fb65718fe88854e9888050f17ef25689c28a777f86788516bf01de",
    4: "78e06ae37a91430c24c6a1bfe11b3823b0e162f65e1a20d5cddf79979c81dd69",
    5: "b2f2f2dd184d6ff5a88f9e15288777aa3cce61ebece100be62fa10fe0f4a8a1c",
}
"""What the chain was when the file was made."""
STORE = Path(__file__).with_name("format1.db")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copy(STORE, tmp_path / "onto.db"))


@pytest.fixture
def onto(copy: Path) -> Ontology:
    return Ontology(copy, **TYPES)


def test_the_present_is_there(onto: Ontology) -> None:
    query = onto.query()
    assert query.entities(BorrowerInCents).order_by(BorrowerInCents.id).collect() == [
        BorrowerInCents(id="ann", name="Ann", income_cents=3100, risk="low"),
        BorrowerInCents(id="bob", name="Bob", income_cents=2500),
    ]
    loans = query.entities(Loan).order_by(Loan.number).collect()
    assert loans == LOANS
    assert str(loans[0].amount) == "2500.00"
    assert loans[1].opened.utcoffset() == INDIA.utcoffset(None)
    assert {(one.left_key, one.right_key, one.share) for one in query.relations(Owes)} == {
        ("ann", 1, 1.0),
        ("bob", 2, 0.5),
    }
    assert {(one.round, one.verdict) for one in query.relations(Review)} == {("first", "yes"), ("second", "no")}


def test_the_past_is_there(onto: Ontology) -> None:
    query = onto.query().entities(BorrowerInCents)
    incomes = {at: {one.id: one.income_cents for one in query.as_of(at)} for at in range(1, 6)}
    assert incomes == {
        1: {"ann": 3000, "bob": 2000},
        2: {"ann": 3000, "bob": 2500},
        3: {"ann": 3000, "bob": 2500},
        4: {"ann": 3000, "bob": 2500},
        5: {"ann": 3100, "bob": 2500},
    }
    assert query.as_of(START + timedelta(seconds=30)).where(BorrowerInCents.id == "bob").one().income_cents == 2000
    raw = list(query.with_history().rows())
    assert [(row["commit_id"], row["schema_version_id"], row.get("income")) for row in raw] == [
        (1, 1, 30),
        (1, 1, 20),
        (2, 1, 25),
        (3, 2, None),
        (3, 2, None),
        (5, 2, None),
    ]


def test_the_boundary_is_there(copy: Path) -> None:
    with Ontology(copy, entity_types=[BorrowerInCents]) as unaware, pytest.raises(SchemaBoundaryError):
        unaware.query().entities(BorrowerInCents).as_of(1).collect()


def test_the_log_is_there(onto: Ontology) -> None:
    commits = onto.list_commits()
    assert [commit.commit_id for commit in commits] == [5, 4, 3, 2, 1]
    assert {commit.runtime_id for commit in commits} == {"compat"}
    assert commits[-1].created_at == START
    assert commits[-1].counts == {"Borrower": 2, "Loan": 2}
    assert {commit.commit_id: commit.commit_sha256 for commit in commits} == HASHES
    assert [change.op for change in onto.changes(2)] == ["update"]
    assert onto.blame(BorrowerInCents, "ann")["income_cents"] == 5
    assert [item.key for item in onto.diff(4, 5, Review)] == [("ann", "1", "second")]
    assert [len(stored.versions) for stored in onto.stored_types()] == [2, 1, 1, 1]


def test_it_verifies(onto: Ontology) -> None:
    assert onto.verify() == []


def test_it_can_be_asked_and_written(onto: Ontology) -> None:
    rich = right(Owes).amount > Decimal(2000)
    assert onto.query().relations(Owes).where(rich).one().left_key == "ann"
    assert onto.query().entities(Loan).where(Loan.exposure > 10**24).one().number == 1
    with onto.session() as session:
        session.ensure(LOANS)
    assert onto.head() == 5, "what is there already is no change"
    with onto.session() as session:
        session.ensure(BorrowerInCents(id="cid", name="Cid", income_cents=1))
    assert onto.head() == 6
    assert onto.verify() == []


def test_reading_does_not_change_the_file(copy: Path) -> None:
    before = copy.read_bytes()
    with Ontology(copy, **TYPES, read_only=True) as onto:
        assert onto.query().entities(Loan).count() == 2
        assert onto.verify() == []
    assert copy.read_bytes() == before == STORE.read_bytes()
