"""The torture of replicas: worker, consumers, views of the metrics API and the API are killed at work; then all is judged.

`python -m tests.torture --replicas [--short] [--seed N] [--mutant NAME]`. On a real Kafka, with load, EHPAs and an API that are
made up. Consumers die by themselves, too, before or after writes, so between an act and its outcome.
"""

import asyncio
import os
import random
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from schemas.decisions.replica_plans import LoadForecast, ReplicasPlanned, ScalingMode
from schemas.outcomes import Action, ActionFinished, ObjectWritten
from schemas.policies.control import ControlChanged, Mode
from schemas.units import Fraction
from streams.broker import Broker, BrokerSettings
from streams.broker.preflight import free_ports
from streams.codec.event_codec import Codec
from streams.errors import LogUnavailable
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import NewRecord
from streams.topics import Topics
from tests.support.certificates import Authority
from tests.torture import faulty_replicas, faulty_worker, kafka_topics, last_turn, replica_judge, replica_load, waiting
from tests.torture.forked_processes import ForkedProcess
from tests.torture.generated_load import Clock
from tests.torture.lease_server import LeaseServer
from tests.torture.metrics_prober import MetricsProber
from tests.torture.processes import Process
from tests.torture.recomputation import Report
from tests.torture.replica_api import ReplicaApi
from tests.torture.replica_load import ReplicaLoad
from tests.torture.torture_clocks import TortureClocks
from tests.torture.torture_run import say
from tests.torture.unexpected_exits import unexpected

NAME = replica_load.CLUSTER
PERIOD = 20_000
TICK = 0.5
"""A tick is twenty simulated seconds and comes every half: time runs forty times as fast."""
VIEWS, CONSUMERS = 2, 2
FROZEN = 14.0
"""Seconds; a Lease lasts ten."""


@dataclass(frozen=True)
class ReplicaTortureOptions:
    """What a run is to be. `blows`: what is done, in an order that follows from the seed; `die`: chance at each write."""

    seed: int = 1
    blows: Mapping[str, int] = field(
        default_factory=lambda: {
            "worker": 5, "consumer": 6, "view": 6, "api": 4, "pause": 3, "frozen": 2, "log": 3, "no forecasts": 2,
            "clock": 4,
        }
    )  # fmt: skip
    die: float = 0.01
    between: float = 4.0
    """Seconds at most between two blows."""
    acts: int = 3
    """Scales that were set since the last blow before the next one falls."""
    calm: float = 20.0
    """Seconds to wait for them; then it falls all the same."""
    people: float = 4.0
    """Seconds on average between two changes by people."""
    longest: float = 1200.0
    late: float = 900.0
    """Seconds at most for what must have happened and has not when the last blow has fallen: a slow machine's."""
    settle: float = 90.0
    minimum: Mapping[str, int] = field(
        default_factory=lambda: {
            "scaled": 100, "objects written": 60, "put right": 5, "answers": 2000, "outdated": 50, "forecasts": 100, "deaths": 8,
            "steps": 5, "refused": 1,
        }
    )  # fmt: skip
    mutant: str = ""


SHORT = ReplicaTortureOptions(
    blows={"consumer": 1, "view": 1, "api": 1, "pause": 1, "log": 1, "no forecasts": 1, "clock": 2},
    die=0.001,
    between=0.5,
    acts=1,
    calm=2.0,
    people=2.0,
    longest=40.0,
    late=120.0,
    settle=45.0,
    minimum={"scaled": 8, "objects written": 10, "answers": 200, "outdated": 5, "forecasts": 20},
)


