"""Where processes come from that write to a bucket and come to grief.

`Nursery` keeps one process with everything loaded, which forks a new one for each piece of work: a real process to
kill costs milliseconds. `start` gives a process that runs beside the test. What they do is in `children`.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from store_objects.buckets import Bucket

from ontologia.testing.faults import Child

SCRIPT = Path(__file__).with_name("children.py")


def place(bucket: Bucket, **settings: Any) -> str:
    """What a child needs to open the store as another machine would."""
    config = bucket.config.model_dump(exclude_none=True) | settings
    return json.dumps({"uri": bucket.uri, "settings": config})


def start(verb: str, bucket: Bucket, *arguments: object, **settings: Any) -> Child:
    """A process that runs beside this one."""
    return Child(SCRIPT, [verb, place(bucket, **settings), *arguments])


class Nursery:
    """Runs pieces of work one after another, each in a process of its own."""

    def __init__(self) -> None:
        self._child: Child | None = None

    def run(self, verb: str, bucket: Bucket, *arguments: object, **settings: Any) -> tuple[list[str], int]:
        """The lines that a process acknowledged, and how it ended."""
        if self._child is None:
            self._child = Child(SCRIPT, ["serve"])
        self._child.say(json.dumps([verb, place(bucket, **settings), *map(str, arguments)]))
        lines: list[str] = []
        while not (line := self._child.next_line()).startswith("ended "):
            if not line:
                self._child.wait()
                raise ChildProcessError("The nursery has closed.")
            lines.append(line)
        return lines, int(line.removeprefix("ended "))

    def killed(self, verb: str, bucket: Bucket, *arguments: object, **settings: Any) -> list[str]:
        """What a process acknowledged before it was killed, which it must have been."""
        lines, code = self.run(verb, bucket, *arguments, **settings)
        if code != -9:
            raise ChildProcessError(f"The process ended with {code} after {lines}: it was not killed.")
        return lines

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child is not None:
            self._child.__exit__(kind, error, trace)
