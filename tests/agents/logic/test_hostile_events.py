"""Bad input: what the refusal of the future lets pass, and that a stage that meets bad input says so and goes on as it was."""

import json
from dataclasses import replace
from typing import Any

import pytest

from agents.engine.stage import Stage
from agents.logic.event_validation import MOST_AHEAD, ahead
from agents.run.partition_task import Task, TurnResult
from agents.run.pipeline import stages
from agents.settings.all_settings import Settings
from schemas.facts.sources import SourceReported
from schemas.facts.usage import CheckpointSeen, ContainerOOMKilled, MetricsScraped, SavedHistogram
from schemas.names import Amounts, PodName
from schemas.policies.vertical import ContainerPolicy
from schemas.policies.vpa import TargetRef, VpaChanged
from streams.codec.event_codec import Codec
from streams.log.log_port import NewRecord, Record
from streams.topics import Topics
from tests.support import ticks
from tests.support.cluster_events import API, GIB, MINUTE, START, scrape, vpa, when
from tests.support.status_scene import said as advice

AHEAD = START + int(MOST_AHEAD * 1000)
HOUR = 60 * MINUTE
DAY = 24 * HOUR
TOPICS = Topics("ullage", 1)
STAGES = stages(Settings(topics={"partitions": TOPICS.partitions}))
KEPT = SavedHistogram(START / 1000, 1.0, {"3": 10_000})
SEED = CheckpointSeen(when(START), API, "api", "app", "v3", START / 1000, START / 1000, 1, KEPT, KEPT)


def killed(number: int) -> ContainerOOMKilled:
    return ContainerOOMKilled(when(number), API, PodName("web", "a", "u"), "app", 1, GIB, None)  # type: ignore[arg-type]  # units


def used(number: int, **changed: Any) -> MetricsScraped:
    return scrape(number, [(API.key, "a", "app", 0.1, GIB), (API.key, "b", "app", 0.1, GIB)], **changed)


@pytest.mark.parametrize("make", [used, killed, lambda number: SourceReported(when(number), "demo", "kube", ())])
def test_what_lies_a_little_ahead_of_the_turn_is_taken_and_more_is_refused(make: Any) -> None:
    assert ahead(make(START - 400 * DAY), START) is None
    assert ahead(make(AHEAD), START) is None
    assert ahead(make(AHEAD + 500), START) == (
        "at is 2026-01-01T00:05:00.500000+00:00, 300.5 s after the turn of 2026-01-01T00:00:00+00:00; 300 s are let pass"
    )


def test_of_a_scrape_with_ages_the_youngest_row_counts() -> None:
    assert ahead(used(AHEAD + HOUR, ages=(3600.0, 7200.0)), START) is None
    assert ahead(used(AHEAD + HOUR, ages=(7200.0, 3599.0)), START) is not None


def test_a_checkpoint_may_have_a_reference_ahead_and_no_sample() -> None:
    day = 86_400.0
    assert ahead(replace(SEED, cpu=replace(KEPT, reference=START / 1000 + 7 * day)), START) is None
    said = ahead(replace(SEED, memory=replace(KEPT, reference=START / 1000 + 40 * day)), START)
    assert said is not None
    assert said.startswith("memory.reference is 2026-02-10T00:00:00+00:00, ")
    said = ahead(replace(SEED, last=1e15), START)
    assert said is not None
    assert said.startswith("last is 1e+15, ")


@pytest.mark.parametrize("changed", [{"at": when(AHEAD + 500)}, {"id": f"recommender/0/{AHEAD + 500}/requests/{API.key}"}])
@pytest.mark.parametrize("stage", [stage for stage in STAGES if "recommendations-by-cluster" in stage.reads])
def test_each_stage_that_reads_recommendations_sets_one_of_a_turn_to_come_aside(stage: Stage, changed: dict[str, Any]) -> None:
    present = replace(advice(turn=START), at=when(START), workload=API, id=f"recommender/0/{START}/requests/{API.key}")
    codec = Codec(TOPICS)
    task = Task(stage, 0, topics=TOPICS, codec=codec, positions=dict.fromkeys(stage.reads, 0))
    for offset, event in enumerate((present, replace(present, **changed))):
        r = codec.encode(event, topic="recommendations-by-cluster", key="demo", partition=0, source="/test")
        task.feed("recommendations-by-cluster", Record(r.topic, 0, offset, r.key, r.value, r.headers))
    task.take_tick(ticks.of(task, START))
    taken = task.next_turn()
    assert taken is not None
    (letter,) = taken.dead
    assert "300.5 s after the turn of 2026-01-01T00:00:00+00:00" in json.loads(letter.value or b"")["reason"]
    assert taken.records == 1


