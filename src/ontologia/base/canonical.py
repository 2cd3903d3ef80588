"""One text for one value: canonical JSON, and hashes over it.

Keys are sorted, no blanks, no escapes beyond what JSON demands. Integers keep every digit and floats their shortest
exact form, so that equal text means equal data.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical_json(value: Any) -> str:
    """The canonical text of a JSON value."""
    return _ENCODER.encode(value)


def sha256_json(value: Any) -> str:
    """Hex SHA-256 of the canonical text."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()
