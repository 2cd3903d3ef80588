"""From a class body to a `Declaration`: the type's spec, its codecs and its validator.

Every mistake that can be seen in a declaration is a TypeError here, when the class is made, with the class and field
in the message. Objects themselves are in `declare`; nothing here is touched again once the class exists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast
from uuid import UUID

from pydantic import ValidationError
from pydantic_core import SchemaValidator

from ontologia.model.annotations import RawField, raw_fields
from ontologia.model.codec import Codec, codec_for
from ontologia.model.fields import MISSING, Field
from ontologia.model.jsonform import JsonForm, json_form
from ontologia.model.jsoninput import Take, input_reader
from ontologia.model.shapes import Scalar, Shape, canonical, kind_of, without_null
from ontologia.model.spec import FieldSpec, Kind, TypeKind, TypeSpec
from ontologia.model.storable import UnstorableError, exact
from ontologia.model.types import shape_of
from ontologia.model.validation import Argument, build_validator

RESERVED = frozenset({"left", "right", "left_key", "right_key", "attach", "meta", "model_dump", "model_validate"})
_KEY_SHAPES: dict[Shape, type[Any]] = {Scalar("str"): str, Scalar("int"): int, Scalar("uuid"): UUID}
_MUTABLE = (list, dict, set, bytearray)


@dataclass(frozen=True, slots=True)
class Part:
    """One field of a finished class."""

    spec: FieldSpec
    annotation: Any
    shape: Shape
    """Of the values that are not null."""
    form: JsonForm
    """How those are written as JSON."""
    codec: Codec | None
    take: Take
    """What Pydantic is given for their JSON when that comes from outside."""
    default: Any = MISSING
    default_factory: Callable[[], Any] | None = None

    @property
    def name(self) -> str:
        return self.spec.name

    def argument(self) -> Argument:
        key = self.spec.primary_key or self.spec.instance_key
        return Argument(self.spec, self.annotation, self.codec, self.default, self.default_factory, key=key)


@dataclass(frozen=True, slots=True)
class Declaration:
    """All that is known about a finished class."""

    spec: TypeSpec
    parts: tuple[Part, ...]
    ends: tuple[Part, ...]
    """For a relation, `left_key` and `right_key` as parts, typed like the keys of the end types."""
    validator: SchemaValidator
    names: tuple[str, ...]
    """The arguments of the constructor, in order."""
    keys: frozenset[str]
    """The arguments that make up the identity and cannot be assigned."""


def collect(cls: type[Any], roots: tuple[type[Any], ...]) -> dict[str, RawField]:
    """Every field of a class, inherited ones first. `roots` are the classes below which users declare."""
    fields: dict[str, RawField] = {}
    for base in reversed(cls.__mro__):
        if base in roots or base.__module__ in {"builtins", "typing"}:
            continue
        own: dict[str, RawField] | None = base.__dict__.get("__raw_fields__")
        if own is None:
            own = raw_fields(base, strict=issubclass(base, roots))
        if base is cls:
            cls.__raw_fields__ = own
            for name in fields:
                if name in cls.__dict__ and name not in own:
                    raise TypeError(f"{cls.__name__}.{name}: repeat the annotation to change an inherited field.")
        fields.update(own)
    return fields


def declare(
    kind: TypeKind, cls: type[Any], name: str, raw: dict[str, RawField], ends: tuple[type[Any], type[Any]] | None = None
) -> Declaration:
    """Check the fields together and build everything the class needs."""
    parts = [_part(field) for field in raw.values()]
    _check_keys(kind, cls.__name__, parts)
    end_parts = (
        () if ends is None else tuple(_end_part(n, e) for n, e in zip(("left_key", "right_key"), ends, strict=True))
    )
    arguments = (*end_parts, *parts)
    validator = build_validator(cls.__name__, [part.argument() for part in arguments])
    parts = [_with_default(part, validator, f"{cls.__name__}.{part.name}") for part in parts]
    left, right = (None, None) if ends is None else (end.__spec__.name for end in ends)
    spec = TypeSpec(kind, name, tuple(part.spec for part in parts), left, right, doc=_doc(cls))
    keys = {part.name for part in parts if part.spec.primary_key or part.spec.instance_key}
    return Declaration(
        spec,
        tuple(parts),
        end_parts,
        validator,
        tuple(p.name for p in arguments),
        frozenset({*keys, *(p.name for p in end_parts)}),
    )


def install(cls: type[Any], declaration: Declaration) -> None:
    """Give the class its field descriptors; each class has its own, so that expressions know their type."""
    fields = {name: raw.field for name, raw in _all_raw(cls).items()}
    for part in (*declaration.ends, *declaration.parts):
        field = fields.get(part.name) or Field[Any]()
        setattr(cls, part.name, field.bound(declaration.spec, part.spec, part.codec))


def _all_raw(cls: type[Any]) -> dict[str, RawField]:
    found: dict[str, RawField] = {}
    for base in reversed(cls.__mro__):
        found.update(base.__dict__.get("__raw_fields__", {}))
    return found


def _doc(cls: type[Any]) -> str:
    return " ".join((cls.__dict__.get("__doc__") or "").split())


def _part(raw: RawField) -> Part:
    if raw.name in RESERVED or raw.name.startswith("_"):
        raise TypeError(f"{raw.where}: this name is reserved; choose another.")
    shape, nullable = without_null(shape_of(raw.annotation, raw.where))
    field = raw.field
    if isinstance(field.default, _MUTABLE):
        name = type(cast("object", field.default)).__name__
        raise TypeError(f"{raw.where}: a {name} as default would be shared; use Field(default_factory={name}).")
    has_default = field.default is not MISSING or field.default_factory is not None
    spec = FieldSpec(
        name=raw.name,
        type=canonical(shape),
        kind=kind_of(shape),
        nullable=nullable,
        primary_key=field.primary_key,
        instance_key=field.instance_key,
        index=field.index,
        has_default=has_default,
        factory=field.default_factory is not None,
    )
    if (field.primary_key or field.instance_key) and nullable:
        raise TypeError(f"{raw.where}: a key cannot be None.")
    if field.primary_key and shape not in _KEY_SHAPES:
        raise TypeError(f"{raw.where}: a primary key is a str, an int or a UUID.")
    if field.instance_key and (shape != Scalar("str") or has_default):
        raise TypeError(f"{raw.where}: an instance key is a str without a default.")
    if field.primary_key and has_default and field.default is not MISSING:
        raise TypeError(f"{raw.where}: a primary key has no fixed default; give a default_factory or none.")
    return Part(
        spec,
        raw.annotation,
        shape,
        json_form(shape),
        codec_for(shape),
        input_reader(shape),
        field.default,
        field.default_factory,
    )


def _check_keys(kind: TypeKind, owner: str, parts: list[Part]) -> None:
    primary = [part.name for part in parts if part.spec.primary_key]
    instance = [part.name for part in parts if part.spec.instance_key]
    if kind == "relation":
        if primary:
            raise TypeError(f"{owner}.{primary[0]}: a relation has no primary key; its ends identify it.")
        if len(instance) > 1:
            raise TypeError(f"{owner}: only one instance key is possible, not {' and '.join(instance)}.")
        return
    if instance:
        raise TypeError(f"{owner}.{instance[0]}: only relations have an instance key.")
    if not primary:
        raise TypeError(
            f"{owner}: no primary key; mark one field with Field(primary_key=True), or the class with abstract=True."
        )
    if len(primary) > 1:
        raise TypeError(f"{owner}: only one primary key is possible, not {' and '.join(primary)}.")


def _end_part(name: str, end: type[Any]) -> Part:
    """The key of an end: held as text, typed like the end's own primary key."""
    declared: Declaration = end.__declaration__
    shape = next(part.shape for part in declared.parts if part.spec.primary_key)
    cls = _KEY_SHAPES[shape]
    codec = None if cls is str else _key_codec(cls)
    spec = FieldSpec(name=name, type=canonical(shape), kind=Kind.TEXT, primary_key=True)
    return Part(spec, cls, shape, json_form(shape), codec, input_reader(shape))


