"""`query`, `commits`, `diff` and `blame`: what is asked is what is answered, and nothing is left out in silence."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from skins.runs import Customer, onto, shop

from ontologia import Entity, Field, Ontology, Relation


@pytest.fixture(autouse=True)
def in_a_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return shop(tmp_path / "onto.db")


def keys(*arguments: str) -> list[str]:
    """Keys of the entities that a question finds."""
    run = onto("query", "entities", "Customer", "--json", *arguments)
    assert run.code == 0, run.err
    return [record["key"] for record in run.json]


@pytest.mark.parametrize(
    ("path", "operator", "value", "expected"),
    [
        ("$.tier", "eq", '"Gold"', ["c1", "c2"]),
        ("tier", "eq", '"Gold"', ["c1", "c2"]),
        ("$.tier", "ne", '"Gold"', ["c3"]),
        ("$.age", "gt", "31", ["c3"]),
        ("$.age", "gte", "31", ["c1", "c3"]),
        ("$.age", "lt", "41", ["c1"]),
        ("$.age", "lte", "41.0", ["c1", "c3"]),
        ("$.age", "eq", "null", ["c2"]),
        ("$.age", "ne", "null", ["c1", "c3"]),
        ("$.id", "in", '["c1", "c3", "x"]', ["c1", "c3"]),
        ("$.id", "not_in", '["c1"]', ["c2", "c3"]),
        ("$.age", "between", "[31, 40]", ["c1"]),
        ("$.name", "startswith", '"Al"', ["c1"]),
        ("$.name", "endswith", '"b"', ["c2"]),
        ("$.name", "contains", '"née"', ["c3"]),
        ("$.name", "icontains", '"ALICE"', ["c1"]),
        ("$.name", "matches", '"^[AB]"', ["c1", "c2"]),
        ("$.profile.city", "eq", '"Bergen"', ["c1"]),
        ('$["profile"]["city"]', "eq", '"Bergen"', ["c1"]),
        ("$.profile['city']", "is_not_null", None, ["c1"]),
        ("$.age", "is_null", None, ["c2"]),
        ("$.age", "is_not_null", None, ["c1", "c3"]),
    ],
)
def test_every_operator_filters(path: str, operator: str, value: str | None, expected: list[str]) -> None:
    given = [path, operator] + ([] if value is None else [value])
    assert sorted(keys("--filter", *given)) == expected


def test_several_filters_must_all_hold() -> None:
    assert keys("--filter", "$.tier", "eq", '"Gold"', "--filter", "$.age", "is_null") == ["c2"]
    assert keys("--filter", "$.age", "is_null", "--filter", "$.tier", "eq", '"Gold"') == ["c2"]


def test_a_condition_may_look_through_a_list() -> None:
    assert keys("--as-of", "1", "--any", "$.profile.pets", "kind", "eq", '"cat"') == ["c1"]
    assert keys("--any", "$.profile.pets", "kind", "eq", '"cat"') == []
    assert keys("--as-of", "1", "--any", "$.profile.pets", "kind", "is_not_null") == ["c1"]


def test_order_limit_and_offset() -> None:
    assert keys("--order-by", "-age", "--order-by", "id") == ["c3", "c1", "c2"]
    assert keys("--order-by", "name", "--limit", "1", "--offset", "1") == ["c2"]
    assert keys("--limit", "0") == []


def test_the_shape_of_a_record() -> None:
    (record,) = onto("query", "entities", "Customer", "--filter", "$.id", "eq", '"c1"', "--json").json
    assert record["fields"] == {
        "id": "c1",
        "name": "Alice",
        "tier": "Gold",
        "age": 31,
        "profile": {"city": "Bergen"},
    }
    assert {name: record[name] for name in ("kind", "type", "key", "commit_id")} == {
        "kind": "entity",
        "type": "Customer",
        "key": "c1",
        "commit_id": 3,
    }
    assert datetime.fromisoformat(record["committed_at"]).tzinfo is not None
    (relation,) = onto("query", "relations", "Subscription", "--filter", "$.seats", "eq", "5", "--json").json
    assert relation.keys() == {"kind", "type", "left_key", "right_key", "fields", "commit_id", "committed_at"}


def test_ends_of_relations_can_be_filtered() -> None:
    run = onto("query", "relations", "Subscription", "--filter", "left.$.age", "gte", "31", "--json")
    assert [record["left_key"] for record in run.json] == ["c1"]
    run = onto("query", "relations", "Subscription", "--filter", "right.$.title", "eq", '"Store"', "--json")
    assert [record["right_key"] for record in run.json] == ["p2"]
    run = onto("query", "entities", "Customer", "--filter", "left.$.age", "eq", "1")
    assert run.code == 2
    assert "no left end" in run.err


def test_time_windows() -> None:
    assert onto("query", "entities", "Customer", "--as-of", "1", "--json").json[0]["fields"]["tier"] == "Standard"
    assert len(keys("--history")) == 4
    assert keys("--since", "1") == ["c1"]
    assert len(keys("--between", "1", "2")) == 3
    assert keys("--as-of", "0") == []
    first = onto("commits", "examine", "1", "--json").json["created_at"]
    assert onto("query", "entities", "Customer", "--as-of", first, "--json").json[0]["commit_id"] == 1
    later = (datetime.fromisoformat(first) + timedelta(days=1)).astimezone(timezone(timedelta(hours=9))).isoformat()
    assert {
        record["commit_id"] for record in onto("query", "entities", "Customer", "--as-of", later, "--json").json
    } == {1, 3}
    run = onto("query", "entities", "Customer", "--as-of", "yesterday")
    assert run.code == 2
    assert "neither a commit id nor a time" in run.err
    assert onto("query", "entities", "Customer", "--as-of", "1", "--history").code == 2


def test_count_and_explain() -> None:
    assert onto("query", "entities", "Customer", "--count").out == "3\n"
    assert onto("query", "relations", "Subscription", "--count", "--json").json == {"count": 2}
    plan = onto("query", "entities", "Customer", "--filter", "$.tier", "eq", '"Gold"', "--explain", "--json").json
    assert plan["native"] is True
    assert any("USING INDEX" in step for step in plan["plan"])
    assert onto("query", "entities", "Customer", "--explain").out.startswith("SELECT")


def test_traversals() -> None:
    paths = onto(
        "query", "traverse", "Customer", "--via", "Subscription", "--filter", "$.id", "eq", '"c1"', "--json"
    ).json
    assert [[node["key"] for node in path["nodes"]] for path in paths] == [["c1", "p1"]]
    assert paths[0]["edges"][0]["fields"] == {"seats": 3}
    back = onto("query", "traverse", "Product", "--via", "Subscription", "--targets", "--json").json
    assert [record["key"] for record in back] == ["c1", "c2"]
    assert onto("query", "traverse", "Product", "--via", "Subscription", "--count").out == "2\n"
    assert onto("query", "traverse", "Customer", "--via", "Subscription", "--limit", "1", "--json").json[0]["nodes"]
    text = onto("query", "traverse", "Customer", "--via", "Subscription").out.splitlines()
    assert text[0].split() == ["0:Customer", "1:Product"]
    assert onto("query", "traverse", "Customer").code == 2
    assert onto("query", "traverse", "Customer", "--via", "Subscription:sideways").code == 2
    assert onto("query", "traverse", "Customer", "--via", "Subscription:reverse").code == 2


def test_text_shows_a_hundred_and_says_how_many_more(tmp_path: Path) -> None:
    with Ontology("onto.db") as store, store.session() as session:
        session.ensure(Customer(id=f"n{n:03}", name="x") for n in range(150))
    run = onto("query", "entities", "Customer")
    assert len(run.out.splitlines()) == 102
    assert "53 more rows" in run.err
    assert len(onto("query", "entities", "Customer", "--limit", "120").out.splitlines()) == 122
    assert len(onto("query", "entities", "Customer", "--json").json) == 153
    assert len(list(csv.reader(io.StringIO(onto("query", "entities", "Customer", "--format", "csv").out)))) == 154


def test_text_cuts_wide_cells_and_says_so_but_data_never(tmp_path: Path) -> None:
    with Ontology("onto.db") as store, store.session() as session:
        session.ensure(Customer(id="wide", name="w" * 300))
    run = onto("query", "entities", "Customer")
    assert max(map(len, run.out.splitlines())) <= 80
    assert "…" in run.out
    assert "--json" in run.err
    assert "w" * 300 in onto("query", "entities", "Customer", "--json").out
    assert "w" * 300 in onto("query", "entities", "Customer", "--format", "csv").out


def test_what_a_terminal_would_obey_is_shown_instead() -> None:
    with Ontology("onto.db") as store, store.session() as session:
        session.ensure(Customer(id="evil", name="\x1b[31mred\x07"))
    run = onto("query", "entities", "Customer")
    assert "\x1b" not in run.out
    assert "\\x1b[31mred" in run.out


def test_an_empty_result_says_what_to_do_next() -> None:
    run = onto("query", "entities", "Customer", "--filter", "$.id", "eq", '"x"', "--json")
    assert (run.code, run.json) == (0, [])
    assert "leave out a --filter" in run.err
    assert "onto commits" in onto("query", "entities", "Customer", "--as-of", "0").err


class Sample(Entity):
    id: Field[int] = Field(primary_key=True)
    price: Field[Decimal]
    at: Field[datetime]
    blob: Field[bytes]
    flag: Field[bool]


class Next(Relation[Sample, Sample]):
    pass


def test_values_of_every_kind_can_be_compared_with(tmp_path: Path) -> None:
    with Ontology("kinds.db") as store, store.session() as session:
        for number in (1, 2):
            at = datetime(2026, 3, number, 12, tzinfo=UTC)
            session.ensure(
                Sample(id=number, price=Decimal(f"{number}.10"), at=at, blob=bytes([number]), flag=number == 1)
            )
        session.ensure(Next(left_key=1, right_key=2))

    def found(*condition: str) -> list[Any]:
        run = onto("query", "entities", "Sample", "--db", "kinds.db", "--json", "--filter", *condition)
        assert run.code == 0, run.err
        return [record["key"] for record in run.json]

    assert found("$.price", "eq", "1.1") == ["1"]
    assert found("$.price", "lt", "2.1000000000000001") == ["1", "2"]
    assert found("$.at", "gt", '"2026-03-01T14:00:00+01:00"') == ["2"]
    assert found("$.at", "in", '["2026-03-01T13:00:00+01:00"]') == ["1"]
    assert found("$.blob", "eq", '"Ag=="') == ["2"]
    assert found("$.flag", "is_true") == ["1"]
    assert found("$.flag", "eq", "false") == ["2"]
    assert found("$.flag", "ne", "true") == ["2"]
    assert onto("query", "entities", "Sample", "--db", "kinds.db", "--filter", "$.at", "gt", '"soon"').code == 2
    reverse = onto("query", "traverse", "Sample", "--db", "kinds.db", "--via", "Next:reverse", "--json").json
    assert [[node["key"] for node in path["nodes"]] for path in reverse] == [["2", "1"]]


def test_commits_are_listed_newest_first() -> None:
    listed = onto("commits", "--json").json
    assert [one["commit_id"] for one in listed] == [3, 2, 1]
    assert listed[2]["metadata"] == {"source": "crm"}
    assert listed[2]["counts"] == {"Customer": 3}
    assert [one["commit_id"] for one in onto("commits", "--since", "1", "--limit", "1", "--json").json] == [3]
    text = onto("commits").out
    assert "source=crm" in text
    assert "Customer 3" in text


def test_a_commit_is_examined_row_by_row() -> None:
    answer = onto("commits", "examine", "2", "--json").json
    assert answer["commit_id"] == 2
    assert {"kind": "relation", "type_name": "Subscription", "left_key": "c1", "right_key": "p1", "op": "insert"} in (
        answer["changes"]
    )
    assert "c1 -> p1" in onto("commits", "examine", "2").out


def test_a_diff_shows_before_and_after() -> None:
    items = onto("diff", "1", "3", "--type", "Customer", "--json").json
    assert [(item["key"], item["change"], item["changed"]) for item in items] == [
        ("c1", "update", ["tier", "age", "profile"])
    ]
    assert items[0]["before"]["tier"] == "Standard"
    assert items[0]["after"]["tier"] == "Gold"
    text = onto("diff", "1", "3").out
    assert "    tier: Standard → Gold" in text
    assert "+ Subscription c1 -> p1  seats=3" in text
    assert onto("diff", "3", "1", "--type", "Product", "--json").json[0]["change"] == "remove"
    assert len(onto("diff", "0", "3", "--json").json) == 7
    assert onto("diff", "2", "2").err == "Commits 2 and 2 do not differ.\n"


def test_blame_names_the_commit_of_each_value() -> None:
    rows = {row["field"]: row for row in onto("blame", "Customer", "c1", "--json").json}
    assert {name: row["commit_id"] for name, row in rows.items()} == {
        "id": 1,
        "name": 1,
        "tier": 3,
        "age": 3,
        "profile": 3,
    }
    assert rows["tier"]["value"] == "Gold"
    assert rows["name"]["metadata"] == {"source": "crm"}
    assert [row["commit_id"] for row in onto("blame", "Subscription", "c1", "p1", "--json").json] == [2]
    assert onto("blame", "Customer", "c1", "p1").code == 2
    assert onto("blame", "Subscription", "c1").code == 2


def test_raw_rows_are_json_too() -> None:
    rows = onto("query", "entities", "Customer", "--history", "--raw", "--json").json
    assert len(rows) == 4
    assert rows[0]["commit_id"] == 1
    assert json.dumps(rows)
