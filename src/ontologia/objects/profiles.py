"""The shared files of AWS: what a profile says in `~/.aws/credentials` and `~/.aws/config`.

The files are read when asked, never kept: whoever renews credentials by rewriting a file is heard. What a profile
means for requests is decided in `credentials`.
"""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ontologia.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Profile:
    """The settings of one profile; those of the credentials file win over those of the config file."""

    name: str
    settings: Mapping[str, str]
    chosen: bool
    """Whether somebody named it; `default` otherwise."""

    def get(self, name: str) -> str | None:
        """One setting; an empty one is none."""
        return self.settings.get(name) or None


def read_profile(environ: Mapping[str, str]) -> Profile | None:
    """The profile in force; None when there is none and nobody asked for one."""
    name = environ.get("AWS_PROFILE") or environ.get("AWS_DEFAULT_PROFILE")
    wanted = name or "default"
    config = _section(_file(environ, "AWS_CONFIG_FILE", "config"), f"profile {wanted}")
    if config is None:
        config = _section(_file(environ, "AWS_CONFIG_FILE", "config"), wanted) if wanted == "default" else None
    keys = _section(_file(environ, "AWS_SHARED_CREDENTIALS_FILE", "credentials"), wanted)
    if config is None and keys is None:
        if name is None:
            return None
        raise ConfigError(
            f"There is no AWS profile {name!r}.", hint="Correct AWS_PROFILE, or add the profile to ~/.aws/config."
        )
    return Profile(wanted, {**(config or {}), **(keys or {})}, name is not None)


def _file(environ: Mapping[str, str], variable: str, name: str) -> Path:
    return Path(environ.get(variable) or Path("~/.aws") / name).expanduser()


def _section(path: Path, section: str) -> dict[str, str] | None:
    # Without a default section, one that is called DEFAULT is a profile like others; values are taken as they are.
    parser = configparser.RawConfigParser(default_section="", strict=False)
    try:
        parser.read_string(path.read_text(encoding="utf-8"), source=str(path))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        # The parser's own message quotes lines of the file, which may hold a secret.
        raise ConfigError(f"{path} cannot be read ({type(error).__name__}).", hint="Fix the file.") from None
    return dict(parser.items(section)) if parser.has_section(section) else None
