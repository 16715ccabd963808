"""The admission webhook on a real API server: over TLS, registered by itself, under its own role, killed and replaced."""

import base64
import copy
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from schemas.names import Amounts
from schemas.outcomes import ActionFinished, Result
from schemas.policies.control import Mode
from schemas.policies.limit_ranges import Limit, LimitType
from schemas.policies.vertical import BoostKind, StartupBoost
from schemas.units import Cores
from streams.serving import certificate_making
from streams.serving.certificate_making import self_made
from streams.serving.https_server import CertificateHolder, HttpsServer
from tests.controlplane.api_requests import wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.webhook_replicas import CONFIGURATION, Hooks
from tests.controlplane.world import Refused, World

ASKED = {"cpu": "100m", "memory": "64Mi"}
GIVEN = {"cpu": "250m", "memory": "200Mi"}


@pytest.fixture
def home(plane: Plane) -> Iterator[World]:
    """The namespace that the webhook itself runs in."""
    made = World(plane.ask)
    yield made
    made.close()


@pytest.fixture
def hooks(plane: Plane, home: World, world: World, tmp_path: Path) -> Iterator[Hooks]:
    made = Hooks(plane, home, world, tmp_path)
    yield made
    made.close()


@pytest.fixture
def applied(hooks: Hooks) -> Hooks:
    """One replica, mode apply, and a recommendation for a Deployment `web` that is not there yet."""
    at_work(hooks)
    return hooks


def at_work(hooks: Hooks, *names: str, **settings: str) -> None:
    """Replicas in mode apply that know all that is in the log: each is ready once it has read to the end."""
    hooks.control()
    hooks.vpa()
    hooks.recommend()
    for name in names or ("one",):
        hooks.start(name, **settings)


def requests_of(pod: Any) -> Any:
    return pod["spec"]["containers"][0]["resources"]["requests"]


def of(hooks: Hooks, result: Result) -> list[ActionFinished]:
    return [outcome for outcome in hooks.outcomes() if outcome.result is result]


def probe(hooks: Hooks, name: str = "probe", *, dry_run: bool = True) -> Any:
    """A pod of `web` as its ReplicaSet would make it, by default without a trace."""
    (owner,) = hooks.world.ask.get(f"/apis/apps/v1/namespaces/{hooks.world.namespace}/replicasets?labelSelector=app%3Dweb")[
        "items"
    ]
    about = owner["metadata"]
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": about["name"], "uid": about["uid"], "controller": True}
    metadata = {"generateName": f"{name}-", "labels": about["labels"], "ownerReferences": [reference]}
    spec = copy.deepcopy(owner["spec"]["template"]["spec"])
    return hooks.world.ask.post(
        f"{hooks.world.path('pods')}{'?dryRun=All' if dry_run else ''}", {"metadata": metadata, "spec": spec}
    )  # fmt: skip


@contextmanager
def load(hooks: Hooks, threads: int = 3) -> Iterator[list[Any]]:
    """Pods are created all the time; gives what each was given, or the error."""
    stop, seen = threading.Event(), list[Any]()

    def create() -> None:
        while not stop.is_set():
            try:
                seen.append(requests_of(probe(hooks)))
            except (Refused, OSError) as error:
                seen.append(error)

    working = [threading.Thread(target=create) for _ in range(threads)]
    for thread in working:
        thread.start()
    try:
        yield seen
    finally:
        stop.set()
        for thread in working:
            thread.join(60.0)


def more(seen: list[Any], count: int = 50) -> None:
    """Wait until so many pods were created since now."""
    goal = len(seen) + count
    wait_for(lambda: len(seen) >= goal, what=f"{count} more pods were created")


