"""OOM kills of a backtest: recorded ones count, would-be ones are fed back as live would show them, and nothing looks ahead."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from agents import cli
from agents.backtest import backtest
from agents.backtest.scoring import Score
from agents.engine.stage import Stage
from agents.engine.turn import Decided, Turn
from schemas.catalogue import Event
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from schemas.names import PodName
from schemas.units import Bytes
from streams.log.log_port import NewRecord
from streams.sources.traces import Trace
from streams.topics import Topics
from tests.support.small_pipeline import START_MS, WEB, AdderState, PipelineLog, scrape, stages

MIB = 1 << 20


@dataclass
class Witness(AdderState):
    """The adder, which also writes down what it saw: the minute, and the event."""

    seen: list[tuple[int, Event]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(0, 1.0)

    def step(self, turn: Turn) -> Sequence[Decided]:
        minute = (turn.number - START_MS) // 60_000
        self.seen += [(minute, recorded.event) for name in ("oom-events", "pod-metrics") for recorded in turn.of(name)]
        return super().step(turn)

    def of(self, kind: type) -> list[tuple[int, Event]]:
        return [(minute, event) for minute, event in self.seen if isinstance(event, kind)]


def witnessed(bench: PipelineLog) -> tuple[Witness, backtest.ScoreCard]:
    witness = Witness()
    adder = replace(stages()[0], open=lambda _partition: witness)
    assert isinstance(adder, Stage)
    return witness, backtest.over_log(bench.log, [adder], bench.topics)


def recording(*memory: float, limit: int | None = 20 * MIB) -> PipelineLog:
    """WEB requests 10 MiB, and uses in each minute from 1 on so many MiB."""
    bench = PipelineLog(partitions=1)
    bench.log.append(bench.seen(0, WEB, 2.0, 10 * MIB, limit))
    for minute, used in enumerate(memory, start=1):
        bench.log.append([*bench.metrics(minute, (WEB, 1.0, used * MIB))])
        bench.tick(minute)
    return bench


def kill(bench: PipelineLog, minute: int, restarts: int, limit: int | None = 20 * MIB) -> NewRecord:
    event = ContainerOOMKilled(
        scrape(minute, []).at, WEB, PodName("shop", "web-0", "uid-web"), "main", restarts, Bytes(10 * MIB), limit and Bytes(limit)
    )
    return bench.codec.encode(event, topic="oom-events", key=WEB.key, partition=0, source="/s")


def killed_at(*minutes: int, limit: int | None = 20 * MIB, used: float = 1.0, length: int = 30) -> PipelineLog:
    """WEB uses so many MiB all the time and is killed in these minutes, of which no scrape shows anything."""
    bench = PipelineLog(partitions=1)
    bench.log.append(bench.seen(0, WEB, 2.0, 10 * MIB, 20 * MIB))
    for minute in range(1, length):
        kills = [kill(bench, minute, i + 1, limit) for i, at in enumerate(minutes) if at == minute]
        bench.log.append([*kills, *bench.metrics(minute, (WEB, 1.0, used * MIB))])
        bench.tick(minute)
    return bench


def test_recorded_kills_are_the_recordings_own_also_if_no_scrape_shows_them() -> None:
    card = witnessed(killed_at(*range(2, 26)))[1]
    assert (card.own.ooms, card.kills.recorded) == (24, 24)
    # The recommendation of 1 MiB has a limit of 2 MiB, below the one of 20 MiB that was reached: all come under it as well.
    assert (card.recommended.ooms, card.kills.would_be, card.kills.unknown, card.gated_kills) == (24, 24, 0, 24)
    assert "own: 24 OOM kills that the recording tells of" in list(backtest.lines(card))


def test_a_kill_that_the_log_holds_several_times_counts_once_and_one_of_a_pod_made_anew_counts() -> None:
    score, pod = Score(), PodName("shop", "web-0", "uid-web")
    one = ContainerOOMKilled(scrape(1, []).at, WEB, pod, "main", 1, Bytes(10 * MIB), Bytes(20 * MIB))
    shown = [score.killed(one) for _ in range(3)]
    assert (score.kills.recorded, shown) == (1, [one] * 3)
    score.killed(replace(one, restarts=2))
    score.killed(replace(one, pod=replace(pod, uid="uid-anew")))
    assert score.kills.recorded == 3


def test_a_recorded_kill_below_the_recommended_limit_may_or_may_not_have_come() -> None:
    bench = killed_at(3, 5, used=15.0)  # 15 MiB with a limit of 30 are recommended, and 20 MiB were reached
    witness, card = witnessed(bench)
    assert (card.own.ooms, card.recommended.ooms, card.kills.unknown, card.gated_kills) == (2, 0, 2, 2)
    # The stages see no kill, and memory that was reached for certain: the limit at which the kill came.
    assert witness.of(ContainerOOMKilled) == []
    seen = [(minute, event.memory[0]) for minute, event in witness.of(MetricsScraped) if isinstance(event, MetricsScraped)]
    assert [memory / MIB for _, memory in seen[:6]] == [15, 15, 20, 15, 20, 15]


def test_a_kill_before_any_recommendation_is_in_force_is_a_kill_of_both_sides_and_seen_as_recorded() -> None:
    witness, card = witnessed(killed_at(1))
    assert (card.own.ooms, card.recommended.ooms, card.kills.before) == (1, 1, 1)
    [(minute, event)] = witness.of(ContainerOOMKilled)
    assert isinstance(event, ContainerOOMKilled)
    assert (minute, event.memory_request, event.memory_limit) == (1, 10 * MIB, 20 * MIB)


def test_a_would_be_kill_shows_the_policy_its_limit_and_a_kill_and_never_the_true_peak() -> None:
    witness, card = witnessed(recording(8, 19, 19))  # 8 MiB with a limit of 16 are in force in minute 2
    [(minute, event)] = witness.of(ContainerOOMKilled)
    assert isinstance(event, ContainerOOMKilled)
    assert (minute, event.pod.uid, event.restarts) == (2, "uid-web", 1)
    assert (event.memory_request, event.memory_limit, event.memory_used) == (8 * MIB, 16 * MIB, None)
    seen = [event.memory[0] / MIB for _, event in witness.of(MetricsScraped) if isinstance(event, MetricsScraped)]
    assert seen == [8, 16, 19]  # in minute 3 the limit is 32
    assert (card.kills.would_be, card.own.ooms) == (1, 0)


def test_a_recorded_kill_is_seen_at_the_limit_that_the_recommendation_had() -> None:
    witness, _ = witnessed(killed_at(2))
    [(_, event)] = witness.of(ContainerOOMKilled)
    assert isinstance(event, ContainerOOMKilled)
    assert (event.memory_request, event.memory_limit) == (1 * MIB, 2 * MIB)


@pytest.mark.parametrize("cut", [2, 3, 4, 5])
def test_what_the_policy_sees_does_not_depend_on_what_comes_later(cut: int) -> None:
    whole = [8.0, 19.0, 40.0, 90.0, 4.0, 50.0]

    def shown(bench: PipelineLog) -> list[tuple[int, object]]:
        seen = witnessed(bench)[0].seen
        return [(minute, list(event.memory) if isinstance(event, MetricsScraped) else event) for minute, event in seen]

    long, short = shown(recording(*whole)), shown(recording(*whole[:cut]))
    assert short == [each for each in long if each[0] <= cut]


def with_maxima(*memory_max: float) -> PipelineLog:
    bench = PipelineLog(partitions=1)
    bench.log.append(bench.seen(0, WEB, 2.0, 10 * MIB, 20 * MIB))
    for minute, highest in enumerate(memory_max, start=1):
        event = replace(scrape(minute, [(WEB, 1.0, 8.0 * MIB)]), cores_max=np.array([2.5]), memory_max=np.array([highest * MIB]))
        record = bench.codec.encode(event, topic="pod-metrics", key=WEB.key, partition=0, source="/s")
        bench.log.append([record])
        bench.tick(minute)
    return bench


def test_window_maxima_show_kills_and_bursts_that_averages_hide() -> None:
    witness, card = witnessed(with_maxima(8, 25, 9))
    # The average is 8 MiB all the time; 25 MiB are over the own limit of 20 and over the recommended one of 16.
    assert (card.own.ooms, card.recommended.ooms) == (1, 1)
    assert (card.own.cpu.over, card.own.cpu.peak_over) == (0.0, 1.0)
    assert (card.resolution.windows, card.resolution.memory_maxima) == (((60.0, 3),), 3)
    seen = [e for _, e in witness.of(MetricsScraped) if isinstance(e, MetricsScraped)]
    assert [list(np.asarray(e.memory_max) / MIB) for e in seen] == [[8], [16], [9]]
    said = list(backtest.lines(card))
    assert (
        "samples are averages over 1 min; the highest CPU in one is known of every sample, the highest memory of every sample"
        in said
    )
    assert not [line for line in said if line.startswith("hidden by that")]


def test_a_trace_with_kills_counts_them_all_and_the_gate_says_which(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "usage.csv"
    header = "container_id,timestamp_s,cpu_cores,memory_bytes,memory_limit_bytes,oom_kills\n"
    path.write_text(header + "a,60,1,10,64,0\na,120,1,10,64,2\na,180,1,10,64,1\na,240,1,10,64,0\n")
    with Trace(path) as trace:
        *_, last = backtest.over_trace(trace, stages(), Topics(partitions=1))
        card = last.card()
    assert (card.own.ooms, card.kills.recorded, card.gated_kills) == (3, 3, 3)
    assert cli.run(["backtest", str(path), "--max-oom", "3"]) == 0
    capsys.readouterr()
    assert cli.run(["backtest", str(path), "--max-oom", "0"]) == 3
    # The recommended minimum of 250 MB is far above the limit of 64 bytes at which the kills came.
    said = "3 OOM kills are more than --max-oom 0: 0 would-be ones at a recommended limit, 0 recorded before one was in force, 3 "
    assert said + "recorded that nothing shows to be prevented" in capsys.readouterr().err
