"""Which store is meant: every way to say it, and every way to say it wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest

from ontologia import ConfigError, OntologiaConfig
from ontologia.store.binding import Binding, bind


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ONTOLOGIA_DB", "ONTOLOGIA_STORAGE_URI"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("uri", "normal", "bucket", "prefix"),
    [
        ("s3://bucket/prefix", "s3://bucket/prefix", "bucket", "prefix"),
        ("s3://bucket/prefix/", "s3://bucket/prefix", "bucket", "prefix"),
        ("s3://bucket/a/b/c//", "s3://bucket/a/b/c", "bucket", "a/b/c"),
        ("s3://bucket", "s3://bucket", "bucket", ""),
        ("s3://bucket/", "s3://bucket", "bucket", ""),
        ("s3://my.bucket-1/team=a/x_y", "s3://my.bucket-1/team=a/x_y", "my.bucket-1", "team=a/x_y"),
        ("gs://bucket/p", "gs://bucket/p", "bucket", "p"),
        ("az://container/p", "az://container/p", "container", "p"),
    ],
)
def test_an_object_uri_names_bucket_and_prefix(uri: str, normal: str, bucket: str, prefix: str) -> None:
    bound = bind(None, uri, OntologiaConfig())
    assert (bound.uri, bound.bucket, bound.prefix, bound.path) == (normal, bucket, prefix, "")
    assert bound.scheme == uri[:2]
    assert bound.on_objects


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("s3://", "names no bucket"),
        ("s3:///prefix", "names no bucket"),
        ("s3:bucket/prefix", "not a storage URI"),
        ("http://127.0.0.1:9000/bucket", "not a storage URI"),
        ("s3://localhost:9000/bucket", "s3_endpoint_url"),
        ("s3://bucket//prefix", "single slashes"),
        ("s3://bucket/a//b", "single slashes"),
        ("s3://bucket/../other", "plain folder names"),
        ("s3://bucket/a/./b", "plain folder names"),
        ("s3://bucket/a b", "a blank"),
        ("s3://bucket/a\n", "a blank"),
        ("s3://bucket/a\\b", "plain folder names"),
        ("s3://bucket/%2e%2e", "percent sign"),
        ("s3://bucket/p?versionId=1", "a query"),
        ("s3://bucket?region=x", "a query"),
        ("s3://bucket/p#part", "a query or a fragment"),
        ("s3://-bucket/p", "no name of a bucket"),
        ("s3://bücket/p", "no name of a bucket"),
    ],
)
def test_an_object_uri_that_could_mean_something_else_is_refused(uri: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        bind(None, uri, OntologiaConfig())
    assert says in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    "uri", ["s3://AKIA:hunter2@bucket/p", "s3://AKIA:hunter2/x@bucket/p", "http://me:hunter2@host/bucket"]
)
def test_credentials_in_a_uri_are_refused_and_not_repeated(uri: str) -> None:
    with pytest.raises(ConfigError) as caught:
        bind(None, uri, OntologiaConfig())
    assert "hunter2" not in str(caught.value)


def test_a_path_and_an_object_uri_contradict_each_other() -> None:
    with pytest.raises(ConfigError, match="name different stores"):
        bind("onto.db", "s3://bucket/prefix", OntologiaConfig())
    with pytest.raises(ConfigError, match="is a URI, not a path"):
        bind("s3://bucket/prefix", None, OntologiaConfig())


def test_what_is_said_more_strongly_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    file = Binding("sqlite", "sqlite:///x.db", path="x.db")
    assert bind(None, None, OntologiaConfig()).path == "onto.db"
    monkeypatch.setenv("ONTOLOGIA_STORAGE_URI", "s3://bucket/prefix")
    assert bind(None, None, OntologiaConfig()).bucket == "bucket"
    assert bind(None, None, OntologiaConfig(db="x.db")) == file
    assert bind("x.db", None, OntologiaConfig()) == file
    monkeypatch.setenv("ONTOLOGIA_DB", "x.db")
    assert bind(None, None, OntologiaConfig()).bucket == "bucket"
    assert bind(None, "s3://other", OntologiaConfig()).bucket == "other"
