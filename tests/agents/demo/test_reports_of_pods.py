"""Public reports about pods that nobody had tried here, and what came up beside them, each played as a scenario."""

from collections import Counter
from pathlib import Path

import pytest

from agents import cli
from schemas.catalogue import Event
from schemas.decisions.pod_updates import EvictionPlanned
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.usage import ContainerOOMKilled
from schemas.policies.vertical import UpdateMode
from tests.support.kept_scenario import events_of

ODD = """
length: 8h
budget: 0.34
mode: Recreate
settings: {updates.warm_up: 300}
workloads:
- {name: shop/a, load: {shape: leak, cores: 0.0254, memory: 77, per_hour: 0}, requests: {cpu: '1', memory: 1Gi}}
- {name: shop/b, load: {shape: leak, cores: 0.333, memory: 131, per_hour: 0}, requests: {cpu: '2', memory: 2Gi},
   limits: {memory: 3G}}
- {name: shop/c, load: {shape: leak, cores: 0.0007, memory: 13, per_hour: 0}, requests: {cpu: '1', memory: 123456789}}
- {name: shop/d, load: {shape: leak, cores: 1.2345, memory: 901, per_hour: 0}, requests: {cpu: 101m, memory: 1000001}}
- {name: shop/daily, load: {shape: rush, low: 0.1, high: 3, hour: 9, memory: 200}, requests: {cpu: '1', memory: 1Gi}}
"""
BROKEN = """
length: 40m
budget: 0.25
mode: Recreate
settings: {updates.warm_up: 300}
limit_ranges:
- {name: shop/r, max: {memory: 2Gi}}
workloads:
- {name: shop/never, load: {shape: leak, cores: 0.1, memory: 99, per_hour: 0}, requests: {cpu: '1'}, limits: {memory: 3Gi}}
- {name: shop/loops, load: {shape: leak, cores: 0.1, memory: 901, per_hour: 0}, requests: {cpu: '1'}, limits: {memory: 150Mi}}
- {name: shop/fine, load: {shape: leak, cores: 0.9, memory: 99, per_hour: 0}, requests: {cpu: '1', memory: 256Mi}}
"""
RATIO = """
length: 1h
budget: 0.5
mode: InPlace
settings: {updates.warm_up: 300}
workloads:
- {name: shop/web, load: {shape: leak, cores: 0.9, memory: 700, per_hour: 0}, requests: {cpu: 1m, memory: 1Gi},
   limits: {cpu: '4', memory: 2Gi}}
- {name: shop/api, load: {shape: leak, cores: 0.1, memory: 1400, per_hour: 0}, requests: {cpu: '1', memory: 100Ki},
   limits: {memory: 1Gi}}
"""
FULL = """
length: 3h
budget: 0.5
mode: InPlace
nodes: {count: 1, cpu: 5, memory: 64Gi}
settings: {updates.warm_up: 300}
workloads:
- {name: shop/big, load: {shape: leak, cores: 1, memory: 200, per_hour: 0}, requests: {cpu: 1400m, memory: 256Mi}}
- {name: shop/api, replicas: 2, load: {shape: leak, cores: 0.7, memory: 300, per_hour: 600},
   requests: {cpu: 300m, memory: 500Mi}, limits: {memory: 700Mi}}
"""
ORDERED = """
length: 1h
budget: 0.25
mode: Recreate
settings: {updates.warm_up: 300}
workloads:
- {name: shop/db, kind: StatefulSet, replicas: 4, load: {shape: leak, cores: 0.1, memory: 900, per_hour: 0},
   requests: {cpu: 200m, memory: 300Mi}, limits: {memory: 300Mi}}
"""
EVERYWHERE = """
length: 20m
budget: 0.5
mode: Recreate
settings: {updates.warm_up: 300}
nodes: {count: 4, cpu: 8, memory: 16Gi}
workloads:
- {name: infra/agent, kind: DaemonSet, replicas: 4, load: {shape: leak, cores: 0.1, memory: 900, per_hour: 0},
   requests: {cpu: 200m, memory: 300Mi}, limits: {memory: 300Mi}}
- {name: shop/roll, kind: Rollout, replicas: 4, load: {shape: leak, cores: 0.1, memory: 900, per_hour: 0},
   requests: {cpu: 200m, memory: 300Mi}, limits: {memory: 300Mi}}
"""
DEFAULTS = """
length: 1h
budget: 0.5
mode: Recreate
settings: {updates.warm_up: 300}
limit_ranges:
- {name: shop/r, default: {cpu: 500m, memory: 512Mi}, default_request: {cpu: 100m, memory: 128Mi}}
workloads:
- {name: shop/own, load: {shape: leak, cores: 0.9, memory: 900, per_hour: 0}, requests: {cpu: 60m, memory: 600Mi},
   limits: {memory: 4Gi}}
- {name: shop/given, load: {shape: leak, cores: 0.3, memory: 900, per_hour: 0}, requests: {cpu: 60m}}
"""


def play(folder: Path, scenario: str) -> list[Event]:
    file, kept = folder / "scenario.yaml", folder / "kept"
    file.write_text(scenario)
    assert cli.run(["simulate", str(file), "--keep", str(kept), "-o", "json"]) == 0
    return list(events_of(kept / "log.jsonl"))