def _key_codec(cls: type[Any]) -> Codec:
    """Between a key of this class, or a text of one, and the one text by which the store knows it."""

    def encode(value: Any) -> str:
        if not isinstance(value, cls | str) or isinstance(value, bool):
            raise TypeError(f"the key of an end is a {cls.__name__}, not a {type(value).__name__}")
        return str(cls(value) if isinstance(value, str) else exact(value))

    return Codec(encode, cls)


def _with_default(part: Part, validator: SchemaValidator, where: str) -> Part:
    """The part with its static default validated, and written into the spec as JSON."""
    if part.default is MISSING:
        return part
    try:
        held = assigned(validator, part.name, part.default)
        written = None if held is None else part.form.write(held)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]["msg"]
        raise TypeError(f"{where}: the default {part.default!r} is not valid: {problem}.") from error
    except UnstorableError as error:
        raise TypeError(f"{where}: the default {part.default!r} cannot be stored: {error}.") from error
    return replace(part, spec=replace(part.spec, default=written), default=held)


def assigned(validator: SchemaValidator, name: str, value: Any) -> Any:
    """What a value becomes when it is given for one argument; ValidationError when it is not valid."""
    # Typed as a dict in Pydantic's stubs; for plain fields it is the values, the extras and the names set.
    held = cast("tuple[dict[str, Any], Any, Any]", validator.validate_assignment({}, name, value))
    return held[0][name]
