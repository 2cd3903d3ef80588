"""Showing what went wrong: one sentence and a next step on stderr, never a traceback.

`describe` turns any exception into the same few facts; `report` prints them for a person, or as one line of JSON for
a program.
"""

from __future__ import annotations

import json
import os
import re
import traceback
from dataclasses import dataclass, field
from typing import Any

import click

from ontologia.cli import exits
from ontologia.errors import OntologiaError

DEBUG = "ONTOLOGIA_DEBUG"
_IN_COMMANDS = {
    "import-conflict": "Nothing was written; --on-conflict skip keeps what is there, upsert writes new versions.",
    "schema-outdated": "Preview with `onto migrate --models MODULE`, then add --apply --token.",
    "schema-boundary": "Give the upgrader with --upgraders MODULE, or see the rows as written with `query --raw`.",
    "missing-upgrader": "Write the function, mark it with @upgrader, and give its module with --upgraders.",
    "migration-token": "Run `onto migrate` without --apply and pass the token it prints.",
    "batch-size": "Nothing was written; import in several steps, or raise ONTOLOGIA_MAX_BATCH_SIZE.",
}
"""Next steps in the words of the command line, where the library's own hint speaks of Python."""
_SETTINGS = re.compile(r"\b(?:s3_[a-z_]+|lock_timeout_ms|max_batch_size)\b")
"""Settings that hints name as Python does; a shell sets them in the environment."""
_OTHERWISE = {
    "query": "`onto schema export` shows the fields of every type and what they hold.",
    "row": "Nothing was imported; fix the file and try again.",
}
"""Next steps where the library has none."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What there is to say about an exception."""

    kind: str
    message: str
    hint: str | None
    code: int
    details: dict[str, Any] = field(default_factory=dict[str, Any])


def describe(error: BaseException) -> Failure:
    """The facts about an exception, whatever it is."""
    code = exits.exit_code(error)
    match error:
        case OntologiaError():
            hint = _IN_COMMANDS.get(error.kind, error.hint) or _OTHERWISE.get(error.kind)
            in_shell = hint and _SETTINGS.sub(lambda name: f"ONTOLOGIA_{name[0].upper()}", hint)
            return Failure(error.kind, error.message, in_shell, code, error.details)
        case click.exceptions.NoArgsIsHelpError():
            return Failure("usage", error.format_message(), None, exits.USAGE)
        case click.ClickException():
            return _usage(error)
        case KeyboardInterrupt() | click.Abort():
            hint = "What was not committed is not written; `onto commits --limit 1` shows the last commit."
            return Failure("interrupted", "Interrupted.", hint, exits.INTERRUPTED)
        case OSError():
            place = f"{error.filename}: " if error.filename else ""
            message = f"{place}{error.strerror or error}."
            return Failure("os", message, "Check the path, its permissions and the free space.", code)
        case _:
            message = f"Unexpected {type(error).__name__}: {error}. This is a bug in Ontologia."
            return Failure("bug", message, f"Run again with {DEBUG}=1 and report the traceback.", exits.FAILURE)


def _usage(error: click.ClickException) -> Failure:
    message = error.format_message()
    message = message if message.endswith((".", "?", "!")) else f"{message}."
    context = getattr(error, "ctx", None)
    command = context.command_path if isinstance(context, click.Context) else "onto"
    return Failure("usage", message, f"`{command} --help` says what is possible.", exits.USAGE)


def report(failure: Failure, error: BaseException, *, as_json: bool) -> None:
    """Print a failure on stderr."""
    if os.environ.get(DEBUG):
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    if as_json:
        facts = {"kind": failure.kind, "message": failure.message, "hint": failure.hint, "details": failure.details}
        click.echo(json.dumps({"error": facts, "exit_code": failure.code}, default=str), err=True)
        return
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(failure.message, err=True)
        return
    label = click.style(f"error[{failure.kind}]:", fg="red", bold=True)
    click.echo(f"{label} {failure.message}", err=True)
    if failure.hint:
        click.echo(f"  {click.style('help:', bold=True)} {failure.hint}", err=True)
