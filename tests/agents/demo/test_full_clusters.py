"""A full cluster in `ullage simulate`: nobody is evicted into waiting for a node, and with room everybody is changed."""

from pathlib import Path

import pytest

from agents import cli
from schemas.catalogue import Event
from schemas.decisions.pod_updates import EvictionPlanned, UpdateRefused
from schemas.facts.pods import PodChanged, PodDeleted
from tests.support.kept_scenario import events_of

SCENARIO = """
length: 60m
budget: 0.5
mode: Recreate
nodes: {{count: {nodes}, cpu: 4, memory: 16Gi}}
workloads:
- name: shop/web
  replicas: 4
  load: {{shape: diurnal, low: 2.2, high: 2.2, memory: 500, swing: 5}}
  requests: {{cpu: 1900m, memory: 1Gi}}
settings: {{updates.warm_up: 600, updates.eviction_tolerance: 1.0, updates.honor_nodes: {honor}}}
"""


def play(folder: Path, nodes: int, *, honor: bool = True) -> list[Event]:
    file, kept = folder / "scenario.yaml", folder / "kept"
    file.write_text(SCENARIO.format(nodes=nodes, honor=str(honor).lower()))
    assert cli.run(["simulate", str(file), "--keep", str(kept), "-o", "json"]) == 0
    return list(events_of(kept / "log.jsonl"))


def waiting(events: list[Event]) -> int:
    """How many pods have no node at the end."""
    pods: dict[str, PodChanged] = {}
    for event in events:
        if isinstance(event, PodChanged):
            pods[event.pod.uid] = event
        elif isinstance(event, PodDeleted):
            pods.pop(event.pod.uid, None)
    assert len(pods) == 4
    return sum(pod.node is None for pod in pods.values())


@pytest.mark.parametrize(("nodes", "honor", "waits"), [(2, True, False), (2, False, True), (4, True, False)])
def test_a_full_cluster_keeps_its_pods_and_one_with_room_changes_them(
    tmp_path: Path, nodes: int, honor: bool, waits: bool
) -> None:
    """Two pods of 1,900m fill a node of 4 cores, and each would come back with more than 2,100m."""
    events = play(tmp_path, nodes, honor=honor)
    evicted = sum(isinstance(event, EvictionPlanned) for event in events)
    reasons = [event.reason for event in events if isinstance(event, UpdateRefused) and event.guard == "node"]
    full = nodes == 2
    assert (bool(evicted), bool(reasons)) == (not (full and honor), full and honor)
    assert bool(waiting(events)) is waits
    assert all("are missing on the node that has most" in reason for reason in reasons)
