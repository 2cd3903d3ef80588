"""The loan type a year later: exact amounts, a currency, and how old rows get there.

Only an upgrader can say what an old amount means as a decimal; the currency has a default and needs none.
"""

from decimal import Decimal
from typing import Any

from ontologia.model.declare import Entity
from ontologia.model.fields import Field
from ontologia.model.upgrade import upgrader


class Loan(Entity):
    number: Field[str] = Field(primary_key=True)
    amount: Field[Decimal]
    currency: Field[str] = Field(default="EUR")
    status: Field[str] = Field(default="submitted", index=True)


@upgrader("Loan", from_version=1)
def exact_amounts(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "amount": Decimal(str(row["amount"])), "currency": "EUR"}
