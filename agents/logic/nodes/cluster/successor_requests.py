"""What the successor of a pod will request: the webhook gives a new pod what is recommended for its workload.

A removal that is simulated with the requests of the pods that go may fill nodes on which their successors find no place, and
growth for pods that are to come may be too small. A pod that requests as a whole is taken as it is, and what an EHPA or a
LimitRange keeps of a recommendation is not looked at.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from agents.engine.tables.chunked_state import StatePart
from agents.engine.tables.object_table import ObjectTable
from agents.engine.turn import Recorded
from agents.logic.governing_policies import Policies
from agents.logic.nodes.scheduling.pod_shapes import PodNature
from schemas.decisions.recommendations import RequestsRecommended
from schemas.facts.scheduled_pods import PodShapeSeen
from schemas.facts.update_facts import ReplicaControllerChanged
from schemas.names import Amounts
from schemas.pod_requests import CPU, MEMORY
from schemas.policies.vertical import UpdateMode
from schemas.units import millicores

TOPIC = "recommendations-by-cluster"


@dataclass(frozen=True, slots=True)
class RecommendedTargets:
    """The recommended amounts of a workload's containers, by name: CPU in thousandths of a core, memory in bytes."""

    containers: Mapping[str, Mapping[str, int]]


class SuccessorRequests:
    """The recommendations in force, and the policies that say whether new pods get them. `owns`: whether a cluster is ours."""

    def __init__(self, recommender: str, owns: Callable[[str], bool]) -> None:
        self.policies = Policies(recommender, lambda vpa: owns(vpa.cluster))
        self.recommended: ObjectTable[RecommendedTargets] = ObjectTable("recommended", RecommendedTargets, 64)
        """By the workload's key."""

    def tables(self) -> tuple[StatePart, ...]:
        """All tables."""
        return (*self.policies.tables(), self.recommended)

    def ingest(self, policies: Iterable[Recorded], recommendations: Iterable[Recorded]) -> None:
        """Take in a turn's records."""
        for recorded in policies:
            self.policies.take(recorded)
        for recorded in recommendations:
            event = recorded.event
            if isinstance(event, RequestsRecommended):
                self._recommend(event)

    def _recommend(self, event: RequestsRecommended) -> None:
        targets = {container.container: _amounts(container.target) for container in event.containers}
        if targets:
            self.recommended.upsert(event.workload.key, RecommendedTargets(targets))
        else:
            self.recommended.remove(event.workload.key)

    def of(
        self, cluster: str, natures: Iterable[tuple[PodNature, PodShapeSeen]], controllers: ObjectTable[ReplicaControllerChanged]
    ) -> dict[PodNature, PodNature]:
        """The natures of successors, by the natures of those pods that will differ from theirs."""
        if not len(self.recommended):
            return {}
        successors = {nature: self._successor(nature, fact, _workload(controllers, cluster, fact)) for nature, fact in natures}
        return {nature: successor for nature, successor in successors.items() if successor is not None}

    def _successor(self, nature: PodNature, fact: PodShapeSeen, workload: str) -> PodNature | None:
        targets = self.recommended.get(workload) if workload else None
        held = None if targets is None else self.policies.of(workload)
        if targets is None or held is None or not held.policy.patch_new_pods or held.policy.update_mode is UpdateMode.OFF:
            return None
        changes: dict[str, int] = {}
        for container, requests in fact.containers.items():
            for resource, amount in targets.containers.get(container, {}).items():
                # The webhook replaces an amount that a container requests, and adds none.
                if resource in requests:
                    changes[resource] = changes.get(resource, 0) + amount - requests[resource]
        wanted = {
            # Its init containers and its overhead ask for no less.
            name: max(amount + changes[name], fact.starting.get(name, 0)) if name in changes else amount
            for name, amount in nature.shape.requests
        }
        requested = tuple(sorted((name, amount) for name, amount in wanted.items() if amount))
        return None if requested == nature.shape.requests else replace(nature, shape=replace(nature.shape, requests=requested))


def _amounts(target: Amounts) -> dict[str, int]:
    cpu = {} if target.cpu is None else {CPU: millicores(target.cpu)}
    return cpu if target.memory is None else {**cpu, MEMORY: math.ceil(target.memory)}


def _workload(controllers: ObjectTable[ReplicaControllerChanged], cluster: str, fact: PodShapeSeen) -> str:
    """The key of the workload that pods of a shape belong to: their controller, or the one that controls it."""
    owner = fact.owner
    if owner is None:
        return ""
    controller = controllers.get(f"{cluster}/{fact.namespace}/{owner.kind}/{owner.name}")
    top = owner if controller is None or controller.owner is None else controller.owner
    return f"{cluster}/{fact.namespace}/{top.kind}/{top.name}"
