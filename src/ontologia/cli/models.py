"""Where the command line gets its classes from: the user's modules, or the schema that the store keeps.

Without `--models` every stored type still has a working class, made from its stored spec. Mistakes in the user's own
modules are shown as theirs, with the line, not as failures of Ontologia.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ontologia.errors import ConfigError, UnknownTypeError
from ontologia.model.declare import Entity, Relation
from ontologia.model.dynamic import class_from_spec
from ontologia.model.spec import TypeSpec
from ontologia.model.upgrade import Upgrade, Upgraders, load_upgraders
from ontologia.store.transfer.schema import read_schema

if TYPE_CHECKING:
    from ontologia.ontology import Ontology

Class = type[Any]


def load_models(sources: Sequence[str]) -> dict[str, Class]:
    """The entity and relation classes of modules, Python files and exported schemas, by type name."""
    found: dict[str, Class] = {}
    for source in sources:
        if source.endswith(".json"):
            classes = list(classes_from(read_schema(Path(source))).values())
        else:
            classes = _classes_of(load_module(source))
        if not classes:
            raise ConfigError(
                f"{source} declares no entity and no relation.", hint="Name the module with your classes."
            )
        for cls in classes:
            name = cls.__spec__.name
            if name in found and found[name] is not cls:
                raise ConfigError(f"Two classes are called {name!r}.", hint="Give --models that declare it once.")
            found[name] = cls
    return found


def load_module(source: str) -> ModuleType:
    """A module by its dotted name, found from the working directory too, or by the path of its file."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return _from_file(Path(source)) if source.endswith(".py") else import_module(source)
    except ConfigError:
        raise
    except ModuleNotFoundError as error:
        hint = "Run from the directory that has it, or give the path of the file."
        raise ConfigError(f"{source} cannot be imported: {error}.", hint=hint) from error
    except Exception as error:  # the user's module may fail in any way
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{frame.filename}, line {frame.lineno}"
        text = f"{source} cannot be imported: {type(error).__name__}: {error} ({place})."
        raise ConfigError(text, hint="Fix the module; the error is its own.") from error


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"There is no file {path}.", hint="Check the path given to the option.")
    name = path.stem
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} cannot be imported.", hint="Give a Python file.")
    module = module_from_spec(spec)
    sys.modules[name] = module
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec.loader.exec_module(module)
    return module


def _classes_of(module: ModuleType) -> list[Class]:
    found: dict[Class, None] = dict.fromkeys(item for item in vars(module).values() if isinstance(item, type))
    return [cls for cls in found if _declared(cls) and issubclass(cls, Entity | Relation)]


def _declared(cls: Class) -> bool:
    """Whether a class can have objects: neither abstract, nor Entity or Relation itself."""
    return getattr(cls, "__declaration__", None) is not None


def classes_from(specs: Iterable[TypeSpec], declared: Mapping[str, Class] | None = None) -> dict[str, Class]:
    """Classes for specs, entities first because relations need them; declared ones stand for themselves."""
    found = dict(declared or {})
    for spec in sorted(specs, key=lambda spec: spec.kind):
        if spec.name not in found:
            entities = {name: cls for name, cls in found.items() if issubclass(cls, Entity)}
            found[spec.name] = class_from_spec(spec, entities)
    return found


def known_classes(store: Ontology, models: Sequence[str] = ()) -> dict[str, Class]:
    """Every class that can be asked about: those of the models, then those of the store."""
    return classes_from((stored.spec for stored in store.stored_types()), load_models(models))


_ARTICLED = {"entity": "an entity", "relation": "a relation"}


def named_class(classes: Mapping[str, Class], name: str, kind: str | None = None) -> Class:
    """A class by type name, or an error that lists the known ones."""
    found = classes.get(name)
    if found is not None and kind in (None, found.__spec__.kind):
        return found
    known = sorted(one for one, cls in classes.items() if kind in (None, cls.__spec__.kind))
    text = f"There is no type {name!r}."
    if found is not None and kind is not None:
        text = f"{name!r} is {_ARTICLED[found.__spec__.kind]}, not {_ARTICLED[kind]}."
    listed = f"Known {kind or 'entity and relation'} types: {', '.join(known) or 'none yet'}."
    raise UnknownTypeError(text, hint=listed, type_name=name)


def load_all_upgraders(sources: Sequence[str]) -> Upgraders:
    """The upgraders of several modules together."""
    steps: dict[tuple[str, int], Upgrade] = {}
    for source in sources:
        for step, function in load_upgraders(load_module(source)).steps.items():
            if steps.setdefault(step, function) is not function:
                raise ConfigError(f"There are two upgraders for {step[0]} from version {step[1]}.", hint="Keep one.")
    return Upgraders(steps)
