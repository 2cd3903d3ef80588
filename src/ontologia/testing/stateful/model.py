"""The store as a few lists: what the real one is compared with.

Every commit that was acknowledged is a list of rows; a window is a walk over them. It is as plain as can be and as
slow as that, and knows nothing of how a backend does it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from ontologia.testing.stateful.world import STEPS, Values, plain

TypeName = Literal["Node", "Mark", "Link", "Visit"]
Identity = tuple[str, ...]


class Version(NamedTuple):
    """One row of one commit; `era` is the version of its type that it was written in."""

    commit: int
    identity: Identity
    era: int
    values: Values


class Span(NamedTuple):
    """A window of commits: latest or as of `high` when `history` is false, everything in (low, high] otherwise."""

    history: bool
    low: int
    high: int


def identity_of(name: TypeName, values: Values) -> Identity:
    """What tells a row from others of its type."""
    if name in {"Node", "Mark"}:
        return (str(values["id"]),)
    return str(values["left_key"]), str(values["right_key"]), values.get("turn", "")


@dataclass
class PlainStore:
    """Commits, and the rows of each type in order of commit and identity."""

    era: int = 0
    head: int = 0
    times: list[datetime] = field(default_factory=list[datetime])
    rows: dict[TypeName, list[Version]] = field(
        default_factory=lambda: {"Node": [], "Mark": [], "Link": [], "Visit": []}
    )

    def today(self, version: Version) -> Values:
        """The values of a row as today's type has them; only nodes ever change."""
        values = version.values
        for step in STEPS[version.era : self.era]:
            values = step(values)
        return values

    def current(self, name: TypeName) -> dict[Identity, Version]:
        """The last version of each identity."""
        return {version.identity: version for version in self.rows[name]}

    def delta(self, wanted: list[tuple[TypeName, Values]]) -> dict[TypeName, dict[Identity, Values]]:
        """What a batch comes to: last of each identity, without what is so already."""
        found: dict[TypeName, dict[Identity, Values]] = {}
        for name, values in wanted:
            found.setdefault(name, {})[identity_of(name, values)] = values
        changed: dict[TypeName, dict[Identity, Values]] = {}
        for name, rows in found.items():
            current = self.current(name)
            for identity, values in rows.items():
                if identity not in current or plain(current[identity].values) != plain(values):
                    changed.setdefault(name, {})[identity] = values
        return changed

    def commit(self, changed: dict[TypeName, dict[Identity, Values]], moment: datetime) -> None:
        """Append one commit."""
        self.head += 1
        self.times.append(moment)
        for name, rows in changed.items():
            era = self.era if name == "Node" else len(STEPS)
            self.rows[name] += [Version(self.head, identity, era, rows[identity]) for identity in sorted(rows)]

    def migrate(self, moment: datetime) -> None:
        """Rewrite the current nodes in the next version, as one commit."""
        current = self.current("Node")
        self.era += 1
        self.commit({"Node": {identity: self.today(current[identity]) for identity in current}}, moment)

    def window(self, name: TypeName, span: Span) -> list[tuple[int, Identity, Values]]:
        """Rows of a window in order of commit and identity, in today's type."""
        inside = [version for version in self.rows[name] if span.low < version.commit <= span.high]
        if not span.history:
            last = {version.identity: version for version in inside}
            inside = [version for version in inside if last[version.identity] is version]
        return [(version.commit, version.identity, self.today(version)) for version in inside]

    def ends(self, name: TypeName, key: Any, span: Span) -> list[Values]:
        """The versions of an end that a condition sees in a window."""
        return [values for _, identity, values in self.window(name, span) if identity == (str(key),)]

    def end(self, name: TypeName, key: Any, span: Span) -> Values | None:
        """An end as it was at the end of a window."""
        found = self.ends(name, key, Span(history=False, low=0, high=span.high))
        return found[0] if found else None

    def blame(self, name: TypeName, identity: Identity) -> dict[str, int]:
        """For each field, the commit since which it has had its present value."""
        origin: dict[str, int] = {}
        previous: Values = {}
        for version in self.rows[name]:
            if version.identity == identity:
                values = self.today(version)
                for one, value in values.items():
                    if one not in previous or plain({one: previous[one]}) != plain({one: value}):
                        origin[one] = version.commit
                previous = values
        return origin

    def at(self, moment: datetime) -> int:
        """The last commit at or before a moment."""
        return sum(time <= moment for time in self.times)
