"""`python -m tests.bench.one_partition`: how far the one partition goes that carries all acts of a cluster.

Updater, conditions and node scaler are keyed by cluster, so in one cluster one partition carries them, however many workers there
are. `BusyCluster` is what that partition gets each minute: a hundredth of the workloads are recommended anew, a tenth of those
outside their bounds, a hundredth of the pods is replaced, and there are two ticks a second. Records go through the stages as in a
worker, decoded and encoded, from a log in memory. CPU time of this process. In `make bench`.
"""

import gc
import sys
import time
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from agents.run import python_gc
from agents.run.pipeline import stages
from agents.run.stage_runner import Runner
from agents.settings.all_settings import Settings
from schemas.catalogue import Event
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.facts.pods import ContainerSeen, PodChanged, PodPhase
from schemas.facts.sources import SourceReported
from schemas.names import Amounts, PodName, Workload
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vpa import Operator, Requirement, TargetRef, VpaChanged
from schemas.units import Bytes, Cores
from streams.log.log_port import NewRecord
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.topics import TOPICS, KeySpace, Topics
from tests.support import node_scene, ticks
from tests.support.cluster_events import GIB, MINUTE, START, when

Put = Callable[[str, float, str, str], None]
STAGES = ("updater", "conditions", "scaler")
PODS, REPLICAS, ON_A_NODE = 100_000, 10, 20
MINUTES = 5
TICK = 500
_EVERY = frozenset(topic.name for topic in TOPICS if topic.keyed is KeySpace.BROADCAST)


