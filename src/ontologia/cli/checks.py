"""What `doctor` says about one thing: how it is, and what to do where it is not in order.

`ok` needs nothing, `warn` is worth knowing, `fail` has to be fixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ontologia.cli.failures import describe

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Checked:
    """One thing that was looked at."""

    name: str
    status: Status
    found: str
    fix: str | None = None


def fault(name: str, error: BaseException, status: Status = "fail") -> Checked:
    """A check that ended with an error."""
    failure = describe(error)
    return Checked(name, status, failure.message, failure.hint)
