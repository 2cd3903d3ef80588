"""The command line: `onto`. It parses, calls the library and renders; nothing else is decided here."""

from ontologia.cli.root import main

__all__ = ["main"]
