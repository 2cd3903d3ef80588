"""What the children of the concurrency and durability tests do: `python children.py VERB PATH …`.

Each verb prints one line per acknowledged commit and nothing else. Types are declared here so that parents and
children share them.
"""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ontologia import Entity, Field, OntologiaConfig, OntologiaError, Ontology, Relation


class Item(Entity):
    """A row of one writer."""

    id: Field[str] = Field(primary_key=True)
    writer: Field[str]
    number: Field[int]


class ItemWithNote(Entity, name="Item"):
    """The same type, one version on."""

    id: Field[str] = Field(primary_key=True)
    writer: Field[str]
    number: Field[int]
    note: Field[str] = Field(default="")


class Twin(Entity):
    """Always written together with its items, under the same number."""

    id: Field[str] = Field(primary_key=True)
    number: Field[int]
    filler: Field[str] = Field(default="")


class Pair(Relation[Item, Twin]):
    """Joins an item and its twin, under the same number as both."""

    number: Field[int]


def say(*words: object) -> None:
    """Acknowledge something to the parent."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def open_items(path: str, **options: Any) -> Ontology:
    """The store of these tests; `settings` go to the config."""
    settings = {"lock_timeout_ms": 60_000, "sqlite_synchronous": "normal", **options.pop("settings", {})}
    return Ontology(
        path, config=OntologiaConfig(**settings), entity_types=[Item, Twin], relation_types=[Pair], **options
    )


def write_batch(onto: Ontology, writer: str, number: int, rows: int = 20) -> int | None:
    """One commit over three types in which every row carries the same number."""
    session = onto.session()
    keys = [f"{writer}-{at}" for at in range(rows)]
    session.ensure(Item(id=key, writer=writer, number=number) for key in keys)
    session.ensure(Twin(id=key, number=number, filler="x" * 100) for key in keys)
    session.ensure(Pair(left_key=key, right_key=key, number=number) for key in keys)
    return session.commit()


def write(path: str, writer: str, count: str) -> None:
    """So many one-row commits, each of which also changes a row that all writers share."""
    onto = open_items(path)
    for number in range(int(count)):
        session = onto.session()
        session.ensure(Item(id=f"{writer}-{number}", writer=writer, number=number))
        session.ensure(Item(id="shared", writer=writer, number=number))
        say(session.commit())


def batches(path: str, writer: str) -> None:
    """Batches without end."""
    onto = open_items(path)
    number = onto.head()
    while True:
        number += 1
        say(write_batch(onto, writer, number), number)


def until_refused(path: str, writer: str) -> None:
    """Commits until one fails, and then the kind of the error."""
    onto = open_items(path)
    number = 0
    try:
        while True:
            session = onto.session()
            session.ensure(Item(id=f"{writer}-{number}", writer=writer, number=number))
            say(session.commit())
            number += 1
    except OntologiaError as error:
        say(error.kind)


def hold(path: str) -> None:
    """Hold the write lock until told to let go."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    say("held")
    sys.stdin.readline()
    connection.execute("ROLLBACK")
    connection.close()
    say("free")


def create(path: str) -> None:
    """Open a store that may not be there yet, at the same time as others do, and write one row."""
    sys.stdin.readline()
    onto = open_items(path)
    session = onto.session()
    session.ensure(Item(id=str(os.getpid()), writer="w", number=1))
    say(session.commit())


def fork(path: str) -> None:
    """Use one `Ontology` on both sides of a fork."""
    onto = open_items(path)
    write_batch(onto, "parent", 1)
    stream = iter(onto.query().entities(Item))
    next(stream)
    child = os.fork()
    if child == 0:
        write_batch(onto, "child", 1)
        found = onto.query().entities(Item).count()
        os._exit(0 if found == 40 else 3)
    write_batch(onto, "parent", 2)
    _, status = os.waitpid(child, 0)
    assert len(list(stream)) == 19
    assert status == 0, f"the child ended with {status}"
    assert onto.query().entities(Item).count() == 40
    say(onto.head())


def die(path: str, point: str) -> None:
    """One acknowledged commit, then one during which the process kills itself at a chosen point."""
    from ontologia.store.sqlite.writer import SqliteWriter

    onto = open_items(path)
    say(write_batch(onto, "w", 1))

    def killed(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def after(method: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            method(*arguments, **options)
            killed()

        return wrapped

    place, _, method = point.partition("-")
    if method in {"append", "publish"}:
        setattr(SqliteWriter, method, killed if place == "before" else after(getattr(SqliteWriter, method)))
    match point:
        case "migrating":
            newer = Ontology(path, entity_types=[ItemWithNote])
            newer.migrate(apply=True, force=True, progress=killed)
        case "midway":
            session = onto.session()
            session.ensure_rows(Twin, [{"id": f"{at:06}", "number": 2, "filler": "y" * 50} for at in range(20_000)])
            session.commit(progress=killed)
        case _:
            write_batch(onto, "w", 2)


def fill(path: str) -> None:
    """Commit until the disk (as far as this process may fill it) is full; then make room and try the same again."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    onto = open_items(path)
    say(write_batch(onto, "w", 1))
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    used = sum(Path(f"{path}{suffix}").stat().st_size for suffix in ("", "-wal"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (used + 200_000, hard))
    number = 1
    session = onto.session()
    try:
        while True:
            number += 1
            session.ensure(Twin(id=f"{number}-{at}", number=number, filler="z" * 500) for at in range(100))
            say(session.commit())
    except OntologiaError as error:
        say(error.kind)
    say(onto.head(), onto.query().entities(Twin).count())
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    say(session.commit())


VERBS: dict[str, Callable[..., None]] = {
    "write": write,
    "batches": batches,
    "until-refused": until_refused,
    "hold": hold,
    "create": create,
    "fork": fork,
    "die": die,
    "fill": fill,
}

if __name__ == "__main__":
    VERBS[sys.argv[1]](*sys.argv[2:])
