"""The torture of node groups: worker, source, consumer and AWS double are killed at work, on a real Kafka; then all is judged.

`python -m tests.torture --nodes [--short] [--seed N] [--mutant NAME]`. AWS is moto's, behind a process that gets killed; the
nodes stand in a simulated cluster, whose pods come and go. Source and consumers die by themselves, too, before or after calls.
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
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agents.processes.source_simulated import SimulationLoop
from schemas.decisions.node_updates import NodeRemovalPlanned, ScaleUpPlanned, SizeCorrectionPlanned, SoftTaintPlanned
from schemas.facts.nodes import NodeGroupSeen
from schemas.names import Amounts
from schemas.outcomes import Action, ActionFinished
from schemas.policies.control import ControlChanged, Mode
from schemas.units import Bytes, Cores, Fraction
from streams.broker import Broker, BrokerSettings
from streams.broker.preflight import free_ports
from streams.codec.event_codec import Codec
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log_context import LogContext
from streams.simulated.api_server import SimulatedServer
from streams.simulated.cluster_spec import ContainerTemplate, SimulatedDeployment
from streams.simulated.kube_json import SchedulingChanges
from streams.sources.simulated_cluster_poller import SimulatedSchedulingPoller
from streams.topics import Topics
from tests.torture import faulty_worker, kafka_topics, last_turn, node_judge, waiting
from tests.torture.forked_processes import ForkedProcess
from tests.torture.generated_load import Clock
from tests.torture.group_weather import GroupWeather
from tests.torture.lease_server import LeaseServer
from tests.torture.node_cloud import DELETED, LOST, TAINT, NodeCluster, RecordingAws
from tests.torture.node_torture_options import NodeTortureOptions
from tests.torture.processes import Process
from tests.torture.recomputation import Report
from tests.torture.torture_clocks import TortureClocks
from tests.torture.torture_run import say
from tests.torture.unexpected_exits import unexpected

NAME = "nodes"
PERIOD = 5_000
TICK = 0.5
"""A tick is five simulated seconds and comes every half: time runs ten times as fast."""
WAVE = 12.0
"""Seconds of real time in which pods come, and then none, so that groups grow and shrink."""
GROUPS = {"a": "c5.xlarge", "b": "c5.xlarge", "short": "m5.large", LOST: "m6g.large", DELETED: "m5.large"}
"""The groups and their types. AWS delivers nothing for the short one, and says so; instances of the lost one become no nodes."""
SIZES = {"a": 2, DELETED: 3}
"""What groups want in the beginning, if that is not one."""
SHORTAGE = (
    "We currently do not have sufficient m5.large capacity in the Availability Zone you requested (eu-central-1a). "
    "Launching EC2 instance failed."
)
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_EC2_METADATA_DISABLED": "true",
    "MOTO_EC2_LOAD_DEFAULT_AMIS": "false",
}
ACTIONS = (Action.SCALE_UP, Action.CORRECT_SIZE, Action.REMOVE_NODE, Action.SOFT_TAINT)


@dataclass
class NodeRun:
    """A run under way."""

    options: NodeTortureOptions
    broker: Broker
    folder: Path
    done: Counter[str] = field(default_factory=Counter)
    pauses: list[tuple[float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.options.seed)
        self.topics, self.clock = Topics(f"nodes{self.options.seed}", 1), Clock(time.time(), PERIOD / 1000 / TICK)
        self.stages = faulty_worker.stages("nodes")
        self.codec, self.stop = Codec(self.topics), threading.Event()
        self.aws, self.leases = RecordingAws(), LeaseServer()
        self.log, self.operator = (KafkaLog(KafkaConnection(self.broker.bootstrap)) for _ in range(2))
        (self.port,) = free_ports(1)
        asked = Amounts(Cores(1.0), Bytes(1 << 30))
        template = ContainerTemplate("app", None, asked)
        web = SimulatedDeployment("shop", "web", 3, (template,), keep=2)
        self.job = SimulatedDeployment("shop", "job", 0, (template,))
        start = datetime.fromtimestamp(self.clock() / 1000, UTC)
        self.start = start
        self.cluster = NodeCluster(self.aws, name=NAME, seed=self.options.seed, deployments=(web,), start=start)
        self.server = SimulatedServer(self.cluster)
        poller = SimulatedSchedulingPoller(
            LogContext(self.log, self.topics, Codec(self.topics), NAME), SchedulingChanges(self.cluster).take
        )
        self.loop = SimulationLoop(self.cluster, self.log, self.topics, poller.poll, period=timedelta(seconds=PERIOD / 1000))
        self.thread = threading.Thread(target=self.loop.run, args=(self.stop,), daemon=True)
        chance = random.Random(self.options.seed)
        self.weather = GroupWeather(self.aws, chance, ("a", "b"), self._marked)
        told = {"epoch": self.clock.epoch, "speed": self.clock.speed, "period": PERIOD, "faults": 0.3}
        self.clocks = TortureClocks(self._common | told, self.folder, self.done, seed=self.options.seed)
        self.worker = self._process("tests.torture.faulty_worker", "worker", {"name": "nodes", "stages": "nodes", "skip": 0.003})
        self.source = self._node_process("source", 0)
        self.consumers = [self._node_process("consumer", n) for n in range(self.options.instances)]
        behind = int(self.aws.url.rpartition(":")[2])
        self.front = self._process("tests.torture.aws_proxy", "front", {"port": self.port, "to": behind})

    @property
    def _common(self) -> dict[str, object]:
        """What every process is told."""
        return {"brokers": self.broker.bootstrap, "prefix": self.topics.prefix, "partitions": 1}

    def _process(self, module: str, log: str, told: Mapping[str, object]) -> Process:
        return Process(module, {**self._common, **told}, self.folder / f"{log}.log", ForkedProcess)

    def _node_process(self, role: str, instance: int) -> Process:
        told = {
            "role": role, "instance": instance, "aws": f"http://127.0.0.1:{self.port}", "cluster": self.server.url,
            "leases": self.leases.url, "name": NAME, "die": self.options.die, "epoch": self.clock.epoch,
            "speed": self.clock.speed, "mutant": self.options.mutant, "environment": ENVIRONMENT,
            "held": self.options.instances > 1,
        }  # fmt: skip
        return self._process("tests.torture.faulty_nodes", f"{role}{instance}", told)

    @property
    def all(self) -> list[Process]:
        """Every process but the clocks."""
        return [self.worker, self.source, *self.consumers, self.front]

    @property
    def changes(self) -> int:
        """How often AWS changed a group so far."""
        return len(self.aws.acts)

    async def enough(self) -> bool:
        """Whether all happened as often as a run must show, or what it waits for."""
        if self.options.until_lost:
            return bool(self.cluster.lost)
        figures, _ = await self.judged()
        return all(figures[what] >= number for what, number in self.options.minimum.items())

    def open(self) -> None:
        """Begin."""
        self.aws.reset()
        self.aws.names = tuple(GROUPS)
        self.aws.ahead = lambda: timedelta(seconds=self.clock() / 1000 - time.time())
        for name, instance_type in GROUPS.items():
            tags = {"owner": "torture", "k8s.io/cluster-autoscaler/node-template/label/group": name}
            if name == DELETED:
                tags[f"k8s.io/cluster-autoscaler/node-template/taint/{TAINT.key}"] = f"{TAINT.value}:{TAINT.effect}"
            template = self.aws.template(f"{name}-t", instance_type)
            self.aws.group(name, least=0, most=8, desired=SIZES.get(name, 1), tags=tags, template=template)
        self.weather.warm("a")
        self.aws.lack_capacity("short", SHORTAGE)
        self.control(paused=False)
        self.server.__enter__()
        self.leases.open()
        self.thread.start()
        self.clocks.start()
        for process in self.all:
            process.start()

    def control(self, *, paused: bool) -> None:
        """Switch the pause on or off; it is in the log when this returns."""
        event = ControlChanged(self.start, NAME, Mode.APPLY, paused=paused, budget=Fraction(1.0))
        self.operator.append([self.codec.encode(event, topic="control", key=NAME, partition=0, source="/ullage/source/t")])

    # What is done to them

    def unexpected_exits(self) -> list[str]:
        """Processes that ended by themselves, and that the torture did not bring to it."""
        return unexpected([*self.clocks.all, *self.all])

    async def rest(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Let it work; start again whoever died by himself, and let pods come now and then."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not until():
            for process in self.all:
                code = process.revive()
                if code not in (None, 9):
                    self.done[f"{process.module.rpartition('.')[2]} exit {code}"] += 1
            wave = self.busy and time.monotonic() // WAVE % 2
            if self.busy:
                await asyncio.to_thread(self.weather.passes)
            if wave and self.chance.random() < 0.06:
                for _ in range(self.chance.randrange(2, 9)):
                    self.cluster.submit(self.job, self.chance.randrange(60, 240))
            await asyncio.sleep(0.1)

    busy = True
    """Whether pods come."""

    async def hurt(self) -> None:
        """All blows, each once a group was changed since the last."""
        blows: Mapping[str, Callable[[], Awaitable[None]]] = {
            "worker": lambda: self._kill(self.worker), "source": lambda: self._kill(self.source),
            "consumer": lambda: self._kill(self.chance.choice(self.consumers)), "aws": self._aws_away,
            "pause": self._pause, "frozen": self._frozen, "clock": self.clocks.strike, "throttle": self._throttle,
        }  # fmt: skip
        order = [name for name, number in self.options.blows.items() for _ in range(number)]
        self.chance.shuffle(order)
        end = time.monotonic() + self.options.longest
        await self.rest(self.options.calm, lambda: self.changes > 0)
        for name in order:
            if time.monotonic() > end:
                self.done["blows left out"] += 1
                continue
            before = self.changes
            await self.rest(self.options.calm, lambda before=before: self.changes > before)  # type: ignore[misc]  # bound at once
            await self.rest(self.chance.uniform(0.0, self.options.between))
            await blows[name]()
            self.done[name] += 1
        await waiting.until_enough(self.enough, self.rest, self.options.late)

    async def _kill(self, process: Process) -> None:
        process.kill()
        await self.rest(self.chance.uniform(0.0, 1.0))
        process.start()

    async def _aws_away(self) -> None:
        self.front.kill()
        await asyncio.sleep(self.chance.uniform(0.5, 3.0))
        self.front.start()

    async def _throttle(self) -> None:
        self.aws.throttle(self.chance.randrange(5, 30))

    async def _pause(self) -> None:
        begin = time.time()
        await asyncio.to_thread(self.control, paused=True)
        begin = max(begin, time.time())
        await self.rest(4.0)
        self.pauses.append((begin, time.time()))
        await asyncio.to_thread(self.control, paused=False)

    async def _frozen(self) -> None:
        """Whoever holds the Lease sleeps longer than it lasts, and wakes up beside his successor."""
        holder = self.leases.holder("ullage-asg").partition("-")[0]
        victim = self.consumers[int(holder)] if holder.isdigit() and int(holder) < len(self.consumers) else self.consumers[0]
        victim.send(signal.SIGSTOP)
        await self.rest(14.0)
        victim.send(signal.SIGCONT)

    # The end

    async def settle(self) -> bool:
        """No more pods, no more deaths; whether everything came to rest before the time was over."""
        self.busy = False
        await asyncio.to_thread(self.weather.clear)
        for process in (self.source, *self.consumers):
            process.kill()
            process.told["die"] = 0.0
            process.start()
        self.worker.kill()
        self.worker.told["skip"] = 0.0
        self.worker.start()
        end = time.monotonic() + self.options.settle
        rests = await waiting.until_calm(self._at_rest, self.rest, end, apart=1.5)
        self.worker.kill()
        return rests and await waiting.until_calm(self._answered, self.rest, end + 60.0, apart=1.5)

    async def _at_rest(self) -> bool:
        sizes = all(self.aws.desired(name) == len(there) for name, there in self.aws.look().items())
        return sizes and await self._answered()

    def _marked(self) -> set[str]:
        """The instances whose nodes somebody takes away."""
        marked = set(self.cluster.marked())
        return {one for one, node in self.cluster.cloud.joined.items() if node in marked}  # type: ignore[attr-defined]  # it is a MotoCloud

    def _waiting(self) -> list[str]:
        """Pods that no node has taken."""
        return [str(pod.name) for pod in list(self.cluster.pods_by_name.values()) if pod.node is None]

    async def _answered(self) -> bool:
        """Without a worker there is an end to plans, too: each is carried out, or expires as time goes on."""
        plans, outcomes, _ = await self._read()
        answered = {one.decision for one in outcomes}
        there = {one for instances in self.aws.look().values() for one in instances}
        joined = there <= set(self.cluster.cloud.joined)  # type: ignore[attr-defined]  # it is a MotoCloud
        calm = joined and not self._waiting() and not self.cluster.marked()
        return calm and all(plan.id in answered for plan in plans)

    async def _read(self) -> tuple[list[node_judge.NodePlan], list[ActionFinished], list[NodeGroupSeen]]:
        plans: dict[str, node_judge.NodePlan] = {}
        outcomes: list[ActionFinished] = []
        told: list[NodeGroupSeen] = []
        for name in ("node-updates", "outcomes", "node-group-changes"):
            for record in (await kafka_topics.whole(self.broker.bootstrap, self.topics.wire(name), 1))[0]:
                event = self.codec.decode_or_none(record)
                if isinstance(event, ScaleUpPlanned | SizeCorrectionPlanned | NodeRemovalPlanned | SoftTaintPlanned):
                    plans.setdefault(event.id, event)
                elif isinstance(event, ActionFinished) and event.action in ACTIONS:
                    outcomes.append(event)
                elif isinstance(event, NodeGroupSeen):
                    told.append(event)
        return list(plans.values()), outcomes, told

    async def judged(self) -> tuple[Counter[str], list[str]]:
        """Figures, and what is wrong."""
        plans, outcomes, told = await self._read()
        cloud, groups = self.cluster.cloud, self.aws.look()
        instance_of = {node: one for one, node in cloud.joined.items()}  # type: ignore[attr-defined]  # it is a MotoCloud
        evidence = node_judge.NodeEvidence(
            self.aws.acts, plans, outcomes, groups, {name: self.aws.desired(name) for name in groups},
            list(cloud.ended), {node.name: instance_of[node.name] for node in self.cluster.nodes},  # type: ignore[attr-defined]  # as above
            self.cluster.marked(), self.cluster.lost,
            {one.name: (self.cluster.least_ready.get(one.name, 0), one.keep) for one in self.cluster.deployments}, self.pauses,
            self._waiting(), self.aws.deleted, told,
        )  # fmt: skip
        figures, wrong = node_judge.judge(evidence)
        deaths = [line for process in (self.source, *self.consumers) for line in process.lines("died: ")]
        figures["deaths"], figures["steps"] = len(deaths), len(set(deaths))
        figures["switches"] = len(self.weather.done)
        return figures, wrong

    def end(self) -> None:
        """End all."""
        self.clocks.end()
        for process in self.all:
            process.send(signal.SIGCONT)
            process.kill()
        if self.thread.is_alive():
            self.stop.set()
            self.thread.join(10)
            self.server.__exit__(None, None, None)
            self.leases.close()
        for log in (self.log, self.operator):
            log.close()
        self.aws.close()


async def run(options: NodeTortureOptions) -> Report:
    """One run; its report."""
    folder, began = Path(tempfile.mkdtemp(prefix="ullage-nodes-")), time.monotonic()
    before = dict(os.environ)
    os.environ.update(ENVIRONMENT)
    broker = Broker(BrokerSettings(heap_mb=384, quick=True, start_timeout=180.0)).start()
    report = Report()
    made: NodeRun | None = None
    try:
        made = NodeRun(options, broker, folder)
        await asyncio.to_thread(kafka_topics.create, broker.bootstrap, made.topics)
        await asyncio.to_thread(made.open)
        await made.hurt()
        settled = options.until_lost or await made.settle()
        made.clocks.end()
        for process in (made.source, *made.consumers):
            process.kill()
        figures, wrong = await made.judged()
        report = Report() if options.until_lost else await last_turn.recomputed(made, NAME, PERIOD)
        report.figures.update(figures)
        report.wrong += [*wrong, *made.unexpected_exits(), *([] if settled else ["it did not come to rest"])]
        report.require(dict(options.minimum))
    finally:
        if made is not None:
            made.end()
        broker.close()
        os.environ.clear()
        os.environ.update(before)
    blows = ", ".join(f"{what} {n}" for what, n in sorted((made.done + made.weather.done).items()))
    mutant = f" with {options.mutant}" if options.mutant else ""
    say(f"nodes seed {options.seed}{mutant} | {time.monotonic() - began:.0f} s | {blows} | {report}")
    if report.exact:
        shutil.rmtree(folder)
    else:
        say(f"logs in {folder}")
    return report
