"""Whether a node has room for a pod: the stage's word, from what the kube source saw, against the real scheduler's.

The pods come one after the other and stay where the scheduler puts them. Each is first shown to the stage as one that waits,
whatever became of it; the stage must say that a node has room exactly where the scheduler took one.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from agents.logic.nodes.scaler import scaling_dry_run
from schemas.catalogue import Event
from schemas.facts.pods import PodPhase
from schemas.facts.scheduled_pods import PodPlacementChanged
from tests.controlplane.api_requests import wait_for
from tests.controlplane.plane import Plane
from tests.controlplane.watched_nodes import WatchedNodes
from tests.controlplane.world import World
from tests.support.node_scene import CLUSTER, ScalerRun, group

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
LATER = 600_000
"""Milliseconds by which the stage's clock is ahead, so that no pod is too young for it."""
LEAST = 8
"""Pods at least of each verdict, so that agreeing means something."""
Spec = dict[str, Any]


class Agreement(WatchedNodes):
    """Three nodes of a pool of their own, the last one tainted, and the stage beside the real scheduler."""

    def __init__(self, plane: Plane, world: World) -> None:
        super().__init__(plane, world)
        self.run, self.taken = ScalerRun(group("none", most=0)), 0
        self.run.now = int(datetime.now(UTC).timestamp() * 1000) + LATER
        self.verdicts: dict[str, bool] = {}
        self.made: list[str] = []
        self.nodes: list[str] = []
        for zone in ("a", "b", "c"):
            labels = {"pool": self.pool, ZONE: f"{self.pool}-{zone}", "generation": "5"}
            self.nodes += self.world.add_nodes(1, cpu="4", memory="8Gi", labels=labels)
        amounts = {"example.com/dongle": "1"}
        self.plane.ask.patch(f"/api/v1/nodes/{self.nodes[0]}/status", {"status": {"capacity": amounts, "allocatable": amounts}})
        taint = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
        self.plane.ask.patch(f"/api/v1/nodes/{self.nodes[2]}", {"spec": {"taints": [taint]}})

    @property
    def pool(self) -> str:
        return self.world.namespace

    def make(self, path: str, body: Mapping[str, Any]) -> None:
        """An object of the whole cluster, which goes at the end."""
        self.plane.ask.post(path, body)
        self.made.append(f"{path}/{body['metadata']['name']}")

    def close(self) -> None:
        for path in self.made:
            self.plane.ask.delete(path)

    def claim(self, name: str, volume: Spec | None, *, kind: str = "", mode: str = "ReadWriteOnce") -> None:
        """A claim; with a volume it is bound to that."""
        size = {"requests": {"storage": "1Gi"}}
        spec: Spec = {"accessModes": [mode], "resources": size, "storageClassName": kind}
        if volume is not None:
            spec["volumeName"] = f"{self.pool}-{name}"
            reference = {"kind": "PersistentVolumeClaim", "namespace": self.pool, "name": name}
            whole = {"capacity": {"storage": "1Gi"}, "accessModes": [mode], "hostPath": {"path": "/x"}, "storageClassName": kind}
            meta = {"name": f"{self.pool}-{name}", "labels": volume.pop("labels", {})}
            self.make("/api/v1/persistentvolumes", {"metadata": meta, "spec": {**whole, "claimRef": reference, **volume}})
        self.plane.ask.post(self.world.path("persistentvolumeclaims"), {"metadata": {"name": name}, "spec": spec})
        if volume is not None:
            self._becomes(name, "Bound")

    def _becomes(self, claim: str, phase: str) -> None:
        path = self.world.path("persistentvolumeclaims", claim)
        wait_for(lambda: self.plane.ask.get(path)["status"].get("phase") == phase, what=f"claim '{claim}' is {phase}")

    def lose(self, claim: str) -> None:
        """Its volume is gone, whoever took it."""
        path = f"/api/v1/persistentvolumes/{self.pool}-{claim}"
        self.plane.ask.delete(path)
        self.plane.ask.request("PATCH", path, {"metadata": {"finalizers": None}}, patch="merge")
        self.made.remove(path)
        self._becomes(claim, "Lost")

    def prepare_volumes(self) -> None:
        """Claims that are bound to volumes of zone a, one for a single pod, and one that waits for its first pod."""
        where = [{"key": ZONE, "operator": "In", "values": [f"{self.pool}-a"]}]
        self.claim("there", {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": where}]}}})
        self.claim("zoned", {"labels": {ZONE: f"{self.pool}-a"}})
        self.claim("alone", {}, mode="ReadWriteOncePod")
        self.claim("lost", {})
        self.lose("lost")
        waits = {"metadata": {"name": f"{self.pool}-local"}, "provisioner": "kubernetes.io/no-provisioner"}
        self.make("/apis/storage.k8s.io/v1/storageclasses", {**waits, "volumeBindingMode": "WaitForFirstConsumer"})
        self.claim("local", None, kind=f"{self.pool}-local")

    def on(self, number: int) -> Spec:
        """Only this node."""
        return {"nodeSelector": {"pool": self.pool, HOST: self.nodes[number]}}

    # One pod after the other

    def tries(self, name: str, spec: Mapping[str, Any] | None = None, *, labels: Mapping[str, str] | None = None) -> None:
        """A pod: what the scheduler makes of it, and what the stage would have said."""
        container = {"name": "app", "image": "x", "resources": {"requests": {"cpu": "50m", "memory": "16Mi"}}}
        whole = {
            "nodeSelector": {"pool": self.pool},
            "containers": [container],
            "terminationGracePeriodSeconds": 0,
            **(spec or {}),
        }
        self.plane.ask.post(self.world.path("pods"), {"metadata": {"name": name, "labels": dict(labels or {})}, "spec": whole})
        placed = wait_for(lambda: self._verdict(name), what=f"the scheduler's word about '{name}'") == "placed"
        said = self._said(name, placed=placed)
        if "HasRoom" in said and not placed:  # the scheduler may have looked before it knew of an object, and looks again then
            wait_for(lambda: self._verdict(name) == "placed", what=f"'{name}' is placed: the stage says {said}")
            placed = True
        assert ("HasRoom" in said) is placed, f"'{name}': the scheduler placed it: {placed}, the stage says {said}"
        self.verdicts[name] = placed

    def unseen(self, name: str, spec: Mapping[str, Any]) -> None:
        """A pod that no scheduler looks at, so that none says anything about it: the stage names it."""
        whole = {"containers": [{"name": "app", "image": "x"}], "terminationGracePeriodSeconds": 0, **spec}
        self.plane.ask.post(self.world.path("pods"), {"metadata": {"name": name}, "spec": whole})
        wait_for(lambda: self._facts(name), what=f"the source has told of '{name}'")
        self.run.step(*self._news())
        answer = scaling_dry_run.pod_waits(self.run.stage, CLUSTER, f"{self.pool}/{name}", self.run.now)
        assert answer is not None
        assert [one.code for one in answer[1]] == ["NotUnderstood"], f"'{name}': {answer[1]}"
        assert self._verdict(name) == ""

    def _said(self, name: str, *, placed: bool) -> list[str]:
        """The codes of why it waits, by the stage, to which it is shown as a pod that waits."""
        wait_for(lambda: self._told(name, placed=placed), what=f"the source has told of '{name}'")
        events = self._news()
        about = [one for one in events if isinstance(one, PodPlacementChanged) and one.pod.name == name]
        self.run.step(*(_waiting(one) if one in about else one for one in events))
        answer = scaling_dry_run.pod_waits(self.run.stage, CLUSTER, f"{self.pool}/{name}", self.run.now)
        self.run.step(about[-1])
        return ["not seen"] if answer is None else [one.code for one in answer[1]]

    def _verdict(self, name: str) -> str:
        pod = self.plane.ask.get(self.world.path("pods", name))
        if "nodeName" in pod["spec"]:
            return "placed"
        scheduled = [one for one in pod["status"].get("conditions", ()) if one["type"] == "PodScheduled"]
        return str(scheduled[0]["reason"]) if scheduled else ""

    def _told(self, name: str, *, placed: bool) -> bool:
        facts = self._facts(name)
        return bool(facts) and bool(facts[-1].node if placed else facts[-1].unschedulable)

    def _facts(self, name: str) -> list[PodPlacementChanged]:
        return [one for one in self._events(0) if isinstance(one, PodPlacementChanged) and one.pod.name == name]

    def _events(self, after: int) -> list[Event]:
        records = self.log.poll({(self.topics.wire("scheduling-changes"), 0): after}, limit=1_000_000)
        return [self.codec.decode(record) for record in records]

    def _news(self) -> list[Event]:
        events = self._events(self.taken)
        self.taken += len(events)
        return events


def _waiting(fact: PodPlacementChanged) -> PodPlacementChanged:
    """The same pod before anybody gave it a node; one that others hold back stays so."""
    reason = fact.unschedulable or "Unschedulable"
    return replace(fact, node=None, phase=PodPhase.PENDING, unschedulable=reason, nominated="")


def _asks(**amounts: str) -> list[Spec]:
    return [{"name": "app", "image": "x", "resources": {"requests": amounts}}]


def _port(protocol: str = "TCP", address: str = "") -> list[Spec]:
    port = {"containerPort": 80, "hostPort": 8080, "protocol": protocol, **({"hostIP": address} if address else {})}
    return [{"name": "app", "image": "x", "ports": [port]}]


def _required(*terms: Spec) -> Spec:
    needed = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": needed}}


def _between(kind: str, **term: Any) -> Spec:
    whole = {"topologyKey": ZONE, **term}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [whole]}}}