class BusyCluster:
    """A cluster of so many pods from a moment on: ten of a workload with a VPA each, twenty on a node; all from a seed."""

    def __init__(self, topics: Topics, pods: int, start: int = START) -> None:
        self.context, self.start = LogContext.of(MemoryLog(), topics), start
        self.pods, self.nodes, self.random = pods, pods // ON_A_NODE, np.random.default_rng(1)
        self.workloads = [
            Workload(node_scene.CLUSTER, f"ns-{number % 100}", "Deployment", f"w-{number}") for number in range(pods // REPLICAS)
        ]

    def begin(self) -> Iterator[NewRecord]:
        """All that there is, as it is known when a source has looked for the first time."""
        yield from self._records("control", [ControlChanged(when(self.start), node_scene.CLUSTER, Mode.APPLY)])
        yield from self._records("policies", map(self._vpa, range(len(self.workloads))))
        groups = [node_scene.group("a", 0, self.nodes * 2, self.nodes)]
        names = [f"n{number}" for number in range(self.nodes)]
        yield from self._records("node-group-changes", [*groups, *map(node_scene.instance, names)])
        shapes = [node_scene.shape(f"s{number}", cpu=100, memory=1 << 28) for number in range(300)]
        yield from self._records("scheduling-changes", [*map(node_scene.node, names), *shapes])
        yield from self._records("scheduling-changes", [node_scene.controller(f"s{number}") for number in range(300)])
        yield from self._pods_seen(range(self.pods), self.start)
        yield from self._recommended(range(len(self.workloads)), self.start, 1.0)
        yield from self._reports(self.start)

    def minute(self, at: int) -> Iterator[NewRecord]:
        """What changes in a minute: pods are replaced, and workloads recommended anew."""
        yield from self._reports(at)
        yield from self._pods_seen(map(int, self.random.integers(0, self.pods, self.pods // 100)), at)
        moved = [int(number) for number in self.random.integers(0, len(self.workloads), len(self.workloads) // 100)]
        outside = len(moved) // 10
        yield from self._recommended(moved[outside:], at, 1.0 + float(self.random.uniform(0, 0.01)))
        yield from self._recommended(moved[:outside], at, 1.5)

    def _reports(self, at: int) -> Iterator[NewRecord]:
        sees = (("kube", "scheduling-changes"), ("kube", "pod-changes-by-cluster"), ("asg", "node-group-changes"))
        reports = [SourceReported(when(at), node_scene.CLUSTER, source, (topic,), 1e9) for source, topic in sees]  # type: ignore[arg-type]  # a unit
        yield from self._records("cluster-changes", reports)

    def _vpa(self, number: int) -> VpaChanged:
        workload = self.workloads[number]
        ref, selector = TargetRef(workload.kind, workload.name, "apps/v1"), (Requirement("app", Operator.IN, (workload.name,)),)
        return VpaChanged(
            when(self.start), workload.cluster, workload.namespace, workload.name, when(self.start), ref, selector, generation=1
        )

    def _pods_seen(self, numbers: Iterable[int], at: int) -> Iterator[NewRecord]:
        seen = (ContainerSeen("app", Amounts(Cores(1.0), Bytes(GIB)), Amounts(Cores(2.0), Bytes(2 * GIB))),)
        for number in numbers:
            workload, node = self.workloads[number // REPLICAS], f"n{int(self.random.integers(self.nodes))}"
            name, running = f"{workload.name}-{number % REPLICAS}", PodPhase.RUNNING
            pod = PodName(workload.namespace, name, f"uid-{number}-{at}")
            labels, moment = {"app": workload.name}, when(at)
            yield from self._records(
                "pod-changes-by-cluster",
                [PodChanged(moment, workload, pod, running, moment, seen, labels=labels, started=moment)],
            )
            yield from self._records("scheduling-changes", [node_scene.pod(f"p{number}", f"s{number % 300}", node)])

    def _recommended(self, numbers: Iterable[int], at: int, cores: float) -> Iterator[NewRecord]:
        low, target, high = (Amounts(Cores(share * cores), Bytes(int(share * GIB))) for share in (0.8, 1.0, 1.3))
        containers = (ContainerRecommendation("app", low, target, high, target),)
        for number in numbers:
            workload = self.workloads[number]
            decision = f"recommender/0/{at}/requests/{workload.key}"
            yield from self._records(
                "recommendations-by-cluster", [RequestsRecommended(decision, when(at), workload, containers, {})]
            )

    def _records(self, topic: str, events: Iterable[Event]) -> Iterator[NewRecord]:
        codec, key, source = self.context.codec, node_scene.CLUSTER, "/ullage/source/bench"
        for event in events:
            if topic in _EVERY:
                yield from codec.encode_for_all(event, topic=topic, key=key, source=source)
            else:
                to = self.context.topics.partition_of(key)
                yield codec.encode(event, topic=topic, key=key, partition=to, source=source)


def measure(put: Put, pods: int = PODS) -> None:
    """What each stage, and all of them, take of a core, and what the dearest turn takes."""
    cluster = BusyCluster(Topics("bench", 1), pods)
    log = cluster.context.log
    assert isinstance(log, MemoryLog)
    for topic in (*TOPICS,):
        log.create(cluster.context.topics.wire(topic.name), 1)
    records = [list(cluster.begin()), *(list(cluster.minute(START + number * MINUTE)) for number in range(1, MINUTES + 2))]
    used, dearest, label = 0.0, 0.0, f"{pods:,} pods on {cluster.nodes:,} nodes, one partition"
    python_gc.relax()
    runners = {
        stage.name: Runner([stage], cluster.context)
        for stage in stages(Settings(topics={"partitions": 1}))  # type: ignore[arg-type]  # pydantic makes the part
        if stage.name in STAGES
    }
    taken = dict.fromkeys(runners, 0.0)
    for minute, appended in enumerate(records):
        log.append(appended)
        for number in range(START + minute * MINUTE + TICK, START + (minute + 1) * MINUTE + 1, TICK):
            ticks.append(log, cluster.context.topics, number)
        for name, runner in runners.items():
            took, longest = _taken(runner)
            if minute > 1:  # everything is known, and was looked at once
                taken[name] += took
                dearest = max(dearest, longest)
        gc.collect()
    for name, seconds in taken.items():
        put(f"{label}: {name}", 100 * seconds / (MINUTES * 60), "% of a core", "")
        used += seconds
    put(f"{label}: all three, times real time", MINUTES * 60 / used, "x", "")
    put(f"{label}: the dearest turn", dearest, "s", "")


def _taken(runner: Runner) -> tuple[float, float]:
    """CPU seconds of all turns that the log holds, and of the dearest of them."""
    longest, began = 0.0, time.process_time()
    while runner.read():
        turns = runner.turns()
        before = time.process_time()
        while next(turns, None) is not None:
            now = time.process_time()
            longest, before = max(longest, now - before), now
    return time.process_time() - began, longest


if __name__ == "__main__":

    def show(name: str, value: float, unit: str, goal: str) -> None:
        sys.stdout.write(f"{name:<80} {value:>12,.3f} {unit:<12} {goal}\n")
        sys.stdout.flush()

    measure(show)
