"""The kube source as a whole: what it tells, what a restart or an absent log does to that, and what it says that it sees."""

from datetime import timedelta

from schemas.facts.nodes import NodeChanged, NodeRemoved
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.names import Amounts
from schemas.policies.limit_ranges import Limit, LimitRangeChanged, LimitRangeRemoved, LimitType
from schemas.units import Bytes, Cores
from streams.clients.kube.pod_objects import PodObject
from streams.clients.kube.watched_objects import NodeObject
from streams.publishing.published_state import REPUBLISH_AFTER
from streams.sources.kube.watch.watched_resources import CONTROLLERS
from tests.support.kube_objects import MINUTE, START, controller, decoded, limit_range, meta, node, owner, pod, running
from tests.support.kube_scene import KINDS, KubeScene

GIB = 1 << 30
EVERYTHING = ("cluster-changes", "oom-events", "pod-changes", "pod-changes-by-cluster", "policies")


def test_a_pod_is_published_when_it_changes_and_not_otherwise() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("pods", pod("p"))
    scene.later(MINUTE)
    scene.see("pods", pod("p"), pod("p", memory="65Mi"), pod("p", memory="65Mi"))
    first, second = scene.pods()
    assert isinstance(first, PodChanged)
    assert isinstance(second, PodChanged)
    assert (first.at, second.at) == (START, START + MINUTE)
    assert [each.containers[0].requests.memory for each in (first, second)] == [64 << 20, 65 << 20]
    assert scene.events("pod-changes") == [first, second]


def test_that_a_pod_is_being_deleted_is_told_before_it_is_gone() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("pods", pod("p"), pod("p", deletionTimestamp="2026-01-01T00:00:30Z"))
    told = [each for each in scene.pods() if isinstance(each, PodChanged)]
    assert [each.leaving for each in told] == [False, True]


def test_init_containers_and_quality_of_service_are_published() -> None:
    scene = KubeScene()
    scene.sync()
    containers = [{"name": "app"}]
    init = [
        {"name": "first", "resources": {"requests": {"cpu": "100m"}}},
        {"name": "mesh", "resources": {"requests": {"cpu": "50m"}}, "restartPolicy": "Always"},
    ]
    whole = {
        "metadata": meta("p"),
        "spec": {"containers": containers, "initContainers": init, "nodeName": "n1", "resources": {"requests": {"cpu": "2"}}},
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }
    scene.see("pods", decoded(PodObject, whole))
    (published,) = scene.pods()
    assert isinstance(published, PodChanged)
    inits = [(each.name, each.requests.cpu, each.sidecar) for each in published.init_containers]
    assert inits == [("first", 0.1, False), ("mesh", 0.05, True)]
    assert published.requests == Amounts(2.0, None)  # type: ignore[arg-type]  # units
    assert [each.name for each in published.running_together] == ["app", "mesh"]
    assert (published.qos, published.node) == ("Burstable", "n1")


def test_a_pod_that_stays_as_it_is_is_published_again_after_three_hours() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("pods", pod("p"))
    scene.later(REPUBLISH_AFTER - MINUTE)
    assert len(scene.pods()) == 1
    scene.later(MINUTE)
    assert [event.at for event in scene.pods()] == [START, START + REPUBLISH_AFTER]


def test_a_pod_with_a_quantity_that_is_none_is_passed_over_and_the_next_is_published() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("pods", pod("odd", memory="much"), pod("good"))
    assert [event.pod.name for event in scene.pods()] == ["good"]


def test_after_a_restart_only_what_changed_and_what_is_gone_is_published() -> None:
    scene = KubeScene()
    limits = limit_range("small", {"type": "Container", "max": {"cpu": "1"}})
    scene.see("pods", pod("stays"), pod("goes"))
    scene.see("nodes", node("n1"), node("n2"))
    scene.see("limitranges", limits, limit_range("big"))
    scene.sync()
    before = len(scene.pods())
    scene.restart()
    scene.see("pods", pod("stays"))
    scene.see("nodes", node("n1"))
    scene.see("limitranges", limits)
    scene.sync()
    assert [(type(event), event.pod.name) for event in scene.pods()[before:]] == [(PodDeleted, "goes")]
    nodes = [event for event in scene.events("cluster-changes", 0) if isinstance(event, (NodeChanged, NodeRemoved))]
    assert [(type(event), event.node) for event in nodes] == [(NodeChanged, "n1"), (NodeChanged, "n2"), (NodeRemoved, "n2")]
    ranges = [event for event in scene.events("policies", 1) if isinstance(event, (LimitRangeChanged, LimitRangeRemoved))]
    assert [(type(event), event.name) for event in ranges] == [
        (LimitRangeChanged, "small"),
        (LimitRangeChanged, "big"),
        (LimitRangeRemoved, "big"),
    ]


