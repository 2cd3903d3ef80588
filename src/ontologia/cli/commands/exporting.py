"""`export`: the store as files, or on stdout.

All types are written as of one commit, whoever writes to the store meanwhile.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from ontologia.cli.invocation import Invocation, pass_invocation
from ontologia.cli.options import models_option, type_option, upgraders_option
from ontologia.cli.progress import Report, progress_bar
from ontologia.cli.rendering import plural, show_facts
from ontologia.cli.structure import Command


class Counted:
    """Rows of a query that report how many went by; can be gone through again."""

    def __init__(self, rows: Iterable[Any], done: int, total: int, report: Report | None) -> None:
        self._rows, self._done, self._total, self._report = rows, done, total, report

    def __iter__(self) -> Iterator[Any]:
        for number, thing in enumerate(self._rows, self._done + 1):
            if self._report is not None and number % 1000 == 0:
                self._report(number, self._total)
            yield thing


@click.command(cls=Command)
@click.option("--output", required=True, metavar="PATH", help="A directory, a file (with --type), or - for stdout.")
@click.option("--as", "form", type=click.Choice(["jsonl", "csv", "parquet"]), help="Format; by the suffix, or jsonl.")
@type_option("Only this type, to one file.")
@click.option("--as-of", metavar="COMMIT|TIME", help="The state after a commit, or at a time in ISO 8601.")
@click.option("--history-since", type=int, metavar="COMMIT", help="Every version written after a commit; 0 for all.")
@click.option("--with-metadata", is_flag=True, help="Say with each row which commit wrote it.")
@models_option
@upgraders_option
@pass_invocation
def export(
    invocation: Invocation,
    *,
    output: str,
    form: str | None,
    type_name: str | None,
    as_of: str | None,
    history_since: int | None,
    with_metadata: bool,
    models: tuple[str, ...],
    upgraders: tuple[str, ...],
) -> None:
    """Write the store to JSONL, CSV or Parquet.

    A directory gets one file per type and schema.json, which says what the types are; all files show the same commit.
    What is written can be imported again without loss, also into an empty store.
    """
    from ontologia.cli.filters import moment
    from ontologia.cli.models import known_classes, load_all_upgraders, named_class
    from ontologia.store.transfer.places import as_format, file_name, format_of
    from ontologia.store.transfer.schema import SCHEMA_FILE, write_schema

    if as_of is not None and history_since is not None:
        raise click.UsageError("Use one of --as-of and --history-since.")
    target = Path(output)
    chosen = as_format(form or (format_of(target) if type_name and target.suffix and output != "-" else "jsonl"))
    with invocation.open(upgraders=load_all_upgraders(upgraders)) as store:
        classes = known_classes(store, models)
        stored = [one.name for one in store.stored_types()]
        names = [named_class(classes, type_name).__spec__.name] if type_name else stored
        if output == "-" and chosen == "csv" and len(names) != 1:
            raise click.UsageError("CSV on stdout holds one type: name it with --type.")
        # One commit for all types, however long it takes and whoever writes meanwhile.
        when = store.head() if as_of is None else moment(as_of)
        at = when if isinstance(when, int) else store.commit_at(when)
        rows = {name: _rows(store, classes[name], at, history_since) for name in names}
        if output == "-":
            _to_stdout(rows, classes, chosen, meta=with_metadata)
            return
        total = sum(query.count() for query in rows.values())
        files: list[dict[str, Any]] = []
        done = 0
        with progress_bar("exporting rows") as report:
            for name, query in rows.items():
                path = target if type_name and not target.is_dir() else target / file_name(name, chosen)
                path.parent.mkdir(parents=True, exist_ok=True)
                written = _to_file(Counted(query, done, total, report), classes[name], chosen, path, meta=with_metadata)
                files.append({"type": name, "path": str(path), "rows": written})
                done += written
        head = store.head()
        if not type_name and files:
            write_schema(target / SCHEMA_FILE, [classes[name].__spec__ for name in names])
    _show(invocation, files, at, head)


def _rows(store: Any, cls: type[Any], at: int, since: int | None) -> Any:
    query = store.query()
    rows = query.entities(cls) if cls.__spec__.kind == "entity" else query.relations(cls)
    return rows.between(since + 1, at) if since is not None else rows.as_of(at)


def _to_file(things: Iterable[Any], cls: type[Any], form: Any, path: Path, *, meta: bool) -> int:
    from ontologia.store.transfer.write import write_file

    return write_file(things, cls.__spec__, form, path, meta=meta)


def _to_stdout(rows: dict[str, Any], classes: dict[str, type[Any]], form: Any, *, meta: bool) -> None:
    from ontologia.store.transfer.write import write_lines

    for name, query in rows.items():
        write_lines(query, classes[name].__spec__, form, sys.stdout, meta=meta)


def _show(invocation: Invocation, files: list[dict[str, Any]], at: int, head: int) -> None:
    total = sum(entry["rows"] for entry in files)
    if not invocation.as_text:
        show_facts(invocation, {"as_of": at, "head": head, "rows": total, "files": files})
        return
    for entry in files:
        click.echo(f"{entry['path']}  {plural(entry['rows'], 'row')}")
    if files:
        click.echo(f"exported {plural(total, 'row')} as of commit {at}")
    else:
        invocation.note("The store has no types yet; nothing was written.")
