"""The reference pages say what the code says: every error, every setting, every command."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from ontologia import errors
from ontologia.config import OntologiaConfig

DOCS = Path(__file__).resolve().parents[2] / "docs"
ERRORS = [cls for cls in vars(errors).values() if inspect.isclass(cls) and issubclass(cls, errors.OntologiaError)]


def builder() -> ModuleType:
    """The script that writes the pages."""
    spec = spec_from_file_location("build_reference", DOCS / "build_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def page(name: str) -> str:
    """A reference page as it is kept."""
    return (DOCS / "reference" / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["errors.md", "settings.md", "cli.md"])
def test_a_reference_page_is_what_make_docs_would_write(name: str) -> None:
    builders: dict[str, Callable[[], str]] = builder().BUILDERS
    assert page(name) == builders[name](), "run `make docs`"


def test_every_error_is_documented_with_its_kind() -> None:
    rows = page("errors.md")
    classes = [cls for cls in ERRORS if cls is not errors.OntologiaError]
    assert not [cls.__name__ for cls in classes if f"| `{cls.__name__}` | `{cls.kind}` |" not in rows]


def test_every_error_says_when_it_is_raised() -> None:
    assert not [cls.__name__ for cls in ERRORS if not cls.__doc__]


def test_every_setting_is_documented_and_says_what_it_means() -> None:
    text = page("settings.md")
    fields = OntologiaConfig.model_fields
    assert not [name for name in fields if f"`{name}`" not in text or f"`ONTOLOGIA_{name.upper()}`" not in text]
    assert not [name for name, field in fields.items() if not field.description]


def test_every_command_is_documented_and_says_what_it_does() -> None:
    module = builder()
    text = page("cli.md")
    commands = list(module.commands(module.root()))
    assert len(commands) > 1
    assert not [name for name, _ in commands if f"## {name}\n" not in text]
    assert not [name for name, command in commands if not command.help]
    undescribed = [
        f"{name} {option.opts[0]}"
        for name, command in commands
        for option in command.params
        if option.param_type_name == "option" and not (option.help or option.hidden)
    ]
    assert not undescribed