def test_a_pod_is_not_published_as_gone_before_all_pods_were_listed() -> None:
    scene = KubeScene()
    scene.see("pods", pod("p"))
    scene.sync()
    scene.restart()
    scene.see("nodes", node("n1"))
    scene.sync("nodes")
    assert not any(isinstance(event, PodDeleted) for event in scene.pods())


def test_a_node_is_published_with_what_it_has_to_every_partition() -> None:
    scene = KubeScene()
    scene.sync()
    whole = {
        "metadata": {"name": "n1", "uid": "u", "labels": {"zone": "b", "arch": "arm"}},
        "spec": {"unschedulable": True},
        "status": {"allocatable": {"cpu": "3920m", "memory": "15Gi"}, "conditions": [{"type": "Ready", "status": "False"}]},
    }
    scene.see("nodes", decoded(NodeObject, whole))
    allocatable = Amounts(Cores(3.92), Bytes(15 * GIB))
    published = NodeChanged(START, "real", "n1", allocatable, ready=False, schedulable=False, labels={"arch": "arm", "zone": "b"})
    for partition in range(2):
        assert [event for event in scene.events("cluster-changes", partition) if isinstance(event, NodeChanged)] == [published]


def test_what_a_limit_range_allows_is_in_whole_bytes_that_are_within_it() -> None:
    scene = KubeScene()
    scene.sync()
    scene.see("limitranges", limit_range("odd", {"type": "Container", "max": {"memory": "1.3Gi"}, "min": {"memory": "0.1Gi"}}))
    (published,) = [event for event in scene.events("policies", 0) if isinstance(event, LimitRangeChanged)]
    assert (published.limits[0].most.memory, published.limits[0].least.memory) == (1395864371, 107374183)


def test_a_limit_range_is_published_with_its_bounds_and_without_entries_of_other_types() -> None:
    scene = KubeScene()
    scene.sync()
    entry = {
        "type": "Container",
        "min": {"cpu": "100m"},
        "max": {"memory": "1Gi"},
        "default": {"cpu": "500m"},
        "defaultRequest": {"cpu": "250m"},
        "maxLimitRequestRatio": {"cpu": "4"},
    }
    scene.see("limitranges", limit_range("small", entry, {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}))
    (published,) = [event for event in scene.events("policies", 0) if isinstance(event, LimitRangeChanged)]
    assert published.key == "real/shop/LimitRange/small"
    assert published.limits == (
        Limit(
            LimitType.CONTAINER,
            least=Amounts(cpu=Cores(0.1)),
            most=Amounts(memory=Bytes(GIB)),
            default_limits=Amounts(cpu=Cores(0.5)),
            default_requests=Amounts(cpu=Cores(0.25)),
            ratios={"cpu": 4.0},
        ),
    )


def test_the_source_reports_each_period_and_names_only_what_it_sees() -> None:
    scene = KubeScene()
    scene.source.publish_due()
    scene.sync()
    scene.later(timedelta(seconds=29))
    assert [report.sees for report in scene.reports()] == [()]
    scene.later(timedelta(seconds=1))
    assert scene.reports()[-1].sees == EVERYTHING
    scene.fail("events")
    scene.later(timedelta(seconds=30))
    assert scene.reports()[-1].sees == tuple(topic for topic in EVERYTHING if topic != "oom-events")
    scene.fail("pods")
    scene.sync("events")
    scene.later(timedelta(seconds=30))
    assert scene.reports()[-1].sees == ("cluster-changes", "policies")
    assert [report.at - START for report in scene.reports()] == [timedelta(seconds=30 * i) for i in range(4)]


