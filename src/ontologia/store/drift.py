"""Where declared types and stored types disagree.

Finds the differences and words the error; deciding what to do about them is the migration's business.
"""

from __future__ import annotations

from collections.abc import Sequence

from ontologia.errors import SchemaOutdatedError
from ontologia.model.diff import SchemaDiff, diff_specs
from ontologia.model.spec import TypeSpec
from ontologia.store.catalog import Catalog, StoredType

Drift = tuple[StoredType, TypeSpec]


def drifted(catalog: Catalog, specs: Sequence[TypeSpec]) -> list[Drift]:
    """Declared types whose stored schema is another one."""
    found: list[Drift] = []
    for spec in specs:
        stored = catalog.find(spec.kind, spec.name)
        if stored is not None and stored.spec.fingerprint != spec.fingerprint:
            found.append((stored, spec))
    return found


def diffs_of(drifts: Sequence[Drift]) -> list[SchemaDiff]:
    """Field by field."""
    return [diff_specs(stored.spec, spec) for stored, spec in drifts]


def outdated(drifts: Sequence[Drift]) -> SchemaOutdatedError:
    """The error that shows every difference."""
    diffs = diffs_of(drifts)
    names = ", ".join(f"{stored.name} (stored version {stored.current.version})" for stored, _ in drifts)
    lines = "; ".join(str(diff).replace("\n", "; ") for diff in diffs)
    return SchemaOutdatedError(
        f"The stored schema differs from the declared one for {names}: {lines}.",
        hint="Preview the migration with onto.migrate() or `onto migrate`, then apply it.",
        types=[stored.name for stored, _ in drifts],
        diffs=diffs,
    )
