"""Builds `format1.db`, a store as the first released format wrote it: `python tests/compat/build.py PATH`.

The file beside this script is opened by tests for ever. It was built once; when the format changes, a new file is
added for the new format and this one stays as it is, even if this script could no longer make it.
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

from ontologia import Entity, Field, OntologiaConfig, Ontology, Relation, upgrader
from ontologia.base.clock import ManualClock

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
INDIA = timezone(timedelta(hours=5, minutes=30))


class Borrower(Entity):
    """Version 1."""

    id: Field[str] = Field(primary_key=True)
    name: Field[str] = Field(index=True)
    income: Field[int]


class BorrowerInCents(Entity, name="Borrower"):
    """Version 2."""

    id: Field[str] = Field(primary_key=True)
    name: Field[str] = Field(index=True)
    income_cents: Field[int]
    risk: Field[str | None] = Field(default=None)


class Loan(Entity):
    """Every kind of value that a column can have."""

    number: Field[int] = Field(primary_key=True)
    amount: Field[Decimal]
    rate: Field[float]
    opened: Field[datetime]
    due: Field[Any] = Field(default=None)
    secured: Field[bool] = Field(default=False)
    scan: Field[bytes] = Field(default=b"")
    terms: Field[dict[str, Any]] = Field(default_factory=dict[str, Any])
    exposure: Field[int] = Field(default=0)


class Owes(Relation[BorrowerInCents, Loan]):
    """One edge between a pair."""

    share: Field[float] = Field(default=1.0)


class Review(Relation[BorrowerInCents, Loan]):
    """Many edges between a pair."""

    round: Field[str] = Field(instance_key=True)
    verdict: Field[str | None] = Field(default=None)


@upgrader("Borrower", from_version=1)
def to_cents(values: dict[str, Any]) -> dict[str, Any]:
    """Version 1 to version 2."""
    return {"id": values["id"], "name": values["name"], "income_cents": values["income"] * 100}


TYPES: dict[str, Any] = {
    "entity_types": [BorrowerInCents, Loan],
    "relation_types": [Owes, Review],
    "upgraders": [to_cents],
}
LOANS = [
    Loan(
        number=1,
        amount=Decimal("2500.00"),
        rate=0.035,
        opened=START,
        secured=True,
        scan=b"\x00\xff",
        terms={"months": 12, "fees": [1, 2.5, None]},
        exposure=10**25,
    ),
    Loan(number=2, amount=Decimal("1E+3"), rate=0.0, opened=START.astimezone(INDIA), due="on demand"),
]


def build(path: Path) -> None:
    """Five commits: two of version 1, a migration, and two after it."""
    with closing(sqlite3.connect(path)) as connection:
        # Small pages make a small file; the format is the same.
        connection.execute("PRAGMA page_size = 512")
        connection.execute("VACUUM")
    clock = ManualClock(START)
    options: dict[str, Any] = {"config": OntologiaConfig(runtime_id="compat"), "clock": clock}
    with Ontology(path, **options, entity_types=[Borrower, Loan]) as onto:
        _commit(
            onto, clock, Borrower(id="ann", name="Ann", income=30), Borrower(id="bob", name="Bob", income=20), *LOANS
        )
        _commit(onto, clock, Borrower(id="bob", name="Bob", income=25))
    with Ontology(path, **options, **TYPES) as onto:
        onto.migrate(apply=True, force=True)
        clock.set(clock.now() + timedelta(minutes=1))
        _commit(
            onto,
            clock,
            Owes(left_key="ann", right_key=1),
            Owes(left_key="bob", right_key=2, share=0.5),
            Review(left_key="ann", right_key=1, round="first", verdict="yes"),
            Review(left_key="ann", right_key=1, round="second"),
        )
        _commit(
            onto,
            clock,
            BorrowerInCents(id="ann", name="Ann", income_cents=3100, risk="low"),
            Review(left_key="ann", right_key=1, round="second", verdict="no"),
        )
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM")


def _commit(onto: Ontology, clock: ManualClock, *things: Any) -> None:
    session = onto.session()
    session.ensure(things)
    session.commit(meta={"source": "build"})
    clock.set(clock.now() + timedelta(minutes=1))


if __name__ == "__main__":
    build(Path(sys.argv[1]))
