"""TypedDicts as Pydantic can read them on every Python.

Before Python 3.12 Pydantic only takes those of `typing_extensions`. People write the standard one, so wherever one
stands in an annotation it is replaced by an equal one; inside their own models and dataclasses the choice stays theirs.
"""

from __future__ import annotations

import sys
import types
import typing
from functools import cache
from typing import Annotated, Any, NotRequired, Union, get_args, get_origin

import typing_extensions


def portable(annotation: Any) -> Any:
    """The annotation with every standard TypedDict replaced where Pydantic needs it."""
    if sys.version_info >= (3, 12):
        return annotation
    if typing.is_typeddict(annotation):
        return _portable_dict(annotation)
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return Annotated[(portable(args[0]), *args[1:])]
    if origin in {Union, types.UnionType}:
        return Union[tuple(portable(arg) for arg in args)]  # noqa: UP007 - a union of classes known only now
    if origin in {list, dict}:
        return types.GenericAlias(origin, tuple(portable(arg) for arg in args))
    return annotation


@cache
def _portable_dict(cls: Any) -> Any:
    hints = typing.get_type_hints(cls, include_extras=True)
    optional = optional_keys(cls, hints)
    fields: dict[str, Any] = {}
    for name, hint in hints.items():
        bare = get_args(hint)[0] if get_origin(hint) in {NotRequired, typing.Required} else hint
        # One that contains itself cannot be made anew from the outside in.
        held = bare if bare is cls or cls in _inside(bare) else portable(bare)
        fields[name] = NotRequired[held] if name in optional else held
    return typing_extensions.TypedDict(cls.__name__, fields)  # pyright: ignore[reportArgumentType, reportGeneralTypeIssues]


def optional_keys(cls: Any, hints: dict[str, Any]) -> frozenset[str]:
    """The keys of a TypedDict that may be absent; the class itself misses `Required` in annotations that are text."""
    marked = {name: get_origin(hint) for name, hint in hints.items()}
    by_class: frozenset[str] = cls.__optional_keys__
    return frozenset(
        name
        for name, mark in marked.items()
        if mark is NotRequired or (name in by_class and mark is not typing.Required)
    )


def _inside(annotation: Any) -> set[Any]:
    found: set[Any] = set()
    for arg in get_args(annotation):
        if isinstance(arg, type):
            found.add(arg)
        found |= _inside(arg)
    return found
