"""Reads that meet migrations, other writers and missing files."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from ontologia import (
    Entity,
    Field,
    InputError,
    Ontology,
    QueryError,
    Relation,
    SchemaBoundaryError,
    UninitializedStorageError,
    left,
)

NUMBERS = itertools.count(1)


class Person(Entity):
    id: Field[str] = Field(primary_key=True)
    tier: Field[str]


class Thing(Entity):
    id: Field[str] = Field(primary_key=True)


class Owns(Relation[Person, Thing]):
    share: Field[int] = Field(default=1)


def owners(path: Path) -> Ontology:
    onto = Ontology(path, entity_types=[Person, Thing], relation_types=[Owns])
    with onto.session() as session:
        session.ensure([Person(id="p", tier="Gold"), Person(id="q", tier="Basic"), Thing(id="t")])
        session.ensure([Owns(left_key="p", right_key="t"), Owns(left_key="q", right_key="t")])
    return onto


def test_raw_reads_see_ends_across_a_migration(tmp_path: Path) -> None:
    class LaterPerson(Entity, name="Person"):
        id: Field[str] = Field(primary_key=True)
        tier: Field[str]
        mail: Field[str] = Field(default="")

    class LaterOwns(Relation[LaterPerson, Thing], name="Owns"):
        share: Field[int] = Field(default=1)

    owners(tmp_path / "onto.db").close()
    onto = Ontology(tmp_path / "onto.db", entity_types=[LaterPerson, Thing], relation_types=[LaterOwns])
    onto.migrate(force=True)
    gold = left(LaterOwns).tier == "Gold"
    for condition, key in ((gold, "p"), (~gold, "q")):
        asked = onto.query().relations(LaterOwns).where(condition).as_of(1)
        assert [edge.left_key for edge in asked] == [key]
        assert [row["left_key"] for row in asked.rows()] == [key]
        assert asked.to_arrow()["left_key"].to_pylist() == [key]


def test_raw_rows_are_there_for_a_type_that_drifted(tmp_path: Path) -> None:
    class Drifted(Entity, name="Person"):
        id: Field[str] = Field(primary_key=True)
        tier: Field[int]

    owners(tmp_path / "onto.db").close()
    people = Ontology(tmp_path / "onto.db", entity_types=[Drifted]).query().entities(Drifted)
    assert [row["tier"] for row in people.rows()] == ["Gold", "Basic"]
    assert people.to_arrow().num_rows == 2
    assert list(people.where(Drifted.tier == 1).rows()) == []


def test_a_default_that_is_never_the_same_does_not_speak_for_the_past(tmp_path: Path) -> None:
    def declare(**made: Any) -> type[Entity]:
        class Later(Entity, name="Person"):
            id: Field[str] = Field(primary_key=True)
            tier: Field[str]
            extra: Field[int | list[int]] = Field(**made)

        return Later

    owners(tmp_path / "onto.db").close()
    steady = declare(default_factory=list)
    onto = Ontology(tmp_path / "onto.db", entity_types=[steady])
    onto.migrate(force=True)
    assert len(onto.query().entities(steady).as_of(1).collect()) == 2
    unsteady = declare(default_factory=lambda: next(NUMBERS))
    onto = Ontology(tmp_path / "onto.db", entity_types=[unsteady])
    with pytest.raises(SchemaBoundaryError, match="another one each time"):
        onto.query().entities(unsteady).as_of(1).collect()


def test_a_file_that_disappears_is_missed_and_not_made_again(tmp_path: Path) -> None:
    onto = owners(tmp_path / "onto.db")
    onto.close()
    for path in tmp_path.iterdir():
        path.unlink()
    with pytest.raises(UninitializedStorageError):
        onto.query().entities(Person).count()
    assert list(tmp_path.iterdir()) == []


def test_a_plan_follows_the_indexes(tmp_path: Path) -> None:
    class Indexed(Entity, name="Person"):
        id: Field[str] = Field(primary_key=True)
        tier: Field[str] = Field(index=True)

    onto = owners(tmp_path / "onto.db")
    asked = onto.query().entities(Person).where(Person.tier == "Gold")
    assert asked.explain().plan[0].startswith("SCAN")
    with Ontology(tmp_path / "onto.db", entity_types=[Indexed]).session() as session:
        session.ensure(Indexed(id="r", tier="Gold"))
    assert "USING INDEX" in asked.explain().plan[0]


READER = """
    import os, sys
    import ontologia.store.sqlite.backend  # while Python may still be read
    from ontologia import Entity, Field, Ontology
    class Person(Entity):
        id: Field[str] = Field(primary_key=True)
        tier: Field[str]
    os.setgid(65534)
    os.setuid(65534)
    onto = Ontology(sys.argv[1], read_only=True, create=False)
    print(onto.query().entities(Person).count(), flush=True)
    sys.stdin.readline()
    print(len(onto.query().entities(Person).collect()), onto.verify(), flush=True)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up its rights")
def test_a_reader_without_rights_notices_that_somebody_wrote() -> None:
    with tempfile.TemporaryDirectory(prefix="ontologia-test-") as folder:
        path = Path(folder, "onto.db")
        owners(path).close()
        path.chmod(0o444)
        Path(folder).chmod(0o555)
        reader = subprocess.Popen(
            [sys.executable, "-c", dedent(READER), str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert reader.stdin is not None
        assert reader.stdout is not None
        assert reader.stdout.readline() == "2\n"
        with Ontology(path, entity_types=[Person]) as writer, writer.session() as session:
            session.ensure([Person(id=f"{n:05d}", tier="x" * 50) for n in range(2998)])
        told, _ = reader.communicate("go on\n", timeout=60)
        assert told == "3000 []\n"


def test_a_moment_without_a_zone_is_local_time(tmp_path: Path) -> None:
    onto = owners(tmp_path / "onto.db")
    people = onto.query().entities(Person)
    assert people.as_of(datetime.now()).count() == 2  # noqa: DTZ005 - that is the point
    assert people.as_of(datetime.now(UTC) - timedelta(days=1)).count() == 0
    assert onto.commit_at(datetime.now(UTC)) == 1


def test_a_history_has_no_single_row_to_get(tmp_path: Path) -> None:
    onto = owners(tmp_path / "onto.db")
    with pytest.raises(QueryError, match="many versions"):
        onto.query().entities(Person).with_history().get("p")
    assert onto.query().relations(Owns).get("p", "t") == Owns(left_key="p", right_key="t")


def test_a_token_without_apply_is_a_slip(tmp_path: Path) -> None:
    onto = owners(tmp_path / "onto.db")
    with pytest.raises(InputError, match="not told to apply"):
        onto.migrate(token="x")  # noqa: S106 - not a secret
    assert onto.migrate(apply=True).is_empty
