"""Tables for a terminal: columns side by side when they fit, one block per row when they do not.

A cell that is too wide is cut with an ellipsis and the caller is told, so that it can say so. Control characters are
shown, never sent to the terminal.
"""

from __future__ import annotations

import shutil
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import click

_GAP = "  "
_NARROWEST = 8


@dataclass(frozen=True, slots=True)
class Table:
    """The lines of a table, and whether something was cut."""

    lines: tuple[str, ...]
    cut: bool


def terminal_width() -> int:
    """Columns of the terminal; 80 where there is none."""
    return shutil.get_terminal_size((80, 24)).columns


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None, *, whole: int = 0) -> Table:
    """Rows under their headings. The first `whole` columns are not cut."""
    room = width or terminal_width()
    cells = [[visible(cell) for cell in row] for row in rows]
    widths = [max([_width(name), *(_width(row[at]) for row in cells)]) for at, name in enumerate(columns)]
    least = sum(min(wide, _NARROWEST) for wide in widths) + len(_GAP) * (len(columns) - 1)
    if least > room and cells:
        return _blocks(columns, cells, room)
    cut = _shrink(widths, room - len(_GAP) * (len(columns) - 1), whole)
    header = _GAP.join(_fitted(name, wide) for name, wide in zip(columns, widths, strict=True)).rstrip()
    body = [_GAP.join(_fitted(c, wide) for c, wide in zip(row, widths, strict=True)).rstrip() for row in cells]
    rule = _GAP.join("─" * wide for wide in widths)
    return Table((click.style(header, bold=True), click.style(rule, dim=True), *body), cut)


def _shrink(widths: list[int], room: int, whole: int) -> bool:
    """Take from the widest column until all fit."""
    cut = False
    while sum(widths) > room and max(widths[whole:], default=0) > 1:
        widths[widths.index(max(widths[whole:]), whole)] -= 1
        cut = True
    return cut


def _blocks(columns: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> Table:
    """One line per value: what is left when there are more columns than the terminal can show."""
    label = max(map(_width, columns))
    space = max(room - label - len(_GAP), _NARROWEST)
    lines: list[str] = []
    cut = False
    for number, row in enumerate(rows, 1):
        lines.append(click.style(f"─ {number} ".ljust(room, "─"), dim=True))
        for name, cell in zip(columns, row, strict=True):
            cut |= _width(cell) > space
            lines.append(f"{_fitted(name, label)}{_GAP}{_fitted(cell, space)}".rstrip())
    return Table(tuple(lines), cut)


def visible(text: str) -> str:
    """Text on one line, with what a terminal would obey shown instead."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _fitted(text: str, width: int) -> str:
    if _width(text) <= width:
        return text + " " * (width - _width(text))
    kept = ""
    for character in text:
        if _width(kept + character) > width - 1:
            break
        kept += character
    return f"{kept}…" + " " * (width - 1 - _width(kept))
