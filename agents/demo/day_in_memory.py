"""The day on a log in memory, in this process: with Ullage where there is no Kafka, and without Ullage for comparison.

It runs the same shop, stages and consumers as on Kafka, round by round in virtual time. `untouched` is the day without Ullage:
same seed and load, but no changes. The log of a day can be saved as a file, with the settings to read it.
"""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import yaml

from agents.demo.day_state import DayState, LogWatcher
from agents.demo.demo_settings import Day, OperatorsPause, opening
from agents.logic.vertical.vertical_settings import ADAPTIVE
from agents.processes.simulated_cluster import Shop, open_shop, open_untouched
from agents.run import newest_checkpoint
from agents.run.partition_task import Task
from agents.run.pipeline import stages
from agents.run.simulate import SimulatedWorld, TickGrid, simulate
from agents.run.stage_topics import stage_names
from agents.settings import loading
from agents.settings.all_settings import Settings
from agents.settings.loading import nested
from agents.verify.committed_turns import export
from streams.consumers.evictor import evictor
from streams.consumers.resizer import resizer
from streams.log.file_log import FileLog
from streams.log.log_port import Log
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.simulated.demo_shop import ShopSettings, with_groups
from streams.topics import TOPICS, Topics, changelog_topic

_UPSTREAM: Mapping[str, object] = {
    "updates.profile": "upstream",
    "nodes.profile": "upstream",
    "replicas.upstream_predictors": True,
    "replicas.upstream_crons": True,
}
"""Settings under which Ullage decides as the VPA, the Cluster Autoscaler and EHPA do."""

_WORKER = Settings().worker.name
"""The name under which commands look for checkpoints unless they are told another."""


def played(day: Day, settings: Settings, log: MemoryLog) -> Generator[DayState, None, None]:
    """The day with Ullage; yields the state after each tick. It keeps to the day's pace if the machine is fast enough."""
    context = LogContext.of(log, day.topics, day.cluster)
    log.append(opening(day))
    world = acted_on(open_shop(_shop_settings(day), log, day.topics), context, OperatorsPause(day, log.append).keep)
    watcher = LogWatcher(log, day.topics)
    pipeline = stages(settings)
    began = time.monotonic()
    for totals in simulate(context, pipeline, world, pace(day)):
        # before the pause, so that the screen is not a tick behind
        watcher.poll_once()
        if totals.at >= day.end:
            close(log, totals.tasks)
        yield watcher.state
        if totals.at >= day.end:
            return
        # what is ahead of the pace waits; what is behind cannot hurry, for each tick is computed anyway
        ahead = began + day.seconds * day.progress(totals.at) - time.monotonic()
        time.sleep(max(0.0, ahead))


def acted_on(shop: Shop, context: LogContext, *more: Callable[[datetime], object]) -> SimulatedWorld:
    """A shop with the consumers that change its pods; `more` is what else happens at each tick."""
    executors = (resizer(context, shop.client), evictor(context, shop.client))
    live = _living(shop.cluster.advance, shop.scrape, *more)
    return SimulatedWorld(live, (shop.after, *(executor.poll_once for executor in executors)))


def untouched(day: Day) -> DayState:
    """The same day without Ullage."""
    log = new_log(day)
    shop = open_untouched(_shop_settings(day), log, day.topics)
    world = SimulatedWorld(_living(shop.cluster.advance, shop.scrape))
    for totals in simulate(LogContext.of(log, day.topics), (), world, pace(day)):
        if totals.at >= day.end:
            break
    # from its log, like the day with Ullage, so that both are measured in one way
    return LogWatcher(log, day.topics).catch_up()


def by_upstreams_rules(day: Day) -> DayState:
    """The same day with the decisions of the originals, as fast as it goes."""
    return _hurried(day, _UPSTREAM, adaptive=False)


def by_adaptive(day: Day) -> DayState:
    """The same day by the policy `adaptive`, as fast as it goes."""
    return _hurried(day, {"vertical.policy": ADAPTIVE})


def _hurried(day: Day, special: Mapping[str, object], *, adaptive: bool = True) -> DayState:
    # nobody watches these days, so they keep no pace
    hurried = replace(day, seconds=1.0, special={**day.special, **special}, adaptive=adaptive)
    settings = loading.load(flags=hurried.in_one_process()).settings
    *_, state = played(hurried, settings, new_log(hurried))
    return state


def new_log(day: Day) -> MemoryLog:
    """A log in memory with the day's topics, and those of a worker's checkpoints."""
    log = MemoryLog()
    for topic in TOPICS:
        log.create(day.topics.wire(topic.name), day.topics.count(topic.name))
    for stage in stage_names():
        log.create(changelog_topic(_WORKER, stage), day.partitions)
    return log


def close(log: MemoryLog, tasks: Sequence[Task]) -> None:
    """End a day's log with a checkpoint, so that commands need not take the day's turns again to say how it is at its end."""
    newest_checkpoint.write(log, tasks, _WORKER, family="simulated")


def _living(*steps: Callable[[datetime], object]) -> Callable[[datetime], object]:
    def live(at: datetime) -> None:
        for step in steps:
            step(at)

    return live


def _shop_settings(day: Day) -> ShopSettings:
    return with_groups(ShopSettings(day.cluster, day.seed, day.start, day.tick))


def pace(day: Day) -> TickGrid:
    """The moments of its ticks."""
    return TickGrid(int(day.start.timestamp() * 1000), int(day.tick.total_seconds() * 1000))


_LOG = "log.jsonl"
_SETTINGS = "ullage.yaml"


def save(log: Log, topics: Topics, settings: Mapping[str, object], folder: Path) -> Path:
    """Copy the log and its settings into the folder; returns the settings file."""
    path = folder / _LOG
    # appending to the log of an earlier demo would mix two days
    path.unlink(missing_ok=True)
    with FileLog.open_or_create(path) as file:
        export(LogContext.of(log, topics), file, stages=stages(Settings()), worker=Settings().worker.name)
    # the log is this file now, and no clock runs any more
    kept = {name: value for name, value in settings.items() if not name.startswith(("log.", "clock."))}
    tree = nested({**kept, "log.kind": "file", "log.path": str(path)})
    config = folder / _SETTINGS
    config.write_text(yaml.safe_dump(tree), encoding="utf-8")
    return config
