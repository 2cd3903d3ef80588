"""What processes of their own do to a store on S3, forked from one that has everything loaded (see `nursery`).

Each verb prints one line per acknowledgement and nothing else. A process that is to die is killed by SIGKILL at a
chosen request: just before it is sent, or once the server has carried it out and before anybody here knows.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from typing import Any

from store_objects.broken import ChaoticObjects
from store_objects.counted import Customer, open_on, write
from store_objects.shops import AccountInCents, AccountWithOwners, Novelty, balance_in_cents, batch, owner_as_list

import ontologia.objects.s3
from ontologia import OntologiaConfig, OntologiaError, Ontology
from ontologia.objects.faults import Fault, FaultyObjects, kill_process
from ontologia.objects.port import Objects
from ontologia.store.objects.initialise import initialise

Place = dict[str, Any]


def say(*words: object) -> None:
    """Acknowledge something to the parent."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def stop() -> None:
    """Stand still until somebody sends SIGCONT."""
    say("stopped")
    os.kill(os.getpid(), signal.SIGSTOP)


def settings(place: Place, **others: Any) -> OntologiaConfig:
    return OntologiaConfig(**{**place["settings"], **others})


def breakable(place: Place, **options: Any) -> tuple[Ontology, FaultyObjects]:
    """The store of these tests, and a way to interfere with its requests."""
    config = settings(place)
    objects = FaultyObjects(ontologia.objects.s3.open_objects(place["uri"], config))
    return open_on(objects, config, **options), objects


def at(moment: str, method: str, key: str, action: Callable[[], object]) -> Fault:
    """Do something just before a request is sent, or once it was carried out and before anybody here knows."""
    return Fault(method, key, before=action) if moment == "before" else Fault(method, key, after=action)


# What a process may be doing when it dies


def compact(onto: Ontology) -> None:
    onto.compact(apply=True)


def repair(onto: Ontology) -> None:
    onto.repair_index(apply=True)


def clean(onto: Ontology) -> None:
    onto.gc(grace=timedelta(days=-1), apply=True)


def drop(onto: Ontology) -> None:
    token = onto.drop_type("relation", "Subscription", purge=True).token
    onto.drop_type("relation", "Subscription", purge=True, apply=True, token=token)


def migrate(onto: Ontology) -> None:
    onto.migrate(apply=True, force=True)


WORKS: dict[str, tuple[Callable[[Ontology], object], dict[str, Any]]] = {
    "commit": (lambda onto: batch(onto, 2), {}),
    "register": (lambda onto: write(onto, Novelty(id="n", number=2)), {"entity_types": [Novelty]}),
    "compact": (compact, {}),
    "repair": (repair, {}),
    "clean": (clean, {}),
    "drop": (drop, {}),
    "second-migration": (migrate, {"entity_types": [AccountInCents], "upgraders": [balance_in_cents]}),
    "third-migration": (
        migrate,
        {"entity_types": [AccountWithOwners], "upgraders": [balance_in_cents, owner_as_list]},
    ),
}


def die(place: Place, work: str, moment: str, method: str, key: str) -> None:
    """Do a piece of work, and be killed at a request."""
    task, options = WORKS[work]
    onto, objects = breakable(place, **options)
    objects.add(at(moment, method, key, kill_process))
    task(onto)
    say("survived")


def die_emptying(place: Place, token: str, moment: str, method: str, key: str) -> None:
    """Begin a new store in place of the old one, and be killed at a request."""
    plain = ontologia.objects.s3.open_objects

    def broken(uri: str, config: OntologiaConfig) -> Objects:
        return FaultyObjects(plain(uri, config), at(moment, method, key, kill_process))

    ontologia.objects.s3.open_objects = broken
    initialise(place["uri"], settings(place), force=True, token=token)
    say("survived")


def pause(place: Place, moment: str, method: str, key: str) -> None:
    """Commit, and stand still at a request until told to go on; then say how it ended."""
    onto, objects = breakable(place)
    objects.add(at(moment, method, key, stop))
    try:
        say("committed", write(onto, Customer(id="shared", name="paused"), Customer(id="paused", name="x")))
    except OntologiaError as error:
        say(error.kind)
    say("head", onto.head())


def _attempt(onto: Ontology, *things: Any) -> None:
    """One commit, tried until its outcome is known, as a careful program would do it."""
    session = onto.session()
    session.ensure(things)
    while True:
        try:
            say("ok", session.commit())
        except OntologiaError as error:
            say(error.kind, getattr(error, "manifest_path", ""))
            if error.kind not in {"lock-contention", "lease-expired", "head-mismatch", "storage-backend"}:
                return
        else:
            return


def write_many(place: Place, writer: str, count: str, chance: str = "0", slow_s: str = "0") -> None:
    """Commits one after another, each with a row of its own and one that all share; the server may misbehave."""
    config = settings(place, runtime_id=writer)
    objects = ontologia.objects.s3.open_objects(place["uri"], config)
    onto = open_on(ChaoticObjects(objects, writer, float(chance), float(slow_s)) if float(chance) else objects, config)
    for number in range(int(count)):
        _attempt(onto, Customer(id=f"{writer}-{number}", name=writer), Customer(id="shared", name=f"{writer}{number}"))


def batches(place: Place) -> None:
    """Batches without end."""
    onto, _ = breakable(place)
    number = onto.head()
    while True:
        number += 1
        say(batch(onto, number), number)


def serve() -> None:
    """Fork a process for each request to start one, and say how it ended to whoever waits for it."""
    import_module("pandas")  # which pyarrow loads at the first write: once here, not in every process
    for line in sys.stdin:
        match json.loads(line):
            case ["start", pipe, verb, *arguments]:
                child = os.fork()
                if child == 0:
                    _become(pipe, verb, arguments)
                say("started", child)
            case ["wait", child]:
                _, status = os.waitpid(child, 0)
                say("ended", os.waitstatus_to_exitcode(status))
            case other:
                raise ValueError(other)


def _become(pipe: str, verb: str, arguments: list[str]) -> None:
    """Do the work of a process that was just forked, and end it."""
    die_with_parent()
    try:
        sys.stdout = open(pipe, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - open for as long as the process lives
        place, *others = arguments
        VERBS[verb](json.loads(place), *others)
    except BaseException:  # noqa: BLE001 - whoever forked it must not go on here
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def die_with_parent() -> None:
    """Be killed when the process that forked this one ends, so that no test leaves one behind."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


VERBS: dict[str, Callable[..., None]] = {
    "die": die,
    "die-emptying": die_emptying,
    "pause": pause,
    "write": write_many,
    "batches": batches,
}

if __name__ == "__main__":
    serve()
