"""`python -m tests.bench.node_scaling`: the decisions about nodes alone, without a log, on the workloads of upstream's figures.

Beside each number stands upstream's (Cluster Autoscaler at 33c3f97, 2 shared cores). The steady state is the whole stage: facts
in, decisions out. CPU time of this process, the least of several runs; memory as Python and numpy allocate it. In `make bench`.
"""

import gc
import sys
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from agents.engine.turn import Recorded, Turn
from agents.logic.nodes.autoscaler import decision_steps
from agents.logic.nodes.autoscaler.node_autoscaler import NodeAutoscaler, NodeAutoscalerSettings, ScaleDownDelays
from agents.logic.nodes.autoscaler.node_decision_values import NodeDecisionInputs
from agents.logic.nodes.aws.group_options import GroupOptions
from agents.logic.nodes.growth import node_estimator, pending_pods
from agents.logic.nodes.growth.expanders import ExpanderContext
from agents.logic.nodes.growth.node_estimator import EstimatorLimits, GroupRow, GroupTemplate, PodGroup
from agents.logic.nodes.growth.pending_pods import PendingSettings
from agents.logic.nodes.growth.scale_up import ClusterLimits, ScaleUpSettings
from agents.logic.nodes.removal.drain_rules import DeletionParallelism, DisruptionBudgets, KnownControllers
from agents.logic.nodes.removal.unneeded_nodes import ScaleDownSettings
from agents.logic.nodes.scaler.scaler_stage import Scaler
from agents.logic.nodes.scaler_settings import ScalerSettings
from agents.logic.nodes.scheduling.node_columns import NodeRow
from agents.logic.nodes.scheduling.pod_shapes import PodNature, PodShape, SchedulablePod, SchedulingNode
from agents.logic.nodes.scheduling.scheduled_cluster import ScheduledCluster
from agents.run import python_gc
from schemas.catalogue import Event
from schemas.facts.sources import SourceReported
from schemas.names import Place
from schemas.well_known_labels import SAFE_TO_EVICT
from tests.support.cluster_events import START, when
from tests.support.node_scene import CLUSTER, controller, group, instance, node, pod, shape, topic

Put = Callable[[str, float, str, str], None]
SMALL = {"cpu": 10_000, "memory": 10_000, "pods": 100}


def timed(work: Callable[[], object]) -> float:
    """CPU seconds of one run."""
    gc.collect()
    begun = time.process_time()
    work()
    return time.process_time() - begun


def least(make: Callable[[], Callable[[], object]], runs: int = 3) -> float:
    """CPU seconds of the quickest of several runs, each on what `make` prepared for it."""
    return min(timed(make()) for _ in range(runs))


def _pods(count: int, cpu: int, memory: int, **more: object) -> list[SchedulablePod]:
    nature = PodNature(PodShape(requests=(("cpu", cpu), ("memory", memory))), **more)  # type: ignore[arg-type]  # of a nature
    return [SchedulablePod(f"p{number}", nature, "Pending") for number in range(count)]


def _world(nodes: list[NodeRow], groups: list[GroupRow], waiting: list[SchedulablePod]) -> NodeDecisionInputs:
    return NodeDecisionInputs(nodes, groups, waiting, [], KnownControllers({}), DisruptionBudgets([]))


def scale_up(nodes: int) -> Callable[[], object]:
    """One decision for 50 pods for each of so many nodes, from nothing."""
    settings = NodeAutoscalerSettings(scale_up=ScaleUpSettings(limits=ClusterLimits(at_once=10_000), several=True))
    template = GroupTemplate(SchedulingNode("t", allocatable=SMALL, capacity=SMALL))
    world = _world([], [GroupRow("a", 0, 10_000, 0, template)], _pods(50 * nodes, 200, 200))
    auto = NodeAutoscaler(settings, 0.0)

    def run() -> None:
        [grown] = decision_steps.decide(auto, world, ExpanderContext(), 100.0).grow
        assert grown.after == nodes

    return run


