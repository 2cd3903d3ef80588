"""Values as plain Python containers, for `model_dump()`.

Scalars stay what they are; models and dataclasses become dicts, and containers are copied, so that changing the dump
never changes the object.
"""

from __future__ import annotations

import dataclasses
import json
from decimal import Decimal
from typing import Any, cast

from pydantic import BaseModel
from pydantic_core import to_json

from ontologia.model.declaration import Declaration
from ontologia.model.spec import Kind


def dumped(declaration: Declaration, held: dict[str, Any]) -> dict[str, Any]:
    """The values of an object by name, in declared order."""
    nested = {part.name for part in declaration.parts if part.spec.kind is Kind.JSON}
    return {name: plain(held[name]) if name in nested else held[name] for name in declaration.names}


def as_json(held: dict[str, Any]) -> dict[str, Any]:
    """Values by name, as JSON has them."""
    text = to_json(held, bytes_mode="base64", inf_nan_mode="strings")
    try:
        return json.loads(text)
    except ValueError:
        # Python reads no integer of more digits than a limit of its own; by way of a decimal it does.
        return json.loads(text, parse_int=lambda digits: int(Decimal(digits)))


def shown(value: Any) -> str:
    """What `repr` shows; an integer of more digits than Python writes is shown in hexadecimal."""
    try:
        return repr(value)
    except ValueError:
        return hex(value) if isinstance(value, int) else f"<{type(value).__name__}>"


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
