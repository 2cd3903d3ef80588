"""`migrate` and `schema`: what types the store knows, which versions they have had, and changing them.

Whatever changes something is a preview unless `--apply` is there, and needs the token of that preview.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ontologia.cli import exits
from ontologia.cli.invocation import Invocation, pass_invocation
from ontologia.cli.options import (
    apply_option,
    apply_options,
    complete_types,
    models_option,
    type_option,
    upgraders_option,
)
from ontologia.cli.progress import progress_bar
from ontologia.cli.rendering import plural, show_facts, show_rows
from ontologia.cli.structure import Command, Group

if TYPE_CHECKING:
    from ontologia.store.migration import Migration


@click.command(cls=Command)
@models_option
@upgraders_option
@apply_options
@click.option("--force", is_flag=True, help="With --apply: whatever is planned now, without a token.")
@pass_invocation
def migrate(
    invocation: Invocation,
    *,
    models: tuple[str, ...],
    upgraders: tuple[str, ...],
    apply: bool,
    token: str | None,
    force: bool,
) -> int:
    """Bring stored types to what the models declare.

    Without --apply it shows the plan and a token, or ends with exit code 3 where an upgrader is missing. Applying
    rewrites the rows of every changed type as one commit, all types or none; old versions of rows stay readable.
    """
    from ontologia.cli.models import load_all_upgraders, load_models

    if not models:
        raise click.UsageError("A migration needs the classes to migrate to: give --models.")
    if (token is not None or force) and not apply:
        raise click.UsageError("--token and --force go with --apply.")
    types = load_models(models).values()
    with invocation.open(write=apply, types=types, upgraders=load_all_upgraders(upgraders)) as store:
        if apply:
            with progress_bar("migrating rows") as report:
                plan = store.migrate(apply=True, token=token, force=force, progress=report)
        else:
            plan = store.migrate()
    if invocation.as_text:
        _show_migration(invocation, plan)
    else:
        show_facts(invocation, _migration_json(plan))
    return exits.SCHEMA if plan.missing_upgraders else exits.OK


def _show_migration(invocation: Invocation, plan: Migration) -> None:
    """The plan, change by change; the token only when it is of use."""
    if plan.is_empty:
        click.echo("Nothing to migrate.")
        return
    missing = {name for name, _ in plan.missing_upgraders}
    for diff in plan.diffs:
        mark = "  (needs an upgrader)" if diff.type_name in missing else "  (by the upgrader)"
        click.echo(f"{diff.type_name} ({plural(plan.row_estimates.get(diff.type_name, 0), 'row')})")
        for change in diff.changes:
            click.echo(f"  {change}" + (mark if change.needs_upgrader else ""))
    for name, version in plan.missing_upgraders:
        click.echo(f"missing upgrader: @upgrader({name!r}, from_version={version})")
    if plan.applied:
        click.echo(f"applied as commit {plan.commit_id}")
    elif plan.missing_upgraders:
        invocation.note("Write the missing upgraders and name their module with --upgraders.")
    else:
        click.echo(f"token: {plan.token}")
        invocation.note(f"To do it, add: --apply --token {plan.token}")


def _migration_json(plan: Migration) -> dict[str, Any]:
    return {
        "token": plan.token,
        "head": plan.head,
        "applied": plan.applied,
        "commit_id": plan.commit_id,
        "types": [
            {
                "kind": diff.kind,
                "type": diff.type_name,
                "rows": plan.row_estimates.get(diff.type_name, 0),
                "changes": [
                    {
                        "field": change.field,
                        "change": change.change,
                        "old": change.old,
                        "new": change.new,
                        "needs_upgrader": change.needs_upgrader,
                    }
                    for change in diff.changes
                ],
            }
            for diff in plan.diffs
        ],
        "needed_upgraders": [{"type": name, "from_version": version} for name, version in plan.needed_upgraders],
        "missing_upgraders": [{"type": name, "from_version": version} for name, version in plan.missing_upgraders],
    }


@click.group(cls=Group)
def schema() -> None:
    """Show stored types, their versions, or drop one."""


@schema.command("export")
@type_option("Only this type.")
@click.option("--output", metavar="PATH", help="Write to this file instead of stdout.")
@pass_invocation
def export_schema(invocation: Invocation, type_name: str | None, output: str | None) -> None:
    """The stored types as JSON, which --models reads back."""
    from ontologia.cli.models import classes_from, named_class
    from ontologia.store.transfer.schema import schema_content, write_schema

    with invocation.open() as store:
        specs = {stored.name: stored.spec for stored in store.stored_types()}
    if type_name is not None:
        named_class(classes_from(specs.values()), type_name)
        specs = {type_name: specs[type_name]}
    if output is None:
        invocation.emit_json(schema_content(specs.values()))
        return
    write_schema(Path(output), specs.values())
    invocation.note(f"Wrote {plural(len(specs), 'type')} to {output}.")


@schema.command()
@click.argument("type_name", metavar="[TYPE]", required=False, shell_complete=complete_types())
@pass_invocation
def history(invocation: Invocation, type_name: str | None) -> None:
    """Every version that stored types have had."""
    from ontologia.cli.models import known_classes, named_class
    from ontologia.model.diff import diff_specs

    with invocation.open() as store:
        if type_name is not None:
            named_class(known_classes(store), type_name)
        stored = [one for one in store.stored_types() if type_name in (None, one.name)]
    rows: list[dict[str, Any]] = []
    for one in stored:
        for number, version in enumerate(one.versions):
            changes = diff_specs(one.versions[number - 1].spec, version.spec).changes if number else ()
            rows.append(
                {
                    "kind": one.kind,
                    "type": one.name,
                    "version": version.version,
                    "since_commit": version.since_commit,
                    "created_at": version.created_at.isoformat(),
                    "fingerprint": version.spec.fingerprint,
                    "changes": [str(change) for change in changes] if number else ["first version"],
                }
            )
    columns = ("kind", "type", "version", "since_commit", "created_at", "fingerprint", "changes")
    if not invocation.as_text:
        show_rows(invocation, columns, rows, "There are no types yet.")
        return
    shown = [{**row, "since": row["since_commit"], "changes": "; ".join(row["changes"])} for row in rows]
    show_rows(invocation, ("type", "version", "since", "changes"), shown, "There are no types yet.")


@schema.command()
@click.argument("kind", type=click.Choice(["entity", "relation"]), metavar="KIND")
@click.argument("type_name", metavar="TYPE", shell_complete=complete_types())
@click.option("--purge-history", is_flag=True, help="Remove its rows of all times too; they cannot be brought back.")
@apply_options
@pass_invocation
def drop(
    invocation: Invocation, *, kind: str, type_name: str, purge_history: bool, apply: bool, token: str | None
) -> None:
    """Forget a type: KIND is entity or relation.

    Without --apply it shows what would go, and a token. The commits that wrote its rows stay in the log.
    """
    if token is not None and not apply:
        raise click.UsageError("--token goes with --apply.")
    with invocation.open(write=apply) as store:
        done = store.drop_type(kind, type_name, purge=purge_history, apply=apply, token=token)
    facts = {
        "kind": done.kind,
        "type": done.type_name,
        "versions": done.versions,
        "current_rows": done.current_rows,
        "dependents": list(done.dependents),
        "purge_history": done.purge,
        "token": done.token,
        "applied": done.applied,
        "removed_rows": done.removed_rows,
    }
    if not invocation.as_text:
        show_facts(invocation, facts)
    elif done.applied:
        click.echo(
            f"Dropped {kind} {type_name}." + (f" {plural(done.removed_rows, 'row')} removed." if done.purge else "")
        )
    else:
        what = f"{plural(done.current_rows, 'current row')}, {plural(done.versions, 'schema version')}"
        click.echo(f"Would drop {kind} {type_name}: {what}.")
        click.echo("All of its history would be removed." if done.purge else "Its history would be kept.")
        if done.dependents:
            click.echo(f"It is an end of {', '.join(done.dependents)}: drop those first.")
        click.echo(f"token: {done.token}")
        purge = " --purge-history" if done.purge else ""
        if not done.dependents:
            invocation.note(f"To do it: onto schema drop {kind} {type_name}{purge} --apply --token {done.token}")


@schema.command()
@apply_option
@pass_invocation
def repair(invocation: Invocation, *, apply: bool) -> None:
    """Write the public records about types anew from the catalog in force (object storage only).

    They are for other programs and for `onto index`: types.json, registry.json, dropped.json and the versions.
    """
    with invocation.open(write=apply) as store:
        wrong = store.repair_schema(apply=apply)
    if invocation.as_json:
        invocation.emit_json({"written": wrong, "applied": apply})
        return
    for key in wrong:
        click.echo(f"{'wrote' if apply else 'would write'} {key}")
    if not wrong:
        click.echo("Nothing to repair: every record says what the catalog says.")
    elif not apply:
        invocation.note("Nothing was changed; add --apply to do it.")
