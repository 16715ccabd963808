"""Our APIService: made once, kept as it is to be, and never taken from another server."""

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from structlog.testing import capture_logs

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


def cut(objects: ApiObjects) -> None:
    objects.change(NAME, "gitops", spec={**spec(objects), "caBundle": "", "insecureSkipTLSVerify": True})


def inject(objects: ApiObjects) -> None:
    """As cert-manager's injector does it."""
    objects.change(NAME, "injector", spec={**spec(objects), "caBundle": base64.b64encode(OTHER).decode()})


def prune(objects: ApiObjects) -> None:
    objects.held.pop(NAME)


@pytest.mark.parametrize(
    ("undo", "what"),
    [
        (cut, "caBundle, last written by 'gitops'"),
        (inject, "caBundle, last written by 'injector'"),
        (prune, "it was deleted"),
    ],
)
def test_where_somebody_else_insists_it_is_put_right_more_and_more_seldom_and_said(
    objects: ApiObjects, undo: Callable[[ApiObjects], None], what: str
) -> None:
    """Each five seconds, for ever, and only at level info."""
    now, writes = 0.0, list[float]()
    keeper = ApiServiceKeeper(objects, OURS, clock=lambda: now)
    with capture_logs() as lines:
        while now < 6 * 3600.0:
            before = objects.writes
            keeper.ensure([ONE], AT + timedelta(seconds=now))
            if objects.writes > before:
                writes.append(now)
                undo(objects)
            now += 5.0
    pauses = [later - earlier for earlier, later in pairwise(writes)]
    assert 8 <= len(writes) <= 20
    assert (pauses[:3], max(pauses)) == ([5.0, 5.0, 5.0], 1800.0)
    warnings = [line for line in lines if line["log_level"] == "warning"]
    assert {(line["kind"], line["name"], line["what"]) for line in warnings} == {("APIService", NAME, what)}
    assert len(warnings) <= len(writes)


def test_a_refusal_is_met_in_pauses_that_grow_and_raised_at_each_look(objects: ApiObjects) -> None:
    """Admission control, a quota or a missing right refuses it, for hours."""
    now, tried = 0.0, list[float]()
    keeper = ApiServiceKeeper(objects, OURS, clock=lambda: now)
    objects.refusal = GiveUp(doing="creating", to=NAME, answer="403 forbidden: a policy denies it")
    while now < 3600.0:
        before = objects.asked
        with pytest.raises(GiveUp, match="a policy denies it"):
            keeper.ensure([ONE], AT)
        if objects.asked > before:
            tried.append(now)
        now += 5.0
    assert tried[:7] == [0.0, 5.0, 15.0, 35.0, 75.0, 155.0, 315.0]
    assert max(later - earlier for earlier, later in pairwise(tried)) == 300.0
    objects.refusal, now = None, now + 300.0
    keeper.ensure([ONE], AT)
    assert trusted(objects) == {ONE}
    objects.refusal = GiveUp(doing="replacing", to=NAME, answer="422 it is immutable")
    cut(objects)
    for then in (now, now + 5.0):  # the pause begins anew
        before, now = objects.asked, then
        with pytest.raises(GiveUp, match="immutable"):
            keeper.ensure([ONE], AT)
        assert objects.asked == before + 1
