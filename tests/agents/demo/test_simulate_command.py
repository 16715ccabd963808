"""`ullage simulate`: a scenario file plays the whole loop, the same way each time, and its log can be looked back at."""

import json
from pathlib import Path
from typing import Any

import pytest

from agents import cli
from agents.commands.past import newest_state
from agents.run import pipeline
from agents.run.newest_checkpoint import newest_checkpoint
from agents.settings import loading
from agents.why.explanation import explain
from schemas.decisions.node_updates import NodeRemovalPlanned, NodeScalingHalted, ScaleUpPlanned
from schemas.decisions.replica_plans import ProposalOrigin, ReplicasPlanned
from schemas.facts.scheduled_pods import PodPlacementChanged
from streams import clock_log
from streams.codec.event_codec import Codec
from streams.log.file_log import FileLog
from streams.log_context import LogContext
from streams.topics import Topics

SCENARIO = Path(__file__).parents[3] / "docs" / "scenarios" / "storm.yaml"


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documented scenario, half an hour of it."""
    file = tmp_path_factory.mktemp("scenario") / "short.yaml"
    file.write_text(SCENARIO.read_text().replace("length: 1h", "length: 30m"))
    return file


def played(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    assert cli.run(["simulate", *words, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_same_file_gives_the_same_log_and_a_setting_another_end(
    short: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = (played(capsys, str(short), "--keep", str(tmp_path / name)) for name in ("a", "b"))
    assert one == two
    assert one["pods"] == 12
    assert one["oom_kills"] > 0
    assert one["evicted"] > 0
    assert (tmp_path / "a/log.jsonl").read_bytes() == (tmp_path / "b/log.jsonl").read_bytes()
    # pods that are killed at each start serve nobody, so they are changed whatever min_replicas says
    assert played(capsys, str(short), "--set", "updates.min_replicas=100")["evicted"] < one["evicted"]
    assert cli.run(["replay", "--verify", "--log", str(tmp_path / "a/log.jsonl")]) == 0


def test_a_kept_log_ends_with_the_state_that_its_turns_lead_to_so_that_nobody_takes_them_again(
    short: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    played(capsys, str(short), "--keep", str(tmp_path))
    with FileLog(tmp_path / "log.jsonl") as log:
        context = LogContext.of(log, Topics(partitions=1))
        last = clock_log.newest(log, context.topics)
        settings = loading.load(flags={"topics.partitions": "1"}).settings
        for stage in pipeline.stages(settings):
            found = newest_checkpoint(context, stage, 0, settings.worker.name).found
            replayed, turn = newest_state.newest_turn(context, stage, 0, "nobody")
            assert found is not None
            assert last is not None
            assert found.mark.turn == turn == last.number
            assert found.chunks == {name: replayed.dump(name) for name in replayed.chunks()}, stage.name


def test_memory_that_is_needed_for_seconds_at_each_start_and_never_seen_is_not_taken_away_the_next_day(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "start.yaml"
    file.write_text(SCENARIO.with_name("start-peak.yaml").read_text().replace("length: 3d", "length: 30h"))
    assert played(capsys, str(file))["oom_kills"] == 2


def test_what_new_pods_were_given_is_counted_listed_and_taken_back(
    short: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The successors of evicted pods are the only ones that were changed, and no plan has their amounts."""
    count, log = played(capsys, str(short), "--keep", str(tmp_path))["admitted"], str(tmp_path / "log.jsonl")
    assert count > 0
    assert cli.run(["timeline", "--log", log]) == 0
    given = [line for line in capsys.readouterr().out.splitlines() if "action patch, result done" in line]
    assert len(given) == count
    for name, owner in (("web", "web 2000m / 2.00 GiB"), ("cart", "cart 100m / 160.0 MiB")):
        assert all(f"requests ({owner} to " in line for line in given if f"pod 'shop/{name}-" in line)
    assert any("limits (cart not set / 200.0 MiB to " in line for line in given)
    assert cli.run(["replay", "--log", log, "--from", "00:00", "--set", "updates.threshold=0.2"]) == 0
    assert f" evict, {count - 1} patch\n" in capsys.readouterr().out  # the last outcome is newer than the last tick
    assert cli.run(["revert", "--since", "30m", "--log", log]) == 0
    reverted = capsys.readouterr().out
    assert "shop/Deployment/web  back to web 2000m / 2.00 GiB" in reverted
    assert "shop/Deployment/cart  back to cart 100m / 160.0 MiB" in reverted


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("shape: leak", "shape: sink"), "has the shape 'sink'; there are diurnal, bursty, leak, batch, jvm, rush"),
        (("per_hour: 900", "per_day: 900"), "does not fit to the shape 'leak'"),
        (("memory: 2Gi", "memory: much"), "the amounts of 'shop/web' make no sense"),
        (("replicas: 8", "replicas: 0"), "makes no sense at workloads.0.replicas"),
        (("budget: 0.25", "bugdet: 0.25"), "makes no sense at bugdet"),
        (("updates.warm_up", "updates.worm_up"), "there is no setting 'updates.worm_up'"),
    ],
)
def test_a_scenario_that_makes_no_sense_is_refused_with_place_and_value(
    change: tuple[str, str], says: str, short: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(short.read_text().replace(*change))
    assert cli.run(["simulate", str(file)]) == 2
    assert says in capsys.readouterr().err


def test_a_scenario_that_is_not_there_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["simulate", "none.yaml"]) == 2
    assert "the scenario 'none.yaml' cannot be read" in capsys.readouterr().err


