"""The consumers of one simulated cluster in one process, through all that the torture does to them, in virtual time.

The stages, the consumers, the webhook and the judge are those of the torture; the log is in memory, and a round takes ten
seconds that nobody waits for. So every mutant gets the whole of it: plans that wait for a pause, plans that expire while nobody
is there, a pause at work, and a restart.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice

from kubernetes import client as official

from agents.logic.admission.admission_settings import AdmissionSettings
from agents.processes.admission_reviewer import AdmissionReviewer
from agents.simulate import SimulatedRound, SimulatedWorld, TickGrid, simulate
from schemas import times
from schemas.units import Seconds
from streams.codec.event_codec import Codec
from streams.consumers.executing.executor import Executor
from streams.consumers.pods.evictor import evictor
from streams.consumers.pods.resizer import resizer
from streams.consumers.webhook.admission_view import AdmissionView
from streams.consumers.webhook.outcome_queue import OutcomeQueue
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.publishing.operator_log import OperatorLog
from streams.simulated.api_server import SimulatedServer
from streams.simulated.simulated_client import SimulatedClient
from streams.sources.cluster_poller import ClusterPoller
from streams.topics import TOPICS, Topics
from tests.torture import cluster_verdict, lively_stages
from tests.torture.judge import ConsumerHistory, Pause
from tests.torture.mutant_consumers import Parts
from tests.torture.recording_cluster import RecordingCluster
from tests.torture.torture_cluster import NODES, allowed, deployments, policies

NAME = "west"
START = datetime(2026, 3, 1, tzinfo=UTC)
PERIOD = 10_000
"""Milliseconds of a round."""
LONG = int(lively_stages.UPDATES.expires / (PERIOD / 1000)) + 10
"""Rounds in which a plan expires."""


@dataclass
class MutantWorld:
    """The world of one run. `parts` are what its consumers are made of."""

    parts: Parts
    history: ConsumerHistory = field(default_factory=ConsumerHistory)

    def __post_init__(self) -> None:
        self.topics, self.now = Topics("world", 1), START
        self.log = MemoryLog(lambda: times.to_ms(self.now))
        for topic in TOPICS:
            self.log.create(self.topics.wire(topic.name), 1)
        self.cluster = RecordingCluster(name=NAME, seed=1, start=START, nodes=NODES, deployments=deployments(2))
        self.cluster.clock = self._clock
        self.cluster.reviewed_by(lambda body: self.admission.answer(body) if self.at_work else None)
        self.server = SimulatedServer(self.cluster)
        self.poller = ClusterPoller(SimulatedClient(self.cluster), LogContext.of(self.log, self.topics, NAME))
        self.at_work = True
        self._begin()

    def run(self) -> tuple[Counter[str], list[str]]:
        """Live through everything; figures, and what is wrong."""
        operator = OperatorLog(LogContext.of(self.log, self.topics, NAME))
        operator.publish(*policies(NAME, START), allowed(NAME, START, paused=False))
        world = SimulatedWorld(self._advance, [self._consume])
        grid = TickGrid(times.to_ms(START), PERIOD)
        with self.server:
            rounds = simulate(LogContext.of(self.log, self.topics, NAME), lively_stages.STAGES, world, grid)
            self._live(rounds, 60)
            self.at_work = False
            self._live(rounds, 15)
            self._pause(operator)
            self.at_work = True
            self._live(rounds, 10)
            self._resume(operator)
            self._live(rounds, 30)
            self._pause(operator)
            self._live(rounds, 20)
            self._resume(operator)
            self.at_work = False
            self._live(rounds, LONG)
            self.at_work = True
            self._begin()
            self._live(rounds, LONG)
        records = [r for name in cluster_verdict.READ for r in self.log.poll({(self.topics.wire(name), 0): 0}, limit=10**9)]
        return cluster_verdict.verdict(self.cluster, records, Codec(self.topics), self.history)

    def _begin(self) -> None:
        """Consumers as a new process has them."""
        configuration = official.Configuration()
        configuration.host = self.server.url
        context = LogContext(self.log, self.topics, self.parts.codec(self.topics), NAME)
        self.executors: list[Executor] = [
            make(context, self.parts.client(NAME, official.ApiClient(configuration))) for make in (resizer, evictor)
        ]
        make_reviewer = partial(AdmissionReviewer, NAME, settings=AdmissionSettings())
        self.view, self.outcomes = AdmissionView(context, make_reviewer, heartbeat=Seconds(3600.0)), OutcomeQueue(context)
        self.admission = self.parts.admission(self.view, self.outcomes)

    def _clock(self) -> float:
        return self.now.timestamp()

    @staticmethod
    def _live(rounds: Iterator[SimulatedRound], count: int) -> None:
        for _ in islice(rounds, count):
            pass

    def _advance(self, at: datetime) -> None:
        self.now = at
        self.cluster.advance(at)
        self.poller.scrape(at)

    def _consume(self) -> None:
        if self.at_work:
            self.view.catch_up()
            for executor in self.executors:
                executor.poll_once()
            self.outcomes.flush()

    def _pause(self, operator: OperatorLog) -> None:
        operator.publish(allowed(NAME, self.now, paused=True))
        self.history.pauses.append(Pause((self.now + timedelta(seconds=1)).timestamp(), math.inf))

    def _resume(self, operator: OperatorLog) -> None:
        self.history.pauses[-1].end = self.now.timestamp()
        operator.publish(allowed(NAME, self.now, paused=False))
