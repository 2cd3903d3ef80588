"""`export`: the store as files, or on stdout.

All types are written as of one commit, whoever writes to the store meanwhile.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ontologia.cli.invocation import Invocation, pass_invocation
from ontologia.cli.options import as_of_option, models_option, type_option, upgraders_option
from ontologia.cli.progress import Report, progress_bar
from ontologia.cli.rendering import plural, show_facts
from ontologia.cli.structure import Command

if TYPE_CHECKING:
    from ontologia.store.transfer.places import Format

Rows = dict[str, Any]
"""The query of each type, by its name."""
Classes = dict[str, type[Any]]


class Counted:
    """Rows of a query that report how many went by; can be gone through again."""

    def __init__(self, rows: Iterable[Any], done: int, total: int, report: Report | None) -> None:
        self._rows, self._done, self._total, self._report = rows, done, total, report

    def __iter__(self) -> Iterator[Any]:
        for number, thing in enumerate(self._rows, self._done + 1):
            if self._report is not None and number % 1000 == 0:
                self._report(number, self._total)
            yield thing


class Chained:
    """Rows of several queries, one after the other; can be gone through again."""

    def __init__(self, parts: list[Iterable[Any]]) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self._parts)


@click.command(cls=Command)
@click.option(
    "--output",
    required=True,
    metavar="PATH",
    help="A directory, a file (.csv and .parquet with --type), or - for stdout.",
)
@click.option("--as", "form", type=click.Choice(["jsonl", "csv", "parquet"]), help="Format; by the suffix, or jsonl.")
@type_option("Only this type, to one file.")
@as_of_option
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
    What is written can be imported again without loss, also into an empty store. A file that ends in .jsonl takes all
    types, unless --type names one.
    """
    from ontologia.cli.filters import moment
    from ontologia.cli.models import known_classes, load_all_upgraders, named_class

    if as_of is not None and history_since is not None:
        raise click.UsageError("Use one of --as-of and --history-since.")
    target = Path(output)
    to_file = _is_file(output, type_name)
    chosen = _format(target, form, to_file=to_file)
    if to_file and not type_name and chosen != "jsonl":
        raise click.UsageError(f"A {chosen} file holds one type: name it with --type, or give a directory.")
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
        with progress_bar("exporting rows") as report:
            if not to_file:
                files = _to_directory(rows, classes, chosen, target, report, meta=with_metadata)
            else:
                files = _to_file(rows, classes, chosen, target, report, meta=with_metadata)
        head = store.head()
        if not to_file and not type_name and files:
            from ontologia.store.transfer.schema import SCHEMA_FILE, write_schema

            write_schema(target / SCHEMA_FILE, [classes[name].__spec__ for name in names])
    _show(invocation, files, at, head)


def _is_file(output: str, type_name: str | None) -> bool:
    """Whether the output is one file rather than a directory."""
    from ontologia.store.transfer.places import has_known_suffix

    target = Path(output)
    if output == "-" or output.endswith(("/", os.sep)) or target.is_dir():
        return False
    return type_name is not None or has_known_suffix(target)


def _format(target: Path, form: str | None, *, to_file: bool) -> Format:
    from ontologia.store.transfer.places import as_format, format_of

    return as_format(form or (format_of(target) if to_file and target.suffix else "jsonl"))


def _rows(store: Any, cls: type[Any], at: int, since: int | None) -> Any:
    query = store.query()
    rows = query.entities(cls) if cls.__spec__.kind == "entity" else query.relations(cls)
    return rows.between(since + 1, at) if since is not None else rows.as_of(at)


def _to_directory(
    rows: Rows, classes: Classes, form: Format, folder: Path, report: Report | None, *, meta: bool
) -> list[dict[str, Any]]:
    """One file per type; what was written."""
    from ontologia.store.transfer.places import file_name
    from ontologia.store.transfer.write import write_file

    total = sum(query.count() for query in rows.values())
    files: list[dict[str, Any]] = []
    done = 0
    folder.mkdir(parents=True, exist_ok=True)
    for name, query in rows.items():
        path = folder / file_name(name, form)
        written = write_file(Counted(query, done, total, report), classes[name].__spec__, form, path, meta=meta)
        files.append({"type": name, "path": str(path), "rows": written})
        done += written
    return files


def _to_file(
    rows: Rows, classes: Classes, form: Format, path: Path, report: Report | None, *, meta: bool
) -> list[dict[str, Any]]:
    """All types in one file; what was written."""
    from ontologia.store.transfer.write import write_file

    counts = {name: query.count() for name, query in rows.items()}
    if not counts:
        return []
    path.parent.mkdir(parents=True, exist_ok=True)
    # A file of several types is JSONL, whose lines do not depend on the spec that is passed.
    spec = classes[next(iter(rows))].__spec__
    write_file(Counted(Chained(list(rows.values())), 0, sum(counts.values()), report), spec, form, path, meta=meta)
    return [{"type": name, "path": str(path), "rows": count} for name, count in counts.items()]


def _to_stdout(rows: Rows, classes: Classes, form: Format, *, meta: bool) -> None:
    from ontologia.store.transfer.write import write_lines

    for name, query in rows.items():
        write_lines(query, classes[name].__spec__, form, sys.stdout, meta=meta)


def _show(invocation: Invocation, files: list[dict[str, Any]], at: int, head: int) -> None:
    total = sum(entry["rows"] for entry in files)
    if not invocation.as_text:
        show_facts(invocation, {"as_of": at, "head": head, "rows": total, "files": files})
        return
    by_path: dict[str, int] = {}
    for entry in files:
        by_path[entry["path"]] = by_path.get(entry["path"], 0) + entry["rows"]
    for path, number in by_path.items():
        click.echo(f"{path}  {plural(number, 'row')}")
    if files:
        click.echo(f"exported {plural(total, 'row')} as of commit {at}")
    else:
        invocation.note("The store has no types yet; nothing was written.")
