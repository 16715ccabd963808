"""Our MutatingWebhookConfiguration: safe, kept as it is to be, and never without an authority that somebody needs."""

import base64
import copy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from structlog.testing import capture_logs

from schemas.units import Seconds
from streams.consumers.webhook.registration import Registrar, Registration
from streams.errors import TryAgain, Unreachable
from streams.serving import certificate_making
from streams.serving.certificate_making import self_made
from tests.support.api_objects import ApiObjects

AT = datetime(2026, 1, 1, tzinfo=UTC)
ONE, OTHER, THIRD = (self_made(("hook",), AT).authorities for _ in range(3))
SERVICE = {"service": {"namespace": "ullage", "name": "hook", "port": 443}}
WANTED = Registration("ours", SERVICE, "ullage")


class Scene:
    def __init__(self, registration: Registration = WANTED) -> None:
        self.objects, self.now = ApiObjects(), 0.0
        self.registrar = self.replica(registration)

    def replica(self, registration: Registration = WANTED) -> Registrar:
        return Registrar(self.objects, registration, clock=lambda: self.now)

    @property
    def webhooks(self) -> Any:
        return self.objects.held["ours"]["webhooks"]

    @property
    def trusted(self) -> set[bytes]:
        found = {each["clientConfig"].get("caBundle", "") for each in self.webhooks}
        (bundle,) = found
        return set(certificate_making.singles(base64.b64decode(bundle)))


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    made.registrar.ensure([ONE], AT)
    return made


def test_it_is_safe_by_default(scene: Scene) -> None:
    pods, vpas = scene.webhooks
    for each in (pods, vpas):
        assert (each["failurePolicy"], each["timeoutSeconds"], each["sideEffects"]) == ("Ignore", 5, "NoneOnDryRun")
        assert each["reinvocationPolicy"] == "IfNeeded"
        (outside,) = each["namespaceSelector"]["matchExpressions"]
        assert outside["values"] == ["kube-node-lease", "kube-public", "kube-system", "ullage"]
    assert pods["rules"][0]["operations"] == ["CREATE"]
    assert vpas["rules"][0]["operations"] == ["CREATE", "UPDATE"]
    assert "ownerReferences" in pods["matchConditions"][0]["expression"]
    assert scene.registrar.registered


def test_a_look_alone_writes_nothing_even_where_the_server_added_defaults(scene: Scene) -> None:
    for each in scene.objects.held["ours"]["webhooks"]:
        each["objectSelector"] = {}
        each["clientConfig"]["service"]["path"] = "/"
    writes = scene.objects.writes
    scene.registrar.ensure([ONE], AT)
    assert scene.objects.writes == writes


@pytest.mark.parametrize(
    "spoil",
    [
        lambda each: each.update(failurePolicy="Fail"),
        lambda each: each.update(rules=[]),
        lambda each: each.update(namespaceSelector={}),
        lambda each: each["clientConfig"]["service"].update(name="another"),
        lambda each: each["clientConfig"].update(caBundle=base64.b64encode(b"rubbish").decode()),
        lambda each: each.update(name="x.y.z"),
    ],
)
def test_somebody_elses_change_is_undone(scene: Scene, spoil: Any) -> None:
    before = copy.deepcopy(scene.webhooks)
    spoil(scene.objects.held["ours"]["webhooks"][0])
    scene.registrar.ensure([ONE], AT)
    assert scene.webhooks == before


