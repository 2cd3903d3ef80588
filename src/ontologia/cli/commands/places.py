"""`init`, `info` and `verify`: the store as a whole.

Only `init` writes, and emptying a store needs the token of its preview.
"""

from __future__ import annotations

from typing import Any

import click

from ontologia.cli import exits
from ontologia.cli.invocation import Invocation, pass_invocation
from ontologia.cli.progress import progress_bar
from ontologia.cli.rendering import fact_lines, plural, show_facts, show_rows, show_table, text_of
from ontologia.cli.structure import Command
from ontologia.errors import IntegrityError


@click.command(cls=Command)
@click.option("--dry-run", is_flag=True, help="Only say what would be done; with --force, print the token for it.")
@click.option("--force", is_flag=True, help="Empty a store that is there already. Needs --token.")
@click.option("--token", metavar="TOKEN", help="The token that `init --force --dry-run` printed.")
@pass_invocation
def init(invocation: Invocation, *, dry_run: bool, force: bool, token: str | None) -> None:
    """Create a store.

    A SQLite store is also created by its first use, so this is only needed to be explicit. With --force an
    existing store is emptied; other tables in the same file stay as they are.
    """
    from ontologia.store.sqlite.reset import Reset, Resetting

    resetting = Resetting(invocation.path(), invocation.config())
    plan: Reset = resetting.preview()
    if dry_run:
        _show_plan(invocation, plan, force=force)
        return
    if token is not None and not force:
        raise click.UsageError("--token goes with --force.")
    done = resetting.apply(token, force=force)
    facts: dict[str, Any] = {"uri": done.uri, "created": True, "reset": done.exists, "head": 0}
    if invocation.as_text:
        click.echo(f"{'Emptied' if done.exists else 'Created'} the store {done.uri}")
    else:
        show_facts(invocation, facts)


def _show_plan(invocation: Invocation, plan: Any, *, force: bool) -> None:
    facts: dict[str, Any] = {
        "uri": plan.uri,
        "exists": plan.exists,
        "would": "create" if not plan.exists else "empty" if force else "refuse",
        "head": plan.head,
        "tables": list(plan.tables),
        "token": plan.token if force and plan.exists else None,
    }
    if not invocation.as_text:
        show_facts(invocation, facts)
        return
    if not plan.exists:
        click.echo(f"Would create the store {plan.uri}")
    elif not force:
        click.echo(f"Would refuse: there is a store at {plan.uri} already (head {plan.head}).")
    else:
        click.echo(f"Would empty {plan.uri}: {plural(plan.head, 'commit')}, {plural(len(plan.tables), 'table')}.")
        click.echo(f"token: {plan.token}")
        invocation.note(f"To do it: onto init --force --token {plan.token}")


@click.command(cls=Command)
@pass_invocation
def info(invocation: Invocation) -> None:
    """Say where the store is and what it holds."""
    from ontologia.cli.models import known_classes

    with invocation.open() as store:
        query = store.query()
        types: list[dict[str, Any]] = []
        classes = known_classes(store)
        for stored in store.stored_types():
            asked = query.entities if stored.kind == "entity" else query.relations
            types.append(
                {
                    "kind": stored.kind,
                    "name": stored.name,
                    "rows": asked(classes[stored.name]).count(),
                    "fields": len(stored.spec.fields),
                    "version": stored.current.version,
                    "ends": None if stored.kind == "entity" else f"{stored.spec.left} -> {stored.spec.right}",
                }
            )
        last = store.list_commits(limit=1)
        facts: dict[str, Any] = {
            **store.storage_info(),
            "head": store.head(),
            "last_commit": last[0].to_dict() if last else None,
            "types": types,
        }
    if not invocation.as_text:
        show_facts(invocation, facts)
        return
    simple = {name: value for name, value in facts.items() if name not in {"types", "last_commit"}}
    if isinstance(simple.get("bytes"), int):
        simple["bytes"] = f"{simple['bytes']:,}"
    simple["last commit"] = facts["last_commit"]["created_at"] if facts["last_commit"] else "none yet"
    click.echo("\n".join(fact_lines(simple)))
    if types:
        click.echo()
        names = ("kind", "name", "rows", "fields", "version", "ends")
        shown = [{**row, "rows": f"{row['rows']:,}"} for row in types]
        show_table(invocation, names, [[text_of(row[name]) for name in names] for row in shown])
    else:
        invocation.note("The store is empty; `onto import` or a session of your program fills it.")


@click.command(cls=Command)
@pass_invocation
def verify(invocation: Invocation) -> int:
    """Recompute every hash and name the commit that was changed.

    Ends with exit code 4 when something is wrong. Warnings, such as relations whose ends do not exist, leave it at 0.
    """
    try:
        with invocation.open() as store, progress_bar("verifying commits") as report:
            findings = store.verify(report)
            head = store.head() if not any(finding.code == "unreadable" for finding in findings) else None
    except IntegrityError as error:
        # Elsewhere the hint is to run this command.
        raise IntegrityError(error.message, hint="Restore the file from a backup.", **error.details) from error
    wrong = [finding for finding in findings if finding.severity == "error"]
    rows: list[dict[str, Any]] = [
        {
            "severity": finding.severity,
            "code": finding.code,
            "commit_id": finding.commit_id,
            "message": finding.message,
            "details": finding.details,
        }
        for finding in findings
    ]
    if invocation.as_json:
        invocation.emit_json({"ok": not wrong, "head": head, "findings": rows})
    elif invocation.format == "csv":
        show_rows(invocation, ("severity", "code", "commit_id", "message"), rows, "Nothing was found.")
    else:
        for row in rows:
            colour = "red" if row["severity"] == "error" else "yellow"
            click.echo(f"{click.style(row['severity'], fg=colour)}[{row['code']}]: {row['message']}")
        if not wrong:
            click.echo(f"{click.style('ok', fg='green')}: {plural(head or 0, 'commit')}, every hash fits.")
    if wrong and not invocation.as_json:
        first = next((finding.commit_id for finding in wrong if finding.commit_id is not None), None)
        named = f"commit {first} is the first one concerned" if first is not None else "no commit can be named"
        invocation.note(f"The store is not what was committed: {plural(len(wrong), 'fault')}; {named}.")
        invocation.note("  help: Restore the file from a backup.")
    return exits.UNHEALTHY if wrong else exits.OK
