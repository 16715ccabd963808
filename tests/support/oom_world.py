"""A made-up cluster of one workload, played in virtual time through all stages with their consumers: who was killed, and when?

Containers are killed by the simulated kubelet alone, at their limit; nothing here lowers, raises or restarts anything.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from agents.demo import day_in_memory
from agents.demo.demo_settings import START, Day
from agents.processes.simulated_cluster import open_shop
from agents.run.pipeline import stages
from agents.run.simulate import SimulatedWorld, TickGrid, simulate
from agents.settings.loading import load
from schemas import times
from schemas.catalogue import Event
from schemas.decisions.pod_updates import UpdateRefused
from schemas.decisions.recommendations import RequestsRecommended
from schemas.decisions.vpa_conditions import (
    ConditionStatus,
    ConditionType,
    DecidedCondition,
    MemoryLimitFound,
    VpaConditionsDecided,
)
from schemas.facts.pods import PodChanged
from schemas.facts.usage import ContainerOOMKilled
from schemas.names import Amounts
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.limit_ranges import Limit, LimitRangeChanged
from schemas.policies.vertical import ContainerPolicy, UpdateMode, VerticalPolicyChanged
from schemas.policies.vpa import Operator, Requirement, TargetRef, VpaChanged
from schemas.units import Bytes, Cores, Fraction
from streams.codec.event_codec import is_of_a_clock
from streams.consumers.evictor import evictor
from streams.consumers.resizer import resizer
from streams.log_context import LogContext
from streams.publishing.operator_log import OperatorLog
from streams.simulated.cluster_spec import MIB, ContainerTemplate, Load, LoadMoment, Shape, SimulatedDeployment, SimulatedNode
from streams.simulated.demo_shop import ShopSettings
from tests.support.kept_scenario import BARE, read_by_people

GIB = 1 << 30
KEY = "demo/shop/Deployment/api"


def growing(need: int, after: float) -> Shape:
    """A container that needs `need` MiB so many seconds after its start, and a third of it at first."""

    def shape(moment: LoadMoment) -> Load:
        grown = 1.0 if after <= 0 else min(1.0, 0.3 + 0.7 * moment.age / after)
        return Load(Cores(0.05), Bytes(int(need * grown * MIB)))

    return shape


def template(name: str, need: int, after: float, request: int | None, limit: int | None) -> ContainerTemplate:
    """Amounts are MiB."""
    asked, most = (None if each is None else Bytes(each * MIB) for each in (request, limit))
    return ContainerTemplate(name, growing(need, after), Amounts(Cores(0.1), asked), Amounts(None, most))


def hot(need: int, *, share: int = 16) -> Shape:
    """A container that needs `need` MiB in one pod of so many, by chance, and 100 MiB in the others."""

    def shape(moment: LoadMoment) -> Load:
        return Load(Cores(0.05), Bytes((need if moment.seed % share == 0 else 100) * MIB))

    return shape


def growing_again(need: int, later: int, after: timedelta) -> Shape:
    """A container that needs `need` MiB at once, and `later` MiB from so long after the beginning on."""
    begin = START.timestamp()

    def shape(moment: LoadMoment) -> Load:
        return Load(Cores(0.05), Bytes((later if moment.time - begin >= after.total_seconds() else need) * MIB))

    return shape


@dataclass
class OomWorld:
    """What is played, and then what came of it."""

    replicas: int
    containers: tuple[ContainerTemplate, ...]
    mode: UpdateMode = UpdateMode.IN_PLACE_OR_RECREATE
    policies: tuple[ContainerPolicy, ...] = ()
    limits: tuple[Limit, ...] = ()
    """Of a LimitRange in the namespace."""
    hours: float = 3.0
    budget: float = 0.5
    settings: dict[str, Any] = field(default_factory=dict)
    kind: str = "Deployment"
    init: tuple[ContainerTemplate, ...] = ()
    own: Amounts = Amounts()
    """The limits of each pod itself."""
    vpa: bool = False
    """Whether mode and bounds stand in a VPA object, so that its status says something."""
    events: list[Event] = field(default_factory=list)
    end: datetime = START

    def play(self) -> "OomWorld":
        """Play it to its end."""
        day = Day(7, 1.0, partitions=1, cluster="demo", length=timedelta(hours=self.hours), special=self.settings)
        log = day_in_memory.new_log(day)
        context = LogContext.of(log, day.topics, day.cluster)
        OperatorLog(context).publish(
            ControlChanged(START, "demo", Mode.APPLY, reason="a test", budget=Fraction(self.budget)),
            self._policy(),
            *((LimitRangeChanged(START, "demo", "shop", "bounds", self.limits),) if self.limits else ()),
        )
        nodes = tuple(SimulatedNode(f"node-{n}", Cores(16.0), Bytes(32 * GIB)) for n in range(4))
        deployment = SimulatedDeployment(
            "shop", "api", self.replicas, self.containers, init=self.init, limits=self.own, kind=self.kind
        )
        shop = open_shop(ShopSettings("demo", 7, day.start, day.tick, nodes, (deployment,), ()), log, day.topics)

        def live(at: datetime) -> None:
            shop.cluster.advance(at)
            shop.scrape(at)

        settings = load(flags={name: str(value) for name, value in self.settings.items()} | {"topics.partitions": "1"}).settings
        consumers = (resizer(context, shop.client), evictor(context, shop.client))
        world = SimulatedWorld(live, (shop.after, *(each.poll_once for each in consumers)))
        grid = TickGrid(times.to_ms(day.start), int(day.tick.total_seconds() * 1000))
        for taken in simulate(context, stages(settings), world, grid):
            if taken.at >= day.end:
                break
        self.end = day.end
        for name in ("pod-changes", "pod-updates", "recommendations", "outcomes", "oom-events", "vpa-conditions"):
            records = log.poll({(day.topics.wire(name), 0): 0}, limit=10**6)
            self.events += [context.codec.decode(record) for record in records if not is_of_a_clock(record)]
        bare = [text for event in self.events for text in read_by_people(event) if BARE.search(text)]
        assert not bare, bare
        return self

    def _policy(self) -> VerticalPolicyChanged | VpaChanged:
        if not self.vpa:
            return VerticalPolicyChanged(START, "demo/*", "test", self.mode, containers=self.policies)
        target = TargetRef(self.kind, "api", "apps/v1")
        made = VpaChanged(START, "demo", "shop", "api", START, target, (Requirement("app", Operator.IN, ("api",)),), uid="u1")
        return replace(made, generation=1, update_mode=self.mode, containers=self.policies)

    @property
    def limited(self) -> DecidedCondition | None:
        """The condition of a loop of kills, as it was decided last for the VPA; None where there never was a loop."""
        decided = [each for each in self.events if isinstance(each, VpaConditionsDecided)]
        return next((each for each in decided[-1].conditions if each.type is ConditionType.MEMORY_LIMITED), None)

    @property
    def bound(self) -> str:
        """The word for what keeps memory from the workload at the end, by its VPA's condition or, without a VPA, by an event."""
        if self.vpa:
            return self.limited.reason if self.limited is not None and self.limited.status is ConditionStatus.TRUE else ""
        told = [each for each in self.events if isinstance(each, MemoryLimitFound)]
        return told[-1].reason if told else ""

    @property
    def kills(self) -> list[ContainerOOMKilled]:
        """In the order of their times."""
        return sorted((each for each in self.events if isinstance(each, ContainerOOMKilled)), key=lambda each: each.at)

    @property
    def last_kill(self) -> datetime:
        """When a container of any kind was killed last, as its pod showed it; the beginning where none was."""
        pods = [each for each in self.events if isinstance(each, PodChanged)]
        runs = [seen.last_run for pod in pods for seen in (*pod.containers, *pod.init_containers)]
        return max((run.ended for run in runs if run is not None and run.killed_for_memory), default=START)

    @property
    def kills_of_pods(self) -> Counter[str]:
        """By the pods' names."""
        return Counter(kill.pod.name for kill in self.kills)

    @property
    def refusals(self) -> list[UpdateRefused]:
        """What was left alone, and why."""
        return [each for each in self.events if isinstance(each, UpdateRefused)]

    @property
    def recommendations(self) -> list[RequestsRecommended]:
        """In the order of the log."""
        return [each for each in self.events if isinstance(each, RequestsRecommended)]

    def unchanged(self, by: datetime, container: str, request: int) -> set[str]:
        """The pods that still had this memory request, in MiB, at a time, of those that were there."""
        newest = {each.pod.name: each for each in self.events if isinstance(each, PodChanged) and each.at <= by}
        gone = {each.pod.name for each in self.events if getattr(each, "at", by) <= by and type(each).__name__ == "PodDeleted"}
        return {
            name
            for name, fact in newest.items()
            if name not in gone and any(c.name == container and c.requests.memory == request * MIB for c in fact.containers)
        }
