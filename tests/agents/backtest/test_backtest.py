"""A backtest takes the same turns as live, looks never ahead, and its score is a sum that can be done by hand."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agents.backtest import backtest
from agents.backtest.event_runner import Recording
from agents.backtest.partial_scores import ResourceSums
from agents.backtest.recorded_containers import RecordedContainers
from agents.logic.event_validation import refuse
from agents.run.stage_runner import Runner
from streams.log_context import LogContext
from streams.sources.traces import Trace
from streams.topics import Topics
from tests.support.small_pipeline import START_MS, TILL, WEB, PipelineLog, stages

MIB = 1 << 20


@pytest.fixture
def bench() -> PipelineLog:
    """WEB requests 2 cores and 10 MiB with a limit of 20 MiB, and uses, from minute 1 to 4, what is written here."""
    bench = PipelineLog()
    bench.log.append(bench.seen(0, WEB, 2.0, 10 * MIB, 20 * MIB))
    for minute, cores, memory in ((1, 1.0, 8 * MIB), (2, 1.0, 17 * MIB), (3, 2.5, 18 * MIB), (4, 0.5, 40 * MIB)):
        bench.log.append(bench.metrics(minute, (WEB, cores, memory)))
        bench.tick(minute)
    return bench


def test_the_recordings_own_requests_are_weighed_as_they_stood_where_a_recommendation_was_in_force(bench: PipelineLog) -> None:
    card = backtest.over_log(bench.log, stages(), bench.topics)
    own = card.own
    # The recommendation of minute 1 is in force from minute 2 on, so both sides are compared over minutes 2 to 4.
    assert (card.covered, card.compared, card.container_days) == (0.75, 0.75, pytest.approx(4 * 60 / 86_400))
    assert own.container_days == card.recommended.container_days == pytest.approx(3 * 60 / 86_400)
    assert (card.left_out.no_recommendation, card.left_out.no_own_request) == (pytest.approx(60 / 86_400), 0.0)
    # Requests 2 cores; uses 1, 2.5, 0.5: slack 1, 0, 1.5 and one minute of three over.
    assert (own.cpu.requested, own.cpu.used, own.cpu.slack, own.cpu.over) == (2.0, 4 / 3, 2.5 / 3, 1 / 3)
    assert own.cpu.slack_p95 == pytest.approx(1.5, rel=0.02)
    # Requests 10 MiB; uses 17, 18, 40. Over the limit of 20 in minute 4 only.
    assert (own.memory.requested, own.memory.slack, own.memory.over) == (10 * MIB, 0.0, 1.0)
    assert own.ooms == 1


def test_a_recommendation_counts_from_the_scrape_after_its_turn(bench: PipelineLog) -> None:
    card = backtest.over_log(bench.log, stages(), bench.topics)
    ours = card.recommended
    # The adder says the sum of cores and the highest memory that it saw so far, in minute n for minute n+1.
    # CPU in force 1, 2, 4.5; used 1, 2.5, 0.5; slack 0, 0, 4.
    assert (ours.cpu.requested, ours.cpu.slack, ours.cpu.over) == (7.5 / 3, 4 / 3, 1 / 3)
    # In minute 2 memory in force is 8 MiB with a limit of 16: 17 is a kill, of which the adder sees 16. So 16 MiB are in force in
    # minute 3 and 18 in minute 4, where 40 is over the limit of 36.
    assert (ours.memory.requested, ours.memory.slack) == ((8 + 16 + 18) / 3 * MIB, 0.0)
    assert (ours.ooms, card.kills.would_be, card.kills.recorded) == (2, 2, 0)
    # Four recommendations, each another target outside the bounds before; the container ran all the time.
    assert (card.recommendations, card.changes) == (4, 4)
    assert card.changes_per_container_day == pytest.approx(4 / (4 * 60 / 86_400))
    # Eviction plans answer the recommendations of minutes 1 to 3. Two stages, two partitions, four minutes.
    assert (card.plans, card.refused, card.turns, card.rows, card.containers) == (3, 0, 16, 4, 1)


def test_use_that_stays_over_the_wall_is_one_kill_until_it_was_below() -> None:
    bench = PipelineLog()
    bench.log.append(bench.seen(0, WEB, 1.0, 10, None))
    for minute, memory in enumerate([11, 12, 9, 11, 11], start=1):
        bench.log.append([*bench.metrics(minute, (WEB, 1.0, memory))])
        bench.tick(minute)
    assert backtest.over_log(bench.log, stages(), bench.topics).own.ooms == 2


def test_a_deleted_pod_is_changed_no_more() -> None:
    bench = PipelineLog()
    for minute in (1, 2, 3):
        bench.log.append([*bench.metrics(minute, (WEB, 1.0, 1), (TILL, 1.0, 1))])
        if minute == 3:
            bench.log.append(bench.deleted(minute, WEB))
        bench.tick(minute)
    # Both are changed in minutes 1 and 2; in minute 3 only TILL runs on.
    assert backtest.over_log(bench.log, stages(), bench.topics).changes == 5


def test_what_was_never_requested_nor_recommended_is_not_scored() -> None:
    bench = PipelineLog()
    bench.log.append([*bench.metrics(1, (WEB, 1.0, 1))])
    bench.tick(1)
    card = backtest.over_log(bench.log, stages(), bench.topics)
    assert (card.rows, card.own.container_days, card.recommended.container_days, card.covered) == (1, 0.0, 0.0, 0.0)
    assert (card.recommended.cpu.slack, card.alone) == (0.0, None)


def test_what_the_recording_has_no_request_for_is_scored_alone() -> None:
    bench = PipelineLog()
    bench.log.append(bench.seen(0, WEB, 2.0, 10, None))
    for minute in (1, 2):
        bench.log.append([*bench.metrics(minute, (WEB, 1.0, 8), (TILL, 3.0, 8))])
        bench.tick(minute)
    card = backtest.over_log(bench.log, stages(), bench.topics)
    # In minute 2 both have a recommendation: WEB's is compared with its own request, TILL's stands alone.
    assert (card.covered, card.compared) == (0.5, 0.25)
    assert (card.own.cpu.requested, card.recommended.cpu.requested) == (2.0, 1.0)
    assert card.own.container_days == card.recommended.container_days
    assert card.alone is not None
    assert (card.alone.cpu.requested, card.alone.container_days) == (3.0, pytest.approx(60 / 86_400))
    assert card.left_out.no_own_request == pytest.approx(60 / 86_400)


def test_a_resource_without_a_request_of_its_own_is_scored_alone_although_the_other_one_has_one() -> None:
    bench = PipelineLog()
    bench.log.append(bench.seen(0, WEB, 2.0, None, None))
    for minute in (1, 2):
        bench.log.append([*bench.metrics(minute, (WEB, 1.0, 8))])
        bench.tick(minute)
    card = backtest.over_log(bench.log, stages(), bench.topics)
    assert (card.own.cpu.container_days, card.own.memory.container_days) == (pytest.approx(60 / 86_400), 0.0)
    assert card.alone is not None
    assert (card.alone.cpu.container_days, card.alone.memory.requested) == (0.0, 8.0)
    shown = {line[:40].strip(): line[40:].split() for line in backtest.lines(card)}
    assert shown["CPU, container-days of them"] == shown["memory, container-days of them"][::-1] == ["0.0", "0.0", "0.0"]


def test_a_scrape_that_nobody_can_believe_is_not_scored() -> None:
    bench = PipelineLog()
    bench.log.append(bench.seen(0, WEB, 2.0, 10 * MIB, 20 * MIB))
    for minute, cores in ((1, 1.0), (2, -5.0), (3, 1.0)):
        bench.log.append([*bench.metrics(minute, (WEB, cores, 8 * MIB))])
        bench.tick(minute)
    checked = [replace(stage, refuse=refuse) for stage in stages()]
    card = backtest.over_log(bench.log, checked, bench.topics)
    assert card.dead_letters > 0
    assert (card.rows, card.own.cpu.used) == (2, 1.0)


def test_a_pod_that_begins_after_a_recommendation_was_taken_back_has_its_own_requests() -> None:
    containers = RecordedContainers()
    first, other = (
        containers.row((workload, f"{workload}-1", "main"), 0.0) for workload in ("a/b/Deployment/c", "a/b/Deployment/d")
    )
    advice = [1.0, 2.0, 3.0, 10.0, 20.0, 30.0]
    containers.advise([("a/b/Deployment/c", "main"), ("a/b/Deployment/d", "main")], [advice, advice])
    for pod in (0, 1):
        containers.admit(pod, 1.0)
    containers.withdraw("a/b/Deployment/c")
    assert containers["cpu"][[first, other]].tolist() == [2.0, 2.0]  # what runs, runs on
    later = [containers.row((workload, f"{workload}-2", "main"), 2.0) for workload in ("a/b/Deployment/c", "a/b/Deployment/d")]
    np.testing.assert_array_equal(containers["memory"][later], [np.nan, 20.0])


def test_a_container_that_a_decision_leaves_out_is_no_longer_advised_while_its_workload_is() -> None:
    containers = RecordedContainers()
    key, names = "a/b/Deployment/c", ("main", "sidecar")
    rows = [containers.row((key, "c-1", name), 0.0) for name in names]
    advice = [1.0, 2.0, 3.0, 10.0, 20.0, 30.0]
    containers.restate([key], [2])
    containers.advise([(key, name) for name in names], [advice, advice])
    containers.admit(0, 1.0)
    containers.restate([key, "a/b/Deployment/unseen"], [1, 4])
    containers.advise([(key, "main")], [advice])
    np.testing.assert_array_equal(containers.advice(rows), [advice, [np.nan] * 6])
    assert containers["cpu"][rows].tolist() == [2.0, 2.0]  # what runs, runs on
    later = [containers.row((key, "c-2", name), 2.0) for name in names]
    np.testing.assert_array_equal(containers["cpu"][later], [2.0, np.nan])


def test_a_log_that_was_run_live_gives_the_card_of_its_facts_alone(bench: PipelineLog) -> None:
    facts_alone = backtest.over_log(bench.log, stages(), bench.topics)
    Runner(stages(factor=3.0), LogContext(bench.log, bench.topics, bench.codec)).run()
    assert bench.all_records("recommendations")
    assert backtest.over_log(bench.log, stages(), bench.topics) == facts_alone


def test_frames_hold_each_fact_once_in_the_frame_of_its_tick(bench: PipelineLog) -> None:
    frames = list(Recording(bench.log, bench.topics, stages()).frames())
    assert [f.number for f in frames] == [START_MS + m * 60_000 for m in (1, 2, 3, 4)]
    shorts = [[routed.topic for routed in f.events] for f in frames]
    assert shorts == [["pod-metrics", "pod-changes"], ["pod-metrics"], ["pod-metrics"], ["pod-metrics"]]


TRACE = """container_id,timestamp_s,cpu_cores,memory_bytes,cpu_limit_cores,memory_limit_bytes
a,300,0.5,1000000,1.0,4000000
b,300,0.25,2000000,1.0,4000000
a,600,0.75,1000000,1.0,4000000
b,600,0.5,2000000,1.0,4000000
a,900,0.25,5000000,1.0,4000000
b,900,0.25,2000000,1.0,4000000
"""


def card_of(folder: Path, partitions: int) -> backtest.ScoreCard:
    path = folder / "usage.csv"
    path.write_text(TRACE)
    topics = Topics(partitions=partitions)
    with Trace(path) as trace:
        *_, last = backtest.over_trace(trace, stages(), topics)
        return last.card()


def test_a_trace_is_scored_against_its_own_limits_and_gives_the_same_card_each_time(tmp_path: Path) -> None:
    card = card_of(tmp_path, 2)
    assert card == card_of(tmp_path, 2)
    assert (card.rows, card.containers, card.container_days) == (6, 2, 6 * 300 / 86_400)
    # Own requests are 1 core and 4 MB; from the second scrape on there is a recommendation to compare with. CPU slack: 0.25, 0.5,
    # 0.75, 0.75. One window of a is over its limit.
    assert card.own.cpu.slack == pytest.approx(2.25 / 4)
    assert card.own.ooms == 1
    assert card.first is not None
    assert card.last is not None
    assert (card.last - card.first).total_seconds() == 600


def test_how_many_partitions_there_are_does_not_change_the_score(tmp_path: Path) -> None:
    one, four = card_of(tmp_path, 1), card_of(tmp_path, 4)
    assert (one.own, one.recommended, one.changes, one.covered) == (four.own, four.recommended, four.changes, four.covered)


def test_the_percentile_of_slack_is_right_within_two_percent() -> None:
    weighing = ResourceSums(unit=1e-4)
    slack = np.arange(1, 101) / 10.0  # 0.1 to 10.0 in steps of 0.1, each a minute long: 95 % is 9.5
    weighing.add(np.arange(100), slack + 1.0, np.ones(100), 60.0)
    assert weighing.spread().slack_p95 == pytest.approx(9.5, rel=0.02)
    assert weighing.spread().slack == pytest.approx(5.05)


def test_what_is_added_does_not_depend_on_what_is_added_with_it() -> None:
    rows, seed = np.tile(np.arange(300), 4), np.random.default_rng(1)
    request, use = seed.random(1200) + 0.3, seed.random(1200)
    whole, by_parts = ResourceSums(unit=1e-4), []
    whole.add(rows, request, use, 0.1)
    for part in range(3):
        some = ResourceSums(unit=1e-4)
        for these in np.array_split(np.flatnonzero(rows % 3 == part), 5):
            some.add(rows[these] // 3, request[these], use[these], 0.1)
        by_parts.append(some)
    assert ResourceSums.joined(by_parts).spread() == whole.spread()
    assert whole.spread().requested == pytest.approx(request.mean())


def test_the_card_as_text_sets_own_and_recommended_side_by_side_and_says_what_it_cannot_see(bench: PipelineLog) -> None:
    said = list(backtest.lines(backtest.over_log(bench.log, stages(), bench.topics)))
    assert said[0] == "4 samples of 1 container in 16 turns, 2026-01-01 00:01 to 2026-01-01 00:04"
    assert ["CPU", "requested,", "cores", "2.000", "2.500"] in [line.split() for line in said]
    assert ["OOM", "kills,", "whole", "recording", "1", "2"] in [line.split() for line in said]
    assert (
        "samples are averages over 1 min; the highest CPU in one is known of no sample, the highest memory of no sample" in said
    )
    assert any(line.startswith("hidden by that: CPU and memory bursts within a window") for line in said)
    assert said[-2:] == [
        "own: the recording tells of no OOM kill; 1 time memory went over a container's limit",
        "recommended: 2 would-be OOM kills at a recommended limit, 0 before one was in force",
    ]
