"""Settings and fixtures shared by all tests: how hard hypothesis tries, and the S3 servers of the run.

`HYPOTHESIS_PROFILE=soak` (set by `make soak`) tries many more examples than the default. A server starts when the
first test asks for it; all workers share it (see `s3server`).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import s3server
from hypothesis import HealthCheck, settings

from ontologia.config import OntologiaConfig

settings.register_profile(
    "default",
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("soak", settings.get_profile("default"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

DESK = pytest.StashKey[s3server.Desk]()


def pytest_configure(config: pytest.Config) -> None:
    """Begin the run: the controller of xdist owns the servers, a worker asks it for them."""
    if not hasattr(config, "workerinput"):
        desk = config.stash[DESK] = s3server.Desk()
        desk.open()


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the run, interrupted or not."""
    desk = config.stash.get(DESK, None)
    if desk is not None:
        desk.close()


@pytest.fixture(scope="session")
def s3_endpoint() -> str:
    """The S3 server of the run: SeaweedFS, or what `ONTOLOGIA_TEST_S3_ENDPOINT` names."""
    return s3server.endpoint()


@pytest.fixture(scope="session")
def moto_endpoint() -> str:
    """The server of moto, a second opinion."""
    return s3server.endpoint("moto")


@pytest.fixture
def s3_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The credentials of the test servers, and nothing of the developer's own AWS settings."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        if not os.environ.get(s3server.ELSEWHERE) or name.startswith("AWS_ENDPOINT_URL"):
            monkeypatch.delenv(name)
    for name, value in s3server.credentials().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-aws-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-aws-credentials"))


@pytest.fixture
def s3_uri(s3_endpoint: str, s3_environment: None) -> str:
    """A fresh prefix on the S3 server of the run."""
    return s3server.fresh_uri()


@pytest.fixture
def s3_config(s3_endpoint: str, s3_environment: None, tmp_path: Path) -> OntologiaConfig:
    """Settings for the S3 server of the run, with a cache of the test's own."""
    return config_for(s3_endpoint, tmp_path)


@pytest.fixture
def moto_uri(moto_endpoint: str, s3_environment: None) -> str:
    """A fresh prefix on moto."""
    return s3server.fresh_uri()


@pytest.fixture
def moto_config(moto_endpoint: str, s3_environment: None, tmp_path: Path) -> OntologiaConfig:
    """Settings for moto, with a cache of the test's own."""
    return config_for(moto_endpoint, tmp_path)


def config_for(endpoint: str, folder: Path) -> OntologiaConfig:
    """Settings that reach a test server."""
    return OntologiaConfig(
        s3_endpoint_url=endpoint,
        s3_region=os.environ.get("AWS_REGION", s3server.REGION),
        s3_cache_dir=str(folder / "s3-cache"),
    )
