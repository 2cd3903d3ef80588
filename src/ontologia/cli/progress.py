"""A progress bar on stderr, when there is a terminal to see it.

In a pipe there is nothing to report to, so that logs stay clean. rich is loaded only when a bar is drawn.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

Report = Callable[[int, int], None]
"""Called with work done and work in all."""


@contextmanager
def progress_bar(label: str) -> Generator[Report | None]:
    """How to report progress; None in a pipe."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield report
