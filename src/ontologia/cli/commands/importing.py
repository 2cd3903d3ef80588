"""`import`: files into the store, as one commit or not at all.

Reading and checking rows is left to the store; here the request is put together and its outcome shown.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ontologia.cli.invocation import Invocation, pass_invocation
from ontologia.cli.options import models_option, type_option
from ontologia.cli.progress import progress_bar
from ontologia.cli.rendering import plural, show_facts, show_table
from ontologia.cli.structure import Command
from ontologia.errors import RefusedError

if TYPE_CHECKING:
    from ontologia.model.spec import TypeSpec
    from ontologia.ontology import Ontology


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be imported, and how."""

    files: list[Path]
    type_name: str | None
    models: tuple[str, ...]
    inferred: dict[str, type[Any]]
    policy: Any
    metadata: dict[str, str]
    dry_run: bool


@click.command("import", cls=Command)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--input", "inputs", multiple=True, metavar="PATH", help="A file or an exported directory; repeatable.")
@type_option("The type of the rows, where neither the file's name nor its records say it.")
@models_option
@click.option(
    "--on-conflict",
    type=click.Choice(["abort", "skip", "upsert"]),
    default="abort",
    show_default=True,
    help="What to do with rows that exist with other values.",
)
@click.option("--dry-run", is_flag=True, help="Only count what would be inserted, updated and left as it is.")
@click.option("--apply", is_flag=True, help="Write; the explicit form of what happens without --dry-run.")
@click.option("--meta", multiple=True, metavar="NAME=VALUE", help="Metadata of the commit; repeatable.")
@click.option("-m", "--message", help="Short for --meta message=TEXT.")
@click.option("--infer", is_flag=True, help="Propose a type for a file whose type is not known yet, and create it.")
@click.option("--key", metavar="COLUMN", help="With --infer: the column that is the primary key.")
@click.option("--yes", is_flag=True, help="With --infer: create the proposed type without asking.")
@pass_invocation
def import_(
    invocation: Invocation,
    *,
    paths: tuple[str, ...],
    inputs: tuple[str, ...],
    type_name: str | None,
    models: tuple[str, ...],
    on_conflict: Any,
    dry_run: bool,
    apply: bool,
    meta: tuple[str, ...],
    message: str | None,
    infer: bool,
    key: str | None,
    yes: bool,
) -> None:
    """Read JSONL, CSV or Parquet into the store, as one commit.

    The suffix says the format and the file's name the type. One bad row stops the import, names its line and column,
    and nothing is written. Types come from --models, from the store, or are proposed with --infer.

    Where a key comes several times, the last row counts; the summary says how many were `repeated`.

    CSV is separated by commas and in UTF-8. An empty cell is null and "" is empty text; times are ISO 8601, bytes
    base64, nested values JSON.
    """
    if dry_run and apply:
        raise click.UsageError("Use one of --dry-run and --apply.")
    if (key is not None or yes) and not infer:
        raise click.UsageError("--key and --yes go with --infer.")
    files = [Path(path) for path in (*paths, *inputs)]
    if not files:
        raise click.UsageError("Name what to import, with --input PATH.")
    metadata = _metadata(meta, message)
    inferred = _inferred(invocation, files, type_name, key, yes=yes, dry_run=dry_run) if infer else {}
    only = next(iter(inferred), type_name)
    _run(invocation, Request(files, only, models, inferred, on_conflict, metadata, dry_run))


def _metadata(pairs: tuple[str, ...], message: str | None) -> dict[str, str]:
    found = {} if message is None else {"message": message}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise click.BadParameter(f"--meta {pair!r} is not NAME=VALUE.")
        found[name] = value
    return found


def _inferred(
    invocation: Invocation, files: list[Path], type_name: str | None, key: str | None, *, yes: bool, dry_run: bool
) -> dict[str, type[Any]]:
    """The class proposed for one file, once it is agreed to."""
    from ontologia.cli.models import classes_from
    from ontologia.store.transfer.infer import propose

    if len(files) != 1:
        raise click.UsageError("--infer proposes a type for one file at a time.")
    if files[0].is_dir():
        raise click.UsageError(f"--infer takes a file, and {files[0]} is a directory: name one of the files in it.")
    proposal = propose(files[0], type_name, key)
    invocation.note(str(proposal))
    if not yes and not dry_run:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise RefusedError(
                f"Creating the type {proposal.spec.name} needs a confirmation, and there is no terminal to ask on.",
                hint="Look at the proposal above and pass --yes, or declare the class and pass --models.",
            )
        if not click.confirm("Create this type?", err=True):
            raise RefusedError(
                "The proposed type was not agreed to; nothing was written.",
                hint="Choose the key with --key and the name with --type, or declare the class and pass --models.",
            )
    return classes_from([proposal.spec])


