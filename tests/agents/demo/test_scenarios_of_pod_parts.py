"""Scenarios whose pods have init containers, sidecars or amounts of their own, which the API server counts, and refuses by."""

from pathlib import Path

import pytest

from agents import cli
from schemas.catalogue import Event
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.decisions.vpa_conditions import MemoryLimitFound
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.usage import ContainerOOMKilled
from schemas.outcomes import ActionFinished, Result
from tests.support.kept_scenario import events_of

SCENARIO = """
length: {length}
budget: 0.5
mode: '{mode}'
nodes: {{count: 2, cpu: 8, memory: 16Gi}}
settings: {{updates.warm_up: 300}}
workloads:
- name: shop/web
  replicas: 4
  load: {{shape: leak, cores: 0.8, memory: {needs}, per_hour: 0}}
  requests: {{cpu: 200m, memory: 128Mi}}
{more}
"""
INIT_LOOP = """
  init:
  - {name: migrate, lasts: 30, load: {shape: leak, cores: 0.5, memory: 300, per_hour: 0},
     requests: {memory: 100Mi}, limits: {memory: 200Mi}}
"""
SIDECAR_LOOP = INIT_LOOP.replace("migrate, lasts: 30", "proxy, sidecar: true")
SIDECAR_IN_QUOTA = """
  init:
  - {name: proxy, sidecar: true, load: {shape: leak, cores: 0.1, memory: 60, per_hour: 0}, requests: {cpu: 600m, memory: 64Mi}}
quotas:
- {name: shop/team, hard: {requests.cpu: '5'}}
"""
SIDECARS_FILL_NODES = """
  init:
  - {name: proxy, sidecar: true, load: {shape: leak, cores: 0.1, memory: 60, per_hour: 0}, requests: {cpu: '3.3', memory: 64Mi}}
"""
OWN_REQUESTS = "  resources: {requests: {cpu: 500m, memory: 2Gi}}"
OWN_LIMIT = "  resources: {requests: {cpu: '2', memory: 500Mi}, limits: {memory: 500Mi}}"
WIDE = "  resources: {requests: {cpu: '2', memory: 2Gi}}\npod_level_resizes: false"


def play(folder: Path, more: str, *, mode: str = "InPlaceOrRecreate", needs: int = 500, length: str = "60m") -> list[Event]:
    file, kept = folder / "scenario.yaml", folder / "kept"
    file.write_text(SCENARIO.format(more=more, mode=mode, needs=needs, length=length))
    assert cli.run(["simulate", str(file), "--keep", str(kept), "-o", "json"]) == 0
    return list(events_of(kept / "log.jsonl"))


def planned(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events if isinstance(event, ResizePlanned | EvictionPlanned)]


def refused(events: list[Event]) -> dict[str, str]:
    return {event.guard: event.reason for event in events if isinstance(event, UpdateRefused)}


def failed(events: list[Event]) -> list[str]:
    return [event.reason for event in events if isinstance(event, ActionFinished) and event.result is Result.FAILED]


def there(events: list[Event]) -> list[PodChanged]:
    """The pods that are there at the end."""
    newest = {event.pod.uid: event for event in events if isinstance(event, PodChanged)}
    gone = {event.pod.uid for event in events if isinstance(event, PodDeleted)}
    return [event for uid, event in newest.items() if uid not in gone]


def answers(folder: Path, capsys: pytest.CaptureFixture[str], *command: str) -> list[str]:
    """The lines of a command on the log that was kept."""
    capsys.readouterr()
    assert cli.run([*command, "--log", str(folder / "kept" / "log.jsonl")]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Job", "Rollout"])
@pytest.mark.parametrize(("name", "loop"), [("migrate", INIT_LOOP), ("proxy", SIDECAR_LOOP)])
@pytest.mark.parametrize("mode", ["InPlaceOrRecreate", "Initial", "Off"])
def test_a_loop_of_kills_outside_the_containers_has_a_row_in_each_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, mode: str, name: str, loop: str, kind: str
) -> None:
    play(tmp_path, f"{loop}\n  kind: {kind}", mode=mode)
    said = f"ontainer '{name}' is OOM-killed again and again and gets no more memory: it is an init container"
    rows = [*answers(tmp_path, capsys, "why-not", "workload", f"shop/{kind}/web"), "", *answers(tmp_path, capsys, "status")]
    why, status = rows[: rows.index("")], rows[rows.index("") :]
    assert all(said in row for row in why), why
    assert any(said in row and "memory limited" in row for row in status), status


@pytest.mark.parametrize("mode", ["InPlace", "InPlaceOrRecreate", "Recreate"])
def test_a_loop_of_kills_of_an_init_container_is_said_and_its_pods_are_left_alone(tmp_path: Path, mode: str) -> None:
    events = play(tmp_path, INIT_LOOP, mode=mode)
    assert not planned(events)
    [said] = [event for event in events if isinstance(event, MemoryLimitFound)]
    assert (said.reason, "'migrate'" in said.message, "in the template" in said.message) == ("InitContainer", True, True)
    assert all(pod.init_containers[0].restarts > 5 and not pod.containers[0].ready for pod in there(events))


def test_a_loop_of_kills_of_a_sidecar_is_said_and_the_containers_get_what_they_need(tmp_path: Path) -> None:
    events = play(tmp_path, SIDECAR_LOOP)
    [said] = [event for event in events if isinstance(event, MemoryLimitFound)]
    assert (said.reason, "'proxy'" in said.message) == ("InitContainer", True)
    assert "container 'proxy' is OOM-killed again and again" in refused(events)["oom-bound"]
    assert planned(events) == ["ResizePlanned"] * 4
    assert not failed(events)