def scale_down(nodes: int) -> Callable[[], object]:
    """One decision on so many nodes of which 40 % carry the pods of all."""
    options = GroupOptions(unneeded=-1.0)
    down = ScaleDownSettings(parallelism=DeletionParallelism(nodes, nodes), default=options)
    settings = NodeAutoscalerSettings(scale_down=down, delays=ScaleDownDelays(0.0, 0.0, 0.0), soft_taints=0)
    nature = PodNature(PodShape(requests=(("cpu", 100), ("memory", 100))), annotations={SAFE_TO_EVICT: "true"})
    seen = [
        NodeRow(
            number,
            SchedulingNode(f"n{number}", allocatable=SMALL, capacity=SMALL),
            "a",
            [SchedulablePod(f"p{number}-{each}", nature) for each in range(40)],
            created=-7200.0,
        )
        for number in range(nodes)
    ]
    template = GroupTemplate(SchedulingNode("t", allocatable=SMALL, capacity=SMALL))
    auto = NodeAutoscaler(settings, 0.0)

    def run() -> None:
        world = _world(seen, [GroupRow("a", 0, nodes, nodes, template, options)], [])
        found = decision_steps.decide(auto, world, ExpanderContext(), 100.0).delete
        assert len(found.empty) + len(found.drain) == nodes * 6 // 10

    return run


def scale_down_of_sizes(nodes: int, sizes: int = 300) -> Callable[[], object]:
    """The same with pods of so many sizes, of which the nodes are 40 % full."""
    options = GroupOptions(unneeded=-1.0)
    down = ScaleDownSettings(parallelism=DeletionParallelism(nodes, nodes), default=options)
    settings = NodeAutoscalerSettings(scale_down=down, delays=ScaleDownDelays(0.0, 0.0, 0.0), soft_taints=0)
    random = np.random.default_rng(1)
    natures = [
        PodNature(PodShape(requests=(("cpu", 100 + number), ("memory", 120 + number))), annotations={SAFE_TO_EVICT: "true"})
        for number in range(sizes)
    ]
    seen = []
    for number in range(nodes):
        kinds = np.sort(random.integers(0, sizes, 16)).tolist()
        pods = [SchedulablePod(f"p{number}-{place}", natures[kind]) for place, kind in enumerate(kinds)]
        seen.append(NodeRow(number, SchedulingNode(f"n{number}", allocatable=SMALL, capacity=SMALL), "a", pods, created=-7200.0))
    template = GroupTemplate(SchedulingNode("t", allocatable=SMALL, capacity=SMALL))
    auto = NodeAutoscaler(settings, 0.0)

    def run() -> None:
        world = _world(seen, [GroupRow("a", 0, nodes, nodes, template, options)], [])
        found = decision_steps.decide(auto, world, ExpanderContext(), 100.0).delete
        assert len(found.empty) + len(found.drain) >= nodes * 0.4

    return run


def scale_up_of_shapes(pods: int = 50_000, shapes: int = 5_000) -> Callable[[], object]:
    """One decision for so many pods of so many shapes."""
    settings = NodeAutoscalerSettings(scale_up=ScaleUpSettings(limits=ClusterLimits(at_once=10_000), several=True))
    natures = [
        PodNature(PodShape(labels=(("app", f"a{n}"),), requests=(("cpu", 100 + n % 300), ("memory", 120)))) for n in range(shapes)
    ]
    waiting = [SchedulablePod(f"p{number}", natures[number % shapes], "Pending") for number in range(pods)]
    template = GroupTemplate(SchedulingNode("t", allocatable=SMALL, capacity=SMALL))
    auto = NodeAutoscaler(settings, 0.0)
    world = _world([], [GroupRow("a", 0, 10_000, 0, template)], waiting)

    def run() -> None:
        [grown] = decision_steps.decide(auto, world, ExpanderContext(), 100.0).grow
        assert grown.after > pods * 250 // SMALL["cpu"] * 0.9

    return run


