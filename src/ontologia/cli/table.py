"""Tables for a terminal: columns side by side when they fit, one block per row when they do not.

Only text that is too wide is cut, the widest first, with an ellipsis, and the caller is told, so that it can say so;
headings, numbers and times stay whole. Control characters are shown, never sent to the terminal.
"""

from __future__ import annotations

import re
import shutil
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import click

_GAP = "  "
_NARROWEST = 8
_NUMBER_OR_TIME = re.compile(
    r"[+-]?\d[\d,]*(\.\d+)?([eE][+-]?\d+)?|-?|true|false"
    r"|\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?"
)
"""Cells that say something else, or nothing, when they are cut."""


@dataclass(frozen=True, slots=True)
class Table:
    """The lines of a table, and whether something was cut."""

    lines: tuple[str, ...]
    cut: bool


def terminal_width() -> int:
    """Columns of the terminal; 80 where there is none."""
    return shutil.get_terminal_size((80, 24)).columns


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> Table:
    """Rows under their headings."""
    room = width or terminal_width()
    cells = [[visible(cell) for cell in row] for row in rows]
    widths = [max([_width(name), *(_width(row[at]) for row in cells)]) for at, name in enumerate(columns)]
    least = [
        wide if all(_NUMBER_OR_TIME.fullmatch(row[at]) for row in cells) else min(wide, max(_width(name), _NARROWEST))
        for at, (name, wide) in enumerate(zip(columns, widths, strict=True))
    ]
    room_for_cells = room - len(_GAP) * (len(columns) - 1)
    if sum(least) > room_for_cells and cells:
        return _blocks(columns, cells, room)
    cut = _shrink(widths, least, room_for_cells)
    header = _GAP.join(_fitted(name, wide) for name, wide in zip(columns, widths, strict=True)).rstrip()
    body = [_GAP.join(_fitted(c, wide) for c, wide in zip(row, widths, strict=True)).rstrip() for row in cells]
    rule = _GAP.join("─" * wide for wide in widths)
    return Table((click.style(header, bold=True), click.style(rule, dim=True), *body), cut)


def _shrink(widths: list[int], least: Sequence[int], room: int) -> bool:
    """Take from the widest column that may be cut until all fit."""
    cut = False
    while sum(widths) > room and widths != list(least):
        widest = max((at for at in range(len(widths)) if widths[at] > least[at]), key=widths.__getitem__)
        widths[widest] -= 1
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
