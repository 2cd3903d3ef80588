"""Who imports whom, beyond the contracts of import-linter (they are in pyproject.toml, run by `make contracts`)."""

from __future__ import annotations

import re
import sys
from collections import defaultdict

from architecture.source_tree import PACKAGE, modules, project, runtime_imports

SHARED: dict[str, tuple[set[str], str]] = {
    "pydantic": ({"model", "config", "store", "testing"}, "validates at every border where users hand something in"),
    "pyarrow": ({"model", "ontology", "query", "store", "cli", "testing"}, "the form in which rows travel"),
    "duckdb": ({"query", "store", "testing"}, "one SQL dialect to compile for, one engine to compare with"),
}
"""Third-party packages that more than one package of ours may import, with the reason."""

PARTS = {"pydantic_core": "pydantic"}
"""Packages that are a part of another one."""


def third_parties() -> dict[str, set[str]]:
    """For each third-party package imported at run time, the parts of our tree that import it."""
    users: dict[str, set[str]] = defaultdict(set)
    for module in modules():
        for name in runtime_imports(module.tree):
            top = name.partition(".")[0]
            if top not in sys.stdlib_module_names and top not in {"ontologia", ""}:
                users[PARTS.get(top, top)].add(module.step)
    return users


def parts() -> set[str]:
    """The modules and packages directly under ours."""
    found = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    return found - {"__init__"}


def test_a_third_party_package_is_imported_in_one_package_of_ours() -> None:
    strays = {
        package: sorted(users)
        for package, users in third_parties().items()
        if (len(users) > 1 if package not in SHARED else not users <= SHARED[package][0])
    }
    assert not strays


def test_every_imported_package_is_declared() -> None:
    declared = project()["project"]
    requirements = [
        *declared["dependencies"],
        *(requirement for extra in declared["optional-dependencies"].values() for requirement in extra),
    ]
    names = {re.split(r"[\[<>=!~; ]", requirement)[0].lower() for requirement in requirements}
    assert third_parties().keys() <= {name.replace("-", "_") for name in names}


def test_the_package_does_not_import_through_its_own_front_door() -> None:
    # `from ontologia import Entity` inside the package would hide the direction of an import from the contracts.
    strays = [
        f"{module.name}: {name}"
        for module in modules()
        if module.step not in {"cli", "testing"}
        for name in runtime_imports(module.tree)
        if name == "ontologia" or (name.startswith("ontologia.") and name.split(".")[1] not in parts())
    ]
    assert not strays


def test_the_contract_knows_every_part_of_the_tree() -> None:
    layers = next(c for c in project()["tool"]["importlinter"]["contracts"] if c["id"] == "direction")["layers"]
    listed = {part.strip(" ()") for layer in layers for part in layer.split("|")}
    assert parts() - {"__main__"} <= listed
