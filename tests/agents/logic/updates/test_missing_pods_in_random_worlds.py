"""Random worlds of controllers that are scaled and refused and lose pods: what we evict never makes more missing than allowed.

The truth is kept beside the updater: what each controller wants, and which of its pods serve. Of some controllers the updater is
never told what they want; these are not scaled, and lose no pods by others.
"""

import random
from dataclasses import dataclass, field

import pytest

from schemas.catalogue import Event
from schemas.decisions.pod_updates import EvictionPlanned
from schemas.facts.pods import PodChanged, PodDeleted, PodPhase
from schemas.facts.scheduled_pods import ControllingOwner
from schemas.facts.update_facts import ReplicaControllerChanged
from schemas.names import Workload
from schemas.outcomes import Action, ActionFinished, Result
from tests.agents.logic.updates.test_missing_pods import World, come, member, seen
from tests.support.cluster_events import turn, when

KINDS = ("ReplicaSet", "StatefulSet", "CustomThing")
MOST_WORKLOADS, HOURS = 4, 2


@dataclass
class Controller:
    """One controller of one workload, as it truly is."""

    workload: Workload
    kind: str
    wants: int
    pods: dict[str, PodChanged] = field(default_factory=dict)
    refuses: bool = False
    told: bool = True
    born: int = 0
    ours: int = 0
    """Pods that served until we evicted them, and whose successors have not come."""

    @property
    def known(self) -> bool:
        return self.kind != "CustomThing" and self.told

    def fact(self, at: int) -> ReplicaControllerChanged:
        owner = ControllingOwner("Deployment", self.workload.name, "apps/v1") if self.kind == "ReplicaSet" else None
        refusal = "exceeded quota" if self.refuses and self.kind == "ReplicaSet" else ""
        name = self.workload.name
        namespace = self.workload.namespace
        return ReplicaControllerChanged(when(at), "demo", namespace, self.kind, name, self.wants, owner, refusal)

    def make(self, chance: random.Random, at: int) -> list[Event]:
        """The pods that it can make now; some of them come to nothing."""
        made: list[Event] = []
        while len(self.pods) < self.wants and not self.refuses and chance.random() < 0.7:
            self.born += 1
            odd = chance.choice(({}, {}, {}, {"phase": PodPhase.PENDING, "node": None}, {"phase": PodPhase.PENDING}, "fails"))
            more = {"containers": (seen(ready=False, restarts=2),)} if odd == "fails" else odd
            name = f"{self.workload.name}-{self.born}"
            make = member if chance.random() < 0.5 else come
            pod = make(name, at, workload=self.workload, controller=f"{self.kind}/{self.workload.name}", **more)
            self.pods[pod.pod.uid] = pod
            made.append(pod)
        return made


def serving(pod: PodChanged) -> bool:
    return pod.phase is PodPhase.RUNNING and not any(each.restarts and not each.ready for each in pod.containers)


