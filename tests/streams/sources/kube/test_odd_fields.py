"""Every object that is watched, each of its fields null, missing, odd or hostile: it is read, or named with the place.

The objects are made from the types that the source reads, so that a field which is added later is tried as well. What is odd of
one object costs no other object anything.
"""

import copy
import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from agents.logic import stage_rules
from agents.logic.updates.update_settings import UpdateSettings
from schemas.policies.vpa import VpaChanged
from streams.clients.kube.api import Api, ApiResponse
from streams.clients.kube.autoscaler_specs import AutoscalerObject, EhpaSpec, PredictionObject, TspSpec
from streams.clients.kube.commanding_objects import ControlObject, ControlSpec, PolicyObject, PolicySpec
from streams.clients.kube.list_watch_requests import ListWatchClient
from streams.clients.kube.vpa_objects import VpaSpec
from streams.clients.kube.watched_objects import VpaObject
from streams.sources.kube.publish.cluster_control import ControlDoor
from streams.sources.kube.publish.policy_objects import PolicyDoor
from streams.sources.kube.watch.notifications import Notification, ObjectSeen, WatchSynced
from streams.sources.kube.watch.reflector import Reflector
from streams.sources.kube.watch.watched_resources import DETAILED, PrioritiesMap, ResourceWatch, WebhookLease
from streams.sources.kube.watch_threads import watches
from tests.support.kube_scene import KubeScene

Json = Any
PRIORITIES, LEASE = PrioritiesMap("kube-system", "priorities"), WebhookLease("kube-system", "webhook")
_RESOURCES = [
    *watches(nodes=True, replicas=True, webhook=LEASE, priorities=PRIORITIES, control=True, policies=True),
    *(watch for watch in watches() if watch.kind in DETAILED or watch.kind == "nodes"),
]
EVERY = {f"{watch.kind} as {watch.resource.type.__name__}": watch for watch in _RESOURCES}
"""All that is watched; pods, nodes and DaemonSets also as they are read where no nodes are scaled."""
SPECS = {
    VpaObject: VpaSpec,
    AutoscalerObject: EhpaSpec,
    PredictionObject: TspSpec,
    ControlObject: ControlSpec,
    PolicyObject: PolicySpec,
}
TEXTS = {"operator": "In", "kind": "Deployment", "type": "Resource", "phase": "Running", "mode": "Off", "updateMode": "Off"}
"""Fields in which only some texts are sound."""
NOT_OF_OBJECTS = ("SourceReported", "WebhookLeaseSeen", "PodShapeSeen", "StageRulesChanged")
FEW = 8
NAMELESS = (("metadata",), ("metadata", "name"), ("metadata", "namespace"))
"""Where nobody can say whose field it is."""
PLAIN = {
    msgspec.inspect.DateTimeType: "2026-03-01T00:00:00Z",
    msgspec.inspect.IntType: 1,
    msgspec.inspect.FloatType: 1,
    msgspec.inspect.BoolType: False,
}
DEEP: Json = None
for _ in range(400):
    DEEP = [DEEP]
ODD: tuple[Json, ...] = (None, [], {}, "", "text", "x" * 5_000, 2**63, -1e300, True, "\x00\ud7ff", DEEP)


def sound(kind: Any, name: str = "") -> Json:
    """An object with every field that a type has."""
    match kind:
        case msgspec.inspect.StructType():
            whole = {field.encode_name: sound(field.type, field.encode_name) for field in kind.fields}
            return {**whole, **({"spec": sound(msgspec.inspect.type_info(SPECS[kind.cls]))} if kind.cls in SPECS else {})}
        case msgspec.inspect.UnionType():
            return sound(next(part for part in kind.types if not isinstance(part, msgspec.inspect.NoneType)), name)
        case msgspec.inspect.ListType() | msgspec.inspect.VarTupleType():
            return [sound(kind.item_type, name)]
        case msgspec.inspect.DictType():
            return {"cpu": sound(kind.value_type, name)}
        case msgspec.inspect.EnumType():
            return TEXTS.get(name, next(iter(kind.cls)).value)
    return TEXTS.get(name, "1") if isinstance(kind, msgspec.inspect.StrType) else PLAIN.get(type(kind), {})


