"""Settings: an argument wins over the environment, the environment over `ontologia.toml`, the file over the default.

Every field reads `ONTOLOGIA_<FIELD>` from the environment. `origins` tells where each value came from.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError
from pydantic import Field as Setting

from ontologia.base.ids import new_runtime_id
from ontologia.errors import ConfigError

CONFIG_FILE = "ontologia.toml"
DEFAULT_DB = "onto.db"


class OntologiaConfig(BaseModel):
    """All settings of the store. `OntologiaConfig(lock_timeout_ms=100)` overrides what the environment says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    db: str | None = Setting(None, description="Path of the SQLite file.")
    storage_uri: str | None = Setting(None, description="Where the store is, as a URI; wins over `db`.")
    runtime_id: str = Setting(default_factory=new_runtime_id, description="Name of this writer, kept in each commit.")
    lock_timeout_ms: Annotated[int, Setting(ge=0)] = Setting(
        5000, description="How long to wait for another writer before LockContentionError."
    )
    max_batch_size: Annotated[int, Setting(ge=1)] = Setting(
        5_000_000, description="Most rows that one commit may write."
    )
    sqlite_synchronous: Literal["full", "normal"] = Setting(
        "full",
        description="`full`: an acknowledged commit survives power loss. `normal`: survives a killed process only.",
    )

    _origins: dict[str, str] = PrivateAttr(default_factory=dict[str, str])

    def __init__(self, **arguments: Any) -> None:
        origins = dict.fromkeys(arguments, "argument")
        values = dict(arguments)
        for name, value, origin in _outside():
            if name not in values:
                values[name], origins[name] = value, origin
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _config_error(error, origins) from error
        self._origins = origins

    def strength(self, name: str) -> int:
        """How strongly a setting was made: 0 by default, 1 in the file, 2 in the environment, 3 as an argument."""
        origin = self._origins.get(name, "default")
        return {"default": 0, "argument": 3}.get(origin, 2 if origin.startswith("environment") else 1)

    @property
    def origins(self) -> dict[str, str]:
        """Where each setting came from: argument, environment, the file's path, or default."""
        return {name: self._origins.get(name, "default") for name in type(self).model_fields}


def _outside() -> list[tuple[str, Any, str]]:
    """Settings found in the environment and the file, in order of precedence."""
    found: list[tuple[str, Any, str]] = []
    for name in OntologiaConfig.model_fields:
        variable = f"ONTOLOGIA_{name.upper()}"
        if os.environ.get(variable):
            found.append((name, os.environ[variable], f"environment ({variable})"))
    path = Path(CONFIG_FILE)
    if path.is_file():
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"{path} cannot be read: {error}.", hint="Fix or remove the file.") from error
        found += [(name, value, str(path)) for name, value in content.items()]
    return found


def _config_error(error: ValidationError, origins: dict[str, str]) -> ConfigError:
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0]) if first["loc"] else "?"
    where = origins.get(name, "default")
    if first["type"] == "extra_forbidden":
        known = ", ".join(OntologiaConfig.model_fields)
        return ConfigError(f"Unknown setting {name!r} ({where}).", hint=f"Known settings: {known}.")
    return ConfigError(
        f"Setting {name!r} ({where}) is {first['input']!r}: {first['msg']}.",
        hint="See docs/reference/settings.md.",
    )
