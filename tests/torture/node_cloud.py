"""Groups in moto's AWS whose instances become nodes of a simulated cluster; it remembers what was done to them, and when."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any
from urllib.parse import parse_qsl

from schemas.facts.nodes import NodeTaint
from schemas.units import Bytes, Cores
from streams.simulated.cluster import SimulatedCluster
from streams.simulated.cluster_nodes import ClusterNodes
from streams.simulated.cluster_spec import SimulatedNode
from tests.support.aws_double import ZONES, AwsDouble

RAISE, END = "SetDesiredCapacity", "TerminateInstanceInAutoScalingGroup"
BOOT = 30
"""Seconds of event time from an instance's start until its node joins."""
GIB = 1 << 30
LOST = "lost"
"""The group whose instances become no nodes, but for those that were there in the beginning."""
DELETED = "deleted"
"""The group that is deleted. No pod tolerates the taint of its nodes, so none is lost with them."""
TAINT = NodeTaint("torture", DELETED, "NoSchedule")
SETTLES = 1.0
"""Seconds of real time for which an act may follow a switch that was not set when it was looked at."""


@dataclass(frozen=True, slots=True)
class AwsAct:
    """A call that AWS carried out: `at` in real time, what the group wanted before it, and its arguments."""

    at: float
    action: str
    wanted: int
    arguments: dict[str, str]
    held: str = ""
    """Why the instance that ends should not have been touched: its group's process, or its own state."""


class RecordingAws(AwsDouble):
    """Moto, with every change that it carried out."""

    def __init__(self) -> None:
        super().__init__()
        self.acts: list[AwsAct] = []
        self.ahead: Callable[[], timedelta] = timedelta
        """How far the clock of the run is ahead of ours; AWS dates its activities by it."""
        inner: Any = self._moto
        self._moto: Any = lambda environ, start: self._recorded(inner, environ, start)

    def _recorded(self, inner: Any, environ: dict[str, Any], start: Any) -> list[bytes]:
        body: BytesIO = environ["wsgi.input"]
        arguments = dict(parse_qsl(body.getvalue().decode(), keep_blank_values=True))
        action = arguments.pop("Action", "")
        if action not in (RAISE, END):
            return list(inner(environ, start))
        before, held = self._wanted(arguments), self._held(arguments.get("InstanceId", ""))
        answer = list(inner(environ, start))
        self.acts.append(AwsAct(time.time(), action, before, arguments, held))
        return answer

    def _held(self, instance: str) -> str:
        if time.monotonic() - self.switched < SETTLES:
            return ""
        for name in self.names:
            group = self._group(name)
            states = [one.lifecycle_state for one in group.instance_states if one.instance.id == instance]
            if states and "Terminate" in [one["ProcessName"] for one in group.suspended_processes]:
                return "its group's process 'Terminate' is suspended"
            if states and states != ["InService"]:
                return f"it is {states[0]}"
        return ""

    def throttle(self, times: int) -> None:
        """AWS refuses so many of the next calls of each kind that reads or changes groups."""
        for action in ("DescribeAutoScalingGroups", RAISE, END):
            self.refuse(action, "Throttling", "Rate exceeded", times=times)

    def _wanted(self, arguments: dict[str, str]) -> int:
        if name := arguments.get("AutoScalingGroupName"):
            return self.desired(name)
        groups = [name for name in self.names if arguments["InstanceId"] in self.instances(name)]
        return self.desired(groups[0]) if groups else -1

    def fail(self, group: str, message: str, *, ago: timedelta = timedelta(), details: str = "") -> str:
        """A scaling activity that failed, at the time of the run."""
        return super().fail(group, message, ago=ago - self.ahead(), details=details)

    names: tuple[str, ...] = ()
    """The groups of the scene."""
    switched = 0.0
    """The monotonic time at which somebody last set a switch of a group."""
    deleted: tuple[str, ...] = ()
    """The instances that AWS ended with their group."""

    def look(self) -> dict[str, list[str]]:
        """The instances of each group at this moment, without its warm pool."""
        with self._lock:
            return {name: self._states(name, lambda state: not state.startswith("Warmed")) for name in self.names}

    def in_service(self, group: str) -> list[str]:
        """The instances of a group that are neither put aside nor kept warm."""
        with self._lock:
            return self._states(group, lambda state: state == "InService")

    def _states(self, group: str, takes: Callable[[str], bool]) -> list[str]:
        return [one.instance.id for one in self._group(group).instance_states if takes(one.lifecycle_state)]

    def delete(self) -> None:
        """The group that is being deleted is gone, with its instances."""
        self.deleted = tuple(self.look()[DELETED])
        self.names = tuple(name for name in self.names if name != DELETED)
        self.sdk("autoscaling").delete_auto_scaling_group(AutoScalingGroupName=DELETED, ForceDelete=True)


