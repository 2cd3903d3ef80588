"""The types of the loan example, as a program would declare them.

Applicants ask for loans, agents assess them. An agent may assess a loan more than once, so an assessment has an
instance key.
"""

from ontologia.model.declare import Entity, Relation
from ontologia.model.fields import Field


class Applicant(Entity):
    id: Field[str] = Field(primary_key=True)
    name: Field[str]
    credit_score: Field[int]


class Loan(Entity):
    number: Field[str] = Field(primary_key=True)
    amount: Field[float]
    status: Field[str] = Field(default="submitted", index=True)


class Agent(Entity):
    name: Field[str] = Field(primary_key=True)
    version: Field[str]


class Applied(Relation[Applicant, Loan]):
    purpose: Field[str]


class Assessment(Relation[Agent, Loan]):
    round: Field[str] = Field(instance_key=True)
    outcome: Field[str]
    confidence: Field[float]
    reason: Field[str]
