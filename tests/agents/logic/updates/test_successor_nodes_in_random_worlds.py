"""Random worlds of nodes and pods: no pod that we evict has a successor for which there is no room at that moment.

The world is a scheduler that binds each pod where most CPU is left, those that wait first. Pods of others come and go, and wait.
"""

import random
from dataclasses import replace

import pytest

from agents.logic.updates.successor_nodes import requested
from schemas.catalogue import Event
from schemas.decisions.pod_updates import EvictionPlanned
from schemas.facts.nodes import NodeChanged
from schemas.facts.pods import ContainerSeen, PodChanged, PodDeleted, PodPhase
from schemas.names import Amounts, Workload
from schemas.outcomes import Action, ActionFinished, Result
from schemas.policies.vertical import UpdateMode
from schemas.units import Bytes, Cores
from tests.agents.logic.updates.test_updater import apply, open_stage, recommend
from tests.support.cluster_events import GIB, MINUTE, START, pod, turn, when

OURS = [Workload("demo", "web", "Deployment", name) for name in ("api", "cart")]
OTHERS = Workload("demo", "batch", "CustomThing", "job")


class FullCluster:
    """Nodes, pods, and what is recommended for them; the truth beside the updater."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.nodes = {f"n{number}": (self.chance.uniform(2, 6), self.chance.uniform(4, 12) * GIB) for number in range(4)}
        self.pods: dict[str, PodChanged] = {}
        self.born = self.evicted = self.waited = 0
        for _ in range(self.chance.randint(6, 14)):
            self.create(self.chance.choice([*OURS, OTHERS]), self.chance.uniform(0.2, 1.8), self.chance.uniform(0.2, 3))
        self.schedule()
        quiet = {"cool_down": 0.0, "unchanged_pause": 0.0, "min_replicas": 1, "eviction_tolerance": 1.0, "rate": 5}
        share = self.chance.choice((0.3, 1.0))
        first = [*self.pods.values()] or [pod("x", START)]
        self.stage = open_stage(*first, control=apply(budget=share), mode=UpdateMode.RECREATE, **quiet)
        self.now = START + 10 * MINUTE
        facts = [NodeChanged(when(START), "demo", name, Amounts(Cores(c), Bytes(int(m)))) for name, (c, m) in self.nodes.items()]
        self.stage.step(turn(START + MINUTE, cluster_changes=facts))

    def create(self, workload: Workload, cores: float, gib: float) -> PodChanged:
        self.born += 1
        seen = ContainerSeen("app", Amounts(Cores(round(cores, 3)), Bytes(int(gib * GIB))))
        made = pod(
            f"p{self.born:03}", START, workload=workload, containers=(seen,), phase=PodPhase.PENDING, controller="ReplicaSet/x"
        )
        self.pods[made.pod.uid] = made
        return made

    def left(self) -> dict[str, tuple[float, float]]:
        left = dict(self.nodes)
        for each in self.pods.values():
            if each.node is not None:
                cpu, memory = requested(each, {})
                left[each.node] = left[each.node][0] - cpu, left[each.node][1] - memory
        return left

    def schedule(self) -> None:
        """Those that wait, in the order in which they came."""
        for uid, each in sorted(self.pods.items()):
            if each.node is None:
                left, (cpu, memory) = self.left(), requested(each, {})
                fitting = [name for name, room in left.items() if cpu <= room[0] + 1e-6 and memory <= room[1] + 0.5]
                if fitting:
                    node = max(fitting, key=lambda name: left[name])
                    self.pods[uid] = replace(each, node=node, phase=PodPhase.RUNNING)

    def minute(self) -> None:
        """Others come and go, then the updater decides, and each eviction is carried out and judged at once."""
        if self.chance.random() < 0.3:
            self.create(OTHERS, self.chance.uniform(0.2, 3), self.chance.uniform(0.2, 3))
        gone = [uid for uid, each in self.pods.items() if each.workload == OTHERS and self.chance.random() < 0.1]
        news: list[Event] = [PodDeleted(when(self.now), OTHERS, self.pods.pop(uid).pod) for uid in gone]
        self.schedule()
        wanted = {each: (self.chance.uniform(0.3, 2.5), self.chance.uniform(0.3, 4)) for each in OURS}
        told = [
            recommend(self.now, each, low=round(cpu, 3), target=round(cpu, 3), high=round(cpu, 3), memory=int(gib * GIB))
            for each, (cpu, gib) in wanted.items()
        ]
        facts = [*news, *self.pods.values()]
        decided = self.stage.step(turn(self.now, pod_changes_by_cluster=facts, recommendations_by_cluster=told))
        plans = [each.event for each in decided if isinstance(each.event, EvictionPlanned)]
        done: list[Event] = []
        for plan in plans:
            self.evict(plan, *wanted[plan.workload])
            done.append(ActionFinished("o", plan.at, plan.id, Action.EVICT, Result.DONE, "so", plan.subject))
        removed = [PodDeleted(plan.at, plan.workload, plan.pod) for plan in plans]
        self.stage.step(turn(self.now + 1000, outcomes=done, pod_changes_by_cluster=removed))
        self.now += MINUTE
        self.waited += sum(each.node is None for each in self.pods.values())

    def evict(self, plan: EvictionPlanned, cores: float, gib: float) -> None:
        before = self.pods.pop(plan.pod.uid)
        self.schedule()
        successor = self.create(plan.workload, cores, gib)
        self.schedule()
        self.evicted += 1
        had, asks = requested(before, {}), requested(successor, {})
        less = asks[0] <= had[0] + 1e-9 and asks[1] <= had[1]
        assert less or self.pods[successor.pod.uid].node is not None, f"{had} became {asks}; left: {self.left()}"


@pytest.mark.parametrize("seed", range(40))
def test_no_successor_of_an_evicted_pod_waits_for_a_node(seed: int) -> None:
    world = FullCluster(seed)
    for _ in range(30):
        world.minute()


def test_the_random_worlds_evict_and_are_full() -> None:
    worlds = [FullCluster(seed) for seed in range(10)]
    for world in worlds:
        for _ in range(30):
            world.minute()
    assert sum(world.evicted for world in worlds) > 50
    assert sum(world.waited for world in worlds) > 50
