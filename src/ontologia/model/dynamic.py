"""A working class for a stored type that the program does not declare.

The class has the stored spec itself, so it reads and writes the same rows; its Python types are the nearest that a spec
can say. Enums become literals and models TypedDicts (dataclasses in a union, where a dict would not say which member it
is); what has no faithful type (recursive or open models) is plain JSON.
"""

from __future__ import annotations

import base64
import types
from collections.abc import Callable, Mapping
from dataclasses import make_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from keyword import iskeyword
from typing import Annotated, Any, Literal, NotRequired, Union, cast
from uuid import UUID

from pydantic import AfterValidator
from typing_extensions import TypedDict

from ontologia.model.declare import Entity, Relation, adopt
from ontologia.model.fields import MISSING, Field
from ontologia.model.jsonform import json_form
from ontologia.model.shapes import without_null
from ontologia.model.spec import FieldSpec, JsonType, TypeSpec
from ontologia.model.types import shape_of

_SCALARS: dict[str, Any] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "null": None,
    "datetime": datetime,
    "date": date,
    "time": time,
    "decimal": Decimal,
    "uuid": UUID,
    "bytes": bytes,
    "any": Any,
}


class _NoFaithfulTypeError(Exception):
    """The canonical type has a part that only plain JSON can stand for."""


def class_from_spec(
    spec: TypeSpec, ends: Mapping[str, type[Entity]] = types.MappingProxyType({})
) -> type[Entity | Relation[Any, Any]]:
    """A class for a spec. `ends` are the entities that a relation connects; one that is not given has only a key."""
    body: dict[str, Any] = {"__annotations__": {}, "__module__": __name__, "__doc__": spec.doc or None}
    for field in spec.fields:
        annotation = _annotation(field)
        body["__annotations__"][field.name] = Field[annotation]
        body[field.name] = _field(field, annotation)
    base: Any = Entity
    if spec.kind == "relation":
        left, right = (ends.get(name) or _bare_end(name) for name in (spec.left or "", spec.right or ""))
        base = Relation[left, right]  # pyright: ignore[reportInvalidTypeArguments] - classes known only now
    cls = types.new_class(spec.name, (base,), {"name": spec.name}, lambda namespace: namespace.update(body))
    adopt(cls, spec)
    return cls


def _bare_end(name: str) -> type[Entity]:
    key = FieldSpec.from_json({"name": "key", "type": "str", "kind": "text", "primary_key": True})
    return cast("type[Entity]", class_from_spec(TypeSpec("entity", name, (key,))))


def _annotation(field: FieldSpec) -> Any:
    try:
        annotation = _python_type(field.type)
    except _NoFaithfulTypeError:
        return Any if field.nullable else Annotated[Any, AfterValidator(_not_none)]
    return annotation | None if field.nullable and annotation not in {Any, None} else annotation


def _not_none(value: Any) -> Any:
    if value is None:
        raise ValueError("a value is needed")
    return value


def _field(field: FieldSpec, annotation: Any) -> Field[Any]:
    default: Any = MISSING
    factory: Callable[[], Any] | None = None
    if field.factory and isinstance(field.type, dict):
        # What the program's own factory made is not known; an empty container is what nearly all of them make.
        factory = list if "list" in field.type else dict if "dict" in field.type else None
    elif field.has_default and not field.factory:
        default = _default(field, annotation)
    if isinstance(default, list | dict):
        held = cast("Any", default)
        default, factory = MISSING, lambda: _copied(held)
    return Field[Any](
        primary_key=field.primary_key,
        instance_key=field.instance_key,
        default=default,
        default_factory=factory,
        index=field.index,
    )


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in cast("dict[str, Any]", value).items()}
    return [_copied(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


def _default(field: FieldSpec, annotation: Any) -> Any:
    if field.default is None:
        return None
    read = json_form(without_null(shape_of(annotation, field.name))[0]).read
    return field.default if read is None else read(_copied(field.default))


def _python_type(kind: JsonType, *, exact: bool = False) -> Any:
    """A Python type whose canonical form is the given one; enums are literals unless it must be `exact`."""
    if isinstance(kind, str):
        return _SCALARS[kind]
    if "list" in kind:
        return types.GenericAlias(list, (_python_type(kind["list"], exact=exact),))
    if "dict" in kind:
        return types.GenericAlias(dict, (str, _python_type(kind["dict"], exact=exact)))
    if "union" in kind:
        # Stored JSON may name a member by its type, so that type must be the very same.
        members = tuple(_python_type(member, exact=True) for member in kind["union"])
        return Union[members]  # noqa: UP007 - a union of classes known only now
    if "literal" in kind:
        return _literal([base64.b64decode(v) for v in kind["literal"]] if kind.get("bytes") else kind["literal"])
    if "enum" in kind:
        values: list[Any] = kind["enum"]
        if exact or any(isinstance(value, float) for value in values):
            return Enum(kind.get("name", "Enum"), {f"V{number}": value for number, value in enumerate(values)})
        return _literal(values)
    if "object" in kind:
        return _object(kind, exact=exact)
    raise _NoFaithfulTypeError


def _literal(values: list[Any]) -> Any:
    return Literal[tuple(values)]  # pyright: ignore[reportInvalidTypeArguments] - values known only now


def _object(kind: dict[str, Any], *, exact: bool) -> Any:
    if kind.get("open") or _refers_to(kind["object"], kind.get("name")):
        raise _NoFaithfulTypeError
    optional = set(kind.get("optional", ()))
    parts = {name: _python_type(part, exact=exact) for name, part in kind["object"].items()}
    if exact and not optional and all(name.isidentifier() and not iskeyword(name) for name in parts):
        # A dict would not say which member of the union it is.
        return make_dataclass(kind.get("name", "Object"), list(parts.items()))
    fields = {name: NotRequired[part] if name in optional else part for name, part in parts.items()}
    return TypedDict(kind.get("name", "Object"), fields)  # pyright: ignore[reportArgumentType, reportGeneralTypeIssues]


def _refers_to(kind: Any, name: str | None) -> bool:
    """True when a canonical type refers back to a model that is still open."""
    if name is None:
        return False
    if isinstance(kind, dict):
        record = cast("dict[str, Any]", kind)
        return record.get("ref") == name or any(_refers_to(part, name) for part in record.values())
    return isinstance(kind, list) and any(_refers_to(part, name) for part in cast("list[Any]", kind))
