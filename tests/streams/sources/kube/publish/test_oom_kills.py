"""OOM kills as pods and events show them, published once each, with the request that they were killed under."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
import structlog.testing

from schemas.facts.pods import PodChanged, PodDeleted
from schemas.names import Workload
from streams.clients.kube.pod_objects import PodObject
from streams.clock_rules import FILL
from streams.log.log_port import NewRecord
from streams.log_context import LogContext
from streams.publishing import published_state
from streams.sources.kube import kube_source
from tests.support.kube_objects import ended, eviction, owner, pod, running, waiting
from tests.support.kube_scene import PARTITIONS, KubeScene

AT = datetime(2026, 3, 1, 0, 0, 30, tzinfo=UTC)
MIB = 1 << 20
Status = Mapping[str, object]


def seen(*pods: PodObject) -> KubeScene:
    scene = KubeScene()
    scene.sync()
    scene.later(timedelta(minutes=1))
    for each in pods:
        scene.see("pods", each)
    return scene


def test_a_container_that_ends_out_of_memory_is_a_kill_with_the_new_pods_request() -> None:
    scene = seen(pod("p", memory="64Mi", status=running(0)), pod("p", memory="96Mi", status=ended(0, "OOMKilled")))
    (kill,) = scene.kills()
    assert (kill.at, kill.container, kill.restarts, kill.memory_request) == (AT, "app", 1, 96 * MIB)


def test_a_container_that_runs_again_after_a_kill_is_one_with_the_old_pods_request() -> None:
    scene = seen(pod("p", memory="64Mi", status=running(2)), pod("p", memory="96Mi", status=running(3, "OOMKilled")))
    (kill,) = scene.kills()
    assert (kill.at, kill.restarts, kill.memory_request) == (AT, 3, 64 * MIB)


def test_a_kill_that_shows_at_its_end_and_again_after_the_restart_is_published_once() -> None:
    steps = [running(0), ended(0, "OOMKilled"), waiting(0, "OOMKilled"), running(1, "OOMKilled"), running(1, "OOMKilled")]
    assert [kill.restarts for kill in seen(*(pod("p", status=step) for step in steps)).kills()] == [1]


def test_each_restart_may_be_a_kill_of_its_own() -> None:
    steps = [running(0), running(1, "OOMKilled"), ended(1, "OOMKilled"), ended(2, "OOMKilled")]
    assert [kill.restarts for kill in seen(*(pod("p", status=step) for step in steps)).kills()] == [1, 2, 3]


def test_a_kill_that_shows_only_behind_a_later_end_is_published_with_the_request_that_it_was_killed_under() -> None:
    error = {**running(1, "OOMKilled"), **{key: value for key, value in ended(1, "Error").items() if key != "restartCount"}}
    scene = seen(pod("p", memory="64Mi", status=running(0)), pod("p", memory="96Mi", status=error))
    assert [(kill.restarts, kill.memory_request) for kill in scene.kills()] == [(1, 64 * MIB)]


def test_of_two_kills_in_a_row_in_one_status_both_are_published() -> None:
    twice = {**running(1, "OOMKilled"), **ended(1, "OOMKilled")}
    assert [kill.restarts for kill in seen(pod("p", status=running(0)), pod("p", status=twice)).kills()] == [1, 2]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (running(1, "OOMKilled"), running(1, "OOMKilled")),
        (waiting(0, "OOMKilled"), running(1, "OOMKilled")),
        (ended(0, "OOMKilled"), ended(0, "OOMKilled")),
    ],
    ids=["unchanged", "waiting to running", "terminated without restart"],
)
def test_what_is_no_new_end_is_no_new_kill(before: Status, after: Status) -> None:
    scene = seen(pod("p", status=before))
    first = len(scene.kills())
    scene.see("pods", pod("p", status=after))
    assert (first, len(scene.kills())) == (1, 1)


def test_another_reason_is_no_kill() -> None:
    scene = seen(pod("p", status=running(0)), pod("p", status=ended(0, "Error")), pod("p", status=running(1, "Error")))
    assert scene.kills() == []


def test_a_kill_in_the_first_list_is_published_unless_the_log_has_it() -> None:
    scene = seen(pod("p", status=running(4, "OOMKilled")))
    assert [kill.restarts for kill in scene.kills()] == [4]
    scene.restart()
    scene.see("pods", pod("p", status=running(4, "OOMKilled")))
    scene.sync()
    assert [kill.restarts for kill in scene.kills()] == [4]


def test_a_kill_published_further_back_than_the_log_is_read_is_not_published_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each partition the last three records: behind ticks the kill is not among them, while the pod's last word is."""
    monkeypatch.setattr(published_state, "MOST", 3)
    scene = seen(pod("p", status=running(4, "OOMKilled")))
    scene.later(timedelta(hours=26))
    wire = scene.topics.wire("oom-events")
    scene.log.append([NewRecord(wire, partition, FILL, b"") for partition in range(PARTITIONS) for _ in range(3)])
    scene.restart()
    scene.see("pods", pod("p", status=running(4, "OOMKilled")))
    scene.sync()
    assert [(kill.pod.name, kill.restarts) for kill in scene.kills()] == [("p", 4)]
    scene.see("pods", pod("p", status=ended(4, "OOMKilled")))
    assert [(kill.pod.name, kill.restarts) for kill in scene.kills()] == [("p", 4), ("p", 5)]