def _spread(app: str, **more: Any) -> Spec:
    selector = {"matchLabels": {"app": app}}
    one = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector, **more}
    return {"topologySpreadConstraints": [one]}


def _volume(claim: str) -> Spec:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}


def _nodes_and_amounts(scene: Agreement) -> None:
    """Resources, ports, taints, labels."""
    pool = scene.pool
    for name, more in {
        "heavy": {"overhead": {"podFixed": {"cpu": "3980m"}}},
        "there": {
            "scheduling": {"nodeSelector": {ZONE: f"{pool}-c"}, "tolerations": [{"key": "dedicated", "operator": "Exists"}]}
        },
        "nowhere": {"scheduling": {"nodeSelector": {ZONE: f"{pool}-z"}}},
    }.items():
        scene.make("/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": f"{pool}-{name}"}, "handler": "h", **more})
    scene.tries("plain")
    scene.tries("overhead", {"runtimeClassName": f"{pool}-heavy"})
    scene.tries("class-there", {"runtimeClassName": f"{pool}-there"})
    scene.tries("class-nowhere", {"runtimeClassName": f"{pool}-nowhere"})
    scene.tries("port-one-address", {**scene.on(0), "containers": _port(address="127.0.0.1")})
    scene.tries("port-all-addresses", {**scene.on(0), "containers": _port()})
    scene.tries("port-udp", {**scene.on(0), "containers": _port("UDP")})
    scene.tries("port-other-address", {**scene.on(0), "containers": _port(address="10.0.0.1")})
    scene.tries("large-init", {"initContainers": [{**_asks(cpu="5")[0], "name": "init"}]})
    sidecar = {**_asks(cpu="3")[0], "name": "side", "restartPolicy": "Always"}
    scene.tries("sidecar-and-container", {"initContainers": [sidecar], "containers": _asks(cpu="1500m")})
    scene.tries("pod-level", {**scene.on(0), "resources": {"requests": {"cpu": "3990m"}}})
    scene.tries("dongle", {"containers": [{"name": "app", "image": "x", "resources": {"limits": {"example.com/dongle": "1"}}}]})
    scene.tries(
        "no-dongle-left", {"containers": [{"name": "app", "image": "x", "resources": {"limits": {"example.com/dongle": "1"}}}]}
    )
    scene.tries("by-name", _required({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [scene.nodes[1]]}]}))
    for name, value in (("above", "4"), ("not-above", "5")):
        scene.tries(name, _required({"matchExpressions": [{"key": "generation", "operator": "Gt", "values": [value]}]}))
    for name, value in (("tolerates", "x"), ("tolerates-other", "y")):
        scene.tries(name, {**scene.on(2), "tolerations": [{"key": "dedicated", "operator": "Equal", "value": value}]})