def test_what_sidecars_request_counts_in_a_quota(tmp_path: Path) -> None:
    """Four pods of 200m and a proxy of 600m use 3.2 of 5 cores: two of them may have 977m instead, as is recommended."""
    events = play(tmp_path, SIDECAR_IN_QUOTA)
    assert "ResourceQuota 'team' allows requests.cpu 5000m, 4754m is in use" in refused(events)["quota"]
    assert planned(events) == ["ResizePlanned"] * 2
    assert not failed(events)


def test_no_pod_is_evicted_into_a_node_that_its_sidecar_fills(tmp_path: Path) -> None:
    """Two pods of 3.5 cores on each node of 8: one may have 0.85 cores more in place, and the other's resize has no room."""
    events = play(tmp_path, SIDECARS_FILL_NODES, length="90m")
    assert "EvictionPlanned" not in planned(events)
    assert all(pod.node is not None for pod in there(events))


@pytest.mark.parametrize("mode", ["InPlace", "InPlaceOrRecreate"])
def test_a_resize_beyond_the_pods_own_requests_is_not_asked_for(tmp_path: Path, mode: str) -> None:
    events = play(tmp_path, OWN_REQUESTS, mode=mode)
    assert "cpu requests of 977m are above 500m, the pod's own request" in refused(events)["acceptance"]
    assert not planned(events)


def test_new_pods_get_what_their_own_requests_have_room_for(tmp_path: Path) -> None:
    events = play(tmp_path, OWN_REQUESTS, mode="Recreate")
    assert planned(events) == ["EvictionPlanned"] * 4
    assert {(pod.containers[0].requests.cpu, pod.requests.cpu) for pod in there(events)} == {(0.491, 0.5)}
    assert len(there(events)) == 4


@pytest.mark.parametrize("mode", ["InPlace", "InPlaceOrRecreate", "Recreate"])
def test_a_loop_of_kills_at_the_pods_own_limit_is_said_to_be_kept_by_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    events = play(tmp_path, OWN_LIMIT, mode=mode, needs=900)
    [said] = [event for event in events if isinstance(event, MemoryLimitFound)]
    assert said.reason == "PodLimit"
    assert "it has no limit of its own, and was killed at its pod's, 500.0 MiB; raise the pod's own limit" in said.message
    assert sum(isinstance(event, ContainerOOMKilled) for event in events) > 20
    assert len(planned(events)) <= 8, "each twice at most, for more within what the pod has"
    assert "web' is OOM-killed again and again" in answers(tmp_path, capsys, "why-not", "shop/Deployment/web")[0]
    assert not failed(events)


def test_where_pods_with_own_amounts_cannot_be_resized_they_are_evicted_instead(tmp_path: Path) -> None:
    events = play(tmp_path, WIDE)
    assert len(failed(events)) == 4
    assert "resize of pods with pod-level resources is forbidden" in failed(events)[0]
    assert planned(events) == ["ResizePlanned"] * 4 + ["EvictionPlanned"] * 4
    assert {pod.containers[0].requests.cpu for pod in there(events)} == {0.977}


def test_and_in_mode_in_place_they_are_tried_less_and_less_often(tmp_path: Path) -> None:
    events = play(tmp_path, WIDE, mode="InPlace", length="4h")
    assert len(failed(events)) <= 4 * 10
    assert "resize of pods with pod-level resources is forbidden" in refused(events)["refused"]


SLOW_START = """
  init:
  - {name: setup, lasts: 600, load: {shape: leak, cores: 0.1, memory: 50, per_hour: 0}, requests: {cpu: 50m}}
"""


def times_of(events: list[Event], kind: type[EvictionPlanned] | type[ResizePlanned]) -> list[float]:
    """Minutes since midnight."""
    return sorted(event.at.hour * 60 + event.at.minute for event in events if isinstance(event, kind))


def test_a_pod_whose_init_containers_run_is_away_so_the_next_is_evicted_once_it_serves(tmp_path: Path) -> None:
    """Half of four pods may be away, and a successor takes ten minutes to begin."""
    events = play(tmp_path, SLOW_START, mode="Recreate")
    first, second, third, fourth = times_of(events, EvictionPlanned)
    assert (second - first, fourth - third) == (0, 0)
    assert third - first >= 10


def test_no_pod_is_resized_before_its_containers_have_begun(tmp_path: Path) -> None:
    """kubernetes#126527: amounts that were set while an init container ran came into force, also without room."""
    events = play(tmp_path, SLOW_START, mode="InPlace")
    assert len(times_of(events, ResizePlanned)) == 4
    begun = {event.pod.uid: event.at for event in reversed(events) if isinstance(event, PodChanged) and event.containers[0].ready}
    assert all(event.at >= begun[event.pod.uid] for event in events if isinstance(event, ResizePlanned))


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (INIT_LOOP.replace("migrate", "web"), "two containers of 'shop/web' have one name: web, web"),
        (INIT_LOOP.replace("lasts: 30", "lasts: long"), "makes no sense at workloads.0.init.0.lasts"),
        (INIT_LOOP.replace("shape: leak", "shape: none"), "the load of 'shop/web, migrate' has the shape 'none'"),
        (OWN_LIMIT.replace("500m", "much").replace("500Mi", "much"), "the amounts of 'shop/web' make no sense"),
    ],
)
def test_parts_that_make_no_sense_are_refused_with_their_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: str, says: str
) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(SCENARIO.format(more=more, mode="InPlace", needs=500, length="60m"))
    assert cli.run(["simulate", str(file)]) != 0
    out = capsys.readouterr()
    assert says in out.err + out.out
