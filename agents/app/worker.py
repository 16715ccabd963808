"""Wires a worker: Faust on the outside, hosts, outbox, checkpoints and recovery inside.

Faust gives co-partitioned assignment, the group's life and the fetching. It gives no acks, no offsets and no state: `noack`
streams, offsets set from the marks, tables that only carry the changelogs' assignment. One agent and one table for each stage,
all in one app, so that all stages' inputs of a partition come to one worker.
"""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import faust
from faust.types import StreamT

from agents.app import kafka_client_options, supervision, topic_check
from agents.app.checkpoint_writer import Changelog, Checkpoints, Epoch
from agents.app.decision_producer import Outbox
from agents.app.faust_consumer import Flow, skip_reading
from agents.app.faust_fetching import QuickConsumer
from agents.app.recovery import Recovery
from agents.app.stage_host import Host
from agents.app.worker_observer import Watch
from agents.app.worker_plan import Plan
from agents.telemetry import logging_setup
from schemas.units import Seconds
from streams.log.connection import Connection

SETTINGS: dict[str, Any] = {
    "store": "memory://",
    "datadir": str(Path(gettempdir()) / "ullage-faust"),  # Faust makes a folder even when it keeps nothing in it
    "web_enabled": False,
    "topic_disable_leader": True,
    "consumer_auto_offset_reset": "earliest",
    "consumer_max_fetch_size": 4 << 20,
    "broker_session_timeout": 6.0,
    "broker_heartbeat_interval": 1.0,
    "broker_commit_interval": 3600.0,  # nothing to commit: offsets are set from the marks
    "broker_commit_livelock_soft_timeout": 1e9,
    "stream_buffer_maxsize": 64,  # counts messages, and a scrape has 100 kB
    "stream_wait_empty": False,
    "stream_recovery_delay": 0.0,
    "table_standby_replicas": 0,
    "topic_allow_declare": False,  # `layout` makes the changelogs
}


GOODBYE = Seconds(12.0)
"""Seconds in which the log must have taken the last decisions and checkpoints."""
FAREWELL = Seconds(8.0)
"""Seconds that Faust then has to leave the group. Together they are less than the half minute that Kubernetes waits."""


class App(faust.App):
    """Faust's app, which checks the log before it starts, says goodbye in order, and does not outlive a crash of its parts."""

    before: Callable[[], Awaitable[None]]
    goodbye: Callable[[], Awaitable[None]]

    async def on_first_start(self) -> None:
        """Refuse to start on topics that do not fit."""
        with supervision.guarded("checking the topics"):
            await self.before()
        await super().on_first_start()

    async def on_stop(self) -> None:
        """Write last checkpoints, so that the next owner has nothing to do again. Takes its time, but not for ever."""
        with supervision.guarded("stopping"):
            try:
                await asyncio.wait_for(self.goodbye(), GOODBYE)
            except TimeoutError:
                msg = f"the log did not take the last decisions and checkpoints within {GOODBYE:g} s; they are done again"
                raise TimeoutError(msg) from None
        supervision.no_longer_than(FAREWELL, doing="leaving the group")
        await super().on_stop()

    def _new_transport(self) -> Any:
        transport: Any = super()._new_transport()
        transport.Consumer = QuickConsumer
        return transport

    def _crash(self, reason: BaseException) -> None:
        """Faust alone would mark itself as crashed and go on standing there."""
        if not self.should_stop:
            supervision.end(reason, doing="hosting the stages in Faust")
        super()._crash(reason)


def build(plan: Plan, *, changelog: Callable[[Connection], Changelog] = Changelog) -> App:
    """The Faust app that hosts the plan's stages. Talks to nobody before it is started."""
    partitions, credentials = plan.topics.partitions, kafka_client_options.credentials(plan.where)
    app = App(
        plan.name,
        broker=kafka_client_options.urls(plan.where),
        broker_credentials=credentials,
        topic_partitions=partitions,
        **SETTINGS,
    )
    flow, outbox, watch, log = Flow(app), Outbox(plan.where), Watch(plan), changelog(plan.where)
    hosts = tuple(Host(stage, plan, flow=flow, outbox=outbox, watch=watch) for stage in plan.stages)
    epoch = Epoch(0, asyncio.Lock())
    checkpoints = Checkpoints(hosts, flow, changelog=log, epoch=epoch, watch=watch)
    recovery = Recovery(hosts, flow, epoch=epoch, watch=watch)

    async def goodbye() -> None:
        await checkpoints.last()
        await outbox.stop()
        await log.stop()

    async def before() -> None:
        watch.listen()
        await topic_check.check(plan)

    app.before, app.goodbye = before, goodbye
    for host in hosts:
        _agent(app, host)
    _tables(app, plan, lambda: recovery.recover(outbox, log))
    app.task(lambda: checkpoints.forever(plan.pacing))
    _on_revoked(app, recovery)
    return app


def _agent(app: App, host: Host) -> None:
    """One agent on one channel of all inputs: it never waits for a certain topic, so a full queue cannot stop it."""
    channel = app.topic(*host.wires.values(), key_serializer="raw", value_serializer="raw")

    async def work(stream: StreamT[Any]) -> None:
        with supervision.guarded("taking records in", stage=host.stage.name):
            ours: Any = stream
            events: AsyncIterable[Any] = ours.noack().events()
            async for event in events:
                await host.handle(event.message)

    app.agent(channel, name=host.stage.name)(work)


def _tables(app: App, plan: Plan, recover: Callable[[], Awaitable[None]]) -> None:
    """A table for each stage, so that Faust co-partitions; one of them tells when a rebalance is over."""
    skip_reading(app)
    for n, stage in enumerate(plan.stages):
        table = app.Table(f"{stage.name}-state", partitions=plan.topics.partitions, key_type=bytes, value_type=bytes)
        if n == 0:
            table.on_recover(recover)


def _on_revoked(app: App, recovery: Recovery) -> None:
    async def revoked(*_what: object, **_more: object) -> None:
        recovery.revoked()

    app.on_partitions_revoked.connect(revoked, weak=False)


def run(plan: Plan, *, changelog: Callable[[Connection], Changelog] = Changelog) -> int:
    """Work until a signal says stop; the exit code."""
    logging_setup.set_up("worker")
    options: dict[str, Any] = {"redirect_stdouts": False, "quiet": True, "override_logging": False}
    worker = faust.Worker(build(plan, changelog=changelog), loglevel="WARN", **options)
    worker.spinner = None
    try:
        worker.execute_from_commandline()
    except SystemExit as stop:
        return int(stop.code or 0)