@pytest.mark.parametrize(
    ("spoil", "asked", "what"),
    [
        (lambda held: held["ours"]["webhooks"][0].update(failurePolicy="Fail"), True, "pods.ullage.internal: failurePolicy"),
        (lambda held: held["ours"]["webhooks"][1].update(rules=[]), False, "vpas.ullage.internal: rules"),
        (lambda held: held["ours"]["webhooks"].pop(), False, "its webhooks: rules"),
        (lambda held: held.pop("ours"), False, "it was deleted"),
    ],
)
def test_where_somebody_else_insists_it_is_put_right_more_and_more_seldom_and_said(
    scene: Scene, spoil: Any, asked: bool, what: str
) -> None:
    """Each five seconds, for ever, against a policy engine that changes each webhook."""
    writes, before = list[float](), -1
    with capture_logs() as lines:
        for _ in range(3 * 720):
            scene.now += 5.0
            if scene.objects.writes > before:
                writes.append(scene.now)
                spoil(scene.objects.held)
            before = scene.objects.writes
            scene.registrar.ensure([ONE], AT)
    pauses = [later - earlier for earlier, later in pairwise(writes)]
    assert 6 <= len(writes) <= 14
    assert (pauses[1], max(pauses) >= 1800.0) == (5.0, True)
    assert scene.registrar.registered is asked, "else the Lease says that new pods are changed"
    assert {line["what"] for line in lines if line["log_level"] == "warning"} == {what}
    scene.now += 1800.0
    scene.registrar.ensure([ONE], AT)
    assert scene.registrar.registered


def test_authorities_of_somebody_else_in_the_place_of_ours_are_a_change_as_any_other(scene: Scene) -> None:
    """As cert-manager's injector puts them there: each was a new wish of ours, for it goes with ours for a while."""
    writes, bundle = list[float](), base64.b64encode(OTHER).decode()
    with capture_logs() as lines:
        for _ in range(6 * 720):
            before = scene.objects.writes
            scene.registrar.ensure([ONE], AT)
            if scene.objects.writes > before:
                writes.append(scene.now)
            clients = [each | {"clientConfig": SERVICE | {"caBundle": bundle}} for each in scene.webhooks]
            scene.objects.change("ours", "injector", webhooks=clients)
            scene.now += 5.0
    assert len(writes) <= 20
    assert max(later - earlier for earlier, later in pairwise(writes)) == 1800.0
    warnings = {line["what"] for line in lines if line["log_level"] == "warning"}
    assert warnings == {"pods.ullage.internal: clientConfig, last written by 'injector'"}


@pytest.mark.parametrize("there", [False, True])
def test_a_refusal_is_met_in_pauses_that_grow_and_is_no_quarrel(there: bool) -> None:
    scene, tried = Scene(), 0
    if there:
        scene.registrar.ensure([ONE], AT)
        scene.objects.change("ours", webhooks=[])
    scene.objects.asked, scene.objects.refusal = 0, TryAgain(doing="writing", to="ours", answer="500", after=Seconds(1.0))
    with capture_logs() as lines:
        for _ in range(720):
            with pytest.raises(TryAgain, match="500"):
                scene.registrar.ensure([ONE], AT)
            scene.now += 5.0
            tried += 1
    assert tried == 720
    assert scene.objects.asked <= 20
    assert lines == []
    scene.objects.refusal, scene.now = None, scene.now + 300.0
    scene.registrar.ensure([ONE], AT)
    assert scene.trusted == {ONE}


def test_a_renewal_is_no_quarrel_however_often_it_comes(scene: Scene) -> None:
    """The older authority goes each time, which nobody else has asked for."""
    with capture_logs() as lines:
        ours = [ONE]
        for _ in range(8):
            ours = [*ours, self_made(("hook",), AT).authorities]
            scene.registrar.ensure(ours, AT)
            ours = ours[1:]
            for _ in range(150):
                scene.now += 5.0
                scene.registrar.ensure(ours, AT)
            assert scene.trusted == set(ours)
    assert [line for line in lines if line["log_level"] == "warning"] == []


def test_what_a_platform_takes_out_besides_is_left_so(scene: Scene) -> None:
    """AKS (Azure/AKS#1771) adds such expressions to each webhook at once, in front of ours."""
    theirs = [
        {"key": "control-plane", "operator": "DoesNotExist"},
        {"key": "kubernetes.azure.com/managedby", "operator": "NotIn"},
    ]
    for each in scene.objects.held["ours"]["webhooks"]:
        each["namespaceSelector"]["matchExpressions"] = [*theirs, *each["namespaceSelector"]["matchExpressions"]]
    writes = scene.objects.writes
    scene.registrar.ensure([ONE], AT)
    assert scene.objects.writes == writes
    wider = replace(WANTED, excluded=("kube-system", "more"))
    scene.replica(wider).ensure([ONE], AT)
    expressions = scene.webhooks[0]["namespaceSelector"]["matchExpressions"]
    assert [expression["key"] for expression in expressions] == [*(each["key"] for each in theirs), "kubernetes.io/metadata.name"]
    assert expressions[-1]["values"] == ["kube-system", "more", "ullage"]


