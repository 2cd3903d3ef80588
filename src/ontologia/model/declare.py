"""`Entity` and `Relation`: the objects that users declare, make, read and change.

An object is its validated values, nothing more; what the store knows about it (the commit it was read at, the ends of a
relation) hangs on slots beside them and is absent on objects that were not read by a query.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Literal,
    NoReturn,
    Self,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
)

from ontologia.errors import MetadataUnavailableError, UnknownFieldError
from ontologia.model.annotations import Namespace
from ontologia.model.declaration import Declaration, assigned, collect, declare, install
from ontologia.model.dump import as_json, dumped, shown
from ontologia.model.fields import Field
from ontologia.model.spec import TypeSpec

Origin = tuple[int, Callable[[int], datetime]]
"""The commit an object was read at, and how to learn the time of a commit."""


@dataclass(frozen=True, slots=True)
class Meta:
    """Where a stored object comes from. Keys that its kind of type does not have are None."""

    commit_id: int
    type_name: str
    key: str | None
    left_key: str | None
    right_key: str | None
    instance_key: str | None
    committed_at: datetime


if TYPE_CHECKING:
    # A checker that saw the other one would take every misspelt name for a field.
    _FieldNames = type
else:

    class _FieldNames(type):
        """Tells what fields there are when one is misspelt at class level, as in a query."""

        def __getattr__(cls, name: str) -> NoReturn:
            spec = cls.__dict__.get("__spec__")
            if not isinstance(spec, TypeSpec) or name.startswith("_"):
                raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}", name=name, obj=cls)
            known = ", ".join(field.name for field in spec.fields)
            raise UnknownFieldError(
                f"{spec.name} has no field {name!r}.", hint=f"Fields: {known}.", type_name=spec.name, field=name
            )


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(Field,))
class Stored(metaclass=_FieldNames):
    """What entities and relations have in common. Declare `Entity` or `Relation[...]`, not this."""

    __slots__ = ("_origin",)
    __spec__: ClassVar[TypeSpec]
    __declaration__: ClassVar[Declaration | None] = None
    __encoder__: ClassVar[Callable[[Any], tuple[Any, ...]]]
    __hydrator__: ClassVar[Callable[..., Any]]
    """Made once for each class, by `rows`."""

    def __init__(self, /, *unnamed: Any, **values: Any) -> None:
        declaration = type(self).__declaration__
        if declaration is None:
            raise TypeError(f"{type(self).__name__} is abstract: declare a subclass of it.")
        if unnamed:
            raise TypeError(f"{type(self).__name__} takes its values by name: {', '.join(declaration.names)}.")
        object.__setattr__(self, "__dict__", declaration.validator.validate_python(values)[0])

    @classmethod
    def model_validate(cls, values: Mapping[str, Any]) -> Self:
        """An object from a mapping of its arguments."""
        if isinstance(values, cls):
            return values
        if not isinstance(cast("object", values), Mapping):
            raise TypeError(f"{cls.__name__}.model_validate() takes a mapping, not {type(values).__name__}.")
        return cls(**values)

    def model_dump(self, *, mode: Literal["python", "json"] = "python") -> dict[str, Any]:
        """The values by name; `mode="json"` gives only what JSON can hold."""
        if mode == "json":
            held = {name: self.__dict__[name] for name in _declaration(self).names}
            return as_json(held)
        return dumped(_declaration(self), self.__dict__)

    def meta(self) -> Meta:
        """The commit this object was read from."""
        origin: Origin | None = getattr(self, "_origin", None)
        if origin is None:
            raise MetadataUnavailableError(
                f"This {type(self).__name__} was not read from a store.",
                hint="Get it through a query to ask for its meta().",
            )
        commit_id, time_of = origin
        keys = dict(zip(self.__spec__.identity, self._identity(), strict=True))
        return Meta(
            commit_id=commit_id,
            type_name=self.__spec__.name,
            key=keys.get("key"),
            left_key=keys.get("left_key"),
            right_key=keys.get("right_key"),
            instance_key=keys.get("instance_key"),
            committed_at=time_of(commit_id),
        )

    def _identity(self) -> tuple[str, ...]:
        raise TypeError(f"{type(self).__name__} has no identity.")

    def __setattr__(self, name: str, value: Any) -> None:
        declaration = _declaration(self)
        if name in declaration.keys:
            raise AttributeError(
                f"{type(self).__name__}.{name} is part of the identity and cannot change; make a new object."
            )
        if name in declaration.names:
            self.__dict__[name] = assigned(declaration.validator, name, value)
        elif hasattr(getattr(type(self), name, None), "__set__"):
            object.__setattr__(self, name, value)
        else:
            known = ", ".join(n for n in declaration.names if n not in declaration.keys)
            raise AttributeError(f"{type(self).__name__} has no field {name!r}; its fields are {known}.")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be deleted.")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        mine, theirs = self.__dict__, other.__dict__
        return all(mine[name] == theirs[name] for name in _declaration(self).names)

    def __hash__(self) -> int:
        return hash((self.__spec__.name, self._identity()))

    def __repr__(self) -> str:
        held = self.__dict__
        values = ", ".join(f"{name}={shown(held[name])}" for name in _declaration(self).names if name in held)
        return f"{type(self).__name__}({values})"

    def _repr_html_(self) -> str:
        held = self.__dict__
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(shown(held[name]))}</td></tr>"
            for name in _declaration(self).names
        )
        return f"<table><caption>{html.escape(type(self).__name__)}</caption>{rows}</table>"

    def __getstate__(self) -> dict[str, Any]:
        """The values: where an object came from does not travel with it."""
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        object.__setattr__(self, "__dict__", dict(state))


def _declaration(value: Stored) -> Declaration:
    return cast("Declaration", type(value).__declaration__)


def _type_name(cls: type[Any], name: str | None) -> str:
    if name is None:
        return cls.__name__
    if not isinstance(cast("object", name), str) or not name.strip() or not name.isprintable():
        raise TypeError(f"{cls.__name__}: name= takes the text that names the type, not {name!r}.")
    return name


class Entity(Stored):
    """A thing with a key. Subclass it and declare fields, one of them with `Field(primary_key=True)`."""

    __slots__ = ()

    def __init_subclass__(cls, *, name: str | None = None, abstract: bool = False, **options: Any) -> None:
        super().__init_subclass__(**options)
        raw = collect(cls, (Stored, Entity))
        cls.__declaration__ = None
        if not abstract:
            cls.__declaration__ = declare("entity", cls, _type_name(cls, name), raw)
            cls.__spec__ = cls.__declaration__.spec
            install(cls, cls.__declaration__)
            cls._key_name = next(part.name for part in cls.__declaration__.parts if part.spec.primary_key)

    _key_name: ClassVar[str]

    def _identity(self) -> tuple[str, ...]:
        return (str(self.__dict__[self._key_name]),)


L = TypeVar("L", bound=Entity)
R = TypeVar("R", bound=Entity)


class Relation(Stored, Generic[L, R]):
    """A directed edge between two entities: `class Subscription(Relation[Customer, Product])`."""

    __slots__ = ("_ends",)

    if TYPE_CHECKING:
        left_key: Field[Any]
        right_key: Field[Any]

    def __init_subclass__(cls, *, name: str | None = None, abstract: bool = False, **options: Any) -> None:
        super().__init_subclass__(**options)
        raw = collect(cls, (Stored, Relation))
        cls.__declaration__ = None
        if not abstract:
            ends = _ends_of(cls)
            cls.__declaration__ = declare("relation", cls, _type_name(cls, name), raw, ends)
            cls.__spec__ = cls.__declaration__.spec
            cls.__ends__ = ends
            install(cls, cls.__declaration__)
            key = cls.__spec__.key_field
            cls._instance_name = key.name if key is not None else None

    __ends__: ClassVar[tuple[type[Entity], type[Entity]]]
    _instance_name: ClassVar[str | None]

    def _identity(self) -> tuple[str, ...]:
        held = self.__dict__
        instance = "" if self._instance_name is None else held[self._instance_name]
        return str(held["left_key"]), str(held["right_key"]), instance

    @property
    def left(self) -> L | None:
        """The entity at the left end, as of the query; None when there is none."""
        return cast("L | None", self._end(0))

    @property
    def right(self) -> R | None:
        """The entity at the right end, as of the query; None when there is none."""
        return cast("R | None", self._end(1))

    def _end(self, side: int) -> Entity | None:
        ends: tuple[Entity | None, Entity | None] | None = getattr(self, "_ends", None)
        if ends is None:
            raise MetadataUnavailableError(
                f"The ends of this {type(self).__name__} were not read from a store.",
                hint="Get it through a query, or use left_key and right_key.",
            )
        return ends[side]

    def attach(self, side: Literal["left", "right"], end: Entity | None) -> None:
        """Say what one end is, as read by a query. For backends."""
        left, right = getattr(self, "_ends", None) or (None, None)
        _set_ends(self, (end, right) if side == "left" else (left, end))


# The slots' own setters: an object's `__setattr__` is for its users and only knows fields.
set_origin: Callable[[Stored, Origin], None] = Stored.__dict__["_origin"].__set__
_set_ends: Callable[[Any, Any], None] = Relation.__dict__["_ends"].__set__


def adopt(cls: type[Stored], spec: TypeSpec) -> None:
    """Put a stored spec in the place of the one that was read off a class made from it."""
    declaration = cast("Declaration", cls.__declaration__)
    by_name = spec.by_name
    parts = tuple(replace(part, spec=by_name[part.name]) for part in declaration.parts)
    cls.__declaration__ = replace(declaration, spec=spec, parts=parts)
    cls.__spec__ = spec
    install(cls, cls.__declaration__)


def _ends_of(cls: type[Any]) -> tuple[type[Entity], type[Entity]]:
    """The two end types, from the nearest `Relation[...]` among the bases."""
    for base in cls.__mro__:
        for written in base.__dict__.get("__orig_bases__", ()):
            if getattr(written, "__origin__", None) is Relation:
                ends = [_end_class(cls, end) for end in get_args(written)]
                return ends[0], ends[1]
    raise TypeError(f"{cls.__name__}: say what it connects: class {cls.__name__}(Relation[Left, Right]).")


def _end_class(cls: type[Any], end: Any) -> type[Entity]:
    try:
        resolved = Namespace(cls).resolve(end)
    except NameError as error:
        raise TypeError(f"{cls.__name__}: cannot resolve its end {end!r}: {error}.") from error
    if not isinstance(resolved, type) or not issubclass(resolved, Entity):
        raise TypeError(f"{cls.__name__}: the ends of a relation are Entity classes, not {resolved!r}.")
    if resolved.__declaration__ is None:
        raise TypeError(f"{cls.__name__}: {resolved.__name__} is abstract and cannot be the end of a relation.")
    return resolved
