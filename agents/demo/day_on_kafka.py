"""The day on a real Kafka, in processes of its own: a clock, the shop, workers and consumers, as in a real installation.

It starts everything through the user's command line. Workers are restarted when they end, as a supervisor would do; when
anything else ends early, the day ends with its last lines. Whatever happens, all processes are stopped at the end.
"""

import socket
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from pathlib import Path
from urllib import request
from urllib.error import URLError

from prometheus_client.parser import text_string_to_metric_families

from agents.demo.day_state import DayState, LogWatcher
from agents.demo.demo_settings import Day, OperatorsPause, opening
from agents.processes.child_processes import ChildProcess, ChildProcesses
from agents.run.stage_topics import stage_names
from agents.settings import loading
from schemas.units import counted
from streams.admin import topic_admin
from streams.broker.preflight import free_ports
from streams.errors import UllageError
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.sources.clock import TickWriter
from streams.topics import changelog_specs

_STARTING = 60.0
_AFTERWARDS = 3.0
"""Seconds in which no worker is behind, before the day is over."""
_LAG = "ullage_turn_lag_seconds"
_LOOK = 0.25
_HEAD_START = 2_500
"""Milliseconds from starting the clock's process to the beginning of the day."""
_BY_HAND = 30
"""Ticks before the clock takes over, so that the batch job's run at midnight is seen, however slowly the machine starts."""
Progress = Callable[[str], None]


class TookTooLong(UllageError):
    """The day makes no progress."""


