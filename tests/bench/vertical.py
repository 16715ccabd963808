"""`python -m tests.bench.vertical`: the recommender alone, without a log, on the workloads of upstream's own figures.

Beside each number stands upstream's (VPA 1.8.1, 2 shared cores): the model's AddSample, all recommendations, putting VPAs and
pods into the model, live heap a container. CPU time of this process; memory as Python and numpy allocate it. In `make bench`.
"""

import gc
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from math import inf
from sys import intern

import numpy as np

from agents.engine.turn import Decided, Recorded, Turn
from agents.logic.vertical.recommended_amounts import recommend
from agents.logic.vertical.recommender_stage import Recommender
from agents.logic.vertical.vertical_settings import NAME, VerticalSettings
from agents.run import python_gc
from schemas.facts.pods import ContainerSeen, PodChanged, PodPhase
from schemas.facts.usage import MetricsScraped
from schemas.names import Place, PodName, Workload
from schemas.policies.control import StageRulesChanged, rules_version
from schemas.policies.vpa import Operator, Requirement, TargetRef, VpaChanged
from streams.codec.event_codec import Codec
from streams.topics import Topics

T0 = 1_767_225_600
ROWS = 1_000
MIB = 2.0**20


class World:
    """`count` containers, one to a pod; so many pods to a workload, each with a VPA."""

    def __init__(self, count: int, pods: int, *, stating: bool = False) -> None:
        self.count, self.pods = count, pods
        # Unless `stating`, nothing is said: upstream's figures are about folding and estimating alone.
        often = {} if stating else {"interval": 1e9, "heartbeat": 1e9}
        self.stage = Recommender(replace(VerticalSettings(), **often), 0)
        self.workloads = [Workload("bench", f"ns{i % 100}", "Deployment", f"app{i}") for i in range(count // pods)]
        self.random = np.random.default_rng(1)
        self.seen = ""
        """`CPU` or `memory`: the other one is absent from scrapes. Empty: both are seen."""
        self.scraped = 0

    def intake(self, *, vpas: bool = True) -> None:
        """All VPAs and all pods, in turns of a thousand workloads."""
        for turn, start in enumerate(range(0, len(self.workloads), ROWS)):
            part = self.workloads[start : start + ROWS]
            policies = list(map(_vpa, part)) if vpas else []
            inputs = {"policies": policies, "pod-changes": [self._pod(w, p) for w in part for p in range(self.pods)]}
            self.stage.step(Turn(T0 * 1000 + turn, inputs))

    def scrapes(self, ticks: int, minutes: int = 1) -> Iterator[float]:
        """CPU seconds of each scrape of everything, so many minutes apart."""
        rows = [(w.key, f"{w.name}-{p}", "main") for w in self.workloads for p in range(self.pods)]
        columns = [tuple(zip(*rows[i : i + ROWS], strict=True)) for i in range(0, len(rows), ROWS)]
        names = [tuple(tuple(map(intern, column)) for column in part) for part in columns]  # as the codec gives them
        del rows, columns
        for _ in range(ticks):
            self.scraped += minutes
            tick = self.scraped
            turn = Turn((T0 + 60 * tick) * 1000, {"pod-metrics": [self._scrape(tick, *columns) for columns in names]})
            yield timed(lambda turn=turn: self.stage.step(turn))

    def recommend(self) -> None:
        """The sum for everything."""
        members = self.stage.members.select(np.zeros(0, np.int64), [w.key for w in self.workloads])
        recommend(self.stage.usage, self.stage.members, members, self.stage.estimation)

    def dump(self) -> int:
        """Bytes of the whole state as a changelog holds it."""
        return sum(len(self.stage.dump(chunk)) for chunk in self.stage.chunks())

    def _scrape(self, tick: int, *columns: tuple[str, ...]) -> Recorded:
        n = len(columns[0])
        cores, memory = self.random.integers(0, 3000, n) / 1000, (self.random.integers(0, 3000, n) + 20) * MIB
        cores = cores if self.seen in ("", "CPU") else np.full(n, np.nan)
        memory = memory if self.seen in ("", "memory") else np.full(n, np.nan)
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


def statements(count: int, rounds: int = 10) -> float:
    """CPU seconds of one recommendation, built and written to the records of both its topics, while memory moves."""
    world, codec, best = World(count, 1, stating=True), Codec(Topics(partitions=1)), inf
    world.intake()
    version = rules_version(NAME, 1, {})
    changed = StageRulesChanged(datetime.fromtimestamp(T0, UTC), NAME, 1, {}, version)
    world.stage.step(Turn((T0 + 1) * 1000, {"rules": [Recorded(changed, Place("rules", 0, 0))]}))

    def write(decided: Sequence[Decided]) -> None:
        for each in decided:
            codec.encode(each.written, topic=each.topic, key=each.key, partition=0, source="/bench", cause=each.cause)

    with python_gc.held():
        for _ in range(rounds):
            list(world.scrapes(1))
            decided = list(world.stage.step(Turn((T0 + 60 * world.scraped + 59) * 1000, {})))
            if len(decided) >= count:  # most were stated
                best = min(best, timed(partial(write, decided)) / (len(decided) / 2))
            gc.collect()
    return best


COUNTS = (1_000, 10_000, 100_000)
PutFigure = Callable[[str, float, str, str], None]
"""Name, value, unit, and the goal with upstream's figure."""


def one_pod(put: PutFigure, count: int) -> None:
    """A VPA for each container."""
    label, upstream = f"{count // 1000}k containers, a VPA each", {1_000: 12.2, 10_000: 154, 100_000: 1_790}[count]
    world = World(count, 1)
    world.intake()
    list(world.scrapes(10))
    best = min(timed(world.recommend) for _ in range(3))
    goal = "< 200; " if count == max(COUNTS) else ""
    put(f"{label}: all recommendations", best * 1000, "ms", f"{goal}upstream {upstream:,}")
    put(f"{label}: changelog a container", world.dump() / count, "bytes", "< memory")
    del world
    heap = {1_000: 4_525, 10_000: 4_500, 100_000: 4_469}[count]
    put(f"{count // 1000}k containers, no VPA: memory a container", memory(count, 1), "bytes", f"< 3,000; upstream {heap:,}")
    put(f"{label}: memory a container", memory(count, 1, vpas=True), "bytes", "")


def ten_pods(put: PutFigure, count: int) -> None:
    """Ten pods for each VPA."""
    label = f"{count // 1000}k containers, 10 pods a VPA"
    intake, cpu, ram, every = {
        1_000: ("0.01", 553, 437, 0.4),
        10_000: ("0.85", 633, 480, 6.9),
        100_000: ("156", 1_080, 1_048, 106),
    }[count]
    large = count == max(COUNTS)
    world = World(count, 10)
    put(f"{label}: VPAs and pods taken in", timed(world.intake), "s", f"{'< 5; ' if large else ''}upstream {intake}")
    for what, theirs in (("CPU", cpu), ("memory", ram)):
        world.seen = what
        fold = min(world.scrapes(20 if large else 200)) / count
        put(f"{label}: a {what} sample into memory", fold * 1e9, "ns", f"{'< 1,050; ' if large else ''}upstream {theirs:,}")
    best = min(timed(world.recommend) for _ in range(3))
    put(f"{label}: all recommendations", best * 1000, "ms", f"{'< 100; ' if large else ''}upstream {every:,}")


def measure(put: PutFigure, most: int = max(COUNTS)) -> None:
    """All sizes up to `most` containers."""
    for count in COUNTS:
        if count <= most:
            one_pod(put, count)
            ten_pods(put, count)
    stated = statements(min(most, 10_000))
    put(
        "10k containers: a recommendation, built and written to its two topics",
        stated * 1e6,
        "us",
        "upstream 14.5 a VPA's status",
    )


def show(name: str, value: float, unit: str, goal: str = "") -> None:
    """One line."""
    sys.stdout.write(f"{name:<60} {value:>14,.2f} {unit:<8} {goal}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    measure(show, int(sys.argv[1]) if len(sys.argv) > 1 else max(COUNTS))
