"""Look-ups beside the watches, against a scripted server: scales by discovery, and checkpoints."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from agents.settings import cluster_factory
from agents.settings.all_settings import ClusterSettings
from schemas.units import Seconds
from streams.clients.kube.api import Api
from streams.clients.kube.controllers import ControllerKey, ObjectScale, ScaleClient
from streams.clients.kube.list_watch_requests import ListWatchClient
from streams.sources.kube.watch.lookup_queue import Lookups
from streams.sources.kube.watch.notifications import CheckpointLookup, CheckpointsFound, ForgetKinds, ScaleFound, ScaleLookup
from tests.support.scripted_api import Reply, ScriptedApi, listed, refusal

BIG = ControllerKey("shop", "Rollout", "big", "argo.example/v1")
GROUP = Reply({"versions": [{"groupVersion": "argo.example/v1"}]})
KINDS = Reply({"resources": [{"name": "rollouts", "kind": "Rollout"}, {"name": "rollouts/scale", "kind": "Scale"}]})
SCALE = Reply({"metadata": {"name": "big"}, "status": {"selector": "app=web"}})
NOT_FOUND = Reply(refusal(404, "not found"), 404)
NOW = Seconds(0.001)


@contextmanager
def lookups(*script: Reply, namespaces: tuple[str, ...] = ()) -> Iterator[tuple[Lookups, ScriptedApi]]:
    with ExitStack() as stack:
        server = stack.enter_context(ScriptedApi(script).serving())
        api = Api(cluster_factory.connection(ClusterSettings(url=server.url)), timeout=Seconds(5.0))
        yield Lookups(ListWatchClient(api), ScaleClient(api), namespaces), server


def test_a_scale_is_found_by_its_kind_and_the_kind_is_looked_up_once() -> None:
    with lookups(GROUP, KINDS, SCALE, GROUP, NOT_FOUND, GROUP, KINDS, SCALE) as (queue, server):
        queue.enqueue(ScaleLookup(BIG))
        queue.enqueue(ScaleLookup(BIG))
        assert queue.step(NOW) == [ScaleFound(BIG, ObjectScale("app=web"))]
        assert queue.step(NOW) == []
        queue.enqueue(ScaleLookup(BIG))
        assert queue.step(NOW) == [ScaleFound(BIG, None)]
        queue.enqueue(ForgetKinds())
        queue.step(NOW)
        queue.enqueue(ScaleLookup(BIG))
        queue.step(NOW)
    scale = "/apis/argo.example/v1/namespaces/shop/rollouts/big/scale"
    group, kinds = "/apis/argo.example", "/apis/argo.example/v1"
    assert [path for path, _ in server.requests] == [group, kinds, scale, group, scale, group, kinds, scale]


def test_a_kind_that_the_server_does_not_know_cannot_be_looked_up() -> None:
    with lookups(NOT_FOUND, NOT_FOUND) as (queue, _):
        queue.enqueue(ScaleLookup(BIG))
        (found,) = queue.step(NOW)
    assert isinstance(found, ScaleFound)
    assert found.reason == "looking up 'Rollout shop/big' did not work: no 'Rollout' is known in 'argo.example/v1'"


def test_a_scale_that_may_not_be_read_gives_the_reason() -> None:
    with lookups(GROUP, KINDS, Reply(refusal(403, "forbidden"), 403)) as (queue, _):
        queue.enqueue(ScaleLookup(BIG))
        (found,) = queue.step(NOW)
    assert isinstance(found, ScaleFound)
    assert found.reason == "reading the scale of 'Rollout shop/big' did not work: 403 forbidden"


def test_checkpoints_are_asked_for_again_after_a_pause_and_a_bad_one_is_passed_over() -> None:
    good = {"metadata": {"name": "a", "namespace": "shop"}, "spec": {"vpaObjectName": "web", "containerName": "app"}}
    bad = {"metadata": {"name": "b", "namespace": "shop"}, "spec": {"vpaObjectName": 7}}
    throttled = Reply(refusal(429, "slow down"), 429, headers={"Retry-After": "1"})
    with lookups(throttled, listed(bad, good, version="9")) as (queue, server):
        queue.enqueue(CheckpointLookup("shop"))
        assert queue.step(NOW) == []
        assert queue.step(NOW) == []
        (found,) = queue.step(Seconds(60.0))
    assert isinstance(found, CheckpointsFound)
    assert [each.metadata.name for each in found.checkpoints] == ["a"]
    path = "/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalercheckpoints"
    assert [asked for asked, _ in server.requests] == [path, path]


def test_checkpoints_that_may_not_be_read_are_none() -> None:
    with lookups(Reply(refusal(403, "forbidden"), 403)) as (queue, _):
        queue.enqueue(CheckpointLookup())
        assert queue.step(NOW) == [CheckpointsFound("", ())]


def test_a_list_of_checkpoints_that_took_too_long_is_read_anew_and_not_taken_for_empty() -> None:
    found = {"metadata": {"name": "a", "namespace": "shop"}, "spec": {"vpaObjectName": "web", "containerName": "app"}}
    expired = Reply(refusal(410, "the provided continue parameter is too old"), 410)
    with lookups(listed(found, version="9", more="next"), expired, listed(found, version="12")) as (queue, _):
        queue.enqueue(CheckpointLookup())
        assert queue.step(NOW) == []
        (answer,) = queue.step(Seconds(5.0))
    assert isinstance(answer, CheckpointsFound)
    assert [each.metadata.name for each in answer.checkpoints] == ["a"]


def test_a_namespace_whose_checkpoints_may_not_be_read_does_not_hide_those_of_another() -> None:
    found = {"metadata": {"name": "a", "namespace": "web"}, "spec": {"vpaObjectName": "web", "containerName": "app"}}
    no = Reply(refusal(403, "forbidden"), 403)
    with lookups(no, listed(found, version="9"), namespaces=("shop", "web")) as (queue, _):
        queue.enqueue(CheckpointLookup())
        (answer,) = queue.step(NOW)
    assert isinstance(answer, CheckpointsFound)
    assert [each.metadata.name for each in answer.checkpoints] == ["a"]


def test_namespaces_take_turns_so_that_one_with_many_targets_delays_nobody() -> None:
    greedy = [ControllerKey("greedy", "Rollout", f"r{n}", "bad group/v1") for n in range(1000)]
    with lookups(GROUP, KINDS, SCALE) as (queue, _):
        for key in greedy:
            queue.enqueue(ScaleLookup(key))
        queue.enqueue(ScaleLookup(BIG))
        found = [notification for _ in range(3) for notification in queue.step(NOW)]
    assert [each.key for each in found if isinstance(each, ScaleFound)] == [greedy[0], BIG, greedy[1]]


def test_a_list_that_must_be_read_again_later_lets_scales_go_first() -> None:
    with lookups(Reply(refusal(503, "later"), 503, headers={"Retry-After": "30"}), GROUP, KINDS, SCALE) as (queue, _):
        queue.enqueue(CheckpointLookup())
        queue.enqueue(ScaleLookup(BIG))
        assert queue.step(NOW) == []
        assert queue.step(NOW) == [ScaleFound(BIG, ObjectScale("app=web"))]


BAD_REFERENCES = {
    "a path and a query as version": ControllerKey("shop", "Rollout", "big", "../api/v1/pods?watch=1&x=/v1"),
    "a path as group": ControllerKey("shop", "Rollout", "big", "argo.example/../../api/v1"),
    "a fragment": ControllerKey("shop", "Rollout", "big", "argo.example/v1#"),
    "an encoded slash": ControllerKey("shop", "Rollout", "big", "argo.example%2Fv1/v1"),
    "a line break": ControllerKey("shop", "Rollout", "big", "argo.example/v1\r\nHost: x"),
    "a path as kind": ControllerKey("shop", "../pods", "big", "argo.example/v1"),
    "a path as namespace": ControllerKey("../../nodes", "Rollout", "big", "argo.example/v1"),
    "the parent as name": ControllerKey("shop", "Rollout", "..", "argo.example/v1"),
    "a path as name": ControllerKey("shop", "Rollout", "big?a/../b", "argo.example/v1"),
    "a name without end": ControllerKey("shop", "Rollout", "b" * 254, "argo.example/v1"),
}


@pytest.mark.parametrize("name", BAD_REFERENCES)
def test_a_reference_that_is_no_reference_asks_nothing_that_it_names(name: str) -> None:
    key = BAD_REFERENCES[name]
    with lookups(GROUP, KINDS, SCALE) as (queue, server):
        queue.enqueue(ScaleLookup(key))
        (found,) = queue.step(NOW)
    assert isinstance(found, ScaleFound)
    assert "that Kubernetes would take" in found.reason
    assert {path for path, _ in server.requests} <= {"/apis/argo.example", "/apis/argo.example/v1"}


def test_a_server_whose_discovery_names_paths_is_not_followed() -> None:
    evil = Reply({"resources": [{"name": "../../x", "kind": "Rollout"}, {"name": "../../x/scale", "kind": "Scale"}]})
    with lookups(GROUP, evil, SCALE) as (queue, server):
        queue.enqueue(ScaleLookup(BIG))
        (found,) = queue.step(NOW)
    assert isinstance(found, ScaleFound)
    assert found.scale is None
    assert [path for path, _ in server.requests] == ["/apis/argo.example", "/apis/argo.example/v1"]
