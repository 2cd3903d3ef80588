"""The store against raw `sqlite3`, as ratios of one run: a table for people, JSON for programs.

The raw side does the least work that stores or reads the same rows with the same durability. Ends with exit code 1
when a line misses its bound; `--quick` is too small to judge and never does.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from hops import follow_relations
from measure import Result, conclude, show_progress
from past import halfway, long_history
from reading import read_present
from starting import start
from workload import Sizes
from writing import reconcile_unchanged, small_commits, write_bulk, write_objects

Benchmark = Callable[[Path, Sizes], Iterator[Result]]
RESULTS = Path(__file__).with_name("results") / "store.json"
BENCHMARKS: dict[str, Benchmark] = {
    "objects": write_objects,
    "bulk": write_bulk,
    "unchanged": reconcile_unchanged,
    "commits": small_commits,
    "history": long_history,
    "present": read_present,
    "as_of": halfway,
    "relations": follow_relations,
    "start": start,
}


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write; 1 when a line misses its bound."""
    options = _options(arguments)
    sizes = Sizes().quick() if options.quick else Sizes()
    chosen = {name: BENCHMARKS[name] for name in options.only or BENCHMARKS}
    results: list[Result] = []
    for name, benchmark in chosen.items():
        with tempfile.TemporaryDirectory(prefix="ontologia-bench-", dir=options.folder) as folder:
            for result in benchmark(Path(folder), sizes):
                results.append(result)
                show_progress(f"{name}: {result.work.strip()}")
    return conclude(results, options.json, sizes, quick=options.quick)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the store against raw sqlite3.")
    names = ", ".join(BENCHMARKS)
    parser.add_argument("--quick", action="store_true", help="small sizes: see that it runs, not how fast")
    parser.add_argument("--only", action="append", choices=BENCHMARKS, metavar="NAME", help=f"of {names}; repeatable")
    parser.add_argument("--json", type=Path, default=RESULTS, metavar="PATH", help="where to write the results")
    parser.add_argument("--folder", type=Path, metavar="PATH", help="a directory on the disk to measure")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
