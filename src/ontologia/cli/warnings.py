"""What the library warns of while it works, on stderr, one line each.

The library writes to the log of its name; a program may send that anywhere, the command line shows it to the person.
"""

from __future__ import annotations

import logging

import click


class _OnStderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        click.echo(f"{click.style('warning:', fg='yellow')} {record.getMessage()}", err=True)


_HANDLER = _OnStderr(logging.WARNING)


def show_warnings() -> None:
    """Show warnings from now on."""
    logging.getLogger("ontologia").addHandler(_HANDLER)
