"""What a query asks for, as plain immutable values.

A `Scan` names a type, a window of commits, a filter, an order and a slice; an `Aggregation` adds what to compute.
Backends read plans, builders write them, and neither knows the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from ontologia.model.spec import TypeKind
from ontologia.query.aggregates import Aggregate, Having
from ontologia.query.expr import Order, Predicate, Ref


class Mode(StrEnum):
    """Which versions of an identity a window shows."""

    LATEST = "latest"
    AS_OF = "as_of"
    HISTORY = "history"


@dataclass(frozen=True, slots=True)
class Window:
    """A range of commits: `low` is exclusive, `high` inclusive; None is the head at the time of reading."""

    mode: Mode = Mode.LATEST
    low: int = 0
    high: int | datetime | None = None

    @property
    def last(self) -> int | None:
        """The last commit of the window, once moments have been resolved to commits."""
        if isinstance(self.high, datetime):
            raise TypeError(f"The moment {self.high} has not been resolved to a commit.")
        return self.high

    def describe(self) -> str:
        match self.mode:
            case Mode.LATEST:
                return "latest()"
            case Mode.AS_OF:
                return f"as_of({self.high})"
            case Mode.HISTORY if self.high is None:
                return f"history_since({self.low})" if self.low else "with_history()"
            case Mode.HISTORY:
                return f"between({self.low + 1}, {self.high})"


LATEST = Window()


@dataclass(frozen=True, slots=True)
class Lookup:
    """Only rows whose identity column has one of these values."""

    column: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scan:
    """Rows of one type in one window."""

    kind: TypeKind
    type_name: str
    window: Window = LATEST
    where: Predicate | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0
    lookup: Lookup | None = None

    @property
    def sliced(self) -> bool:
        return self.limit is not None or self.offset > 0

    def narrowed(self, predicate: Predicate) -> Scan:
        """The same scan with one more condition."""
        return replace(self, where=predicate if self.where is None else self.where & predicate)


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Figures over a scan, in groups or as a whole."""

    scan: Scan
    group: tuple[Ref, ...]
    aggregates: tuple[tuple[str, Aggregate], ...]
    having: Having | None = None
