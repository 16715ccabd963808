"""`python -m tests.bench.node_arrivals FOLDER [DAYS [TRACE [RUNS]]]`: what nodes and waiting recorded arrivals cost (14 days).

FOLDER has the traces `azure-v1-vm-arrivals` and `alibaba-openb-2023`. One stage decides for a made-up cloud: a node is there 90 s
after it was asked for, the scheduler spreads pods over the nodes as Kubernetes' does, and the pods of a node that goes come back.
In all runs they come back with 70 % of what they asked for, as a webhook would let them; only the last run empties nodes for it.
A pod runs for as long as in its trace from when it has a node: one that waits longer ends later, so all runs do the same work.
Nodes have the 100m that profile upstream keeps free for a kube-proxy, so that both profiles take the same pods to fit.

Which pods share a node is a matter of seconds, and decides when it goes. So further RUNS have each arrival up to five minutes
sooner or later, at random and alike for all modes; what holds in the mean of them is no chance of one trace.
"""

import heapq
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from schemas.catalogue import Event
from schemas.decisions.node_updates import NodeRemovalPlanned, ScaleUpPlanned
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.facts.nodes import NodeDetailsRemoved, NodeGroupSeen, NodeInstanceGone, NodeTemplateSeen
from schemas.facts.scheduled_pods import PodPlacementRemoved
from schemas.names import Amounts, PodName, Workload
from schemas.outcomes import Action, ActionFinished, Result
from schemas.policies.vertical import UpdateMode, VerticalPolicyChanged
from schemas.units import Bytes, Cores
from tests.support.cluster_events import GIB, START, when
from tests.support.node_scene import CLUSTER, ScalerRun, controller, group, instance, node, pod, shape

GPU = "nvidia.com/gpu"
KINDS = ("cpu", "memory", GPU)
BOOT, DRAIN, LOOK, URGENT = 90.0, 30.0, 300.0, 10.0
"""Seconds until a node is there, until one is gone, and between two looks where nothing happens, and where a pod waits."""
PROXY = 100
KEPT = 0.7
"""Thousandths of a core for a kube-proxy; and what a successor asks for of what its pod asked for."""
MOVED = 300.0
"""Seconds by which further runs have a pod come sooner or later, at most."""
MODES: dict[str, dict[str, object]] = {
    "upstream": {"profile": "upstream"},
    "default": {},
    "default, smaller successors": {"smaller_successors": True},
}
Sizes = dict[str, int]


@dataclass(frozen=True)
class Arrival:
    """A pod of a trace: when it comes and ends, in seconds, and what it asks for."""

    at: float
    ends: float
    kind: str
    sizes: tuple[int, ...]


@dataclass
class LivePod:
    """A pod; `since` is when it began to wait, and `left` for how many seconds it still runs once it is on a node."""

    name: str
    shape: str
    sizes: tuple[int, ...]
    of: Arrival
    since: float
    left: float
    node: str = ""
    placed: float = 0.0


@dataclass
class LiveNode:
    """A node; it costs from the moment in which it was asked for."""

    group: str
    asked: float
    free: list[int] = field(default_factory=list)
    whole: list[int] = field(default_factory=list)
    pods: set[str] = field(default_factory=set)
    ready: bool = False
    leaving: bool = False


