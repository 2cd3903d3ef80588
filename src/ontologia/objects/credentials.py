"""Credentials by the standard AWS chain, asked for again before they expire and never frozen at first use.

In this order: the environment, a web identity, the shared files (keys, or a `credential_process`), and what the
machine offers (a container's or an instance's role). Web identities and machines are obstore's own work. Single
sign-on and roles assumed from another profile need an SDK, and are refused with the way round.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from ontologia.base.clock import Clock, SystemClock
from ontologia.errors import ConfigError, OntologiaError
from ontologia.objects.profiles import Profile, read_profile

ASK_AGAIN = timedelta(seconds=330)
"""obstore asks again when less than five minutes are left: so it asks twice a minute, and a rewritten file is heard."""

RENEW_BEFORE = timedelta(minutes=5)
PROCESS_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Keys:
    """One set of credentials."""

    access_key_id: str
    secret_access_key: str
    token: str | None = None
    expires_at: datetime | None = None

    def __repr__(self) -> str:
        return f"Keys({self.access_key_id!r}, expires_at={self.expires_at!r})"


@dataclass(frozen=True, slots=True)
class _Fetched:
    command: str
    keys: Keys
    due: datetime | None
    """When to fetch again."""


class Chain:
    """Gives the keys of the environment or of the shared files, as they are now. obstore calls it."""

    def __init__(self, environ: Mapping[str, str], clock: Clock | None = None) -> None:
        self._environ = environ
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._fetched: _Fetched | None = None
        self._given: Keys | None = None
        self.failure: OntologiaError | None = None
        """Why there were no keys the last time; obstore would only repeat its text."""

    def __call__(self) -> dict[str, Any]:
        """The keys in the shape that obstore takes."""
        try:
            keys = self.keys()
        except OntologiaError as error:
            self.failure = error
            raise
        self.failure = None
        horizon = self._clock.now() + ASK_AGAIN
        return {
            "access_key_id": keys.access_key_id,
            "secret_access_key": keys.secret_access_key,
            "token": keys.token,
            "expires_at": min(horizon, keys.expires_at) if keys.expires_at else horizon,
        }

    def keys(self) -> Keys:
        """The keys in force."""
        with self._lock:
            self._given = self._find()
            return self._given

    def renew(self) -> bool:
        """Fetch anew after the server refused the keys; whether they are other ones now."""
        with self._lock:
            before, self._fetched = self._given, None
            self._given = self._find()
            return self._given != before

    def _find(self) -> Keys:
        keys = environment_keys(self._environ)
        if keys is not None:
            return keys
        profile = read_profile(self._environ)
        command = None if profile is None else process_of(profile)
        if command is not None and profile is not None:
            return self._from_process(command, profile.name)
        keys = None if profile is None else profile_keys(profile)
        if keys is None:
            raise _none_found()
        return keys

    def _from_process(self, command: str, profile: str) -> Keys:
        now, held = self._clock.now(), self._fetched
        if held is not None and held.command == command and (held.due is None or now < held.due):
            return held.keys
        try:
            keys = run_process(command, profile)
        except ConfigError:
            # While the old keys last, a failure to renew them is no failure.
            if held is not None and held.command == command and held.keys.expires_at and now < held.keys.expires_at:
                return held.keys
            raise
        self._fetched = _Fetched(command, keys, _due(now, keys.expires_at))
        return keys


def _due(now: datetime, expires_at: datetime | None) -> datetime | None:
    """Keys that last long are renewed five minutes before their end, short ones when a fifth is left."""
    return None if expires_at is None else expires_at - min(RENEW_BEFORE, (expires_at - now) / 5)


def find_chain(environ: Mapping[str, str], clock: Clock | None = None) -> Chain | None:
    """The keys that we look after; None when obstore gets its own from a web identity or the machine."""
    if environment_keys(environ) is None:
        if environ.get("AWS_WEB_IDENTITY_TOKEN_FILE") and environ.get("AWS_ROLE_ARN"):
            return None
        profile = read_profile(environ)
        if profile is None or (process_of(profile) is None and profile_keys(profile) is None):
            if profile is not None and profile.chosen:
                raise ConfigError(
                    f"AWS profile {profile.name!r} has no credentials.",
                    hint="Add aws_access_key_id and aws_secret_access_key, or credential_process.",
                )
            _machine(environ)
            return None
    return Chain(environ, clock)


def _machine(environ: Mapping[str, str]) -> None:
    containers = ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI")
    if not any(environ.get(name) for name in containers) and _true(environ.get("AWS_EC2_METADATA_DISABLED")):
        raise _none_found()


def _true(text: str | None) -> bool:
    return (text or "").strip().lower() in {"true", "1"}


def _none_found() -> ConfigError:
    return ConfigError(
        "No AWS credentials were found.",
        hint="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE for a profile of ~/.aws/credentials.",
    )


def environment_keys(environ: Mapping[str, str]) -> Keys | None:
    """The keys that the environment holds; half of a pair is an error."""
    key, secret = environ.get("AWS_ACCESS_KEY_ID"), environ.get("AWS_SECRET_ACCESS_KEY")
    if not key and not secret:
        return None
    if not key or not secret:
        absent = "AWS_SECRET_ACCESS_KEY" if key else "AWS_ACCESS_KEY_ID"
        raise ConfigError(f"{absent} is not set, though its counterpart is.", hint="Set both, or neither.")
    return Keys(key, secret, environ.get("AWS_SESSION_TOKEN") or environ.get("AWS_SECURITY_TOKEN") or None)


def profile_keys(profile: Profile) -> Keys | None:
    """The keys written in a profile; one that needs an SDK to get any is an error."""
    sso = profile.get("sso_session") or profile.get("sso_start_url")
    if sso or profile.get("role_arn"):
        what = "single sign-on" if sso else "an assumed role"
        raise ConfigError(
            f"AWS profile {profile.name!r} uses {what}, which needs the AWS tools.",
            hint="Add a profile with `credential_process = aws configure export-credentials --profile "
            f"{profile.name} --format process` and name it in AWS_PROFILE.",
        )
    key, secret = profile.get("aws_access_key_id"), profile.get("aws_secret_access_key")
    if not key and not secret:
        return None
    if not key or not secret:
        raise ConfigError(
            f"AWS profile {profile.name!r} has half a pair of keys.",
            hint="Set aws_access_key_id and aws_secret_access_key.",
        )
    return Keys(key, secret, profile.get("aws_session_token"))


def process_of(profile: Profile) -> str | None:
    """The command that prints a profile's keys; keys that are written down win over it."""
    return None if profile.get("aws_access_key_id") else profile.get("credential_process")


