"""The list of stages, and what others derive from it."""

import subprocess
import sys

import pytest

from agents.commands.recommend import scan_sources
from agents.engine.stage import Stage
from agents.engine.turn import Recorded, State, Turn
from agents.run import stage_topics
from agents.run.pipeline import stages
from agents.run.stage_topics import all_decision_topics, input_topics
from agents.settings.all_settings import Settings
from schemas.facts.sources import SourceReported
from schemas.names import Place
from schemas.policies.vpa import TargetRef
from streams import clock_log
from streams.codec import plan_attestations
from streams.topics import TOPICS
from tests.support.cluster_events import START, vpa, when

NAMES = {topic.name for topic in TOPICS}


def test_every_topic_that_a_stage_reads_or_writes_exists() -> None:
    for stage in stages(Settings()):
        assert {*stage.reads, *stage.writes} <= NAMES


def test_inputs_are_every_topic_that_a_stage_reads_and_no_other() -> None:
    assert set(input_topics()) == {name for stage in stages(Settings()) for name in stage.reads}
    assert len(set(input_topics())) == len(input_topics())


def test_no_two_stages_write_one_topic_and_all_but_copies_count_as_decisions() -> None:
    written = [name for stage in stages(Settings()) for name in stage.writes]
    assert len(set(written)) == len(written)
    assert set(written) - set(all_decision_topics()) == {"recommendations-by-cluster", "replica-plans-by-cluster"}


@pytest.mark.parametrize("stage", stages(Settings()), ids=lambda stage: stage.name)
def test_no_stage_believes_a_source_whose_clock_is_a_day_ahead(stage: Stage) -> None:
    """It would count as running for a day after it ended, and stale facts would be decided on."""
    report = SourceReported(when(START + 86_400_000), "demo", "kube", ("scheduling-changes", "node-group-changes"))
    assert "s after the turn of" in (stage.ahead(report, START) or "")


def test_all_that_stages_write_and_nothing_else_comes_after_its_tick() -> None:
    written = {name for stage in stage_topics.ALL for name in stage.writes} | {"dead-letters", plan_attestations.TOPIC}
    assert {topic.name for topic in TOPICS if clock_log.comes_after_its_tick(topic.name)} == written


@pytest.mark.parametrize("name", ["recommender", "updater", "scaler", "forecaster"])
def test_opening_a_stage_loads_its_code_and_that_of_no_other(name: str) -> None:
    """All of it takes a third of a second of what somebody waits who asks `why-not`."""
    code = (
        "import sys; from agents.run.pipeline import stages; from agents.settings.all_settings import Settings\n"
        f"[stage] = [each for each in stages(Settings()) if each.name == {name!r}]; stage.open(0)\n"
        "print(*(each.rpartition('.')[2].removesuffix('_stage') for each in sys.modules if each.startswith('agents.logic')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert {"recommender", "updater", "scaler", "forecaster"} & set(done.stdout.split()) == {name}


@pytest.mark.parametrize("name", ["recommender", "updater", "scaler"])
def test_one_partition_of_a_stage_keeps_a_vpa(name: str) -> None:
    """All partitions are told of all VPAs: with 100,000 containers, what others kept was nearly a third of a worker's memory."""
    stage = next(each for each in stages(Settings()) if each.name == name)
    states = [stage.open(partition) for partition in range(Settings().topics.partitions)]
    for partition, state in enumerate(states):
        state.step(_told_of("elsewhere", partition))
    [keeper] = [state for state in states if _holds(state, "elsewhere")]

    # A checkpoint from when each partition kept all of them.
    other = next(state for state in states if state is not keeper)
    for chunk in keeper.chunks():
        other.load(chunk, keeper.dump(chunk))
    assert _holds(other, "elsewhere")
    other.step(_told_of("another", states.index(other)))
    assert not _holds(other, "elsewhere")


def test_a_scan_heeds_every_vpa() -> None:
    """Its log has one partition, whatever the settings say of the other."""
    state = scan_sources._recommender(Settings()).open(0)  # what a scan decides by
    names = [f"vpa-{number}" for number in range(8)]
    for name in names:
        state.step(_told_of(name, 0, target=f"of-{name}"))
    assert [name for name in names if _holds(state, name)] == names


def _told_of(name: str, partition: int, target: str = "api") -> Turn:
    said = vpa(name=name, target_ref=TargetRef("Deployment", target, "apps/v1"))
    return Turn(START, {"policies": [Recorded(said, Place("policies", partition, 0))]})


def _holds(state: State, name: str) -> bool:
    return any(name.encode() in state.dump(chunk) for chunk in state.chunks())
