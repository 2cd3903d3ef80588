"""One Pydantic validator per declared class: names, types, constraints, defaults, and what the store cannot hold.

What passes is exactly storable: no nan, no lone surrogates, no endless decimals, only JSON inside `Any`. The rules that
Pydantic can check natively are expressed as its constraints, because every object made passes through here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Annotated, Any, Optional, cast

from pydantic import AfterValidator, ConfigDict, GetCoreSchemaHandler, StringConstraints, TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic_core import SchemaValidator, core_schema

from ontologia.model.codec import Codec
from ontologia.model.fields import MISSING
from ontologia.model.portable import portable
from ontologia.model.spec import FieldSpec, Kind
from ontologia.model.storable import check_decimal, check_text, exact

_ANY_TEXT = StringConstraints(min_length=0)
"""A bound that excludes nothing, but makes Pydantic look at the text and refuse lone surrogates."""
_KEY_BITS = 2_000
"""Keys are held as text, and Python limits the digits of integers as text."""
_SOME_TEXT = StringConstraints(min_length=1)


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a constructor, as the validator needs to know it."""

    spec: FieldSpec
    annotation: Any
    codec: Codec | None
    default: Any = MISSING
    default_factory: Callable[[], Any] | None = None
    key: bool = False


def _finite(value: float) -> float:
    try:
        number = float(value) + 0.0
    except OverflowError:
        raise ValueError("too large for a float") from None
    if number != number:  # noqa: PLR0124 - the definition of nan
        raise ValueError("nan cannot be stored; use None for a missing number")
    return number


def _plain_datetime(value: datetime) -> datetime:
    if type(value) is not datetime:
        value = datetime.combine(value.date(), value.timetz())
    # A zone that cannot say its offset leaves the value without one.
    return value.replace(tzinfo=None) if value.tzinfo is not None and value.utcoffset() is None else value


def _plain_date(value: date) -> date:
    return value if type(value) is date else date(value.year, value.month, value.day)


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("an instance key must not be blank")
    return check_text(exact(value))


def _usable_key(value: Any) -> Any:
    if value == "":
        raise ValueError("a key must not be empty")
    if isinstance(value, int) and value.bit_length() > _KEY_BITS:
        raise ValueError(f"an integer key must be below 2**{_KEY_BITS}")
    return value


def _unchanged(value: Any) -> Any:
    return value


_CHECKS: dict[Kind, tuple[type[Any] | tuple[type[Any], ...], Callable[[Any], Any]]] = {
    Kind.TEXT: (str, lambda value: check_text(exact(value))),
    Kind.INT: (int, exact),
    Kind.FLOAT: ((float, int), _finite),
    Kind.BOOL: (bool, _unchanged),
    Kind.BYTES: (bytes, exact),
    Kind.DECIMAL: (Decimal, check_decimal),
    Kind.DATETIME: (datetime, _plain_datetime),
    Kind.DATE: (date, _plain_date),
    Kind.TIME: (time, _unchanged),
}
"""What the store's own check takes, and the check: people's validators may return anything."""
_EXACT_IN_PYDANTIC = (int, bool, int | None, bool | None)
"""Annotations whose values are exactly of their class, so that looking again is not worth the time."""


def _checked_class(kind: Kind) -> Callable[[Any], Any]:
    cls, check = _CHECKS[kind]

    def checked(value: Any) -> Any:
        if not isinstance(value, cls) or (kind is not Kind.BOOL and isinstance(value, bool)):
            raise ValueError(f"a {type(value).__name__} cannot be stored as {kind}")
        return check(value)

    return checked


def _passing_none(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else check(value)


def _check_of(argument: Argument) -> Callable[[Any], Any] | None:
    kind, codec = argument.spec.kind, argument.codec
    if argument.spec.instance_key:
        return _not_blank
    if kind is Kind.JSON and codec is not None:
        encode = codec.encode

        def storable(value: Any) -> Any:
            encode(value)
            return value

        return storable
    if codec is not None or argument.annotation in _EXACT_IN_PYDANTIC:
        return None
    return _checked_class(kind) if kind in _CHECKS else None


def validated_type(argument: Argument) -> Any:
    """The annotation with the store's own rules added."""
    annotation, spec = portable(argument.annotation), argument.spec
    if not spec.instance_key:
        bound = _SOME_TEXT if argument.key else _ANY_TEXT
        if annotation is str:
            return Annotated[str, bound]
        if annotation == (str | None):
            return Optional[Annotated[str, bound]]  # noqa: UP045 - typing's own union takes Annotated on every Python
    check = _check_of(argument)
    if check is not None:
        annotation = Annotated[annotation, AfterValidator(_passing_none(check) if spec.nullable else check)]
    if argument.key:
        annotation = Annotated[annotation, AfterValidator(_usable_key)]
    return annotation


def build_validator(title: str, arguments: Sequence[Argument]) -> SchemaValidator:
    """A validator from a dict of arguments to `(values, None, names given)`; its errors carry the class name."""

    class Arguments:
        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
            fields: dict[str, core_schema.ModelField] = {}
            for argument in arguments:
                schema = handler.generate_schema(validated_type(argument))
                fields[argument.spec.name] = core_schema.model_field(_with_default(schema, argument))
            return core_schema.model_fields_schema(fields, model_name=title, extra_behavior="forbid")

    try:
        adapter = TypeAdapter(Arguments, config=ConfigDict(title=title))
    except PydanticUserError as error:
        raise TypeError(f"{title}: {error.message}") from error
    return cast("SchemaValidator", adapter.validator)


def _with_default(schema: core_schema.CoreSchema, argument: Argument) -> core_schema.CoreSchema:
    if argument.default_factory is not None:
        return core_schema.with_default_schema(schema, default_factory=argument.default_factory, validate_default=True)
    if argument.default is MISSING:
        return schema
    # Pydantic copies a default that is not hashable, so that objects never share one.
    return core_schema.with_default_schema(schema, default=argument.default, validate_default=True)
