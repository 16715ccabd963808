"""Evictions and resizes where the API server refuses, or somebody protects pods, with its controllers and our real source.

Little goes, and it is said why.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agents import cli
from agents.run.pipeline import stages
from agents.run.stage_runner import Runner
from agents.settings.all_settings import Settings
from agents.settings.loading import load
from schemas.catalogue import Event
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.sources import SourceReported
from schemas.facts.update_facts import (
    NAMESPACE,
    SERVICE_ACCOUNT,
    ObjectMetadataChanged,
    ReplicaControllerChanged,
    ReplicaControllerRemoved,
    ResourceQuotaChanged,
)
from schemas.names import Amounts, Workload
from schemas.outcomes import ActionFinished, Result
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.limit_ranges import LimitRangeChanged
from schemas.policies.vertical import UpdateMode, VerticalPolicyChanged
from schemas.units import Bytes, Cores, Fraction
from streams.clients.kube.cluster_client import KubernetesClient
from streams.codec.event_codec import Codec
from streams.consumers.evictor import evictor
from streams.consumers.resizer import resizer
from streams.log.file_log import FileLog
from streams.log_context import LogContext
from tests.controlplane.api_requests import Refused, wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.watched_namespace import PARTITIONS, WatchedScene, uid_of
from tests.controlplane.world import World
from tests.support import ticks

CLUSTER, MIB, LEASE, REPLICAS, JOB = "real", 1 << 20, "hook", 4, "web-by-hand"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
SET = {
    "updates.warm_up": "0",
    "updates.min_replicas": "1",
    "updates.eviction_tolerance": "1",
    "updates.unchanged_pause": "0",
    "updates.protected_labels": "ServiceAccount:tier=critical",
    "topics.partitions": str(PARTITIONS),
}


LOW, HIGH = Amounts(Cores(0.01), Bytes(8 * MIB)), Amounts(Cores(0.05), Bytes(32 * MIB))


class Updating:
    """Source, updater and consumers in one process, on a log in a file, with event time of its own that runs ahead."""

    def __init__(self, scene: WatchedScene, world: World, client: KubernetesClient, kind: str) -> None:
        self.workload = Workload(CLUSTER, world.namespace, kind, "web")
        self.world, self.scene = world, scene
        assert isinstance(scene.log, FileLog)
        self.path = scene.log.path
        self.advice = ContainerRecommendation("app", LOW, HIGH, HIGH, HIGH)
        self.topics, self.codec, self.now = self.scene.topics, Codec(self.scene.topics), datetime.now(UTC)
        context = LogContext(self.scene.log, self.topics, self.codec, CLUSTER)
        settings: Settings = load(flags=SET).settings
        self.stages = Runner([each for each in stages(settings) if each.name == "updater"], context)
        own = LogContext(self.scene.log, self.topics, Codec(self.topics), CLUSTER)
        self.consumers = (evictor(own, client), resizer(own, client))
        self.mode(UpdateMode.RECREATE)
        self._publish(ControlChanged(self.now, CLUSTER, Mode.APPLY, budget=Fraction(0.25)), "control")

    def mode(self, mode: UpdateMode) -> None:
        self._publish(VerticalPolicyChanged(self.now, f"{CLUSTER}/*", "1", mode), "rules")

    def _publish(self, event: Event, topic: str) -> None:
        self.scene.log.append(self.codec.encode_for_all(event, topic=topic, key=CLUSTER, source="/test"))

    def minute(self) -> None:
        """A minute passes for the stage, and for the cluster what its controllers and the source take."""
        self.now += timedelta(minutes=1)
        number = int(self.now.timestamp() * 1000)
        decision = f"recommender/0/{number}/requests/{self.workload.key}"
        event = RequestsRecommended(decision, self.now, self.workload, (self.advice,), {})
        self._publish(event, "recommendations-by-cluster")
        # The source reports each half minute of real time, in which many of these minutes may pass.
        for report in [each for each in self.scene.events("cluster-changes") if isinstance(each, SourceReported)][-1:]:
            self._publish(replace(report, at=self.now), "cluster-changes")
        self._tick()
        wait_for(self._settled, what="the controller has done what it can, and the log knows")

    def _tick(self) -> None:
        ticks.append(self.scene.log, self.scene.topics, int(self.now.timestamp() * 1000))
        self.stages.run()
        for consumer in self.consumers:
            consumer.poll_once()

    def until_the_kubelet_has(self, done: Callable[[], bool]) -> bool:
        """Twenty seconds pass at most, for cluster and stage alike: a resize takes some, and its plan holds for minutes."""
        seconds = 20
        while seconds and not done():
            seconds -= 1
            self.now += timedelta(seconds=1)
            self._tick()
            time.sleep(0.25)
        return done()

    def _settled(self) -> bool:
        """The log knows exactly the pods that are there, and of each that is missing that it was refused."""
        facts = self.scene.events("pod-changes-by-cluster")
        newest = {event.pod.uid: isinstance(event, PodChanged) for event in facts if isinstance(event, PodChanged | PodDeleted)}
        seen = {uid for uid, exists in newest.items() if exists} == {uid_of(pod) for pod in self.world.pods("web")}
        refusals = [event.refusal for event in facts if isinstance(event, ReplicaControllerChanged)]
        return seen and (self.there() == REPLICAS or bool(refusals and refusals[-1]))

    def minutes(self, count: int) -> None:
        for _ in range(count):
            self.minute()

    def evictions(self) -> int:
        return sum(isinstance(event, EvictionPlanned) for event in self.scene.events("pod-updates"))

    def reason(self, guard: str) -> str:
        found = [e.reason for e in self.scene.events("pod-updates") if isinstance(e, UpdateRefused) and e.guard == guard]
        return found[-1] if found else ""

    def why_not(self, capsys: pytest.CaptureFixture[str]) -> str:
        """What `ullage why-not` says of the workload."""
        where = ["log.kind=file", f"log.path={self.path}", f"topics.partitions={PARTITIONS}", f"cluster.name={CLUSTER}"]
        flags = [word for text in (*where, *(f"{name}={value}" for name, value in SET.items())) for word in ("--set", text)]
        capsys.readouterr()
        assert cli.run(["why-not", f"{self.world.namespace}/web", *flags]) == 0
        return capsys.readouterr().out

    def there(self) -> int:
        return len([pod for pod in self.world.pods("web") if pod["metadata"].get("deletionTimestamp") is None])


def deployment(world: World) -> None:
    # the plane runs without the admission that names this account in each pod that names none
    world.deployment("web", replicas=REPLICAS, spec={"serviceAccountName": "default"})


def job_of_a_suspended_cron_job(world: World) -> None:
    """As `kubectl create job --from` makes it; one failed pod ends it."""
    container = {"name": "app", "image": "x", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    pod = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod}
    spec = {"parallelism": REPLICAS, "completions": REPLICAS, "backoffLimit": 0, "template": template}
    cron = {"schedule": "0 3 * * *", "suspend": True, "jobTemplate": {"spec": spec}}
    made = world.ask.post(f"{_batch(world)}/cronjobs", {"metadata": {"name": "web"}, "spec": cron})
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "web", "uid": made["metadata"]["uid"], "controller": True}
    world.ask.post(f"{_batch(world)}/jobs", {"metadata": {"name": JOB, "ownerReferences": [owner]}, "spec": spec})
    world.running("web", REPLICAS)


def _batch(world: World) -> str:
    return f"/apis/batch/v1/namespaces/{world.namespace}"


@pytest.fixture
def updating(
    request: pytest.FixtureRequest, plane: Plane, world: World, client: KubernetesClient, tmp_path: Path
) -> Iterator[Updating]:
    kind, make = getattr(request, "param", ("Deployment", deployment))
    scene = WatchedScene(plane, world, FileLog.open_or_create(tmp_path / "log.jsonl"))
    made = Updating(scene, world, client, kind)
    path = f"/apis/coordination.k8s.io/v1/namespaces/{world.namespace}/leases"
    renewed = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    world.ask.post(path, {"metadata": {"name": LEASE}, "spec": {"renewTime": renewed}})
    stop = threading.Event()

    def renew() -> None:
        while not stop.wait(10.0):
            at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            world.ask.patch(f"{path}/{LEASE}", {"spec": {"renewTime": at}})

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    make(world)
    with made.scene.watching(lease=LEASE):
        yield made
    stop.set()
    thread.join(60.0)


@contextmanager
def no_new_pods(world: World, unless: str = "false") -> Iterator[None]:
    """A ValidatingAdmissionPolicy of others refuses each new pod of the namespace, unless this expression is true of it."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    with _refusing(world, rule, {"expression": unless, "message": "no new pods here"}):
        wait_for(lambda: _is_refused(world), what="the policy is in force")
        yield


