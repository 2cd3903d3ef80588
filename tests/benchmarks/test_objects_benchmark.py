"""`benchmarks/objects.py` runs and answers for every line of the table, whatever the machine is busy with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

OBJECTS = Path(__file__).resolve().parents[2] / "benchmarks" / "objects.py"


def test_every_line_is_measured_and_requests_keep_their_bounds(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    done = subprocess.run(
        [sys.executable, str(OBJECTS), "--quick", "--json", str(path)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(path.read_text(encoding="utf-8"))["results"]
    assert {result["name"].partition(".")[0] for result in results} == {"commit", "cold", "warm", "compact", "bulk"}
    # Times of so little work say nothing; how many requests it takes does not depend on the size.
    counted = [result for result in results if "req" in result["figure"] or result["name"].startswith("commit.re")]
    assert [result["name"] for result in counted if not result["passed"]] == []
