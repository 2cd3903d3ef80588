"""What a newcomer runs into: files that are not quite right, hints that are pasted, tables on a small terminal."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from skins.runs import MODELS, Customer, onto, shop

from ontologia import Ontology
from ontologia.cli import exits
from ontologia.cli.table import table


@pytest.fixture(autouse=True)
def in_a_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return shop(tmp_path / "onto.db")


def test_every_command_that_the_demo_hints_at_works_as_printed() -> None:
    run = onto("demo", "--dir", "my loans")
    hinted = [shlex.split(line) for line in run.err.splitlines() if line.startswith("  onto ")]
    assert len(hinted) == 3
    for words in hinted:
        assert onto(*words[1:]).code == exits.OK


def test_raw_rows_are_counted_raw() -> None:
    onto("demo", "--dir", "loans")
    asked = ("query", "entities", "Loan", "--history", "--count", "--db", "loans/loans.db")
    assert onto(*asked).code == exits.SCHEMA
    assert onto(*asked, "--raw").out == "6\n"
    assert onto("query", "traverse", "Customer", "--via", "Subscription", "--raw").code == exits.USAGE


def inferred(content: bytes | str, *arguments: str, name: str = "things.csv") -> tuple[int, str]:
    """A file whose type is proposed in a dry run: exit code, and what was said."""
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    run = onto("import", name, "--infer", "--dry-run", "--db", "t.db", *arguments)
    return run.code, run.err


@pytest.mark.parametrize("name", ["things.csv", "things.jsonl"])
def test_a_file_in_latin_1_is_named_with_its_line(name: str) -> None:
    content = {"things.csv": "id,name\n1,a\n2,caf\xe9\n", "things.jsonl": '{"id": 1}\n\n{"id": "\xe9"}\n'}[name]
    code, said = inferred(content.encode("latin-1"), name=name)
    assert code == exits.FAILURE
    assert said.startswith(f"error[row]: {name}, line 3: the byte 0xe9 is not UTF-8.\n  help: ")
    assert "iconv" in said


def test_reserved_names_become_names_that_work() -> None:
    code, said = inferred("id,class,meta\n1,a,\n")
    assert code == 0
    assert "class_: Field[str]\n" in said
    assert "meta_: Field[str | None] = Field(default=None)\n" in said
    assert "class becomes class_, because class is a reserved word." in said
    assert onto("import", "things.csv", "--infer", "--yes", "--db", "t.db").code == 0
    (row,) = onto("query", "entities", "Thing", "--db", "t.db", "--json").json
    assert row["fields"] == {"id": 1, "class_": "a", "meta_": None}


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        ("id,left_key\n1,a\n", "things.csv", "proposes entities only"),
        ('{"id": 1, "class": 2}\n', "things.jsonl", "'class' of things.jsonl cannot be a field: it is a reserved word"),
        ("id,2024\n1,2\n", "things.csv", "it is not a Python name"),
        ("id,First Name,first_name\n1,2,3\n", "things.csv", "it is the second of that name"),
        ("id;name\n1;a\n", "things.csv", "separated by semicolons"),
        ('"id"\t"name"\n1\ta\n', "things.csv", "separated by tabs"),
    ],
)
def test_a_file_that_cannot_be_a_type_is_said_to_be_one(content: str, name: str, words: str) -> None:
    code, said = inferred(content, name=name)
    assert code == exits.USAGE
    assert said.startswith("error[input]: ")
    assert words in said


def test_names_of_json_fields_stay_as_they_are() -> None:
    assert inferred('{"id": 1, "firstName": "a"}\n', name="things.jsonl")[0] == 0


def test_semicolons_are_noticed_without_infer_too() -> None:
    Path("Product.csv").write_text("sku;title\np9;New\n")
    assert "separated by semicolons" in onto("import", "Product.csv").err


def test_a_proposal_says_which_cell_made_a_column_text() -> None:
    rows = "".join(f"{n},{'12,x' if n == 1677 else n}\n".replace("12,x", '"12,x"') for n in range(1, 2001))
    code, said = inferred("id,balance\n" + rows)
    assert code == 0
    assert "balance: Field[str]\n" in said
    assert "balance: 1,999 of 2,000 are numbers; line 1678 is '12,x'.\n" in said
    assert "are numbers" not in inferred("id,balance\n1,x\n2,3\n3,4\n")[1], "one in three is no exception"


def test_a_proposal_says_where_its_key_comes_from() -> None:
    assert "Key: id, by its name; it is unique in every row (--key chooses another).\n" in inferred("a,id\n1,2\n")[1]
    said = inferred("id,mail\n1,a\n1,b\n")[1]
    assert "Key: mail, the first column that is unique in every row" in said
    assert "Not id: line 3 is '1' again, as line 2.\n" in said
    assert "(1 row)" in inferred("id\n1\n")[1]


@pytest.mark.parametrize(
    ("content", "arguments", "words"),
    [
        ("id,mail\n1,a\n\n2,b\n1,c\n", ["--key", "id"], "id cannot be the key: line 5 is '1' again, as line 2."),
        ("id,mail\n1,a\n,b\n", ["--key", "id"], "id cannot be the key: line 3 has none."),
        ("id,mail\n1,a\n1,a\n", [], "unique in every row (id: line 3 is '1' again, as line 2)."),
    ],
)
def test_what_keeps_a_column_from_being_the_key_is_named(content: str, arguments: list[str], words: str) -> None:
    code, said = inferred(content, *arguments)
    assert code == exits.USAGE
    assert words in said


def test_a_time_from_a_table_includes_the_commits_of_its_second() -> None:
    shown = re.search(r"^3 +(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)", onto("commits").out, re.MULTILINE)
    assert shown is not None
    then = onto("query", "entities", "Customer", "--as-of", shown[1], "--json").json
    assert then[-1]["commit_id"] == 3
    exact = onto("query", "entities", "Customer", "--as-of", f"{shown[1]}.000000", "--json").json
    assert all(record["commit_id"] != 3 for record in exact)
    assert onto("query", "entities", "Customer", "--as-of", shown[1][:10], "--json").json == []


def test_a_jsonl_file_takes_all_types_and_other_files_one() -> None:
    run = onto("export", "--output", "all.jsonl")
    assert run.out == "all.jsonl  7 rows\nexported 7 rows as of commit 3\n"
    lines = [json.loads(line) for line in Path("all.jsonl").read_text().splitlines()]
    assert {line["type"] for line in lines} == {"Customer", "Product", "Subscription"}
    Path("models.py").write_text(MODELS)
    assert onto("import", "all.jsonl", "--db", "copy.db", "--models", "models.py", "--json").json["inserted"] == 7
    for name in ("all.csv", "all.parquet"):
        refused = onto("export", "--output", name)
        assert refused.code == exits.USAGE
        assert "--type" in refused.err
        assert not Path(name).exists()
    assert onto("export", "--output", "odd.csv/").code == 0
    assert Path("odd.csv/Product.jsonl").exists()


def test_infer_takes_a_file() -> None:
    Path("data").mkdir()
    run = onto("import", "data", "--infer")
    assert run.code == exits.USAGE
    assert "--infer takes a file" in run.err


def test_a_preview_without_its_upgrader_offers_no_token_and_says_what_needs_it() -> None:
    Path("ranks.py").write_text(
        MODELS.replace('tier: Field[str] = Field(default="Standard", index=True)', "rank: Field[int]").replace(
            "name: Field[str]", 'name: Field[str]\n    land: Field[str] = Field(default="NO")'
        )
    )
    run = onto("migrate", "--models", "ranks.py")
    assert run.code == exits.SCHEMA
    assert run.out.splitlines() == [
        "Customer (3 rows)",
        "  added land: str with a default",
        "  added rank: int  (needs an upgrader)",
        "  removed tier: str  (needs an upgrader)",
        "missing upgrader: @upgrader('Customer', from_version=1)",
    ]
    assert "--upgraders" in run.err
    assert onto("migrate", "--models", "ranks.py", "--json").code == exits.SCHEMA


def test_no_hint_sends_the_reader_to_a_page_that_is_not_there() -> None:
    Path("Product.csv").write_text("sku,title,title\np9,a,b\n")
    said = [onto("import", "Product.csv").err, onto("blame", "Subscription", "c1").err, onto("init").err]
    assert not [text for text in said if "docs/" in text]
    assert "onto blame Subscription LEFT_KEY RIGHT_KEY" in said[1]


def test_verify_does_not_advise_to_verify(tmp_path: Path) -> None:
    store = tmp_path / "onto.db"
    content = store.read_bytes()
    store.write_bytes(content[:8192] + b"\xa5" * (len(content) - 8192))
    run = onto("verify")
    assert run.code in {exits.UNHEALTHY, exits.STORAGE}
    assert "onto verify" not in run.err
    assert "backup" in run.err


def test_a_time_before_anything_was_written_is_said_with_a_filter_too() -> None:
    asked = ("query", "entities", "Product", "--filter", "$.title", "eq", '"x"')
    assert "There was nothing of this type then" in onto(*asked, "--as-of", "1").err
    assert "leave out a --filter" in onto(*asked, "--as-of", "2").err
    assert "There was nothing of this type then" in onto(*asked, "--as-of", "1", "--raw").err


def test_blame_says_who_and_why() -> None:
    lines = onto("blame", "Customer", "c1").out.splitlines()
    assert lines[0].split() == ["field", "value", "commit", "time", "(UTC)", "by"]
    assert [line.split()[-1] for line in lines[2:5]] == ["source=crm", "source=crm", "test"]


def test_a_diff_goes_to_the_head_and_shows_a_hundred() -> None:
    assert onto("diff", "1").out == onto("diff", "1", "3").out
    with Ontology("onto.db") as store, store.session() as session:
        session.ensure(Customer(id=f"n{n:03}", name="x") for n in range(150))
    run = onto("diff", "3")
    assert len(run.out.splitlines()) == 100
    assert "50 more rows" in run.err
    assert len(onto("diff", "3", "--json").json) == 150
    assert "Customer 150" in onto("commits").out


def test_an_examined_commit_names_the_fields_it_changed() -> None:
    assert onto("commits", "examine", "3").out.splitlines()[-1].endswith(" tier, age, profile")


def test_a_table_cuts_the_longest_text_first_and_never_numbers_times_or_headings() -> None:
    columns = ["identifier", "note", "amount", "time (UTC)"]
    rows = [["a" * 20, "n" * 200, "1,234,567.891", "2026-11-15 23:27:32"], ["b", "-", "-", "-"]]
    shown = table(columns, rows, 80)
    assert shown.cut
    assert all(word in shown.lines[0] for word in columns)
    assert "2026-11-15 23:27:32" in shown.lines[2]
    assert "1,234,567.891" in shown.lines[2]
    assert "a" * 20 in shown.lines[2]
    assert all(len(line) <= 80 for line in shown.lines[2:])
    narrow = table(columns, rows, 40)
    assert "2026-11-15 23:27:32" in "\n".join(narrow.lines), "one block per row"


def test_rows_whose_key_came_again_are_counted() -> None:
    Path("Product.csv").write_text("sku,title\np9,a\np9,b\np8,c\n")
    run = onto("import", "Product.csv", "--dry-run")
    assert "read 3  inserted 2  updated 0  unchanged 0  skipped 0  repeated 1  " in run.out
    answer = onto("import", "Product.csv", "--json").json
    assert (answer["repeated"], answer["types"][0]["repeated"]) == (1, 1)
    Path("Product.csv").write_text("sku,title\np7,a\n")
    assert "repeated" not in onto("import", "Product.csv").out


def test_kinds_have_their_article() -> None:
    assert "'Subscription' is a relation, not an entity." in onto("query", "entities", "Subscription").err
    assert "'Customer' is an entity, not a relation." in onto("query", "relations", "Customer").err
