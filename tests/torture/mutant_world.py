"""Two instances of one cluster's consumers in one process, through all that the torture does to them, in virtual time.

The stages, the consumers, the webhook and the judge are those of the torture; the log is in memory, and a round takes ten
seconds that nobody waits for. So every mutant gets the whole of it: a holder of the Lease that is frozen in an act, plans that
wait for a pause, plans that expire while nobody is there, a pause at work, and a restart.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice

from kubernetes import client as official

from agents.logic.admission.vpa_manifest import AdmissionSettings
from agents.processes.admission_reviewer import AdmissionReviewer
from agents.run.simulate import SimulatedRound, SimulatedWorld, TickGrid, simulate
from schemas import times
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from schemas.facts.usage import ContainerOOMKilled
from schemas.names import PodName
from schemas.units import Seconds
from streams.clients.kube.cluster_client import KubernetesClient
from streams.codec.event_codec import Codec
from streams.consumers.evictor import evictor
from streams.consumers.executing.executor import Executor
from streams.consumers.executing.holder_lease import DURATION, HolderLease
from streams.consumers.resizer import resizer
from streams.consumers.webhook.admission import AdmissionView
from streams.consumers.webhook.outcome_queue import OutcomeQueue
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.publishing.operator_log import OperatorLog
from streams.simulated.api_server import SimulatedClient, SimulatedServer
from streams.sources.simulated_cluster_poller import SimulatedClusterPoller
from streams.topics import TOPICS, Topics
from tests.support.api_objects import ApiObjects
from tests.torture import cluster_verdict, fast_pipeline_settings
from tests.torture.judge import ConsumerHistory, Pause
from tests.torture.mutant_consumers import Parts
from tests.torture.recording_cluster import RecordingCluster
from tests.torture.torture_cluster import NODES, allowed, deployments, looping, policies, still_looping

NAME = "west"
START = datetime(2026, 3, 1, tzinfo=UTC)
PERIOD = 10_000
"""Milliseconds of a round."""
MOST_KILLS = 3
"""Of one pod, until it has what it needs."""
LIVES = 200
"""Rounds before the first trouble: longer than a pause of the webhook, so that new pods are due a patch on both sides of one."""
LONG = int(fast_pipeline_settings.UPDATES.expires / (PERIOD / 1000)) + 10
"""Rounds in which a plan expires."""


@dataclass
class Instance:
    """The executors of one process, and the Leases that they act by."""

    executors: Sequence[Executor]
    leases: Sequence[HolderLease]

    def poll_once(self) -> None:
        """Renew the Leases, or look who has them, and then work."""
        for lease, executor in zip(self.leases, self.executors, strict=True):
            lease.renew()
            executor.poll_once()


@dataclass
class MutantWorld:
    """The world of one run. `parts` are what its consumers are made of."""

    parts: Parts
    history: ConsumerHistory = field(default_factory=ConsumerHistory)
    to_freeze: bool = False
    """The holder of the Lease is to be frozen in its next act."""
    slept: float = 0.0
    """Seconds, beside those of the rounds, that the clocks of both instances have seen."""
    take_overs: int = 0

    def __post_init__(self) -> None:
        self.topics, self.now, self.objects = Topics("world", 1), START, ApiObjects()
        self.log = MemoryLog(lambda: times.to_ms(self.now))
        self.codec = Codec(self.topics)
        for topic in TOPICS:
            self.log.create(self.topics.wire(topic.name), 1)
        self.cluster = RecordingCluster(name=NAME, seed=1, start=START, nodes=NODES, deployments=(*deployments(4), looping()))
        self.cluster.clock = self._clock
        self.cluster.reviewed_by(self._review)
        self.server = SimulatedServer(self.cluster)
        self.poller = SimulatedClusterPoller(SimulatedClient(self.cluster), LogContext.of(self.log, self.topics, NAME))
        self.at_work = True
        self._begin()

    def run(self, is_enough: Callable[[list[str]], bool]) -> tuple[Counter[str], list[str]]:
        """Live through everything; figures, and what is wrong. Ends early where what is wrong up to then `is_enough`."""
        operator = OperatorLog(LogContext.of(self.log, self.topics, NAME))
        operator.publish(*policies(NAME, START), allowed(NAME, START, paused=False))
        world = SimulatedWorld(self._advance, [self._consume])
        grid = TickGrid(times.to_ms(START), PERIOD)
        with self.server:
            rounds = simulate(
                LogContext.of(self.log, self.topics, NAME), fast_pipeline_settings.stages(self.topics.partitions), world, grid
            )
            for _ in self._chapters(rounds, operator):
                figures, wrong = self._verdict()
                if is_enough(wrong):
                    break
        return figures, wrong

    def _chapters(self, rounds: Iterator[SimulatedRound], operator: OperatorLog) -> Iterator[None]:
        """All that happens, one after the other."""
        for _ in range(5):
            yield from self._chapter(rounds, LIVES // 5)
        self.to_freeze = True
        yield from self._chapter(rounds, 30)
        self.at_work = False
        self._live_until_planned(rounds)
        self._pause(operator)
        self.at_work = True
        yield from self._chapter(rounds, 10)
        self._resume(operator)
        yield from self._chapter(rounds, 30)
        self._pause(operator)
        yield from self._chapter(rounds, 20)
        self._resume(operator)
        self.at_work = False
        self._live(rounds, LONG)
        self.at_work = True
        self._begin()
        yield from self._chapter(rounds, LONG)
        self.at_work = False
        self._live_until_planned(rounds)
        # Nothing new is planned from here on, so whoever acts afterwards acts on a plan that has expired.
        self.history.off_since = self.now.timestamp()
        operator.publish(*policies(NAME, self.now, off=True))
        self._live(rounds, LONG)
        self.at_work = True
        yield from self._chapter(rounds, 5)

    def _verdict(self) -> tuple[Counter[str], list[str]]:
        records = [r for name in cluster_verdict.READ for r in self.log.poll({(self.topics.wire(name), 0): 0}, limit=10**9)]
        kills = self._kills()
        figures, wrong = cluster_verdict.verdict(self.cluster, records, self.codec, self.history)
        return figures + Counter({"take-overs": self.take_overs, "kills": sum(kills.values())}), [*wrong, *self._loops(kills)]

    def _kills(self) -> Counter[str]:
        """How often containers of each looping pod were killed, by its uid."""
        records = self.log.poll({(self.topics.wire("oom-events"), 0): 0}, limit=10**9)
        events = (self.codec.decode_or_none(record) for record in records)
        return Counter(event.pod.uid for event in events if isinstance(event, ContainerOOMKilled))

    def _loops(self, kills: Counter[str]) -> Iterator[str]:
        """Pods that went on being killed, or that still have too little at the end."""
        for uid, count in kills.items():
            if count > MOST_KILLS:
                yield f"{uid[:8]} was killed {count} times"
        yield from still_looping(self.cluster)

    def _begin(self) -> None:
        """Consumers as new processes have them."""
        context = LogContext(self.log, self.topics, self.parts.codec(self.topics), NAME)
        self.holder, self.second = self._instance(context, "one"), self._instance(context, "two")
        make_reviewer = partial(AdmissionReviewer, NAME, settings=AdmissionSettings())
        self.view, self.outcomes = AdmissionView(context, make_reviewer, heartbeat=Seconds(3600.0)), OutcomeQueue(context)
        self.admission = self.parts.admission(self.view, self.outcomes)

    def _instance(self, context: LogContext, name: str) -> Instance:
        frozen = self._frozen

        class Frozen(self.parts.client):  # type: ignore[name-defined,misc]  # the client is whatever the mutant has
            def evict(self, pod: PodName) -> None:  # its outcome is said at once; a resize is followed first
                super().evict(pod)
                frozen(name)

        def client() -> KubernetesClient:
            return Frozen(NAME, official.ApiClient(official.Configuration(host=self.server.url)))

        leases = [
            self.parts.lease(self.objects, f"ullage-{what}", name, clock=self._lease_clock) for what in ("resizer", "evictor")
        ]
        return Instance((resizer(context, client(), leases[0]), evictor(context, client(), lease=leases[1])), leases)

    def _frozen(self, name: str) -> None:
        """The holder sleeps after an act, for so long that the other instance takes over and works; then it wakes up."""
        if self.to_freeze and name == "one":
            self.to_freeze = False
            self.second.poll_once()
            self.slept += DURATION
            self.second.poll_once()
            self.take_overs += all(lease.held for lease in self.second.leases)

    def _clock(self) -> float:
        return self.now.timestamp()

    def _lease_clock(self) -> float:
        return self._clock() + self.slept

    @staticmethod
    def _live(rounds: Iterator[SimulatedRound], count: int) -> None:
        for _ in islice(rounds, count):
            pass

    def _chapter(self, rounds: Iterator[SimulatedRound], count: int) -> Iterator[None]:
        self._live(rounds, count)
        yield

    def _live_until_planned(self, rounds: Iterator[SimulatedRound]) -> None:
        """Until there are a resize and an eviction that nobody has carried out, for a pause to forbid."""
        wire, kinds = self.topics.wire("pod-updates"), set[type]()
        position = self.log.end(wire, 0)
        for _ in islice(rounds, LONG):
            plans = self.log.poll({(wire, 0): position}, limit=10**9)
            kinds.update(type(self.codec.decode_or_none(plan)) for plan in plans)
            if {ResizePlanned, EvictionPlanned} <= kinds:
                return
            position = self.log.end(wire, 0)

    def _advance(self, at: datetime) -> None:
        self.now = at
        self.cluster.advance(at)
        self.poller.scrape(at)

    def _consume(self) -> None:
        if self.at_work:
            self.view.catch_up()
            self.admission.settle()
            for instance in (self.holder, self.second):
                instance.poll_once()
            self.outcomes.flush()

    def _review(self, body: bytes) -> bytes | None:
        """The webhook's answer, which has read the log up to now, as its thread does in ten seconds."""
        if not self.at_work:
            return None
        self.view.catch_up()
        return self.admission.answer(body)

    def _pause(self, operator: OperatorLog) -> None:
        operator.publish(allowed(NAME, self.now, paused=True))
        self.history.pauses.append(Pause((self.now + timedelta(seconds=1)).timestamp(), math.inf))

    def _resume(self, operator: OperatorLog) -> None:
        self.history.pauses[-1].end = self.now.timestamp()
        operator.publish(allowed(NAME, self.now, paused=False))
