"""TLS: certificates are checked on both ways to the server, and an authority of one's own can be named."""

from __future__ import annotations

from pathlib import Path

import pytest
from objects.certificates import authority
from objects.relay import relay_to

from ontologia.config import OntologiaConfig
from ontologia.errors import ConfigError, StorageBackendError
from ontologia.objects.port import Missing
from ontologia.objects.s3 import open_objects


def test_an_authority_that_is_named_is_trusted(
    s3_uri: str, s3_endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    root, context = authority(tmp_path)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(root))
    with relay_to(s3_endpoint, context) as relay:
        objects = open_objects(s3_uri, OntologiaConfig(s3_endpoint_url=relay.endpoint))
        objects.delete("k", if_match=objects.create("k", b"1"))
        with pytest.raises(Missing):
            objects.get("k")
        objects.close()


def test_a_server_that_nobody_vouches_for_is_not_talked_to(
    s3_uri: str, s3_endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    _, context = authority(tmp_path)
    with relay_to(s3_endpoint, context) as relay:
        objects = open_objects(s3_uri, OntologiaConfig(s3_endpoint_url=relay.endpoint))
        for operation in (lambda: objects.put("k", b"1"), lambda: objects.delete("k", if_match="abc")):
            with pytest.raises(StorageBackendError, match="certificate is not trusted") as caught:
                operation()
            assert "AWS_CA_BUNDLE" in str(caught.value.hint)
        assert relay.seen == []
        objects.close()
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match="AWS_CA_BUNDLE"):
        open_objects(s3_uri, OntologiaConfig(s3_endpoint_url=relay.endpoint)).get("k")
