"""What a commit must never do, whatever was given to it and whatever failed before."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

import pyarrow as pa
import pytest

from ontologia import ConfigError, Entity, Field, InputError, NotFoundError, Ontology, Relation


class Item(Entity):
    id: Field[str] = Field(primary_key=True)
    size: Field[int] = Field(default=0)
    note: Field[str | None] = Field(default=None)


class Other(Entity):
    id: Field[str] = Field(primary_key=True)


@pytest.fixture
def onto(tmp_path: Path) -> Ontology:
    return Ontology(tmp_path / "onto.db")


def bulk(onto: Ontology, **columns: Sequence[object]) -> int | None:
    with onto.session() as session:
        session.ensure_rows(Item, pa.table(dict(columns)))
        return session.commit()


def items(onto: Ontology) -> dict[str, tuple[int, str | None]]:
    return {item.id: (item.size, item.note) for item in onto.query().entities(Item)}


def test_a_stored_separator_never_hides_a_missing_row(onto: Ontology) -> None:
    bulk(onto, id=["a", "b\x1ec", "z"])
    assert bulk(onto, id=["a", "b", "c", "z"]) == 2
    assert sorted(items(onto)) == ["a", "b", "b\x1ec", "c", "z"]


def test_a_stored_null_marker_is_not_null(onto: Ontology) -> None:
    bulk(onto, id=["a", "b"], note=["\x1d", None])
    assert bulk(onto, id=["a", "b"], note=[None, "\x1d"]) == 2
    assert items(onto) == {"a": (0, None), "b": (0, "\x1d")}


@pytest.mark.parametrize("changed", [0, 1, 4095, 4096, 8999])
def test_one_changed_row_among_many_is_found(onto: Ontology, changed: int) -> None:
    keys = [f"{number:05d}" for number in range(9000)]
    bulk(onto, id=keys, size=[1] * 9000)
    sizes = [1] * 9000
    sizes[changed] = 2
    assert bulk(onto, id=keys, size=sizes) == 2
    assert onto.get_commit(2).counts == {"Item": 1}
    assert bulk(onto, id=keys, size=sizes) is None


def test_the_first_wide_integer_may_come_in_the_middle_of_a_bulk_update(onto: Ontology) -> None:
    keys = [f"{number:05d}" for number in range(9000)]
    bulk(onto, id=keys)
    rows = [{"id": key, "size": 10**30 if key == "00005" else 1} for key in keys]
    with onto.session() as session:
        session.ensure_rows(Item, rows)
    sizes = [value for value, _ in items(onto).values()]
    assert sum(sizes) == 10**30 + 8999
    assert onto.verify() == []


def test_objects_do_not_inherit_the_policy_of_rows_given_before(onto: Ontology) -> None:
    with onto.session() as session:
        session.ensure(Item(id="a", size=1))
    with onto.session() as session:
        session.ensure_rows(Item, [{"id": "b"}], on_conflict="skip")
        session.ensure(Item(id="a", size=99))
        with pytest.raises(InputError, match="policies"):
            session.commit()
        session.discard()


def test_a_class_declared_twice_is_one_type(onto: Ontology) -> None:
    def declare() -> type[Any]:
        class Twin(Entity):
            id: Field[str] = Field(primary_key=True)
            size: Field[int]

        return Twin

    first, second = declare(), declare()
    with onto.session() as session:
        session.ensure(first(id="a", size=1))
        session.ensure(second(id="a", size=2))
    assert onto.get_commit(1).counts == {"Twin": 1}
    assert [change.op for change in onto.changes(1)] == ["insert"]


def test_an_empty_batch_registers_nothing(onto: Ontology) -> None:
    with onto.session() as session:
        session.ensure_rows(Item, [])
        session.ensure(Other(id="o"))
    with onto.session() as session:
        session.ensure(Item(id="a"))
    assert onto.verify() == []


def test_a_refused_object_leaves_nothing_pending(tmp_path: Path) -> None:
    onto = Ontology(tmp_path / "onto.db", entity_types=[Item])
    session = onto.session()
    with pytest.raises(InputError):
        session.ensure([Item(id="a"), Other(id="o")])
    assert session.pending == 0


def test_repeated_rows_are_counted(onto: Ontology) -> None:
    session = onto.session()
    session.ensure_rows(Item, pa.table({"id": ["a", "b", "a"]}))
    summary = session.preview().types["Item"]
    assert (summary.inserted, summary.repeated) == (2, 1)


def test_of_several_tables_the_last_one_counts(onto: Ontology) -> None:
    with onto.session() as session:
        for keys, size in (([], 0), (["a", "b"], 1), (["b", "c"], 2), ([], 3)):
            session.ensure_rows(Item, pa.table({"id": pa.array(keys, pa.string()), "size": [size] * len(keys)}))
    assert items(onto) == {"a": (1, None), "b": (2, None), "c": (2, None)}
    assert onto.get_commit(1).counts == {"Item": 3}


def test_a_name_belongs_to_one_kind_of_type(onto: Ontology) -> None:
    class Link(Relation[Other, Other], name="Item"):
        """A relation called like an entity."""

    with onto.session() as session:
        session.ensure(Item(id="a"))
    again = Ontology(onto.storage_info()["path"])
    with pytest.raises(ConfigError, match="an entity type already"), again.session() as session:
        session.ensure(Link(left_key="a", right_key="b"))


def test_an_index_declared_later_is_built_without_a_new_row(onto: Ontology) -> None:
    class Indexed(Entity, name="Item"):
        id: Field[str] = Field(primary_key=True)
        size: Field[int] = Field(default=0, index=True)
        note: Field[str | None] = Field(default=None)

    with onto.session() as session:
        session.ensure(Item(id="a"))
    later = Ontology(onto.storage_info()["path"], entity_types=[Indexed])
    with later.session() as session:
        session.ensure(Indexed(id="a"))
    assert later.head() == 1
    plan = later.query().entities(Indexed).where(Indexed.size == 0).explain().plan
    assert "USING INDEX" in plan[0]
    assert later.verify() == []


def test_differences_need_commits_that_exist(onto: Ontology) -> None:
    with onto.session() as session:
        session.ensure(Item(id="a"))
    with pytest.raises(NotFoundError, match="head is commit 1"):
        onto.diff(0, 2, Item)
    assert len(onto.diff(0, 1, Item)) == 1


FULL_DISK = """
    import resource, signal, sys
    from ontologia import Entity, Field, Ontology, StorageError
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    class Big(Entity):
        id: Field[str] = Field(primary_key=True)
        text: Field[str]
    class Small(Entity):
        id: Field[str] = Field(primary_key=True)
        text: Field[str]
    first, second = Ontology(sys.argv[1]), Ontology(sys.argv[1])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    session = first.session()
    session.ensure([Big(id=str(n), text="x" * 1000) for n in range(2000)])
    try:
        session.commit()
    except StorageError:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    else:
        sys.exit("the disk was not full")
    with second.session() as other:
        other.ensure(Small(id="s", text="small"))
    assert first.query().entities(Big).get("s") is None
    session.commit()
    assert first.query().entities(Big).count() == 2000
    assert [one.text for one in second.query().entities(Small)] == ["small"]
    assert first.verify() == []
"""


def test_a_commit_that_failed_leaves_no_trace_in_what_is_known(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", dedent(FULL_DISK), str(tmp_path / "onto.db")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
