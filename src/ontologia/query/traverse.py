"""Following relations from entity to entity.

A traversal is a query for sources and a list of hops. Its paths come in the order of their sources, then of the
relations followed; `targets()` gives each end once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ontologia.errors import QueryError
from ontologia.model.declare import Entity, Relation
from ontologia.query.check import check_concrete, check_number, check_predicate
from ontologia.query.plan import Scan
from ontologia.query.predicates import Predicate

if TYPE_CHECKING:
    from ontologia.query.builder import Source


@dataclass(frozen=True, slots=True)
class Hop:
    """One step along a relation, out of its left side unless reversed."""

    relation: type[Relation[Any, Any]]
    reverse: bool
    target: type[Entity]
    where: Predicate | None = None


@dataclass(frozen=True, slots=True)
class Path:
    """A way from a source to a target: n + 1 entities and the n relations between them."""

    nodes: tuple[Any, ...]
    edges: tuple[Any, ...]

    @property
    def source(self) -> Any:
        """Where the path starts."""
        return self.nodes[0]

    @property
    def target(self) -> Any:
        """Where the path ends."""
        return self.nodes[-1]

    def __repr__(self) -> str:
        steps = [f"{node.__spec__.name}({_key(node)!r})" for node in self.nodes]
        return f"Path({' -> '.join(steps)})"


def _key(node: Entity) -> Any:
    field = node.__spec__.key_field
    return getattr(node, field.name) if field is not None else None


@dataclass(frozen=True, slots=True, repr=False)
class Traversal:
    """Sources and the hops to make from them."""

    origin: Source
    cls: type[Entity]
    scan: Scan
    hops: tuple[Hop, ...] = ()
    maximum: int | None = None
    skipped: int = 0

    def via(
        self, relation: type[Relation[Any, Any]], *, where: Predicate | None = None, reverse: bool | None = None
    ) -> Traversal:
        """One more hop, from whichever side fits; `reverse` says which when both do."""
        if not (isinstance(relation, type) and issubclass(relation, Relation)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise QueryError(f"via() takes a relation class, not {relation!r}.")
        check_concrete(relation)
        if where is not None:
            check_predicate(relation, where)
        here = (self.hops[-1].target if self.hops else self.cls).__spec__.name
        left, right = relation.__ends__
        fits = {False: left.__spec__.name == here, True: right.__spec__.name == here}
        backwards = (not fits[False]) if reverse is None else reverse
        if not fits[backwards]:
            raise QueryError(
                f"{relation.__spec__.name} joins {left.__spec__.name} and {right.__spec__.name}; it cannot be followed"
                f" from {here}{' in that direction' if any(fits.values()) else ''}."
            )
        hop = Hop(relation, backwards, left if backwards else right, where)
        return replace(self, hops=(*self.hops, hop))

    def limit(self, number: int) -> Traversal:
        """At most this many paths (or targets)."""
        return replace(self, maximum=check_number("limit", number))

    def offset(self, number: int) -> Traversal:
        """Leave out the first paths (or targets)."""
        return replace(self, skipped=check_number("offset", number))

    def collect(self) -> list[Path]:
        """All paths."""
        return self._sliced(self.origin.traverse(self.cls, self.scan, self.hops))

    def __iter__(self) -> Iterator[Path]:
        return iter(self.collect())

    def targets(self) -> list[Any]:
        """The distinct entities at the ends of the paths, in order of first arrival."""
        found: dict[Any, Any] = {}
        for path in self.origin.traverse(self.cls, self.scan, self.hops):
            found.setdefault(_key(path.target), path.target)
        return self._sliced(list(found.values()))

    def count(self) -> int:
        """How many paths."""
        return len(self.collect())

    def exists(self) -> bool:
        """Whether there is any path."""
        return bool(self.collect())

    def first(self) -> Path | None:
        """The first path, or None."""
        return next(iter(self.collect()), None)

    def _sliced(self, items: list[Any]) -> list[Any]:
        end = None if self.maximum is None else self.skipped + self.maximum
        return items[self.skipped : end]

    def __repr__(self) -> str:
        return f"entities({self.scan.type_name})" + "".join(f".via({hop.relation.__spec__.name})" for hop in self.hops)
