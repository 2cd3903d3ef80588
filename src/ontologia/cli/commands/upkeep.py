"""`compact`, `index` and `gc`: maintenance that stores on object storage need.

A SQLite store needs none of it, and these commands say so.
"""

from __future__ import annotations

from typing import Any

import click

from ontologia.cli.invocation import Invocation, pass_invocation
from ontologia.cli.options import type_option
from ontologia.cli.rendering import show_facts
from ontologia.cli.structure import Command, Group


def _nothing_to_do(invocation: Invocation, command: str, reason: str, **facts: Any) -> None:
    """Say that a SQLite store needs none of it, once it is sure that there is one."""
    with invocation.open() as store:
        place = store.storage_info()
    if invocation.as_text:
        click.echo(f"Nothing to do: `onto {command}` is for stores on object storage. {reason}")
    else:
        show_facts(
            invocation, {"command": command, "backend": place["backend"], "needed": False, "reason": reason, **facts}
        )


@click.command(cls=Command)
@type_option("Only this type.")
@click.option("--apply", is_flag=True, help="Do it; without this the command only shows what it would do.")
@pass_invocation
def compact(invocation: Invocation, *, type_name: str | None, apply: bool) -> None:
    """Merge commit files (object storage only)."""
    reason = "SQLite keeps current rows in tables of their own, so reads never scan old commits."
    _nothing_to_do(invocation, "compact", reason, type=type_name, applied=apply)


@click.group(cls=Group)
def index() -> None:
    """Check or repair indexes (object storage only)."""


@index.command("verify")
@pass_invocation
def index_verify(invocation: Invocation) -> None:
    """Say whether indexes cover the head; exit code 4 when they do not."""
    reason = "SQLite updates its indexes in the same transaction as the rows; `onto verify` checks them."
    _nothing_to_do(invocation, "index verify", reason, healthy=True, lagging=[])


@index.command("repair")
@click.option("--apply", is_flag=True, help="Do it; without this the command only shows what it would do.")
@pass_invocation
def index_repair(invocation: Invocation, *, apply: bool) -> None:
    """Rebuild indexes that lag behind the head."""
    reason = "SQLite updates its indexes in the same transaction as the rows."
    _nothing_to_do(invocation, "index repair", reason, applied=apply, repaired=[])


@click.command(cls=Command)
@click.option("--apply", is_flag=True, help="Do it; without this the command only shows what it would do.")
@pass_invocation
def gc(invocation: Invocation, *, apply: bool) -> None:
    """Remove what no commit refers to (object storage only)."""
    reason = "A SQLite commit that fails leaves nothing behind."
    _nothing_to_do(invocation, "gc", reason, applied=apply, removed=[])