@contextmanager
def no_resizes(world: World, pod: str) -> Iterator[None]:
    """Such a policy refuses each resize."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods/resize"]}
    with _refusing(world, rule, {"expression": "false", "message": "no resizes here"}):
        wait_for(lambda: not _may_resize(world, pod), what="the policy is in force")
        yield


@contextmanager
def _refusing(world: World, rule: dict[str, Any], validation: dict[str, str]) -> Iterator[None]:
    name = f"none-{world.namespace}"
    where = {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}
    spec: dict[str, Any] = {"matchConstraints": {"resourceRules": [rule], "namespaceSelector": where}}
    spec["validations"] = [validation]
    world.ask.post(POLICIES, {"metadata": {"name": name}, "spec": spec})
    binding = {"policyName": name, "validationActions": ["Deny"]}
    world.ask.post(BINDINGS, {"metadata": {"name": name}, "spec": binding})
    try:
        yield
    finally:
        world.ask.delete(f"{BINDINGS}/{name}")
        world.ask.delete(f"{POLICIES}/{name}")


def _is_refused(world: World) -> bool:
    pod = {
        "metadata": {"generateName": "probe-"},
        "spec": {"containers": [{"name": "app", "image": "none", "resources": {"requests": {"cpu": "250m"}}}]},
    }
    try:
        world.ask.post(f"{world.path('pods')}?dryRun=All", pod)
    except Refused:
        return True
    return False


def _may_resize(world: World, pod: str) -> bool:
    patch = {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "90m"}}}]}}
    try:
        world.ask.patch(f"{world.path('pods', pod)}/resize?dryRun=All", patch)
    except Refused:
        return False
    return True


def test_where_a_policy_refuses_new_pods_one_goes_and_it_goes_on_without_the_policy(updating: Updating) -> None:
    with no_new_pods(updating.world):
        updating.minutes(15)
        assert (updating.evictions(), updating.there()) == (1, 3)
        assert "no new pods here" in updating.reason("successor")

    def more() -> bool:
        updating.minute()
        return updating.evictions() > 1

    wait_for(more, timeout=90.0, what="the ReplicaSet has tried again, and the next pod goes")


def test_where_a_quota_would_refuse_the_successor_nobody_goes(updating: Updating) -> None:
    """It was made, or shrunk, when the pods were there."""
    world = updating.world
    world.ask.post(world.path("resourcequotas"), {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "3"}}})
    wait_for(
        lambda: world.ask.get(world.path("resourcequotas", "q")).get("status", {}).get("used"), what="the quota counts the pods"
    )
    facts = lambda: updating.scene.events("pod-changes-by-cluster")  # noqa: E731
    wait_for(lambda: any(isinstance(fact, ResourceQuotaChanged) for fact in facts()), what="the log knows the quota")
    updating.minutes(8)
    assert (updating.evictions(), updating.there()) == (0, 4)
    assert "ResourceQuota 'q' allows" in updating.reason("quota")
    world.ask.patch(world.path("resourcequotas", "q"), {"spec": {"hard": {"pods": "5"}}})

    def more() -> bool:
        updating.minute()
        return updating.evictions() > 0

    wait_for(more, timeout=60.0, what="with a larger quota pods go")


def test_where_no_node_takes_the_successor_one_goes(updating: Updating) -> None:
    world = updating.world
    nodes = [node["metadata"]["name"] for node in world.ask.get("/api/v1/nodes")["items"]]
    for node in nodes:
        world.ask.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    try:
        updating.minutes(12)
        assert updating.evictions() == 1
        assert "1 is without a node that takes it" in updating.reason("successor")
    finally:
        for node in nodes:
            world.ask.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}})


@pytest.mark.parametrize("updating", [("CronJob", job_of_a_suspended_cron_job)], indirect=True)
def test_a_job_that_one_more_failed_pod_ends_keeps_its_pods(updating: Updating) -> None:
    job = f"{_batch(updating.world)}/jobs/{JOB}"
    status = lambda: updating.world.ask.get(job)["status"]  # noqa: E731
    updating.minutes(8)
    assert (updating.evictions(), updating.there(), status().get("failed")) == (0, REPLICAS, None)
    assert f"Job '{JOB}' would fail: an evicted pod counts as failed, 0 have failed" in updating.reason("successor")
    updating.world.ask.patch(job, {"spec": {"backoffLimit": 1}})

    def counted() -> bool:
        if not updating.evictions():
            updating.minute()
        return bool(status().get("failed") == 1)

    wait_for(counted, timeout=60.0, what="one pod goes, and its Job counts it as failed")
    assert not [each for each in status().get("conditions", ()) if each["type"] == "Failed"]
    updating.world.ask.patch(job, {"spec": {"suspend": True}})
    facts = lambda: updating.scene.events("pod-changes-by-cluster")  # noqa: E731
    wait_for(lambda: any(isinstance(fact, ReplicaControllerRemoved) for fact in facts()), what="suspended, it wants no pods")


@pytest.mark.parametrize(
    ("kind", "mark", "says"),
    [
        (NAMESPACE, {"annotations": {"ullage/protected": "true"}}, "is protected by its annotation 'ullage/protected=true'"),
        (SERVICE_ACCOUNT, {"labels": {"tier": "critical"}}, "ServiceAccount 'default' is protected by its label 'tier=critical'"),
    ],
)
def test_pods_stay_while_their_namespace_or_service_account_protects_them(
    updating: Updating, kind: str, mark: dict[str, dict[str, str]], says: str
) -> None:
    """The source watches this namespace alone, so of namespaces it asks for the one by its name."""
    world = updating.world
    path = f"/api/v1/namespaces/{world.namespace}" if kind == NAMESPACE else world.path("serviceaccounts", "default")
    wait_for(lambda: world.ask.find(path), what="the controllers have made the account")
    world.ask.patch(path, {"metadata": mark})

    def known() -> bool:
        facts = [event for event in updating.scene.events("pod-changes-by-cluster") if isinstance(event, ObjectMetadataChanged)]
        return any((fact.kind == kind and "tier" in fact.labels) or "ullage/protected" in fact.annotations for fact in facts)

    wait_for(known, what="the log knows of the mark")
    updating.minutes(5)
    assert (updating.evictions(), updating.there()) == (0, 4)
    assert says in updating.reason("protected")
    world.ask.patch(path, {"metadata": {where: dict.fromkeys(names) for where, names in mark.items()}})

    def more() -> bool:
        updating.minute()
        return updating.evictions() > 0

    wait_for(more, timeout=60.0, what="without the mark pods go")


def test_a_resize_that_is_refused_is_tried_less_and_less_often_and_why_not_says_what_to_change(
    updating: Updating, capsys: pytest.CaptureFixture[str]
) -> None:
    updating.mode(UpdateMode.IN_PLACE)
    # more than the pods have: what they have too much of waits for its cool-down
    more = Amounts(Cores(0.3), Bytes(128 * MIB))
    updating.advice = ContainerRecommendation("app", Amounts(Cores(0.2), Bytes(100 * MIB)), more, more, more)

    def results(result: Result) -> int:
        outcomes = updating.scene.events("outcomes")
        return sum(isinstance(each, ActionFinished) and each.result is result for each in outcomes)

    with no_resizes(updating.world, updating.world.pods("web")[0]["metadata"]["name"]):
        updating.minutes(15)
        tried = sum(isinstance(event, ResizePlanned) for event in updating.scene.events("pod-updates"))
        assert (results(Result.DONE), results(Result.FAILED)) == (0, tried)
        assert 4 <= tried <= 4 * 5, "with pauses that grow: 2, 3, 5 and 9 minutes"
        said = updating.why_not(capsys)
        assert "guard 'refused' says: the pod's last" in said
        assert "no resizes here" in said
        assert "change what the answer names" in said

    def done() -> bool:
        updating.minute()
        return updating.until_the_kubelet_has(lambda: results(Result.DONE) == REPLICAS)

    wait_for(done, timeout=120.0, what="without the policy all pods are resized")


def with_a_wide_limit(world: World) -> None:
    amounts = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}}
    world.deployment("web", {"app": amounts}, replicas=REPLICAS, spec={"serviceAccountName": "default"})


@pytest.mark.parametrize("updating", [("Deployment", with_a_wide_limit)], indirect=True)
def test_no_pod_is_evicted_into_a_limit_range_below_what_it_needs_and_why_not_says_what_to_change(
    updating: Updating, capsys: pytest.CaptureFixture[str]
) -> None:
    """The LimitRange came after the pods: 512 MiB are their limit, 400 MiB are needed, and 256 MiB are what it leaves."""
    world, needed = updating.world, Amounts(Cores(0.05), Bytes(400 * MIB))
    updating.advice = ContainerRecommendation("app", Amounts(Cores(0.01), Bytes(300 * MIB)), needed, needed, needed)
    limits = {"limits": [{"type": "Container", "max": {"memory": "256Mi"}}]}
    world.ask.post(world.path("limitranges"), {"metadata": {"name": "small"}, "spec": limits})
    bounds = lambda: [each for each in updating.scene.events("policies", 0) if isinstance(each, LimitRangeChanged)]  # noqa: E731
    wait_for(bounds, what="the log knows the LimitRange")
    updating.minutes(6)
    assert (updating.evictions(), updating.there()) == (0, REPLICAS)
    said = updating.why_not(capsys)
    assert "guard 'starving' says: the memory limit of container 'app' would fall from 512.0 MiB to 256.0 MiB" in said
    assert "raise that bound, or use a mode that resizes in place" in said
    world.ask.patch(world.path("limitranges", "small"), {"spec": {"limits": [{"type": "Container", "max": {"memory": "4Gi"}}]}})
    wait_for(lambda: len(bounds()) > 1, what="the log knows that it has grown")

    def more() -> bool:
        updating.minute()
        return updating.evictions() > 0

    wait_for(more, timeout=60.0, what="with a larger LimitRange pods go")
