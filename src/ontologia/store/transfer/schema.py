"""Types as a file beside their rows, so that an exported directory says all there is to say.

The file is JSON: `{"types": [...]}` with the specs as the store keeps them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ontologia.errors import ConfigError
from ontologia.model.spec import TypeSpec

SCHEMA_FILE = "schema.json"
"""Its name in an exported directory."""


def schema_content(specs: Iterable[TypeSpec]) -> dict[str, Any]:
    """Specs as JSON-able data."""
    return {"types": [spec.to_json() for spec in specs]}


def write_schema(path: Path, specs: Iterable[TypeSpec]) -> None:
    """Write specs to a file."""
    text = json.dumps(schema_content(specs), indent=2, ensure_ascii=False)
    path.write_text(f"{text}\n", encoding="utf-8")


def read_schema(path: Path) -> list[TypeSpec]:
    """The specs in a file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return [TypeSpec.from_json(record) for record in content["types"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} is not an exported schema: {error}.", hint="Give a file that `onto schema export` wrote."
        ) from error