class KafkaDay:
    """One day on the Kafka at `brokers`. The logs of its processes go to `folder`."""

    def __init__(self, day: Day, brokers: str, folder: Path, *, workers: int = 2, trace: Path | None = None) -> None:
        self.day, self.brokers, self.workers, self.trace = day, brokers, workers, trace
        self.children = ChildProcesses(folder)
        self._health: list[int] = []
        self.log = KafkaLog(KafkaConnection(brokers))
        self.settings: Mapping[str, object] = {**day.settings(), "log.kind": "kafka", "log.brokers": brokers}

    def played(self, report: Progress, *, for_ever: bool = False) -> Generator[DayState, None, None]:
        """Prepare and start everything; yield the state again and again until the day is over; stop everything."""
        try:
            report("making the topics")
            self._make_topics()
            watcher = LogWatcher(self.log, self.day.topics)
            who = "the shop, the consumers" if self.trace is None else "the trace"
            report(f"starting {who} and {counted(self.workers, 'worker')} (their logs are in {self.children.folder})")
            self._start_shop() if self.trace is None else self._start_trace(self.trace)
            yield from self._watched(watcher, for_ever)
        finally:
            # also when the caller closes the generator, as at Ctrl-C
            self.children.stop()

    def close(self) -> None:
        """Close the log."""
        self.log.close()

    def _make_topics(self) -> None:
        states = changelog_specs("ullage", stage_names(), self.day.partitions)
        with topic_admin.connect(KafkaConnection(self.brokers)) as client:
            topic_admin.apply(client, topic_admin.plan(client, (*self.day.topics.specs(), *states)))

    def _start_shop(self) -> None:
        # a port that is free now, for two demos may run at one time
        (port,) = free_ports(1)
        looks = {"cluster.period_seconds": int(self.day.tick.total_seconds())}
        self._start("shop", ["source", "simulated", "--port", str(port)], more=looks)
        self._start_workers()
        self._start("consumers", ["consumer", "resizer", "evictor"], more={"cluster.url": f"http://127.0.0.1:{port}"})
        self._wait_until("the shop", lambda: _listens(port))
        self._wait_until("the workers", self._workers_are_ready)
        # only now: a worker is ready once it has caught up, and the shop's pods come with the first tick
        self.log.append(opening(self.day))
        # every process is slow at first, and at this speed one second is half an hour of the day
        begun = self._first_ticks()
        anchor = {"clock.origin_ms": begun, "clock.anchor_ms": time.time_ns() // 1_000_000 + _HEAD_START}
        self._start("clock", ["source", "clock", "--in-step"], keep=True, more=anchor)

    def _first_ticks(self) -> int:
        """Tick the day's first minutes ourselves, waiting for the shop's usage; returns the time at which the clock goes on."""
        at, period = int(self.day.start.timestamp() * 1000), int(self.day.tick.total_seconds() * 1000)
        clock = TickWriter(self.log, self.day.topics)
        clock.write(at)
        for _ in range(_BY_HAND):
            at += period
            # before the tick, so that a scrape that comes at once is counted
            before = self._records_in("pod-metrics")
            clock.write(at)
            self._wait_until("the shop's usage", partial(self._has_grown, "pod-metrics", before))
        return at + period

    def _records_in(self, topic: str) -> int:
        wire = self.day.topics.wire(topic)
        return sum(self.log.end(wire, p) for p in range(self.day.partitions))

    def _has_grown(self, topic: str, than: int) -> bool:
        return self._records_in(topic) > than

    def _start_trace(self, trace: Path) -> None:
        self._start_workers()
        self._wait_until("the workers", self._workers_are_ready)
        command = ["source", "traces", str(trace), "--seconds", str(self.day.seconds)]
        # a trace ends by itself when it has been played
        self._start("trace", command).may_end = True

    def _start_workers(self) -> None:
        self._health = free_ports(self.workers)
        for number, port in enumerate(self._health, 1):
            self._start(f"worker-{number}", ["worker"], keep=True, more={"metrics.port": port})

    def _workers_are_ready(self) -> bool:
        # ready: it has its partitions and their state
        return all(_answer(port, "readyz") is not None for port in self._health)

    def _start(
        self, name: str, command: list[str], *, keep: bool = False, more: Mapping[str, object] | None = None
    ) -> ChildProcess:
        environment = loading.environment({**self.settings, **(more or {})})
        return self.children.start(name, command, environment=environment, keep=keep)

    def _wait_until(self, what: str, ready: Callable[[], bool]) -> None:
        until = time.monotonic() + _STARTING
        while not ready():
            self.children.check()
            if time.monotonic() > until:
                raise TookTooLong(f"{what} did not start within {_STARTING:.0f} s; see the logs in {self.children.folder}")
            time.sleep(0.05)

    def _watched(self, watcher: LogWatcher, for_ever: bool) -> Iterator[DayState]:
        """The state again and again until the day is over. Raises TookTooLong."""
        latest, until = watcher.state.at, time.monotonic() + _STARTING
        pause = None if self.trace is not None else OperatorsPause(self.day, self.log.append)
        while for_ever or watcher.state.at is None or watcher.state.at < self.day.end:
            self.children.check()
            # a look now and then, because one that waits would be made anew for each record
            if not watcher.poll_once():
                time.sleep(_LOOK)
            if pause is not None:
                pause.keep(watcher.state.at)
            yield watcher.state
            # no limit for the whole: a long trace may take what it needs on a slow machine while its time goes on
            if watcher.state.at != latest:
                latest, until = watcher.state.at, time.monotonic() + _STARTING
            elif time.monotonic() > until and not for_ever:
                where = "at its beginning" if latest is None else f"at {latest:%Y-%m-%d %H:%M}"
                raise TookTooLong(f"simulated time has stood still {where} for {_STARTING:.0f} s; see {self.children.folder}")
        yield from self._afterwards(watcher)

    def _afterwards(self, watcher: LogWatcher) -> Iterator[DayState]:
        """The clock has stopped; the last turns are still taken, and their decisions carried out."""
        self.children.stop_one("clock")
        until, latest = time.monotonic() + _AFTERWARDS, time.monotonic() + _STARTING
        while (now := time.monotonic()) < until:
            if not watcher.poll_once():
                time.sleep(_LOOK)
            yield watcher.state
            # as long as one is behind, but not for ever: a stuck worker must not keep the demo open
            if now < latest and any(_is_behind(port) for port in self._health):
                until = now + _AFTERWARDS


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def _is_behind(port: int) -> bool:
    """Whether a worker has a tick before it whose turn it has not taken."""
    metrics = _answer(port, "metrics")
    if metrics is None:
        return True  # one that does not answer may be behind
    families = text_string_to_metric_families(metrics)
    return any(sample.value > 0 for family in families if family.name == _LAG for sample in family.samples)


def _answer(port: int, path: str) -> str | None:
    """What a worker answers; None if it does not, or says no."""
    try:
        with request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=1) as answer:
            return str(answer.read(), "utf-8")
    except (URLError, OSError):  # a 503 is an URLError, too
        return None
