"""The steps of the loan example. Each is a function whose body is shown as it runs.

Its docstring tells what happens; what it returns is the result on screen. Nothing here prints.
"""

from __future__ import annotations

from typing import Any

from ontologia.cli.demo import revised
from ontologia.cli.demo.loans import Agent, Applicant, Applied, Assessment, Loan
from ontologia.errors import SchemaOutdatedError
from ontologia.ontology import Ontology
from ontologia.query.aggregates import count, count_distinct, sum  # noqa: A004 - the public name
from ontologia.query.expr import left, right
from ontologia.store.commits import Commit, DiffItem
from ontologia.store.migration import Migration

TYPES: dict[str, Any] = {"entity_types": [Applicant, Loan, Agent], "relation_types": [Applied, Assessment]}
REVISED_TYPES: dict[str, Any] = {"entity_types": [Applicant, revised.Loan, Agent], "upgraders": [revised.exact_amounts]}


def applications_arrive(onto: Ontology) -> int | None:
    """Two applications arrive. A session says what is true; the commit writes what differs."""
    ada = Applicant(id="a1", name="Ada", credit_score=720)
    ben = Applicant(id="a2", name="Ben", credit_score=655)
    house = Loan(number="12345", amount=250_000)
    car = Loan(number="12346", amount=8_000)
    with onto.session() as session:
        session.ensure([ada, ben, house, car])
        session.ensure(Applied(left_key="a1", right_key="12345", purpose="house"))
        session.ensure(Applied(left_key="a2", right_key="12346", purpose="car"))
        return session.commit(meta={"source": "web-form"})


def the_same_again(onto: Ontology) -> int | None:
    """The form is sent twice. Nothing differs, so there is no second commit."""
    with onto.session() as session:
        session.ensure(Applicant(id="a1", name="Ada", credit_score=720))
        return session.commit()


def agents_assess(onto: Ontology) -> int | None:
    """The underwriting agent approves the large loan, the risk agent denies it."""
    approved = Assessment(
        left_key="underwriting-agent",
        right_key="12345",
        round="1",
        outcome="approve",
        confidence=0.82,
        reason="score 720, no delinquencies",
    )
    denied = Assessment(
        left_key="risk-agent",
        right_key="12345",
        round="1",
        outcome="deny",
        confidence=0.74,
        reason="debt-to-income is 42%",
    )
    with onto.session() as session:
        session.ensure(Agent(name="underwriting-agent", version="1.2.0"))
        session.ensure(Agent(name="risk-agent", version="0.9.1"))
        session.ensure([approved, denied])
        session.ensure(Loan(number="12345", amount=250_000, status="disputed"))
        return session.commit(meta={"run": "assessment-1"})


def who_disagrees(onto: Ontology) -> list[dict[str, Any]]:
    """On which loans do agents disagree? Figures per loan, computed by the store."""
    outcomes = count_distinct(Assessment.outcome)
    per_loan = onto.query().relations(Assessment).group_by(Assessment.right_key)
    return per_loan.having(outcomes > 1).agg(outcomes=outcomes, said=count())


def large_loans(onto: Ontology) -> list[str]:
    """Who said what about loans above 100,000? A condition may reach the ends of a relation."""
    large = right(Assessment).amount > 100_000
    seasoned = left(Assessment).version.startswith("1.")
    said = onto.query().relations(Assessment).where(large & ~seasoned)
    return [f"{one.left_key}: {one.outcome}, {one.reason}" for one in said]


def follow_the_paths(onto: Ontology) -> list[Any]:
    """From an applicant, along two relations, to the agents who judged the case."""
    ada = onto.query().entities(Applicant).where(Applicant.name == "Ada")
    return ada.via(Applied).via(Assessment).collect()


def compliance_settles(onto: Ontology) -> int | None:
    """The compliance agent settles the dispute, with conditions."""
    verdict = Assessment(
        left_key="compliance-agent",
        right_key="12345",
        round="2",
        outcome="approve",
        confidence=0.9,
        reason="approved with a lower amount",
    )
    with onto.session() as session:
        session.ensure([Agent(name="compliance-agent", version="2.0.0"), verdict])
        session.ensure(Loan(number="12345", amount=210_000, status="approved"))
        return session.commit(meta={"run": "compliance-1"})


def what_was_true(onto: Ontology) -> list[Loan | None]:
    """What did we know at each commit? Every question can be asked of the past."""
    loans = onto.query().entities(Loan)
    return [loans.as_of(commit_id).get("12345") for commit_id in (1, 2, 3)]


def what_changed(onto: Ontology) -> list[DiffItem]:
    """What differs between the first commit and now?"""
    return onto.diff(1, onto.head(), Loan)


def who_is_to_blame(onto: Ontology) -> dict[str, int]:
    """Which commit gave each field of the loan its present value?"""
    return onto.blame(Loan, "12345")


def sums(onto: Ontology) -> list[dict[str, Any]]:
    """How much is asked for, and how much approved?"""
    by_status = onto.query().entities(Loan).group_by(Loan.status)
    return by_status.agg(total=sum(Loan.amount), loans=count())


def types_differ(onto: Ontology) -> str:
    """A year later the program declares exact amounts and a currency. The store notices before anything is written."""
    try:
        onto.validate()
    except SchemaOutdatedError as error:
        return error.message
    return "nothing differs"


def migrate(onto: Ontology) -> Migration:
    """Preview, then apply with the preview's token: all rows of all types as one commit, or nothing."""
    plan = onto.migrate()
    return onto.migrate(apply=True, token=plan.token)


def the_past_in_new_clothes(onto: Ontology) -> list[revised.Loan | None]:
    """Old commits stay readable as the new type; the upgrader is applied on the way."""
    loans = onto.query().entities(revised.Loan)
    return [loans.as_of(commit_id).get("12345") for commit_id in (1, 3, 4)]


def the_log(onto: Ontology) -> list[Commit]:
    """The whole log, newest first. Each commit's hash covers its rows and its parent's hash."""
    return onto.list_commits()


def verify(onto: Ontology) -> list[Any]:
    """Recompute every hash: a changed value would be found, and its commit named."""
    return onto.verify()


FIRST = (
    applications_arrive,
    the_same_again,
    agents_assess,
    who_disagrees,
    large_loans,
    follow_the_paths,
    compliance_settles,
    what_was_true,
    what_changed,
    who_is_to_blame,
    sums,
)
REVISED = (types_differ, migrate, the_past_in_new_clothes, the_log, verify)
