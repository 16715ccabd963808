"""A storm: many wrongly sized pods at once in a simulated cluster; what was away of them is counted there, after each step."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from agents.logic.updates.update_settings import UpdateSettings
from agents.run.pipeline import stages
from agents.run.simulate import SimulatedWorld, TickGrid, simulate
from agents.settings.all_settings import Settings, TopicSettings
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.names import Workload
from schemas.outcomes import Action, ActionFinished, Result
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vertical import UpdateMode, VerticalPolicyChanged
from schemas.units import Fraction
from streams.clients.cluster_port import Patch, Pod
from streams.consumers.evictor import evictor
from streams.consumers.resizer import resizer
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.publishing.operator_log import OperatorLog
from streams.simulated.api_server import SimulatedClient
from streams.simulated.cluster import SimulatedCluster
from streams.simulated.cluster_spec import ContainerTemplate, SimulatedDeployment, SimulatedNode, amounts, diurnal
from streams.sources.simulated_cluster_poller import SimulatedClusterPoller
from streams.topics import TOPICS, Topics

START = datetime(2026, 1, 5, tzinfo=UTC)
TOPIC_NAMES = Topics("storm", 1)
BEFORE, TARGET = amounts(1.0, 512), amounts(0.25, 256)


@dataclass
class Storm:
    """A cluster of `workloads` deployments with `replicas` pods each; `mode` is the policy's, `budget` the operator's."""

    workloads: int
    replicas: int
    settings: UpdateSettings
    budget: float
    mode: UpdateMode = UpdateMode.RECREATE
    most_away: int = 0
    away_in_workload: int = 0
    done_after: int | None = None
    """Minutes from the beginning after which all pods were as recommended."""

    def __post_init__(self) -> None:
        self.log = MemoryLog()
        for topic in TOPICS:
            self.log.create(TOPIC_NAMES.wire(topic.name), 1)
        self.context = LogContext.of(self.log, TOPIC_NAMES, "demo")
        template = ContainerTemplate("app", diurnal(low=0.1, high=0.2, memory=100, swing=10), BEFORE)
        self.cluster = SimulatedCluster(
            name="demo",
            seed=1,
            nodes=[SimulatedNode(f"n{i}", 64.0, 256 << 30) for i in range(self.pods // 50 + 1)],  # type: ignore[arg-type]  # units
            deployments=[SimulatedDeployment("shop", f"w{i:03d}", self.replicas, (template,)) for i in range(self.workloads)],
            start=START,
            admit=admit,
        )
        self.client = SimulatedClient(self.cluster)
        OperatorLog(self.context).publish(
            VerticalPolicyChanged(START, "*", "1", self.mode),
            ControlChanged(START, "demo", Mode.APPLY, budget=Fraction(self.budget)),
        )

    @property
    def pods(self) -> int:
        return self.workloads * self.replicas

    def play(self, rounds: int) -> None:
        """So many minutes with new processes: a worker without a checkpoint, new consumers, a new source."""
        source = SimulatedClusterPoller(self.client, self.context)
        consumers = (resizer(self.context, self.client), evictor(self.context, self.client))

        def live(at: datetime) -> None:
            self.cluster.advance(at)
            self.look()
            if self.done_after is None and self.begun and not self.wrong():
                self.done_after = round((at - START).total_seconds() / 60)
            source.scrape(at)
            self.recommend(at)

        def act(consumer: Callable[[], object]) -> Callable[[], object]:
            def run() -> None:
                consumer()
                self.look()

            return run

        world = SimulatedWorld(live, tuple(act(each.poll_once) for each in consumers))
        start = int(self.cluster.now.timestamp() * 1000)
        stage = [
            each for each in stages(Settings(topics=TopicSettings(partitions=1), updates=self.settings)) if each.name == "updater"
        ]
        for number, _ in enumerate(simulate(self.context, stage, world, TickGrid(start)), 1):
            if number >= rounds:
                return

    def recommend(self, at: datetime) -> None:
        """All workloads, when all pods are ready, and every half an hour again."""
        if at.minute % 30 != 5:  # the sentence above
            return
        for i in range(self.workloads):
            workload = Workload("demo", "shop", "Deployment", f"w{i:03d}")
            container = ContainerRecommendation("app", TARGET, TARGET, TARGET, TARGET)
            number = int(at.timestamp() * 1000)
            event = RequestsRecommended(f"recommender/0/{number}/requests/{workload.key}", at, workload, (container,), {})
            topic = "recommendations-by-cluster"
            self.log.append([self.context.codec.encode(event, topic=topic, key="demo", partition=0, source="/test")])

    def look(self) -> None:
        """How many pods are away now, in all and of one workload."""
        missing = dict.fromkeys((f"w{i:03d}" for i in range(self.workloads)), self.replicas)
        for pod in self.client.pods():
            missing[pod.workload.name] -= all(container.ready for container in pod.containers)
        if self.begun:
            self.most_away = max(self.most_away, sum(missing.values()))
            self.away_in_workload = max(self.away_in_workload, *missing.values())

    @property
    def begun(self) -> bool:
        """All pods were ready once."""
        return self.cluster.now >= START + timedelta(minutes=3)

    def evicted(self) -> int:
        """Evictions that the cluster accepted, by the outcomes."""
        records = self.log.poll({(TOPIC_NAMES.wire("outcomes"), 0): 0}, limit=1_000_000)
        events = [self.context.codec.decode_or_none(record) for record in records]
        done = [e for e in events if isinstance(e, ActionFinished) and e.action is Action.EVICT and e.result is Result.DONE]
        return len({each.id for each in done})

    def wrong(self) -> int:
        return sum(pod.asked_requests["app"] != TARGET for pod in self.client.pods())


def admit(pod: Pod) -> Patch:
    """What the webhook does, from the beginning of the storm on."""
    return Patch(requests={"app": TARGET}) if pod.created > START + timedelta(minutes=2) else Patch()


def half_then_restarted(storm: Storm, minutes: int) -> Storm:
    """So many minutes, with everything started anew in the middle: worker, consumers and source."""
    storm.play(minutes // 2)
    storm.play(minutes - minutes // 2)
    return storm
