"""Planned replicas without pods yet, as waiting pods, so that nodes are there when the pods come.

Such a pod is a copy of the newest kind of pod that the workload has; a workload without pods shows none to copy. A plan counts
until it expires: by then its pods exist, or will not be made; those that a quota refuses never count. The idea is upstream's
(enable-proactive-scaleup, processors/podinjection), which uses the replicas that controllers already want.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from operator import itemgetter
from typing import Self

from agents.engine.turn import Recorded
from agents.logic.nodes.cluster.placed_pods import PlacedPodIndex
from agents.logic.nodes.cluster.scaler_state import ScalerState
from agents.logic.nodes.cluster.scaler_table_values import PlannedReplicas
from agents.logic.nodes.scheduling.pod_shapes import PodNature, SchedulablePod
from agents.logic.resources import quota_admission
from agents.logic.resources.pod_resources import PodResources
from agents.logic.resources.quota_admission import QuotaPod
from agents.logic.resources.resource_lists import Container
from schemas import exact_quantity, times
from schemas.decisions.replica_plans import ReplicasPlanned, ReplicasRefused, ScalingMode
from schemas.facts.update_facts import ResourceQuotaChanged
from schemas.names import Place, Workload
from schemas.pod_requests import CPU

TOPIC = "replica-plans-by-cluster"
LONGEST = 3600.0
"""Seconds for which a plan counts at most, whatever it says itself."""


@dataclass(frozen=True, slots=True)
class PlannedPods:
    """Pods that do not exist yet, and where the plan stands that each follows from, by the pod's key."""

    pods: Sequence[SchedulablePod] = ()
    places: Mapping[str, Place] = field(default_factory=dict)


def ingest(state: ScalerState, recorded: Sequence[Recorded], now: float) -> None:
    """Keep the newest plan of each workload; one that says how many more there will be calls for a decision."""
    for record in recorded:
        match record.event:
            case ReplicasPlanned() as event if event.carried_out_by is not ScalingMode.PREVIEW:
                before, expires = state.planned.get(event.workload.key), times.to_seconds(event.expires)
                since = min(times.to_seconds(event.at), now)
                if event.upcoming is not None:
                    # Nodes are to be there until the pods that are forecast have had time to come.
                    expires += max((event.upcoming.by - event.at).total_seconds(), 0.0)
                planned = PlannedReplicas(_wanted(event), since, min(expires, now + LONGEST), record.place)
                state.planned.upsert(event.workload.key, planned)
                if planned.replicas > (event.current if before is None else before.replicas):
                    state.call(event.workload.cluster, now)
            # Of a preview, or after a refusal, nobody carries out what was planned before.
            case ReplicasPlanned() | ReplicasRefused() as event:
                state.planned.remove(event.workload.key)
            case _:
                pass


def _wanted(plan: ReplicasPlanned) -> int:
    """The number of replicas that the plan leads to."""
    later = 0 if plan.upcoming is None else plan.upcoming.replicas
    # The HPA goes there step by step, as its rates allow, and nodes take minutes.
    if plan.carried_out_by is ScalingMode.HPA and plan.stabilized is not None:
        later = max(later, plan.stabilized)
    return max(plan.replicas, min(later, plan.most))


def expire(state: ScalerState, now: float) -> None:
    """Forget plans that have run out."""
    for key, plan in list(state.planned.items()):
        if now > plan.expires:
            state.planned.remove(key)


def pods(
    state: ScalerState, cluster: str, most: int, successors: Mapping[PodNature, PodNature], quotas: "QuotaRoom"
) -> PlannedPods:
    """The pods that are missing, `most` at most, and no more than quotas let come, with what their `successors` ask for."""
    planned = {key: plan for key, plan in state.planned.items() if key.startswith(f"{cluster}/")}
    if not planned:
        return PlannedPods()
    index = state.ready_index()
    missing = []
    for key, shapes in shapes_of(state, planned).items():
        lacking = planned[key].replicas - sum(index.staying(shape) for shape in shapes)
        if shapes and lacking > 0:
            missing.append((lacking, key, newest(index, shapes)))
    planned_pods: list[SchedulablePod] = []
    places: dict[str, Place] = {}
    # Those that miss the fewest first, so that one workload cannot take the room of all others.
    for lacking, key, shape in sorted(missing):
        nature, workload = new_nature(index, shape), Workload.parse(key)
        lacking, _ = quotas.allowed(workload.namespace, successors.get(nature, nature), lacking)  # noqa: PLW2901  # the same, bounded
        mine = [
            SchedulablePod(f"{workload.name} (planned {number + 1})", nature, "Pending", planned[key].since)
            for number in range(min(lacking, most - len(planned_pods)))
        ]
        places.update({pod.key: planned[key].place for pod in mine})
        planned_pods += mine
    return PlannedPods(planned_pods, places)


