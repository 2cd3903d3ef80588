"""`typings/pyarrow` declares nothing that pyarrow does not have."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from architecture.source_tree import ROOT

STUBS = sorted((ROOT / "typings" / "pyarrow").glob("*.pyi"))
OWN_NAMES = {"__getattr__", "_Tabular"}
"""Names that a stub needs and the library does not have."""


def declared(tree: ast.Module) -> Iterator[tuple[str, ...]]:
    """Functions, classes and members that a stub names."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield (node.name,)
        elif isinstance(node, ast.ClassDef):
            owners = ("Table", "RecordBatch") if node.name == "_Tabular" else (node.name,)
            for owner in owners:
                yield (owner,)
                yield from ((owner, member.name) for member in node.body if isinstance(member, ast.FunctionDef))


@pytest.mark.parametrize("stub", STUBS, ids=lambda stub: stub.stem)
def test_every_declared_name_exists(stub: Path) -> None:
    module = importlib.import_module("pyarrow" if stub.stem == "__init__" else f"pyarrow.{stub.stem}")
    missing: list[str] = []
    for names in declared(ast.parse(stub.read_text(encoding="utf-8"))):
        value: object = module
        for name in names:
            if name in OWN_NAMES:
                break
            if not hasattr(value, name):
                missing.append(".".join(names))
                break
            value = getattr(value, name)
    assert not missing
