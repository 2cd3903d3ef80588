"""The public names: what `from ontologia import …` gives, no more and no less."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib.metadata import entry_points, version

import ontologia
from ontologia import errors

NAMES = {
    *("Entity", "Relation", "Field"),
    *("Ontology", "OntologiaConfig"),
    *("left", "right"),
    *("count", "sum", "avg", "min", "max", "count_distinct", "count_where", "avg_len"),
    *("upgrader", "load_upgraders"),
}

RELEASED_KINDS = {
    *("error", "input", "config", "query", "row", "unknown-type", "not-found", "batch-size", "dangling-endpoint"),
    *("import-conflict", "refused", "retry", "lock-contention", "lease-expired", "head-mismatch"),
    *("commit-state-unknown", "schema", "schema-outdated", "schema-boundary", "migration", "migration-token"),
    *("missing-upgrader", "storage", "storage-backend", "uninitialized", "format-version", "metadata-unavailable"),
    *("integrity", "handler", "event-loop-limit"),
}
"""Codes that programs may rely on: this set only grows."""


def error_names() -> set[str]:
    """Every error class of the tree."""
    return {
        name for name, cls in vars(errors).items() if inspect.isclass(cls) and issubclass(cls, errors.OntologiaError)
    }


def test_the_public_names_are_the_documented_ones() -> None:
    assert set(ontologia.__all__) == NAMES | error_names()
    assert len(ontologia.__all__) == len(set(ontologia.__all__))


def test_every_public_name_is_there_and_listed_by_dir() -> None:
    assert all(getattr(ontologia, name) is not None for name in ontologia.__all__)
    assert set(ontologia.__all__) <= set(dir(ontologia))


def test_an_unknown_name_is_an_attribute_error() -> None:
    program = "import ontologia\ntry:\n    ontologia.Entitty\nexcept AttributeError as error:\n    print(error)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert "Entitty" in result.stdout


def test_every_error_has_its_own_kind() -> None:
    classes = [getattr(errors, name) for name in error_names()]
    assert all("kind" in vars(cls) for cls in classes)
    assert len({cls.kind for cls in classes}) == len(classes)


def test_a_kind_once_released_stays() -> None:
    assert {getattr(errors, name).kind for name in error_names()} >= RELEASED_KINDS


def test_both_commands_start_the_same_program() -> None:
    scripts = {script.name: script.value for script in entry_points(group="console_scripts") if script.dist is not None}
    assert scripts["onto"] == scripts["ontologia"] == "ontologia.cli:main"
    assert version("ontologia")
