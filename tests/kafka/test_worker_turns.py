"""Workers as processes on a real Kafka: what they publish and remember equals a plain loop over the log."""

import asyncio
import json
import signal
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType

from agents.verify.committed_turns import committed
from agents.verify.verification import verify
from agents.verify.verification_report import DiscrepancyKind, VerificationReport, report_lines
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from schemas.names import PodName, Workload
from streams.admin import topic_admin
from streams.clock_rules import ClockRecord
from streams.codec.event_codec import Codec
from streams.errors import BadInput
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import NewRecord
from streams.log_context import LogContext
from streams.topics import Topics
from tests.support import ticks
from tests.torture import kafka_topics, recomputation, sums_stage
from tests.torture.processes import Process

T0 = 1_700_000_000_000
Made = Callable[..., Topics]


class Bench:
    """A log, its topics, and workers that are gone at the end."""

    def __init__(self, broker: str, topics: Topics, folder: Path) -> None:
        self.broker, self.topics, self.folder = broker, topics, folder
        self.log, self.codec = KafkaLog(KafkaConnection(broker)), Codec(topics)
        self.workers: list[Process] = []
        self.turn = 0

    def worker(self, **told: object) -> Process:
        shape = {"brokers": self.broker, "prefix": self.topics.prefix, "partitions": self.topics.partitions, "least": 0.3}
        process = Process(
            "tests.torture.faulty_worker", {**shape, "name": self.topics.prefix, **told}, self.folder / f"{len(self.workers)}.log"
        )
        process.start()
        self.workers.append(process)
        return process

    def tick(self, turns: int = 1) -> None:
        for _ in range(turns):
            self.turn += 1
            ticks.append(self.log, self.topics, T0 + 500 * self.turn)

    def oom(self, *names: str) -> None:
        self.log.append([self._oom(Workload("c", "ns", "Deployment", name)) for name in names])

    def _oom(self, w: Workload) -> NewRecord:
        at = datetime.fromtimestamp(T0 / 1000, UTC)
        pod = PodName("ns", "p", "u")
        event = ContainerOOMKilled(at=at, workload=w, pod=pod, container="c", restarts=1, memory_request=None, memory_limit=None)
        return self._record(event, "oom-events", w.key)

    def use(self, cores: float, *names: str) -> None:
        """One scrape of one container for each of these workloads."""
        for name in names:
            key = Workload("c", "ns", "Deployment", name).key
            event = MetricsScraped(
                at=datetime.fromtimestamp(T0 / 1000, UTC), cluster="c", workloads=(key,), pods=("p",), containers=("c",),
                cores=[cores], memory=[1.0],
            )  # fmt: skip
            self.log.append([self._record(event, "pod-metrics", key)])

    def _record(self, event: object, topic: str, key: str) -> NewRecord:
        return self.codec.encode(event, topic=topic, key=key, partition=self.topics.partition_of(key), source="/ullage/source/t")

    def settled(self, seconds: float = 120.0, about: str = "") -> recomputation.Report:
        """Wait until all marks name the last turn; then compare everything with a plain loop over the log.

        Does not wait for what differs beyond the sentences that begin with `about`.
        """
        until = time.monotonic() + seconds
        report = recomputation.Report(wrong=[f"{about}nothing was compared yet"])
        while time.monotonic() < until:
            if all(process.dead for process in self.workers):
                raise AssertionError("all workers ended:\n" + "\n".join(p.log.read_text() for p in self.workers))
            if not self._changelog_there():
                time.sleep(0.3)
                continue
            report = asyncio.run(recomputation.recompute(self.broker, self.topics, (sums_stage.STAGE,), self.topics.prefix))
            if not any(difference.startswith(about) for difference in report.wrong):
                break
            time.sleep(0.3)
        return report

    def _changelog_there(self) -> bool:
        """The first worker makes it."""
        try:
            return self.log.partitions(f"{self.topics.prefix}-sums-state-changelog") > 0
        except BadInput:
            return False

    def read(self, name: str) -> list[list]:
        return asyncio.run(kafka_topics.whole(self.broker, self.topics.wire(name), self.topics.partitions))

    def close(self) -> None:
        for process in self.workers:
            process.kill()
        self.log.close()


