"""What one call of `onto` was told: which store, which form of output.

An `Invocation` travels in click's context; options given before and after the command end up in the same one, the
later one winning. It opens the store the way the command needs it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ontologia.config import OntologiaConfig
    from ontologia.model.upgrade import Upgraders
    from ontologia.ontology import Ontology
    from ontologia.store.binding import Binding

FORMATS = ("text", "json", "csv")


@dataclass
class Invocation:
    """The global options of one call."""

    db: str | None = None
    storage_uri: str | None = None
    format: str = "text"

    @property
    def as_json(self) -> bool:
        return self.format == "json"

    @property
    def as_text(self) -> bool:
        return self.format == "text"

    def config(self) -> OntologiaConfig:
        """Settings, with what the command line says first."""
        from ontologia.config import OntologiaConfig

        given = {"db": self.db, "storage_uri": self.storage_uri}
        return OntologiaConfig(**{name: value for name, value in given.items() if value is not None})

    def binding(self) -> Binding:
        """The store that the options and settings name; nothing is opened."""
        from ontologia.store.binding import bind

        return bind(self.db, self.storage_uri, self.config())

    def open(
        self,
        *,
        write: bool = False,
        create: bool = False,
        types: Iterable[type[Any]] | None = None,
        upgraders: Upgraders | None = None,
    ) -> Ontology:
        """The store; for reading only unless the command writes."""
        from ontologia.cli.warnings import show_warnings
        from ontologia.model.declare import Entity
        from ontologia.ontology import Ontology

        show_warnings()
        classes = None if types is None else list(types)
        return Ontology(
            self.db,
            self.config(),
            storage_uri=self.storage_uri,
            entity_types=None if classes is None else [cls for cls in classes if issubclass(cls, Entity)],
            relation_types=None if classes is None else [cls for cls in classes if not issubclass(cls, Entity)],
            upgraders=upgraders,
            create=create,
            read_only=not write,
        )

    def note(self, text: str) -> None:
        """Something for a person, beside the result."""
        click.echo(text, err=True)

    def emit_json(self, value: Any) -> None:
        """The result as JSON, alone on stdout."""
        click.echo(json.dumps(value, indent=2, ensure_ascii=not _unicode(), default=str))

    def emit_csv(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """The result as CSV: null is an empty cell, empty text is `""`."""
        from ontologia.store.transfer.cells import csv_line

        click.echo(csv_line(columns), nl=False)
        for row in rows:
            click.echo(csv_line([_cell(value) for value in row]), nl=False)


def _cell(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, dict | list) else str(value)


def _unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


pass_invocation = click.make_pass_decorator(Invocation, ensure=True)
