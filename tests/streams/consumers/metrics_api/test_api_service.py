"""Our APIService: made once, kept as it is to be, and never taken from another server."""

import base64
from datetime import UTC, datetime
from typing import Any

import pytest

from streams.consumers.metrics_api.api_service import CUSTOM, EXTERNAL, ApiServiceKeeper, ServedAt
from streams.errors import GiveUp
from streams.serving import certificate_making
from streams.serving.certificate_making import self_made
from tests.support.api_objects import ApiObjects

AT = datetime(2026, 1, 1, tzinfo=UTC)
ONE, OTHER = (self_made(("metrics",), AT).authorities for _ in range(2))
NAME = EXTERNAL.api_service
OURS = ServedAt("ullage", "ullage-metrics-api", 443)


@pytest.fixture
def objects() -> ApiObjects:
    return ApiObjects()


def spec(objects: ApiObjects) -> Any:
    return objects.held[NAME]["spec"]


def trusted(objects: ApiObjects) -> set[bytes]:
    return set(certificate_making.singles(base64.b64decode(spec(objects)["caBundle"])))


def test_it_is_made_with_our_service_and_our_authority(objects: ApiObjects) -> None:
    ApiServiceKeeper(objects, OURS).ensure([ONE], AT)
    assert spec(objects)["service"] == {"namespace": "ullage", "name": "ullage-metrics-api", "port": 443}
    assert (spec(objects)["group"], spec(objects)["version"]) == ("external.metrics.k8s.io", "v1beta1")
    assert trusted(objects) == {ONE}


def test_a_look_alone_writes_nothing(objects: ApiObjects) -> None:
    keeper = ApiServiceKeeper(objects, OURS)
    keeper.ensure([ONE], AT)
    keeper.ensure([ONE], AT)
    assert objects.writes == 1


def test_what_somebody_changed_is_put_right(objects: ApiObjects) -> None:
    keeper = ApiServiceKeeper(objects, OURS)
    keeper.ensure([ONE], AT)
    spec(objects).update(caBundle="", insecureSkipTLSVerify=True, groupPriorityMinimum=7)
    keeper.ensure([ONE], AT)
    assert trusted(objects) == {ONE}
    assert spec(objects)["insecureSkipTLSVerify"] is False
    assert spec(objects)["groupPriorityMinimum"] == 100


def test_two_replicas_with_certificates_of_their_own_are_both_trusted(objects: ApiObjects) -> None:
    ApiServiceKeeper(objects, OURS).ensure([ONE], AT)
    ApiServiceKeeper(objects, OURS).ensure([OTHER], AT)
    assert trusted(objects) == {ONE, OTHER}


def test_the_group_is_not_taken_from_another_server(objects: ApiObjects) -> None:
    ApiServiceKeeper(objects, ServedAt("keda", "keda-metrics", 443)).ensure([OTHER], AT)
    with pytest.raises(GiveUp, match="Service 'keda/keda-metrics' serves it; a group has one server"):
        ApiServiceKeeper(objects, OURS).ensure([ONE], AT)
    assert trusted(objects) == {OTHER}


def test_of_a_charts_apiservice_only_the_authorities_are_ours_and_none_is_made(objects: ApiObjects) -> None:
    keeper = ApiServiceKeeper(objects, ServedAt("ullage", "ullage-metrics-api", 443, own=False))
    keeper.ensure([ONE], AT)
    assert objects.held == {}
    service = {"namespace": "ullage", "name": "ullage-metrics-api", "port": 6443}
    objects.create(NAME, {"metadata": {}, "spec": {"service": service, "groupPriorityMinimum": 50}})
    keeper.ensure([ONE], AT)
    assert trusted(objects) == {ONE}
    assert spec(objects)["service"] == service
    assert spec(objects)["groupPriorityMinimum"] == 50


def test_custom_metrics_have_an_api_service_of_their_own_beside_another_adapters_external_one(objects: ApiObjects) -> None:
    ApiServiceKeeper(objects, ServedAt("keda", "keda-metrics", 443)).ensure([OTHER], AT)
    custom = ServedAt("ullage", "ullage-metrics-api", 443, group=CUSTOM)
    ApiServiceKeeper(objects, custom).ensure([ONE], AT)
    found = objects.held["v1beta2.custom.metrics.k8s.io"]["spec"]
    assert (found["group"], found["version"], found["service"]["name"]) == (
        "custom.metrics.k8s.io", "v1beta2", "ullage-metrics-api",
    )  # fmt: skip
    assert spec(objects)["service"]["name"] == "keda-metrics"
