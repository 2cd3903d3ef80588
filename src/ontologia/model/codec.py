"""Between a field's Python value and its stored value.

A codec is None where the two are the same. `encode` is also what query literals go through, so it accepts the plain
form of a value (the text of a UUID, the value of an enum member) beside the value itself, and raises ValueError for
anything else.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any
from uuid import UUID

from ontologia.model.jsonform import TAG, JsonForm, dumps, json_form
from ontologia.model.shapes import Choice, Scalar, Shape, choice_value, kind_of
from ontologia.model.spec import Kind

_MARK = f'"{TAG}"'


@dataclass(frozen=True, slots=True)
class Codec:
    """Python value to stored value and back; neither is given None."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


def codec_for(shape: Shape) -> Codec | None:
    """The codec of a (not null) shape, or None when values are stored as they are."""
    if kind_of(shape) is Kind.JSON:
        return _json_codec(json_form(shape))
    if shape == Scalar("uuid"):
        return Codec(_encode_uuid, UUID)
    if isinstance(shape, Choice) and any(isinstance(member, Enum) for member in shape.members):
        return _choice_codec(shape)
    return None


def _encode_uuid(value: Any) -> str:
    return str(value if isinstance(value, UUID) else UUID(value))


def _choice_codec(shape: Choice) -> Codec:
    """Members by value; a member that is its own value (StrEnum, IntEnum) finds the same entry."""
    by_value = {choice_value(member): member for member in shape.members}
    values = {member: choice_value(member) for member in shape.members} | {value: value for value in by_value}

    def encode(value: Any) -> Any:
        try:
            return values[value]
        except (KeyError, TypeError):
            raise ValueError(f"{value!r} is not one of {', '.join(map(repr, by_value))}") from None

    return Codec(encode, by_value.__getitem__)


def _json_codec(form: JsonForm) -> Codec:
    write, read, only_tags = form.write, form.read, form.only_tags

    def encode(value: Any) -> str:
        return dumps(write(value))

    if read is None:
        return Codec(encode, json.loads)

    def decode(text: str) -> Any:
        parsed = json.loads(text)
        return parsed if only_tags and _MARK not in text else read(parsed)

    return Codec(encode, decode)
