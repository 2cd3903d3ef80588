"""What `doctor` asks of a bucket: whether it can be reached, what the server promises, how the store in it is.

The promises are tried with objects of its own, which are removed again; the store is only read.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ontologia.cli.checks import Checked, fault
from ontologia.cli.invocation import Invocation
from ontologia.cli.rendering import plural
from ontologia.errors import OntologiaError, StorageBackendError

if TYPE_CHECKING:
    from ontologia.config import OntologiaConfig
    from ontologia.objects.port import Objects
    from ontologia.objects.probe import Check
    from ontologia.store.binding import Binding

_FORBIDDEN = (401, 403)


def bucket_checks(invocation: Invocation, place: Binding) -> Iterator[Checked]:
    """Everything there is to say about a store on object storage."""
    from ontologia.objects.s3 import open_objects

    config = invocation.config()
    yield Checked("endpoint", "ok", config.s3_endpoint_url or "the provider's own")
    try:
        objects = open_objects(place.uri, config)
    except OntologiaError as error:
        yield fault("bucket", error)
        return
    with closing(objects):
        try:
            next(iter(objects.list("meta/")), None)
        except OntologiaError as error:
            yield fault("bucket", error)
            return
        yield Checked("bucket", "ok", f"{place.uri} can be reached and listed")
        yield from _server(objects, config)
    yield from _store(invocation)


def _server(objects: Objects, config: OntologiaConfig) -> Iterator[Checked]:
    """What the server promises, and its clock."""
    from ontologia.objects.probe import probe

    try:
        for check in probe(objects).checks:
            yield _promise(check)
        yield _clock(objects, config)
    except StorageBackendError as error:
        if error.details.get("status") not in _FORBIDDEN:
            yield fault("server", error)
            return
        fix = "Reading works; to write, allow s3:PutObject and s3:DeleteObject too."
        yield Checked("write permission", "warn", error.message, fix)


def _promise(check: Check) -> Checked:
    name = f"server: {check.name}"
    if check.ok:
        return Checked(name, "ok", check.detail)
    if check.required:
        return Checked(name, "fail", check.detail, "Use a server with atomic conditional writes; commits need them.")
    return Checked(name, "warn", check.detail, "Nothing: locks are then given back by letting them run out at once.")


def _clock(objects: Objects, config: OntologiaConfig) -> Checked:
    """Whether this machine and the server agree on the time, as far as a fresh object tells."""
    from ontologia.objects.probe import SCRATCH

    key = f"{SCRATCH}{secrets.token_hex(16)}/clock"
    before = datetime.now(UTC)
    objects.put(key, b"")
    try:
        stamped = next((one.modified for one in objects.list(key)), before)
    finally:
        objects.delete(key)
    # Servers stamp whole seconds.
    behind = (before - stamped).total_seconds() - 1
    ahead = (stamped - datetime.now(UTC)).total_seconds()
    apart = max(behind, ahead, 0.0)
    allowed = config.s3_lease_ttl_ms / 3000
    if apart <= allowed:
        return Checked("server clock", "ok", f"within {max(apart, 1.0):.0f} s of this machine's")
    fix = f"Set this machine's clock: leases need it right to within {allowed:.0f} s (a third of s3_lease_ttl_ms)."
    return Checked("server clock", "warn", f"{apart:.0f} s apart from this machine's", fix)


def _store(invocation: Invocation) -> Iterator[Checked]:
    try:
        with invocation.open() as store:
            info = store.storage_info()
            types = len(store.stored_types())
            problems = store.verify_index()
    except OntologiaError as error:
        yield fault("store", error, "warn" if error.kind == "uninitialized" else "fail")
        return
    except Exception as error:  # noqa: BLE001 - a doctor reports what it finds
        yield fault("store", error)
        return
    yield Checked("store", "ok", f"{info['uri']}, head {info['head']}, {plural(types, 'type')}")
    yield Checked("format", "ok", str(info["format"]))
    lock = info["lock"]
    held = "free" if lock is None else f"held by {lock['owner_id']} until {lock['expires_at']}"
    yield Checked("write lock", "ok", held)
    if problems:
        found = f"{plural(len(problems), 'problem')}, the first: {problems[0].message}"
        yield Checked("indices", "warn", found, "`onto index repair --apply`; queries are right all the same.")
    else:
        yield Checked("indices", "ok", f"every index fits commit {info['head']}")
