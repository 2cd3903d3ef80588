"""Settings: an argument wins over the environment, the environment over `ontologia.toml`, the file over the default.

Every field reads `ONTOLOGIA_<FIELD>` from the environment. `origins` tells where each value came from. Credentials for
object storage are no settings: they come from the standard AWS chain.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, PrivateAttr, ValidationError
from pydantic import Field as Setting

from ontologia.base.ids import new_runtime_id
from ontologia.errors import ConfigError

CONFIG_FILE = "ontologia.toml"
DEFAULT_DB = "onto.db"
_MEMORY = re.compile(r"(\d+(?:\.\d+)?) *([KMGT]i?B|%)", re.IGNORECASE)


def _memory(text: str) -> str:
    match = _MEMORY.fullmatch(text.strip())
    if match is None or not 0 < float(match[1]) <= (100 if match[2] == "%" else float("inf")):
        raise ValueError("write a number and KB, MB, GB, KiB, MiB, GiB or %, such as 256MB")
    return match[0]


def _endpoint(text: str) -> str:
    advice = "write scheme, host and port, such as http://127.0.0.1:9000"
    try:
        url = urlsplit(text.strip())
        sound = url.scheme in {"http", "https"} and url.hostname and url.port != 0
    except ValueError as error:
        raise ValueError(advice) from error
    if not sound or url.query or url.fragment:
        raise ValueError(advice)
    if url.username is not None or url.password is not None:
        raise ValueError("credentials do not belong in a URL; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    return url.geturl().rstrip("/")


class OntologiaConfig(BaseModel):
    """All settings of the store. `OntologiaConfig(lock_timeout_ms=100)` overrides what the environment says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    db: str | None = Setting(None, description="Path of the SQLite file.")
    storage_uri: str | None = Setting(
        None, description="Where the store is: `sqlite:///path` or `s3://bucket/prefix`; wins over `db`."
    )
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

    s3_region: str | None = Setting(
        None, description="Region of the bucket; where this is not set, AWS_REGION or AWS_DEFAULT_REGION."
    )
    s3_endpoint_url: Annotated[str, AfterValidator(_endpoint)] | None = Setting(
        None, description="Address of an S3-compatible server such as MinIO; AWS itself needs none."
    )
    s3_lock_timeout_ms: Annotated[int, Setting(ge=0)] = Setting(
        5000, description="How long to wait for another writer on object storage before LockContentionError."
    )
    s3_lease_ttl_ms: Annotated[int, Setting(ge=300)] = Setting(
        30_000,
        description="How long a writer on object storage holds the lock without renewing it; a writer that died is"
        " in the way for so long. Clocks must agree to within a third of it.",
    )
    s3_request_timeout_s: Annotated[float, Setting(gt=0, allow_inf_nan=False)] = Setting(
        10.0, description="How long one request to object storage may take."
    )
    s3_duckdb_memory_limit: Annotated[str, AfterValidator(_memory)] = Setting(
        "256MB", description="Memory for queries on object storage: `256MB`, `1GiB`, `50%`. What needs more is spilled."
    )
    s3_cache_dir: str | None = Setting(
        None,
        description="Directory that keeps what was fetched from object storage; where this is not set, `ontologia` in"
        " the user's cache directory.",
    )
    s3_cache_bytes: Annotated[int, Setting(ge=0)] = Setting(
        10_000_000_000, description="Most bytes in that directory; what was used longest ago goes first."
    )
    s3_cache_file_bytes: Annotated[int, Setting(ge=0)] = Setting(
        64_000_000, description="Data files up to this size are fetched whole and kept; larger ones are read in place."
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

    @property
    def cache_path(self) -> Path:
        """Where fetched objects are kept: `s3_cache_dir`, or the place that this system has for such things."""
        return Path(self.s3_cache_dir).expanduser() if self.s3_cache_dir else _user_cache() / "ontologia"


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


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
    # What somebody typed as a password is not shown again.
    given = re.sub(r"//[^/\s]*@", "//…@", repr(first["input"]))
    reason = first["msg"].removeprefix("Value error, ")
    return ConfigError(f"Setting {name!r} ({where}) is {given}: {reason}.", hint="See docs/reference/settings.md.")