def estimate() -> Callable[[], object]:
    """51,000 pods of two sizes."""
    size = {"cpu": 1000, "memory": 5000 << 20, "pods": 100}

    def run() -> None:
        cluster = ScheduledCluster()
        cluster.add(SchedulingNode("other", allocatable={"cpu": 100, "memory": 100, "pods": 10}))
        pods = [PodGroup(PodShape(requests=(("cpu", c), ("memory", m))), n) for c, m, n in ((50, 100, 50_000), (95, 190, 1000))]
        template = GroupTemplate(SchedulingNode("t", allocatable=size, capacity=size))
        found = node_estimator.estimate(cluster, template, pods, EstimatorLimits((3000,)))
        assert (found.nodes, sum(found.placed)) == (2595, 51_000)

    return run


def filter_out(nodes: int, count: int, cpu: int) -> Callable[[], object]:
    """Placing pending pods on nodes that are there."""
    waiting = _pods(count, cpu, 1)

    def run() -> None:
        cluster = ScheduledCluster()
        size = {"cpu": 64_000, "memory": 1 << 40, "pods": 1000}
        cluster.add_all([SchedulingNode(f"n{number}", allocatable=size, capacity=size) for number in range(nodes)])
        found = pending_pods.place(cluster, waiting, PendingSettings())
        assert len(found.left) == (count if cpu > size["cpu"] else 0)

    return run


