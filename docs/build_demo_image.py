"""Draws docs/images/demo.svg from what `onto demo` really prints. Run it with `python docs/build_demo_image.py`.

The picture shows some of the steps, chosen so that nothing in it changes from run to run; it refers to no font or file
elsewhere.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.text import Text

IMAGE = Path(__file__).parent / "images" / "demo.svg"
COLUMNS = 92
SHOWN = ("4.", "5.", "8.", "10.", "14.", "16.")
_HEADING = re.compile(r"^(\d+\.) ")
_RESULT = "  →"
_FONT_FACES = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_FONTS = '"DejaVu Sans Mono", Menlo, Consolas, "Liberation Mono", monospace'


def demo() -> str:
    """The demo's output, in colour."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ONTOLOGIA_")}
    environment |= {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "ontologia.cli", "demo"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout  # noqa: S603 - ours


def steps(output: str) -> Iterator[tuple[str, list[Text]]]:
    """The numbered steps of the demo, each with its lines."""
    number, lines = "", list[Text]()
    for line in output.splitlines():
        text = Text.from_ansi(line)
        text.rstrip()
        heading = _HEADING.match(text.plain)
        if heading or text.plain.endswith("some of what the program declares"):
            yield number, lines
            number, lines = heading[1] if heading else "", []
        lines.append(text)
    yield number, lines


def draw(output: str) -> str:
    """The chosen steps as an SVG picture of a terminal."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text("$ onto demo"))
    shown: list[str] = []
    for number, lines in steps(output):
        if number in SHOWN:
            shown.append(number)
            console.print()
            while not lines[-1].plain.startswith(_RESULT):
                lines.pop()
            for line in lines:
                console.print(line, no_wrap=True, overflow="ellipsis")
    if tuple(shown) != SHOWN:
        raise SystemExit(f"The demo has the steps {shown}; the picture wants {list(SHOWN)}.")
    picture = console.export_svg(title="onto demo", unique_id="demo")
    return _FONT_FACES.sub("", picture).replace("Fira Code, monospace", _FONTS)


def write() -> None:
    """Write the picture."""
    IMAGE.parent.mkdir(exist_ok=True)
    IMAGE.write_text(draw(demo()) + "\n", encoding="utf-8")
    sys.stdout.write("docs/images/demo.svg\n")


if __name__ == "__main__":
    write()
