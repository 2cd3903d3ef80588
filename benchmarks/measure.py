"""Timing two ways of doing the same work, and saying whether the ratio is good enough.

The two take turns, several times, and the best of each counts: noise can only slow a run down. What a run prepares is
off the clock, because it hands back the seconds that it measured itself.
"""

from __future__ import annotations

import gc
import json
import platform
import sqlite3
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

Run = Callable[[], float]
"""One turn: prepares, measures, cleans up, and gives the seconds that count."""


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the table."""

    name: str
    """What `--only` selects by; lines of one subject share the part before the dot."""
    work: str
    ours: float | None
    raw: float | None
    unit: str
    figure: str
    """What is judged, as it reads in the table."""
    bound: str
    passed: bool | None
    """None for a line that is only worth knowing."""
    note: str = ""


def seconds(work: Callable[[], object]) -> float:
    """How long a piece of work takes, with the garbage collector as in a fresh program."""
    gc.collect()
    start = perf_counter()
    work()
    return perf_counter() - start


def race(ours: Run, raw: Run, rounds: int) -> tuple[float, float]:
    """The best time of each, after taking turns."""
    pairs = [(ours(), raw()) for _ in range(rounds)]
    return min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)


def rate(name: str, work: str, times: tuple[float, float], least: float, note: str = "") -> Result:
    """A line that asks for at least this part of the raw rate."""
    ours, raw = times
    ratio = raw / ours
    return Result(name, work, ours, raw, "s", f"{ratio:.2f}", f">= {least:g}", ratio >= least, note)


def within(name: str, work: str, times: tuple[float, float], most: float | None, note: str = "") -> Result:
    """A line that allows at most this many times the raw time; no bound makes it one for the reader only."""
    ours, raw = times
    ratio = ours / raw
    bound = "" if most is None else f"<= {most:g}x"
    return Result(name, work, ours, raw, "s", f"{ratio:.2f}x", bound, None if most is None else ratio <= most, note)


def fact(name: str, work: str, figure: str, bound: str, note: str = "", *, passed: bool) -> Result:
    """A line that is not a race."""
    return Result(name, work, None, None, "", figure, bound, passed, note)


class Statements:
    """Counts the SQL statements of every connection that is opened inside the block, by any code."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    @contextmanager
    def watching(self) -> Generator[None]:
        """Trace the connections that are opened while this lasts."""
        connect = sqlite3.connect

        def traced(*arguments: Any, **named: Any) -> sqlite3.Connection:
            connection = connect(*arguments, **named)
            connection.set_trace_callback(self.texts.append)
            return connection

        sqlite3.connect = traced
        try:
            yield
        finally:
            sqlite3.connect = connect

    def during(self, work: Callable[[], object]) -> int:
        """How many statements a piece of work runs, transaction control left out."""
        before = len(self.texts)
        work()
        return sum(not text.startswith(("BEGIN", "COMMIT", "ROLLBACK", "PRAGMA")) for text in self.texts[before:])


def table(results: Iterable[Result]) -> str:
    """The results for a terminal of 80 columns."""
    lines = [f"{'work':<38}{'ours':>9}{'raw':>9}{'figure':>9}{'needs':>10}", "-" * 80]
    for result in results:
        mark = "" if result.passed is None else ("ok" if result.passed else "MISS")
        times = f"{_time(result.ours):>9}{_time(result.raw):>9}"
        lines.append(f"{result.work:<38.38}{times}{result.figure:>9}{result.bound:>10} {mark}".rstrip())
        if result.note:
            lines.append(f"    {result.note:.76}")
    return "\n".join(lines)


def show_progress(text: str) -> None:
    """One line that is written over, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r{text:<79.79}\r", end="", file=sys.stderr, flush=True)


def conclude(results: list[Result], path: Path, sizes: Any, *, quick: bool) -> int:
    """Print and write the results; 1 when a line misses its bound, unless the sizes are too small to judge by."""
    show_progress("")
    print(table(results))
    write_json(path, results, sizes)
    print(f"\n{path}")
    if quick:
        print("--quick: these sizes are too small to judge by.")
        return 0
    missed = sum(result.passed is False for result in results)
    print(f"{missed} of {len(results)} lines miss their bound." if missed else "Every bound is met.")
    return 1 if missed else 0


def _time(value: float | None) -> str:
    if value is None:
        return ""
    if value < 0.001:
        return f"{value * 1e6:.1f} us"
    return f"{value * 1e3:.1f} ms" if value < 1 else f"{value:.2f} s"


def write_json(path: Path, results: Iterable[Result], sizes: Any) -> None:
    """The results for a program, with what they were measured on."""
    record = {
        "machine": {
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            "platform": platform.platform(),
            "processor": platform.machine(),
        },
        "sizes": asdict(sizes),
        "results": [asdict(result) for result in results],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
