"""Wires a worker: Faust outside; stage hosts, decision producer, checkpoint writer and recovery inside.

We use Faust for co-partitioned assignment, group membership and fetching. We do not use its acknowledgements, offsets or state:
streams are `noack`, offsets are set from the checkpoints' marks, and the tables exist only so that Faust assigns the changelogs.
One agent takes in what all stages read; each stage has a table, so that one worker gets all stages' inputs of a partition.
"""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from time import perf_counter
from typing import Any

import faust
import structlog
from faust.sensors import Monitor
from faust.types import StreamT
from mode import Service

from agents.app import freed_memory, kafka_client_options, supervision, topic_check
from agents.app.checkpoint_writer import ChangelogProducer, CheckpointWriter, Generation
from agents.app.clock_feed import ClockFeed
from agents.app.decision_producer import DecisionProducer
from agents.app.faust_internals import FaustConsumer, QuickConsumer, ReadyTableManager, skip_table_recovery
from agents.app.partition_recovery import Recovery
from agents.app.stage_host import BufferBudget, StageHost
from agents.app.topic_check import RecordBounds
from agents.app.worker_observer import WorkerObserver
from agents.app.worker_plan import WorkerPlan
from agents.run import rules_in_log
from agents.run.partition_task import OwnDecisionCache
from agents.telemetry import logging_setup, process_parts
from schemas import times
from schemas.units import Seconds
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log_context import LogContext
from streams.sources.clock import wall_ms

_LOG = structlog.get_logger("ullage", component="worker")


class NamedTopics(faust.Topic):
    """Topics under one agent. Faust has no name for several of them, and `faust agents` would end where it asks for one."""

    def get_topic_name(self) -> str:
        """All names, a line each."""
        return "\n".join(self.topics)


class IdleMonitor(Monitor):
    """Faust's monitor without what it computes each second, which nobody reads here."""

    @Service.task
    async def _sampler(self) -> None:
        """Compute nothing."""


SETTINGS: dict[str, Any] = {
    "store": "memory://",
    "TableManager": ReadyTableManager,
    "Monitor": IdleMonitor,
    "Topic": NamedTopics,
    "web_enabled": False,
    "topic_disable_leader": True,
    "recovery_consistency_check": False,  # otherwise each changelog that has lost its beginning would end the worker
    "consumer_auto_offset_reset": "earliest",
    "consumer_max_fetch_size": 1 << 20,  # of a partition, compressed: decisions unpack to twenty times as much
    "broker_max_poll_records": 1_000,  # that are unpacked at once: Faust would take all that a fetch brought
    "consumer_metadata_max_age_ms": 5_000,  # until a refresh finds new topics, no worker gets a partition
    "broker_heartbeat_interval": 1.0,  # a third of the shortest session, and how soon a worker learns that another has joined
    "broker_commit_interval": 3600.0,  # nothing to commit: offsets are set from the marks
    "broker_commit_livelock_soft_timeout": 1e9,
    "stream_buffer_maxsize": 32,  # counts messages, each of which has 128 KiB of records, or one larger record
    "stream_wait_empty": False,
    "stream_recovery_delay": 0.0,
    "table_standby_replicas": 0,
    "topic_allow_declare": False,  # `topic_check` creates the changelogs
}

YIELD_AFTER = 0.03
"""Seconds after which other coroutines run: Faust's stream never yields while its queue is not empty."""
FLUSH_WITHIN = Seconds(12.0)
"""Seconds in which the log must have taken the last decisions and checkpoints."""
LEAVE_WITHIN = Seconds(8.0)
"""Seconds that Faust then has to leave the group. Both together are less than the half minute that Kubernetes waits."""


class App(faust.App):
    """Faust's app. It checks the log before it starts, stops in order, and does not outlive a crash of its parts."""

    before_start: Callable[[], Awaitable[None]]
    before_stop: Callable[[], Awaitable[None]]

    async def on_first_start(self) -> None:
        """Refuse to start on topics that do not fit."""
        with supervision.guarded("checking the topics"):
            await self.before_start()
        await super().on_first_start()

    async def on_stop(self) -> None:
        """Write the last checkpoints, so that the next owner has nothing to repeat. The time for this is bounded."""
        # The other parts of this process share its time to end.
        process_parts.ask_all_to_end()
        with supervision.guarded("stopping"):
            try:
                await asyncio.wait_for(self.before_stop(), FLUSH_WITHIN)
            except TimeoutError:
                msg = f"the log did not take the last decisions and checkpoints within {FLUSH_WITHIN:g} s; they are done again"
                raise TimeoutError(msg) from None
        supervision.no_longer_than(LEAVE_WITHIN, doing="leaving the group")
        await super().on_stop()

    def _create_directories(self) -> None:
        """Create no data folder: nothing is stored in files, and anybody could prepare a shared one in /tmp."""

    def _new_transport(self) -> Any:
        transport: Any = super()._new_transport()
        transport.Consumer = QuickConsumer
        return transport

    def _crash(self, reason: BaseException) -> None:
        """End the process: Faust alone would mark itself as crashed and stay."""
        if not self.should_stop:
            supervision.end(reason, doing="hosting the stages in Faust")
        super()._crash(reason)