@dataclass
class ReplicaRun:
    """A run under way."""

    options: ReplicaTortureOptions
    broker: Broker
    folder: Path
    done: Counter[str] = field(default_factory=Counter)
    pauses: list[tuple[float, float]] = field(default_factory=list)
    deaths: list[float] = field(default_factory=list)
    away: list[tuple[float, float]] = field(default_factory=list)
    """When the broker was frozen."""

    def __post_init__(self) -> None:
        seed = self.options.seed
        self.chance, self.topics = random.Random(seed), Topics(f"replicas{seed}", 1)
        self.clock = Clock(time.time(), PERIOD / 1000 / TICK)
        self.stages, self.codec = faulty_worker.stages("replicas"), Codec(self.topics)
        self.api, self.leases = ReplicaApi(seed), LeaseServer()
        self.log, self.operator = (KafkaLog(KafkaConnection(self.broker.bootstrap)) for _ in range(2))
        self.load = ReplicaLoad(self.topics, self.api, seed, replica_load.now(self.clock()))
        self.stop, self.busy = threading.Event(), True
        self.thread = threading.Thread(target=self._send, daemon=True)
        authority = Authority.make(self.folder, "front")
        self.ports = free_ports(VIEWS)
        self.prober = MetricsProber(self.ports, authority.sign("aggregator", ["127.0.0.1"]), self.clock)
        told = {"epoch": self.clock.epoch, "speed": self.clock.speed, "period": PERIOD, "faults": 0.3}
        self.clocks = TortureClocks(self._common | told, self.folder, self.done, seed=self.options.seed)
        self.worker = self._process("tests.torture.faulty_worker", "worker", {"name": NAME, "stages": "replicas", "skip": 0.003})
        self.consumers = [self._replica_process("consumer", n) for n in range(CONSUMERS)]
        self.views = [self._replica_process("view", n) for n in range(VIEWS)]
        for n, process in enumerate(self.views):
            process.told |= {"port": self.ports[n], "authority": str(authority.file)}

    @property
    def _common(self) -> dict[str, object]:
        """What every process is told."""
        return {"brokers": self.broker.bootstrap, "prefix": self.topics.prefix, "partitions": 1}

    def _process(self, module: str, log: str, told: Mapping[str, object]) -> Process:
        return Process(module, {**self._common, **told}, self.folder / f"{log}.log", ForkedProcess)

    def _replica_process(self, role: str, instance: int) -> Process:
        told = {
            "role": role, "instance": instance, "api": self.api.url, "leases": self.leases.url, "name": NAME,
            "die": self.options.die, "epoch": self.clock.epoch, "speed": self.clock.speed, "mutant": self.options.mutant,
        }  # fmt: skip
        return self._process("tests.torture.faulty_replicas", f"{role}{instance}", told)

    @property
    def all(self) -> list[Process]:
        """Every process but the clocks."""
        return [self.worker, *self.consumers, *self.views]

    async def enough(self) -> bool:
        """Whether all happened as often as a run must show."""
        figures = replica_judge.figures(await self.evidence()) + self._counted()
        return all(figures[what] >= number for what, number in self.options.minimum.items())

    def open(self) -> None:
        """Begin."""
        self.control(paused=False)
        for server in (self.api, self.leases, self.prober):
            server.open()
        self.operator.append(self.load.begin())
        self.clocks.start()
        for process in self.all:
            process.start()
        self.thread.start()

    def control(self, *, paused: bool) -> None:
        """Switch the pause on or off; it is in the log when this returns."""
        event = ControlChanged(self.load.start, NAME, Mode.APPLY, paused=paused, budget=Fraction(1.0))
        self.operator.append(self.codec.encode_for_all(event, topic="control", key=NAME, source="/ullage/source/t"))

    def _send(self) -> None:
        """Say what is seen, and now and then what people did; what the log does not take is said again."""
        unsent: list[NewRecord] = []
        began, told, people = time.monotonic(), False, time.monotonic()
        while not self.stop.wait(TICK):
            if not told and time.monotonic() > began + 3.0:
                told = True
                unsent += self.load.past()
            moment = replica_load.now(self.clock())
            if self.busy and told and time.monotonic() > people:
                people = time.monotonic() + self.chance.uniform(0.2, 1.8) * self.options.people
                unsent += self.load.people(moment)
            unsent += self.load.at(moment)
            with suppress(LogUnavailable):
                self.log.append(unsent)
                unsent = []

    # What is done to them

    async def rest(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Let it work, and start again whoever died by himself."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not until():
            for process in self.all:
                code = process.revive()
                if code is not None and process in self.consumers:
                    self.deaths.append(time.time())
                if code not in (None, 9):
                    self.done[f"{process.module.rpartition('.')[2]} exit {code}"] += 1
            await asyncio.sleep(0.1)

    async def hurt(self) -> None:
        """All blows, each once scales were set since the last."""
        blows: Mapping[str, Callable[[], Awaitable[None]]] = {
            "worker": lambda: self._kill(self.worker), "consumer": lambda: self._kill(self.chance.choice(self.consumers)),
            "view": lambda: self._kill(self.chance.choice(self.views)), "api": self._api_away, "pause": self._pause,
            "frozen": self._frozen, "log": self._log_away, "no forecasts": self._no_forecasts, "clock": self.clocks.strike,
        }  # fmt: skip
        order = [name for name, number in self.options.blows.items() for _ in range(number)]
        self.chance.shuffle(order)
        end = time.monotonic() + self.options.longest
        await self.rest(30.0, lambda: len(self.api.scaled) >= self.options.acts)
        for name in order:
            if time.monotonic() > end and name != "no forecasts":
                self.done["blows left out"] += 1
                continue
            wanted = len(self.api.scaled) + self.options.acts
            await self.rest(self.options.calm, lambda wanted=wanted: len(self.api.scaled) >= wanted)  # type: ignore[misc]  # bound at once
            await self.rest(self.chance.uniform(0.0, self.options.between))
            await blows[name]()
            self.done[name] += 1
        await waiting.until_enough(self.enough, self.rest, self.options.late)

    async def _kill(self, process: Process) -> None:
        process.kill()
        if process in self.consumers:
            self.deaths.append(time.time())
        await self.rest(self.chance.uniform(0.0, 1.0))
        process.start()

    async def _api_away(self) -> None:
        self.api.away = True
        await self.rest(self.chance.uniform(0.5, 3.0))
        self.api.away = False

    async def _log_away(self) -> None:
        """The broker is frozen: nobody can read or append, and connections hang."""
        begun = time.time()
        os.kill(self.broker.pid, signal.SIGSTOP)
        await self.rest(self.chance.uniform(2.0, 5.0))
        os.kill(self.broker.pid, signal.SIGCONT)
        self.away.append((begun, time.time()))

    async def _pause(self) -> None:
        await asyncio.to_thread(self.control, paused=True)
        begin = time.time()
        await self.rest(5.0)
        self.pauses.append((begin, time.time()))
        await asyncio.to_thread(self.control, paused=False)

    async def _frozen(self) -> None:
        """Whoever holds the Lease sleeps longer than it lasts, and wakes up beside his successor."""
        holder = self.leases.holder(faulty_replicas.LEASE).partition("-")[0]
        victim = self.consumers[int(holder)] if holder.isdigit() else self.consumers[0]
        victim.send(signal.SIGSTOP)
        await self.rest(FROZEN)
        victim.send(signal.SIGCONT)

    async def _no_forecasts(self) -> None:
        """The worker is away until what it forecast has expired, and a little longer; before, somebody was told a forecast."""
        await self.rest(60.0, lambda: any(answer.value is not None for answer in self.prober.answers))
        self.worker.kill()
        before = self.prober.outdated
        await self.rest(60.0, lambda: self.prober.outdated > before)
        await self.rest(3.0)
        self.worker.start()

    # The end

    async def settle(self) -> bool:
        """No more changes by people, no more deaths; whether everything came to rest before the time was over."""
        self.busy = False
        for process, fault in ((self.worker, "skip"), *((each, "die") for each in self.consumers)):
            process.kill()
            process.told[fault] = 0.0
            process.start()
        self.deaths.append(time.time())
        end = time.monotonic() + self.options.settle
        kept = await waiting.until_calm(self._as_wanted, self.rest, end, apart=1.0)
        self.stop.set()
        await asyncio.to_thread(self.thread.join, 30)
        self.worker.kill()
        return kept and await waiting.until_calm(self._answered, self.rest, end + 30.0, apart=1.0)

    async def _as_wanted(self) -> bool:
        seen = await self.evidence()
        late = [plan for plan in self._open(seen) if plan.expires.timestamp() < seen.end]
        return not late and not list(replica_judge.remains(seen))

    async def _answered(self) -> bool:
        """Without a worker there is an end to plans, too: each is carried out, or expires as time goes on."""
        return not self._open(await self.evidence())

    def _open(self, seen: replica_judge.ReplicaEvidence) -> list[ReplicasPlanned]:
        answered = {one.decision for one in seen.outcomes}
        return [plan for plan in seen.plans if plan.carried_out_by is ScalingMode.DIRECT and plan.id not in answered]

    async def evidence(self) -> replica_judge.ReplicaEvidence:
        """What the log and the API show now."""
        plans: dict[str, ReplicasPlanned] = {}
        forecasts: dict[str, LoadForecast] = {}
        outcomes: list[ActionFinished] = []
        objects: list[ObjectWritten] = []
        for name in ("replica-plans", "load-forecasts", "outcomes"):
            for record in (await kafka_topics.whole(self.broker.bootstrap, self.topics.wire(name), 1))[0]:
                match self.codec.decode_or_none(record):
                    case ReplicasPlanned() as plan:
                        plans.setdefault(plan.id, plan)
                    case LoadForecast() as forecast:
                        forecasts.setdefault(forecast.id, forecast)
                    case ActionFinished(action=Action.SCALE) as outcome:
                        outcomes.append(outcome)
                    case ObjectWritten() as written:
                        objects.append(written)
                    case _:
                        pass
        with self.api.lock:
            ehpas = {name: found for (_, name), found in self.api.ehpas.held.items()}
            hpas = {name: found for (_, name), found in self.api.hpas.held.items()}
            sets, written_there = list(self.api.scaled), list(self.api.written)
        return replica_judge.ReplicaEvidence(
            sets, written_there, list(plans.values()), outcomes, objects, list(forecasts.values()), list(self.prober.answers),
            ehpas, hpas, self.clock() / 1000, self.clock.epoch, self.clock.origin, self.clock.speed, self.deaths,
            self.pauses, self.done["frozen"], dict.fromkeys(ehpas, replica_load.BEGIN),
        )  # fmt: skip

    def judged(self, seen: replica_judge.ReplicaEvidence) -> tuple[Counter[str], list[str]]:
        """Figures, and what is wrong."""
        figures, wrong = replica_judge.judge(seen)
        return figures + self._counted(), wrong

    def _counted(self) -> Counter[str]:
        deaths = [line for process in self.consumers for line in process.lines("died: ")]
        return Counter({"deaths": len(deaths), "steps": len(set(deaths)), "put right": self.load.by_hand})

    def unexpected_exits(self) -> list[str]:
        """Processes that ended by themselves, and that the torture did not bring to it."""
        return unexpected([*self.clocks.all, *self.all], self.away)

    def end(self) -> None:
        """End all."""
        with suppress(OSError):
            os.kill(self.broker.pid, signal.SIGCONT)
        self.stop.set()
        self.clocks.end()
        for process in self.all:
            process.send(signal.SIGCONT)
            process.kill()
        if self.thread.is_alive():
            self.thread.join(30)
        for server in (self.prober, self.api, self.leases):
            server.close()
        for log in (self.log, self.operator):
            log.close()


async def run(options: ReplicaTortureOptions) -> Report:
    """One run; its report."""
    folder, began = Path(tempfile.mkdtemp(prefix="ullage-replicas-")), time.monotonic()
    broker = Broker(BrokerSettings(heap_mb=384, quick=True, start_timeout=180.0)).start()
    report = Report()
    made: ReplicaRun | None = None
    try:
        made = ReplicaRun(options, broker, folder)
        await asyncio.to_thread(kafka_topics.create, broker.bootstrap, made.topics)
        await asyncio.to_thread(made.open)
        await made.hurt()
        settled = await made.settle()
        made.clocks.end()
        for process in made.consumers:
            process.kill()
        made.prober.close()
        seen = await made.evidence()
        report = await last_turn.recomputed(made, NAME, PERIOD)
        figures, wrong = made.judged(seen)
        report.figures.update(figures)
        report.wrong += [*wrong, *made.unexpected_exits(), *([] if settled else ["it did not come to rest"])]
        report.require(dict(options.minimum))
    finally:
        if made is not None:
            made.end()
        broker.close()
    blows = ", ".join(f"{what} {n}" for what, n in sorted(made.done.items()))
    mutant = f" with {options.mutant}" if options.mutant else ""
    say(f"replicas seed {options.seed}{mutant} | {time.monotonic() - began:.0f} s | {blows} | {report}")
    if report.exact:
        shutil.rmtree(folder)
    else:
        texts = Counter(answer.text for answer in made.prober.answers if answer.value is None) if made is not None else Counter()
        say(f"logs in {folder}; refusals: {texts.most_common(3)}")
    return report
