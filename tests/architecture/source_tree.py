"""The source tree as the architecture tests see it: files, their parsed text and what they import.

Nothing here imports the code it describes, so a module that cannot be imported is still measured.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "ontologia"


@dataclass(frozen=True, slots=True)
class Module:
    """One source file."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        """The path from the package on, such as `store/session.py`."""
        return self.path.relative_to(PACKAGE).as_posix()

    @property
    def step(self) -> str:
        """The part of the tree it belongs to: `store` for `store/session.py`, `config` for `config.py`."""
        return self.path.relative_to(PACKAGE).parts[0].removesuffix(".py")

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())


@cache
def modules() -> tuple[Module, ...]:
    """Every module of the package."""
    found: list[Module] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        found.append(Module(path, text, ast.parse(text, filename=str(path))))
    return tuple(found)


@cache
def project() -> dict[str, Any]:
    """The content of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def runtime_imports(tree: ast.AST) -> Iterator[str]:
    """What a module imports anywhere, function bodies included, type-checking blocks left out.

    `from a.b import c` gives `a.b.c`, whether `c` is a module or not.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                yield from _imported(other)
        else:
            yield from _imported(node)


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (f"{node.module or ''}.{alias.name}" for alias in node.names)
    else:
        yield from runtime_imports(node)