TOPIC_OF = {
    MetricsScraped: "pod-metrics",
    ContainerOOMKilled: "oom-events",
    VpaChanged: "policies",
    CheckpointSeen: "pod-changes",
}


class Bench:
    """The recommender's task on partition 0, and where its inputs are."""

    def __init__(self) -> None:
        self.codec, stage = Codec(TOPICS), STAGES[0]
        self.offsets = dict.fromkeys(stage.reads, 0)
        self.task = Task(stage, 0, topics=TOPICS, codec=self.codec, positions=self.offsets)

    def turn(self, number: int, *events: Any) -> TurnResult:
        """What the stage does of these events in the turn of this number."""
        for event in events:
            name = TOPIC_OF[type(event)]
            self._feed(name, self.codec.encode(event, topic=name, key=API.key, partition=0, source="/test"))
        self.task.take_tick(ticks.of(self.task, number))
        done = self.task.next_turn()
        assert done is not None
        return done

    def _feed(self, name: str, new: NewRecord) -> None:
        self.task.feed(name, Record(new.topic, new.partition, self.offsets[name], new.key, new.value, new.headers))
        self.offsets[name] += 1

    def state(self) -> Any:
        return {chunk: self.task.state.dump(chunk) for chunk in self.task.state.chunks()}


def dead(done: TurnResult) -> list[tuple[str, int, str]]:
    bodies = [json.loads(record.value or b"") for record in done.dead]
    return [(body["topic"], body["offset"], body["reason"]) for body in bodies]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (replace(used(START), cores=(0.1, -0.5)), "cores[1] is -0.5; an amount cannot be negative"),
        (replace(used(START), cores=(1e7, 0.1)), "cores[0] is 10000000.0; more than 1e+06 is not possible"),
        (replace(used(START), memory=(1.0, 1e17)), "memory[1] is 1e+17; more than 1e+16 is not possible"),
        (replace(used(START), ages=(0.0, -1.0)), "ages[1] is -1.0; an amount cannot be negative"),
        (replace(used(START), cores_max=(0.1, -0.5)), "cores_max[1] is -0.5; an amount cannot be negative"),
        (replace(used(START), memory_max=(1e17, 1.0)), "memory_max[0] is 1e+17; more than 1e+16 is not possible"),
        (used(START + DAY), "at is 2026-01-02T00:00:00+00:00, 86400 s after the turn"),
        (killed(START + HOUR), "at is 2026-01-01T01:00:00+00:00, 3600 s after the turn"),
        (replace(killed(START), memory_used=-1), "memory_used is -1; an amount cannot be negative"),
        (replace(SEED, version="v2"), "version is 'v2'; only 'v3' can be read"),
        (replace(SEED, last=START / 1000 + 3600), "last is 2026-01-01T01:00:00+00:00, 3600 s after the turn"),
        (vpa(min_replicas=-1), "min_replicas is -1; it must be above 0"),
        (vpa(containers=(ContainerPolicy("*", Amounts(-1.0)),)), "containers[0].min_allowed.cpu is -1.0; an amount cannot"),
    ],
)
def test_bad_input_goes_to_dead_letters_with_value_and_place_and_leaves_the_state_as_it_was(bad: Any, said: str) -> None:
    one, other = Bench(), Bench()
    done = one.turn(START, used(START - MINUTE), bad)
    other.turn(START, used(START - MINUTE))
    [(topic, offset, reason)] = dead(done)
    place = (TOPICS.wire(TOPIC_OF[type(bad)]), 1 if isinstance(bad, MetricsScraped) else 0)
    assert ((topic, offset), reason[: len(said)]) == (place, said)
    assert one.state() == other.state()
    assert [r.value for r in one.turn(START + MINUTE).decisions] == [r.value for r in other.turn(START + MINUTE).decisions] != []


def test_a_vpa_without_its_target_and_a_second_vpa_on_a_workload_stop_nothing() -> None:
    lonely = vpa(name="lonely", target_ref=TargetRef("Deployment", "nobody", "apps/v1"))
    second = vpa(name="second", created=when(START + MINUTE), containers=(ContainerPolicy("*", Amounts(7.0)),))
    bench = Bench()
    done = bench.turn(START, lonely, second, vpa(), used(START - MINUTE))
    said = [*done.decisions, *bench.turn(START + MINUTE).decisions]
    bodies = [json.loads(record.value or b"") for record in said if record.topic == TOPICS.wire("recommendations")]
    assert dead(done) == []
    assert [(body["workload"]["name"], body["because"]["policy"]["vpa"]) for body in bodies] == [("api", vpa().key)]
    assert bodies[0]["containers"][0]["target"]["cpu"] < 7.0
