"""Where processes come from that write to a bucket and come to grief.

`Nursery` keeps one process with everything loaded, which forks a new one for each piece of work: a real process to
kill costs milliseconds. What they do is in `children`.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from store_objects.buckets import Bucket

from ontologia.testing.faults import Child

SCRIPT = Path(__file__).with_name("children.py")


def place(bucket: Bucket, settings: dict[str, Any]) -> str:
    """What a child needs to open the store."""
    config = bucket.config.model_dump(exclude_none=True) | settings
    return json.dumps({"uri": bucket.uri, "settings": config})


class Forked:
    """A process that runs beside this one, and the lines that it acknowledges."""

    def __init__(self, nursery: Nursery, pid: int, pipe: Path) -> None:
        self.pid = pid
        self._nursery = nursery
        self._output = pipe.open(encoding="utf-8")
        self.lines: list[str] = []

    def next_line(self) -> str:
        """Wait for the next acknowledgement; an empty text when there will be none."""
        line = self._output.readline().removesuffix("\n")
        if line:
            self.lines.append(line)
        return line

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self, *, expect: int = 0) -> list[str]:
        """Let it run to its end, and check how it ended; everything it has acknowledged."""
        while self.next_line():
            pass
        self._output.close()
        code = int(self._nursery.ask("wait", self.pid).removeprefix("ended "))
        if code != expect:
            raise ChildProcessError(f"The process ended with {code}, not {expect}, after {self.lines}.")
        return self.lines


class Nursery:
    """Runs pieces of work, each in a process of its own."""

    def __init__(self) -> None:
        self._child: Child | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="ontologia-nursery-")
        self._pipes = 0

    def ask(self, *words: object) -> str:
        """The answer of the process that forks."""
        if self._child is None:
            self._child = Child(SCRIPT, ["serve"])
        self._child.say(json.dumps(words))
        line = self._child.next_line()
        if not line:
            self._child.wait()
            raise ChildProcessError("The nursery has closed.")
        return line

    def start(self, verb: str, bucket: Bucket, *arguments: object, **settings: Any) -> Forked:
        """A process that runs beside this one."""
        self._pipes += 1
        pipe = Path(self._folder.name, f"pipe{self._pipes}")
        os.mkfifo(pipe)
        pid = self.ask("start", str(pipe), verb, place(bucket, settings), *map(str, arguments))
        return Forked(self, int(pid.removeprefix("started ")), pipe)

    def killed(self, verb: str, bucket: Bucket, *arguments: object, **settings: Any) -> list[str]:
        """What a process acknowledged before it was killed, which it must have been."""
        return self.start(verb, bucket, *arguments, **settings).wait(expect=-9)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child is not None:
            self._child.__exit__(kind, error, trace)
        self._folder.cleanup()
