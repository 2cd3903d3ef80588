"""`benchmarks/store.py` runs and answers for every line of the table, whatever the machine is busy with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

STORE = Path(__file__).resolve().parents[2] / "benchmarks" / "store.py"
SUBJECTS = {"write", "get", "history", "filter", "limit", "figures", "as_of", "hops", "start"}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(STORE), *arguments], check=False, capture_output=True, text=True)


def test_every_line_is_measured_and_written(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    done = run("--quick", "--json", str(path))
    assert done.returncode == 0, done.stderr
    results = json.loads(path.read_text(encoding="utf-8"))["results"]
    assert {result["name"].partition(".")[0] for result in results} == SUBJECTS
    assert all(len(line) <= 80 for line in done.stdout.splitlines() if not line.startswith("/"))
    # Times of so little work say nothing; how many statements it takes and what is loaded do not depend on the size.
    timeless = [result for result in results if result["name"].startswith(("hops.", "limit.plan", "start.import"))]
    assert [result["name"] for result in timeless if not result["passed"]] == []


def test_an_unknown_line_is_a_usage_error() -> None:
    done = run("--only", "nothing")
    assert done.returncode == 2
    assert "relations" in done.stderr
