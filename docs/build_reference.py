"""Writes the reference pages from the code: errors, settings, commands. Run it with `make docs`.

The pages are kept in git so that they can be read without running anything; a test fails when one of them is not what
this script would write.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from ontologia import cli, errors
from ontologia.config import OntologiaConfig

PAGES = Path(__file__).parent / "reference"
NOTE = "<!-- Written by `make docs` from the code: change the code, not this page. -->"


def errors_page() -> str:
    """Every error class with its kind, grouped by what the caller would do."""
    lines = [
        NOTE,
        "",
        "# Errors",
        "",
        "Every error that Ontologia raises on purpose is an `OntologiaError`. Catch the group that says what you would",
        "do; `error.kind` is a stable code for programs, `error.hint` says what to do next, `error.details` has the",
        "facts, and `error.to_dict()` gives all of it as JSON-able data.",
    ]
    for group in errors.OntologiaError.__subclasses__():
        lines += ["", f"## {group.__name__}", "", "| error | kind | when |", "| --- | --- | --- |"]
        lines += [
            f"| `{error.__name__}` | `{error.kind}` | {' '.join((inspect.getdoc(error) or '').split())} |"
            for error in _family(group)
        ]
    return "\n".join(lines) + "\n"


def _family(error: type[errors.OntologiaError]) -> Iterator[type[errors.OntologiaError]]:
    yield error
    for child in error.__subclasses__():
        yield from _family(child)


def settings_page() -> str:
    """Every setting with its environment variable, default and meaning."""
    lines = [
        NOTE,
        "",
        "# Settings",
        "",
        "A setting is looked for in this order: an argument (`OntologiaConfig(lock_timeout_ms=100)`, a command-line",
        "option), the environment, the file `ontologia.toml` in the working directory, the default.",
        "",
        "| setting | environment | default | meaning |",
        "| --- | --- | --- | --- |",
    ]
    for name, field in OntologiaConfig.model_fields.items():
        default = "made for each process" if field.default_factory else f"`{field.default!r}`"
        meaning = " ".join((field.description or "").split()).replace("|", "\\|")
        lines.append(f"| `{name}` | `ONTOLOGIA_{name.upper()}` | {default} | {meaning} |")
    return "\n".join(lines) + "\n"


def root() -> click.Command:
    """The command that both `onto` and `ontologia` start."""
    return cli.main


def commands(command: click.Command, path: tuple[str, ...] = ("onto",)) -> Iterator[tuple[str, click.Command]]:
    """Every command that `--help` shows, with its full name, parents before children."""
    yield " ".join(path), command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path[-1])
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                yield from commands(child, (*path, name))


def cli_page() -> str:
    """The help of every command."""
    lines = [NOTE, "", "# Command line", "", "`ontologia` is another name for `onto`."]
    for name, command in commands(root()):
        context = click.Context(command, info_name=name, terminal_width=80, max_content_width=80)
        text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
        lines += ["", f"## {name}", "", "```text", text, "```"]
    return "\n".join(lines) + "\n"


BUILDERS = {"errors.md": errors_page, "settings.md": settings_page, "cli.md": cli_page}


def write() -> None:
    """Write every page."""
    PAGES.mkdir(exist_ok=True)
    for name, build in BUILDERS.items():
        (PAGES / name).write_text(build(), encoding="utf-8")
        sys.stdout.write(f"docs/reference/{name}\n")


if __name__ == "__main__":
    write()
