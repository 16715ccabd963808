"""A backtest in columns gives what `step` gives, turn by turn: targets, bounds, times of change, and the card."""

import os
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from agents.backtest.backtest import Backtest, frames_of
from agents.backtest.event_runner import covers
from agents.backtest.recorded_containers import RecordedContainers
from agents.backtest.scoring import Score
from agents.backtest.workload_sums import SIDES, ContainerSums
from agents.commands.compare.backtested_policies import MODES
from agents.logic.updates.update_settings import UpdateSettings
from agents.logic.vertical.vertical_settings import VerticalSettings
from agents.run.pipeline import stages
from agents.settings.all_settings import Settings
from schemas.policies.vertical import UpdateMode
from schemas.units import Bytes, Fraction, Seconds
from streams.sources.traces import Trace
from streams.topics import Topics
from tests.support import small_pipeline

SHARED = Path(os.environ.get("ULLAGE_SHARED", "../shared")) / "traces"
MIB = 1 << 20

POLICIES = (
    VerticalSettings(),
    VerticalSettings(memory_window=Seconds(3600.0), cpu_half_life=Seconds(600.0), interval=Seconds(180.0)),
    VerticalSettings(bounds_step=Fraction(0.0), round_cpu=50, round_memory=MIB, heartbeat=Seconds(600.0)),
    VerticalSettings(pod_minimum_memory=Bytes(1), target_cpu_percentile=Fraction(0.97), cpu_confidence=Seconds(7200.0)),
    VerticalSettings(recommend_unseen=True, zero_is_absent=False, maximum_memory=Bytes(40 * MIB)),
)
UPDATES = (UpdateSettings(), UpdateSettings(interval=Seconds(300.0), lifetime=Seconds(900.0), quick_oom=Seconds(7200.0)))

SAMPLE = st.one_of(
    st.none(),
    st.tuples(
        st.sampled_from([0.0, 0.003, 0.2, 0.21, 0.5, 3.7]),
        st.sampled_from(["", "0", *(str(n * MIB) for n in (3, 20, 21, 64, 300))]),
        st.sampled_from([0] * 9 + [1, 2]),
    ),
)
"""Cores, memory in bytes as text, and OOM kills of one window; None is a gap."""


@st.composite
def fleets(draw: st.DrawFn) -> str:
    """A trace as CSV: containers of several workloads and pods with limits that change, gaps, kills, and times out of order."""
    lines = []
    step = draw(st.sampled_from([60, 300]))
    turns = draw(st.integers(3, 24))
    for number in range(draw(st.integers(1, 5))):
        name = f"c{number % 2},w{number // 2},w{number // 2}-{number // 2 + number % 3}"
        pattern = draw(st.lists(SAMPLE, min_size=1, max_size=6))
        begins, limit = draw(st.integers(0, turns - 1)), draw(st.sampled_from(["", str(32 * MIB), str(256 * MIB)]))
        late = draw(st.sampled_from([0, 0, 7, -20]))
        for turn in range(begins, turns):
            sample = pattern[turn * turn % len(pattern)]
            if sample is not None:
                cores, memory, kills = sample
                lines.append(f"{name},{1000 * step + turn * step + late},{cores},{memory},{limit},{kills}")
                if late == 7:  # a second sample in the same window
                    lines.append(f"{name},{1000 * step + turn * step + late + 9},{cores * 1.5},{memory},{limit},0")
        lines.reverse()
    lines = lines or [f"c,w,w-1,{1000 * step},1,1,,0"]
    return "\n".join(["container,workload,pod,timestamp_s,cpu_cores,memory_bytes,memory_limit_bytes,oom_kills", *lines]) + "\n"


def in_force(rows: RecordedContainers) -> dict[str, np.ndarray]:
    """What each container has and is recommended now, and when its pod began."""
    columns = {name: column[: len(rows)].copy() for name, column in rows.columns.items()}
    return {
        **columns,
        "advice": rows.advice(np.arange(len(rows))),
        "started": rows.started[: rows.pods].copy(),
        "killed": rows.killed[: rows.pods].copy(),
    }


def compare(
    trace: Trace, policy: VerticalSettings, updates: UpdateSettings, frames: int | None = None, mode: UpdateMode | None = None
) -> Backtest:
    """Take both ways side by side and compare them after each turn."""
    pipeline = stages(Settings(vertical=policy, updates=updates, topics={"partitions": 1}))
    topics = Topics(partitions=1)
    assert covers(pipeline, topics)
    one, two = (
        Backtest(
            pipeline,
            topics,
            updates,
            Score(sums=ContainerSums()),
            in_columns=in_columns,
            in_place=mode is UpdateMode.IN_PLACE,
        )
        for in_columns in (False, True)
    )
    for frame in islice(frames_of(trace, topics, "trace", mode), frames):
        one.apply(frame)
        two.apply(frame)
        expected, found = in_force(one.score.containers), in_force(two.score.containers)
        for name, column in expected.items():
            np.testing.assert_array_equal(found[name], column, name)
    expected_card = one.card()
    if mode is not None:  # then the updater plans, too, which only `step` asks
        expected_card = replace(expected_card, plans=0, refused=0)
    assert two.card() == expected_card
    assert [two.score.totals(side) for side in SIDES] == [one.score.totals(side) for side in SIDES]
    return two


@given(fleets(), st.sampled_from(POLICIES), st.sampled_from(UPDATES), st.sampled_from([None, *MODES.values()]))
@settings(
    max_examples=8,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # to shrink whole backtests takes many minutes
    suppress_health_check=[HealthCheck.too_slow],
)
def test_columns_and_step_agree_after_each_turn_of_any_fleet(
    fleet: str, policy: VerticalSettings, updates: UpdateSettings, mode: UpdateMode | None
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "usage.csv"
        path.write_text(fleet)
        with Trace(path) as trace:
            compare(trace, policy, updates, mode=mode)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["k8s-online-boutique", "google2019-borg"])
def test_columns_and_step_agree_on_a_real_trace(name: str) -> None:
    if not (SHARED / name).exists():
        pytest.skip(f"{SHARED / name} is not there")
    with Trace(SHARED / name) as trace:
        card = compare(trace, VerticalSettings(), UpdateSettings(), frames=250).card()
    assert card.recommendations > 0
    assert card.changes > 0


def test_other_stages_and_several_partitions_are_left_to_step() -> None:
    assert not covers(small_pipeline.stages(), Topics(partitions=1))
    assert not covers(stages(Settings()), Topics(partitions=2))
