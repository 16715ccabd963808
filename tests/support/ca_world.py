"""A small world for whole decisions: groups that boot nodes, pods that are evicted, and deletions that take their time.

It behaves as the one that upstream's vectors were made in (golden/ca/README.md, 'runonce'), on a clock of seconds.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from agents.logic.nodes.autoscaler import decision_steps
from agents.logic.nodes.autoscaler.cluster_state_registry import SeenInstance
from agents.logic.nodes.autoscaler.group_backoff import ScaleUpFailure
from agents.logic.nodes.autoscaler.node_autoscaler import NodeAutoscaler, NodeAutoscalerSettings
from agents.logic.nodes.autoscaler.node_decision_values import NodeDecisionInputs, NodeDecisions
from agents.logic.nodes.aws.group_options import GroupOptions
from agents.logic.nodes.growth.expanders import ExpanderContext
from agents.logic.nodes.growth.node_estimator import GroupRow, GroupTemplate
from agents.logic.nodes.removal.drain_rules import DisruptionBudget, DisruptionBudgets, KnownControllers
from agents.logic.nodes.scheduling.node_columns import NodeRow
from agents.logic.nodes.scheduling.placement_rules import selector
from agents.logic.nodes.scheduling.pod_shapes import SchedulablePod, SchedulingNode, Taint, is_daemon, is_mirror
from schemas.well_known_labels import DELETION_CANDIDATE, HOSTNAME, TO_BE_DELETED
from tests.support import ca_vectors

Json = dict[str, Any]
LISTED_AGAIN = 120.0
"""Seconds for which the list of a group's instances is kept, unless the group grows."""
HOOK = "delay-deletion.cluster-autoscaler.kubernetes.io/"


@dataclass
class Machine:
    """A node of the world."""

    node: SchedulingNode
    group: str
    created: float
    ready: bool = True
    since: float | None = None
    draining: bool = False
    cordoned: bool = False
    soft: bool = False
    annotations: dict[str, str] = field(default_factory=dict)


@dataclass
class Company:
    """A group of the world. `instances`: name and, if its creation failed, True."""

    given: Json
    target: int
    instances: dict[str, bool] = field(default_factory=dict)
    made: int = 0
    options: GroupOptions = field(default_factory=GroupOptions)


@dataclass(frozen=True)
class Pace:
    """Seconds that the steps of a deletion take."""

    delay: float = 5.0
    batch: float = 0.0
    cordon: bool = True


