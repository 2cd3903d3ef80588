"""What a class body says: its `Field[...]` annotations, resolved, with their defaults.

Annotations may be text (`from __future__ import annotations`), and may name types that only exist inside the function
that declares the class; both are resolved here. Whether the fields make sense together is decided in `declaration`.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType, GenericAlias
from typing import Any, ClassVar, get_args, get_origin

from ontologia.model.fields import MISSING, Field


@dataclass(frozen=True, slots=True)
class RawField:
    """A field as written: the annotation inside `Field[...]`, and its options."""

    name: str
    annotation: Any
    field: Field[Any]
    where: str
    """`Class.field`, for messages."""


def raw_fields(cls: type[Any], *, strict: bool) -> dict[str, RawField]:
    """The fields that a class body itself declares. `strict` refuses other annotations; a mixin may have them."""
    found: dict[str, RawField] = {}
    for name, annotation in _hints(cls, strict=strict).items():
        where = f"{cls.__name__}.{name}"
        origin = get_origin(annotation)
        if annotation is ClassVar or origin is ClassVar:
            continue
        if origin is not Field:
            if not strict:
                continue
            if annotation is Field:
                raise TypeError(f"{where}: say what the field holds, for example Field[str].")
            shown = annotation.__name__ if isinstance(annotation, type) else annotation
            raise TypeError(f"{where}: write Field[{shown}] to declare a field, or ClassVar[{shown}] for a constant.")
        found[name] = RawField(name, get_args(annotation)[0], _field_of(cls, name), where)
    if strict:
        _refuse_unannotated(cls, found)
    return found


def _field_of(cls: type[Any], name: str) -> Field[Any]:
    value = cls.__dict__.get(name, MISSING)
    if isinstance(value, Field):
        return typing.cast("Field[Any]", value)
    if value is MISSING:
        return Field()
    return Field(default=value)


def _refuse_unannotated(cls: type[Any], found: dict[str, RawField]) -> None:
    for name, value in cls.__dict__.items():
        if isinstance(value, Field) and name not in found:
            raise TypeError(f"{cls.__name__}.{name}: a field needs an annotation, for example {name}: Field[str] = ...")


def _hints(cls: type[Any], *, strict: bool) -> dict[str, Any]:
    written = inspect.get_annotations(cls)
    if not written:
        return {}
    namespace = Namespace(cls)
    hints: dict[str, Any] = {}
    for name, annotation in written.items():
        try:
            hints[name] = namespace.resolve(annotation)
        except (NameError, AttributeError, SyntaxError) as error:
            if strict:
                raise TypeError(
                    f"{cls.__name__}.{name}: cannot resolve the annotation {annotation!r}: {error}."
                ) from error
    return hints


class Namespace:
    """Where the names in a class body's annotations are looked up."""

    def __init__(self, cls: type[Any]) -> None:
        self.cls = cls
        self._names: Mapping[str, Any] | None = None

    @property
    def names(self) -> Mapping[str, Any]:
        if self._names is None:
            module = sys.modules.get(self.cls.__module__)
            # The class body comes last: a field may be called like the type it holds (`date: Field[date]`).
            self._names = ChainMap(
                {self.cls.__name__: self.cls},
                _enclosing_locals(self.cls),
                dict(vars(module) if module else {}),
                dict(vars(self.cls)),
            )
        return self._names

    def resolve(self, annotation: Any) -> Any:
        """An annotation without text in it, however deep the text is."""
        if not _has_text(annotation):
            return annotation
        # get_type_hints only resolves what hangs on something: a class that has nothing but this annotation.
        holder = type("_", (), {"__annotations__": {"it": annotation}})
        return typing.get_type_hints(holder, globalns={}, localns=dict(self.names), include_extras=True)["it"]


def _has_text(annotation: Any) -> bool:
    if isinstance(annotation, str | typing.ForwardRef):
        return True
    if get_origin(annotation) is typing.Literal:
        return False
    inner = get_args(annotation)
    return bool(inner) and any(_has_text(arg) for arg in inner if not isinstance(arg, GenericAlias) or get_args(arg))


def _enclosing_locals(cls: type[Any]) -> dict[str, Any]:
    """Local names of the running functions of the same module: the class may be declared in one of them."""
    found: dict[str, Any] = {}
    frame: FrameType | None = inspect.currentframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == cls.__module__ and frame.f_locals is not frame.f_globals:
            for name, value in frame.f_locals.items():
                found.setdefault(name, value)
        frame = frame.f_back
    return found