GROUPS = SCENARIO.with_name("node-groups.yaml")


def test_groups_of_nodes_shrink_as_requests_do_and_the_same_file_gives_the_same_day(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "short.yaml"
    file.write_text(GROUPS.read_text().replace("length: 3h", "length: 45m"))
    one, two = (played(capsys, str(file), "--keep", str(tmp_path / name)) for name in ("a", "b"))
    assert one == two
    assert (tmp_path / "a/log.jsonl").read_bytes() == (tmp_path / "b/log.jsonl").read_bytes()
    assert one["nodes_removed"] == 6 - one["nodes_at_the_end"] > 0
    assert one["node_hours"] < 6 * 0.75
    assert one["pods"] == 6


def test_a_shortage_meets_the_rush_and_a_node_that_goes_is_explained_by_the_usage_that_emptied_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cheaper group has no machines while pods wait, so the other one serves; three seconds, because it is three hours."""
    assert played(capsys, str(GROUPS), "--keep", str(tmp_path))["groups_grown"] > 1
    with FileLog(tmp_path / "log.jsonl") as log:
        topics = Topics(partitions=1)
        context = LogContext.of(log, topics, "demo")
        events = [context.codec.decode_or_none(one) for one in log.poll({("ullage.node-updates.v1", 0): 0}, limit=100_000)]
        assert any(isinstance(one, NodeScalingHalted) and "InsufficientInstanceCapacity" in one.reason for one in events)
        assert any(isinstance(one, ScaleUpPlanned) and one.group == "large" for one in events)
        removals = [explain(context, one.node).decision for one in events if isinstance(one, NodeRemovalPlanned) and one.evict]
        causes = [removals]
        for what in ("resize planned", "requests recommended", "usage scraped"):
            causes.append([cause for one in causes[-1] for cause in one.causes if cause.what == what])
        assert all(causes)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("type: m5.xlarge", "type: m5.huge"), "nobody knows the instance type 'm5.huge' of group 'general'"),
        (("desired: 6", "desired: 60"), "group 'general' wants 60 nodes, and may have 1 to 10"),
        (("lasts: 1h", "lasts: long"), "makes no sense at groups.0.shortages.0.lasts"),
    ],
)
def test_a_group_that_makes_no_sense_is_refused_with_place_and_value(
    change: tuple[str, str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(GROUPS.read_text().replace(*change))
    assert cli.run(["simulate", str(file)]) == 2
    assert says in capsys.readouterr().err


def test_a_workload_with_a_scaling_has_its_pods_before_the_rush_comes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rush = SCENARIO.with_name("rush.yaml")
    assert played(capsys, str(rush), "--keep", str(tmp_path))["scaled"] > 0
    with FileLog(tmp_path / "log.jsonl") as log:
        codec = Codec(Topics(partitions=1))
        records = log.poll({("ullage.replica-plans.v1", 0): 0}, limit=100_000)
        plans = [event for event in map(codec.decode_or_none, records) if isinstance(event, ReplicasPlanned)]
    grown = [plan for plan in plans if plan.replicas > plan.current]
    live = {plan.id: next(p.replicas or 0 for p in plan.proposals if p.origin is ProposalOrigin.LIVE) for plan in grown}
    ahead = [plan for plan in grown if live[plan.id] < plan.replicas]
    # 3 cores at the rush, of which a pod is to use 0.6 * 0.5: ten pods; the load is at its half 28 minutes before two
    most = max(grown, key=lambda plan: plan.replicas)
    assert 10 <= most.replicas <= 12
    assert most.at.hour == 1
    assert len(ahead) >= len(grown) - 1
    assert plans[-1].replicas == 2


def test_nodes_are_there_before_the_pods_of_a_rush_where_planned_replicas_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def waited(name: str, *flags: str) -> list[str]:
        """The pods that found no node at first."""
        played(capsys, str(SCENARIO.with_name("nodes-ahead.yaml")), "--keep", str(tmp_path / name), *flags)
        with FileLog(tmp_path / name / "log.jsonl") as log:
            codec = Codec(Topics(partitions=1))
            events = map(codec.decode_or_none, log.poll({("ullage.scheduling-changes.v1", 0): 0}, limit=100_000))
            return [one.pod.name for one in events if isinstance(one, PodPlacementChanged) and one.unschedulable]

    assert waited("ahead") == []
    assert waited("behind", "--set", "nodes.planned_replicas=false")
    assert waited("late", "--set", "replicas.ahead=0")