def odd(value: Json, place: tuple[object, ...] = ()) -> Iterator[tuple[tuple[object, ...], Json]]:
    """Each place, and the object with an odd value there, or with none."""
    if place:
        yield from ((place, each) for each in ODD)
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        if isinstance(value, dict):
            yield (*place, key), {name: other for name, other in value.items() if name != key}
        for where, changed in odd(part, (*place, key)):
            whole = copy.copy(value)
            whole[key] = changed
            yield where, whole


class Cluster:
    """A source that is given whatever a server lists."""

    def __init__(self, watch: ResourceWatch, *, nodes: bool) -> None:
        control = ControlDoor(lambda *_: None, lambda: None)
        policies = PolicyDoor(lambda *_: None, lambda said: stage_rules.fault(UpdateSettings, said))
        self.scene = KubeScene(
            nodes=nodes, replicas=True, webhook=LEASE, priorities=PRIORITIES, control=control, policies=policies
        )
        self.scene.sync()
        self.scene.handle(WatchSynced(watch.name))
        self.watch, self.body, api = watch, b"", Api.__new__(Api)
        api.send = lambda _: ApiResponse(200, self.body)  # type: ignore[method-assign]  # the server's answer
        self.list_watch = ListWatchClient(api)

    def list(self, *objects: Json) -> tuple[list[Notification], list[Any]]:
        """What the source is told of a list, and what it says."""
        self.body = json.dumps({"metadata": {"resourceVersion": "7"}, "items": objects}).encode()
        told: list[Notification] = []
        with capture_logs() as lines:
            Reflector(self.list_watch, self.watch, told.extend).step()
            self.scene.handle(*told)
        return told, [line for line in lines if line["log_level"] in {"error", "critical"}]

    def restart(self, *objects: Json) -> None:
        """Another process, which knows only what the log tells, is given this list."""
        self.scene.restart()
        self.list(*objects)
        self.scene.sync()

    def known(self) -> Sequence[str]:
        """The kinds of the facts and policies about objects."""
        topics = ("policies", "pod-changes-by-cluster", "cluster-changes", "scheduling-changes")
        events = [type(event).__name__ for topic in topics for event in self.scene.events(topic)]
        return [event for event in events if event not in NOT_OF_OBJECTS]

    def withdrawn(self) -> Sequence[str]:
        """Those that say that an object is gone."""
        return [event for event in self.known() if event.endswith(("Removed", "Deleted", "Gone", "Left"))]


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_every_field_of_every_watched_object_may_be_odd(name: str) -> None:
    watch = EVERY[name]
    cluster = Cluster(watch, nodes=watch in _RESOURCES[:-3])
    whole = sound(msgspec.inspect.type_info(watch.resource.type))
    whole["metadata"] |= {"name": "mine", "namespace": "shop"}
    fine = copy.deepcopy(whole)
    fine["metadata"] |= {"name": "fine", "uid": "another"}
    _, lines = cluster.list(fine)
    assert not lines, "the object that is changed below makes sense as it is"
    for place, changed in odd(whole):
        told, lines = cluster.list(changed, fine)
        assert [seen.object.metadata.name for seen in told if isinstance(seen, ObjectSeen)][-1:] == ["fine"], (place, told)
        for line in lines:
            if line["event"] == "an object is too large to be kept":
                continue  # it says the object and the field, too
            assert line["event"] == "an object cannot be read", line
            assert line["object"].endswith("/mine") or place in NAMELESS, (place, line)
            assert len(line["reason"]) < 2_000, (place, line)
            named = [str(part) for part in place if isinstance(part, str)]
            assert any(part.lower() in line["reason"].lower() for part in named[-2:]), (place, line)


