"""Running `onto` in tests: in this process where that is enough, as a real program where it matters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from ontologia import Entity, Field, OntologiaConfig, Ontology, Relation
from ontologia.cli import main

MODELS = """
from typing import Any
from ontologia import Entity, Field, Relation

class Customer(Entity):
    id: Field[str] = Field(primary_key=True)
    name: Field[str]
    tier: Field[str] = Field(default="Standard", index=True)
    age: Field[int | None] = None
    profile: Field[dict[str, Any]] = Field(default_factory=dict)

class Product(Entity):
    sku: Field[str] = Field(primary_key=True)
    title: Field[str]

class Subscription(Relation[Customer, Product]):
    seats: Field[int]
"""
"""The module that users of the command line would have."""


class Customer(Entity):
    id: Field[str] = Field(primary_key=True)
    name: Field[str]
    tier: Field[str] = Field(default="Standard", index=True)
    age: Field[int | None] = Field(default=None)
    profile: Field[dict[str, Any]] = Field(default_factory=dict[str, Any])


class Product(Entity):
    sku: Field[str] = Field(primary_key=True)
    title: Field[str]


class Subscription(Relation[Customer, Product]):
    seats: Field[int]


@dataclass(frozen=True)
class Run:
    """How a call of `onto` ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment without settings of ours, at 80 columns."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ONTOLOGIA_", "_ONTO"))}
    return {**kept, "COLUMNS": "80", "NO_COLOR": "1", **(extra or {})}


def onto(*arguments: object, input: str | None = None, env: Mapping[str, str] | None = None) -> Run:  # noqa: A002
    """`onto` in this process, in the working directory."""
    changed: dict[str, str | None] = {name: None for name in os.environ if name.startswith("ONTOLOGIA_")}
    result = CliRunner().invoke(
        main, [str(one) for one in arguments], input=input, env={**changed, "COLUMNS": "80", **(env or {})}
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Run(result.exit_code, result.stdout, result.stderr)


def program(
    *arguments: object,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
) -> Run:
    """`onto` as a program of its own."""
    result = subprocess.run(
        [sys.executable, "-m", "ontologia.cli", *map(str, arguments)],
        cwd=cwd,
        env=clean_environment(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=before,
    )
    return Run(result.returncode, result.stdout, result.stderr)


def shop(path: Path | str) -> Path:
    """A store with three commits, in a file."""
    fill(OntologiaConfig(sqlite_synchronous="normal"), db_path=path)
    return Path(path)


def fill(config: OntologiaConfig, **place: Any) -> None:
    """Write the three commits of the shop, wherever the store is."""
    named = config.model_copy(update={"runtime_id": "test"})
    with Ontology(config=named, entity_types=[Customer, Product], relation_types=[Subscription], **place) as store:
        with store.session() as session:
            session.ensure(
                [
                    Customer(id="c1", name="Alice", age=30, profile={"city": "Oslo", "pets": [{"kind": "cat"}]}),
                    Customer(id="c2", name="Bob", tier="Gold"),
                    Customer(id="c3", name='Carol, née "X"\n', tier="", age=41),
                ]
            )
            session.commit(meta={"source": "crm"})
        with store.session() as session:
            session.ensure([Product(sku="p1", title="Ledger"), Product(sku="p2", title="Store")])
            session.ensure(Subscription(left_key="c1", right_key="p1", seats=3))
            session.ensure(Subscription(left_key="c2", right_key="p2", seats=5))
        with store.session() as session:
            session.ensure(Customer(id="c1", name="Alice", tier="Gold", age=31, profile={"city": "Bergen"}))
