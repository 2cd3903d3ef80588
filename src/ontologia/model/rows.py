"""Between objects and physical rows, fast.

`encoder` and `hydrator` give functions made for one class, once; they agree with `to_physical` and `from_physical`,
which say what a row is. Hydrating does not validate: rows were valid when written. `from_stored` does, for rows that
a migration has changed.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from functools import partial
from operator import itemgetter
from typing import Any, TypeVar, cast

from ontologia.errors import InputError
from ontologia.model.comparable import decimal_key, instant, time_of_day
from ontologia.model.declaration import Declaration, Part
from ontologia.model.declare import Stored, set_origin
from ontologia.model.jsoninput import BY_NAME
from ontologia.model.physical import (
    EXACT_KINDS,
    INT64_MAX,
    exact_text,
    from_physical,
    held_in_identity,
    layout,
    restore,
    to_physical,
)
from ontologia.model.spec import Kind

S = TypeVar("S", bound=Stored)
Row = tuple[Any, ...]
TimeOf = Callable[[int], datetime]
Hydrate = Callable[[Sequence[Any], int, TimeOf], S]

_PLAIN = frozenset({Kind.TEXT, Kind.INT, Kind.FLOAT, Kind.BYTES})
"""Kinds whose column holds the Python value itself."""


def declaration_of(cls: type[Stored]) -> Declaration:
    """The declaration of a class that is not abstract."""
    if cls.__declaration__ is None:
        raise TypeError(f"{cls.__name__} is abstract and has no rows.")
    return cls.__declaration__


def identity(value: Stored) -> tuple[str, ...]:
    """The identity of an object as the store knows it: `(key,)` or `(left_key, right_key, instance_key)`."""
    return value._identity()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - not a name for users' fields to collide with


def stored_values(value: Stored) -> dict[str, Any]:
    """The stored values of an object by field name."""
    held = value.__dict__
    found: dict[str, Any] = {}
    for part in declaration_of(type(value)).parts:
        item = held[part.name]
        found[part.name] = item if item is None or part.codec is None else part.codec.encode(item)
    return found


def encoder(cls: type[Stored]) -> Callable[[Any], Row]:
    """A function from an object to its physical row."""
    # Kept on the class, so that it goes when the class goes: servers make classes from stored specs.
    made: Callable[[Any], Row] | None = cls.__dict__.get("__encoder__")
    if made is None:
        made = _encoder(declaration_of(cls))
        cls.__encoder__ = made
    return made


def _encoder(declaration: Declaration) -> Callable[[Any], Row]:
    spec = declaration.spec
    plain = all(part.codec is None and part.spec.kind in _PLAIN for part in declaration.parts)
    textual = all(part.codec is None for part in declaration.ends) and (
        spec.key_field is None or held_in_identity(spec.key_field)
    )
    return _plain_encoder(declaration) if plain and textual else _general_encoder(declaration)


def _plain_encoder(declaration: Declaration) -> Callable[[Any], Row]:
    """For classes whose values are their columns: one lookup of all values, and a look at the integers."""
    spec = declaration.spec
    exactly = _exact_encoder(declaration)
    key = spec.key_field
    keys = ("left_key", "right_key") if spec.kind == "relation" else ()
    if key is not None:
        keys = (*keys, key.name)
    names = (*keys, *(f.name for f in spec.fields if not held_in_identity(f)))
    get = _getter(names)
    unkeyed = spec.kind == "relation" and key is None
    offset = len(keys)
    integers = tuple(
        number + offset
        for number, field in enumerate(f for f in spec.fields if not held_in_identity(f))
        if field.kind is Kind.INT
    )

    def encode(value: Any) -> Row:
        row = get(value.__dict__)
        for at in integers:
            number = row[at]
            if number is not None and not -INT64_MAX <= number <= INT64_MAX:
                return exactly(value)
        return (*row, None)

    def encode_unkeyed(value: Any) -> Row:
        row = get(value.__dict__)
        for at in integers:
            number = row[at]
            if number is not None and not -INT64_MAX <= number <= INT64_MAX:
                return exactly(value)
        return (*row[:2], "", *row[2:], None)

    return encode_unkeyed if unkeyed else encode


def _getter(names: tuple[str, ...]) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    if len(names) == 1:
        only = names[0]
        return lambda held: (held[only],)
    return cast("Callable[[dict[str, Any]], tuple[Any, ...]]", itemgetter(*names))


def _exact_encoder(declaration: Declaration) -> Callable[[Any], Row]:
    spec = declaration.spec
    return lambda value: to_physical(spec, identity(value), list(stored_values(value).values()))


def _general_encoder(declaration: Declaration) -> Callable[[Any], Row]:
    """Field by field; a row with an integer beyond 64 bits is left to the plain definition."""
    exactly = _exact_encoder(declaration)
    steps = [_step(part) for part in declaration.parts if not held_in_identity(part.spec)]

    def encode(value: Any) -> Row:
        held = value.__dict__
        row: list[Any] = list(identity(value))
        for name, convert, exact, is_int in steps:
            item = held[name]
            if item is None:
                row.append(None)
                if exact is not None:
                    row.append(None)
                continue
            try:
                main = item if convert is None else convert(item)
            except ValueError as error:
                raise _changed_since(value, name, error) from error
            if is_int and not -INT64_MAX <= main <= INT64_MAX:
                return exactly(value)
            row.append(main)
            if exact is not None:
                row.append(exact(item))
        row.append(None)
        return tuple(row)

    return encode


def _changed_since(value: Stored, name: str, error: ValueError) -> InputError:
    """What is valid when given may be changed in place afterwards: a dict, a list, a model."""
    return InputError(f"{type(value).__name__} {identity(value)!r}: {name} cannot be stored: {error}.", field=name)


_Convert = Callable[[Any], Any]


def _step(part: Part) -> tuple[str, _Convert | None, _Convert | None, bool]:
    """How one field becomes its column, and its exact text if it has one."""
    kind = part.spec.kind
    convert: _Convert | None = {
        Kind.BOOL: int,
        Kind.DATE: date.isoformat,
        Kind.DATETIME: instant,
        Kind.TIME: time_of_day,
        Kind.DECIMAL: decimal_key,
    }.get(kind)
    if part.codec is not None:
        encode = part.codec.encode
        convert = (lambda item: int(encode(item))) if kind is Kind.BOOL else encode
    exact: _Convert | None = partial(exact_text, kind) if kind in EXACT_KINDS else None
    return part.name, convert, exact, kind is Kind.INT


def hydrator(cls: type[S]) -> Hydrate[S]:
    """A function from a physical row, its commit and a way to learn that commit's time, to an object."""
    made: Hydrate[S] | None = cls.__dict__.get("__hydrator__")
    if made is None:
        made = _hydrator(cls, declaration_of(cls))
        cls.__hydrator__ = made
    return made


