"""Objects as records: what a line of JSONL says, and what every other format is made of.

A record names kind, type and identity and holds the fields as exact JSON. With metadata it also says which commit
wrote it.
"""

from __future__ import annotations

import json
from typing import Any

from ontologia.model.declare import Entity, Relation
from ontologia.model.rows import identity
from ontologia.store.transfer.cells import json_writers

IDENTITY = ("key", "left_key", "right_key", "instance_key")
META = ("commit_id", "committed_at")
Thing = Entity | Relation[Any, Any]
RECORD_NAMES = frozenset({"kind", "type", "fields", *IDENTITY, *META})


def fields_json(thing: Thing) -> dict[str, Any]:
    """The fields of an object as exact JSON."""
    held = thing.__dict__
    found: dict[str, Any] = {}
    for name, write in json_writers(type(thing)):
        value = held[name]
        found[name] = None if value is None else write(value)
    return found


def identity_json(thing: Thing) -> dict[str, str]:
    """The identity of an object by name; the instance key only where there is one."""
    spec = type(thing).__spec__
    pairs = zip(spec.identity, identity(thing), strict=True)
    return {name: text for name, text in pairs if text or name != "instance_key"}


def record_of(thing: Thing, *, meta: bool) -> dict[str, Any]:
    """An object as a record."""
    spec = type(thing).__spec__
    record: dict[str, Any] = {"kind": spec.kind, "type": spec.name, **identity_json(thing)}
    record["fields"] = fields_json(thing)
    if meta:
        origin = thing.meta()
        record["commit_id"] = origin.commit_id
        record["committed_at"] = origin.committed_at.isoformat()
    return record


def record_line(thing: Thing, *, meta: bool) -> str:
    """An object as a line of JSONL."""
    return json.dumps(record_of(thing, meta=meta), ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n"


def is_record(value: dict[str, Any]) -> bool:
    """Whether a JSON object is a record of ours, rather than plain fields."""
    return isinstance(value.get("type"), str) and isinstance(value.get("fields"), dict) and value.keys() <= RECORD_NAMES
