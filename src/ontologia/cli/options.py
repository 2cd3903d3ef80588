"""Options that several commands share, and the completion of type names.

Completing reads the store; whatever goes wrong there, a shell gets no suggestions and no message.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from ontologia.cli.invocation import Invocation
from ontologia.errors import OntologiaError

F = TypeVar("F", bound=Callable[..., Any])


def complete_types(kind: str | None = None) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """A completer for the names of stored types."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del param
        invocation = ctx.find_object(Invocation) or Invocation()
        try:
            with invocation.open() as store:
                stored = [one for one in store.stored_types() if kind in (None, one.kind)]
        except OntologiaError:
            # A shell that asks for completions has no place for an error.
            return []
        return [CompletionItem(one.name, help=one.kind) for one in stored if one.name.startswith(incomplete)]

    return complete


def type_argument(kind: str | None = None) -> Callable[[F], F]:
    """The positional TYPE."""
    return click.argument("type_name", metavar="TYPE", shell_complete=complete_types(kind))


def type_option(text: str) -> Callable[[F], F]:
    """`--type`."""
    return click.option("--type", "type_name", metavar="TYPE", shell_complete=complete_types(), help=text)


def models_option(function: F) -> F:
    """`--models`, repeatable."""
    return click.option(
        "--models",
        multiple=True,
        metavar="MODULE",
        help="Your classes: a module, a .py file or an exported schema.json; repeatable. Default: the stored schema.",
    )(function)


def as_of_option(function: F) -> F:
    """`--as-of`."""
    return click.option(
        "--as-of",
        metavar="COMMIT|TIME",
        help="The state after a commit, or at a time in ISO 8601 (UTC unless it says). A time without a fraction"
        " includes all of its second; a date means its first moment.",
    )(function)


def upgraders_option(function: F) -> F:
    """`--upgraders`, repeatable."""
    return click.option(
        "--upgraders", multiple=True, metavar="MODULE", help="Module or .py file with @upgrader functions; repeatable."
    )(function)


def apply_option(function: F) -> F:
    """`--apply`."""
    return click.option("--apply", is_flag=True, help="Do it; without this the command only shows what it would do.")(
        function
    )


def apply_options(function: F) -> F:
    """`--apply` and `--token`."""
    return apply_option(click.option("--token", metavar="TOKEN", help="The token that the preview printed.")(function))


_UNITS = {"w": "weeks", "d": "days", "h": "hours", "m": "minutes", "s": "seconds"}


class Duration(click.ParamType[timedelta]):
    """A length of time: `7d`, `12h`, `30m`, `45s`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        match = re.fullmatch(r"(\d{1,6})([wdhms])", str(value).strip())
        if match is None:
            self.fail(f"{value!r} is no length of time; write 7d, 12h, 30m or 45s.", param, ctx)
        return timedelta(**{_UNITS[match[2]]: int(match[1])})