class SteadyCluster:
    """A stage that knows a cluster in full: so many nodes, 30 pods of 300 shapes on each."""

    def __init__(self, nodes: int, pods: int, *, sized: bool = False) -> None:
        self.stage = Scaler(ScalerSettings(), 0, lambda _cluster: True)
        self.now, self.pods, self.nodes, self.sized = START, pods, nodes, sized
        self.random = np.random.default_rng(1)

    def turn(self, *events: Event) -> int:
        """A turn with these facts; how many decisions came."""
        self.now += 500
        inputs: dict[str, list[Recorded]] = {}
        for number, event in enumerate(events):
            name = topic(event).replace("_", "-")
            inputs.setdefault(name, []).append(Recorded(event, Place(f"ullage.{name}.v1", 0, self.now + number)))
        return len(self.stage.step(Turn(self.now, inputs)))

    def fill(self) -> None:
        """Let it know everything."""
        self.turn(group("a", 0, self.nodes * 2, self.nodes))
        for begin in range(0, self.nodes, 1000):
            names = [f"n{number}" for number in range(begin, min(begin + 1000, self.nodes))]
            self.turn(*(instance(name) for name in names), *(node(name) for name in names))
        more = range(300) if self.sized else [0] * 300
        shapes = [shape(f"s{n}", cpu=100 + more[n] // 2, memory=(1 << 28) + (more[n] << 20)) for n in range(300)]
        self.turn(*shapes, *(controller(f"s{n}") for n in range(300)))
        for begin in range(0, self.pods, 10_000):
            self.turn(*(self.pod(number) for number in range(begin, begin + 10_000)))

    def pod(self, number: int) -> Event:
        """A pod on some node."""
        return pod(f"p{number}", f"s{number % 300}", f"n{int(self.random.integers(self.nodes))}")

    def vouch(self) -> None:
        """From now on it decides."""
        for source, sees in (("kube", "scheduling-changes"), ("asg", "node-group-changes")):
            self.turn(SourceReported(when(self.now), CLUSTER, source, (sees,), 1e9))  # type: ignore[arg-type]  # a unit

    def changed(self) -> list[Event]:
        """A hundred pods that moved."""
        return [self.pod(int(number)) for number in self.random.integers(0, self.pods, 100)]


def steady(put: Put, nodes: int = 5000, pods: int = 150_000) -> None:
    """Turns in which a hundred pods changed, of a cluster in which nothing is to be done; memory and bytes."""
    tracemalloc.start()
    cluster = SteadyCluster(nodes, pods)
    cluster.fill()
    gc.collect()
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    label = f"nodes: {nodes:,} nodes, {pods:,} pods"
    put(f"{label}: memory a pod, nodes included", used / pods, "bytes", "<= 1,000 a pod and 5,000 a node")
    dumped = sum(len(cluster.stage.dump(chunk)) for chunk in cluster.stage.chunks())
    put(f"{label}: checkpoint bytes a pod, nodes included", dumped / pods, "bytes", "")
    cluster.vouch()
    for _ in range(40):
        cluster.turn(*cluster.changed())
    took = []
    for _ in range(60):
        events = cluster.changed()
        begun = time.process_time()
        cluster.turn(*events)
        took.append(1000 * (time.process_time() - begun))
    put(f"{label}: turn with 100 changed pods, median", float(np.median(took)), "ms", "<= 50")
    put(f"{label}: turn with 100 changed pods and the look at all nodes (each 10 s)", max(took), "ms", "")


def worst_turn(put: Put, nodes: int) -> None:
    """Every turn of thirteen minutes, four looks after the other, with pods of 300 sizes on nodes that are 40 % full.

    Nodes become unneeded, then go, and a tenth as many pods as there are nodes come at once and wait. The collector of garbage
    rests during a turn, as it does in a worker.
    """
    cluster = SteadyCluster(nodes, nodes * 9, sized=True)
    cluster.fill()
    cluster.vouch()
    took, planned = [], 0
    for number in range(80):
        cluster.now += 9_500
        events = cluster.changed()
        if number == 70:
            events += [pod(f"late{n}", f"s{n % 300}", created=cluster.now) for n in range(nodes // 10)]
        gc.collect()
        with python_gc.held():
            begun = time.process_time()
            planned += cluster.turn(*events)
            took.append(time.process_time() - begun)
    put(f"nodes: worst turn of {nodes:,} nodes with pods of 300 sizes", max(took), "s", "goal <= 0.5")


UPS = ((20, "0.068"), (100, "0.441"), (1000, "11.8; goal <= 1"), (5000, "did not finish; goal <= 5"))
DOWNS = ((100, "0.20"), (1000, "3.8"), (2000, "18.8; goal <= 1.5"), (5000, "127.7; goal <= 5"))


def measure(put: Put) -> None:
    """All rows."""
    for nodes, upstream in UPS:
        put(
            f"nodes: scale-up to {nodes:,} nodes for {50 * nodes:,} pods",
            least(lambda n=nodes: scale_up(n)),
            "s",
            f"upstream {upstream}",
        )
    for nodes, upstream in DOWNS:
        put(f"nodes: scale-down of {nodes:,} nodes", least(lambda n=nodes: scale_down(n)), "s", f"upstream {upstream}")
    for nodes, goal in ((2000, "goal <= 1.5"), (5000, "goal <= 5")):
        label = f"nodes: scale-down of {nodes:,} nodes with pods of 300 sizes"
        put(label, least(lambda n=nodes: scale_down_of_sizes(n)), "s", goal)
    put("nodes: scale-up for 50,000 pods of 5,000 shapes", least(scale_up_of_shapes), "s", "goal <= 1")
    put("nodes: estimate of 51,000 pods", least(estimate), "s", "upstream 3.7; goal <= 0.3")
    fits, none = "upstream 3.2; goal <= 0.3", "upstream 3.9; goal <= 0.4"
    put("nodes: 10,000 fitting pods on 5,000 nodes", least(lambda: filter_out(5000, 10_000, 100)), "s", fits)
    put("nodes: 1,000 pods that fit none of 5,000 nodes", least(lambda: filter_out(5000, 1000, 100_000)), "s", none)
    for nodes in (2000, 5000):
        worst_turn(put, nodes)
    steady(put)


if __name__ == "__main__":

    def show(name: str, value: float, unit: str, goal: str) -> None:
        sys.stdout.write(f"{name:<80} {value:>12,.3f} {unit:<6} {goal}\n")
        sys.stdout.flush()

    measure(show)