def test_a_deployment_is_admitted_over_tls_with_the_recommended_requests(applied: Hooks) -> None:
    with applied.ticking(), applied.watching():
        pods = applied.world.deployment("web", replicas=2)
        done = wait_for(lambda: found if len(found := of(applied, Result.DONE)) == 2 else None, what="both pods were seen")
    assert [requests_of(pod) for pod in pods] == [GIVEN, GIVEN]
    annotations = pods[0]["metadata"]["annotations"]
    assert annotations["vpaUpdates"] == "Pod resources updated by web: container 0: cpu request, memory request"
    assert annotations["vpaObservedContainers"] == "app"
    assert {outcome.subject.uid for outcome in done} == {pod["metadata"]["uid"] for pod in pods}
    assert done[0].subject.workload == f"real/{applied.world.namespace}/Deployment/web"
    assert "cpu request 250m (was 100m)" in done[0].reason
    assert len(of(applied, Result.OFFERED)) == 1  # the two pods are alike
    assert applied.metric('vpa_admission_controller_admission_pods_total{applied="true"}') == 2
    assert applied.metric('ullage_webhook_owner_lookups_total{result="found"}') == 1
    why = applied.ullage("why", f"{applied.world.namespace}/{pods[0]['metadata']['name']}")
    assert "requests recommended" in why
    assert why.count("then: ") == 1
    assert "action patch, result done" in why


def test_the_registration_is_safe_and_the_lease_is_renewed(applied: Hooks) -> None:
    pods, vpas = applied.plane.ask.get(CONFIGURATION)["webhooks"]
    for each in (pods, vpas):
        assert (each["failurePolicy"], each["timeoutSeconds"], each["sideEffects"]) == ("Ignore", 5, "NoneOnDryRun")
        (outside,) = each["namespaceSelector"]["matchExpressions"]
        assert outside["operator"] == "NotIn"
        assert {"kube-system", applied.home.namespace} <= set(outside["values"])
    assert pods["reinvocationPolicy"] == "IfNeeded"
    assert len(pods["matchConditions"]) == 1
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{applied.home.namespace}/leases/ullage-webhook"
    first = applied.plane.ask.get(lease)["spec"]
    assert datetime.now(UTC) - datetime.fromisoformat(first["renewTime"]) < timedelta(seconds=10)
    wait_for(lambda: applied.plane.ask.get(lease)["spec"]["renewTime"] != first["renewTime"], what="the Lease is renewed")
    version = applied.plane.ask.get(CONFIGURATION)["metadata"]["resourceVersion"]
    for what in ("the round that was under way", "a whole round"):  # each ends with the Lease
        last = applied.plane.ask.get(lease)["spec"]["renewTime"]
        wait_for(lambda last=last: applied.plane.ask.get(lease)["spec"]["renewTime"] != last, what=what)  # type: ignore[misc]  # bound now
    assert applied.plane.ask.get(CONFIGURATION)["metadata"]["resourceVersion"] == version  # a look alone is no change


def test_somebody_elses_deletion_of_the_registration_does_not_last(applied: Hooks) -> None:
    applied.plane.ask.delete(CONFIGURATION)
    wait_for(lambda: applied.plane.ask.find(CONFIGURATION), timeout=15.0, what="it is registered again")


def test_pods_without_a_controller_are_not_even_shown_to_us(applied: Hooks) -> None:
    before = applied.metric('ullage_webhook_reviews_total{resource="Pod",result="skipped"}')
    bare = {"metadata": {"name": "bare"}, "spec": {"containers": [{"name": "app", "image": "x"}]}}
    applied.world.ask.post(applied.world.path("pods"), bare)
    assert applied.metric('ullage_webhook_reviews_total{resource="Pod",result="skipped"}') == before


