"""Results in the form that was asked for: text for people, JSON and CSV for programs.

Text may be cut to the terminal and says so; JSON and CSV never are. Notes go to stderr, so that stdout holds the
result alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from ontologia.cli.invocation import Invocation
from ontologia.cli.table import table, visible

CUT = "Some values are cut (…) to fit the terminal; --json shows them whole."


def text_of(value: Any) -> str:
    """A JSON value as a person reads it in a cell."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value if value.strip() == value and value not in {"", "-"} else json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool | dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def show_rows(invocation: Invocation, columns: Sequence[str], rows: Iterable[Mapping[str, Any]], empty: str) -> None:
    """Rows of like records. `empty` says what to do when there are none."""
    listed = list(rows)
    if invocation.as_json:
        invocation.emit_json(listed)
    elif invocation.format == "csv":
        invocation.emit_csv(columns, ([row.get(name) for name in columns] for row in listed))
    elif listed:
        show_table(invocation, columns, [[text_of(row.get(name)) for name in columns] for row in listed])
    if not listed:
        invocation.note(empty)


def show_table(invocation: Invocation, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Cells that are text already."""
    shown = table(columns, rows)
    for line in shown.lines:
        click.echo(line)
    if shown.cut:
        invocation.note(CUT)


def show_facts(invocation: Invocation, facts: Mapping[str, Any]) -> None:
    """One record: name and value, one per line."""
    if invocation.as_json:
        invocation.emit_json(facts)
    elif invocation.format == "csv":
        invocation.emit_csv(("name", "value"), facts.items())
    else:
        for line in fact_lines(facts):
            click.echo(line)


def fact_lines(facts: Mapping[str, Any]) -> list[str]:
    """A record as lines, values aligned."""
    width = max((len(name) for name in facts), default=0)
    return [f"{click.style(name.ljust(width), bold=True)}  {visible(text_of(value))}" for name, value in facts.items()]


def plural(number: int, noun: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def size_text(number: int) -> str:
    """`512 bytes`, `1.2 MB`."""
    amount, unit = float(number), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:,.1f} {unit}" if unit != "bytes" else plural(number, "byte")