def _hydrator(cls: type[S], declaration: Declaration) -> Hydrate[S]:
    spec = declaration.spec
    shape = layout(spec)
    by_column = {column: name for name, column in shape.main.items() if name in declaration.names}
    names = [by_column.get(column.name, "") if not column.exact else "" for column in shape.columns[:-1]]
    plain_row = all(names)
    pick = None if plain_row else _getter_of_columns([at for at, name in enumerate(names) if name])
    keep = tuple(name for name in names if name)
    fixes = _fixes(declaration, names)
    new = cast("Callable[[type[S]], S]", object.__new__)

    def hydrate(row: Sequence[Any], commit_id: int, time_of: TimeOf) -> S:
        value = new(cls)
        held = value.__dict__
        held.update(zip(keep, row if pick is None else pick(row)))  # noqa: B905 - the row is one longer: `big`
        if row[-1] is not None:
            held.update(_big_integers(declaration, row))
        for name, fix, exact in fixes:
            item = held[name]
            if item is not None:
                held[name] = fix(item) if exact is None else fix(item, row[exact])
        set_origin(value, (commit_id, time_of))
        return value

    def hydrate_plain(row: Sequence[Any], commit_id: int, time_of: TimeOf) -> S:
        if row[-1] is not None:
            return hydrate(row, commit_id, time_of)
        value = new(cls)
        value.__dict__.update(zip(keep, row))  # noqa: B905 - as above
        set_origin(value, (commit_id, time_of))
        return value

    return hydrate if fixes or pick is not None else hydrate_plain