@dataclass
class MotoCloud:
    """Stands in a simulated cluster for its cloud: a node joins for each instance, and leaves when its instance is gone."""

    aws: RecordingAws
    nodes: ClusterNodes
    cores: float = 4.0
    joined: dict[str, str] = field(default_factory=dict)
    """The node of each instance, for ever."""
    ended: list[str] = field(default_factory=list)
    """Instances that are gone, in order."""
    _since: dict[str, int] = field(default_factory=dict)

    def begin(self, now: int) -> None:
        """All that is there has joined."""
        for group, instances in self.aws.look().items():
            for one in instances:
                self._since[one] = now - BOOT
                self._join(group, one, now)

    def advance(self, now: int) -> list[str]:
        """Let nodes join and leave; the names of those that left."""
        there = self.aws.look()
        for group, instances in there.items():
            for one in instances:
                if now >= self._since.setdefault(one, now) + BOOT and one not in self.joined and group != LOST:
                    self._join(group, one, now)
        present = {one for instances in there.values() for one in instances}
        gone = [one for one in self._since if one not in present and one not in self.ended]
        self.ended += gone
        left = [self.joined[one] for one in gone if one in self.joined]
        for name in left:
            self.nodes.leave(name)
        return left

    def _join(self, group: str, instance: str, now: int) -> None:
        name = f"{group}-{instance}"
        self.joined[instance] = name
        self.nodes.join(
            SimulatedNode(
                name,
                Cores(self.cores),
                Bytes(16 * GIB),
                labels={"group": group, "topology.kubernetes.io/zone": ZONES[0]},
                taints=(TAINT,) if group == DELETED else (),
                provider_id=f"aws:///{ZONES[0]}/{instance}",
            ),
            datetime.fromtimestamp(now, UTC),
        )


class NodeCluster(SimulatedCluster):
    """A simulated cluster on such a cloud. `lost` are pods that were on a node when it left.

    `least_ready`: by deployment the fewest pods that were ready at once, from when its budget was first met.
    """

    def __init__(self, aws: RecordingAws, **more: Any) -> None:
        super().__init__(nodes=(), **more)
        self.cloud = MotoCloud(aws, self.nodes)  # type: ignore[assignment]  # as far as a cluster needs one
        self.lost: list[str] = []
        self.least_ready: dict[str, int] = {}

    def advance(self, to: datetime) -> None:
        super().advance(to)
        with self.lock:
            for one in self.deployments:
                ready = sum(pod.ready for pod in self.pods_by_name.values() if pod.deployment is one)
                if ready >= one.keep or one.name in self.least_ready:  # a budget protects what has become ready once
                    self.least_ready[one.name] = min(ready, self.least_ready.get(one.name, ready))

    def _lose(self, pod: Any) -> None:
        if pod.node is not None and pod.node not in self.nodes:
            self.lost.append(f"{pod.name.namespace}/{pod.name.name} on {pod.node}")
        super()._lose(pod)

    def marked(self) -> Sequence[str]:
        """Nodes that are tainted or cordoned by somebody who takes them away."""
        with self.lock:
            keys = {"ToBeDeletedByClusterAutoscaler", "ullage.internal/removal"}
            return [
                node.name
                for node in self.nodes
                if node.unschedulable or keys & {taint["key"] for taint in node.taints} or keys & set(node.labels)
            ]
