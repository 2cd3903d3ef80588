"""The port, opened on each server of the run, and on a real server behind a bad line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import s3server
from objects.relay import Relay, relay_to

from ontologia.config import OntologiaConfig
from ontologia.objects.retry import Retries
from ontologia.objects.s3 import BucketObjects, open_objects


@pytest.fixture(params=["seaweedfs", "moto"])
def objects(request: pytest.FixtureRequest, s3_environment: None) -> Iterator[BucketObjects]:
    """A fresh prefix, on every server in turn."""
    endpoint = request.getfixturevalue("s3_endpoint" if request.param == "seaweedfs" else "moto_endpoint")
    # SeaweedFS lets rivals for one key wait in turns of a second.
    opened = open_objects(s3server.fresh_uri(), OntologiaConfig(s3_endpoint_url=endpoint, s3_request_timeout_s=60))
    yield opened
    opened.close()


@dataclass(slots=True)
class BadLine:
    """The port over a relay, and the pauses it made."""

    relay: Relay
    objects: BucketObjects
    pauses: list[float] = field(default_factory=list[float])


@pytest.fixture
def bad_line(s3_endpoint: str, s3_environment: None) -> Iterator[Callable[..., BadLine]]:
    """Opens the port over a relay to the S3 server of the run; pauses are noted, not made."""
    opened: list[BucketObjects] = []
    with relay_to(s3_endpoint) as relay:

        def connect(uri: str | None = None, **settings: Any) -> BadLine:
            pauses: list[float] = []
            config = OntologiaConfig(s3_endpoint_url=relay.endpoint, **settings)
            objects = open_objects(uri or s3server.fresh_uri(), config, retries=Retries(pause=pauses.append))
            opened.append(objects)
            return BadLine(relay, objects, pauses)

        yield connect
        for objects in opened:
            objects.close()


@pytest.fixture
def aws_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3_environment: None) -> Callable[..., Path]:
    """Writes the shared files of AWS; the environment holds no keys."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)

    def write(*, credentials: str = "", config: str = "") -> Path:
        for name, text, variable in (
            ("credentials", credentials, "AWS_SHARED_CREDENTIALS_FILE"),
            ("config", config, "AWS_CONFIG_FILE"),
        ):
            (tmp_path / name).write_text(text)
            monkeypatch.setenv(variable, str(tmp_path / name))
        return tmp_path

    return write
