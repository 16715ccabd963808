"""What `ullage doctor` says of a webhook that the API server no longer trusts, and of an APIService that nobody serves."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agents.commands.health import doctor_cluster_checks
from streams.serving.certificate_making import LIFE, self_made

MADE = datetime(2026, 1, 5, tzinfo=UTC)
OLD, NEW = (self_made(("hook",), at).authorities for at in (MADE, MADE + LIFE))
OURS = ("ullage", "ullage-metrics-api")


def configuration(bundle: bytes) -> dict[str, Any]:
    service = {"namespace": "ullage", "name": "ullage-webhook"}
    client = {"service": service, "caBundle": base64.b64encode(bundle).decode()}
    return {"metadata": {"name": "ullage-webhook"}, "webhooks": [{"name": "pods", "clientConfig": client}] * 2}


@pytest.mark.parametrize(
    ("bundle", "after", "said"),
    [
        (OLD, timedelta(hours=1), None),
        (OLD, LIFE + timedelta(hours=1), "have expired, so nobody is asked"),
        (OLD + NEW, LIFE + timedelta(hours=1), None),
        (b"nonsense", timedelta(0), "cannot be read, so nobody is asked"),
        (b"", timedelta(0), None),
    ],
)
def test_a_webhook_whose_authorities_have_all_expired_is_a_failure(bundle: bytes, after: timedelta, said: str | None) -> None:
    check = doctor_cluster_checks.ended_authorities(configuration(bundle), MADE + after)
    assert (check is None) == (said is None)
    assert check is None or (check.level == "fail" and str(said) in check.finding)


def test_the_services_of_a_webhook_are_named_once() -> None:
    assert list(doctor_cluster_checks.served_by(configuration(OLD))) == [("ullage", "ullage-webhook")]
    assert list(doctor_cluster_checks.served_by({"webhooks": [{"clientConfig": {"url": "https://here/"}}]})) == []


def registered(service: tuple[str, str], available: str) -> dict[str, Any]:
    condition = {"type": "Available", "status": available, "reason": "MissingEndpoints", "message": "no addresses"}
    spec = {"service": {"namespace": service[0], "name": service[1]}}
    return {"metadata": {"name": "v1beta1.external.metrics.k8s.io"}, "spec": spec, "status": {"conditions": [condition]}}


@pytest.mark.parametrize(
    ("service", "available", "wanted", "level", "said"),
    [
        (OURS, "True", True, "ok", "is served by us"),
        (OURS, "True", False, None, ""),
        (OURS, "False", True, "fail", "nobody serves 'v1beta1.external.metrics.k8s.io' (MissingEndpoints: no addresses)"),
        (OURS, "False", False, "fail", "no namespace of the cluster can be deleted"),
        (("keda", "keda-metrics"), "True", True, "warn", "is served by Service 'keda/keda-metrics'"),
        (("keda", "keda-metrics"), "False", False, None, ""),
    ],
)
def test_an_api_service_without_a_server_is_a_failure_also_where_it_is_left_over(
    service: tuple[str, str], available: str, wanted: bool, level: str | None, said: str
) -> None:
    check = doctor_cluster_checks.api_service(registered(service, available), OURS, wanted=wanted)
    assert (None if check is None else check.level) == level
    assert check is None or said in check.finding
