"""Bringing the values of an old row to today's type, one version at a time.

An upgrader is a function from a dict to a dict, written for one type and one version. It sees plain values: what the
store holds, with JSON fields parsed, and for relations the keys of both ends. Adding fields with defaults needs none.
"""

from __future__ import annotations

import base64
import copy
import importlib
import json
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from types import MappingProxyType, ModuleType
from typing import Any, TypeVar, cast

from ontologia.errors import ConfigError, MigrationError, MissingUpgraderError
from ontologia.model.diff import diff_specs
from ontologia.model.jsonform import VALUE
from ontologia.model.spec import FieldSpec, Kind, TypeSpec

Upgrade = Callable[[dict[str, Any]], dict[str, Any]]
F = TypeVar("F", bound=Callable[..., Any])
_MARK = "__upgrades__"


def upgrader(type_name: str, *, from_version: int) -> Callable[[F], F]:
    """Mark a function as what brings rows of a type from one version to the next."""
    if not isinstance(cast("object", type_name), str) or not type_name:
        raise TypeError(f"upgrader() takes the name of a type, not {type_name!r}.")
    if not isinstance(cast("object", from_version), int) or from_version < 1:
        raise TypeError(f"upgrader({type_name!r}): from_version is a number from 1, not {from_version!r}.")

    def mark(function: F) -> F:
        steps: tuple[tuple[str, int], ...] = getattr(function, _MARK, ())
        setattr(function, _MARK, (*steps, (type_name, from_version)))
        return function

    return mark


def _no_steps() -> Mapping[tuple[str, int], Upgrade]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Upgraders:
    """An immutable collection of upgraders by type and version."""

    steps: Mapping[tuple[str, int], Upgrade] = field(default_factory=_no_steps)

    @classmethod
    def of(cls, functions: Iterable[Callable[..., Any]]) -> Upgraders:
        """The upgraders among marked functions; two for one step are an error."""
        steps: dict[tuple[str, int], Upgrade] = {}
        for function in functions:
            marks: tuple[tuple[str, int], ...] = getattr(function, _MARK, ())
            if not marks:
                raise ConfigError(
                    f"{function!r} is not an upgrader.", hint="Mark it with @upgrader(type, from_version=…)."
                )
            for step in marks:
                if steps.setdefault(step, function) is not function:
                    raise ConfigError(
                        f"There are two upgraders for {step[0]} from version {step[1]}.", hint="Keep one."
                    )
        return cls(MappingProxyType(steps))

    def get(self, type_name: str, from_version: int) -> Upgrade | None:
        """The upgrader of one step, if there is one."""
        return self.steps.get((type_name, from_version))

    def chain(self, type_name: str, from_version: int, to_version: int) -> tuple[Upgrade | None, ...]:
        """The upgraders of all steps between two versions, None where there is none."""
        return tuple(self.get(type_name, version) for version in range(from_version, to_version))

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(sorted(self.steps))


def load_upgraders(source: str | ModuleType | Iterable[Callable[..., Any]] | Upgraders) -> Upgraders:
    """The upgraders of a module (by name or itself, with its submodules), or of an iterable of functions."""
    if isinstance(source, Upgraders):
        return source
    if not isinstance(source, str | ModuleType):
        return Upgraders.of(source)
    module = _module(source) if isinstance(source, str) else source
    found: list[Callable[..., Any]] = []
    for part in _with_submodules(module):
        found.extend(value for value in vars(part).values() if callable(value) and hasattr(value, _MARK))
    if not found:
        raise ConfigError(
            f"The module {module.__name__} has no upgraders.",
            hint="Mark functions with @upgrader(type, from_version=…).",
        )
    return Upgraders.of(found)


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(f"Cannot import upgraders from {name!r}: {error}.") from error


def _with_submodules(module: ModuleType) -> Iterator[ModuleType]:
    yield module
    for info in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{module.__name__}."):
        yield from _with_submodules(_module(info.name))


def plain_values(spec: TypeSpec, values: Mapping[str, Any]) -> dict[str, Any]:
    """Stored values as upgraders see them: JSON fields parsed."""
    kinds = {f.name: f.kind for f in spec.fields}
    return {
        name: json.loads(value) if value is not None and kinds.get(name) is Kind.JSON else value
        for name, value in values.items()
    }


def plain_default(spec: FieldSpec) -> Any:
    """The static default of a field as a plain value."""
    value = spec.default
    if value is None or spec.kind in {Kind.TEXT, Kind.INT, Kind.BOOL}:
        return value
    match spec.kind:
        case Kind.JSON:
            # An upgrader may change what it is given; the next row, and the spec, have their own.
            return copy.deepcopy(value)
        case Kind.FLOAT:
            return float(cast("dict[str, str]", value)[VALUE] if isinstance(value, dict) else value)
        case Kind.DECIMAL:
            return Decimal(value)
        case Kind.DATETIME:
            return datetime.fromisoformat(value)
        case Kind.DATE:
            return date.fromisoformat(value)
        case Kind.TIME:
            return time.fromisoformat(value)
        case _:
            return base64.b64decode(value)


def upgrade_row(
    versions: Sequence[TypeSpec],
    upgraders: Upgraders,
    from_version: int,
    values: Mapping[str, Any],
    identity: Sequence[str] = (),
) -> dict[str, Any]:
    """The plain values that stored values of an old version become in the latest one.

    `versions` are all versions of the type, the first one being version 1. A field whose default is made by a factory
    is left out, for the class to fill in. MissingUpgraderError says which step cannot be made.
    """
    row = plain_values(versions[from_version - 1], values)
    if versions[-1].kind == "relation":
        row |= dict(zip(("left_key", "right_key"), identity, strict=False))
    for version in range(from_version, len(versions)):
        old, new = versions[version - 1], versions[version]
        step = upgraders.get(new.name, version)
        row = _defaulted(old, new, version, row) if step is None else _upgraded(step, new, version, row)
    return row


def _upgraded(step: Upgrade, new: TypeSpec, version: int, row: dict[str, Any]) -> dict[str, Any]:
    raised = cast("object", step(row))
    if not isinstance(raised, dict):
        raise MigrationError(
            f"The upgrader of {new.name} from version {version} returned {type(raised).__name__}, not a dict.",
            hint="Return the new values by field name.",
            type_name=new.name,
            from_version=version,
        )
    return cast("dict[str, Any]", raised)


def _defaulted(old: TypeSpec, new: TypeSpec, version: int, row: dict[str, Any]) -> dict[str, Any]:
    diff = diff_specs(old, new)
    fields = [change.field for change in diff.changes if change.needs_upgrader]
    if fields:
        raise MissingUpgraderError(
            f"{new.name} changed from version {version} to {version + 1} in a way that needs an upgrader "
            f"({'; '.join(str(change) for change in diff.changes)}).",
            hint=f"Write a function with @upgrader({new.name!r}, from_version={version}).",
            type_name=new.name,
            from_version=version,
            to_version=version + 1,
            fields=fields,
        )
    added = {c.field: new.by_name[c.field] for c in diff.changes if c.change == "added"}
    return row | {name: plain_default(spec) for name, spec in added.items() if not spec.factory}
