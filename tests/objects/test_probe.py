"""The probe: it finds what a server does, refuses one that ignores conditions by the check's name, and cleans up."""

from __future__ import annotations

import pytest
from objects.relay import Accident, relay_to

from ontologia.config import OntologiaConfig
from ontologia.errors import StorageBackendError
from ontologia.objects.port import Objects
from ontologia.objects.probe import DELETION, probe
from ontologia.objects.s3 import BucketObjects, open_objects

CHECKS = {
    *("create-if-absent", "replace-if-match", "replace-if-match-absent", "get-if-changed", "list-after-write"),
    *("create-rivals", "replace-rivals", DELETION),
}


def nothing_left(objects: Objects) -> bool:
    return list(objects.list("")) == []


def test_a_server_that_keeps_its_word_passes(objects: BucketObjects):
    objects.put("meta/head.json", b"mine")
    report = probe(objects)
    assert {check.name for check in report.checks} == CHECKS
    assert report.ok
    assert report.conditional_delete
    assert report.failed == ()
    report.refuse()
    assert [line.key for line in objects.list("")] == ["meta/head.json"]


@pytest.mark.parametrize(
    ("lost", "failed", "did"),
    [
        (("PUT", "if-none-match"), {"create-if-absent", "create-rivals"}, "wrote over an object"),
        (
            ("PUT", "if-match"),
            {"replace-if-match", "replace-if-match-absent", "replace-rivals"},
            "replaced an object whose ETag had changed",
        ),
        (("GET", "if-none-match"), {"get-if-changed"}, "sent an object again"),
    ],
)
def test_a_server_that_ignores_a_condition_is_refused_by_the_name_of_the_check(
    moto_uri: str, moto_config: OntologiaConfig, lost: tuple[str, str], failed: set[str], did: str
):
    method, header = lost
    # moto does not check signatures, so a condition can be lost on the way to it.
    with relay_to(str(moto_config.s3_endpoint_url)) as relay:
        relay.always = lambda line: Accident(without=(header,)) if line.startswith(method) else None
        objects = open_objects(moto_uri, OntologiaConfig(s3_endpoint_url=relay.endpoint))
        report = probe(objects)
        assert {check.name for check in report.failed} == failed
        assert not report.ok
        with pytest.raises(StorageBackendError, match=did) as caught:
            report.refuse()
        assert caught.value.check in failed
        relay.always = lambda _: None
        assert nothing_left(objects)
        objects.close()


@pytest.mark.parametrize("accident", [Accident(without=("if-match",)), Accident(501, "NotImplemented")])
def test_a_server_that_only_ignores_conditional_deletion_is_usable_without_it(
    moto_uri: str, moto_config: OntologiaConfig, accident: Accident
):
    with relay_to(str(moto_config.s3_endpoint_url)) as relay:
        relay.always = lambda line: accident if line.startswith("DELETE") else None
        objects = open_objects(moto_uri, OntologiaConfig(s3_endpoint_url=relay.endpoint))
        report = probe(objects)
        assert [check.name for check in report.failed] == [DELETION]
        assert report.ok
        assert not report.conditional_delete
        report.refuse()
        assert nothing_left(objects)
        objects.close()


def test_a_port_that_is_known_not_to_delete_under_a_condition_is_usable(objects: BucketObjects):
    objects.conditional_delete = False
    report = probe(objects)
    assert report.ok
    assert not report.conditional_delete


def test_a_server_that_denies_access_is_an_error_not_a_finding(
    s3_uri: str, s3_config: OntologiaConfig, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    objects = open_objects(s3_uri, s3_config)
    with pytest.raises(StorageBackendError, match="SignatureDoesNotMatch"):
        probe(objects)
    objects.close()