def test_rounded_amounts_evict_no_pod_twice_and_later_recommendations_are_applied(tmp_path: Path) -> None:
    """autoscaler#4774: the new pod had almost what was recommended, and was evicted each minute. #6822: only the first was."""
    evicted = [event for event in play(tmp_path, ODD) if isinstance(event, EvictionPlanned)]
    counts = Counter(event.workload.name for event in evicted)
    assert counts == {**dict.fromkeys("abcd", 3), "daily": 6}
    assert {event.at.hour for event in evicted if event.workload.name == "daily"} == {3, 7}, "down in the night, up at the rush"


def test_a_workload_whose_pods_never_come_keeps_no_memory_from_pods_of_others_that_are_killed(tmp_path: Path) -> None:
    """A third of all pods is refused from the beginning, more than the budget: 423 kills in twelve hours before."""
    events = play(tmp_path, BROKEN)
    kills = Counter(event.pod.uid for event in events if isinstance(event, ContainerOOMKilled))
    assert max(kills.values()) <= 3
    assert {event.workload.name for event in events if isinstance(event, PodChanged)} == {"loops", "fine"}


def test_a_small_request_beside_a_large_limit_is_raised_in_place(tmp_path: Path) -> None:
    """autoscaler#9819, #3930: limits follow in their ratio to many times a node. Each such resize was refused for ever."""
    events = play(tmp_path, RATIO)
    last = {event.pod.name: event for event in events if isinstance(event, PodChanged)}.values()
    [web] = {event.containers[0].requests.cpu for event in last if event.workload.name == "web"}
    [api] = {event.containers[0].requests.memory for event in last if event.workload.name == "api"}
    assert web is not None
    assert api is not None
    assert web > 0.9
    assert api > 1400 << 20
    assert max(Counter(event.pod.uid for event in events if isinstance(event, ContainerOOMKilled)).values()) <= 3


def test_pods_of_a_daemonset_and_of_a_rollout_that_are_all_killed_get_more(tmp_path: Path) -> None:
    """autoscaler#10141: none of its pods is ready, which the updater takes for none wanted. argo-rollouts#1801: none changed."""
    events = play(tmp_path, EVERYWHERE)
    kills = Counter(event.pod.uid for event in events if isinstance(event, ContainerOOMKilled))
    assert max(kills.values()) <= 2
    last = {event.pod.uid: event for event in events if isinstance(event, PodChanged)}
    gone = {event.pod.uid for event in events if isinstance(event, PodDeleted)}
    amounts = [event.containers[0].requests.memory or 0 for uid, event in last.items() if uid not in gone]
    assert len(amounts) == 8
    assert min(amounts) > 900 << 20


@pytest.mark.parametrize("mode", [UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE])
def test_a_resize_that_waits_for_cpu_keeps_no_memory_from_a_pod_that_is_killed(tmp_path: Path, mode: UpdateMode) -> None:
    """kubernetes#135107: the kubelet defers a resize as a whole. Before: four kills a pod, or an eviction into waiting."""
    events = play(tmp_path, FULL.replace("mode: InPlace", f"mode: {mode}"))
    kills = Counter(event.pod.uid for event in events if isinstance(event, ContainerOOMKilled))
    # A pod that grows by 600 MiB an hour is killed when it comes to its first limit, and to its second.
    assert set(kills.values()) == {2}
    assert not any(isinstance(event, EvictionPlanned) for event in events)
    last = {event.pod.name: event for event in events if isinstance(event, PodChanged) and event.workload.name == "api"}
    assert all((event.containers[0].requests.memory or 0) > 1 << 30 for event in last.values())


def test_a_set_whose_first_pod_is_killed_at_each_start_gets_its_other_pods(tmp_path: Path) -> None:
    """kubernetes#38418: the others wait for the first one. Before, they counted as away, and it was killed 15 times an hour."""
    events = play(tmp_path, ORDERED)
    assert len([event for event in events if isinstance(event, ContainerOOMKilled)]) <= 3
    there = {event.pod.uid for event in events if isinstance(event, PodChanged)}
    gone = {event.pod.uid for event in events if isinstance(event, PodDeleted)}
    assert len(there - gone) == 4


def test_amounts_that_a_limit_range_gave_are_changed_like_the_owners(tmp_path: Path) -> None:
    """autoscaler#4994: beside a LimitRange with defaults the webhook set something else than what was recommended."""
    events = play(tmp_path, DEFAULTS)
    gone = {event.pod.uid for event in events if isinstance(event, PodDeleted)}
    last = {event.pod.uid: event for event in events if isinstance(event, PodChanged) and event.pod.uid not in gone}.values()
    for name, cores, ratio in (("own", 0.9, 4096 / 600), ("given", 0.3, 4.0)):
        pods = [event.containers[0] for event in last if event.workload.name == name]
        assert len(pods) == 3
        for seen in pods:
            assert seen.requests.memory is not None
            assert seen.limits.memory is not None
            assert (seen.requests.cpu or 0) > cores
            assert seen.requests.memory > 900 << 20
            assert seen.limits.memory / seen.requests.memory == pytest.approx(ratio)
