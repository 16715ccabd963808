"""`python -m tests.bench.vertical`: the recommender alone, without a log, on the workloads of upstream's own figures.

Beside each number stands upstream's (VPA 1.8.1, 2 shared cores): the model's AddSample at 100 k containers, all recommendations,
putting VPAs and pods into the model, live heap a container. CPU time of this process; memory as Python and numpy allocate it.
"""

import gc
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from sys import intern

import numpy as np

from agents.logic.turns import Recorded, Turn
from agents.logic.vertical.recommendation import recommend
from agents.logic.vertical.recommender import Recommender
from agents.logic.vertical.settings import VerticalSettings
from schemas.facts import ContainerSeen, MetricsScraped, PodChanged, PodPhase
from schemas.names import Place, PodName, Workload
from schemas.policies import Operator, Requirement, TargetRef, VpaChanged

T0 = 1_767_225_600
ROWS = 1_000
MIB = 2.0**20


class World:
    """`count` containers, one to a pod; so many pods to a workload, each with a VPA."""

    def __init__(self, count: int, pods: int) -> None:
        self.count, self.pods = count, pods
        # nothing is said: upstream's figures are about folding and estimating alone
        self.stage = Recommender(replace(VerticalSettings(), interval=1e9, heartbeat=1e9), 0)
        self.workloads = [Workload("bench", f"ns{i % 100}", "Deployment", f"app{i}") for i in range(count // pods)]
        self.random = np.random.default_rng(1)

    def intake(self, *, vpas: bool = True) -> None:
        """All VPAs and all pods, in turns of a thousand workloads."""
        for turn, start in enumerate(range(0, len(self.workloads), ROWS)):
            part = self.workloads[start : start + ROWS]
            policies = list(map(_vpa, part)) if vpas else []
            inputs = {"policies": policies, "pod-changes": [self._pod(w, p) for w in part for p in range(self.pods)]}
            self.stage.step(Turn(T0 * 1000 + turn, inputs))

    def scrapes(self, ticks: int) -> Iterator[float]:
        """CPU seconds of each scrape of everything."""
        rows = [(w.key, f"{w.name}-{p}", "main") for w in self.workloads for p in range(self.pods)]
        columns = [tuple(zip(*rows[i : i + ROWS], strict=True)) for i in range(0, len(rows), ROWS)]
        names = [tuple(tuple(map(intern, column)) for column in part) for part in columns]  # as the codec gives them
        del rows, columns
        for tick in range(1, ticks + 1):
            turn = Turn((T0 + 60 * tick) * 1000, {"pod-metrics": [self._scrape(tick, *columns) for columns in names]})
            yield timed(lambda turn=turn: self.stage.step(turn))

    def recommend(self) -> None:
        """The sum for everything."""
        members = self.stage.members.speaking([w.key for w in self.workloads])
        recommend(self.stage.usage, self.stage.members, members, self.stage.settings)

    def dump(self) -> int:
        """Bytes of the whole state as a changelog holds it."""
        return sum(len(self.stage.dump(chunk)) for chunk in self.stage.chunks())

    def _scrape(self, tick: int, *columns: tuple[str, ...]) -> Recorded:
        n = len(columns[0])
        cores, memory = self.random.integers(0, 3000, n) / 1000, (self.random.integers(0, 3000, n) + 20) * MIB
        at = datetime.fromtimestamp(T0 + 60 * tick, UTC)
        return Recorded(MetricsScraped(at, "bench", *columns, cores, memory), Place("pod-metrics", 0, tick))

    def _pod(self, workload: Workload, number: int) -> Recorded:
        at = datetime.fromtimestamp(T0, UTC)
        name = PodName(workload.namespace, f"{workload.name}-{number}", f"{workload.name}-{number}")
        seen = (ContainerSeen("main"),)
        event = PodChanged(at, workload, name, PodPhase.RUNNING, at, seen, labels={"app": workload.name})
        return Recorded(event, Place("pod-changes", 0, 0))


def _vpa(workload: Workload) -> Recorded:
    at, selector = datetime.fromtimestamp(T0, UTC), (Requirement("app", Operator.IN, (workload.name,)),)
    target = TargetRef(workload.kind, workload.name)
    return Recorded(VpaChanged(at, "bench", workload.namespace, workload.name, at, target, selector), Place("policies", 0, 0))


def timed(work: Callable[[], object]) -> float:
    """CPU seconds of this process."""
    began = time.process_time()
    work()
    return time.process_time() - began


def report(count: int, pods: int, upstream: str) -> None:
    """Measure one world, times and memory apart, as watching memory costs time."""
    world = World(count, pods)
    intake = timed(world.intake)
    sample = min(world.scrapes(10)) / 2 / count
    best = min(timed(world.recommend) for _ in range(3))
    size = world.dump() / count
    del world
    held = memory(count, pods)
    sys.stdout.write(
        f"{count:,} containers, {pods} pods a VPA: intake {intake:.2f} s, {sample * 1e9:,.0f} ns a sample, "
        f"all recommendations {best * 1000:,.0f} ms, {held:,.0f} B in memory and {size:,.0f} B dumped a container | {upstream}\n"
    )


def memory(count: int, pods: int, *, vpas: bool = False) -> float:
    """Bytes a container, after intake and ten scrapes; without VPAs, as upstream's figure is, but with scrapes' name columns."""
    gc.collect()
    tracemalloc.start(1)
    world = World(count, pods)
    world.intake(vpas=vpas)
    list(world.scrapes(10))
    world.workloads.clear()
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return held / count


def main() -> None:
    """1 k, 10 k and 100 k containers."""
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    single = {
        1_000: "upstream 12 ms, 4,525 B",
        10_000: "upstream 154 ms, 4,500 B",
        100_000: "upstream 1,790 ms, 4,469 B, 1,064 ns",
    }
    tens = {
        1_000: "upstream 0.01 s, 495 ns, 0.4 ms",
        10_000: "upstream 0.85 s, 557 ns, 6.9 ms",
        100_000: "upstream 156 s, 1,064 ns, 106 ms",
    }
    for pods, figures in ((1, single), (10, tens)):
        for count, upstream in figures.items():
            if count <= most:
                report(count, pods, upstream)


if __name__ == "__main__":
    main()