def shapes_of(state: ScalerState, workloads: Collection[str]) -> dict[str, list[str]]:
    """For each of these workloads the shapes of its pods: those of itself, and of what it controls, such as ReplicaSets."""
    controllers = {key: [key] for key in workloads}
    for key, fact in state.controllers.items():
        if fact.owner is not None:
            controllers.get(f"{fact.cluster}/{fact.namespace}/{fact.owner.kind}/{fact.owner.name}", []).append(key)
    index = state.ready_index()
    return {key: [shape for controller in mine for shape in index.shapes_of(controller)] for key, mine in controllers.items()}


def newest(index: PlacedPodIndex, shapes: Sequence[str]) -> str:
    """The shape that a workload's next pod has."""
    return max(shapes, key=partial(_newness, index))


def _newness(index: PlacedPodIndex, shape: str) -> tuple[bool, datetime, str]:
    """By which shapes of one workload are ordered: one with pods that stay is newer than one whose pods all go."""
    return index.staying(shape) > 0, index.shape(shape).at, shape


def new_nature(index: PlacedPodIndex, shape: str) -> PodNature:
    """The nature of a new pod of a shape."""
    nature = index.nature(shape)
    if not any(volume.own for volume in nature.shape.volumes):
        return nature
    # A volume that each pod has of its own is not made yet, so that it can be anywhere.
    volumes = tuple(replace(volume, terms=()) if volume.own else volume for volume in nature.shape.volumes)
    return replace(nature, shape=replace(nature.shape, volumes=volumes))


_UNIT, _MILLI = 10**9, 10**6


@dataclass(slots=True)
class QuotaRoom:
    """What the quotas of a cluster, by namespace, leave to pods that nobody made yet.

    `reserved` are the amounts of those that came first, by quota, in billionths. No node is started or kept for a pod that a
    quota refuses (kubernetes-sigs/cluster-autoscaler#71). They share what a quota has left, and use none of it up: a real pod
    comes before them. Source: resourcequotas.go in capacitybuffer/controller, which leaves out the number of pods.
    """

    quotas: Mapping[str, Sequence[ResourceQuotaChanged]] = field(default_factory=dict)
    reserved: dict[str, dict[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, state: ScalerState, cluster: str) -> Self:
        """The quotas of a cluster, in the order of their names."""
        by_namespace: dict[str, list[ResourceQuotaChanged]] = {}
        for _, quota in sorted(state.quotas.items(), key=itemgetter(0)):
            if quota.cluster == cluster:
                by_namespace.setdefault(quota.namespace, []).append(quota)
        return cls(by_namespace)

    def allowed(self, namespace: str, nature: PodNature, wanted: int) -> tuple[int, str]:
        """How many of so many pods may come, and the sentence of the quotas that let no more come; empty if all may."""
        pod, counting = _quota_pod(nature), []
        number, full = wanted, []
        for quota in self.quotas.get(namespace, ()):
            most = quota_admission.most_pods(quota, pod, self.reserved.get(quota.key, {}))
            if most is not None:
                counting.append(quota)
                number = min(number, most)
            if most is not None and most < wanted:
                full.append(f"'{quota.name}'")
        used = quota_admission.usage(pod.resources)
        for quota in counting:
            mine = self.reserved.setdefault(quota.key, {})
            mine.update({name: mine.get(name, 0) + number * amount for name, amount in used.items()})
        return number, f"room for {number} of {wanted}, by ResourceQuota {', '.join(full)}" if full else ""


def _quota_pod(nature: PodNature) -> QuotaPod:
    """A pod that nobody made yet."""
    requests = {
        name: exact_quantity.of_nano(amount * (_MILLI if name == CPU else _UNIT))
        for name, amount in nature.shape.requests
        if amount
    }
    between = nature.shape.affinity or nature.shape.anti_affinity
    return QuotaPod(
        PodResources((Container("app", requests),)),
        # Of its class only the priority is known: with none, or zero, it counts as a pod without class.
        priority_class=None if nature.priority else "",
        terminating=False,
        crosses=None if between else False,
    )
