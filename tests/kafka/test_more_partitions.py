"""`topics move` on a real Kafka: a log of four partitions goes on in sixteen, which five workers share, also with one killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from agents.commands.change import topics_move
from agents.commands.change.topics import wanted
from agents.demo import day_in_memory
from agents.demo.demo_settings import Day
from agents.run.pipeline import stages
from agents.run.stage_topics import stage_names
from agents.settings import loading, log_factory
from agents.settings.all_settings import Settings
from agents.verify.committed_turns import committed
from agents.verify.verification import verify
from agents.verify.verification_report import report_lines
from streams import clock_log
from streams.admin import topic_admin
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import NewRecord
from streams.log_context import LogContext
from streams.sources.clock import TickWriter
from streams.topics import TOPICS
from tests.support.commands import ROOT, Commands

FROM, TO = 4, 16
WORKERS = [f"worker-{number}" for number in range(5)]


def put(broker: str, log: KafkaLog, day: Day, settings: Settings) -> None:
    """A played day into Kafka, each record at the place that it has in memory."""
    with topic_admin.connect(KafkaConnection(broker)) as client:
        topic_admin.apply(client, topic_admin.plan(client, wanted(settings)))
    memory = day_in_memory.new_log(day)
    for _ in day_in_memory.played(day, settings, memory):
        pass
    for topic in TOPICS:
        wire = day.topics.wire(topic.name)
        for partition in range(day.topics.count(topic.name)):
            records = clock_log.between(memory, (wire, partition), 0, memory.end(wire, partition))
            log.append([NewRecord(wire, partition, r.key, r.value, r.headers) for r in records])


def told(day: Day) -> Mapping[str, str]:
    """The day's settings, for processes."""
    flags = loading.environment({name: value for name, value in day.settings().items() if not name.startswith("clock.")})
    return {name.removeprefix("ULLAGE_"): value for name, value in flags.items() if not name.endswith("TOPICS__PARTITIONS")}


def marked(log: KafkaLog, settings: Settings) -> bool:
    """Whether every partition of every stage has a mark of the newest tick."""
    context = LogContext.of(log, log_factory.topics(settings))
    newest = clock_log.newest(log, context.topics)
    marks = committed(context, settings.worker.name, stages(settings))
    parts = {(stage, p) for stage in stage_names() for p in range(context.topics.partitions)}
    return newest is not None and all(part in marks and marks[part].turn >= newest.number for part in parts)


def run(commands: Commands, *words: str) -> subprocess.CompletedProcess[str]:
    settings = {"LOG__BROKERS": commands.broker, "WORKER__NAME": commands.topics.prefix, **commands.told}
    settings |= {"TOPICS__PREFIX": commands.topics.prefix, "TOPICS__PARTITIONS": str(commands.topics.partitions)}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **{f"ULLAGE_{key}": value for key, value in settings.items()}}
    command = [sys.executable, "-m", "agents", *words]
    return subprocess.run(command, cwd=commands.folder, env=environment, capture_output=True, text=True, check=False, timeout=500)


def test_a_log_goes_on_in_more_partitions_that_five_workers_share_also_when_one_is_killed(broker: str, tmp_path: Path) -> None:
    day = Day(seed=1, seconds=0.001, partitions=FROM, length=timedelta(hours=2), pause=False)
    settings = loading.load(flags=day.in_one_process()).settings
    there = topics_move.elsewhere(settings, TO, "wide")
    before = Commands(broker, log_factory.topics(settings), tmp_path, told(day))
    after = Commands(broker, log_factory.topics(there), tmp_path, told(day))
    with KafkaLog(KafkaConnection(broker)) as log:
        put(broker, log, day, settings)
        try:
            before.start("before", "worker")
            before.wait(lambda: marked(log, settings), 300)
            refused = run(before, "topics", "move", "--partitions", str(TO), "--to", "wide")
            assert refused.returncode != 0
            assert "workers are at work" in refused.stderr
            before.running["before"].send_signal(signal.SIGTERM)
            before.running["before"].wait(120)
            moved = run(before, "topics", "move", "--partitions", str(TO), "--to", "wide")
            assert (moved.returncode, moved.stdout) == (
                0,
                f"from now on: topics.prefix=wide topics.partitions={TO} worker.name=wide\n",
            ), moved.stderr
            assert marked(log, there)
            for worker in WORKERS:
                after.start(worker, "worker")
            new = LogContext.of(log, log_factory.topics(there))
            writer, at = TickWriter(log, new.topics), day.end

            def time_passes() -> None:
                nonlocal at
                for _ in range(10):
                    at += timedelta(minutes=1)
                    writer.write(int(at.timestamp() * 1000))

            time_passes()
            after.wait(lambda: marked(log, there), 300)
            after.kill(WORKERS[0])
            time_passes()
            after.wait(lambda: marked(log, there), 300)
            report = verify(new, stages(there), committed=committed(new, "wide", stages(there)))
            assert report.ok, "\n".join(report_lines(report))
            assert run(after, "why", "ledger").returncode == 0
        finally:
            for process in (*before.running.values(), *after.running.values()):
                process.kill()
                process.wait()
