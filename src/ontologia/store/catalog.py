"""What types a store holds and which versions their schemas have had.

A catalog is a value read at one moment. Versions are append-only; the last one is what current rows are written in, and
each one says from which commit on it was in force.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from ontologia.errors import UnknownTypeError
from ontologia.model.spec import TypeKind, TypeSpec


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One recorded shape of a type, in force from `since_commit` on."""

    version: int
    spec: TypeSpec
    since_commit: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class StoredType:
    """A type that the store knows."""

    type_id: int
    kind: TypeKind
    name: str
    generation: int
    """Changes whenever readers must look at the catalog again."""
    wide: frozenset[str]
    """Integer fields that hold values beyond 64 bits."""
    versions: tuple[SchemaVersion, ...]

    @property
    def current(self) -> SchemaVersion:
        return self.versions[-1]

    @property
    def spec(self) -> TypeSpec:
        return self.versions[-1].spec

    def version_at(self, commit_id: int) -> SchemaVersion:
        """The version in force at a commit."""
        for version in reversed(self.versions):
            if version.since_commit <= commit_id:
                return version
        return self.versions[0]

    def versions_between(self, low: int, high: int) -> tuple[SchemaVersion, ...]:
        """Versions that rows committed in (low, high] may have."""
        ends = [version.since_commit - 1 for version in self.versions[1:]]
        return tuple(
            version
            for version, end in zip(self.versions, [*ends, None], strict=True)
            if version.since_commit <= high and (end is None or end > low)
        )


@dataclass(frozen=True)
class Catalog:
    """All types of a store at one moment."""

    types: dict[tuple[TypeKind, str], StoredType] = field(default_factory=dict[tuple[TypeKind, str], StoredType])
    epoch: int = 0

    def find(self, kind: TypeKind, name: str) -> StoredType | None:
        return self.types.get((kind, name))

    def ends(self, stored: StoredType) -> dict[str, StoredType | None]:
        """The types at the ends of a relation, by side; None for one that nothing was written of."""
        sides = (("left", stored.spec.left), ("right", stored.spec.right))
        return {side: self.find("entity", name or "") for side, name in sides}

    def get(self, kind: TypeKind, name: str) -> StoredType:
        found = self.types.get((kind, name))
        if found is None:
            raise unknown_type(kind, name, self)
        return found


def wide_names(stored: StoredType, ends: dict[str, StoredType | None]) -> frozenset[str]:
    """Fields with integers beyond 64 bits, as conditions name them: those of an end with its side in front."""
    of_ends = {f"{side}.{name}" for side, end in ends.items() if end is not None for name in end.wide}
    return stored.wide | of_ends


def unknown_type(kind: TypeKind, name: str, catalog: Catalog) -> UnknownTypeError:
    """The error for a type that a store does not hold."""
    known = ", ".join(sorted(n for k, n in catalog.types if k == kind)) or "none yet"
    return UnknownTypeError(
        f"The store has no {kind} type {name!r}.", hint=f"Known {kind} types: {known}.", type_name=name
    )
