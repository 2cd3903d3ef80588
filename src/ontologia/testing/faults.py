"""Processes that write to a store and come to grief: started, listened to, and killed at a chosen moment.

A `Child` runs a Python script of the test's own and reads the lines it acknowledges; whatever was acknowledged
before the end is what a durable store must still have. Nothing here knows which backend is tested.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self


class Child:
    """A script in a process of its own; each line that it prints is an acknowledgement."""

    def __init__(self, script: Path, arguments: Sequence[object]) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter on the test's own script
            [sys.executable, str(script), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self.lines: list[str] = []

    def next_line(self) -> str:
        """Wait for the next acknowledgement; an empty text when there will be none."""
        assert self._process.stdout is not None, "started with a pipe"
        line = self._process.stdout.readline()
        if line.endswith("\n"):
            self.lines.append(line[:-1])
            return line[:-1]
        return ""

    def say(self, line: str) -> None:
        """Send a line to the script's standard input."""
        assert self._process.stdin is not None, "started with a pipe"
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def kill(self) -> list[str]:
        """End it as a power cut would, between any two instructions; everything it had acknowledged."""
        self._process.kill()
        return self.wait(expect=-signal.SIGKILL)

    def wait(self, *, expect: int = 0) -> list[str]:
        """Let it run to its end, and check how it ended; everything it has acknowledged."""
        rest, errors = self._process.communicate(timeout=120)
        *whole, _broken = rest.split("\n")
        self.lines += whole
        if self._process.returncode != expect:
            raise ChildProcessError(f"The child ended with {self._process.returncode}, not {expect}: {errors}")
        return self.lines

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()
