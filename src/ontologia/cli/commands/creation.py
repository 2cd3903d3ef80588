"""`init`: making a store where there is none, and emptying one that is there.

Emptying needs the token of its preview. What is refused is decided by the library, here it is only shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ontologia.cli.invocation import Invocation, pass_invocation
from ontologia.cli.progress import progress_bar
from ontologia.cli.rendering import plural, show_facts
from ontologia.cli.structure import Command

if TYPE_CHECKING:
    from ontologia.store.maintenance import Initialisation
    from ontologia.store.sqlite.reset import Reset


@click.command(cls=Command)
@click.option("--dry-run", is_flag=True, help="Only say what would be done; with --force, print the token for it.")
@click.option("--force", is_flag=True, help="Empty a store that is there already. Needs --token.")
@click.option("--token", metavar="TOKEN", help="The token that `init --force --dry-run` printed.")
@pass_invocation
def init(invocation: Invocation, *, dry_run: bool, force: bool, token: str | None) -> None:
    """Create a store.

    A store on object storage begins with this command, which also tries whether the server keeps the promises that
    writers rely on. A SQLite store is created by its first use too.

    With --force an existing store is emptied: in a SQLite file, other tables stay as they are; in a bucket, a new
    store begins under the same prefix, in which nothing of the old one can be seen.
    """
    if token is not None and (dry_run or not force):
        raise click.UsageError("--token goes with --force, and not with --dry-run.")
    place = invocation.binding()
    if place.on_objects:
        _on_objects(invocation, place.uri, dry_run=dry_run, force=force, token=token)
    else:
        _in_file(invocation, place.path, dry_run=dry_run, force=force, token=token)


def _in_file(invocation: Invocation, path: str, *, dry_run: bool, force: bool, token: str | None) -> None:
    from ontologia.store.sqlite.reset import Resetting

    resetting = Resetting(path, invocation.config())
    if dry_run:
        _show_reset(invocation, resetting.preview(), force=force)
        return
    done = resetting.apply(token, force=force)
    if invocation.as_text:
        click.echo(f"{'Emptied' if done.exists else 'Created'} the store {done.uri}")
    else:
        show_facts(invocation, {"uri": done.uri, "created": True, "reset": done.exists, "head": 0})


def _show_reset(invocation: Invocation, plan: Reset, *, force: bool) -> None:
    facts: dict[str, Any] = {
        "uri": plan.uri,
        "exists": plan.exists,
        "would": _would(exists=plan.exists, force=force),
        "head": plan.head,
        "tables": list(plan.tables),
        "token": plan.token if force and plan.exists else None,
    }
    if not invocation.as_text:
        show_facts(invocation, facts)
    elif not plan.exists:
        click.echo(f"Would create the store {plan.uri}")
    elif not force:
        click.echo(f"Would refuse: there is a store at {plan.uri} already (head {plan.head}).")
    else:
        click.echo(f"Would empty {plan.uri}: {plural(plan.head, 'commit')}, {plural(len(plan.tables), 'table')}.")
        click.echo(f"token: {plan.token}")
        invocation.note(f"To do it: onto init --force --token {plan.token}")


def _on_objects(invocation: Invocation, uri: str, *, dry_run: bool, force: bool, token: str | None) -> None:
    from ontologia.store.objects.initialise import initialise

    with progress_bar("removing the old store") as report:
        done = initialise(uri, invocation.config(), force=force, token=token, dry_run=dry_run, progress=report)
    if not invocation.as_text:
        show_facts(invocation, _facts(done, force=force))
        return
    if done.applied:
        click.echo(f"{'Emptied' if done.existing else 'Created'} the store {done.uri}")
    elif done.existing is not None and not force:
        click.echo(f"Would refuse: there is a store at {done.uri} already (head {done.existing['commit_id']}).")
        invocation.note(f"To empty it, begin with: onto init --storage-uri {done.uri} --force --dry-run")
        return
    else:
        _show_plan(invocation, done)
    for note in done.notes:
        invocation.note(f"note: {note}")


def _facts(done: Initialisation, *, force: bool) -> dict[str, Any]:
    seen: dict[str, Any] = {"uri": done.uri, "exists": done.existing is not None, "existing": done.existing}
    written = {"objects": list(done.keys), "notes": list(done.notes)}
    if done.applied:
        return {**seen, "created": True, "reset": done.existing is not None, "head": 0, **written}
    return {**seen, "would": _would(exists=done.existing is not None, force=force), "token": done.token, **written}


def _show_plan(invocation: Invocation, plan: Initialisation) -> None:
    found = plan.existing
    if found is None:
        click.echo(f"Would create the store {plan.uri}")
    else:
        what = f"{plural(found['commit_id'], 'commit')}, {plural(found['objects'], 'object')}."
        click.echo(f"Would empty {plan.uri}: {found.get('problem', what)}")
    for key in plan.keys:
        click.echo(f"  write {key}")
    if plan.token is not None:
        click.echo(f"token: {plan.token}")
        invocation.note(f"To do it: onto init --storage-uri {plan.uri} --force --token {plan.token}")


def _would(*, exists: bool, force: bool) -> str:
    return "create" if not exists else "empty" if force else "refuse"