@pytest.fixture
def bench(broker: str, topics_made: Made, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(broker, topics_made(partitions=2), tmp_path)
    yield bench
    bench.close()


def test_a_poisoned_record_is_set_aside_and_all_else_equals_a_plain_loop_even_after_kill_9_and_a_restart(bench: Bench) -> None:
    bench.log.append([NewRecord(bench.topics.wire("oom-events"), 0, b"x", b'{"at": 3')])
    bench.worker()
    bench.oom("a", "b", "c")
    bench.use(60.0, "a", "b")
    bench.tick(2)
    first = bench.settled()
    assert first.exact, first
    # three OOMs and the dead letter; two ticks in two partitions
    assert (first.figures["decisions"], first.figures["turns"]) == (4, 4)
    (letter,) = [r for p in bench.read("dead-letters") for r in p]
    assert json.loads(letter.value)["offset"] == 0

    bench.workers[0].kill()
    bench.oom("a", "d")
    bench.use(90.0, "a", "b")
    bench.tick()
    bench.workers[0].start()
    second = bench.settled()
    assert second.exact, second
    # two more OOMs, and a and b with 150 cores each are above 100 plus the mean
    assert second.figures["decisions"] == 8
    assert '"found":"checkpoint"' in bench.workers[0].log.read_text()


def test_two_workers_share_the_partitions_and_one_takes_over_after_sigterm(bench: Bench) -> None:
    first, second = bench.worker(), bench.worker()
    bench.oom("a", "b")
    bench.tick()
    assert bench.settled().exact
    assert first.stop(20) == 0
    bench.oom("a", "b", "c")
    bench.tick()
    report = bench.settled()
    assert report.exact, report
    assert not second.dead
    last = T0 + 500 * bench.turn
    marks = committed(LogContext.of(bench.log, bench.topics), bench.topics.prefix, (sums_stage.STAGE,))
    assert {part: mark.turn for part, mark in marks.items()} == {("sums", 0): last, ("sums", 1): last}


def verified(bench: Bench) -> VerificationReport:
    context, listed = LogContext.of(bench.log, bench.topics), (sums_stage.STAGE,)
    marks = committed(context, bench.topics.prefix, listed)
    return verify(context, listed, committed=marks, again=lambda stage: committed(context, bench.topics.prefix, [stage]))


def test_what_a_worker_has_in_flight_is_missing_as_soon_as_it_is_gone_for_good(bench: Bench) -> None:
    worker = bench.worker()
    bench.oom("a", "b")
    bench.tick()
    assert bench.settled().exact
    worker.send(signal.SIGSTOP)
    bench.oom("a", "b", "c")
    bench.tick()
    live = verified(bench)
    assert (live.ok, live.waiting) == (True, 3), live
    assert f"workers are at work on sums {', '.join(str(p) for _, p in live.live)}" in "\n".join(report_lines(live))
    worker.kill()
    held = bench.log.held_by
    until = time.monotonic() + 60
    while held(bench.topics.prefix) != set() and time.monotonic() < until:
        time.sleep(0.5)
    dead = verified(bench)
    assert (dead.counts, dead.waiting) == ({DiscrepancyKind.MISSING: 3}, 0), dead
    key = Workload("c", "ns", "Deployment", "c").key
    partition = bench.topics.partition_of(key)
    (of_c,) = [each for each in dead.discrepancies if key in each.says]
    assert of_c.partition == partition
    assert f"is not in '{bench.topics.wire('recommendations')}' partition {partition}, " in of_c.says
    assert "nobody is at work on sums" in "\n".join(report_lines(dead))
    worker.start()
    assert bench.settled().exact
    assert verified(bench).ok


def test_a_log_verifies_at_any_moment_of_a_worker_at_work(bench: Bench) -> None:
    bench.worker()
    bench.oom("a")
    bench.tick()
    assert bench.settled().exact
    for _ in range(5):
        bench.oom("a", "b", "c", "d")
        bench.tick(3)
        report = verified(bench)
        assert report.ok, report


def test_ticks_of_the_future_before_all_others_stop_nothing_and_a_replay_agrees(bench: Bench) -> None:
    now, hour = time.time_ns() // 1_000_000, 3_600_000
    worker = bench.worker()
    bad = [now + 24 * hour, *(now + n * 50 * 60_000 for n in range(2, 30))]  # the very first tick, and a walk in small steps
    said = (ClockRecord(number, str(number), None, {("oom-events", 0): 0}, full=True) for number in bad)
    bench.log.append(each.encode(bench.topics.wire("clock")) for each in said)
    bench.turn = (now - T0) // 500
    bench.oom("a", "b", "c", "d")
    bench.tick()
    until, report = time.monotonic() + 180, VerificationReport()
    while time.monotonic() < until and (report.decisions, report.waiting) != (4, 0):
        time.sleep(0.5)
        if bench._changelog_there():
            report = verified(bench)
    assert (report.ok, report.decisions, report.waiting) == (True, 4, 0), report
    assert {p: turn - now < 1_000 for (_, p), turn in report.newest.items()} == {0: True, 1: True}
    assert not worker.dead


def test_transactions_that_end_either_way_or_never_hold_nothing_up(bench: Bench) -> None:
    worker = bench.worker()
    wire, producers = bench.topics.wire("oom-events"), []
    for name in ("committed", "aborted", "open"):
        producer = KafkaProducer(bootstrap_servers=bench.broker, transactional_id=f"{bench.topics.prefix}-{name}", acks="all")
        producers.append(producer)
        producer.init_transactions()
        producer.begin_transaction()
        for n in range(3):
            found = bench._oom(Workload("c", "ns", "Deployment", f"{name}{n}"))
            producer.send(wire, key=found.key, value=found.value, headers=list(found.headers), partition=0).get(10)
        if name == "committed":
            producer.commit_transaction()
        if name == "aborted":
            producer.abort_transaction()
    try:
        bench.oom("a", "b", "c", "d")
        bench.tick(3)
        report = bench.settled()
        assert report.exact, report
        assert report.figures["turns"] == 6  # three ticks in two partitions
        assert report.figures["decisions"] == 4 + 9  # whatever became of the transaction: the log has them
        assert worker.count("LOST") == 0
        assert verified(bench).ok
        assert not worker.dead
    finally:
        for producer in producers:
            producer.close(timeout=2)


def test_messages_lost_on_the_way_are_read_again_beside_faust(bench: Bench) -> None:
    bench.worker(skip=0.08)
    for _ in range(40):  # so that some of these messages are lost, whatever chance does
        bench.oom("a", "b", "c", "d")
        bench.tick()
    report = bench.settled(12)
    for _ in range(8):  # the last message of all may be the lost one: then only a later one shows the gap
        if report.exact and bench.workers[0].count('"gap"'):
            break
        bench.oom("a", "b", "c", "d")
        bench.tick()
        report = bench.settled(12)  # a turn that took in only its tick is in a checkpoint after some seconds, not at once
    assert report.exact, report
    assert bench.workers[0].count('"gap"') > 0


def test_a_broken_invariant_ends_the_process_with_a_reason_and_a_restart_recovers(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "break"
    monkeypatch.setenv("SUMS_BREAK", str(broken))
    worker = bench.worker()
    bench.oom("a")
    bench.tick()
    assert bench.settled().exact
    broken.touch()
    bench.oom("a", "b")
    bench.tick()
    assert worker.wait(90) == 70
    line = json.loads(next(line for line in worker.log.read_text().splitlines() if '"worker ended"' in line))
    assert (line["stage"], line["turn"], line["doing"]) == ("sums", T0 + 1000, "taking a turn")
    assert "AssertionError: this stage was told to break" in line["error"]

    broken.unlink()
    worker.start()
    report = bench.settled()
    assert report.exact, report


def test_topics_with_another_number_of_partitions_are_refused_in_a_sentence(bench: Bench) -> None:
    worker = bench.worker(partitions=3)
    assert worker.wait(90) == 78
    line = json.loads(next(line for line in worker.log.read_text().splitlines() if '"worker ended"' in line))
    assert f"topic '{bench.topics.wire('rules')}' has 2 partitions, but topics.partitions is 3" in line["error"]


def test_missing_topics_are_refused_in_a_sentence(broker: str, prefix: str, tmp_path: Path) -> None:
    bench = Bench(broker, Topics(prefix, 2), tmp_path)
    worker = bench.worker()
    try:
        assert worker.wait(90) == 78
        assert f"topic '{prefix}.clock.v1' does not exist" in worker.log.read_text()
    finally:
        bench.close()


def test_records_that_retention_took_are_said_to_be_lost_and_the_stage_goes_on(bench: Bench) -> None:
    worker = bench.worker()
    bench.oom("a")
    bench.tick()
    assert bench.settled().exact
    assert worker.stop(20) == 0
    bench.oom(*"abcdefgh")
    bench.tick()
    ends = {p: bench.log.end(bench.topics.wire("oom-events"), p) for p in range(2)}
    delete_before(bench.broker, bench.topics.wire("oom-events"), ends)
    bench.oom("z")
    bench.tick()
    worker.start()
    until = time.monotonic() + 120
    while time.monotonic() < until and not (
        any("/oom" in r.headers[2][1].decode() and b"/z" in r.key for r in _decisions(bench)) and _lost(worker) >= 8
    ):
        time.sleep(0.3)
    assert _lost(worker) == 8
    assert not worker.dead


@pytest.mark.parametrize("kept", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_a_changelog_that_lost_its_beginning_is_said_and_the_state_is_taken_again_from_the_log(bench: Bench, kept: int) -> None:
    """With one record kept, a mark is left whose chunks are gone."""
    worker = bench.worker()
    bench.oom("a", "b")
    bench.use(60.0, "a", "b")
    bench.tick()
    assert bench.settled().exact
    assert worker.stop(20) == 0
    changelog = f"{bench.topics.prefix}-sums-state-changelog"
    with topic_admin.connect(KafkaConnection(bench.broker)) as client:  # Kafka deletes nothing that is only compacted
        client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, changelog, configs={"cleanup.policy": "delete"})])
    delete_before(bench.broker, changelog, {p: bench.log.end(changelog, p) - kept for p in range(2)})
    for _ in range(2):
        bench.oom("a", "c")
        bench.tick()
        worker.start()
        report = bench.settled()
        assert report.exact, report
        assert worker.stop(20) == 0
    said = [json.loads(line) for line in worker.log.read_text().splitlines() if '"state gone"' in line]
    assert sorted(line["partition"] for line in said) == [0, 1]  # once each: the second time there is a state again


def _lost(worker: Process) -> int:
    """How many records the worker has said to be lost; it says it for each partition on its own."""
    lost = [json.loads(line) for line in worker.log.read_text().splitlines() if '"LOST"' in line]
    return sum(line["next"] - line["first"] for line in lost)


def _decisions(bench: Bench) -> list:
    return [r for p in bench.read("recommendations") for r in p]


def delete_before(broker: str, topic: str, ends: dict[int, int]) -> None:
    from kafka import KafkaAdminClient, TopicPartition

    admin = KafkaAdminClient(bootstrap_servers=broker)
    admin.delete_records({TopicPartition(topic, p): end for p, end in ends.items()})
    admin.close()