class Arrivals:
    """One run: a stage, a cloud and a scheduler."""

    def __init__(self, groups: dict[str, Sizes], kinds: dict[str, tuple[int, ...]], settings: dict[str, object]) -> None:
        self.groups, self.desired = groups, dict.fromkeys(groups, 0)
        self.run = ScalerRun(
            *(self.group(name) for name in groups),
            VerticalPolicyChanged(when(START), f"{CLUSTER}/*", "1", UpdateMode.RECREATE),
            *(fact for kind, sizes in kinds.items() for fact in self.facts(kind, sizes)),
            settings=settings,
        )
        self.pods: dict[str, LivePod] = {}
        self.nodes: dict[str, LiveNode] = {}
        self.todo: list[tuple[float, int, str, str]] = []
        self.news: list[Event] = []
        self.made = self.evicted = self.started = 0
        self.hours = self.cores = self.soon = 0.0
        self.waits: list[float] = []

    def group(self, name: str) -> NodeGroupSeen:
        sizes = {**self.groups[name], "pods": 110}
        template = NodeTemplateSeen({"topology.kubernetes.io/zone": f"zone-{name}", "group": name}, (), sizes, sizes)
        return group(name, most=300, desired=self.desired[name], template=template)

    @staticmethod
    def facts(kind: str, sizes: tuple[int, ...]) -> Iterator[Event]:
        """The controller of a kind of pods, and what is recommended for them."""
        yield controller(kind, 100)
        back = smaller(sizes)
        amounts = Amounts(Cores(back[0] / 1000), Bytes(back[1]))
        entry = ContainerRecommendation("app", amounts, amounts, amounts, amounts)
        yield RequestsRecommended(f"r-{kind}", when(START), Workload(CLUSTER, "shop", "ReplicaSet", kind), (entry,), {})

    # Time

    def later(self, at: float, what: str, name: str = "") -> None:
        self.made += 1
        heapq.heappush(self.todo, (at, self.made, what, name))

    def play(self, arrivals: list[Arrival], end: float) -> None:
        for number, arrival in enumerate(arrivals):
            self.later(arrival.at, "comes", str(number))
        for look in np.arange(LOOK, end, LOOK):
            self.later(float(look), "look")
        while self.todo and self.todo[0][0] < end:
            now = self.todo[0][0]
            while self.todo and self.todo[0][0] == now:
                _at, _number, what, name = heapq.heappop(self.todo)
                self.happens(now, what, name, arrivals)
            self.schedule(now)
            self.decide(now)
            if now >= self.soon and any(not one.node for one in self.pods.values()):
                self.soon = now + URGENT
                self.later(self.soon, "look")
        for live in self.nodes.values():
            self.paid(live, end)
        self.waits += [end - one.since for one in self.pods.values() if not one.node]

    def happens(self, now: float, what: str, name: str, arrivals: list[Arrival]) -> None:
        match what:
            case "comes":
                arrival = arrivals[int(name)]
                self.add(LivePod(f"p{name}", arrival.kind, arrival.sizes, arrival, now, arrival.ends - arrival.at))
            case "ends" if name in self.pods:
                self.leave(name)
            case "boots":
                live = self.nodes[name]
                live.ready = True
                sizes = {**self.groups[live.group], "pods": 110}
                self.news += [
                    instance(name, live.group),
                    node(name, live.group, allocatable=sizes, capacity=sizes, created=when(int(START + now * 1000))),
                ]
            case "goes":
                self.gone(now, name)
            case _:
                pass

    def add(self, one: LivePod) -> None:
        """Its shape comes with each pod, because readers forget a shape with its last pod."""
        self.pods[one.name] = one
        requests = {resource: amount for resource, amount in zip(KINDS, one.sizes, strict=True) if amount}
        self.news.append(shape(one.shape, requests=requests, containers={"app": requests}, owner=shape(one.of.kind).owner))
        self.news.append(pod(one.name, one.shape, created=int(START + one.since * 1000)))

    def paid(self, live: LiveNode, end: float) -> None:
        """A node costs from the moment in which it was asked for; groups have nodes of different sizes."""
        hours = (end - live.asked) / 3600
        self.hours += hours
        self.cores += hours * self.groups[live.group]["cpu"] / 1000

    def leave(self, name: str) -> LivePod:
        one = self.pods.pop(name)
        if one.node:
            live = self.nodes[one.node]
            live.pods.discard(name)
            live.free = [free + size for free, size in zip(live.free, one.sizes, strict=True)]
        self.news.append(PodPlacementRemoved(when(START), CLUSTER, PodName("shop", name, f"uid-{name}")))
        return one

    def gone(self, now: float, name: str) -> None:
        live = self.nodes.pop(name)
        self.paid(live, now)
        self.desired[live.group] -= 1
        self.news += [self.group(live.group), NodeInstanceGone(when(START), CLUSTER, live.group, name)]
        self.news.append(NodeDetailsRemoved(when(START), CLUSTER, name))

    # The scheduler, and the cloud

    def schedule(self, now: float) -> None:
        """Each waiting pod goes where the largest share is free, as Kubernetes' default score has it."""
        open_nodes = [(name, live) for name, live in self.nodes.items() if live.ready and not live.leaving]
        for one in [one for one in self.pods.values() if not one.node]:
            fits = [item for item in open_nodes if all(free >= size for free, size in zip(item[1].free, one.sizes, strict=True))]
            if not fits:
                continue
            name, live = max(fits, key=lambda item: sum(f / w for f, w in zip(item[1].free[:2], item[1].whole[:2], strict=True)))
            live.free = [free - size for free, size in zip(live.free, one.sizes, strict=True)]
            live.pods.add(one.name)
            one.node, one.placed = name, now
            self.later(now + one.left, "ends", one.name)
            self.waits.append(now - one.since)
            self.news.append(pod(one.name, one.shape, node=name, created=int(START + one.since * 1000)))

    def decide(self, now: float) -> None:
        self.run.now = int(START + now * 1000) - self.run.tick
        news, self.news = self.news, []
        for plan in self.run.step(*news):
            if isinstance(plan, ScaleUpPlanned):
                self.finish(plan, Action.SCALE_UP)
                self.desired[plan.group] = plan.after
                self.news.append(self.group(plan.group))
                for _new in range(plan.after - plan.before):
                    self.started += 1
                    name, sizes = f"n{self.started}", self.groups[plan.group]
                    whole = [sizes.get(kind, 0) for kind in KINDS]
                    self.nodes[name] = LiveNode(plan.group, now, list(whole), whole)
                    self.later(now + BOOT, "boots", name)
            elif isinstance(plan, NodeRemovalPlanned) and plan.node in self.nodes:
                self.drain(now, plan)

    def drain(self, now: float, plan: NodeRemovalPlanned) -> None:
        live = self.nodes[plan.node]
        live.leaving = True
        self.finish(plan, Action.REMOVE_NODE)
        for name in sorted(live.pods):
            one = self.leave(name)
            self.evicted += 1
            back = f"{one.name}b"
            left = max(one.left - (now - one.placed), 1.0)
            self.add(LivePod(back, f"{one.of.kind}-back", smaller(one.of.sizes), one.of, now, left))
        self.later(now + DRAIN, "goes", plan.node)

    def finish(self, plan: Any, action: Action) -> None:
        self.news.append(ActionFinished(f"{plan.id}/x", when(self.run.now), plan.id, action, Result.DONE, "", plan.subject))


