"""The status consumer on a log in memory and an API on loopback: what it writes, what it leaves alone, and what it survives."""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest

from schemas.facts.pods import OOM_KILLED, ContainerRun, ContainerSeen, PodPhase
from schemas.facts.sources import SourceReported
from schemas.names import Place
from schemas.outcomes import Result
from schemas.policies.vertical import ContainerMode, ContainerPolicy, UpdateMode, VerticalPolicyChanged
from schemas.policies.vpa import VpaRemoved
from streams.codec.event_codec import causes, header
from streams.consumers.executing.holder_lease import DURATION, HolderLease
from streams.log.log_port import NewRecord
from tests.support.api_objects import ApiObjects
from tests.support.status_scene import AT, HOUR, START, StatusScene, gone, pod, said, vpa
from tests.support.vpa_server import HANG_UP, Json, VpaServer


@pytest.fixture
def server() -> Iterator[VpaServer]:
    with VpaServer() as server:
        server.make("web/api")
        yield server


@pytest.fixture
def scene(server: VpaServer) -> StatusScene:
    scene = StatusScene(server.url)
    scene.tick()
    return scene


def conditions(status: Json) -> dict[str, str]:
    return {condition["type"]: condition["status"] for condition in status["conditions"]}


def test_a_recommendation_is_written_in_the_words_of_the_api(scene: StatusScene, server: VpaServer) -> None:
    scene.say(vpa(), said())
    assert scene.consumer().poll_once() == 1
    assert server.status("web/api") == {
        "conditions": [{"type": "RecommendationProvided", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "observedGeneration": 1,
        "recommendation": {
            "containerRecommendations": [
                {
                    "containerName": "app",
                    "lowerBound": {"cpu": "50m", "memory": "250Mi"},
                    "target": {"cpu": "100m", "memory": "500Mi"},
                    "uncappedTarget": {"cpu": "100m", "memory": "500Mi"},
                    "upperBound": {"cpu": "900m", "memory": "800Mi"},
                }
            ]
        },
    }


def test_of_two_consumers_the_one_that_holds_the_lease_writes_and_the_other_takes_over(scene: StatusScene) -> None:
    objects, real = ApiObjects(), [0.0]
    one, other = (HolderLease(objects, "ullage-status", name, clock=lambda: real[0]) for name in ("one", "other"))
    assert (one.renew(), other.renew()) == (True, False)
    scene.say(vpa(), said())
    first, second = scene.consumer(one), scene.consumer(other)
    assert (second.poll_once(), second.waiting) == (0, 0)
    real[0] = DURATION
    assert other.renew()
    assert (first.poll_once(), second.poll_once()) == (0, 1)


def test_a_write_is_an_outcome_that_names_the_decision_which_names_what_it_rests_on(scene: StatusScene) -> None:
    scene.say(vpa(), said())
    scene.consumer().poll_once()
    [decision], [outcome] = scene.decisions(), scene.outcomes()
    assert (outcome.decision, outcome.result, outcome.namespace, outcome.name) == (decision.id, Result.DONE, "web", "api")
    assert outcome.reason == "RecommendationProvided True"
    assert decision.recommendation == said().id
    partition = scene.topics.partition_of("demo")
    [record] = [r for r in scene.log.poll({(scene.topics.wire("outcomes"), partition): 0}) if r.key != b"tick"]
    assert causes(record) == (Place(scene.topics.wire("vpa-conditions"), scene.topics.partition_of(vpa().key), 0),)
    [decided] = scene.log.poll({(causes(record)[0].topic, causes(record)[0].partition): 0})
    wires = scene.topics.wire("recommendations-by-cluster"), scene.topics.wire("policies")
    assert causes(decided) == tuple(Place(wire, partition, 0) for wire in wires)


def test_nothing_is_written_before_there_is_a_time(server: VpaServer) -> None:
    scene = StatusScene(server.url)
    scene.say(vpa(), said())
    scene.decide()
    untimed = StatusScene(server.url)
    places = [(scene.topics.wire("vpa-conditions"), partition) for partition in range(2)]
    decided = [record for place in places for record in scene.log.poll({place: 0})]
    untimed.log.append([NewRecord(r.topic, r.partition, r.key, r.value, r.headers) for r in decided])
    consumer = untimed.consumer().alone
    assert consumer.poll_once() == 0
    assert server.requests == []
    untimed.tick()
    assert consumer.poll_once() == 1


def test_vpas_whose_target_is_killed_in_a_loop_and_gets_no_more_memory_are_counted(scene: StatusScene) -> None:
    consumer = scene.consumer()
    for minute in (0, 16):
        run = ContainerRun(AT + timedelta(minutes=minute), reason=OOM_KILLED)
        killed = replace(pod("p"), containers=(ContainerSeen("app", last_run=run),))
        scene.say(vpa(update_mode=UpdateMode.OFF), killed)
        scene.tick(START + minute * 60_000)
        consumer.poll_once()
        assert consumer.alone.memory_limited == (minute > 0)
    scene.say(VpaRemoved(AT, "demo", "web", "api"))
    scene.tick(START + 17 * 60_000)
    consumer.poll_once()
    assert consumer.alone.memory_limited == 0


@pytest.mark.parametrize("sidecar", [False, True])
def test_an_init_container_that_is_killed_in_a_loop_is_said_though_its_pod_never_runs(
    scene: StatusScene, server: VpaServer, *, sidecar: bool
) -> None:
    consumer = scene.consumer()
    for minute in (0, 16):
        run = ContainerRun(AT + timedelta(minutes=minute), reason=OOM_KILLED)
        waiting = replace(pod("p"), phase=PodPhase.PENDING, init_containers=(ContainerSeen("up", sidecar=sidecar, last_run=run),))
        scene.say(vpa(), said(), waiting)
        scene.tick(START + minute * 60_000)
        consumer.poll_once()
    assert consumer.alone.memory_limited == 1
    [limited] = [each for each in server.status("web/api")["conditions"] if each["type"] == "MemoryLimited"]
    assert limited["reason"] == "InitContainer"
    assert "'up' is OOM-killed again and again" in limited["message"]


def test_workloads_that_a_policy_of_ours_leaves_in_such_a_loop_are_counted_too(scene: StatusScene) -> None:
    consumer = scene.consumer()
    policy = VerticalPolicyChanged(AT, "demo/*", "1", UpdateMode.OFF)
    for minute in (0, 16):
        run = ContainerRun(AT + timedelta(minutes=minute), reason=OOM_KILLED)
        scene.say(policy, replace(pod("p"), containers=(ContainerSeen("app", last_run=run),)))
        scene.tick(START + minute * 60_000)
        consumer.poll_once()
        assert consumer.alone.memory_limited == (minute > 0)
    assert scene.consumer().poll_once() == 0, "there is no object to write"
    scene.say(gone("p"))
    scene.tick(START + 17 * 60_000)
    consumer.poll_once()
    assert consumer.alone.memory_limited == 0
    later = scene.consumer()
    later.poll_once()
    assert later.alone.memory_limited == 0


def test_the_same_said_again_is_not_written_again(scene: StatusScene, server: VpaServer) -> None:
    scene.say(vpa(), said())
    consumer = scene.consumer()
    consumer.poll_once()
    for beat in range(1, 4):
        scene.tick(START + beat * HOUR)
        scene.say(said(turn=START + beat * HOUR), replace(vpa(), resource_version=str(beat)))
        assert consumer.poll_once() == 0
    assert server.writes() == ["web/api"]


def test_another_consumer_finds_what_stands_there_and_keeps_its_times(scene: StatusScene, server: VpaServer) -> None:
    scene.say(vpa(), said())
    scene.consumer().poll_once()
    scene.tick(START + HOUR)
    assert scene.consumer().poll_once() == 0
    scene.say(said(turn=START + HOUR, cpu=200))
    assert scene.consumer().poll_once() == 1
    (condition,) = server.status("web/api")["conditions"]
    assert condition["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert len(server.writes()) == 2


def test_quantities_of_equal_value_are_equal(scene: StatusScene, server: VpaServer) -> None:
    one = {"cpu": "0.05", "memory": "262144000"}, {"cpu": "100m", "memory": "512000Ki"}, {"cpu": "900m", "memory": 838860800}
    status = {
        "conditions": [{"type": "RecommendationProvided", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}],
        "observedGeneration": 1,
        "recommendation": {
            "containerRecommendations": [
                {"containerName": "app", "lowerBound": one[0], "target": one[1], "uncappedTarget": one[1], "upperBound": one[2]}
            ]
        },
    }
    server.make("web/api", **status)
    scene.say(vpa(), said())
    assert scene.consumer().poll_once() == 0
    assert server.writes() == []


def test_without_pods_it_says_so_and_with_pods_no_more(scene: StatusScene, server: VpaServer) -> None:
    scene.say(vpa())
    consumer = scene.consumer()
    consumer.poll_once()
    assert conditions(server.status("web/api")) == {"NoPodsMatched": "True", "RecommendationProvided": "False"}
    assert server.status("web/api")["conditions"][1]["reason"] == "NoPodsMatched"
    scene.say(pod("one"))
    consumer.poll_once()
    assert conditions(server.status("web/api")) == {"RecommendationProvided": "False"}
    scene.say(pod("two"), gone("one"), gone("two"))
    consumer.poll_once()
    assert conditions(server.status("web/api")) == {"NoPodsMatched": "True", "RecommendationProvided": "False"}


def test_that_there_are_no_pods_is_said_only_while_a_source_vouches_for_them(scene: StatusScene, server: VpaServer) -> None:
    scene.say(SourceReported(AT, "demo", "kube", ()), SourceReported(AT, "demo", "usage", ("pod-metrics",)), vpa())
    consumer = scene.consumer()
    consumer.poll_once()
    assert conditions(server.status("web/api")) == {"RecommendationProvided": "False"}
    scene.say(SourceReported(AT, "demo", "kube", ("oom-events", "pod-changes")))
    consumer.poll_once()
    assert conditions(server.status("web/api")) == {"NoPodsMatched": "True", "RecommendationProvided": "False"}
    scene.say(SourceReported(AT, "demo", "kube", ("oom-events",)))
    assert consumer.poll_once() == 0
    scene.say(pod("one"))
    consumer.poll_once()
    assert conditions(server.status("web/api")) == {"RecommendationProvided": "False"}
    scene.say(gone("one"))
    assert consumer.poll_once() == 0


def test_a_target_that_cannot_be_served_is_named(scene: StatusScene, server: VpaServer) -> None:
    why = "the ReplicaSet 'api-7d' is owned by the Deployment 'api'"
    scene.say(vpa(unsupported=why), said())
    scene.consumer().poll_once()
    assert server.status("web/api")["conditions"][0]["message"] == why
    assert "recommendation" not in server.status("web/api")


def test_of_two_vpas_on_one_workload_the_older_governs_until_it_goes(scene: StatusScene, server: VpaServer) -> None:
    server.make("web/late", uid="u2")
    late = vpa("late", uid="u2", created=AT.replace(year=2027))
    scene.say(late, vpa(), said())
    consumer = scene.consumer()
    assert consumer.poll_once() == 2
    assert conditions(server.status("web/api")) == {"RecommendationProvided": "True"}
    first = server.status("web/late")["conditions"][0]
    assert first["message"] == "The targetRef 'Deployment/api' is governed by the VPA 'web/api' already"
    scene.say(VpaRemoved(AT, "demo", "web", "api"))
    consumer.poll_once()
    assert conditions(server.status("web/late")) == {"RecommendationProvided": "True"}


@pytest.mark.parametrize("name", ["app", "*"])
def test_a_container_that_is_switched_off_is_said_no_more_though_nobody_says_so(
    scene: StatusScene, server: VpaServer, name: str
) -> None:
    scene.say(vpa(), said())
    consumer = scene.consumer()
    consumer.poll_once()
    scene.say(vpa(containers=(ContainerPolicy(name, mode=ContainerMode.OFF),)))
    assert consumer.poll_once() == 1
    assert conditions(server.status("web/api")) == {"RecommendationProvided": "False"}
    assert "recommendation" not in server.status("web/api")


def test_an_object_of_another_recommender_is_left_alone_also_when_only_the_api_knows(
    scene: StatusScene, server: VpaServer
) -> None:
    scene.say(vpa(recommenders=("other",)), said())
    consumer = scene.consumer()
    assert consumer.poll_once() == 0
    server.make("web/api", recommenders=("other",))
    scene.say(vpa())
    assert consumer.poll_once() == 0
    assert server.status("web/api") == {}


def test_an_object_that_changes_hands_is_left_and_taken_up_again(scene: StatusScene, server: VpaServer) -> None:
    scene.say(vpa(), said())
    consumer = scene.consumer()
    consumer.poll_once()
    other = server.make("web/api", recommenders=("other",))
    other["metadata"]["generation"] = 2
    scene.say(vpa(generation=2, recommenders=("other",)), said(turn=START + 1, cpu=200))
    assert consumer.poll_once() == 0
    assert server.status("web/api") == {}
    back = server.make("web/api")
    back["metadata"]["generation"] = 3
    scene.say(vpa(generation=3))
    assert consumer.poll_once() == 1
    assert server.status("web/api")["observedGeneration"] == 3


def test_a_second_writer_is_not_overwritten_unseen(scene: StatusScene, server: VpaServer) -> None:
    scene.say(vpa(), said())
    theirs = [{"type": "Theirs", "status": "Unknown", "reason": "R", "observedGeneration": 4}]
    server.before_write = lambda: (  # type: ignore[assignment]  # a second writer comes in between, once
        setattr(server, "before_write", lambda: None),
        server.make("web/api", conditions=theirs),
    )
    assert scene.consumer().poll_once() == 1
    assert server.status("web/api")["conditions"][1] == theirs[0]
    assert conditions(server.status("web/api")) == {"RecommendationProvided": "True", "Theirs": "Unknown"}
    assert server.writes() == ["web/api"] * 2


def test_what_another_writer_did_is_put_right_when_the_source_tells_of_it(scene: StatusScene, server: VpaServer) -> None:
    scene.say(vpa(), said())
    consumer = scene.consumer()
    consumer.poll_once()
    other = server.make("web/api", conditions=[])
    scene.say(vpa(resource_version=other["metadata"]["resourceVersion"]))
    assert consumer.poll_once() == 1
    assert conditions(server.status("web/api")) == {"RecommendationProvided": "True"}


def test_of_two_recommenders_that_serve_one_object_ours_writes_more_and_more_seldom_and_says_so(
    scene: StatusScene, server: VpaServer
) -> None:
    """Each wrote whenever the other had, once a second and for ever."""
    scene.say(vpa(), said())
    consumer, writes = scene.consumer(), list[float]()
    consumer.poll_once()
    other = server.make("web/api", conditions=[])
    scene.say(vpa(resource_version=other["metadata"]["resourceVersion"]))
    for step in [1.0] * 10 + [30.0] * 240:
        scene.real += step
        if consumer.alone.poll_once():
            writes += [scene.real] * (server.status("web/api")["conditions"] != [])
            other = server.make("web/api", conditions=[])
            scene.say(vpa(resource_version=other["metadata"]["resourceVersion"]))
    pauses = [later - earlier for earlier, later in pairwise(writes)]
    assert 5 <= len(writes) <= 12
    assert (pauses[0], max(pauses) >= 1800.0) == (1.0, True)
    reasons = {outcome.reason for outcome in scene.outcomes() if outcome.result is Result.FAILED}
    assert [reason.partition("VPA ")[2] for reason in reasons] == [
        "'web/api' did not work: somebody else keeps writing it; are there two recommenders?"
    ]
    scene.say(said(turn=scene.newest + 1, cpu=200))
    assert consumer.poll_once() == 1, "what is new is written at once"


def test_an_object_that_is_gone_is_forgotten_until_it_is_told_of_again(scene: StatusScene, server: VpaServer) -> None:
    scene.say(vpa(), said())
    consumer = scene.consumer()
    consumer.poll_once()
    del server.objects["verticalpodautoscalers"]["web/api"]
    scene.say(said(turn=START + 1, cpu=200))
    assert consumer.poll_once() == 0
    server.make("web/api", uid="u2")
    scene.say(said(turn=START + 2, cpu=300))
    assert consumer.poll_once() == 0  # the log tells of u1 still
    scene.say(VpaRemoved(AT, "demo", "web", "api"), vpa(uid="u2"))
    assert consumer.poll_once() == 1
    text = server.status("web/api")["recommendation"]["containerRecommendations"][0]
    assert text["target"]["cpu"] == "300m"


def test_a_busy_api_is_asked_again_later_and_others_go_on(scene: StatusScene, server: VpaServer) -> None:
    server.make("web/b", uid="u2")
    scene.say(vpa(), vpa("b", target="b", uid="u2"), said(), said("b"))
    server.refusals["PATCH"] = deque([500])
    consumer = scene.consumer()
    assert consumer.poll_once() == 1
    assert consumer.poll_once() == 0
    assert consumer.waiting == 0
    scene.real += 11
    assert consumer.waiting == 1
    assert consumer.poll_once() == 1
    assert sorted(outcome.name for outcome in scene.outcomes()) == ["api", "b"]


def test_an_api_that_does_not_answer_is_left_in_peace_by_all(scene: StatusScene) -> None:
    scene.say(vpa(), said())
    scene.url = "http://127.0.0.1:9"
    consumer = scene.consumer()
    assert consumer.poll_once() == 0
    assert consumer.waiting == 0
    scene.real += 11
    assert consumer.waiting == 1


def test_an_api_that_falls_silent_is_asked_by_few_and_by_all_when_it_is_back(scene: StatusScene, server: VpaServer) -> None:
    names = [f"n{number}" for number in range(20)]
    for name in names:
        server.make(f"web/{name}")
    consumer = scene.consumer()
    scene.say(*(vpa(name, target=name) for name in names), *(said(name) for name in names))
    assert consumer.poll_once() == 20
    server.refusals["PATCH"] = deque([HANG_UP] * 20)
    scene.say(*(said(name, turn=START + 1, cpu=200) for name in names))
    assert consumer.poll_once() == 0
    assert 20 - len(server.refusals["PATCH"]) <= 4  # one for each writer
    assert consumer.waiting == 0
    server.refusals["PATCH"].clear()
    scene.real += 11
    assert consumer.poll_once() == 20


def test_a_refusal_is_published_once_and_tried_again_after_a_while_and_with_the_next_decision(
    scene: StatusScene, server: VpaServer
) -> None:
    scene.say(vpa(), said())
    server.refusals["PATCH"] = deque([403, 403])
    consumer = scene.consumer()
    assert consumer.poll_once() == 1
    assert (consumer.poll_once(), consumer.waiting) == (0, 0)
    scene.real += 601
    assert consumer.waiting == 1
    assert consumer.poll_once() == 0
    scene.say(said(turn=START + 2, cpu=200))
    assert consumer.poll_once() == 1
    assert [outcome.result for outcome in scene.outcomes()] == [Result.FAILED, Result.DONE]
    assert "403 refused by the test" in scene.outcomes()[0].reason


def test_a_decision_that_cannot_be_read_is_set_aside_and_the_next_is_written(scene: StatusScene, server: VpaServer) -> None:
    scene.say(vpa(), said())
    wire, partition = scene.topics.wire("vpa-conditions"), scene.topics.partition_of(vpa().key)
    headers = (("ce_type", b"ullage.vpa-conditions-decided.v1"),)
    scene.log.append([NewRecord(wire, partition, b"demo/web/api", value, headers) for value in (b"{", b"null")])
    assert scene.consumer().poll_once() == 1
    assert conditions(server.status("web/api")) == {"RecommendationProvided": "True"}
    letters = [r for p in range(2) for r in scene.log.poll({(scene.topics.wire("dead-letters"), p): 0})]
    assert [causes(letter) for letter in letters] == [(Place(wire, partition, offset),) for offset in (0, 1)]
    assert {header(letter, "ce_source") for letter in letters} == {"/ullage/consumer/status"}


def test_an_older_decision_that_is_published_again_changes_nothing(scene: StatusScene, server: VpaServer) -> None:
    scene.say(vpa(), said())
    consumer = scene.consumer()
    consumer.poll_once()
    scene.say(said(turn=START + 2, cpu=200))
    assert consumer.poll_once() == 1
    place = (scene.topics.wire("vpa-conditions"), scene.topics.partition_of(vpa().key))
    old, _ = scene.log.poll({place: 0})
    scene.log.append([NewRecord(old.topic, old.partition, old.key, old.value, old.headers)])
    assert consumer.poll_once() == 0
    scene.log.append([NewRecord(old.topic, old.partition, old.key, old.value, old.headers)])
    assert scene.consumer().poll_once() == 0
    assert len(server.writes()) == 2


def test_a_recommendation_of_before_the_log_began_stays_until_the_recommender_has_had_its_say(
    scene: StatusScene, server: VpaServer
) -> None:
    scene.say(vpa(), said())
    scene.consumer().poll_once()
    later = StatusScene(server.url)
    later.tick(START + 900 * HOUR)
    later.say(vpa(), pod("one"))
    consumer = later.consumer()
    assert consumer.poll_once() == 0
    mine = later.topics.partition_of("demo/web/Deployment/api")
    other = next(n for n in map(str, range(99)) if later.topics.partition_of(f"demo/web/Deployment/{n}") == mine)
    for beat in (900, 902):
        later.say(said(other, turn=START + beat * HOUR))
        assert consumer.poll_once() == 0
    later.say(said(other, turn=START + 903 * HOUR))
    assert consumer.poll_once() == 0, "this turn may go on"
    later.say(said(other, turn=START + 903 * HOUR + 500))
    assert consumer.poll_once() == 1
    assert conditions(server.status("web/api")) == {"RecommendationProvided": "False"}


def test_after_an_outage_a_turn_that_was_read_in_part_takes_no_recommendation_back(scene: StatusScene) -> None:
    mine = scene.topics.partition_of("demo/web/Deployment/api")
    other = next(n for n in map(str, range(99)) if scene.topics.partition_of(f"demo/web/Deployment/{n}") == mine)
    scene.say(vpa(), pod("one"), said(), said(other))
    consumer = scene.consumer()
    assert consumer.poll_once() == 1
    back = START + 5 * HOUR
    scene.say(said(other, turn=back))
    assert consumer.poll_once() == 0, "the rest of that turn is still being appended"
    scene.say(said(turn=back), said(other, turn=back + 500))
    assert consumer.poll_once() == 0


def test_many_objects_are_listed_together_and_written_once_each(scene: StatusScene, server: VpaServer) -> None:
    names = [f"n{number}" for number in range(250)]
    for name in names:
        server.make(f"web/{name}")
        scene.say(vpa(name, target=name), said(name))
    consumer = scene.consumer()
    assert [consumer.poll_once() for _ in range(4)] == [100, 100, 50, 0]
    assert server.requests[0] == "GET verticalpodautoscalers"
    assert sorted(server.writes()) == sorted(f"web/{name}" for name in names)
    assert len(server.requests) == 251
