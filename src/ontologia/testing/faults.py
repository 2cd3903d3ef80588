"""Processes that write to a store and come to grief: started, listened to, and killed at a chosen moment.

A `Child` runs a Python script of the test's own and reads the lines it acknowledges; whatever was acknowledged before
the end is what a durable store must still have. Nothing here knows which backend is tested.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self


class Child:
    """A script in a process of its own; each line that it prints and flushes is an acknowledgement."""

    def __init__(self, script: Path, arguments: Sequence[object]) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - open for as long as the child lives
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter on the test's own script
            [sys.executable, str(script), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self.lines: list[str] = []

    def next_line(self) -> str:
        """Wait for the next acknowledgement; an empty text when there will be none."""
        line = self._output.readline()
        if not line.endswith("\n"):
            return ""
        self.lines.append(line[:-1])
        return line[:-1]

    def say(self, line: str) -> None:
        """Send a line to the script's standard input."""
        self._input.write(f"{line}\n")
        self._input.flush()

    def kill(self) -> list[str]:
        """End it as a power cut would, between any two instructions; everything it had acknowledged."""
        self._process.kill()
        return self.wait(expect=-signal.SIGKILL)

    def wait(self, *, expect: int = 0) -> list[str]:
        """Let it run to its end, and check how it ended; everything it has acknowledged."""
        while self.next_line():
            pass
        code = self._process.wait()
        self._errors.seek(0)
        errors = self._errors.read()
        self._close()
        if code != expect:
            raise ChildProcessError(f"The child ended with {code}, not {expect}: {errors}")
        return self.lines

    def _close(self) -> None:
        for stream in (self._input, self._output, self._errors):
            stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._close()