@pytest.mark.parametrize("name", EVERY)
def test_what_was_known_of_an_object_that_cannot_be_read_is_kept_over_a_restart_until_it_is_gone(name: str) -> None:
    watch = EVERY[name]
    cluster = Cluster(watch, nodes=watch in _RESOURCES[:-3])
    whole = sound(msgspec.inspect.type_info(watch.resource.type))
    whole["metadata"] |= {"name": "mine", "namespace": "shop", "resourceVersion": "1"}
    fine = copy.deepcopy(whole)
    fine["metadata"] |= {"name": "fine", "uid": "another"}
    said = [(each, cluster.list(each, fine)[1]) for place, each in odd(whole) if place not in NAMELESS]
    unread = [each for each, lines in said if any("names no kind" not in line["reason"] for line in lines)]
    for changed in unread[:: max(1, len(unread) // FEW)]:
        cluster = Cluster(watch, nodes=watch in _RESOURCES[:-3])
        cluster.list(whole, fine)
        for _ in range(2):
            cluster.restart(changed, fine)
            assert cluster.withdrawn() == [], changed
        asked = bool(cluster.known())
        cluster.restart(fine)
        assert bool(cluster.withdrawn()) is asked, changed


def test_an_hpa_that_names_no_target_any_more_constrains_nobody() -> None:
    about = {"name": "web", "namespace": "shop", "uid": "u"}
    target = {"kind": "Deployment", "name": "web"}
    for bare in ({"kind": "Deployment", "name": ""}, {"kind": "", "name": "web"}, {}):
        cluster = Cluster(EVERY["horizontalpodautoscalers as HpaObject"], nodes=False)
        cluster.list({"metadata": {**about, "resourceVersion": "1"}, "spec": {"scaleTargetRef": target}})
        _, lines = cluster.list({"metadata": {**about, "resourceVersion": "2"}, "spec": {"scaleTargetRef": bare}})
        assert all("spec.scaleTargetRef names no kind or no name" in line["reason"] for line in lines)
        assert lines
        assert set(cluster.withdrawn()) == {"HpaGone", "HpaTargetRemoved"}


def test_a_vpa_without_a_spec_is_said_to_be_unsupported() -> None:
    cluster = Cluster(EVERY["verticalpodautoscalers as VpaObject"], nodes=False)
    about = {"namespace": "shop", "uid": "u", "resourceVersion": "1"}
    cluster.list({"metadata": {**about, "name": "bare"}, "spec": None}, {"metadata": {**about, "name": "flat"}, "spec": "web"})
    said = {event.name: event.unsupported for event in cluster.scene.vpas() if isinstance(event, VpaChanged)}
    assert said == {
        "bare": "The spec cannot be carried out: Expected `object`, got `null` - at `spec`",
        "flat": "The spec cannot be carried out: Expected `object`, got `str` - at `spec`",
    }


def test_null_counts_as_absent_except_for_a_spec() -> None:
    cluster = Cluster(EVERY["horizontalpodautoscalers as HpaObject"], nodes=False)
    about = {"namespace": "shop", "uid": "u", "resourceVersion": "1"}
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": None}, "maxReplicas": 3, "behavior": None}
    told, lines = cluster.list({"metadata": {**about, "name": "sound", "labels": None}, "spec": spec, "status": None})
    assert ([type(each).__name__ for each in told[:1]], lines) == (["ObjectSeen"], [])
    _, lines = cluster.list({"metadata": {**about, "name": "bare"}, "spec": None})
    assert [(line["object"], line["reason"]) for line in lines] == [("shop/bare", "Expected `object`, got `null` - at `spec`")]


def test_an_operator_that_is_none_is_quoted_with_its_place_and_the_hpa_still_counts() -> None:
    cluster = Cluster(EVERY["horizontalpodautoscalers as HpaObject"], nodes=False)
    selector = {"matchExpressions": [{"key": "a", "operator": "Like"}]}
    metrics = [{"type": "External", "external": {"metric": {"name": "q", "selector": selector}}}]
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 3, "metrics": metrics}
    _, lines = cluster.list({"metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "1"}, "spec": spec})
    assert [line["reason"] for line in lines] == [
        "spec.metrics[0].metric.selector.matchExpressions[0].operator is 'Like'; there are In, NotIn, Exists, DoesNotExist"
    ]
    names = [type(event).__name__ for topic in ("policies", "pod-changes-by-cluster") for event in cluster.scene.events(topic)]
    assert "HpaTargetChanged" in names
