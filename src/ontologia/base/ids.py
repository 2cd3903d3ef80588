"""Identifiers made here: who is writing.

A runtime id names a process for people who read the log; nothing depends on its form.
"""

from __future__ import annotations

import os
import secrets
import socket


def new_runtime_id() -> str:
    """A name for this process that tells a person where it runs."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