def smaller(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """What a successor asks for; devices stay."""
    return int(sizes[0] * KEPT), int(sizes[1] * KEPT), *sizes[2:]


def azure(folder: Path, days: float, share: int = 100) -> tuple[list[Arrival], dict[str, Sizes]]:
    """Every so many-th VM of the first days; its life is one of those that VMs of its flavour had in the last days."""
    first, last = (str(folder / f"azure-v1-vm-arrivals/arrivals_{part}.parquet") for part in ("d00_d20", "d20_d24"))
    lives: dict[str, list[tuple[int, int]]] = {}
    for flavour, least, most in duckdb.sql(
        f"select flavor, duration_min_s, duration_max_s from '{last}' order by timestamp_s, batch_id"  # noqa: S608  # our own path
    ).fetchall():
        lives.setdefault(flavour, []).append((least, most or 2 * least))
    random = np.random.default_rng(7)
    rows = duckdb.sql(
        f"select timestamp_s, flavor, vcpu, memory_gib from '{first}' where timestamp_s < {days * 86400}"  # noqa: S608  # as above
    ).fetchall()
    arrivals = []
    for at, flavour, cores, gib in rows[::share]:
        known = lives.get(flavour) or [(1500, 1800)]
        least, most = known[int(random.integers(len(known)))]
        life = float(random.uniform(least, max(most, least + 1)))
        arrivals.append(Arrival(float(at), at + life, f"f{flavour.lower()}", (int(cores * 1000), int(gib * GIB), 0)))
    sizes = {"a": {"cpu": 16_000 + PROXY, "memory": 128 * GIB}, "b": {"cpu": 32_000 + PROXY, "memory": 256 * GIB}}
    return arrivals, sizes


def openb(folder: Path, days: float) -> tuple[list[Arrival], dict[str, Sizes]]:
    """The busiest days of the GPU cluster; a pod that was never scheduled is left out, and one larger than any node."""
    path = str(folder / "alibaba-openb-2023/pods.parquet")
    rows = duckdb.sql(
        f"select creation_s, deletion_s, cpu_milli, memory_mib, num_gpu from '{path}' "  # noqa: S608  # our own path
        "where scheduled_s is not null and deletion_s > creation_s order by creation_s"
    ).fetchall()
    times = np.array([row[0] for row in rows])
    counts = [int(np.sum((times >= at) & (times < at + days * 86400))) for at in times]
    start = int(times[int(np.argmax(counts))])
    arrivals = []
    for created, deleted, milli, mib, devices in rows:
        if start <= created < start + days * 86400:
            sizes = (int(milli), int(mib) << 20, int(devices))
            kind = f"k{milli}-{mib}-{devices}"
            arrivals.append(Arrival(float(created - start) + 1.0, float(deleted - start) + 2.0, kind, sizes))
    small, gpus = {"cpu": 32_000 + PROXY, "memory": 128 * GIB}, {"cpu": 96_000 + PROXY, "memory": 768 * GIB, GPU: 8}
    fitting = [one for one in arrivals if all(size <= gpus[kind] for size, kind in zip(one.sizes, KINDS, strict=True))]
    return fitting, {"a": small, "g": gpus}


def moved(arrivals: list[Arrival], run: int) -> list[Arrival]:
    """The arrivals of a run: as recorded in the first, and in any other with the same lives at other moments."""
    if run == 0:
        return arrivals
    by = np.random.default_rng(run).uniform(-MOVED, MOVED, len(arrivals))
    begins = [max(one.at + float(seconds), 1.0) for one, seconds in zip(arrivals, by, strict=True)]
    shifted = [replace(one, at=at, ends=at + one.ends - one.at) for one, at in zip(arrivals, begins, strict=True)]
    return sorted(shifted, key=lambda one: one.at)


def say(line: str) -> None:
    """A line of the table, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Print a table row for each trace and mode."""
    folder, days = Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 14.0
    traces, runs = sys.argv[3:4] or ["azure", "openb"], int(sys.argv[4]) if len(sys.argv) > 4 else 0
    heads = (
        "trace",
        "mode",
        "run",
        "pods",
        "node-hours",
        "core-hours",
        "waited, mean",
        "99 of 100",
        "together",
        "nodes started",
        "evictions",
        "CPU",
    )
    say(f"| {' | '.join(heads)} |")
    say("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for trace in traces:
        arrivals, groups = {"azure": azure, "openb": openb}[trace](folder, days)
        kinds = {one.kind: one.sizes for one in arrivals}
        for number, (mode, settings) in product(range(runs + 1), MODES.items()):
            begun, run = time.process_time(), Arrivals(groups, kinds, settings)
            run.play(moved(arrivals, number), days * 86400)
            waits = np.array(run.waits)
            say(
                f"| {trace} | {mode} | {number} | {len(arrivals):,} | {run.hours:,.1f} | {run.cores:,.0f} | {waits.mean():.1f} s "
                f"| {np.percentile(waits, 99):.0f} s | {waits.sum() / 3600:.1f} h | {run.started} | {run.evicted} "
                f"| {time.process_time() - begun:.0f} s |"
            )


if __name__ == "__main__":
    main()