def _run(invocation: Invocation, request: Request) -> None:
    from ontologia.cli.models import classes_from, known_classes
    from ontologia.store.transfer.places import source_files

    started = time.perf_counter()
    with _store(invocation, dry_run=request.dry_run) as store:
        beside = _schemas_beside(request.files)
        classes = classes_from(beside, {**request.inferred, **known_classes(store, request.models)})
        sources = source_files(request.files, request.type_name, classes)
        session = store.session()
        read = _read(session, sources, classes, request.policy)
        commit_id: int | None = None
        if request.dry_run:
            summary = session.preview()
        else:
            with progress_bar("writing rows") as report:
                commit_id = session.commit(request.metadata, progress=report)
            summary = session.last_summary
    types = [
        {
            "type": name,
            "read": count,
            "inserted": summary.types[name].inserted if summary else 0,
            "updated": summary.types[name].updated if summary else 0,
            "unchanged": summary.types[name].unchanged if summary else 0,
            "skipped": summary.types[name].skipped if summary else 0,
            "repeated": summary.types[name].repeated if summary else 0,
        }
        for name, count in read.items()
    ]
    _show(invocation, types, commit_id, time.perf_counter() - started, dry_run=request.dry_run)


def _read(session: Any, sources: list[Any], classes: dict[str, type[Any]], policy: Any) -> dict[str, int]:
    from ontologia.store.transfer.load import load

    total = sum(source.size for source in sources)
    with progress_bar("reading bytes") as report:

        def bytes_read(done: int) -> None:
            if report is not None:
                report(min(done, total), total)

        return load(session, sources, classes, policy, bytes_read)


def _schemas_beside(files: list[Path]) -> list[TypeSpec]:
    """What exported directories say about their types."""
    from ontologia.store.transfer.schema import SCHEMA_FILE, read_schema

    found = [folder / SCHEMA_FILE for folder in files if (folder / SCHEMA_FILE).is_file()]
    return [spec for path in found for spec in read_schema(path)]


@contextmanager
def _store(invocation: Invocation, *, dry_run: bool) -> Generator[Ontology]:
    """The store to write to; one that is not there yet comes to be only if the import succeeds."""
    place = invocation.binding()
    if place.on_objects:
        # Such a store is made by `onto init` alone.
        with invocation.open(write=True) as store:
            yield store
        return
    path = Path(place.path)
    existed = path.exists()
    if dry_run and not existed:
        invocation = Invocation(db=":memory:")
    try:
        with invocation.open(write=True, create=not (dry_run and existed)) as store:
            yield store
    except BaseException:
        if not existed:
            path.unlink(missing_ok=True)
        raise


def _show(
    invocation: Invocation, types: list[dict[str, Any]], commit_id: int | None, seconds: float, *, dry_run: bool
) -> None:
    figures = ("read", "inserted", "updated", "unchanged", "skipped", "repeated")
    totals = {name: sum(row[name] for row in types) for name in figures}
    facts = {**totals, "commit_id": commit_id, "dry_run": dry_run, "seconds": round(seconds, 3), "types": types}
    if not invocation.as_text:
        show_facts(invocation, facts)
        return
    if not totals["repeated"]:
        figures = figures[:-1]
    if len(types) > 1:
        rows = [[row["type"], *(f"{row[name]:,}" for name in figures)] for row in types]
        show_table(invocation, ("type", *figures), rows)
    counts = "  ".join(f"{name} {totals[name]:,}" for name in figures)
    if dry_run:
        click.echo(f"dry run: {counts}  {seconds:.1f} s")
        invocation.note("Nothing was written; leave out --dry-run to import.")
    elif commit_id is None:
        click.echo(f"{counts}  {seconds:.1f} s")
        there = f"all {plural(totals['read'], 'row')} were there already" if totals["read"] else "no rows were found"
        invocation.note(f"No commit: {there}.")
    else:
        click.echo(f"{counts}  commit {commit_id}  {seconds:.1f} s")
