"""`import` and `export` on the command line, and the first five minutes with a CSV file."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from skins.runs import MODELS, clean_environment, onto, program, shop

from ontologia.cli import exits


@pytest.fixture(autouse=True)
def in_a_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models.py").write_text(MODELS)
    return shop(tmp_path / "onto.db")


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_a_store_moves_to_another_one_as_the_seed_says(form: str) -> None:
    assert onto("export", "--db", "onto.db", "--output", "data/", "--as", form).code == 0
    assert onto("init", "--db", "copy.db").code == 0
    moved = onto(
        *(
            "import",
            "--db",
            "copy.db",
            "--input",
            "data/",
            "--models",
            "models.py",
            "--apply",
            "--on-conflict",
            "abort",
        ),
        "--json",
    )
    assert (moved.json["read"], moved.json["inserted"], moved.json["commit_id"]) == (7, 7, 1)
    for kind, name in (("entities", "Customer"), ("entities", "Product"), ("relations", "Subscription")):
        rows = [onto("query", kind, name, "--db", db, "--json") for db in ("onto.db", "copy.db")]
        contents = [sorted(json.dumps(record["fields"]) for record in run.json) for run in rows]
        assert contents[0] == contents[1]
    again = onto("import", "--db", "copy.db", "--input", "data/", "--json").json
    assert (again["unchanged"], again["commit_id"]) == (7, None)


def test_an_exported_directory_brings_its_types_along(tmp_path: Path) -> None:
    onto("export", "--output", "data")
    assert onto("import", "data", "--db", "new.db").code == exits.OK
    assert onto("schema", "export", "--db", "new.db").json == onto("schema", "export").json


def test_an_import_that_fails_leaves_no_store_behind(tmp_path: Path) -> None:
    onto("export", "--output", "data")
    (tmp_path / "data" / "schema.json").unlink()
    run = onto("import", "data", "--db", "new.db")
    assert run.code == exits.USAGE
    assert "--models" in run.err
    assert not (tmp_path / "new.db").exists()


def test_conflicts_abort_skip_or_become_new_versions(tmp_path: Path) -> None:
    (tmp_path / "Product.csv").write_text("sku,title\np1,Ledger\np2,Changed\np3,New\n")
    aborted = onto("import", "Product.csv")
    assert aborted.code == exits.CONFLICT
    assert aborted.err.startswith("error[import-conflict]: ")
    assert "--on-conflict" in aborted.err
    preview = onto("import", "Product.csv", "--on-conflict", "upsert", "--dry-run", "--json").json
    assert {name: preview[name] for name in ("inserted", "updated", "unchanged", "skipped", "commit_id")} == {
        "inserted": 1,
        "updated": 1,
        "unchanged": 1,
        "skipped": 0,
        "commit_id": None,
    }
    assert onto("info", "--json").json["head"] == 3
    skipped = onto("import", "Product.csv", "--on-conflict", "skip", "--json").json
    assert (skipped["inserted"], skipped["skipped"], skipped["commit_id"]) == (1, 1, 4)
    upserted = onto(
        "import", "Product.csv", "--on-conflict", "upsert", "-m", "weekly load", "--meta", "by=me", "--json"
    ).json
    assert (upserted["updated"], upserted["commit_id"]) == (1, 5)
    assert onto("commits", "examine", "5", "--json").json["metadata"] == {"message": "weekly load", "by": "me"}


def test_a_dry_run_without_a_store_creates_none(tmp_path: Path) -> None:
    (tmp_path / "Product.csv").write_text("sku,title\np1,Ledger\n")
    run = onto("import", "Product.csv", "--db", "new.db", "--models", "models.py", "--dry-run", "--json")
    assert (run.code, run.json["inserted"]) == (0, 1)
    assert not (tmp_path / "new.db").exists()


def test_one_bad_row_names_its_line_and_column_and_stops_everything(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "Product.csv").write_text("sku,title\np9,New\n")
    (data / "Subscription.csv").write_text("left_key,right_key,seats\nc1,p9,1\nc2,p9,many\n")
    run = program("import", "--input", "data", cwd=tmp_path)
    assert run.code == exits.FAILURE
    assert run.err.startswith("error[row]: data/Subscription.csv, line 3: seats: ")
    details = json.loads(onto("import", "data", "--json").err)["error"]["details"]
    assert (details["line"], details["column"], details["value"]) == (3, "seats", "'many'")
    assert onto("info", "--json").json["head"] == 3


def test_the_summary_says_what_happened(tmp_path: Path) -> None:
    (tmp_path / "Product.csv").write_text("sku,title\np1,Ledger\np9,New\n")
    run = onto("import", "Product.csv")
    assert run.out.startswith("read 2  inserted 1  updated 0  unchanged 1  skipped 0  commit 4  ")
    assert onto("import", "Product.csv").err == "No commit: all 2 rows were there already.\n"


def test_there_is_no_progress_bar_in_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "Product.csv").write_text("sku,title\np9,New\n")
    run = program("import", "Product.csv", cwd=tmp_path)
    assert (run.code, run.err) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["import"],
        ["import", "Product.csv", "--dry-run", "--apply"],
        ["import", "Product.csv", "--key", "id"],
        ["import", "Product.csv", "--meta", "novalue"],
        ["import", "Product.txt"],
        ["export"],
        ["export", "--output", "-", "--as", "csv"],
        ["export", "--output", "-", "--as", "parquet"],
        ["export", "--output", "x", "--as-of", "1", "--history-since", "0"],
        ["export", "--output", "x", "--type", "Nothing"],
    ],
)
def test_calls_that_make_no_sense_are_usage_errors(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "Product.csv").write_text("sku,title\n")
    (tmp_path / "Product.txt").write_text("sku,title\n")
    assert onto(*arguments).code == exits.USAGE


def test_an_export_can_be_one_file_or_a_stream() -> None:
    onto("export", "--type", "Product", "--output", "products.csv")
    assert Path("products.csv").read_text().splitlines()[0] == "sku,title"
    stream = onto("export", "--output", "-", "--as", "csv", "--type", "Product")
    assert stream.out.splitlines() == Path("products.csv").read_text().splitlines()
    lines = [json.loads(line) for line in onto("export", "--output", "-").out.splitlines()]
    assert {line["type"] for line in lines} == {"Customer", "Product", "Subscription"}
    assert lines[0].keys() == {"kind", "type", "key", "fields"}


def test_an_export_of_the_past_and_of_history() -> None:
    onto("export", "--output", "then", "--as-of", "1")
    past = [json.loads(line) for line in Path("then/Customer.jsonl").read_text().splitlines()]
    assert past[0]["fields"]["tier"] == "Standard"
    assert Path("then/Product.jsonl").read_text() == ""
    first = onto("commits", "examine", "1", "--json").json["created_at"]
    assert onto("export", "--output", "moment", "--as-of", first, "--json").json["as_of"] == 1
    assert Path("moment/Customer.jsonl").read_bytes() == Path("then/Customer.jsonl").read_bytes()
    onto("export", "--output", "all", "--history-since", "0", "--with-metadata")
    records = [json.loads(line) for line in Path("all/Customer.jsonl").read_text().splitlines()]
    assert [(record["key"], record["commit_id"]) for record in records] == [("c1", 1), ("c2", 1), ("c3", 1), ("c1", 3)]
    collapsed = onto("import", "all", "--db", "collapsed.db", "--models", "models.py", "--json").json
    assert collapsed["commit_id"] == 1
    assert onto("query", "entities", "Customer", "--db", "collapsed.db", "--json").json[0]["fields"]["tier"] == "Gold"


def test_the_first_five_minutes(tmp_path: Path) -> None:
    rows = "".join(f"c-{n},Name {n},{'gold' if n % 10 == 0 else 'basic'},{n / 2}\n" for n in range(1000))
    (tmp_path / "customers.csv").write_text("id,name,tier,score\n" + rows)
    (tmp_path / "customers_v2.csv").write_text(
        "id,name,tier,score\n" + rows.replace("c-17,Name 17", "c-17,Renamed") + "n,New,basic,1\n"
    )
    store = ("--db", "five.db")

    def run(*arguments: str) -> str:
        result = program(*arguments, *store, cwd=tmp_path)
        assert result.code == 0, result.err
        return result.out

    refused = program("import", "customers.csv", "--infer", *store, cwd=tmp_path)
    assert refused.code == exits.REFUSED
    assert "class Customer(Entity):" in refused.err
    assert "--yes" in refused.err
    assert not (tmp_path / "five.db").exists()
    assert "inserted 1,000" in run("import", "customers.csv", "--infer", "--yes")
    assert (
        len(
            json.loads(
                run("query", "entities", "Customer", "--filter", "$.tier", "eq", '"gold"', "--limit", "5", "--json")
            )
        )
        == 5
    )
    conflict = program("import", "customers_v2.csv", "--type", "Customer", *store, cwd=tmp_path)
    assert conflict.code == exits.CONFLICT
    dry = run("import", "customers_v2.csv", "--type", "Customer", "--on-conflict", "upsert", "--dry-run")
    assert dry.startswith("dry run: read 1,001  inserted 1  updated 1  unchanged 999")
    run("import", "customers_v2.csv", "--type", "Customer", "--on-conflict", "upsert", "-m", "weekly load")
    assert "name: Name 17 → Renamed" in run("diff", "1", "2", "--type", "Customer")
    assert "Renamed" in run("blame", "Customer", "c-17")
    assert len(json.loads(run("query", "entities", "Customer", "--as-of", "1", "--json"))) == 1000
    run("doctor")


def test_a_proposal_can_be_previewed_and_its_key_chosen(tmp_path: Path) -> None:
    (tmp_path / "towns.csv").write_text("name,code\nOslo,1\nBergen,2\n")
    dry = onto("import", "towns.csv", "--infer", "--key", "name", "--db", "t.db", "--dry-run", "--json")
    assert dry.json["inserted"] == 2
    assert "name: Field[str] = Field(primary_key=True)" in dry.err
    assert not (tmp_path / "t.db").exists()
    assert onto("import", "towns.csv", "--infer", "--key", "name", "--yes", "--db", "t.db").code == 0
    assert [record["key"] for record in onto("query", "entities", "Town", "--db", "t.db", "--json").json] == [
        "Bergen",
        "Oslo",
    ]


def at_a_terminal(*arguments: str, cwd: Path, answer: str = "") -> tuple[int, str, str]:
    """`onto` with a terminal for questions and progress, and a pipe for the result: code, result, what was shown."""
    ours, theirs = pty.openpty()
    os.write(ours, answer.encode())
    child = subprocess.Popen(
        [sys.executable, "-m", "ontologia.cli", *arguments],
        cwd=cwd,
        env=clean_environment({"TERM": "xterm"}),
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    # A terminal whose other side is closed gives an error instead of an end.
    with suppress(OSError):
        while part := os.read(ours, 4096):
            shown += part
    out, _ = child.communicate(timeout=60)
    os.close(ours)
    return child.returncode, out.decode(), shown.decode()


def test_a_terminal_sees_a_progress_bar_and_the_result_stays_clean(tmp_path: Path) -> None:
    rows = "".join(f"s{n},Title\n" for n in range(20_000))
    (tmp_path / "Product.csv").write_text("sku,title\n" + rows)
    code, out, shown = at_a_terminal("import", "Product.csv", "--json", cwd=tmp_path)
    assert code == 0
    assert json.loads(out)["inserted"] == 20_000
    assert "reading bytes" in shown
    assert "writing rows" in shown
    assert "20000/20000" in shown or "━" in shown


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", exits.REFUSED)])
def test_a_terminal_is_asked_before_a_type_is_created(tmp_path: Path, answer: str, code: int) -> None:
    (tmp_path / "towns.csv").write_text("name,code\nOslo,1\n")
    ended, _, shown = at_a_terminal("import", "towns.csv", "--infer", "--db", "t.db", cwd=tmp_path, answer=answer)
    assert ended == code
    assert "Create this type?" in shown
    assert (tmp_path / "t.db").exists() == (code == 0)
