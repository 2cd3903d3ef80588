"""Settings: where they come from, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from ontologia import ConfigError, OntologiaConfig


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_settings_for_object_storage_have_the_documented_defaults() -> None:
    config = OntologiaConfig()
    assert (config.s3_region, config.s3_endpoint_url) == (None, None)
    assert (config.s3_lock_timeout_ms, config.s3_lease_ttl_ms) == (5000, 30_000)
    assert config.s3_request_timeout_s == 10.0
    assert config.s3_duckdb_memory_limit == "256MB"
    assert (config.s3_cache_dir, config.s3_cache_bytes, config.s3_cache_file_bytes) == (None, 10**10, 64 * 10**6)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("s3_region", "eu-north-1", "eu-north-1"),
        ("s3_endpoint_url", "http://127.0.0.1:9000/", "http://127.0.0.1:9000"),
        ("s3_lock_timeout_ms", "0", 0),
        ("s3_lease_ttl_ms", "300", 300),
        ("s3_request_timeout_s", "0.5", 0.5),
        ("s3_duckdb_memory_limit", " 1.5 GiB ", "1.5 GiB"),
        ("s3_cache_dir", "cache", "cache"),
        ("s3_cache_bytes", "0", 0),
        ("s3_cache_file_bytes", "1000", 1000),
    ],
)
def test_every_setting_reads_its_variable_and_the_file(
    name: str, text: str, value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ontologia.toml").write_text(f'{name} = "{text}"\n')
    config = OntologiaConfig()
    assert (getattr(config, name), config.origins[name]) == (value, "ontologia.toml")
    (tmp_path / "ontologia.toml").unlink()
    monkeypatch.setenv(f"ONTOLOGIA_{name.upper()}", text)
    config = OntologiaConfig()
    assert (getattr(config, name), config.origins[name]) == (value, f"environment (ONTOLOGIA_{name.upper()})")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("s3_endpoint_url", "127.0.0.1:9000"),
        ("s3_endpoint_url", "ftp://host"),
        ("s3_endpoint_url", "http://"),
        ("s3_endpoint_url", "http://host:port"),
        ("s3_endpoint_url", "http://["),
        ("s3_endpoint_url", "http://host?x=1"),
        ("s3_lock_timeout_ms", -1),
        ("s3_lease_ttl_ms", 299),
        ("s3_request_timeout_s", 0),
        ("s3_request_timeout_s", float("inf")),
        ("s3_request_timeout_s", float("nan")),
        ("s3_duckdb_memory_limit", "256"),
        ("s3_duckdb_memory_limit", "lots"),
        ("s3_duckdb_memory_limit", "-1GB"),
        ("s3_duckdb_memory_limit", "0MB"),
        ("s3_duckdb_memory_limit", "101%"),
        ("s3_duckdb_memory_limit", "1GB'; --"),
        ("s3_cache_bytes", -1),
        ("s3_cache_file_bytes", -1),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        OntologiaConfig(**{name: value})


def test_a_password_in_the_endpoint_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError, match="AWS_ACCESS_KEY_ID") as caught:
        OntologiaConfig(s3_endpoint_url="http://me:hunter2@host")
    assert "hunter2" not in str(caught.value)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems keep caches elsewhere")
def test_the_cache_is_in_the_users_cache_directory_unless_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/home/me/caches")
    assert OntologiaConfig().cache_path == Path("/home/me/caches/ontologia")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert OntologiaConfig().cache_path == Path("/home/me/.cache/ontologia")
    assert OntologiaConfig(s3_cache_dir="~/here").cache_path == Path("/home/me/here")
