"""What holds for every command: where options may stand, what goes to stdout, how failures end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from skins.runs import clean_environment, onto, program, shop

from ontologia import errors
from ontologia.cli import exits, main
from ontologia.cli.exits import exit_code
from ontologia.cli.root import SECTIONS


@pytest.fixture(autouse=True)
def in_a_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return shop(tmp_path / "onto.db")


READING: dict[str, list[str]] = {
    "info": ["info"],
    "verify": ["verify"],
    "query entities": ["query", "entities", "Customer"],
    "query relations": ["query", "relations", "Subscription"],
    "query traverse": ["query", "traverse", "Customer", "--via", "Subscription"],
    "commits": ["commits"],
    "commits examine": ["commits", "examine", "1"],
    "diff": ["diff", "1", "3"],
    "blame": ["blame", "Customer", "c1"],
    "schema export": ["schema", "export"],
    "schema history": ["schema", "history"],
    "schema drop": ["schema", "drop", "relation", "Subscription"],
    "export": ["export", "--output", "out"],
    "doctor": ["doctor"],
    "config show": ["config", "show"],
    "commands": ["commands"],
    "init": ["init", "--dry-run"],
}
"""Commands that succeed on the shop and change nothing in it."""

ON_OBJECTS: dict[str, list[str]] = {
    "compact": ["compact"],
    "index verify": ["index", "verify"],
    "index repair": ["index", "repair"],
    "schema repair": ["schema", "repair"],
    "gc": ["gc"],
}
"""Commands for stores on object storage, which `test_cli_s3` tries."""

WRITING = {"import", "migrate", "demo", "completion"}
GROUPS = {"query", "schema", "index", "config"}


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command with its name."""
    pending: list[tuple[str, click.Command]] = [("", main)]
    while pending:
        name, command = pending.pop()
        if name:
            yield name, command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for child in command.list_commands(context):
                found = command.get_command(context, child)
                assert found is not None
                pending.append((f"{name} {child}".strip(), found))


def test_every_command_is_tried_here_or_elsewhere() -> None:
    assert {name for name, _ in commands()} == READING.keys() | ON_OBJECTS.keys() | WRITING | GROUPS


def test_the_list_of_commands_says_what_the_commands_say() -> None:
    for entries in SECTIONS.values():
        for name, _, line in entries:
            command = main.get_command(click.Context(main), name)
            assert command is not None
            assert (command.help or "").splitlines()[0] == line


@pytest.mark.parametrize("name", READING)
def test_json_stands_alone_on_stdout(name: str) -> None:
    run = onto(*READING[name], "--json")
    assert run.code == 0, run.err
    assert isinstance(run.json, dict | list)


@pytest.mark.parametrize("name", READING)
def test_csv_and_text_work_everywhere(name: str) -> None:
    for form in ("csv", "text"):
        run = onto("--format", form, *READING[name])
        assert run.code == 0, run.err
        assert run.out


@pytest.mark.parametrize("name", sorted(READING.keys() - {"schema export", "commands", "config show", "doctor"}))
def test_text_fits_80_columns(name: str) -> None:
    assert not [line for line in onto(*READING[name]).out.splitlines() if len(line) > 80]


@pytest.mark.parametrize("name", READING)
def test_reading_commands_leave_the_directory_as_it_was(name: str, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    onto(*READING[name])
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name != "out"}
    assert after == before