class Scenario:
    """A vector's world and the autoscaler in it."""

    def __init__(self, inputs: Json, settings: NodeAutoscalerSettings, pace: Pace, options: dict[str, GroupOptions]) -> None:
        self.settings, self.pace = settings, pace
        self.auto = NodeAutoscaler(settings, 0.0)
        self.now = 0.0
        self.companies: dict[str, Company] = {}
        self.machines: dict[str, Machine] = {}
        self.pods: dict[str, tuple[SchedulablePod, str]] = {}
        self.controllers = inputs.get("controllers") or []
        self.pdbs = inputs.get("pdbs") or []
        self.refused: set[str] = set()
        self.calls: list[Json] = []
        self.evicted: list[Json] = []
        self.events: set[str] = set()
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._told: set[str] = set()
        self._listed: dict[str, dict[str, bool]] = {}
        self._asked = -1e9
        self._batches: dict[str, list[str]] = {}
        for given in inputs["groups"]:
            nodes = given.get("nodes") or []
            company = Company(given, len(nodes), options=options[given["name"]])
            self.companies[given["name"]] = company
            for one in nodes:
                company.instances[one["name"]] = False
                self._join(one["name"], given["name"], -one["age_s"], ready=one["ready"])
        for one in inputs.get("nodes_without_group") or []:
            self.machines[one["name"]] = Machine(ca_vectors.node(one), "", -one.get("age_s", 7200), one.get("ready", True))
        self.add(inputs["pods"])

    # The world's own doings

    def add(self, pods: list[Json]) -> None:
        for given in pods:
            body = {key: value for key, value in given.items() if key != "node_name"}
            self.pods[given["name"]] = (ca_vectors.pod(body, self.now), given.get("node_name", ""))

    def _join(self, name: str, group: str, created: float, *, ready: bool = True) -> None:
        template = ca_vectors.node(self.companies[group].given["template"])
        labels = tuple(sorted((*(pair for pair in template.labels if pair[0] != HOSTNAME), (HOSTNAME, name))))
        self.machines[name] = Machine(replace(template, name=name, labels=labels), group, created, ready)

    def _later(self, at: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (at, len(self._queue) + len(self.calls), action))

    def advance(self, until: float) -> None:
        """Let time pass, and what is under way happen."""
        while self._queue and self._queue[0][0] <= until:
            self.now, _order, action = heapq.heappop(self._queue)
            action()
        self.now = until

    def _call(self, call: str, group: str, *, failed: bool = False, **more: object) -> None:
        self.calls.append({"at_s": self.now, "call": call, "group": group, **({"failed": True} if failed else {}), **more})

    def _increase(self, group: str, delta: int) -> bool:
        company = self.companies[group]
        failed = "increase_fails" in company.given
        self._call("increase", group, failed=failed, delta=delta)
        if failed:
            return False
        company.target += delta
        for _one in range(delta):
            company.made += 1
            name = f"{group}-new-{company.made}"
            broken = company.given.get("out_of_capacity", False)
            company.instances[name] = broken
            if company.given["boot_s"] >= 0 and not broken:
                self._later(self.now + company.given["boot_s"], lambda name=name: self._boot(name, group))
        return True

    def _boot(self, name: str, group: str) -> None:
        if name in self.companies[group].instances:
            self._join(name, group, self.now)

    def _decrease(self, group: str, delta: int) -> None:
        company = self.companies[group]
        failed = company.target + delta < len(company.instances)
        self._call("decrease_target", group, failed=failed, delta=delta)
        if not failed:
            company.target += delta

    def _remove(self, group: str, names: list[str]) -> None:
        company = self.companies[group]
        self._call("delete", group, nodes=sorted(names))
        company.target -= len(names)
        self._listed.pop(group, None)
        for name in names:
            company.instances.pop(name, None)
            self._vanish(name)

    def _vanish(self, name: str) -> None:
        self.machines.pop(name, None)
        self.pods = {key: (pod, node) for key, (pod, node) in self.pods.items() if node != name}

    # A deletion: taint, wait, drain, wait for hooks, terminate

    def _start(self, name: str, *, draining: bool) -> None:
        machine = self.machines[name]
        machine.since, machine.draining, machine.cordoned = self.now, draining, self.pace.cordon
        self.events.add(f"Node/{name} ScaleDown")
        begin = self._drain if draining else self._hooks
        self._later(self.now + self.pace.delay, lambda: begin(name))

    def _drain(self, name: str) -> None:
        left = [pod for pod, node in self.pods.values() if node == name and not is_mirror(pod.nature.annotations)]
        moving = [pod for pod in left if not is_daemon(pod.nature)]
        for pod in left:
            self._tell(f"Pod/{pod.name} ScaleDown")
            if pod.name not in self.refused:
                self.evicted.append({"at_s": self.now, "pod": pod.name})
                self._later(self.now + 2, lambda pod=pod: self.pods.pop(pod.name, None) and None)
        if any(pod.name in self.refused for pod in moving):
            self._later(self.now + 10, lambda: self._drain(name))
        else:
            self._later(self.now + 5, lambda: self._hooks(name))

    def _tell(self, event: str) -> None:
        """An event that is not repeated."""
        if event not in self._told:
            self._told.add(event)
            self.events.add(event)

    def _hooks(self, name: str) -> None:
        held = any(key.startswith(HOOK) for key in self.machines[name].annotations)
        if held:
            self._later(self.now + 120, lambda: self._terminate(name))
        else:
            self._terminate(name)

    def _terminate(self, name: str) -> None:
        group = self.machines[name].group
        waiting = self._batches.setdefault(group, [])
        waiting.append(name)
        if not self.pace.batch:
            self._flush(group)
        elif len(waiting) == 1:
            self._later(self.now + self.pace.batch, lambda: self._flush(group))

    def _flush(self, group: str) -> None:
        names, self._batches[group] = self._batches[group], []
        self.events |= {f"Node/{name} ScaleDown" for name in names}
        self._remove(group, names)

    # Decisions

    def _world(self) -> NodeDecisionInputs:
        on: dict[str, list[SchedulablePod]] = {}
        for pod, node in self.pods.values():
            on.setdefault(node, []).append(pod)
        nodes = [self._seen(row, one, on.get(name, [])) for row, (name, one) in enumerate(self.machines.items())]
        groups = [
            GroupRow(
                name,
                one.given["min"],
                one.given["max"],
                one.target,
                GroupTemplate(ca_vectors.node(one.given["template"])),
                one.options,
            )
            for name, one in self.companies.items()
        ]
        if self.now - self._asked >= LISTED_AGAIN:
            self._asked, self._listed = self.now, {}
        for group, company in self.companies.items():
            if group not in self._listed or group in self.auto.state.requests:
                self._listed[group] = dict(company.instances)
        instances = [
            SeenInstance(name, group, error=ScaleUpFailure("OutOfResources", "no-capacity") if broken else None)
            for group, listed in self._listed.items()
            for name, broken in listed.items()
            if name not in self.machines
        ]
        known = {(one["kind"], one.get("namespace", "default"), one["name"]): one.get("replicas") for one in self.controllers}
        budgets = [
            DisruptionBudget(one["name"], one.get("namespace", "default"), selector(one["selector"]), one["disruptions_allowed"])
            for one in self.pdbs
        ]
        waiting = on.get("", [])
        return NodeDecisionInputs(
            nodes, groups, waiting, instances, KnownControllers(known), DisruptionBudgets(budgets), ca_vectors.NAMESPACES
        )

    def _seen(self, row: int, one: Machine, pods: list[SchedulablePod]) -> NodeRow:
        taints = [Taint(TO_BE_DELETED, "", "NoSchedule")] * (one.since is not None) + [
            Taint(DELETION_CANDIDATE, "", "PreferNoSchedule")
        ] * one.soft
        node = replace(one.node, taints=(*one.node.taints, *taints), unschedulable=one.cordoned or one.node.unschedulable)
        return NodeRow(
            row,
            node,
            one.group,
            pods,
            one.created,
            ready=one.ready,
            deleting=one.since,
            draining=one.draining,
            soft_tainted=one.soft,
            annotations=one.annotations,
        )

    def decide(self) -> None:
        """One decision, carried out as far as it can be at once."""
        world = self._world()
        found = decision_steps.decide(self.auto, world, ExpanderContext(cluster_nodes=len(self.machines)), self.now)
        for group, delta in found.lower:
            self._decrease(group, delta)
        for group, names in found.remove:
            self._remove(group, list(names))
        failed = self._carry_growth(found)
        if not failed:
            self.events |= {f"Pod/{pod.name} TriggeredScaleUp" for pod in found.triggered}
            self.events |= {f"Pod/{pod.name} NotTriggerScaleUp" for pod in found.not_triggered}
        for one in found.delete.empty:
            self._start(one.node.name, draining=False)
        for one in found.delete.drain:
            self._start(one.node.name, draining=True)
        going = [one.node.group for one in (*found.delete.empty, *found.delete.drain)]
        if going:
            self.auto.started(going, self.now)
        for name in found.taint:
            self.machines[name].soft = True
        for name in found.untaint:
            self.machines[name].soft = False

    def _carry_growth(self, found: NodeDecisions) -> bool:
        for one in found.grow:
            if not self._increase(one.group, one.after - one.before):
                self.auto.failed_to_grow(one.group, ScaleUpFailure("Other", "cloudProviderError"), self.now)
                return True
            self.auto.grew(one.group, one.after - one.before, self.now)
        return False

    # Steps

    def step(self, step: Json) -> Json:
        """Apply a step of a vector; what is seen then, as the vectors write it."""
        self.advance(step["at_s"])
        self.refused = set(step["eviction_refused_for"]) if "eviction_refused_for" in step else self.refused
        self.add(step.get("add_pods", []))
        for name in step.get("delete_pods", ()):
            self.pods.pop(name)
        for name, ready in step.get("node_ready", {}).items():
            self.machines[name].ready = ready
        for name, annotations in step.get("annotate_nodes", {}).items():
            self.machines[name].annotations.update(annotations)
        for name in step.get("instances_vanish", ()):
            self.companies[self.machines[name].group].instances.pop(name)
            self._vanish(name)
        for name, node in step.get("bind", {}).items():
            self.pods[name] = (self.pods[name][0], node)
        if step.get("run_once"):
            self.decide()
            self.advance(self.now)
        return self._outcome()

    def _outcome(self) -> Json:
        found: Json = {"at_s": self.now, "targets": {name: one.target for name, one in self.companies.items()}}
        found["node_objects"] = len(self.machines)
        lists = {
            "calls": self.calls,
            "evicted": sorted(self.evicted, key=lambda one: (one["at_s"], one["pod"])),
            "events": sorted(self.events),
            "deletion_candidates": sorted(name for name, one in self.machines.items() if one.soft),
            "to_be_deleted": sorted(name for name, one in self.machines.items() if one.since is not None),
            "cordoned": sorted(name for name, one in self.machines.items() if one.cordoned),
        }
        self.calls, self.evicted, self.events = [], [], set()
        return {**found, **{key: value for key, value in lists.items() if value}}


def counted(outcome: Json) -> Json:
    """An outcome with counts in the place of names, and without events and the times of evictions."""
    found = {key: value for key, value in outcome.items() if key != "events"}
    for key in ("deletion_candidates", "to_be_deleted", "cordoned", "evicted"):
        if key in found:
            found[f"{key}_count"] = len(found.pop(key))
    for call in found.get("calls", []):
        if "nodes" in call:
            call["node_count"] = len(call.pop("nodes"))
    return found