def test_a_renewal_leaves_both_authorities_for_a_while(scene: Scene) -> None:
    scene.registrar.ensure([ONE, OTHER], AT)
    assert scene.trusted == {ONE, OTHER}
    scene.registrar.ensure([OTHER], AT)
    assert scene.trusted == {ONE, OTHER}  # another replica may show the old one yet
    scene.now = 599.0
    scene.registrar.ensure([OTHER], AT)
    assert scene.trusted == {ONE, OTHER}
    scene.now = 601.0
    scene.registrar.ensure([OTHER], AT)
    assert scene.trusted == {OTHER}


def test_replicas_do_not_take_each_others_authorities_away(scene: Scene) -> None:
    late = scene.replica()
    late.ensure([ONE], AT)
    scene.registrar.ensure([ONE, OTHER], AT)
    late.ensure([ONE], AT)  # it has not seen the renewal
    assert scene.trusted == {ONE, OTHER}
    late.ensure([ONE, OTHER], AT)
    scene.now = 700.0
    scene.registrar.ensure([OTHER], AT)
    late.ensure([OTHER], AT)
    assert scene.trusted == {ONE, OTHER}  # seen as foreign for the first time just now
    scene.now = 1400.0
    scene.registrar.ensure([OTHER], AT)
    late.ensure([OTHER], AT)
    assert scene.trusted == {OTHER}


def test_an_authority_that_has_ended_goes_at_once(scene: Scene) -> None:
    scene.registrar.ensure([ONE, self_made(("hook",), AT + timedelta(days=6)).authorities], AT + timedelta(days=7, seconds=1))
    assert ONE not in scene.trusted
    assert len(scene.trusted) == 1


def test_without_authorities_of_our_own_those_that_are_there_stay(scene: Scene) -> None:
    scene.now = 10_000.0
    scene.registrar.ensure([], AT)
    assert scene.trusted == {ONE}


def test_a_configuration_of_somebody_elses_is_left_alone_but_for_its_authorities() -> None:
    scene = Scene(Registration("ours", SERVICE, "ullage", own=False))
    scene.registrar.ensure([ONE], AT)
    assert scene.objects.held == {}
    theirs = {"name": "a.b.c", "failurePolicy": "Fail", "clientConfig": {"service": {"name": "x"}}}
    scene.objects.create("ours", {"metadata": {"name": "ours"}, "webhooks": [theirs]})
    scene.registrar.ensure([ONE], AT)
    assert scene.trusted == {ONE}
    (found,) = scene.webhooks
    assert (found["failurePolicy"], found["clientConfig"]["service"]) == ("Fail", {"name": "x"})
    scene.registrar.remove()
    assert "ours" in scene.objects.held


def test_taken_away_it_is_gone_and_an_absent_server_is_said(scene: Scene) -> None:
    scene.registrar.remove()
    assert scene.objects.held == {}
    scene.registrar.remove()
    scene.objects.away = True
    with pytest.raises(Unreachable):
        scene.registrar.ensure([ONE], AT)


def test_a_url_takes_the_place_of_the_service() -> None:
    scene = Scene(Registration("ours", {"url": "https://127.0.0.1:1/"}, "ullage", fail=True, timeout=3))
    scene.registrar.ensure([THIRD], AT)
    (each, _) = scene.webhooks
    assert each["clientConfig"]["url"] == "https://127.0.0.1:1/"
    assert (each["failurePolicy"], each["timeoutSeconds"]) == ("Fail", 3)
