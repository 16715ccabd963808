"""A simulated cluster with node groups in the closed loop: the real sources, the stage `scaler` and the real consumer, in memory.

    fleet = Fleet([SimulatedNodeGroup("pool", "m5.xlarge")], [deployment("web", 3)])
    fleet.run(minutes=10)
    assert fleet.cloud.desired == {"pool": 1}

Time is the cluster's own. `kill_at` lets the process of sources and consumer end at a call, and another one takes its place.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from agents.processes import simulated_cluster
from agents.run.pipeline import stages
from agents.run.simulate import SimulatedRound, SimulatedWorld, TickGrid, simulate
from agents.settings import loading
from schemas import times
from schemas.catalogue import Event
from schemas.names import Amounts
from schemas.policies.control import ControlChanged, Mode
from schemas.units import Bytes, Cores, Fraction
from streams.consumers.nodes.expander_consumer import BestOptions, expander_consumer
from streams.consumers.nodes.node_removal import NodeWorld
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.publishing.operator_log import OperatorLog
from streams.simulated.cluster import SimulatedCluster
from streams.simulated.cluster_spec import ContainerTemplate, SimulatedDeployment, SimulatedNodeGroup
from streams.simulated.simulated_aws import SimulatedAws
from streams.topics import TOPICS, Topics

CLUSTER = "fleet"
START = datetime(2026, 1, 5, 8, tzinfo=UTC)
STEP = 5
E = TypeVar("E")


def deployment(name: str, replicas: int, cpu: float = 0.95, gib: float = 1.0, **more: Any) -> SimulatedDeployment:
    """Pods that ask for so much and use nothing."""
    asked = Amounts(Cores(cpu), Bytes(int(gib * (1 << 30))))
    return SimulatedDeployment("shop", name, replicas, (ContainerTemplate("app", None, asked),), **more)


class Fleet:
    """One cluster, one stage, one process of sources and consumer."""

    def __init__(
        self,
        groups: Sequence[SimulatedNodeGroup],
        deployments: Sequence[SimulatedDeployment] = (),
        settings: Mapping[str, object] | None = None,
        *,
        step: int = STEP,
        wrap: Callable[[Any], Any] = lambda target: target,
        expander: BestOptions | None = None,
    ) -> None:
        """`wrap` puts something around each client, to let it fail or die. A consumer asks `expander`, if there is one."""
        self.topics, self.log = Topics(partitions=1), MemoryLog()
        for topic in TOPICS:
            self.log.create(self.topics.wire(topic.name), 1)
        self.context = LogContext.of(self.log, self.topics, CLUSTER)
        self.wrap = wrap
        OperatorLog(self.context).publish(ControlChanged(START, CLUSTER, Mode.APPLY, budget=Fraction(1.0)))
        self.cluster = SimulatedCluster(
            name=CLUSTER, seed=1, nodes=(), deployments=deployments, start=START, groups=groups, step=step
        )
        self.cloud: SimulatedAws = self.cluster.cloud
        self.deaths = 0
        self.died: type[BaseException] = KeyboardInterrupt
        self.restart()
        given = {"topics.partitions": 1, **(settings or {})}
        chosen = loading.load(flags={name: str(value) for name, value in given.items()}).settings
        self.pipeline = [stage for stage in stages(chosen) if stage.name == "scaler"]
        asks = () if expander is None else (expander_consumer(self.context, expander).poll_once,)
        world = SimulatedWorld(self._advance, (self._act, *asks))
        self.rounds = simulate(self.context, self.pipeline, world, TickGrid(times.to_ms(START), step * 1000))

    def restart(self) -> None:
        """Another process of sources and consumer, which knows only what the log and the world tell."""
        real = simulated_cluster.node_world(self.cluster)
        world = NodeWorld(self.wrap(real.aws), self.wrap(real.nodes), real.buffers, real.now)
        self.groups = simulated_cluster.open_node_groups(self.cluster, lambda: self.context, world=world)

    def _advance(self, at: datetime) -> None:
        self.cluster.advance(at)
        self._try(lambda: self.groups.publish(at))

    def _act(self) -> None:
        self._try(self.groups.act)

    def _try(self, work: Callable[[], object]) -> None:
        try:
            work()
        except self.died:
            self.deaths += 1
            self.restart()

    def run(self, *, minutes: float = 0.0, until: Callable[[], bool] = lambda: False) -> SimulatedRound:
        """Let time pass."""
        end: datetime | None = None
        while True:
            taken = next(self.rounds)
            end = end or taken.at + timedelta(minutes=minutes)
            if taken.at >= end or until():
                return taken

    def events(self, kind: type[E], topic: str) -> list[E]:
        """All events of a kind in a topic."""
        wire = self.topics.wire(topic)
        found: list[E] = []
        offset = self.log.begin(wire, 0)
        while records := self.log.poll({(wire, 0): offset}):
            offset = records[-1].offset + 1
            decoded: list[Event | None] = [self.context.codec.decode_or_none(record) for record in records]
            found += [event for event in decoded if isinstance(event, kind)]
        return found

    @property
    def waiting(self) -> int:
        """Pods without a node."""
        return sum(pod.node is None for pod in self.cluster.pods_by_name.values())

    @property
    def marked(self) -> list[str]:
        """Nodes with a taint, a mark or a cordon, whose machines are not on their way out."""
        leaving = {one.node for one in self.cloud.leaving}
        return [node.name for node in self.cluster.nodes if (node.taints or node.unschedulable) and node.name not in leaving]