def test_asked_again_after_somebody_elses_change_it_has_nothing_to_add(applied: Hooks) -> None:
    applied.world.deployment("web", replicas=0, wait=False)
    wait_for(lambda: _safely(lambda: probe(applied)), what="a pod can be made")
    made = self_made(("127.0.0.1",), datetime.now(UTC))
    holder = CertificateHolder()
    holder.load(made.certificate, made.key)

    async def label(request: web.Request) -> web.Response:
        asked = (await request.json())["request"]
        patch = b'[{"op":"add","path":"/metadata/labels/theirs","value":"x"}]'
        response = {"uid": asked["uid"], "allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(patch).decode()}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})

    def answered(result: str) -> float:
        return applied.metric(f'ullage_webhook_reviews_total{{resource="Pod",result="{result}"}}')

    with HttpsServer([web.post("/", label)], holder) as server:
        theirs = copy.deepcopy(applied.plane.ask.get(CONFIGURATION)["webhooks"][0])
        theirs["name"] = "theirs.example.com"
        theirs["clientConfig"] = {
            "url": f"https://127.0.0.1:{server.port}/",
            "caBundle": base64.b64encode(made.authorities).decode(),
        }
        path = CONFIGURATION.rpartition("/")[0]
        applied.plane.ask.post(path, {"metadata": {"name": "zz-theirs"}, "webhooks": [theirs]})
        try:
            pod = wait_for(lambda: _labelled(probe(applied)), what="the other webhook is asked, too")
            before = answered("applied"), answered("skipped")
            pod = probe(applied)
        finally:
            applied.plane.ask.delete(f"{path}/zz-theirs")
    assert (answered("applied") - before[0], answered("skipped") - before[1]) == (1, 1)
    assert requests_of(pod) == GIVEN
    assert pod["metadata"]["labels"]["theirs"] == "x"


def test_a_vpa_object_is_completed_and_nonsense_is_denied(applied: Hooks) -> None:
    applied.vpa("other", "other")
    assert applied.world.ask.get(applied.world.path("vpas", "other"))["spec"]["updatePolicy"] == {"updateMode": "Recreate"}
    policies = [{"containerName": "*", "minAllowed": {"cpu": "2"}, "maxAllowed": {"cpu": "1"}}]
    with pytest.raises(Refused, match="max resource for cpu is lower than min") as refused:
        applied.world.vpa("bad", "web", spec={"resourcePolicy": {"containerPolicies": policies}})
    assert refused.value.code == 422
    body = {"spec": {"resourcePolicy": {"containerPolicies": policies}}}
    with pytest.raises(Refused, match="max resource for cpu is lower than min"):
        applied.world.ask.patch(applied.world.path("vpas", "web"), body, kind="merge")


def test_a_dry_run_is_patched_and_leaves_no_trace(applied: Hooks) -> None:
    applied.world.deployment("web")
    wait_for(applied.outcomes, what="the outcome of the real pod")
    assert requests_of(probe(applied)) == GIVEN
    applied.stop()  # what waits for the log is written then
    assert len(applied.outcomes()) == 1


def test_shadow_changes_nothing_and_says_what_it_would_have_set(hooks: Hooks) -> None:
    hooks.vpa()
    hooks.recommend()
    hooks.start()
    (pod,) = hooks.world.deployment("web")
    assert requests_of(pod) == ASKED
    assert "annotations" not in pod["metadata"]
    (outcome,) = wait_for(hooks.outcomes, what="an outcome")
    assert outcome.result is Result.REFUSED
    assert "shadow" in outcome.reason
    assert "cpu request 250m (was 100m)" in outcome.reason
    hooks.vpa("other", "other")
    assert "updatePolicy" not in hooks.world.ask.get(hooks.world.path("vpas", "other"))["spec"]


def test_a_pause_holds_and_its_end_is_obeyed(applied: Hooks) -> None:
    applied.world.deployment("web")
    assert requests_of(probe(applied)) == GIVEN
    applied.control(Mode.APPLY, paused=True)
    wait_for(lambda: requests_of(probe(applied)) == ASKED, what="new pods stay as they are")
    applied.control(Mode.APPLY)
    wait_for(lambda: requests_of(probe(applied)) == GIVEN, what="new pods are patched again")


def test_killed_pods_start_without_it_and_restarted_they_are_patched_again(applied: Hooks) -> None:
    applied.world.deployment("web")
    applied.kill()
    applied.balancer.backends.clear()
    assert requests_of(probe(applied)) == ASKED
    assert applied.plane.ask.find(CONFIGURATION)
    applied.start()
    assert requests_of(wait_for(lambda: _patched(probe(applied)), what="a pod is patched")) == GIVEN


def test_the_last_replica_that_stops_unregisters_and_no_pod_is_refused_meanwhile(hooks: Hooks) -> None:
    at_work(hooks, "one", "two", webhook__failure_policy="Fail")
    hooks.world.deployment("web")
    secret = f"/api/v1/namespaces/{hooks.home.namespace}/secrets/ullage-webhook-certificate"
    assert hooks.plane.ask.find(secret)
    with load(hooks) as seen:
        hooks.stop("one")  # as soon as the other is ready, as a rollout does
        assert hooks.plane.ask.find(CONFIGURATION)
        more(seen)
    assert [each for each in seen if each != GIVEN] == []
    hooks.stop("two")
    assert hooks.plane.ask.find(CONFIGURATION) is None
    assert hooks.plane.ask.find(f"/apis/coordination.k8s.io/v1/namespaces/{hooks.home.namespace}/leases/ullage-webhook") is None
    assert requests_of(probe(hooks)) == ASKED


def test_certificates_rotate_under_load_without_a_failed_request(hooks: Hooks) -> None:
    """Every request that fails would refuse a pod."""
    at_work(hooks, "one", "two", webhook__failure_policy="Fail")
    hooks.world.deployment("web")
    secret = f"/api/v1/namespaces/{hooks.home.namespace}/secrets/ullage-webhook-certificate"
    old = base64.b64decode(hooks.plane.ask.get(secret)["data"]["ca.crt"])

    def bundle() -> set[bytes]:
        return set(
            certificate_making.singles(
                base64.b64decode(hooks.plane.ask.get(CONFIGURATION)["webhooks"][0]["clientConfig"]["caBundle"])
            )
        )

    assert bundle() == {old}
    with load(hooks) as seen:
        more(seen)
        hooks.plane.ask.delete(secret)
        both = wait_for(lambda: bundle() if len(bundle()) == 2 else None, timeout=20.0, what="two authorities are trusted")
        (new,) = both - {old}
        shown = 'ullage_certificate_changes_total{result="shown"}'
        wait_for(
            lambda: hooks.metric(shown, "one") == hooks.metric(shown, "two") == 2, timeout=60.0, what="both show the new one"
        )
        assert new == base64.b64decode(hooks.plane.ask.get(secret)["data"]["ca.crt"])
        more(seen)
    assert [each for each in seen if each != GIVEN] == []


def test_an_expired_certificate_is_said_and_keeps_no_pod_from_starting(hooks: Hooks) -> None:
    hooks.control()
    ended = self_made(("127.0.0.1",), datetime.now(UTC) - timedelta(days=9))
    files = {"certificate": ended.certificate, "key": ended.key, "ca": ended.authorities}
    for name, content in files.items():
        (hooks.folder / name).write_bytes(content)
    hooks.start(wait=False, **{f"webhook__{name}": str(hooks.folder / name) for name in files})
    wait_for(lambda: "the certificate ended at " in str(hooks.reasons("one")), timeout=40.0, what="it says why it is not ready")
    wait_for(lambda: hooks.plane.ask.find(CONFIGURATION), what="it is registered all the same")
    hooks.vpa()
    hooks.recommend()
    (pod,) = hooks.world.deployment("web")
    assert requests_of(pod) == ASKED
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{hooks.home.namespace}/leases/ullage-webhook"
    assert hooks.plane.ask.find(lease) is None  # so nobody is evicted for nothing
    new = self_made(("127.0.0.1",), datetime.now(UTC))
    for name, content in {"certificate": new.certificate, "key": new.key, "ca": new.authorities}.items():
        (hooks.folder / name).write_bytes(content)
    with hooks.ticking():
        wait_for(lambda: hooks.reasons("one") == [], timeout=60.0, what="the new certificate is shown")
    assert requests_of(wait_for(lambda: _patched(probe(hooks)), what="a pod is patched")) == GIVEN
    assert hooks.plane.ask.find(lease)  # a replica is ready only with it


def test_limit_ranges_bound_what_a_pod_is_given_and_the_server_takes_it(hooks: Hooks) -> None:
    bound = {"type": "Container", "max": {"cpu": "200m"}, "default": {"cpu": "200m"}, "defaultRequest": {"cpu": "100m"}}
    path = f"/api/v1/namespaces/{hooks.world.namespace}/limitranges"
    hooks.world.ask.post(path, {"metadata": {"name": "lr"}, "spec": {"limits": [bound]}})
    most = Limit(LimitType.CONTAINER, most=Amounts(cpu=Cores(0.2)), default_limits=Amounts(cpu=Cores(0.2)))
    hooks.limit_range(most)
    at_work(hooks)
    (pod,) = hooks.world.deployment("web", {"app": {"requests": {"cpu": "100m", "memory": "64Mi"}}})
    (container,) = pod["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "100m", "memory": "200Mi"}, "limits": {"cpu": "200m"}}
    assert "cpu capped to fit Max in container LimitRange" in pod["metadata"]["annotations"]["vpaUpdates"]


def test_a_starting_container_is_given_more_cpu_for_a_while(hooks: Hooks) -> None:
    hooks.control()
    boost = {"startupBoost": {"cpu": {"type": "Factor", "factor": 3}}}
    hooks.vpa(spec=boost, boost=StartupBoost(BoostKind.FACTOR, factor=3.0))
    hooks.recommend()
    hooks.start(webhook__cpu_startup_boost="true")
    (pod,) = hooks.world.deployment("web")
    assert requests_of(pod) == GIVEN | {"cpu": "750m"}
    kept = json.loads(pod["metadata"]["annotations"]["vpaCpuStartupBoost/app"])
    assert kept == {"requests": ASKED, "limits": {}}


def test_it_runs_under_its_own_role_and_is_refused_everything_else(applied: Hooks) -> None:
    applied.world.deployment("web")
    assert requests_of(probe(applied)) == GIVEN
    assert not re.search(r"\b403\b", applied.said()), applied.said()
    account, namespace, home = applied.account, applied.world.namespace, applied.home.namespace
    (pod,) = applied.world.pods("web")
    name = pod["metadata"]["name"]
    webhooks, secrets = CONFIGURATION.rpartition("/")[0], "/api/v1/namespaces/{}/secrets"
    for method, path in (
        ("GET", f"/api/v1/namespaces/{namespace}/pods"),
        ("GET", f"/api/v1/namespaces/{namespace}/pods/{name}"),
        ("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}"),
        ("GET", "/apis/apps/v1/deployments"),
        ("DELETE", f"/apis/apps/v1/namespaces/{namespace}/deployments/web"),
        ("GET", secrets.format(home)),
        ("GET", f"{secrets.format(home)}/other"),
        ("GET", f"{secrets.format(namespace)}/ullage-webhook-certificate"),
        ("GET", webhooks),
        ("GET", f"{webhooks}/other"),
        ("DELETE", f"{webhooks}/other"),
        ("GET", "/apis/autoscaling.k8s.io/v1/verticalpodautoscalers"),
        ("GET", f"/apis/coordination.k8s.io/v1/namespaces/{home}/leases/other"),
        ("GET", "/api/v1/nodes"),
    ):
        assert account.refused(method, path), f"{method} {path} is allowed"
    assert account.refused("PATCH", f"/apis/apps/v1/namespaces/{namespace}/deployments/web/scale", {"spec": {"replicas": 3}})
    assert account.refused("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", {"metadata": {"name": name}})


def test_where_owners_cannot_be_looked_up_pods_start_as_they_are(applied: Hooks) -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/ullage-webhook"
    role = applied.plane.ask.get(path)
    rules = [rule for rule in role["rules"] if "replicasets" not in rule["resources"]]
    applied.plane.ask.patch(path, {"rules": rules}, kind="merge")
    sets = f"/apis/apps/v1/namespaces/{applied.world.namespace}/replicasets/none"
    wait_for(lambda: applied.account.refused("GET", sets), what="the role is without it")
    (pod,) = applied.world.deployment("web")
    assert requests_of(pod) == ASKED
    assert applied.metric('ullage_webhook_owner_lookups_total{result="failed"}') >= 1


def _patched(pod: Any) -> Any:
    return pod if requests_of(pod) == GIVEN else None


def _labelled(pod: Any) -> Any:
    return pod if "theirs" in pod["metadata"]["labels"] else None


def _safely(make: Any) -> Any:
    try:
        return make()
    except ValueError:
        return None