def _other_pods(scene: Agreement) -> None:
    """Spread, affinity, anti-affinity, gates, priorities, claims on devices."""
    for number in range(3):
        scene.tries(f"spread-{number}", _spread("spread"), labels={"app": "spread"})
    for number in range(3):
        scene.tries(f"honour-{number}", _spread("honour", nodeTaintsPolicy="Honor"), labels={"app": "honour"})
    scene.tries("few-domains-0", _spread("few", minDomains=5, nodeTaintsPolicy="Honor"), labels={"app": "few"})
    scene.tries("few-domains-1", _spread("few", minDomains=5, nodeTaintsPolicy="Honor"), labels={"app": "few"})
    scene.tries("few-domains-2", _spread("few", minDomains=5, nodeTaintsPolicy="Honor"), labels={"app": "few"})
    for name, revision in (("keys-0", "1"), ("keys-1", "2"), ("keys-2", "2")):
        pinned = _spread("keys", matchLabelKeys=["revision"], nodeTaintsPolicy="Honor")
        scene.tries(name, {**pinned, **scene.on(0)}, labels={"app": "keys", "revision": revision})
    near = {"labelSelector": {"matchLabels": {"app": "keys"}}, "matchLabelKeys": ["revision"]}
    scene.tries("near-none", _between("podAffinity", **near), labels={"revision": "9"})
    scene.tries("near-one", _between("podAffinity", **near), labels={"revision": "1"})
    scene.tries("near-elsewhere", {**_between("podAffinity", **near), **scene.on(1)}, labels={"revision": "1"})
    apart = {"labelSelector": {"matchExpressions": [{"key": "tenant", "operator": "Exists"}]}, "mismatchLabelKeys": ["tenant"]}
    for name, tenant in (("tenant-0", "x"), ("tenant-1", "x"), ("tenant-2", "y")):
        scene.tries(name, {**_between("podAntiAffinity", **apart), **scene.on(1)}, labels={"tenant": tenant})
    scene.tries("gated", {"schedulingGates": [{"name": "example.com/later"}]})
    priority = {"metadata": {"name": f"{scene.pool}-never"}, "value": 1000, "preemptionPolicy": "Never"}
    scene.make("/apis/scheduling.k8s.io/v1/priorityclasses", priority)
    scene.tries("waits-for-its-turn", {"priorityClassName": f"{scene.pool}-never", "containers": _asks(cpu="3990m")})
    device = {"name": "gpu", "exactly": {"deviceClassName": "no-such-class"}}
    claims = f"/apis/resource.k8s.io/v1/namespaces/{scene.pool}/resourceclaims"
    scene.plane.ask.post(claims, {"metadata": {"name": "gpu"}, "spec": {"devices": {"requests": [device]}}})
    scene.tries("device-claim", {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]})
    scene.unseen("device-claim-missing", {"resourceClaims": [{"name": "gpu", "resourceClaimName": "nobody-made-it"}]})
    scene.unseen("scheduler-missing", {"schedulerName": "nobody-runs-it"})


