"""Values as plain Python containers, for `model_dump()`.

Scalars stay what they are; models and dataclasses become dicts, and containers are copied, so that changing the dump
never changes the object.
"""

from __future__ import annotations

import dataclasses
from typing import Any, cast

from pydantic import BaseModel

from ontologia.model.declaration import Declaration
from ontologia.model.spec import Kind


def dumped(declaration: Declaration, held: dict[str, Any]) -> dict[str, Any]:
    """The values of an object by name, in declared order."""
    nested = {part.name for part in declaration.parts if part.spec.kind is Kind.JSON}
    return {name: plain(held[name]) if name in nested else held[name] for name in declaration.names}


def plain(value: Any) -> Any:
    """A copy of a value with every model taken apart."""
    match value:
        case dict():
            return {key: plain(item) for key, item in cast("dict[Any, Any]", value).items()}
        case list():
            return [plain(item) for item in cast("list[Any]", value)]
        case BaseModel():
            return {**{name: plain(item) for name, item in value.__dict__.items()}, **plain(value.model_extra or {})}
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        case _:
            return value