class RandomWorld:
    """Several workloads, an updater, and an evictor whose evictions the cluster accepts."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.share = self.chance.choice((0.05, 0.1, 0.25, 0.5))
        self.controllers = [self._controller(number) for number in range(self.chance.randint(1, MOST_WORKLOADS))]
        facts: list[Event] = [pod for each in self.controllers for pod in each.pods.values()]
        facts += [each.fact(0) for each in self.controllers if each.known]
        ours = {"unchanged_pause": 0.0, "cool_down": 0.0}
        self.world = World(facts, share=self.share, tolerance=self.chance.choice((0.5, 1.0)), **ours)
        self.evicted = 0

    def _controller(self, number: int) -> Controller:
        kind, wants = self.chance.choice(KINDS), self.chance.randint(1, 12)
        namespace = self.chance.choice(("web", "web", "shop", "lab"))
        workload = Workload("demo", namespace, "Deployment" if kind == "ReplicaSet" else kind, f"w{number}")
        made = Controller(workload, kind, wants, told=self.chance.random() < 0.9)
        for index in range(wants):
            pod = member(f"w{number}-old-{index}", workload=workload, controller=f"{kind}/{workload.name}")
            made.pods[pod.pod.uid] = pod
        return made

    def minute(self) -> None:
        """What happens by itself, then what the updater does, which is judged before it is carried out."""
        self._happen()
        self.world.workloads = [each.workload for each in self.controllers if each.pods]
        plans = self.world.planned()
        for each in self.controllers:
            self._judge(each, [plan for plan in plans if plan.pod.uid in each.pods])
        self._judge_together(plans)
        self._carry_out(plans)

    def _happen(self) -> None:
        at, news = self.world.now, list[Event]()
        for each in self.controllers:
            if self.chance.random() < 0.05 and each.known:
                each.wants = max(1, each.wants + self.chance.randint(-3, 6))
            if self.chance.random() < 0.05:
                each.refuses = not each.refuses
            if self.chance.random() < 0.03 and each.pods and each.known:
                lost = each.pods.pop(self.chance.choice(sorted(each.pods)))
                news.append(PodDeleted(when(at), each.workload, lost.pod))
            while len(each.pods) > each.wants:
                surplus = each.pods.pop(min(each.pods))
                news.append(PodDeleted(when(at), each.workload, surplus.pod))
            news += each.make(self.chance, at)
            each.ours = min(each.ours, max(0, each.wants - len(each.pods)))
            if each.known:
                news.append(each.fact(at))
        self.world.tell(*news)

    def _judge(self, each: Controller, plans: list[EvictionPlanned]) -> None:
        wants = each.wants
        allowed, absent = max(1, int(wants * self.share)), wants - len(each.pods)
        away = wants - sum(serving(pod) for pod in each.pods.values())
        of_serving = sum(serving(each.pods[plan.pod.uid]) for plan in plans)
        story = f"{each.kind} wants {wants}, has {len(each.pods)}, {away} away; share {self.share}; planned {len(plans)}"
        assert not of_serving or away + of_serving <= allowed, story
        assert not plans or absent + len(plans) <= allowed, story
        assert not plans or not (each.known and each.kind == "ReplicaSet" and each.refuses), story

    def _judge_together(self, plans: list[EvictionPlanned]) -> None:
        """What others took away may be more; what we took away is not, in the whole cluster."""
        pods = {uid: pod for each in self.controllers for uid, pod in each.pods.items()}
        of_serving = sum(serving(pods[plan.pod.uid]) for plan in plans)
        allowed = max(1, int(sum(max(each.wants, len(each.pods)) for each in self.controllers) * self.share))
        ours = sum(each.ours for each in self.controllers)
        assert not of_serving or ours + of_serving <= allowed, f"{ours} of ours are away, {of_serving} planned, {allowed} allowed"

    def _carry_out(self, plans: list[EvictionPlanned]) -> None:
        done: list[Event] = []
        gone: list[Event] = []
        for plan in plans:
            self.evicted += 1
            owner = next(each for each in self.controllers if plan.pod.uid in each.pods)
            owner.ours += serving(owner.pods.pop(plan.pod.uid))
            done.append(ActionFinished("o", plan.at, plan.id, Action.EVICT, Result.DONE, "so", plan.subject))
            gone.append(PodDeleted(plan.at, owner.workload, plan.pod))
        if plans:
            self.world.stage.step(turn(self.world.now + 1000, outcomes=done, pod_changes_by_cluster=gone))


@pytest.mark.parametrize("seed", range(20))
def test_never_more_pods_are_missing_by_what_we_did_than_the_budget_allows(seed: int) -> None:
    world = RandomWorld(seed)
    for _ in range(HOURS * 60):
        world.minute()


def test_the_random_worlds_are_no_empty_ones() -> None:
    worlds = [RandomWorld(seed) for seed in range(10)]
    for world in worlds:
        for _ in range(60):
            world.minute()
    assert sum(world.evicted for world in worlds) > 50
