"""Code stays small enough to read: modules, functions, and a first paragraph that says what each module is for."""

from __future__ import annotations

import ast
import re

import pytest
from architecture.source_tree import Module, modules

MODULE_LINES = 400
FUNCTION_LINES = 80

LONG_MODULES: dict[str, str] = {}
"""Modules that may be longer, each with the reason why splitting it would make it harder to read."""

LONG_FUNCTIONS: dict[str, str] = {}
"""Functions that may be longer, as `module:name`, each with its reason."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(module: Module) -> list[tuple[str, int]]:
    """Each function of a module, as `module:name`, with its length in lines."""
    return [
        (f"{module.name}:{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in ast.walk(module.tree)
        if isinstance(node, Function)
    ]


def test_modules_stay_under_400_lines() -> None:
    long = {module.name: module.lines for module in modules() if module.lines > MODULE_LINES}
    assert long.keys() == LONG_MODULES.keys(), f"split by subject, or drop a reason that is no longer needed: {long}"


def test_functions_fit_a_screen() -> None:
    long = {name: size for module in modules() for name, size in functions(module) if size > FUNCTION_LINES}
    assert long.keys() == LONG_FUNCTIONS.keys(), f"split, or drop a reason that is no longer needed: {long}"


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.name)
def test_a_module_opens_by_saying_what_it_is_for(module: Module) -> None:
    docstring = ast.get_docstring(module.tree) or ""
    sentences = len(re.findall(r"[.!?](?=\s|$)", docstring))
    wanted = 1 if module.path.name in {"__init__.py", "__main__.py"} else 2
    assert sentences >= wanted, f"{module.name} opens with {sentences} sentences"


def test_nothing_is_left_unfinished() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|raise NotImplementedError")
    found = [
        f"{module.name}:{number}: {line.strip()}"
        for module in modules()
        for number, line in enumerate(module.text.splitlines(), start=1)
        if marks.search(line)
    ]
    assert not found


def test_no_file_switches_a_checker_off() -> None:
    switch = re.compile(r"^\s*#\s*(pyright:(?!\s*ignore\[)|ruff:|type:\s*ignore\s*$|mypy:|flake8:)")
    found = [
        f"{module.name}:{number}: {line.strip()}"
        for module in modules()
        for number, line in enumerate(module.text.splitlines(), start=1)
        if switch.search(line)
    ]
    assert not found


def test_names_are_nouns_of_the_domain() -> None:
    vague = re.compile(r"(Manager|Helper|Utils?|Impl|V\d+)$")
    classes = [
        f"{module.name}: {node.name}"
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef) and vague.search(node.name)
    ]
    files = [
        module.name for module in modules() if re.search(r"(^|[/_])(helpers?|utils?|misc|common)\.py$", module.name)
    ]
    assert not classes + files
