"""`demo`: runs the loan example and shows, step by step, the code that ran and what came of it.

What is shown is the source of the step itself, so that it cannot differ from what ran.
"""

from __future__ import annotations

import ast
import inspect
import shlex
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import click

from ontologia.cli.invocation import Invocation, pass_invocation
from ontologia.cli.structure import Command
from ontologia.errors import RefusedError

_FILE = "loans.db"
_UPGRADERS = "ontologia.cli.demo.revised"
"""Where the old rows of the example learn to be new ones."""
Step = Callable[[Any], Any]


@click.command(cls=Command)
@click.option("--dir", "folder", metavar="DIR", help=f"Keep the store in DIR/{_FILE}; else it is gone at the end.")
@pass_invocation
def demo(invocation: Invocation, folder: str | None) -> None:
    """Tell the loan example, step by step.

    Three agents assess loan applications and disagree; the store answers who said what, what was known when, and
    lives through a change of types. Each step shows the Python that runs.
    """
    started = time.perf_counter()
    with ExitStack() as stack:
        place = Path(folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="ontologia-demo-")))
        place.mkdir(parents=True, exist_ok=True)
        path = place / _FILE
        if path.exists():
            raise RefusedError(f"{path} is there already.", hint="Name another directory with --dir, or remove it.")
        told = list(_told(invocation, path))
    if invocation.as_json:
        invocation.emit_json(told)
        return
    click.echo(f"{len(told)} steps, {time.perf_counter() - started:.1f} s.")
    if folder is None:
        invocation.note("Run `onto demo --dir loans` to keep the store and look around in it.")
    else:
        invocation.note("Look around:")
        old_rows = f"--upgraders {_UPGRADERS}"
        for words in ("info", f"query entities Loan --history {old_rows}", f"blame Loan 12345 {old_rows}"):
            invocation.note(f"  onto --db {shlex.quote(str(path))} {words}")


def _told(invocation: Invocation, path: Path) -> Iterator[dict[str, Any]]:
    """Every step, run and shown."""
    from ontologia.cli.demo import loans, revised, story
    from ontologia.ontology import Ontology

    show = _Screen() if invocation.format == "text" else None
    number = 0
    chapters: tuple[tuple[Any, tuple[Any, ...], dict[str, Any], tuple[Step, ...]], ...] = (
        (loans, (loans.Loan, loans.Assessment), story.TYPES, story.FIRST),
        (revised, (revised.Loan, revised.exact_amounts), story.REVISED_TYPES, story.REVISED),
    )
    for module, declared, types, steps in chapters:
        if show is not None:
            show.declarations(module, declared)
        with Ontology(path, **types) as onto:
            for step in steps:
                number += 1
                title, code = inspect.getdoc(step) or "", body_of(step)
                if show is not None:
                    show.step(number, title, code)
                result = _lines(step(onto))
                if show is not None:
                    show.result(result)
                yield {"step": number, "title": title, "code": code, "result": result}


def body_of(function: Callable[..., Any]) -> str:
    """The statements of a function, as they stand in its file, without its docstring."""
    source = textwrap.dedent(inspect.getsource(function))
    parsed = ast.parse(source).body[0]
    assert isinstance(parsed, ast.FunctionDef)  # noqa: S101 - steps are functions
    first = parsed.body[1].lineno
    return textwrap.dedent("\n".join(source.splitlines()[first - 1 :]))


def _lines(result: Any) -> list[str]:
    """What a step returned, as lines."""
    if isinstance(result, list):
        return [_line(item) for item in cast("list[Any]", result)] or ["nothing: []"]
    if isinstance(result, dict):
        return [f"{name}: {value}" for name, value in cast("dict[str, Any]", result).items()]
    return str(result).splitlines()


def _line(item: Any) -> str:
    from ontologia.store.commits import Commit, DiffItem

    if isinstance(item, DiffItem):
        before, after = item.before.model_dump(), item.after.model_dump()
        changed = [f"{name}: {before[name]} became {after[name]}" for name in after if before[name] != after[name]]
        return f"{item.key}  {', '.join(changed)}"
    if isinstance(item, Commit):
        rows = ", ".join(f"{name} {number:,}" for name, number in item.counts.items())
        return f"{item.commit_id}  {item.commit_sha256[:8]}  {rows}  {item.metadata}"
    return item if isinstance(item, str) else repr(item)


class _Screen:
    """The terminal, or plain text where there is none."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(highlight=False)

    def declarations(self, module: Any, declared: tuple[Any, ...]) -> None:
        sources = [inspect.getsource(one).rstrip() for one in declared]
        name = Path(module.__file__).name
        self._heading(f"{name}: some of what the program declares")
        self._code("\n\n".join(sources))

    def step(self, number: int, title: str, code: str) -> None:
        self._heading(f"{number}. {title}")
        self._code(code)

    def result(self, lines: list[str]) -> None:
        from rich.table import Table
        from rich.text import Text

        shown = Table.grid(padding=(0, 1))
        for line in lines:
            shown.add_row(Text("  →", style="green"), Text(line, style="green"))
        self._console.print(shown)

    def _heading(self, text: str) -> None:
        from rich.text import Text

        self._console.print()
        self._console.print(Text(text, style="bold"))

    def _code(self, code: str) -> None:
        if not self._console.is_terminal:
            click.echo(textwrap.indent(code, "  "))
            return
        from rich.syntax import Syntax

        margin = (0, 0, 0, 2)
        self._console.print(
            Syntax(code, "python", theme="ansi_dark", background_color="default", padding=margin, word_wrap=True)
        )
