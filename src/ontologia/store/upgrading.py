"""One row of an older schema version, brought to the declared type.

Reads of the past and migrations use the same steps: upgraders where they are given, defaults where a change only adds,
and validation of the result. What goes wrong is reported as it is; callers say what it means to them.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from ontologia.model.physical import from_physical, to_physical
from ontologia.model.rows import from_stored, identity, stored_values
from ontologia.model.spec import TypeSpec
from ontologia.model.upgrade import Upgraders, upgrade_row
from ontologia.store.catalog import StoredType
from ontologia.store.convert import converter
from ontologia.store.protocol import VersionedRow
from ontologia.store.rows import Row


class UnsteadyDefaultError(ValueError):
    """A default that is made anew each time cannot say what an old row held."""


class RowUpgrade:
    """Brings rows of any version of a stored type to a class."""

    def __init__(self, cls: type[Any], stored: StoredType, upgraders: Upgraders) -> None:
        self._cls = cls
        self._spec: TypeSpec = cls.__spec__
        self._stored = stored
        self._upgraders = upgraders
        self._chain = [version.spec for version in stored.versions]
        self._convert = converter(stored.spec, self._spec)
        self._steady: set[int] = set()

    def read(self, found: VersionedRow) -> Row:
        """The row for a reader: the same each time, or an error."""
        version = found.version.version
        if version == self._stored.current.version:
            return found.row if self._convert is None else self._convert(found.row)
        row, made = self._raised(found)
        if made and version not in self._steady:
            if self._raised(found)[0] != row:
                raise UnsteadyDefaultError(f"the default of {', '.join(made)} is another one each time")
            self._steady.add(version)
        return row

    def rewrite(self, found: VersionedRow) -> Row:
        """The row for a migration, which keeps what a default gives."""
        return self._raised(found)[0]

    def _raised(self, found: VersionedRow) -> tuple[Row, list[str]]:
        """The row, and the fields whose value a factory made."""
        key = found.row[: len(self._spec.identity)]
        values = from_physical(found.version.spec, found.row)
        raised = upgrade_row(self._chain, self._upgraders, found.version.version, values, key)
        thing = from_stored(self._cls, key, raised)
        if identity(thing) != key:
            raise ValueError(f"the upgrader changed the key to {identity(thing)!r}")
        current = stored_values(thing)
        made = [field.name for field in self._spec.fields if field.factory and field.name not in raised]
        return to_physical(self._spec, key, [current[field.name] for field in self._spec.fields]), made


def first_reason(error: Exception) -> str:
    """Why a row could not be upgraded, in a few words."""
    why = error.errors(include_url=False)[0]["msg"] if isinstance(error, ValidationError) else str(error)
    return f"{type(error).__name__}: {why}"
