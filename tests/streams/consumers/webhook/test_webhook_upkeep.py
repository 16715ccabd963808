"""The rounds in which the webhook keeps up its certificate, registration and Lease, where others refuse or undo its work."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from streams.consumers.webhook.registration import Registrar, Registration, StatusLease
from streams.consumers.webhook.webhook_consumer import Parts, Serving, WebhookConsumer
from streams.errors import EdgeError, GiveUp
from streams.serving.certificate_rotation import CertificateRotation, CertificateSecret, Renewal
from streams.serving.https_server import CertificateHolder
from tests.support.api_objects import ApiObjects

AT = datetime(2026, 1, 1, tzinfo=UTC)
SERVICE = {"service": {"namespace": "ullage", "name": "hook", "port": 443}}
RENEWAL = Renewal(("hook.ullage.svc",), life=timedelta(hours=2), before=timedelta(hours=1))


class View:
    """One that has caught up."""

    def reasons(self) -> Sequence[str]:
        return []

    silence = reasons


@dataclass
class Scene:
    now: float = 0.0
    own: bool = True
    hooks: ApiObjects = field(default_factory=ApiObjects)
    leases: ApiObjects = field(default_factory=ApiObjects)
    secrets: ApiObjects = field(default_factory=ApiObjects)
    ends: list[datetime] = field(default_factory=list)

    def __post_init__(self) -> None:
        def clock() -> float:
            return self.now

        holder = CertificateHolder()
        secret = CertificateSecret(self.secrets, "certificate", RENEWAL, clock=clock)
        parts = Parts(
            view=cast("Any", View()),
            outcomes=cast("Any", None),
            chain=cast("Any", None),
            keeper=CertificateRotation(secret, holder, self, clock=clock),
            holder=holder,
            watcher=cast("Any", None),
            registrar=Registrar(self.hooks, Registration("ours", SERVICE, "ullage", own=self.own), clock=clock),
            lease=StatusLease(self.leases, "hook", "one"),
        )
        self.consumer = WebhookConsumer(parts, Serving(("", 0)), lambda: AT + timedelta(seconds=self.now))

    def shown(self, ends: datetime) -> None:
        self.ends.append(ends)

    def refused(self) -> None:
        pass

    def round(self) -> None:
        self.consumer._round()
        self.now += 5.0


@pytest.fixture
def scene() -> Scene:
    return Scene()


def refusal(answer: str) -> EdgeError:
    return GiveUp(doing="creating", to="ours", answer=answer)


def test_a_refused_registration_is_said_again_when_the_answer_changes_and_holds_no_replica_back(scene: Scene) -> None:
    """It was said once, whatever the server answered after that, and tried each five seconds."""
    with capture_logs() as lines:
        for answer in ("403 forbidden", "422 invalid", "403 forbidden"):
            scene.hooks.refusal = refusal(answer)
            for _ in range(240):
                scene.round()
                assert scene.consumer.reasons() == []
    said = [line["error"] for line in lines if line["log_level"] == "warning"]
    assert said == [f"creating 'ours' did not work: {answer}" for answer in ("403 forbidden", "422 invalid", "403 forbidden")]
    assert scene.hooks.asked <= 25
    assert scene.leases.writes == 0, "nobody asks us, so pods would come back unchanged"
    scene.hooks.refusal = None
    scene.now += 300.0
    scene.round()
    assert scene.leases.writes == 1


def test_that_nobody_answers_in_between_repeats_no_warning_and_makes_no_pause(scene: Scene) -> None:
    scene.hooks.refusal = refusal("403 forbidden")
    with capture_logs() as lines:
        for _ in range(100):
            scene.round()
            scene.hooks.away = not scene.hooks.away
    assert len([line for line in lines if line["log_level"] == "warning"]) == 1
    scene.hooks.refusal, scene.hooks.away, scene.now = None, True, scene.now + 300.0
    for _ in range(100):
        scene.round()
    scene.hooks.away = False
    scene.round()
    assert "ours" in scene.hooks.held


def test_where_others_keep_deleting_the_registration_the_lease_does_not_say_that_pods_are_changed(scene: Scene) -> None:
    for _ in range(720):
        scene.round()
        scene.hooks.held.pop("ours", None)
    writes = scene.leases.writes
    assert writes < 20
    assert scene.consumer.reasons() == []
    scene.now += 1800.0
    scene.round()
    assert scene.leases.writes == writes + 1


def test_where_others_register_us_the_lease_waits_only_for_a_registration_that_was_deleted() -> None:
    scene = Scene(own=False)
    scene.round()
    assert scene.leases.writes == 1, "theirs may have another name"
    scene.hooks.create("ours", {"metadata": {"name": "ours"}, "webhooks": [{"name": "a.b.c", "clientConfig": SERVICE}]})
    scene.round()
    assert scene.leases.writes == 2
    theirs = scene.hooks.held.pop("ours")
    with capture_logs() as lines:
        for _ in range(3):
            scene.round()
    assert scene.leases.writes == 2
    assert scene.consumer.reasons() == []
    assert len([line for line in lines if line["log_level"] == "warning"]) == 1
    scene.hooks.held["ours"] = theirs
    scene.round()
    assert scene.leases.writes == 3


@pytest.mark.parametrize("deleted", [False, True])
def test_a_certificate_that_others_take_away_is_renewed_and_shown_in_time_and_nothing_grows(scene: Scene, deleted: bool) -> None:
    """Another one was made at each look, so that the next one never got shown, and the bundle had all of them: 207 KB."""
    sizes = set()
    for _ in range(6 * 720):
        scene.round()
        assert scene.consumer.reasons() == []
        sizes.add(len(json.dumps(scene.hooks.held["ours"])))
        if deleted:
            scene.secrets.held.pop("certificate", None)
        else:
            scene.secrets.change("certificate", data={})
    assert 5 <= len(scene.ends) <= 8  # of two hours each, renewed after one
    assert max(sizes) < 12_000
    assert scene.secrets.writes < 60