def test_it_is_not_ready_until_everything_is_listed_and_names_what_is_missing() -> None:
    scene = KubeScene()
    scene.sync(*(kind for kind in KINDS if kind not in {"nodes", "events"}))
    scene.fail("events")
    reasons = scene.sync_status.reasons()
    assert "nodes are not listed yet" in reasons
    assert "events cannot be seen: 403 forbidden" in reasons
    scene.sync()
    assert scene.sync_status.reasons() == []


def test_while_the_log_is_away_facts_wait_and_go_out_in_order() -> None:
    scene = KubeScene()
    scene.sync()
    scene.log.away = True
    scene.see("pods", pod("p"))
    scene.see("pods", pod("p", memory="65Mi"))
    assert scene.pods() == []
    scene.log.away = False
    scene.source.publish_due()
    memory = [event.containers[0].requests.memory for event in scene.pods() if isinstance(event, PodChanged)]
    assert memory == [64 << 20, 65 << 20]


def test_after_facts_were_dropped_everything_is_compared_with_the_log_again() -> None:
    scene = KubeScene(bound=3_000)
    scene.see("pods", pod("goes"))
    scene.sync()
    scene.log.away = True
    scene.lose("pods", pod("goes"))
    scene.see("nodes", node("n1"))
    for name in ("a", "b", "c"):
        scene.see("pods", pod(name))
    assert scene.source.dropped
    scene.log.away = False
    scene.source.publish_due()
    scene.source.publish_due()
    here = {event.pod.name: type(event) for event in scene.pods()}
    assert here == {"goes": PodDeleted, "a": PodChanged, "b": PodChanged, "c": PodChanged}
    assert any(isinstance(event, NodeChanged) for event in scene.events("cluster-changes", 0))


def test_a_kill_that_was_dropped_while_the_log_was_away_is_published_when_it_is_back_and_once() -> None:
    scene = KubeScene(bound=3_000)
    scene.sync()
    scene.see("pods", pod("p"))
    scene.log.away = True
    scene.see("pods", pod("p", status=running(1, "OOMKilled")))
    for name in ("a", "b", "c"):
        scene.see("pods", pod(name))
    assert scene.source.dropped[scene.topics.wire("oom-events")] == 1
    scene.log.away = False
    for _ in range(3):
        scene.source.publish_due()
    assert [(kill.pod.name, kill.restarts) for kill in scene.kills()] == [("p", 1)]


def test_pods_are_not_vouched_for_while_those_of_the_first_list_wait_for_their_owners() -> None:
    scene = KubeScene()
    scene.see("pods", pod("p", owner("ReplicaSet", "web-1")))
    scene.sync(*(kind for kind in (*CONTROLLERS, *KINDS) if kind != "replicasets"))
    scene.later(timedelta(seconds=30))
    assert scene.reports()[-1].sees == ("cluster-changes", "policies")
    scene.see("replicasets", controller("web-1"))
    scene.sync("replicasets")
    scene.later(timedelta(seconds=30))
    assert scene.reports()[-1].sees == EVERYTHING


def test_a_kill_by_a_clock_that_is_ahead_was_when_it_was_seen_and_stays_there() -> None:
    """kubernetes#6159, autoscaler#10173: an hour ahead, such a kill counted for nothing, and held its pod back as well."""
    scene = KubeScene()
    scene.sync()
    end = {"reason": "OOMKilled", "startedAt": "2026-03-01T00:59:50Z", "finishedAt": "2026-03-01T01:00:00Z"}
    killed = {"restartCount": 3, "state": {"running": {}}, "lastState": {"terminated": end}}
    scene.see("pods", pod("p", status=killed))
    scene.later(MINUTE)
    scene.see("pods", pod("p", memory="65Mi", status=killed))
    scene.restart()
    scene.later(MINUTE)
    scene.see("pods", pod("p", memory="66Mi", status=killed))
    [kill] = scene.kills()
    assert (kill.at, kill.started) == (START, START - timedelta(seconds=10))
    runs = [each.containers[0].last_run for each in scene.pods() if isinstance(each, PodChanged)]
    assert [(run.ended, run.started) for run in runs if run is not None] == [(START, START - timedelta(seconds=10))] * 3
