"""Stores in memory whose upkeep is tested: a clock that stands still, and object storage that can be told to fail."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from store_objects.counted import open_on
from store_objects.shops import SHOP

from ontologia import OntologiaConfig, Ontology
from ontologia.base.clock import ManualClock
from ontologia.objects.faults import Fault, FaultyObjects
from ontologia.objects.memory import MemoryObjects
from ontologia.store.objects.backend import ObjectsBackend
from ontologia.store.objects.initialise import initialise_on

START = datetime(2026, 3, 1, tzinfo=UTC)
WEEK = timedelta(days=7)


class Storage(MemoryObjects):
    """Object storage in this process with a clock of its own, under the kind of name that people give theirs."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock=clock)
        self.uri = "s3://memory/upkeep"


@dataclass
class World:
    """A store, what it lies on, and the time."""

    storage: Storage
    objects: FaultyObjects
    clock: ManualClock
    config: OntologiaConfig
    onto: Ontology

    @property
    def backend(self) -> ObjectsBackend:
        backend = self.onto._backend
        assert isinstance(backend, ObjectsBackend)
        return backend

    def stored(self, under: str = "") -> list[str]:
        return [one.key for one in self.storage.list(under)]

    def state(self) -> dict[str, bytes]:
        """All that is stored."""
        return {key: self.storage.get(key).data for key in self.stored()}

    def read(self, key: str) -> Any:
        return json.loads(self.storage.get(key).data)

    def change(self, key: str, change: Callable[[Any], Any]) -> None:
        """Tamper with a JSON object."""
        self.storage.put(key, json.dumps(change(self.read(key))).encode())

    def later(self, time: timedelta = WEEK + timedelta(hours=1)) -> None:
        self.clock.set(self.clock.now() + time)

    def interfere(self, method: str, key: str, **what: Any) -> Fault:
        return self.objects.add(Fault(method, key, **what))

    def stranger(self, folder: Path, **options: Any) -> Ontology:
        """The same store from a machine that has nothing cached."""
        config = self.config.model_copy(update={"s3_cache_dir": str(folder), "runtime_id": "stranger"})
        return open_on(self.storage, config, self.clock, **{**SHOP, **options})


@contextmanager
def world(folder: Path, **options: Any) -> Generator[World]:
    """An empty store."""
    clock = ManualClock(START)
    storage = Storage(clock)
    config = OntologiaConfig(s3_cache_dir=str(folder / "cache"), runtime_id="keeper", s3_lock_timeout_ms=50)
    initialise_on(storage, config, clock=clock)
    objects = FaultyObjects(storage)
    onto = open_on(objects, config, clock, **{**SHOP, **options})
    yield World(storage, objects, clock, config, onto)
    onto.close()