def test_nor_is_it_when_facts_were_dropped_and_the_log_is_compared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published_state, "MOST", 3)
    scene = KubeScene(bound=3_000)
    scene.sync()
    scene.see("pods", pod("p", status=running(4, "OOMKilled")))
    scene.later(timedelta(hours=26))
    wire = scene.topics.wire("oom-events")
    scene.log.append([NewRecord(wire, partition, FILL, b"") for partition in range(PARTITIONS) for _ in range(3)])
    scene.log.away = True
    scene.see("pods", *(pod(name) for name in ("a", "b", "c")))
    assert scene.source.dropped
    scene.log.away = False
    scene.source.publish_due()
    scene.source.publish_due()
    assert [(kill.pod.name, kill.restarts) for kill in scene.kills()] == [("p", 4)]


def test_an_eviction_for_want_of_memory_counts_with_what_was_used() -> None:
    scene = seen(pod("p", memory="64Mi"))
    scene.see("events", eviction("p", "app", "1024Ki", "memory"))
    (kill,) = scene.kills()
    assert (kill.at, kill.memory_used, kill.memory_request) == (AT, 1048576, 64 * MIB)


def test_an_eviction_that_is_seen_before_its_pod_waits_for_it_and_is_published_once() -> None:
    scene = KubeScene()
    scene.see("events", eviction("p", "app", "1024Ki", "memory"))
    scene.see("pods", pod("p"))
    scene.see("events", eviction("p", "app", "1024Ki", "memory"))
    scene.restart()
    scene.see("events", eviction("p", "app", "1024Ki", "memory"))
    scene.see("pods", pod("p"))
    assert len(scene.kills()) == 1


@pytest.mark.parametrize(
    ("containers", "usage", "resources"),
    [
        ("app,db", "1024Ki", "memory"),
        ("app", "1024Ki", "ephemeral-storage"),
        ("app", "much", "memory"),
        ("another", "1024Ki", "memory"),
    ],
    ids=["unequal lists", "another resource", "no quantity", "no such container"],
)
def test_an_eviction_for_another_reason_than_memory_is_no_kill(containers: str, usage: str, resources: str) -> None:
    scene = seen(pod("p"))
    scene.see("events", eviction("p", containers, usage, resources))
    assert scene.kills() == []


def test_an_eviction_of_a_pod_that_is_gone_is_dropped_with_a_line() -> None:
    scene = KubeScene()
    with structlog.testing.capture_logs() as lines:
        scene.see("events", eviction("p", "app", "1024Ki", "memory"))
        scene.sync()
        scene.see("pods", pod("p"))
    assert scene.kills() == []
    assert "shop/p" in str(lines)


def test_a_pod_that_goes_before_its_owner_is_known_leaves_its_kills_behind() -> None:
    scene = KubeScene()
    scene.sync("pods")
    killed = pod("p", owner("ReplicaSet", "web-1"), labels={"pod-template-hash": "1"}, status=running(4, "OOMKilled"))
    scene.see("pods", killed)
    assert (scene.pods(), scene.kills()) == ([], [])
    scene.lose("pods", killed)
    assert [type(event) for event in scene.pods()] == [PodChanged, PodDeleted]
    (kill,) = scene.kills()
    assert (kill.restarts, kill.workload) == (4, Workload("real", "shop", "Deployment", "web"))


def test_a_pod_that_goes_with_kills_that_were_published_repeats_none() -> None:
    killed = pod("p", status=running(4, "OOMKilled"))
    scene = seen(killed)
    scene.lose("pods", killed)
    assert [kill.restarts for kill in scene.kills()] == [4]


def test_of_a_pod_that_goes_nothing_is_remembered_and_a_later_list_does_not_report_it_gone_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    restored: list[published_state.PublishedState] = []

    def read_all(context: LogContext) -> published_state.PublishedState:
        restored.append(published_state.read_all(context))
        return restored[-1]

    monkeypatch.setattr(kube_source, "read_all", read_all)
    killed = pod("p", status=running(4, "OOMKilled"))
    scene = seen(killed)
    assert set(restored[-1].kills) == set(restored[-1].pods) == {killed.metadata.uid}
    scene.lose("pods", killed)
    scene.sync("pods")
    assert (restored[-1].pods, restored[-1].newest, restored[-1].kills) == ({}, {}, {})
    assert [type(event) for event in scene.pods()] == [PodChanged, PodDeleted]
