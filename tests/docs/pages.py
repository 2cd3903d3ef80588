"""Runs the code blocks of a Markdown page, in order, in one directory, the way a reader would.

- A `python` block runs in the page's namespace; one written with `>>>` is checked like a doctest.
- A `console` block runs its `$ ` lines in a shell and compares what they print with the lines below, if there are any.
- Any block with `title="name"` is a file: it is written, and a Python file is imported once.

In expected output `...` stands for any text, and on a line of its own for any lines. A command must succeed unless its
line ends by asking for the exit code (`; echo $?`). A page that opens with `<!-- not executed: reason -->` is left out.
Settings of the developer's own are kept from commands, except where object storage is: a page about it runs against the
server of the tests.
"""

from __future__ import annotations

import doctest
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w+)?(?P<info>[^`]*)$")
_TITLE = re.compile(r'title="([^"]+)"')
_NOT_EXECUTED = re.compile(r"\A\s*<!--\s*not executed:\s*(\S.*?)\s*-->", re.DOTALL)
_ANY_LINES = "\0"


class PageError(AssertionError):
    """A block that does not do what its page says."""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block; `line` is that of its first line of content."""

    language: str
    title: str | None
    line: int
    text: str


def not_executed(page: str) -> str | None:
    """Why a page asks to be left out, or None."""
    match = _NOT_EXECUTED.match(page)
    return match[1] if match else None


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page."""
    lines = page.splitlines()
    position = 0
    while position < len(lines):
        fence = _FENCE.match(lines[position])
        position += 1
        if fence is None:
            continue
        first, indent = position, len(fence["indent"])
        while position < len(lines) and lines[position].strip() != "```":
            position += 1
        if position == len(lines):
            raise PageError(f"line {first}: the block is never closed")
        title = _TITLE.search(fence["info"])
        content = "".join(f"{line[indent:]}\n" for line in lines[first:position])
        yield Block(fence["language"] or "", title[1] if title else None, first + 1, content)
        position += 1


def run_page(path: Path, directory: Path) -> int:
    """Run a page's blocks in a directory; returns how many ran."""
    done = 0
    with _page_module(path, directory) as module:
        for block in blocks(path.read_text(encoding="utf-8")):
            where = f"{path.name}, line {block.line}"
            if block.title is not None:
                _write_file(block, directory)
            elif block.language == "python":
                _run_python(block, path, module)
            elif block.language == "console":
                run_console(block, directory, where)
            else:
                continue
            done += 1
    return done


@contextmanager
def _page_module(path: Path, directory: Path) -> Generator[ModuleType]:
    """A module for the page's namespace; whatever the page imported from its directory is forgotten afterwards."""
    module = ModuleType(f"page_{re.sub(r'[^0-9a-zA-Z]', '_', path.stem)}")
    before, here = set(sys.modules), Path.cwd()
    sys.modules[module.__name__] = module
    sys.path.insert(0, str(directory))
    importlib.invalidate_caches()
    os.chdir(directory)
    try:
        yield module
    finally:
        os.chdir(here)
        sys.path.remove(str(directory))
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", None)).startswith(str(directory)) or name == module.__name__:
                del sys.modules[name]


def _write_file(block: Block, directory: Path) -> None:
    target = directory / str(block.title)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(block.text, encoding="utf-8")
    if target.suffix == ".py":
        importlib.invalidate_caches()
        importlib.import_module(".".join(target.relative_to(directory).with_suffix("").parts))


def _run_python(block: Block, path: Path, module: ModuleType) -> None:
    if block.text.lstrip().startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(block.text, vars(module), path.name, str(path), block.line - 1)
        report: list[str] = []
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        # Examples share the page's names with the blocks that follow.
        if runner.run(test, out=report.append, clear_globs=False).failed:
            raise PageError("".join(report))
        vars(module).update(test.globs)
        return
    # Blank lines in front keep the page's line numbers in tracebacks.
    code = compile("\n" * (block.line - 1) + block.text, str(path), "exec", dont_inherit=True)
    exec(code, vars(module))  # noqa: S102 - the page is ours


def run_console(block: Block, directory: Path, where: str) -> None:
    """Run each `$ ` line of a block and compare what it prints with the lines under it."""
    for command, expected in _commands(block.text):
        printed, code = _shell(command, directory)
        if code != 0:
            raise PageError(f"{where}: `{command}` ended with exit code {code}:\n{printed}")
        if expected and not matches(expected, printed):
            raise PageError(f"{where}: `{command}` printed\n{printed}\nand the page says\n{expected}")


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """Commands of a console block, each with the output shown for it."""
    command: str | None = None
    expected: list[str] = []
    for line in text.splitlines():
        if command is not None and command.endswith("\\"):
            command = command[:-1] + line.removeprefix("> ")
        elif line.startswith("$ "):
            if command is not None:
                yield command, "\n".join(expected)
            command, expected = line[2:], []
        elif command is None:
            raise PageError(f"a console block starts with a `$ ` line, not with {line!r}")
        else:
            expected.append(line)
    if command is not None:
        yield command, "\n".join(expected)


def _shell(command: str, directory: Path) -> tuple[str, int]:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("ONTOLOGIA_") or name.startswith("ONTOLOGIA_S3_")
    }
    environment |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environment.get('PATH', '')}",
        "COLUMNS": "80",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }
    result = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],  # noqa: S607 - the reader's shell
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return result.stdout, result.returncode


def matches(expected: str, printed: str) -> bool:
    """Whether printed text is what a page shows, trailing space aside."""
    wanted = [_ANY_LINES if line.strip() == "..." else line.rstrip() for line in expected.strip("\n").splitlines()]
    pattern = "".join(
        r"(?:.*\n)*?" if line == _ANY_LINES else ".*?".join(map(re.escape, line.split("..."))) + r"\n"
        for line in wanted
    )
    actual = "".join(f"{line.rstrip()}\n" for line in printed.strip("\n").splitlines())
    return re.fullmatch(pattern, actual) is not None
