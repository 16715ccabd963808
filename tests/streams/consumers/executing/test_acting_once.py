"""Once per decision: repeats, restarts, crashes, a log that is away, and how far back a start reads."""

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from schemas.decision_subjects import Subject
from schemas.names import PodName
from schemas.outcomes import Action, ActionFinished, OutcomeDetail, Result
from schemas.units import Seconds
from streams import log_range
from streams.consumers.evictor import evictor
from streams.consumers.executing.acting_consumer import encode_outcome
from streams.consumers.executing.executor import Executor
from streams.consumers.resizer import resizer
from streams.errors import LogUnavailable, Unreachable
from streams.log.log_port import NewRecord, Positions, Record
from streams.topics import TOPICS
from tests.support.consumer_scene import START, BreakingLog, ConsumerScene, CountingClient, eviction_of, resize_of, scene_at_two


@pytest.fixture
def scene() -> ConsumerScene:
    return scene_at_two()


def test_a_repeated_decision_is_acted_on_once(scene: ConsumerScene) -> None:
    pod = scene.pod()
    consumer = evictor(scene.context, scene.client)
    for _ in range(3):
        scene.plan(eviction_of(pod))
        consumer.poll_once()
    assert scene.client.acts == [f"evict {pod.pod.name}"]
    assert len(scene.outcomes()) == 1


def test_after_a_restart_nothing_finished_is_done_again(scene: ConsumerScene) -> None:
    first, second = [p for p in scene.client.pods() if p.workload.name == "reports"][:2]
    scene.plan(eviction_of(first, "one"))
    evictor(scene.context, scene.client).poll_once()
    scene.plan(eviction_of(second, "two"))
    evictor(scene.context, scene.client).poll_once()
    evictor(scene.context, scene.client).poll_once()
    assert scene.client.acts == [f"evict {first.pod.name}", f"evict {second.pod.name}"]
    assert [o.decision for o in scene.outcomes()] == ["updater/0/1/evict/one", "updater/0/1/evict/two"]


def act_and_crash(scene: ConsumerScene, consumer: Executor) -> None:
    """The cluster has done what the consumer asked for, and the log did not take the outcome."""
    scene.log.broken = True
    try:
        consumer.poll_once()
        scene.settle()
    except LogUnavailable:
        pass
    scene.log.broken = False


@pytest.mark.parametrize("kind", ["resize", "evict"])
def test_a_crash_between_act_and_outcome_leads_to_one_act_and_one_outcome(scene: ConsumerScene, kind: str) -> None:
    pod = scene.pod()
    make = (lambda: resizer(scene.context, scene.client)) if kind == "resize" else (lambda: evictor(scene.context, scene.client))
    scene.plan(resize_of(pod) if kind == "resize" else eviction_of(pod))
    act_and_crash(scene, make())
    make().poll_once()
    assert scene.client.acts == [f"{kind} {pod.pod.name}"]
    (outcome,) = scene.outcomes()
    assert (outcome.result, outcome.detail) == (Result.DONE, OutcomeDetail.ALREADY_DONE)


@pytest.mark.parametrize("since", ["void", "paused"])
@pytest.mark.parametrize("kind", ["resize", "evict"])
def test_what_was_done_before_a_crash_is_said_to_be_done_though_it_may_not_be_done_any_more(
    scene: ConsumerScene, kind: str, since: str
) -> None:
    pod = scene.pod()
    make = resizer if kind == "resize" else evictor
    scene.plan(resize_of(pod) if kind == "resize" else eviction_of(pod))
    act_and_crash(scene, make(scene.context, scene.client))
    if since == "void":
        scene.tick(START + timedelta(days=1))
    else:
        scene.control(paused=True)
    assert make(scene.context, scene.client).poll_once() == 1
    assert [(o.result, o.detail) for o in scene.outcomes()] == [(Result.DONE, OutcomeDetail.ALREADY_DONE)]
    assert scene.client.acts == [f"{kind} {pod.pod.name}"]


@pytest.mark.parametrize("kind", ["resize", "evict"])
def test_what_was_not_done_before_a_crash_expires_as_before(scene: ConsumerScene, kind: str) -> None:
    pod = scene.pod()
    scene.plan(resize_of(pod) if kind == "resize" else eviction_of(pod))
    scene.tick(START + timedelta(days=1))
    make = resizer if kind == "resize" else evictor
    assert make(scene.context, scene.client).poll_once() == 1
    assert ([o.result for o in scene.outcomes()], scene.client.acts) == ([Result.EXPIRED], [])


def test_an_eviction_whose_answer_was_lost_is_said_to_be_done_after_its_plan_ended(scene: ConsumerScene) -> None:
    class LosingClient(CountingClient):
        def evict(self, pod: PodName) -> None:
            super().evict(pod)
            raise Unreachable(doing="evicting", to=pod.name, answer="the connection was cut", after=Seconds(10.0))

    consumer = evictor(scene.context, LosingClient(scene.cluster))
    consumer.poll_once()
    scene.plan(eviction_of(scene.pod()))
    assert consumer.poll_once() == 0
    scene.tick(START + timedelta(hours=3))
    assert consumer.poll_once() == 1
    assert [(o.result, o.detail) for o in scene.outcomes()] == [(Result.DONE, OutcomeDetail.ALREADY_DONE)]


