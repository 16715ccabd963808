"""A made-up world through a small pipeline: in order, repeatable, and with the answer of a round in the next one."""

from datetime import datetime, timedelta
from itertools import islice

from agents.run.simulate import SimulatedRound, SimulatedWorld, TickGrid, simulate
from agents.run.stage_runner import Runner
from agents.verify.verification import verify
from schemas.decisions.pod_updates import EvictionPlanned
from streams.codec.event_codec import causes
from streams.log_context import LogContext
from tests.support.small_pipeline import START, START_MS, TILL, WEB, PipelineLog, stages


def rounds(bench: PipelineLog, count: int, seen: list[int] | None = None) -> list[SimulatedRound]:
    def advance(to: datetime) -> None:
        minute = int((to - START) / timedelta(minutes=1))
        bench.log.append(bench.metrics(minute, (WEB, 0.5, minute), (TILL, 0.25, minute)))

    def act() -> None:
        if seen is not None:
            seen.append(len(bench.all_records("pod-updates")))

    context = LogContext(bench.log, bench.topics, bench.codec)
    return list(islice(simulate(context, stages(), SimulatedWorld(advance, [act]), TickGrid(START_MS)), count))


def test_rounds_are_a_period_apart_and_what_was_decided_in_one_is_read_in_the_next() -> None:
    bench, seen = PipelineLog(), list[int]()
    made = rounds(bench, 4, seen)
    assert [r.at - START for r in made] == [timedelta(minutes=m) for m in (1, 2, 3, 4)]
    # Two workloads in two topics each round; from the second round on the evictions for the round before.
    assert [r.decisions for r in made] == [4, 6, 6, 6]
    assert seen == [0, 2, 4, 6]


def test_two_runs_write_the_same_log_byte_for_byte() -> None:
    one, two = PipelineLog(), PipelineLog()
    rounds(one, 5)
    rounds(two, 5)
    for topic in ("recommendations", "recommendations-by-cluster", "pod-updates", "pod-metrics"):
        assert one.all_records(topic) == two.all_records(topic)
        assert one.all_records(topic)


def test_ticks_stand_on_whole_periods_also_when_the_start_does_not() -> None:
    assert [TickGrid(90_001, 60_000).at(n) for n in (1, 2)] == [120_000, 180_000]


def test_a_simulated_stretch_verifies() -> None:
    bench = PipelineLog()
    rounds(bench, 6)
    verified = verify(LogContext(bench.log, bench.topics, bench.codec), stages())
    assert verified.ok
    assert verified.decisions == 6 * 4 + 5 * 2


def test_a_runner_that_comes_late_takes_the_same_turns_as_one_that_was_there_all_the_time() -> None:
    bench = PipelineLog()
    made = rounds(bench, 6)
    late = Runner(stages()[:1], LogContext(bench.log, bench.topics, bench.codec))
    late.read(limit=1_000_000)
    again = {(t.turn, d) for _, t in late.turns() for d in t.decisions}
    ours = {(t.turn, d) for r in made for t in r.taken for d in t.decisions if d.topic != bench.topics.wire("pod-updates")}
    assert again == ours


def test_causes_lead_from_a_plan_to_the_recommendation_it_answers() -> None:
    bench = PipelineLog()
    rounds(bench, 2)
    plan = bench.all_records("pod-updates")[0]
    event = bench.codec.decode(plan)
    assert isinstance(event, EvictionPlanned)
    (place,) = causes(plan)
    (record,) = bench.log.poll({(place.topic, place.partition): place.offset}, limit=1)
    assert event.recommendation == bench.codec.decode(record).id  # type: ignore[union-attr]  # it has one
