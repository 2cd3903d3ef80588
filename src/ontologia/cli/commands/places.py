"""`info` and `verify`: the store as a whole.

Neither writes anything.
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
    click.echo("\n".join(fact_lines(_for_people(facts))))
    if types:
        click.echo()
        names = ("kind", "name", "rows", "fields", "version", "ends")
        shown = [{**row, "rows": f"{row['rows']:,}"} for row in types]
        show_table(invocation, names, [[text_of(row[name]) for name in names] for row in shown])
    else:
        invocation.note("The store is empty; `onto import` or a session of your program fills it.")
    if facts.get("last_index_warning"):
        invocation.note("Reads are right all the same; `onto index verify` says what is behind.")


def _for_people(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts that are one line each."""
    unset = {name for name in ("lock", "last_index_warning") if facts.get(name) is None}
    simple = {name: value for name, value in facts.items() if name not in {"types", "last_commit"} | unset}
    for name in ("bytes", "cache_bytes"):
        if isinstance(simple.get(name), int):
            simple[name] = f"{simple[name]:,}"
    if "lock" in simple:
        simple["lock"] = f"held by {simple['lock']['owner_id']} until {simple['lock']['expires_at']}"
    simple["last commit"] = facts["last_commit"]["created_at"] if facts["last_commit"] else "none yet"
    return simple


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
        raise IntegrityError(error.message, hint="Restore the store from a backup.", **error.details) from error
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
        if all(finding.code == "index" for finding in wrong):
            invocation.note("What was committed is whole; an index does not lead to all of it.")
            invocation.note("  help: Run `onto index repair --apply`.")
            return exits.UNHEALTHY
        first = next((finding.commit_id for finding in wrong if finding.commit_id is not None), None)
        named = f"commit {first} is the first one concerned" if first is not None else "no commit can be named"
        invocation.note(f"The store is not what was committed: {plural(len(wrong), 'fault')}; {named}.")
        invocation.note("  help: Restore the store from a backup.")
    return exits.UNHEALTHY if wrong else exits.OK
