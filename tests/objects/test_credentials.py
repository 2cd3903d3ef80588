"""Credentials: found where AWS keeps them, asked for again when they change or expire, and never shown."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import s3server

from ontologia.base.clock import ManualClock
from ontologia.config import OntologiaConfig
from ontologia.errors import ConfigError, StorageBackendError
from ontologia.objects.credentials import Chain, Keys, find_chain
from ontologia.objects.s3 import open_objects
from ontologia.objects.stores import endpoint, region

Files = Callable[..., Path]
NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
GOOD = f"aws_access_key_id = {s3server.ACCESS_KEY}\naws_secret_access_key = {s3server.SECRET_KEY}\n"

needs_our_server = pytest.mark.skipif(s3server.ELSEWHERE in os.environ, reason="writes the keys of our own server")


def chain() -> Chain:
    found = find_chain(os.environ)
    assert found is not None
    return found


def process(folder: Path) -> str:
    """A `credential_process` that prints a file, counts its runs, and fails when the file is not there."""
    script = folder / "process.py"
    script.write_text(
        "import pathlib, sys\n"
        f"folder = pathlib.Path({str(folder)!r})\n"
        "with open(folder / 'runs', 'a') as runs: runs.write('x')\n"
        "sys.stdout.write((folder / 'answer').read_text())\n"
    )
    return shlex.join([sys.executable, str(script)])


def answer(folder: Path, key: str, *, expires: datetime | None = None) -> None:
    said = {"Version": 1, "AccessKeyId": key, "SecretAccessKey": "s", "SessionToken": "t"}
    if expires is not None:
        said["Expiration"] = expires.isoformat().replace("+00:00", "Z")
    (folder / "answer").write_text(json.dumps(said))


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text())


def test_the_environment_comes_first(aws_files: Files, monkeypatch: pytest.MonkeyPatch):
    aws_files(credentials="[default]\naws_access_key_id = file\naws_secret_access_key = s\n")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "env")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    assert chain().keys() == Keys("env", "secret", "token")


def test_half_a_pair_of_keys_is_an_error(aws_files: Files, monkeypatch: pytest.MonkeyPatch):
    aws_files()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "env")
    with pytest.raises(ConfigError, match="AWS_SECRET_ACCESS_KEY"):
        find_chain(os.environ)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    aws_files(credentials="[default]\naws_access_key_id = file\n")
    with pytest.raises(ConfigError, match="half a pair"):
        find_chain(os.environ)


def test_a_profile_is_read_from_both_files(aws_files: Files, monkeypatch: pytest.MonkeyPatch):
    aws_files(
        credentials="[default]\naws_access_key_id = d\naws_secret_access_key = s\n"
        "[work]\naws_access_key_id = w\naws_secret_access_key = 50%/x=\naws_session_token = t\n",
        config="[default]\nregion = eu-north-1\n[profile work]\nregion = eu-west-3\naws_access_key_id = shadowed\n"
        "endpoint_url = http://127.0.0.1:9\ns3 =\n  max_concurrent_requests = 20\n",
    )
    assert chain().keys() == Keys("d", "s")
    assert region(OntologiaConfig(), os.environ) == "eu-north-1"
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert chain().keys() == Keys("w", "50%/x=", "t")
    assert region(OntologiaConfig(), os.environ) == "eu-west-3"
    assert endpoint(OntologiaConfig(), os.environ) == "http://127.0.0.1:9"
    assert region(OntologiaConfig(s3_region="us-west-2"), os.environ) == "us-west-2"
    monkeypatch.setenv("AWS_REGION", "sa-east-1")
    assert region(OntologiaConfig(), os.environ) == "sa-east-1"


def test_keys_may_be_in_the_config_file_alone(aws_files: Files):
    aws_files(config="[default]\naws_access_key_id = c\naws_secret_access_key = s\n")
    assert chain().keys() == Keys("c", "s")


def test_a_profile_that_is_not_there_is_an_error(aws_files: Files, monkeypatch: pytest.MonkeyPatch):
    aws_files(credentials="[default]\naws_access_key_id = d\naws_secret_access_key = s\n")
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(ConfigError, match="nobody"):
        find_chain(os.environ)


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ("sso_session = corp\nsso_account_id = 1\n", "single sign-on"),
        ("sso_start_url = https://x\n", "single sign-on"),
        ("role_arn = arn:aws:iam::1:role/r\nsource_profile = default\n", "assumed role"),
    ],
)
def test_what_needs_an_sdk_is_refused_with_the_way_round(
    aws_files: Files, monkeypatch: pytest.MonkeyPatch, settings: str, what: str
):
    aws_files(config=f"[profile corp]\n{settings}")
    monkeypatch.setenv("AWS_PROFILE", "corp")
    with pytest.raises(ConfigError, match=what) as caught:
        open_objects("s3://bucket/p", OntologiaConfig())
    assert "export-credentials --profile corp" in str(caught.value.hint)


def test_a_file_that_cannot_be_parsed_is_an_error_that_does_not_quote_it(aws_files: Files):
    aws_files(credentials="aws_secret_access_key = TOPSECRET\n")
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        find_chain(os.environ)
    assert "TOPSECRET" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_no_credentials_at_all_is_an_error_that_says_where_to_put_them(aws_files: Files):
    aws_files()
    with pytest.raises(ConfigError, match="No AWS credentials") as caught:
        open_objects("s3://bucket/p", OntologiaConfig())
    assert "AWS_PROFILE" in str(caught.value.hint)


@pytest.mark.parametrize(
    "variables",
    [
        {"AWS_WEB_IDENTITY_TOKEN_FILE": "/token", "AWS_ROLE_ARN": "arn:aws:iam::1:role/r"},
        {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1/c"},
        {"AWS_EC2_METADATA_DISABLED": "false"},
    ],
)
def test_roles_of_the_machine_are_left_to_the_library(
    aws_files: Files, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
):
    aws_files()
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert find_chain(os.environ) is None


def test_a_rewritten_file_is_read_again(aws_files: Files):
    aws_files(credentials="[default]\naws_access_key_id = old\naws_secret_access_key = s\n")
    found = chain()
    assert found.keys() == Keys("old", "s")
    assert not found.renew()
    aws_files(credentials="[default]\naws_access_key_id = new\naws_secret_access_key = s\n")
    assert found.keys() == Keys("new", "s")


def test_the_library_is_told_to_ask_again_soon(aws_files: Files):
    aws_files(credentials="[default]\naws_access_key_id = a\naws_secret_access_key = s\n")
    given = Chain(os.environ, ManualClock(NOW))()
    assert timedelta(minutes=5) < given["expires_at"] - NOW < timedelta(minutes=6)


def test_a_process_is_run_again_before_its_keys_expire(aws_files: Files, tmp_path: Path):
    aws_files(config=f"[default]\ncredential_process = {process(tmp_path)}\n")
    answer(tmp_path, "first", expires=NOW + timedelta(hours=1))
    clock = ManualClock(NOW)
    found = Chain(os.environ, clock)
    assert found.keys() == Keys("first", "s", "t", NOW + timedelta(hours=1))
    answer(tmp_path, "second", expires=NOW + timedelta(hours=2))
    clock.set(NOW + timedelta(minutes=54))
    assert found.keys().access_key_id == "first"
    assert runs(tmp_path) == 1
    clock.set(NOW + timedelta(minutes=56))
    assert found()["access_key_id"] == "second"
    assert runs(tmp_path) == 2


def test_keys_of_a_process_without_expiry_are_kept_until_the_server_refuses_them(aws_files: Files, tmp_path: Path):
    aws_files(config=f"[default]\ncredential_process = {process(tmp_path)}\n")
    answer(tmp_path, "first")
    found = chain()
    assert found.keys().access_key_id == found.keys().access_key_id == "first"
    assert runs(tmp_path) == 1
    answer(tmp_path, "second")
    assert found.renew()
    assert found.keys().access_key_id == "second"


def test_a_process_that_fails_to_renew_does_no_harm_while_the_keys_last(aws_files: Files, tmp_path: Path):
    aws_files(config=f"[default]\ncredential_process = {process(tmp_path)}\n")
    answer(tmp_path, "first", expires=NOW + timedelta(hours=1))
    clock = ManualClock(NOW)
    found = Chain(os.environ, clock)
    found.keys()
    (tmp_path / "answer").unlink()
    clock.set(NOW + timedelta(minutes=58))
    assert found.keys().access_key_id == "first"
    clock.set(NOW + timedelta(minutes=61))
    with pytest.raises(ConfigError, match="credential_process"):
        found.keys()


@pytest.mark.parametrize(
    "said",
    [
        "",
        "TOPSECRET",
        "[1]",
        '{"Version": 2, "AccessKeyId": "a", "SecretAccessKey": "TOPSECRET"}',
        '{"Version": 1, "AccessKeyId": "TOPSECRET"}',
        '{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "TOPSECRET", "Expiration": "soon"}',
        '{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "TOPSECRET", "Expiration": "2026-11-16T12:00:00"}',
    ],
)
def test_what_a_process_prints_is_checked_and_never_shown(aws_files: Files, tmp_path: Path, said: str):
    aws_files(config=f"[default]\ncredential_process = {process(tmp_path)}\n")
    (tmp_path / "answer").write_text(said)
    with pytest.raises(ConfigError, match="printed no credentials") as caught:
        chain().keys()
    assert "TOPSECRET" not in str(caught.value)


def test_a_process_that_cannot_be_run_is_an_error(aws_files: Files):
    for command in ("/no/such/program", "'unbalanced"):
        aws_files(config=f"[default]\ncredential_process = {command}\n")
        with pytest.raises(ConfigError, match="cannot be run"):
            chain().keys()


def test_a_failure_to_get_keys_reaches_the_caller_of_a_request(aws_files: Files, tmp_path: Path, s3_endpoint: str):
    aws_files(config=f"[default]\ncredential_process = {process(tmp_path)}\n")
    objects = open_objects(s3server.fresh_uri(), OntologiaConfig(s3_endpoint_url=s3_endpoint))
    with pytest.raises(ConfigError, match="ended with code 1"):
        objects.get("k")
    objects.close()


@needs_our_server
def test_keys_that_were_replaced_are_used_with_the_next_request(aws_files: Files, s3_endpoint: str):
    aws_files(credentials=f"[default]\n{GOOD}")
    objects = open_objects(s3server.fresh_uri(), OntologiaConfig(s3_endpoint_url=s3_endpoint))
    etag = objects.put("k", b"1")
    aws_files(credentials=f"[default]\n{GOOD.replace(s3server.ACCESS_KEY, 'revoked')}")
    stale = open_objects(objects.uri, OntologiaConfig(s3_endpoint_url=s3_endpoint))
    with pytest.raises(StorageBackendError, match="InvalidAccessKeyId") as caught:
        stale.get("k")
    assert "Renew the credentials" in str(caught.value.hint)
    aws_files(credentials=f"[default]\n{GOOD}")
    etag = stale.replace("k", b"2", etag)
    stale.delete("k", if_match=etag)
    objects.close()
    stale.close()


@needs_our_server
def test_a_token_that_expires_is_fetched_again_on_a_real_server(aws_files: Files, tmp_path: Path, s3_endpoint: str):
    aws_files(config=f"[default]\ncredential_process = {process(tmp_path)}\n")
    said = {"Version": 1, "AccessKeyId": s3server.ACCESS_KEY, "SecretAccessKey": s3server.SECRET_KEY}
    soon = (datetime.now(UTC) + timedelta(milliseconds=1)).isoformat()
    (tmp_path / "answer").write_text(json.dumps({**said, "Expiration": soon}))
    objects = open_objects(s3server.fresh_uri(), OntologiaConfig(s3_endpoint_url=s3_endpoint))
    objects.put("k", b"1")
    first = runs(tmp_path)
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    (tmp_path / "answer").write_text(json.dumps({**said, "Expiration": later}))
    objects._stores._built.clear()  # the next request asks for keys, as it would a moment later
    assert objects.get("k").data == b"1"
    assert runs(tmp_path) > first
    again = runs(tmp_path)
    for _ in range(3):
        assert objects.get("k").data == b"1"
    assert runs(tmp_path) == again
    objects.close()
