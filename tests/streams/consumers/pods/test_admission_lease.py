"""Evicting only while a webhook is at work that changes the successor."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from schemas.outcomes import Result
from streams.consumers.evictor import AdmissionLease, evictor
from streams.consumers.webhook.registration import StatusLease
from tests.support.api_objects import ApiObjects
from tests.support.consumer_scene import eviction_of, scene_at_two

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def objection(lease: dict[str, Any] | None, age: float = 0.0) -> str | None:
    objects = ApiObjects()
    if lease is not None:
        objects.create("web", {"metadata": {"name": "web"}, **lease})
    return AdmissionLease(objects, "web", most=timedelta(seconds=60), now=lambda: NOW + timedelta(seconds=age)).objection()


@pytest.mark.parametrize(("age", "alive"), [(-5, True), (0, True), (59, True), (61, False)])
def test_a_lease_counts_by_its_renewal(age: float, alive: bool) -> None:
    found = objection({"spec": {"renewTime": "2026-03-01T12:00:00.000000Z"}}, age)
    assert (found is None) is alive
    if not alive:
        assert found is not None
        assert "was renewed 61 s ago, and 60 s are the most" in found


@pytest.mark.parametrize("spec", [{}, {"spec": {}}, {"spec": None}, {"spec": {"renewTime": None}}])
def test_a_lease_that_was_never_renewed_counts_by_its_creation(spec: dict[str, Any]) -> None:
    metadata = {"name": "web", "creationTimestamp": "2026-03-01T12:00:00Z"}
    assert objection({"metadata": metadata, **spec}, 59) is None
    assert objection({"metadata": metadata, **spec}, 61) is not None


def test_without_a_lease_or_a_time_in_it_nobody_is_evicted() -> None:
    assert "there is no Lease 'web'" in (objection(None) or "")
    for text in ("yesterday", "2026-03-01T12:00:00", 7):
        assert "has no time that can be read" in (objection({"spec": {"renewTime": text}}) or "")


def test_what_the_webhook_renews_is_what_counts() -> None:
    objects = ApiObjects()
    lease = AdmissionLease(objects, "web", most=timedelta(seconds=30), now=lambda: NOW)
    StatusLease(objects, "web", "one").renew(NOW)
    assert lease.objection() is None
    StatusLease(objects, "web", "one").leave(NOW)
    assert lease.objection() is not None


def test_an_eviction_is_refused_while_no_webhook_is_at_work() -> None:
    scene = scene_at_two()
    pod = scene.pod()
    scene.plan(eviction_of(pod))
    evictor(scene.context, scene.client, lambda: "nobody would change its successor").poll_once()
    (outcome,) = scene.outcomes()
    assert (outcome.result, outcome.reason) == (Result.REFUSED, "nobody would change its successor")
    assert scene.client.acts == []
