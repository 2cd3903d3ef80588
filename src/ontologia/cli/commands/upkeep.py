"""`compact`, `index` and `gc`: maintenance that stores on object storage need.

Each shows what it would do unless `--apply` is there. A SQLite store needs none of it, and the library says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from ontologia.cli import exits
from ontologia.cli.invocation import Invocation, pass_invocation
from ontologia.cli.options import Duration, apply_option, type_option
from ontologia.cli.progress import progress_bar
from ontologia.cli.rendering import plural, show_facts, show_rows, show_table, size_text
from ontologia.cli.structure import Command, Group

if TYPE_CHECKING:
    from ontologia.store.maintenance import IndexProblem, Removal

_TO_DO_IT = "Nothing was changed; add --apply to do it."


@click.command(cls=Command)
@type_option("Only this type.")
@apply_option
@pass_invocation
def compact(invocation: Invocation, *, type_name: str | None, apply: bool) -> None:
    """Merge data files (object storage only).

    Many small files of a type become a few large ones, called snapshots: queries then need fewer requests. What any
    query answers stays the same, about the past too. Others may read and write meanwhile; the files that a snapshot
    stands for stay until `onto gc` removes them.
    """
    with invocation.open(write=apply) as store, progress_bar("merging files") as report:
        done = store.compact(type_name, apply=apply, progress=report)
    rows = [asdict(rewrite) for rewrite in done.rewrites]
    if invocation.as_json:
        invocation.emit_json({"head": done.head, "applied": done.applied, "rewrites": rows})
        return
    columns = ("kind", "type_name", "min_commit_id", "max_commit_id", "files", "rows", "path")
    if not invocation.as_text:
        show_rows(invocation, columns, rows, "There is nothing to merge.")
        return
    if not rows:
        click.echo("Nothing to merge.")
        return
    shown = [
        [one.kind, one.type_name, f"{one.min_commit_id}-{one.max_commit_id}", f"{one.files:,}", f"{one.rows:,}"]
        for one in done.rewrites
    ]
    show_table(invocation, ("kind", "type", "commits", "files", "rows"), shown)
    files, number = sum(one.files for one in done.rewrites), len(rows)
    click.echo(
        f"{'Merged' if done.applied else 'Would merge'} {plural(files, 'file')} into {plural(number, 'snapshot')}."
    )
    if not done.applied:
        invocation.note(_TO_DO_IT)


@click.group(cls=Group)
def index() -> None:
    """Check or repair indices (object storage only)."""


@index.command("verify")
@pass_invocation
def index_verify(invocation: Invocation) -> int:
    """Say whether the index of every type fits the log; exit code 4 when one does not.

    An index that is behind costs queries some requests and never makes them wrong. One with entries that no commit
    wrote, or without some, is believed: repair it.
    """
    with invocation.open() as store:
        problems = store.verify_index()
        head = store.head()
    if invocation.as_json:
        rows = [asdict(problem) for problem in problems]
        invocation.emit_json({"ok": not problems, "head": head, "problems": rows})
    elif problems or not invocation.as_text:
        _show_problems(invocation, problems)
    else:
        click.echo(f"{click.style('ok', fg='green')}: every index fits commit {head}.")
    if problems and not invocation.as_json:
        believed = any(problem.code == "wrong-entries" for problem in problems)
        effect = "queries may miss rows" if believed else "queries are right all the same"
        invocation.note(f"{plural(len(problems), 'problem')}; {effect}.")
        invocation.note("  help: `onto index repair --apply` writes these indices anew.")
    return exits.UNHEALTHY if problems else exits.OK


def _show_problems(invocation: Invocation, problems: Sequence[IndexProblem]) -> None:
    if not invocation.as_text:
        columns = ("kind", "type_name", "code", "message", "max_indexed_commit", "head")
        show_rows(invocation, columns, [asdict(problem) for problem in problems], "Every index is in order.")
        return
    for problem in problems:
        label = click.style(f"{problem.code}:", fg="yellow")
        click.echo(f"{label} {problem.message}")


@index.command("repair")
@apply_option
@pass_invocation
def index_repair(invocation: Invocation, *, apply: bool) -> None:
    """Write indices that do not fit the head anew, from the log.

    No commit is made and the head stays where it is. Once done, doing it again changes nothing.
    """
    with invocation.open(write=apply) as store, progress_bar("reading the log") as report:
        done = store.repair_index(apply=apply, progress=report)
    if invocation.as_json:
        invocation.emit_json(asdict(done))
        return
    if not invocation.as_text:
        _show_problems(invocation, done.problems)
        return
    if not done.written:
        click.echo(f"Nothing to repair: every index fits commit {done.head}.")
        return
    _show_problems(invocation, done.problems)
    for key in done.written:
        click.echo(f"{'wrote' if done.applied else 'would write'} {key}")
    if not done.applied:
        invocation.note(_TO_DO_IT)


@click.command(cls=Command)
@click.option(
    "--grace",
    type=Duration(),
    default="7d",
    show_default=True,
    metavar="TIME",
    help="Leave what is younger: 7d, 12h, 30m. Must be longer than any query or commit takes.",
)
@apply_option
@pass_invocation
def gc(invocation: Invocation, *, grace: timedelta, apply: bool) -> None:
    """Remove objects that no commit needs (object storage only).

    These are files of commits that were never finished, and files whose rows a snapshot holds too. Manifests, and
    whatever a query about any commit needs, are never removed.
    """
    with invocation.open(write=apply) as store, progress_bar("looking at objects") as report:
        done = store.gc(grace=grace, apply=apply, progress=report)
    rows = [asdict(removal) for removal in done.removals]
    totals = _totals(done.removals)
    if invocation.as_json:
        facts: dict[str, Any] = {
            "head": done.head,
            "grace_seconds": int(done.grace.total_seconds()),
            "applied": done.applied,
            "objects": len(rows),
            "bytes": done.bytes,
            "reasons": totals,
            "removals": rows,
        }
        show_facts(invocation, facts)
        return
    if not invocation.as_text:
        show_rows(invocation, ("key", "size", "reason"), rows, "There is nothing to remove.")
        return
    if not rows:
        click.echo("Nothing to remove.")
        return
    if not done.applied:
        listed = [[one.key, f"{one.size:,}", one.reason] for one in done.removals]
        show_table(invocation, ("key", "bytes", "reason"), listed)
    for reason, total in totals.items():
        click.echo(f"{reason}: {plural(total['objects'], 'object')}, {size_text(total['bytes'])}")
    verb = "Removed" if done.applied else "Would remove"
    click.echo(f"{verb} {plural(len(rows), 'object')}, {size_text(done.bytes)}.")
    if not done.applied:
        invocation.note(_TO_DO_IT)


def _totals(removals: Sequence[Removal]) -> dict[str, dict[str, int]]:
    """Objects and bytes for each reason."""
    totals: defaultdict[str, dict[str, int]] = defaultdict(lambda: {"objects": 0, "bytes": 0})
    for removal in removals:
        totals[removal.reason]["objects"] += 1
        totals[removal.reason]["bytes"] += removal.size
    return dict(totals)
