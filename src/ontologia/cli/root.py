"""The command `onto`: what it offers, and how every failure ends.

Each command lives in a module of `ontologia.cli.commands`, named here with its line of help. Whatever a command
raises becomes one sentence on stderr and an exit code.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NoReturn

import click

from ontologia import __version__
from ontologia.cli import exits
from ontologia.cli.failures import describe, report
from ontologia.cli.structure import LazyGroup

_HOME = "ontologia.cli.commands"

SECTIONS: dict[str, list[tuple[str, str, str]]] = {
    "Start": [
        ("demo", "ontologia.cli.demo.command:demo", "Tell the loan example, step by step."),
        ("init", f"{_HOME}.creation:init", "Create a store."),
        ("info", f"{_HOME}.places:info", "Say where the store is and what it holds."),
        ("doctor", f"{_HOME}.doctor:doctor", "Check the installation, the settings and the store."),
    ],
    "Ask": [
        ("query", f"{_HOME}.query:query", "Ask for entities, relations and paths."),
        ("commits", f"{_HOME}.history:commits", "List commits, newest first."),
        ("diff", f"{_HOME}.history:diff", "Show what differs between two commits."),
        ("blame", f"{_HOME}.history:blame", "Show which commit each value of a row comes from."),
    ],
    "Move data": [
        ("import", f"{_HOME}.importing:import_", "Read JSONL, CSV or Parquet into the store, as one commit."),
        ("export", f"{_HOME}.exporting:export", "Write the store to JSONL, CSV or Parquet."),
    ],
    "Change types": [
        ("migrate", f"{_HOME}.schema:migrate", "Bring stored types to what the models declare."),
        ("schema", f"{_HOME}.schema:schema", "Show stored types, their versions, or drop one."),
    ],
    "Look after it": [
        ("verify", f"{_HOME}.places:verify", "Recompute every hash and name the commit that was changed."),
        ("compact", f"{_HOME}.upkeep:compact", "Merge data files (object storage only)."),
        ("index", f"{_HOME}.upkeep:index", "Check or repair indices (object storage only)."),
        ("gc", f"{_HOME}.upkeep:gc", "Remove objects that no commit needs (object storage only)."),
    ],
    "Tools": [
        ("config", f"{_HOME}.tools:config", "Show settings."),
        ("commands", f"{_HOME}.tools:commands", "List every command and option, for programs."),
        ("completion", f"{_HOME}.tools:completion", "Print the completion script of a shell."),
    ],
}


class Root(LazyGroup):
    """The outermost command: runs the rest and turns every failure into a sentence and a code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: ARG002, FBT001, FBT002 - click's signature; failures are always ours
        windows_expand_args: bool = True,  # noqa: FBT001, FBT002
        **extra: Any,
    ) -> NoReturn:
        given = list(sys.argv[1:] if args is None else args)
        # A terminal that cannot show a character shows its code; the command still ends well.
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
                stream.reconfigure(errors="backslashreplace")
        try:
            code: object = super().main(
                args=given,
                prog_name=prog_name or "onto",
                complete_var=complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - nothing may reach the user as a traceback
            failure = describe(error)
            report(failure, error, as_json=_wants_json(given))
            sys.exit(failure.code)
        sys.exit(code if isinstance(code, int) else exits.OK)


def _wants_json(args: Sequence[str]) -> bool:
    """Whether JSON was asked for, also when the arguments could not be parsed to their end."""
    return "--json" in args or "--format=json" in args or ("--format", "json") in pairwise(args)


def _exit_codes() -> str:
    lines = [f"  {code:<4} {meaning}" for code, meaning in exits.MEANINGS.items()]
    # A \b keeps click from making one paragraph of the lines.
    return "\n".join(["\b", "Exit codes:", *lines])


@click.group(cls=Root, sections=SECTIONS, epilog=_exit_codes())
@click.version_option(__version__, prog_name="onto")
def main() -> None:
    """Keep typed entities and relations in an append-only log, and ask what is, and what was, true.

    The store is onto.db in this directory unless --db, --storage-uri, the environment or ontologia.toml say otherwise.
    """
