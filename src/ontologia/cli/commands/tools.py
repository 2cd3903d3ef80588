"""`config`, `commands` and `completion`: the command line about itself.

None of them opens a store.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import click

from ontologia.cli.invocation import Invocation, pass_invocation
from ontologia.cli.rendering import show_rows
from ontologia.cli.structure import Command, Group


@click.group(cls=Group)
def config() -> None:
    """Show settings."""


@config.command()
@pass_invocation
def show(invocation: Invocation) -> None:
    """Every setting, its value and where that comes from."""
    settings = invocation.config()
    fields = type(settings).model_fields
    rows = [
        {"setting": name, "value": getattr(settings, name), "origin": origin, "meaning": fields[name].description}
        for name, origin in settings.origins.items()
    ]
    columns = ("setting", "value", "origin") if invocation.as_text else ("setting", "value", "origin", "meaning")
    show_rows(invocation, columns, rows, "")


@click.command(cls=Command)
@click.pass_context
def commands(context: click.Context) -> None:
    """List every command and option, for programs."""
    invocation = context.ensure_object(Invocation)
    rows = list(described(context.find_root().command))
    if invocation.as_json:
        from ontologia.cli.exits import MEANINGS

        codes = {str(code): meaning for code, meaning in MEANINGS.items()}
        invocation.emit_json({"commands": rows, "exit_codes": codes})
        return
    shown = [{"command": row["name"], "help": row["help"].splitlines()[0]} for row in rows]
    show_rows(invocation, ("command", "help"), shown, "")


def described(command: click.Command, path: tuple[str, ...] = ("onto",)) -> Iterator[dict[str, Any]]:
    """A command and all below it, as data."""
    yield {
        "name": " ".join(path),
        "help": (command.help or "").replace("\b\n", "").strip(),
        "arguments": [_argument(one) for one in command.params if isinstance(one, click.Argument)],
        "options": [_option(one) for one in command.params if isinstance(one, click.Option) and not one.hidden],
    }
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path[-1])
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None:
                yield from described(child, (*path, name))


def _argument(argument: click.Argument) -> dict[str, Any]:
    return {
        "name": argument.make_metavar(click.Context(click.Command("onto"))),
        "required": argument.required,
        "several": argument.nargs == -1,
    }


def _option(option: click.Option) -> dict[str, Any]:
    choices = list(option.type.choices) if isinstance(option.type, click.Choice) else None
    return {
        "names": [*option.opts, *option.secondary_opts],
        "values": 0 if option.is_flag else option.nargs,
        "repeatable": option.multiple,
        "required": option.required,
        "choices": choices,
        "help": option.help,
    }


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  onto completion bash >> ~/.bashrc
    zsh:   onto completion zsh  >> ~/.zshrc
    fish:  onto completion fish > ~/.config/fish/completions/onto.fish
    """  # noqa: D301 - \b keeps click from reflowing the paragraph
    from click.shell_completion import ShellComplete, get_completion_class

    completer = cast("type[ShellComplete]", get_completion_class(shell))
    click.echo(completer(context.find_root().command, {}, "onto", "_ONTO_COMPLETE").source())
