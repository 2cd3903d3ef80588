"""Commands and groups that all know the global options, before and after their name.

A `LazyGroup` knows its commands by name and one line of help; a command's module is imported when the command is
called, which keeps `onto --help` quick.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import click

from ontologia.cli.invocation import FORMATS, Invocation

GLOBAL = "Global options"
_GLOBAL_NAMES = {"db", "storage_uri", "output_format", "as_json"}


def _set_format(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value:
        context.ensure_object(Invocation).format = "json" if parameter.name == "as_json" else value


def _set_place(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value is not None:
        setattr(context.ensure_object(Invocation), str(parameter.name), value)


def global_options() -> list[click.Option]:
    """Fresh copies of the options that every command takes."""
    return [
        click.Option(
            ["--db"], metavar="PATH", callback=_set_place, expose_value=False, help="SQLite file [env: ONTOLOGIA_DB]."
        ),
        click.Option(
            ["--storage-uri"],
            metavar="URI",
            callback=_set_place,
            expose_value=False,
            help="Store, as sqlite:///path or s3://bucket/prefix [env: ONTOLOGIA_STORAGE_URI].",
        ),
        click.Option(
            ["--format", "output_format"],
            type=click.Choice(FORMATS),
            callback=_set_format,
            expose_value=False,
            help="Form of the result on stdout; text unless said.",
        ),
        click.Option(
            ["--json", "as_json"],
            is_flag=True,
            callback=_set_format,
            expose_value=False,
            help="Short for --format json.",
        ),
    ]


class _Sections(click.Command):
    """Shows the global options apart from the command's own."""

    def get_help_option_names(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        # Said here rather than in a context, so that help reads the same however it is asked for.
        return ["-h", "--help"]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own: list[tuple[str, str]] = []
        shared: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                (shared if parameter.name in _GLOBAL_NAMES else own).append(record)
        for title, records in (("Options", own), (GLOBAL, shared)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        if isinstance(self, click.Group):
            self.format_commands(ctx, formatter)


class Command(_Sections):
    """A command that takes the global options after its name."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.params.extend(global_options())


class Group(_Sections, click.Group):
    """A group whose commands, and which itself, take the global options."""

    command_class = Command
    group_class = type

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.params.extend(global_options())

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            known = f"Did you mean {near[0]!r}?" if near else f"Commands: {', '.join(self.list_commands(ctx))}."
            raise click.UsageError(f"There is no command {args[0]!r}. {known}", ctx) from error


class LazyGroup(Group):
    """A group that imports a command when it is called.

    `sections` maps headings to commands: name, `module:attribute`, one line of help.
    """

    def __init__(
        self, *arguments: Any, sections: Mapping[str, Sequence[tuple[str, str, str]]] | None = None, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self.sections = dict(sections or {})
        self._homes = {name: home for entries in self.sections.values() for name, home, _ in entries}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self._homes)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        home = self._homes.get(cmd_name)
        if home is None:
            return None
        module, attribute = home.split(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        width = max(len(name) for name in self._homes)
        for title, entries in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), line) for name, _, line in entries])
