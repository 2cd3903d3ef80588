"""`import ontologia` and `onto --help` stay cheap: they load no heavy library and cost little CPU."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("duckdb", "fastapi", "numpy", "obstore", "pandas", "polars", "pyarrow", "rich", "sqlalchemy")
ONTO = Path(sys.executable).with_name("onto")

LOADED_AFTER_IMPORT = """
import json, sys
import ontologia
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""
LOADED_AFTER_HELP = """
import json, sys
from ontologia.cli import main
sys.argv = ["onto", "--help"]
try:
    main()
except SystemExit:
    pass
print()
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def loaded(program: str, directory: Path) -> set[str]:
    """Top-level modules that a program has loaded when it ends."""
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=directory, capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(result.stdout.splitlines()[-1]))


def cpu_seconds(command: list[str], directory: Path, runs: int = 5) -> float:
    """The least CPU time (user and system) that a command took, with bytecode cached as on a user's machine."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(directory / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    times: list[float] = []
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=directory, env=environment, capture_output=True, check=True, timeout=60)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(times)


@pytest.mark.parametrize("program", [LOADED_AFTER_IMPORT, LOADED_AFTER_HELP], ids=["import ontologia", "onto --help"])
def test_no_heavy_library_is_loaded(program: str, tmp_path: Path) -> None:
    names = loaded(program, tmp_path)
    assert "ontologia" in names
    assert names.isdisjoint(HEAVY)


def test_help_costs_at_most_three_tenths_of_a_second_more_than_python(tmp_path: Path) -> None:
    assert os.access(ONTO, os.X_OK), f"{ONTO} is missing: run `make setup`"
    bare = cpu_seconds([sys.executable, "-c", "pass"], tmp_path)
    helped = cpu_seconds([str(ONTO), "--help"], tmp_path)
    assert helped - bare < 0.3