def test_while_the_log_takes_no_outcome_nothing_else_is_begun(scene: ConsumerScene) -> None:
    first, second = [p for p in scene.client.pods() if p.workload.name == "reports"][:2]
    scene.plan(eviction_of(first, "one"))
    scene.plan(eviction_of(second, "two"))
    consumer = evictor(scene.context, scene.client)
    scene.log.broken = True
    for _ in range(3):
        with pytest.raises(LogUnavailable):
            consumer.poll_once()
    assert scene.client.acts == [f"evict {first.pod.name}"]
    scene.log.broken = False
    assert consumer.poll_once() == 2
    assert [o.decision for o in scene.outcomes()] == ["updater/0/1/evict/one", "updater/0/1/evict/two"]


def test_a_decision_that_cannot_be_read_is_set_aside_and_the_next_is_done(scene: ConsumerScene) -> None:
    partition = scene.topics.partition_of("demo")
    kind = ("ce_type", b"ullage.resize-planned.v1")
    scene.log.append([NewRecord(scene.topics.wire("pod-updates"), partition, b"demo", b'{"id": 5}', (kind,))])
    scene.plan(resize_of(scene.pod()))
    resizer(scene.context, scene.client).poll_once()
    assert len(scene.client.acts) == 1
    assert len(scene.records("dead-letters")) == 1


def test_a_bad_decision_met_while_the_log_takes_nothing_is_set_aside_later(scene: ConsumerScene) -> None:
    partition = scene.topics.partition_of("demo")
    scene.log.append([NewRecord(scene.topics.wire("pod-updates"), partition, b"demo", b"nonsense")])
    consumer = resizer(scene.context, scene.client)
    scene.log.broken = True
    with pytest.raises(LogUnavailable):
        consumer.poll_once()
    scene.log.broken = False
    assert consumer.poll_once() == 0
    assert len(scene.records("dead-letters")) == 1


@pytest.mark.parametrize("restarted", [False, True])
def test_what_was_decided_out_of_reach_is_neither_answered_nor_answered_again(scene: ConsumerScene, *, restarted: bool) -> None:
    done, late, old = (p for p in scene.client.pods() if p.workload.name == "reports")
    consumer = evictor(scene.context, scene.client)
    scene.plan(eviction_of(done, "done"))
    consumer.poll_once()
    scene.tick(START + timedelta(days=14, hours=3))
    consumer.poll_once()
    if restarted:
        consumer = evictor(scene.context, scene.client)
    scene.plan(eviction_of(done, "done"))
    scene.plan(eviction_of(old, "old"))
    scene.plan(replace(eviction_of(late, "late"), at=START + timedelta(hours=4)))
    assert consumer.poll_once() == 1
    assert [(o.decision, o.result) for o in scene.outcomes()] == [
        ("updater/0/1/evict/done", Result.DONE),
        ("updater/0/1/evict/late", Result.EXPIRED),
    ]
    assert scene.client.acts == [f"evict {done.pod.name}"]


class MeasuredLog(BreakingLog):
    """Counts the decisions it gives."""

    given = 0

    def poll(self, positions: Positions, *, wait: float = 0.0, limit: int = 10_000) -> Sequence[Record]:
        records = super().poll(positions, wait=wait, limit=limit)
        self.given += sum("pod-updates" in record.topic for record in records)
        return records


def test_a_start_reads_what_is_in_reach_and_not_the_years_before(scene: ConsumerScene) -> None:
    log = MeasuredLog()
    for topic in TOPICS:
        log.create(scene.topics.wire(topic.name), scene.topics.partitions)
    scene.log, pod = log, scene.pod()
    for hour in range(24 * 60):
        at = START + timedelta(hours=hour)
        scene.plan(replace(eviction_of(pod, f"e{hour}"), at=at, expires=at + timedelta(minutes=5)))
    scene.control()
    scene.tick(START + timedelta(days=60))
    assert evictor(scene.context, scene.client).poll_once() == 24 * 14
    assert log.given < 24 * 15 + 80 + log_range.LOOKED_THROUGH


def test_it_runs_until_told_to_stop_and_waits_while_the_log_is_away(scene: ConsumerScene) -> None:
    stop, pod = threading.Event(), scene.pod()
    scene.plan(eviction_of(pod))
    scene.log.broken = True
    thread = threading.Thread(target=evictor(scene.context, scene.client).run, args=(stop,))
    thread.start()
    deadline = time.monotonic() + 60
    while not scene.client.acts and time.monotonic() < deadline:
        time.sleep(0.01)
    scene.log.broken = False
    while not scene.outcomes() and time.monotonic() < deadline:
        time.sleep(0.01)
    stop.set()
    thread.join(60)
    assert scene.client.acts == [f"evict {pod.pod.name}"]
    assert [o.result for o in scene.outcomes()] == [Result.DONE]
    assert not thread.is_alive()


class HidingLog(BreakingLog):
    """Names an end that it does not deliver, which in Kafka is an error."""

    def poll(self, positions: Positions, *, wait: float = 0.0, limit: int = 10_000) -> Sequence[Record]:
        if any("outcomes" in topic for topic, _ in positions):
            raise LogUnavailable("nothing came, though there is more")
        return super().poll(positions, wait=wait, limit=limit)


def test_nothing_is_done_before_the_whole_log_was_read(scene: ConsumerScene) -> None:
    log = HidingLog()
    for topic in TOPICS:
        log.create(scene.topics.wire(topic.name), scene.topics.partitions)
    scene.log = log
    scene.control()
    scene.tick(scene.cluster.now)
    pod = scene.pod()
    other = ActionFinished("i", START, "other", Action.EVICT, Result.DONE, "", Subject.of_pod(pod.workload, pod.pod))
    log.append([encode_outcome(scene.context, other, source="")])
    scene.plan(eviction_of(pod))
    with pytest.raises(LogUnavailable, match="nothing came"):
        evictor(scene.context, scene.client).poll_once()
    assert scene.client.acts == []
