"""Taking models, dataclasses and TypedDicts apart and putting them together again, field by field.

Reading back restores the state that was written without running validators, constructors or `__post_init__`: the
value was valid when it was stored. What a shape does not name (private attributes, init-only arguments) is not kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from ontologia.model.shapes import ObjectOf

Take = Callable[[Any], dict[str, Any]]
Make = Callable[[dict[str, Any]], Any]


def object_builder(shape: ObjectOf) -> tuple[Take, Make, Callable[[Any], bool]]:
    """How to read the fields of an instance, how to make one from them, and how to know one."""
    cls, names = shape.cls, tuple(name for name, _ in shape.fields)
    if shape.form == "typeddict":
        return dict, lambda record: record, lambda value: type(value) is dict
    make = _model_maker(cls, names) if shape.form == "model" else _dataclass_maker(cls, names)

    def take(value: Any) -> dict[str, Any]:
        return {name: getattr(value, name) for name in names if hasattr(value, name)}

    def take_open(value: BaseModel) -> dict[str, Any]:
        return {**take(value), **(value.model_extra or {})}

    # A subclass would come back as its base: only the declared class itself fits.
    return (take_open if shape.open else take), make, lambda value: type(value) is cls


def _model_maker(cls: type[BaseModel], names: tuple[str, ...]) -> Make:
    known = frozenset(names)
    is_open = cls.model_config.get("extra") == "allow"

    def make(record: dict[str, Any]) -> BaseModel:
        model = cls.__new__(cls)
        held = {name: value for name, value in record.items() if name in known}
        extra = {name: value for name, value in record.items() if name not in known} if is_open else None
        object.__setattr__(model, "__dict__", held)
        object.__setattr__(model, "__pydantic_fields_set__", set(record))
        object.__setattr__(model, "__pydantic_extra__", extra)
        object.__setattr__(model, "__pydantic_private__", None)
        if cls.__pydantic_post_init__:
            # Sets up private attributes, as Pydantic does when it makes a model without validating.
            model.model_post_init(None)
        return model

    return make


def _dataclass_maker(cls: type[Any], names: tuple[str, ...]) -> Make:
    def make(record: dict[str, Any]) -> Any:
        value = object.__new__(cls)
        for name in names:
            if name in record:
                object.__setattr__(value, name, record[name])
        return value

    return make