def _volumes(scene: Agreement) -> None:
    """Claims, and nodes that are closed."""
    scene.tries("claim-missing", _volume("missing"))
    scene.tries("claim-elsewhere", {**_volume("there"), **scene.on(1)})
    scene.tries("claim-lost", _volume("lost"))
    scene.tries("claim-there", _volume("there"))
    scene.plane.ask.delete(scene.world.path("persistentvolumeclaims", "there"))  # it stays as long as a pod has it
    scene.tries("claim-that-goes", _volume("there"))
    scene.tries("zone-there", _volume("zoned"))
    scene.tries("zone-elsewhere", {**_volume("zoned"), **scene.on(1)})
    scene.tries("alone-first", _volume("alone"))
    scene.tries("alone-second", _volume("alone"))
    scene.tries("no-local-volume", _volume("local"))
    scene.plane.ask.patch(f"/api/v1/nodes/{scene.nodes[1]}", {"spec": {"unschedulable": True}})
    scene.tries("cordoned", scene.on(1))
    closed = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    scene.tries("cordon-tolerated", {**scene.on(1), "tolerations": [closed]})


def test_the_stage_says_that_a_node_has_room_where_the_scheduler_takes_one(plane: Plane, world: World) -> None:
    scene = Agreement(plane, world)
    try:
        with scene.watching():
            scene.prepare_volumes()
            _nodes_and_amounts(scene)
            _other_pods(scene)
            _volumes(scene)
    finally:
        scene.close()
    placed = sum(scene.verdicts.values())
    assert min(placed, len(scene.verdicts) - placed) >= LEAST