def _getter_of_columns(positions: list[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    if len(positions) == 1:
        only = positions[0]
        return lambda row: (row[only],)
    return cast("Callable[[Sequence[Any]], tuple[Any, ...]]", itemgetter(*positions))


def _big_integers(declaration: Declaration, row: Sequence[Any]) -> dict[str, Any]:
    whole = from_physical(declaration.spec, row)
    numbers = {f"f{number}": field.name for number, field in enumerate(declaration.spec.fields)}
    return {numbers[column]: whole[numbers[column]] for column in json.loads(row[-1])}


def _fixes(declaration: Declaration, names: list[str]) -> list[tuple[str, Callable[..., Any], int | None]]:
    """For each field that is not its column: how to get the value, and where the exact text is if there is one."""
    found: list[tuple[str, Callable[..., Any], int | None]] = []
    for part in (*declaration.ends, *declaration.parts):
        back = restore(part.spec.kind)
        if back is not None and part.spec.kind in EXACT_KINDS:
            found.append((part.name, back, names.index(part.name) + 1))
        elif back is not None:
            found.append((part.name, _alone(part.spec.kind, back), None))
        if part.codec is not None:
            found.append((part.name, part.codec.decode, None))
    return found


def _alone(kind: Kind, back: Callable[[Any, str | None], Any]) -> Callable[[Any], Any]:
    return bool if kind is Kind.BOOL else lambda item: back(item, None)


def decode_value(cls: type[Stored], name: str) -> Callable[[Any], Any] | None:
    """How a value of a field, as queries compare it (JSON parsed), becomes what an object has; None when it is that."""
    declaration = declaration_of(cls)
    part = next(part for part in (*declaration.ends, *declaration.parts) if part.name == name)
    if part.spec.kind is Kind.JSON:
        return _reader_of_copies(part.form.read)
    if part.codec is None:
        return None
    decode = part.codec.decode
    return lambda value: None if value is None else decode(value)


def _reader_of_copies(read: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    """A reader of parsed JSON that is shared with others, so that nothing the caller does to the value reaches them."""

    def decode(value: Any) -> Any:
        copied = copy.deepcopy(value)
        return copied if copied is None or read is None else read(copied)

    return decode


def from_stored(cls: type[S], key: Sequence[str], values: Mapping[str, Any]) -> S:
    """A validated object from an identity and plain values: as stored, with JSON fields parsed, as upgraders see them.

    Missing fields take their defaults. The identity is given by `key`; values that contradict it are an error.
    """
    declaration = declaration_of(cls)
    arguments = dict(values)
    for part in declaration.parts:
        if part.spec.kind is Kind.JSON and arguments.get(part.name) is not None:
            arguments[part.name] = part.take(arguments[part.name])
    for name, text in zip(_identity_arguments(declaration), key, strict=False):
        if name in arguments and str(arguments[name]) != text:
            raise ValueError(
                f"{declaration.spec.name}.{name} is {arguments[name]!r} in a row with key {text!r}: keys cannot change"
            )
        arguments[name] = text
    value = object.__new__(cls)
    value.__dict__.update(declaration.validator.validate_python(arguments, **BY_NAME)[0])
    return value


def _identity_arguments(declaration: Declaration) -> tuple[str, ...]:
    key = declaration.spec.key_field
    return (*(part.name for part in declaration.ends), *(() if key is None else (key.name,)))