def run_process(command: str, profile: str) -> Keys:
    """Run a `credential_process` and read the keys it prints. What it printed is never shown: it is secret."""

    def wrong(what: str) -> ConfigError:
        return ConfigError(
            f"The credential_process of AWS profile {profile!r} {what}.", hint="Run it by hand to see what it prints."
        )

    try:
        result = subprocess.run(  # noqa: S603 - the user's own command, and no shell reads it
            shlex.split(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROCESS_TIMEOUT_S,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise wrong(f"cannot be run ({type(error).__name__})") from None
    if result.returncode != 0:
        raise wrong(f"ended with code {result.returncode}")
    try:
        return _keys_of(json.loads(result.stdout))
    except (ValueError, KeyError, TypeError):
        raise wrong("printed no credentials of version 1") from None


def _keys_of(answer: Any) -> Keys:
    said = cast("dict[str, Any]", answer)
    if said["Version"] != 1:
        raise ValueError("version")
    moment = said.get("Expiration")
    expires_at = None if moment is None else datetime.fromisoformat(str(moment))
    if expires_at is not None and expires_at.tzinfo is None:
        raise ValueError("Expiration has no time zone")
    token = said.get("SessionToken")
    return Keys(
        str(said["AccessKeyId"]), str(said["SecretAccessKey"]), None if token is None else str(token), expires_at
    )