@pytest.mark.parametrize("name", sorted(READING.keys() - {"commands", "config show", "doctor", "init"}))
def test_a_missing_store_is_said_and_not_created(name: str, tmp_path: Path) -> None:
    run = onto(*READING[name], "--db", "missing.db")
    assert (run.code, run.out) == (exits.STORAGE, "")
    assert run.err.startswith("error[uninitialized]: There is no store at missing.db.\n  help: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["onto.db"]


def test_global_options_stand_before_or_after_the_command(tmp_path: Path) -> None:
    other = shop(tmp_path / "other.db")
    forms: list[list[Any]] = [
        ["--db", other, "--json", "commits", "examine", "2"],
        ["commits", "--db", other, "examine", "2", "--json"],
        ["commits", "--json", "examine", "2", "--db", other],
        ["--format", "json", "commits", "examine", "2", "--storage-uri", f"sqlite:///{other}"],
        ["--db", "missing.db", "commits", "examine", "--format=json", "2", f"--db={other}"],
    ]
    (tmp_path / "onto.db").unlink()
    answers = [onto(*form) for form in forms]
    assert [run.code for run in answers] == [0] * len(forms)
    assert len({run.out for run in answers}) == 1


def test_the_place_comes_from_option_environment_file_in_this_order(tmp_path: Path) -> None:
    for name in ("option.db", "environment.db", "file.db"):
        (tmp_path / name).write_bytes((tmp_path / "onto.db").read_bytes())

    def place(*arguments: str, **env: str) -> str:
        return onto("info", "--json", *arguments, env=env).json["path"]

    assert place() == "onto.db"
    (tmp_path / "ontologia.toml").write_text('db = "file.db"\n')
    assert place() == "file.db"
    assert place(ONTOLOGIA_DB="environment.db") == "environment.db"
    assert place("--db", "option.db", ONTOLOGIA_DB="environment.db") == "option.db"
    assert place(ONTOLOGIA_STORAGE_URI="sqlite:///environment.db") == "environment.db"


def test_two_places_that_differ_are_refused() -> None:
    run = onto("info", "--db", "a.db", "--storage-uri", "sqlite:///b.db")
    assert run.code == exits.USAGE
    assert "error[config]" in run.err
    assert onto("info", "--db", "onto.db", "--storage-uri", "sqlite:///onto.db").code == 0


@pytest.mark.parametrize("name", [*sorted(READING.keys() - {"commands", "config show"}), *ON_OBJECTS])
def test_a_file_and_a_bucket_together_are_refused_before_anything_is_asked(name: str) -> None:
    arguments = {**READING, **ON_OBJECTS}[name]
    run = onto(*arguments, "--db", "onto.db", "--storage-uri", "s3://bucket/prefix")
    assert run.code == (exits.UNHEALTHY if name == "doctor" else exits.USAGE)
    assert "name different stores" in run.out + run.err


@pytest.mark.parametrize("name", ON_OBJECTS)
@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_upkeep_of_object_storage_is_refused_for_a_file(name: str, extra: list[str]) -> None:
    run = onto(*ON_OBJECTS[name], *extra)
    assert (run.code, run.out) == (exits.USAGE, "")
    assert "object storage" in run.err


@pytest.mark.parametrize("grace", ["7", "d", "-1d", "1 day", "7days", ""])
def test_a_grace_that_is_no_length_of_time_is_refused(grace: str) -> None:
    run = onto("gc", f"--grace={grace}")
    assert run.code == exits.USAGE
    assert "7d, 12h, 30m" in run.err


CASES: dict[str, tuple[int, str, list[str]]] = {
    "a typo in a field": (2, "unknown-field", ["query", "entities", "Customer", "--filter", "$.teir", "eq", '"x"']),
    "a typo inside a relation's end": (
        2,
        "unknown-field",
        ["query", "relations", "Subscription", "--filter", "left.$.nam", "eq", "1"],
    ),
    "a value of the wrong type": (2, "query", ["query", "entities", "Customer", "--filter", "$.age", "gt", '"x"']),
    "a value that is not JSON": (2, "query", ["query", "entities", "Customer", "--filter", "$.tier", "eq", "Gold"]),
    "an unknown operator": (2, "usage", ["query", "entities", "Customer", "--filter", "$.tier", "is", '"Gold"']),
    "an unknown type": (2, "unknown-type", ["query", "entities", "Custmer"]),
    "a relation asked as an entity": (2, "unknown-type", ["query", "entities", "Subscription"]),
    "an unknown option": (2, "usage", ["info", "--verbose"]),
    "an unknown command": (2, "usage", ["inof"]),
    "no command": (2, "usage", ["query", "entities"]),
    "a setting that makes no sense": (2, "config", ["info", "--storage-uri", "http://x"]),
    "a bucket that is none": (2, "config", ["info", "--storage-uri", "s3://"]),
    "credentials in a URI": (2, "config", ["info", "--storage-uri", "s3://key:secret@bucket/prefix"]),
    "a token for a preview": (2, "usage", ["init", "--force", "--dry-run", "--token", "x"]),
    "a token without force": (2, "usage", ["init", "--token", "x"]),
    "a module that is not there": (2, "config", ["migrate", "--models", "no_such_module_here"]),
    "a missing input file": (1, "not-found", ["import", "--input", "nowhere.csv"]),
    "a missing commit": (1, "not-found", ["commits", "examine", "99"]),
    "a missing commit in a diff": (1, "not-found", ["diff", "1", "99"]),
    "a missing key": (1, "not-found", ["blame", "Customer", "nobody"]),
    "a drop with a stale token": (
        7,
        "refused",
        ["schema", "drop", "relation", "Subscription", "--apply", "--token", "x"],
    ),
    "a drop without a token": (7, "refused", ["schema", "drop", "relation", "Subscription", "--apply"]),
    "a store that is there": (7, "refused", ["init"]),
    "a reset with a stale token": (7, "refused", ["init", "--force", "--token", "x"]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_one_sentence_a_next_step_and_a_code(name: str) -> None:
    code, kind, arguments = CASES[name]
    run = onto(*arguments)
    assert (run.code, run.out) == (code, "")
    lines = run.err.splitlines()
    assert lines[0].startswith(f"error[{kind}]: ")
    assert lines[1].startswith("  help: ")
    assert "Traceback" not in run.err


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_json_on_stderr_when_json_was_asked_for(name: str) -> None:
    code, kind, arguments = CASES[name]
    run = onto(*arguments, "--json")
    assert (run.code, run.out) == (code, "")
    answer = json.loads(run.err)
    assert answer["exit_code"] == code
    assert answer["error"]["kind"] == kind
    assert answer["error"].keys() == {"kind", "message", "hint", "details"}
    assert answer["error"]["hint"]


def test_a_command_with_a_typo_suggests_the_right_one() -> None:
    assert "Did you mean 'info'?" in onto("inof").err


def test_every_error_has_an_exit_code_of_the_table() -> None:
    expected = {
        "ImportConflictError": 6,
        "RefusedError": 7,
        "MigrationTokenError": 7,
        "SchemaOutdatedError": 3,
        "SchemaBoundaryError": 3,
        "MissingUpgraderError": 3,
        "IntegrityError": 4,
        "UninitializedStorageError": 5,
        "FormatVersionError": 5,
        "StorageBackendError": 5,
        "RowError": 1,
        "NotFoundError": 1,
        "BatchSizeExceededError": 1,
        "DanglingEndpointError": 1,
        "LockContentionError": 1,
        "LeaseExpiredError": 1,
        "HeadMismatchError": 1,
        "CommitStateUnknownError": 1,
        "QueryError": 2,
        "ConfigError": 2,
        "UnknownTypeError": 2,
    }
    for name, code in expected.items():
        assert exit_code(getattr(errors, name)("It happened.")) == code
    assert set(expected.values()) <= exits.MEANINGS.keys()
    assert exit_code(PermissionError()) == exits.STORAGE
    assert exit_code(ZeroDivisionError()) == exits.FAILURE


def test_an_unexpected_error_is_called_a_bug_and_shows_its_trace_on_request(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import ontologia.store.binding as binding\n"
        "def broken(*arguments):\n    raise ZeroDivisionError('oops')\n"
        "binding.bind = broken\n"
    )
    run = program("init", cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert run.code == exits.FAILURE
    assert run.err.splitlines()[0].startswith("error[bug]: Unexpected ZeroDivisionError: oops.")
    assert "Traceback" not in run.err
    shown = program("init", cwd=tmp_path, env={"PYTHONPATH": str(tmp_path), "ONTOLOGIA_DEBUG": "1"})
    assert "Traceback" in shown.err


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "Big.csv").write_text("id,text\n" + "".join(f"{n},{'x' * 50}\n" for n in range(20_000)))
    assert onto("import", "Big.csv", "--infer", "--type", "Big", "--yes").code == 0
    command = f"{sys.executable} -m ontologia.cli query entities Big --json | head -1"
    result = subprocess.run(
        ["bash", "-c", command],  # noqa: S607 - the shell of the system
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert result.stdout == "[\n"
    assert result.stderr == ""


def test_an_interrupted_command_ends_with_130_and_without_a_trace(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import sys, time\nsys.stderr.write('here\\n')\nsys.stderr.flush()\ntime.sleep(60)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-m", "ontologia.cli", "migrate", "--models", "slow"],
        cwd=tmp_path,
        env=clean_environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stderr is not None
    assert child.stderr.readline() == "here\n"
    os.kill(child.pid, signal.SIGINT)
    started = time.monotonic()
    _, err = child.communicate(timeout=30)
    assert time.monotonic() - started < 30
    assert child.returncode == exits.INTERRUPTED
    assert err.strip().startswith("error[interrupted]")
    assert "Traceback" not in err


def test_help_lists_the_exit_codes() -> None:
    text = onto("--help").out
    assert all(f"  {code:<4} {meaning}" in text for code, meaning in exits.MEANINGS.items())


def test_version_and_help_work_as_a_program(tmp_path: Path) -> None:
    assert program("--version", cwd=tmp_path).out.startswith("onto, version ")
    run = program("query", "entities", "--help", cwd=tmp_path)
    assert run.code == 0
    assert "--filter PATH OP VALUE" in run.out
    assert "Global options:" in run.out
    assert program(cwd=tmp_path).code == exits.USAGE


def test_help_never_loads_what_only_commands_need() -> None:
    code = (
        "import sys\nfrom ontologia.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = {name.partition(".")[0] for name in result.stderr.split()}
    assert loaded.isdisjoint({"pyarrow", "duckdb", "obstore", "rich", "pandas", "polars", "numpy", "pydantic"})
