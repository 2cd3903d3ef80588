"""`doctor`, `config`, `commands`, `completion` and `demo`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from skins.runs import clean_environment, onto, program, shop

from ontologia.cli import exits
from ontologia.cli.table import table


@pytest.fixture(autouse=True)
def in_a_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return shop(tmp_path / "onto.db")


def test_doctor_reports_versions_settings_and_the_store() -> None:
    run = onto("doctor", "--json", env={"ONTOLOGIA_LOCK_TIMEOUT_MS": "77"})
    assert run.code == 0
    checks = {check["name"]: check for check in run.json["checks"]}
    assert {
        "ontologia",
        "python",
        "sqlite",
        "pydantic",
        "pyarrow",
        "disk space",
        "write permission",
        "journal",
    } <= checks.keys()
    assert checks["setting lock_timeout_ms"]["found"] == "77 (environment (ONTOLOGIA_LOCK_TIMEOUT_MS))"
    assert "head 3" in checks["store"]["found"]
    assert checks["journal"]["found"] == "wal"
    assert {check["status"] for check in checks.values()} == {"ok"}


@pytest.mark.parametrize(
    ("arguments", "env", "name", "status"),
    [
        (["--db", "missing.db"], {}, "store", "warn"),
        (["--db", "nowhere/onto.db"], {}, "directory", "fail"),
        ([], {"ONTOLOGIA_LOCK_TIMEOUT_MS": "soon"}, "settings", "fail"),
        (["--storage-uri", "s3://"], {}, "place", "fail"),
    ],
)
def test_doctor_names_a_fix_for_what_is_wrong(
    arguments: list[str], env: dict[str, str], name: str, status: str
) -> None:
    run = onto("doctor", "--json", *arguments, env=env)
    check = next(check for check in run.json["checks"] if check["name"] == name)
    assert check["status"] == status
    assert check["fix"]
    assert run.code == (exits.UNHEALTHY if status == "fail" else 0)
    assert not Path("missing.db").exists()


def test_doctor_finds_a_damaged_store(tmp_path: Path) -> None:
    (tmp_path / "onto.db").write_text("nonsense" * 200)
    assert onto("doctor").code == exits.UNHEALTHY


def test_config_shows_where_each_setting_comes_from(tmp_path: Path) -> None:
    (tmp_path / "ontologia.toml").write_text("max_batch_size = 10\n")
    rows = onto("config", "show", "--json", "--db", "x.db", env={"ONTOLOGIA_LOCK_TIMEOUT_MS": "5"}).json
    found = {row["setting"]: (row["value"], row["origin"]) for row in rows}
    assert found["db"] == ("x.db", "argument")
    assert found["lock_timeout_ms"] == (5, "environment (ONTOLOGIA_LOCK_TIMEOUT_MS)")
    assert found["max_batch_size"] == (10, "ontologia.toml")
    assert found["sqlite_synchronous"] == ("full", "default")
    (tmp_path / "ontologia.toml").write_text("max_batch_sze = 10\n")
    run = onto("config", "show")
    assert run.code == exits.USAGE
    assert "max_batch_sze" in run.err


def test_an_import_beyond_the_batch_size_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "Product.csv").write_text("sku,title\na,1\nb,2\n")
    run = onto("import", "Product.csv", env={"ONTOLOGIA_MAX_BATCH_SIZE": "1"})
    assert run.code == exits.FAILURE
    assert "ONTOLOGIA_MAX_BATCH_SIZE" in run.err


def test_commands_are_listed_for_programs() -> None:
    answer = onto("commands", "--json").json
    named = {command["name"]: command for command in answer["commands"]}
    assert {"onto", "onto query entities", "onto schema drop", "onto index repair"} <= named.keys()
    options = {name: option for option in named["onto query entities"]["options"] for name in option["names"]}
    assert options["--filter"] == {
        "names": ["--filter"],
        "values": 3,
        "repeatable": True,
        "required": False,
        "choices": None,
        "help": "A condition; repeatable, all must hold.",
    }
    assert options["--format"]["choices"] == ["text", "json", "csv"]
    assert answer["exit_codes"]["7"]
    assert all(command["help"] for command in answer["commands"])


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed(shell: str) -> None:
    assert "_ONTO_COMPLETE" in onto("completion", shell).out


def completed(tmp_path: Path, words: str) -> list[str]:
    """What a shell would offer at the end of a line."""
    count = len(words.split(" ")) - 1
    env = {"_ONTO_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(count)}
    result = subprocess.run(
        [sys.executable, "-m", "ontologia.cli"],
        cwd=tmp_path,
        env=clean_environment(env),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return [line.partition(",")[2] for line in result.stdout.splitlines() if line]


def test_the_shell_completes_commands_and_type_names(tmp_path: Path) -> None:
    assert completed(tmp_path, "onto comm") == ["commits", "commands"]
    assert completed(tmp_path, "onto query entities ") == ["Customer", "Product"]
    assert completed(tmp_path, "onto query relations S") == ["Subscription"]
    (tmp_path / "onto.db").unlink()
    assert completed(tmp_path, "onto query entities ") == []
    assert list(tmp_path.iterdir()) == []


def test_the_demo_tells_the_loan_example(tmp_path: Path) -> None:
    started = time.monotonic()
    run = program("demo", cwd=tmp_path)
    assert run.code == 0, run.err
    assert time.monotonic() - started < 30
    for words in ("risk-agent: deny", "applied as commit 4", "@upgrader", "status='disputed'", "onto.verify()"):
        assert words in run.out
    assert "\x1b" not in run.out, "no colours in a pipe"
    assert max(len(line.rstrip()) for line in run.out.splitlines()) <= 80
    assert [path.name for path in tmp_path.iterdir()] == ["onto.db"]


def test_the_demo_keeps_its_store_on_request(tmp_path: Path) -> None:
    run = onto("demo", "--dir", "loans", "--json")
    assert run.code == 0
    assert [step["step"] for step in run.json] == list(range(1, 17))
    assert all(step["code"] and step["result"] for step in run.json)
    assert onto("verify", "--db", "loans/loans.db").code == 0
    assert onto("query", "entities", "Loan", "--db", "loans/loans.db", "--count").out == "2\n"
    again = onto("demo", "--dir", "loans")
    assert again.code == exits.REFUSED


def test_a_table_with_too_many_columns_becomes_one_block_per_row() -> None:
    columns = [f"column_{n}" for n in range(20)]
    shown = table(columns, [["x" * 200] * 20], 80)
    assert len(shown.lines) == 21
    assert shown.cut
    assert all(len(click.unstyle(line)) <= 80 for line in shown.lines)


def test_wide_characters_keep_columns_aligned() -> None:
    shown = table(["a", "b"], [["日本語", "1"], ["x", "2"]], 40)
    assert shown.lines[2] == "日本語  1"
    assert shown.lines[3] == "x       2"
    assert json.dumps(shown.cut) == "false"
