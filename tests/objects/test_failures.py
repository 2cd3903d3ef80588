"""Errors for people: typed, naming bucket, prefix, operation and key, with a hint that fits."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest
import s3server
from objects.conftest import BadLine
from objects.relay import Accident

from ontologia.config import OntologiaConfig
from ontologia.errors import ConfigError, OntologiaError, StorageBackendError
from ontologia.objects.location import Location, is_object_uri, parse_location
from ontologia.objects.retry import Retries
from ontologia.objects.s3 import BucketObjects, open_objects

Connect = Callable[..., BadLine]


def every_operation(objects: BucketObjects) -> dict[str, Callable[[], object]]:
    return {
        "get": lambda: objects.get("k"),
        "get_if_changed": lambda: objects.get_if_changed("k", "abc"),
        "range": lambda: objects.get_range("k", 0, 1),
        "put": lambda: objects.put("k", b"1"),
        "create": lambda: objects.create("k", b"1"),
        "replace": lambda: objects.replace("k", b"1", "abc"),
        "delete": lambda: objects.delete("k"),
        "delete_if": lambda: objects.delete("k", if_match="abc"),
        "delete_many": lambda: objects.delete_many(["k"]),
        "list": lambda: list(objects.list("k")),
    }


@pytest.mark.parametrize(
    ("status", "code", "hint"),
    [
        (403, "AccessDenied", "Allow s3:GetObject"),
        (403, "SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY"),
        (403, "RequestTimeTooSkewed", "clock"),
        (400, "ExpiredToken", "Renew the credentials"),
        (403, "InvalidAccessKeyId", "Renew the credentials"),
        (404, "NoSuchBucket", "Create the bucket"),
        (400, "AuthorizationHeaderMalformed", "s3_region"),
        (301, "PermanentRedirect", "s3_region"),
        (501, "NotImplemented", "conditional writes"),
        (418, "SomethingNew", "this code"),
    ],
)
def test_a_refusal_is_an_error_with_a_hint(bad_line: Connect, status: int, code: str, hint: str):
    line = bad_line()
    line.relay.always = lambda _: Accident(status, code)
    for name, operation in every_operation(line.objects).items():
        if code == "NotImplemented" and name == "delete_if":
            continue
        with pytest.raises(StorageBackendError) as caught:
            operation()
        error = caught.value
        assert hint in str(error.hint), name
        assert error.bucket == s3server.BUCKET
        assert error.prefix == line.objects.prefix
        assert error.operation in name or name == "range"
        assert line.objects.uri in error.message
    assert line.pauses == []


def test_a_server_that_nobody_runs_is_an_error_that_names_the_setting(s3_environment: None):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{closed.getsockname()[1]}"
    pauses: list[float] = []
    config = OntologiaConfig(s3_endpoint_url=endpoint)
    objects = open_objects("s3://bucket/p", config, retries=Retries(pause=pauses.append))
    for operation in every_operation(objects).values():
        pauses.clear()
        with pytest.raises(StorageBackendError, match="no connection to the server") as caught:
            operation()
        assert "s3_endpoint_url" in str(caught.value.hint)
        assert pauses, "nothing was sent, so even a write under a condition may be tried again"
    objects.close()


def test_a_bucket_that_does_not_exist_is_an_error(s3_config: OntologiaConfig, moto_config: OntologiaConfig):
    for config in (s3_config, moto_config):
        objects = open_objects("s3://no-such-bucket-here/p", config)
        with pytest.raises(StorageBackendError, match="NoSuchBucket"):
            objects.get("k")
        with pytest.raises(StorageBackendError, match="NoSuchBucket"):
            objects.put("k", b"1")
        with pytest.raises(StorageBackendError, match="NoSuchBucket"):
            list(objects.list(""))
        objects.close()


def test_a_wrong_secret_is_an_error_without_the_secret(
    s3_uri: str, s3_config: OntologiaConfig, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "this-is-the-wrong-one")
    objects = open_objects(s3_uri, s3_config)
    for operation in every_operation(objects).values():
        with pytest.raises(StorageBackendError) as caught:
            operation()
        assert "wrong-one" not in str(caught.value)
    objects.close()


def test_a_timeout_says_which_setting_to_raise(bad_line: Connect):
    line = bad_line(s3_request_timeout_s=0.1)
    line.relay.always = lambda _: Accident(hang=True)
    with pytest.raises(StorageBackendError, match="no answer in time") as caught:
        line.objects.get("k")
    assert "s3_request_timeout_s" in str(caught.value.hint)


def test_the_configured_endpoint_wins_over_the_environment(
    s3_uri: str, s3_config: OntologiaConfig, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:2")
    monkeypatch.setenv("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "true")
    objects = open_objects(s3_uri, s3_config)
    objects.delete("k", if_match=objects.put("k", b"1"))
    objects.close()


def test_without_a_setting_the_endpoint_of_the_environment_is_used(
    s3_uri: str, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3_endpoint)
    objects = open_objects(s3_uri, OntologiaConfig())
    objects.put("k", b"1")
    objects.close()


@pytest.mark.parametrize(
    "uri",
    [
        *("s3:/bucket/p", "bucket/p", "http://bucket/p", "s3://", "s3:///p", "s3://b/p", "s3://my bucket/p"),
        *("s3://bucket/a//b", "s3://bucket/../a", "s3://bucket/./a", "s3://bucket/a\\b", "s3://bucket/a\nb"),
        *("s3://user:secret@bucket/p", "s3://bucket//"),
    ],
)
def test_a_uri_that_could_be_misread_is_refused(uri: str):
    with pytest.raises(ConfigError) as caught:
        parse_location(uri)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("uri", "location"),
    [
        ("s3://bucket", Location("s3", "bucket", "")),
        ("s3://bucket/", Location("s3", "bucket", "")),
        ("S3://bucket/a/b/", Location("s3", "bucket", "a/b")),
        ("gs://bucket/a b", Location("gs", "bucket", "a b")),
        ("az://container/ü", Location("az", "container", "ü")),
    ],
)
def test_a_uri_names_scheme_bucket_and_prefix(uri: str, location: Location):
    assert parse_location(uri) == location
    assert parse_location(location.uri) == location
    assert is_object_uri(uri)
    assert not is_object_uri("sqlite:///onto.db")
    assert not is_object_uri("onto.db")


@pytest.mark.parametrize("uri", ["gs://bucket/p", "az://container/p"])
def test_other_clouds_open_without_conditional_deletion_or_say_what_they_lack(
    uri: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    objects = open_objects(uri, OntologiaConfig(s3_request_timeout_s=0.2), retries=Retries(pause=lambda _: None))
    assert not objects.conditional_delete
    assert objects.uri == uri
    with pytest.raises(OntologiaError) as caught:
        objects.get("k")
    assert isinstance(caught.value, ConfigError | StorageBackendError)
    objects.close()


def test_a_tag_on_google_is_its_etag_and_its_generation():
    objects = open_objects("gs://bucket/p", OntologiaConfig())
    tag = objects._tag({"e_tag": '"abc"', "version": "17"})
    assert objects._condition(tag) == {"e_tag": '"abc"', "version": "17"}
    assert objects._etag(tag) == "abc"
    objects.close()
