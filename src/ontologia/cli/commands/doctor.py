"""`doctor`: whether this installation, these settings and this store are in order, and what to do where they are not.

Nothing in the store is created or changed. On object storage the promises that writers rely on are tried with objects
of its own, which are removed again.
"""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from ontologia.cli import exits
from ontologia.cli.checks import Checked, fault
from ontologia.cli.invocation import Invocation, pass_invocation
from ontologia.cli.rendering import plural, show_rows
from ontologia.cli.structure import Command
from ontologia.cli.table import visible
from ontologia.errors import OntologiaError

_LITTLE_SPACE = 256 * 1024 * 1024
_YEAR_OF_RELEASE = 2026
_MARKS = {"ok": ("green", "ok  "), "warn": ("yellow", "warn"), "fail": ("red", "fail")}


@click.command(cls=Command)
@pass_invocation
def doctor(invocation: Invocation) -> int:
    """Check the installation, the settings and the store.

    Ends with exit code 4 when something has to be fixed, with 5 when a bucket cannot be reached; warnings leave it at
    0. On object storage it tries whether the server keeps the promises that writers rely on, which takes some
    dozens of small requests.
    """
    found = [*_installation(), *_settings(invocation), *_place(invocation)]
    failed = [one for one in found if one.status == "fail"]
    if invocation.as_json:
        invocation.emit_json({"ok": not failed, "checks": [asdict(one) for one in found]})
    elif invocation.format == "csv":
        show_rows(invocation, ("name", "status", "found", "fix"), [asdict(one) for one in found], "")
    else:
        width = max(len(one.name) for one in found)
        for one in found:
            colour, mark = _MARKS[one.status]
            click.echo(f"{click.style(mark, fg=colour)}  {one.name.ljust(width)}  {visible(one.found)}")
            if one.fix:
                click.echo(f"      {' ' * width}  fix: {one.fix}")
        click.echo(f"\n{plural(len(failed), 'fault')}, {plural(sum(o.status == 'warn' for o in found), 'warning')}")
    if any(one.name == "bucket" for one in failed):
        return exits.STORAGE
    return exits.UNHEALTHY if failed else exits.OK


def _installation() -> Iterator[Checked]:
    from ontologia import __version__
    from ontologia.store.sqlite.backend import OLDEST_SQLITE

    yield Checked("ontologia", "ok", f"{__version__} at {Path(__file__).parents[2]}")
    yield Checked("python", "ok", f"{platform.python_version()} ({sys.executable})")
    old = sqlite3.sqlite_version_info < OLDEST_SQLITE
    yield Checked(
        "sqlite",
        "fail" if old else "ok",
        sqlite3.sqlite_version,
        f"Install a Python with SQLite {'.'.join(map(str, OLDEST_SQLITE))} or newer." if old else None,
    )
    for name in ("pydantic", "pyarrow", "duckdb", "obstore", "click", "rich"):
        yield _package(name, needed=True)
    for name in ("pandas", "polars"):
        yield _package(name, needed=False)
    now = datetime.now(UTC)
    wrong = now.year < _YEAR_OF_RELEASE
    yield Checked(
        "clock",
        "warn" if wrong else "ok",
        now.isoformat(timespec="seconds"),
        "Set the system's clock." if wrong else None,
    )


def _package(name: str, *, needed: bool) -> Checked:
    if find_spec(name) is None:
        fix = "pip install ontologia" if needed else "pip install 'ontologia[frames]'"
        return Checked(name, "fail" if needed else "ok", "not installed", fix if needed else None)
    try:
        return Checked(name, "ok", version(name) if needed else f"{version(name)} (optional)")
    except PackageNotFoundError:
        return Checked(name, "ok", "installed, version unknown")


def _settings(invocation: Invocation) -> Iterator[Checked]:
    try:
        settings = invocation.config()
    except OntologiaError as error:
        yield fault("settings", error)
        return
    for name, origin in settings.origins.items():
        if origin == "default" and name.startswith("s3_"):
            continue
        yield Checked(f"setting {name}", "ok", f"{getattr(settings, name)} ({origin})")


def _place(invocation: Invocation) -> Iterator[Checked]:
    try:
        place = invocation.binding()
    except OntologiaError as error:
        yield fault("place", error)
        return
    if place.on_objects:
        from ontologia.cli.commands.bucket import bucket_checks

        yield from bucket_checks(invocation, place)
    else:
        yield from _directory(Path(place.path))
        yield from _store(invocation)


def _directory(path: Path) -> Iterator[Checked]:
    folder = path.absolute().parent
    if not folder.is_dir():
        yield Checked("directory", "fail", f"{folder} does not exist", f"mkdir -p {folder}")
        return
    writable = os.access(folder, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))
    yield Checked(
        "write permission",
        "ok" if writable else "warn",
        f"{path.absolute()} may {'' if writable else 'not '}be written",
        None if writable else "Reading works; to write, make the file and its directory writable.",
    )
    free = shutil.disk_usage(folder).free
    low = free < _LITTLE_SPACE
    yield Checked(
        "disk space", "warn" if low else "ok", f"{free / 2**30:,.1f} GiB free", "Free some space." if low else None
    )


def _store(invocation: Invocation) -> Iterator[Checked]:
    try:
        with invocation.open() as store:
            place: dict[str, Any] = store.storage_info()
            head = store.head()
            types = len(store.stored_types())
    except OntologiaError as error:
        yield fault("store", error, "warn" if error.kind == "uninitialized" else "fail")
        return
    except Exception as error:  # noqa: BLE001 - a doctor reports what it finds
        yield fault("store", error)
        return
    yield Checked("store", "ok", f"{place['uri']}, head {head}, {plural(types, 'type')}, {place['bytes']:,} bytes")
    yield Checked("format", "ok", str(place["format"]))
    wal = place["journal_mode"] == "wal"
    fix = None if wal else "Open the store once for writing; it sets WAL mode."
    yield Checked("journal", "ok" if wal else "warn", str(place["journal_mode"]), fix)
