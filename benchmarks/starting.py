"""Lines about starting: what importing the library and asking the command for help cost beyond a bare Python."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from measure import Result, fact
from workload import Sizes

HEAVY = ("pyarrow", "duckdb", "pandas", "polars", "numpy", "sqlalchemy", "fastapi")


def start(folder: Path, sizes: Sizes) -> Iterator[Result]:
    """Processor time of whole processes, the best of several."""
    bare = _cpu(["-c", "pass"], folder, sizes)
    imported = _cpu(["-c", "import ontologia"], folder, sizes) - bare
    script = f"import sys, ontologia; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)  # noqa: S603 - our own
    heavy = loaded.stdout.strip()
    work = "import ontologia: CPU above bare Python"
    yield fact(
        "start.import", work, f"{imported * 1e3:.0f} ms", "no heavy", heavy and f"loads {heavy}", passed=not heavy
    )
    command = ["-c", "import sys; sys.argv = ['onto', '--help']; from ontologia.cli import main; main()"]
    asked = _cpu(command, folder, sizes) - bare
    yield fact(
        "start.help", "onto --help: CPU above bare Python", f"{asked * 1e3:.0f} ms", "<= 0.3 s", passed=asked <= 0.3
    )


def _cpu(arguments: list[str], folder: Path, sizes: Sizes) -> float:
    best = float("inf")
    for _ in range(max(sizes.rounds, 2)):
        with (folder / "out").open("wb") as out:
            child = subprocess.Popen([sys.executable, *arguments], stdout=out, stderr=out)  # noqa: S603 - our own
            _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0, (folder / "out").read_text()
        best = min(best, usage.ru_utime + usage.ru_stime)
    return best