def build(plan: WorkerPlan, *, changelog: Callable[[KafkaConnection], ChangelogProducer] = ChangelogProducer) -> App:
    """The Faust app that hosts the plan's stages. It connects to nothing before it is started."""
    partitions, credentials = plan.topics.partitions, kafka_client_options.credentials(plan.where)
    app = App(
        plan.name,
        broker=kafka_client_options.urls(plan.where),
        broker_credentials=credentials,
        topic_partitions=partitions,
        broker_session_timeout=plan.session,
        **SETTINGS,
    )
    bounds = RecordBounds(plan.topics)
    consumer, producer, observer = FaustConsumer(app), DecisionProducer(plan.where, bounds), WorkerObserver(plan)
    log = changelog(plan.where)
    in_flight, budget = OwnDecisionCache(), BufferBudget(plan.buffer)
    hosts = tuple(
        StageHost(stage, plan, consumer=consumer, producer=producer, observer=observer, in_flight=in_flight, budget=budget)
        for stage in plan.stages
    )
    generation = Generation(0, asyncio.Lock())
    checkpoints = CheckpointWriter(hosts, consumer, changelog=log, generation=generation, observer=observer, producer=producer)
    clock = ClockFeed(hosts)
    recovery = Recovery(hosts, consumer, generation=generation, observer=observer, clock=clock)

    async def before_stop() -> None:
        await checkpoints.finish()
        await producer.stop()
        await log.stop()

    async def before_start() -> None:
        observer.listen()
        bounds.learn(await topic_check.check(plan))
        agreed = await asyncio.to_thread(_agree_on_rules, plan)
        for host in hosts:
            host.agreed = agreed

    app.before_start, app.before_stop = before_start, before_stop
    _add_agent(app, hosts)
    _add_tables(app, plan, lambda: recovery.recover(producer, log))
    app.task(lambda: checkpoints.run(plan.pacing))
    app.task(lambda: freed_memory.give_back())  # noqa: PLW0108  # Faust hands itself to what takes something
    app.task(clock.run)
    _on_revoked(app, recovery)
    return app


def _agree_on_rules(plan: WorkerPlan) -> dict[int, int]:
    """Put the rules of the stages into the log where it has none; the ends of that topic's partitions before that.

    Raises BadInput when the log has others, because all workers must decide alike.
    """
    wire = plan.topics.wire("rules")
    with KafkaLog(plan.where) as log:
        # Before agreeing: rules that come between the two are then looked at when their turn comes.
        ends = {partition: log.end(wire, partition) for partition in range(plan.topics.partitions)}
        for rules in rules_in_log.agree(LogContext.of(log, plan.topics), plan.stages, times.from_ms(wall_ms())):
            _LOG.info("rules set", stage=rules.stage, program=rules.program, version=rules.version)
    return ends


def _add_agent(app: App, all_hosts: Sequence[StageHost]) -> None:
    """One agent on one channel of all inputs, for all stages."""
    # It never waits for a certain topic, so a full queue cannot stop it; agents of their own would wait for each other.
    readers: dict[str, list[StageHost]] = {}
    for host in all_hosts:
        for wire in host.names:
            readers.setdefault(wire, []).append(host)
    channel = app.topic(*readers, key_serializer="raw", value_serializer="raw")

    async def work(stream: StreamT[Any]) -> None:
        """Hand each record to the stages that read its topic."""
        yielded = 0.0
        with supervision.guarded("taking records in"):
            ours: Any = stream
            events: AsyncIterable[Any] = ours.noack().events()
            async for event in events:
                for record in event.message.records:
                    for host in readers.get(record.topic, ()):  # none for a changelog, which Faust reads until it is paused
                        await host.handle(record)
                        # Faust's stream never yields while its queue is not empty, and the producer has to go on.
                        if perf_counter() - yielded > YIELD_AFTER:
                            await asyncio.sleep(0)
                            yielded = perf_counter()

    app.agent(channel, name="stages")(work)


def _add_tables(app: App, plan: WorkerPlan, recover: Callable[[], Awaitable[None]]) -> None:
    """A table for each stage, so that Faust co-partitions. The first one calls `recover` when a rebalance is over."""
    skip_table_recovery(app)
    for n, stage in enumerate(plan.stages):
        about = f"Checkpoints of the stage {stage.name}: chunks of its state, and marks that name them."
        table = app.Table(f"{stage.name}-state", partitions=plan.topics.partitions, key_type=bytes, value_type=bytes, help=about)
        if n == 0:
            table.on_recover(recover)


def _on_revoked(app: App, recovery: Recovery) -> None:
    async def revoked(*_what: object, **_more: object) -> None:
        recovery.revoked()

    # Nobody else holds this function.
    app.on_partitions_revoked.connect(revoked, weak=False)


def run(plan: WorkerPlan, *, changelog: Callable[[KafkaConnection], ChangelogProducer] = ChangelogProducer) -> int:
    """Work until a signal stops the process; returns the exit code."""
    logging_setup.set_up("worker")
    options: dict[str, Any] = {"redirect_stdouts": False, "quiet": True, "override_logging": False}
    worker = faust.Worker(build(plan, changelog=changelog), loglevel="WARN", **options)
    # Faust's progress display would write into a log of JSON lines.
    worker.spinner = None
    try:
        worker.execute_from_commandline()
    except SystemExit as stop:
        return int(stop.code or 0)
