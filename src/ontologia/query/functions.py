"""The tests that engines cannot do exactly, as functions that they can call.

Each takes plain values and gives 0, 1 or a length, with the meaning of `reference`; null passes no test. What to test
inside JSON is described by a canonical JSON text, so that it is a parameter like any other and is compiled once.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from functools import lru_cache
from typing import Any

from ontologia.model.spec import Kind
from ontologia.query.declared import SCALAR_READERS
from ontologia.query.evaluate import measured, reader, ref_test
from ontologia.query.predicates import Op, Ref


def icontains(value: str | None, folded: str) -> int:
    """1 when the text has the folded part in it, without regard to case."""
    return int(value is not None and folded in value.casefold())


def matches_pattern(value: str | None, pattern: str) -> int:
    """1 when the regular expression is found in the text."""
    return int(value is not None and _pattern(pattern).search(value) is not None)


@lru_cache(maxsize=256)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def test_spec(ref: Ref, op: Op, literal: Any) -> str:
    """A comparison inside JSON as text for `json_test`."""
    each = None if ref.each is None else list(ref.each)
    return json.dumps([list(ref.path), each, ref.length, ref.declared, op.value, literal], default=_record)


_TEXT_FORMS: dict[type[Any], tuple[str, Callable[[Any], str]]] = {
    Decimal: ("decimal", str),
    datetime: ("datetime", datetime.isoformat),
    date: ("date", date.isoformat),
    time: ("time", time.isoformat),
    bytes: ("bytes", lambda value: base64.b64encode(value).decode()),
}


def _record(value: Any) -> dict[str, str]:
    """A literal that JSON has no form for; no literal is itself a dict."""
    name, form = _TEXT_FORMS[type(value)]
    return {name: form(value)}


def _literal(record: dict[str, str]) -> Any:
    ((name, text),) = record.items()
    return SCALAR_READERS[name](text)


def length_spec(ref: Ref) -> str:
    """A place inside JSON as text for `json_length`."""
    return json.dumps([list(ref.path), ref.declared])


def json_test(stored: str | None, spec: str) -> int:
    """1 when the place that the spec names in a JSON text passes its test."""
    return int(stored is not None and _test(spec)(stored))


def json_length(stored: str | None, spec: str) -> int | None:
    """The length of what is at a place in a JSON text; None when there is nothing that has one."""
    return None if stored is None else measured(_reader(spec)(stored))


@lru_cache(maxsize=1024)
def _test(spec: str) -> Callable[[Any], bool]:
    path, each, length, declared, op, literal = json.loads(spec, object_hook=_literal)
    if isinstance(literal, list):
        literal = tuple(literal)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    each = None if each is None else tuple(each)
    return ref_test(Ref("self", "", Kind.JSON, tuple(path), each, length, declared=declared), Op(op), literal)


@lru_cache(maxsize=1024)
def _reader(spec: str) -> Callable[[Any], Any]:
    path, declared = json.loads(spec)
    return reader(Ref("self", "", Kind.JSON, tuple(path), declared=declared))
