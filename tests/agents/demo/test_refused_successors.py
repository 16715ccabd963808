"""Scenarios in which the API server refuses new pods: no more are missing than the budget allows, and it goes on when it may."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from agents import cli
from schemas.catalogue import Event
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.facts.pods import PodChanged, PodDeleted
from tests.support.kept_scenario import events_of

SCENARIO = """
length: 150m
budget: {budget}
mode: {mode}
nodes: {{count: 4, cpu: 16, memory: 32Gi}}
workloads:
- name: shop/web
  replicas: 10
  load: {{shape: diurnal, low: {low}, high: {low}, memory: 500, swing: 5}}
  requests: {{cpu: 500m, memory: 128Mi}}
{rules}
settings: {{updates.warm_up: 600, updates.eviction_tolerance: 1.0}}
"""
POLICY = "policies:\n- {name: shop/no.example.com, after: 5m, lasts: 90m}"
QUOTA = "quotas:\n- {name: shop/team, hard: {requests.cpu: '5.5', pods: 20}, lasts: 90m}"
TIGHT = "limit_ranges:\n- {name: shop/bounds, max: {memory: 4Gi}, default: {memory: 2Gi}}"


def play(folder: Path, rules: str, *, budget: float = 0.3, mode: str = "Recreate", low: float = 1.0) -> list[Event]:
    file, kept = folder / "scenario.yaml", folder / "kept"
    file.write_text(SCENARIO.format(rules=rules, budget=budget, mode=mode, low=low))
    assert cli.run(["simulate", str(file), "--keep", str(kept), "-o", "json"]) == 0
    return list(events_of(kept / "log.jsonl"))


def fewest(events: list[Event]) -> int:
    """The fewest pods that were there at one time, once all had come."""
    there, least, whole = set[str](), 10, False
    for event in events:
        if isinstance(event, PodChanged):
            there.add(event.pod.uid)
        elif isinstance(event, PodDeleted):
            there.discard(event.pod.uid)
        whole |= len(there) >= 10
        least = min(least, len(there)) if whole else least
    return least


def planned(events: list[Event], kind: Any = EvictionPlanned) -> list[datetime]:
    return [event.at for event in events if isinstance(event, kind)]


def refusals(events: list[Event], guard: str) -> list[str]:
    return [event.reason for event in events if isinstance(event, UpdateRefused) and event.guard == guard]


@pytest.mark.parametrize(("budget", "most"), [(0.1, 1), (0.3, 3)])
def test_where_a_webhook_of_others_refuses_new_pods_evictions_end_and_go_on_with_it(
    tmp_path: Path, budget: float, most: int
) -> None:
    events = play(tmp_path, POLICY, budget=budget)
    times = sorted(planned(events))
    early = [at for at in times if at < times[0].replace(hour=1, minute=35)]
    assert (len(early), fewest(events)) == (most, 10 - most)
    assert 'admission webhook "no.example.com" denied the request' in refusals(events, "successor")[0]
    assert len(times) == 10, "after the webhook is gone all are changed"


def test_a_successor_that_a_quota_would_refuse_is_not_tried(tmp_path: Path) -> None:
    """Each pod wants twice of what it has, and the quota has room for half of one more."""
    events = play(tmp_path, QUOTA)
    times = sorted(planned(events))
    assert "ResourceQuota 'team' allows requests.cpu 5500m" in refusals(events, "quota")[0]
    assert len([at for at in times if at < times[0].replace(hour=1, minute=30)]) == 0
    assert len(times) >= 10, "the quota is gone after an hour and a half"


def test_resizes_in_place_meet_the_same_quota(tmp_path: Path) -> None:
    events = play(tmp_path, QUOTA, mode="InPlace")
    assert "the API server would refuse to resize the pod" in refusals(events, "quota")[0]
    assert len(planned(events, ResizePlanned)) >= 10


def test_what_a_limit_range_gives_by_default_is_a_limit_as_any_other(tmp_path: Path) -> None:
    events = play(tmp_path, TIGHT)
    pods = [event for event in events if isinstance(event, PodChanged)]
    assert pods[0].containers[0].limits.memory == 2 << 30
    assert len(planned(events)) == 10


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        (QUOTA.replace("'5.5'", "much"), "the quota 'shop/team' makes no sense at requests.cpu"),
        (QUOTA.replace("requests.cpu", "requests.gold"), "makes no sense at quotas.0.hard"),
        (POLICY.replace("5m", "soon"), "makes no sense at policies.0.after"),
        (TIGHT.replace("max:", "most:"), "makes no sense at limit_ranges.0.most"),
    ],
)
def test_rules_that_make_no_sense_are_refused_with_their_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rules: str, says: str
) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(SCENARIO.format(rules=rules, budget=0.1, mode="Recreate", low=1.0))
    assert cli.run(["simulate", str(file)]) != 0
    out = capsys.readouterr()
    assert says in out.err + out.out


LOOP = """
length: 1h
budget: 0.5
mode: Recreate
workloads:
- name: shop/search
  replicas: 3
  keep: 3
  load: {shape: jvm, low: 0.05, high: 0.1, heap: 3000}
  requests: {cpu: 100m, memory: 500Mi}
  limits: {memory: 500Mi}
"""


def test_a_loop_of_kills_under_a_disruption_budget_is_said_and_nobody_asks_in_vain(tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(LOOP)
    assert cli.run(["simulate", str(tmp_path / "scenario.yaml"), "--keep", str(tmp_path / "kept"), "-o", "json"]) == 0
    events = list(events_of(tmp_path / "kept" / "log.jsonl"))
    assert not [each for each in events if isinstance(each, EvictionPlanned)]
    [said, *_] = [each for each in events if isinstance(each, UpdateRefused) and each.guard == "oom-bound"]
    assert "PodDisruptionBudget 'search' allows no eviction now" in said.reason


def test_a_quota_with_room_for_all_keeps_no_pod_from_more(tmp_path: Path) -> None:
    """The webhook asks how many pods the controller still wants, for what one takes, the others must find, too."""
    events = play(tmp_path, "quotas:\n- {name: shop/team, hard: {requests.cpu: '40', pods: 20}}")
    newest = {event.pod.uid: event for event in events if isinstance(event, PodChanged)}
    gone = {event.pod.uid for event in events if isinstance(event, PodDeleted)}
    there = [event.containers[0].requests.cpu or 0 for uid, event in newest.items() if uid not in gone]
    assert len(there) == 10
    assert min(there) > 1.0


def test_a_rule_that_refuses_only_what_is_recommended_keeps_no_pod_away(tmp_path: Path) -> None:
    """Each kill asks for more, so each of the controller's tries, which are minutes apart by then, is offered something else."""
    rule = "policies:\n- {name: shop/no-giants.example.com, most: {memory: 1Gi}}"
    scenario = LOOP.replace("  keep: 3\n", "").replace("length: 1h", "length: 90m")
    (tmp_path / "scenario.yaml").write_text(f"{scenario}{rule}\n")
    assert cli.run(["simulate", str(tmp_path / "scenario.yaml"), "--keep", str(tmp_path / "kept"), "-o", "json"]) == 0
    there, alone = set[str](), set[datetime]()
    for event in events_of(tmp_path / "kept" / "log.jsonl"):
        if isinstance(event, PodChanged):
            there.add(event.pod.uid)
        elif isinstance(event, PodDeleted):
            there.discard(event.pod.uid)
        if isinstance(event, PodChanged) and len(there) < 3:
            alone.add(event.at.replace(second=0, microsecond=0))
    assert len(there) == 3
    assert len(alone) < 20, "minutes in which a pod was missing"
