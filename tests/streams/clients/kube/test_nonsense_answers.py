"""An API server that answers nonsense is named as such, with what was asked for and where the answer is odd, by every client."""

import contextlib
import copy
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from streams.clients.kube import json_objects
from streams.clients.kube.api import Api, ApiResponse
from streams.clients.kube.cluster_client import KubernetesClient
from streams.clients.kube.json_objects import AppliedObjects, PlainObjects
from streams.clients.kube.label_selectors import LabelSelectedPods
from streams.clients.kube.list_watch_requests import ApiResource, ListWatchClient
from streams.clients.kube.vpa_status_client import VpaStatusClient
from streams.consumers.executing import holder_lease
from streams.consumers.nodes.buffer_status import CapacityBufferClient
from streams.errors import GiveUp, TryAgain
from streams.sources.kube.watch import watched_resources

Json = dict[str, Any]

OBJECT: Json = {
    "metadata": {
        "name": "api",
        "namespace": "web",
        "uid": "u-1",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app": "api"},
        "annotations": {"note": "text"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "api-1", "uid": "u-2", "apiVersion": "apps/v1", "controller": True}],
    },
    "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}, "limits": {}}}], "nodeName": "n1"},
    "status": {"phase": "Running", "containerStatuses": [{"name": "app", "restartCount": 0, "ready": True}]},
    "containers": [{"name": "app", "usage": {"cpu": "1", "memory": "1Mi"}}],
    "timestamp": "2026-01-01T00:00:00Z",
    "window": "10s",
}
LIST: Json = {"metadata": {"resourceVersion": "7", "continue": ""}, "items": [OBJECT]}
ODD: tuple[object, ...] = (None, [], {}, "", "text", 0, -1, 1e300, True, [None], [[]], {"a": None})


def _fake(body: bytes) -> Any:
    """A connection that answers this, whatever is asked."""
    api = Api.__new__(Api)
    api.send = lambda _request: ApiResponse(200, body)  # type: ignore[method-assign]  # the server's answer
    return api


def _cluster(api: Api) -> KubernetesClient:
    client = KubernetesClient.__new__(KubernetesClient)
    client._cluster, client._api = "demo", api
    return client


def _relied_on(found: Json | None) -> object:
    """What the callers of plain objects take for granted."""
    assert found is not None
    about = found["metadata"]
    labels = {**(about.get("labels") or {}), **(about.get("annotations") or {})}
    owners = [owner.get("uid") for owner in about.get("ownerReferences") or ()]
    spec, status = {**found.get("spec", {})}, {**(found.get("status") or {})}
    return about["name"] + about["uid"] + about.get("resourceVersion", ""), labels, owners, spec, status


def _each_listed(api: Api) -> None:
    held = [each for name, each in vars(watched_resources).items() if name.lstrip("_").isupper()]
    lists = [each.values() if isinstance(each, Mapping) else each for each in held if isinstance(each, Mapping | tuple | list)]
    resources = [each for each in (*held, *itertools.chain(*lists)) if isinstance(each, ApiResource)]
    assert len(resources) > 20
    for resource in resources:
        for page in ListWatchClient(api).list_pages(resource):
            assert page.items is not None


CALLS: dict[str, tuple[Callable[[Any], object], Json]] = {
    "a pod": (lambda api: _cluster(api).pod("web", "api"), OBJECT),
    "pods": (lambda api: _cluster(api).pods(), LIST),
    "usage": (lambda api: _cluster(api).usage(), LIST),
    "a pod's usage": (lambda api: _cluster(api).pod_usage("web", "api"), OBJECT),
    "pods of a selector": (lambda api: [_relied_on(pod) for pod in LabelSelectedPods(api).selected("web", "app=api")], LIST),
    "a Lease": (lambda api: _relied_on(holder_lease.leases(api, "web").find("api")), OBJECT),
    "an object that is made": (lambda api: _relied_on(PlainObjects(api, "/x", "Secret").create("api", {})), OBJECT),
    "an object that is replaced": (lambda api: _relied_on(PlainObjects(api, "/x", "Secret").replace("api", {})), OBJECT),
    "an HPA": (lambda api: _relied_on(AppliedObjects(api, "autoscaling/v2", "hpas", "HPA").find("web", "api")), OBJECT),
    "a patched HPA": (
        lambda api: _relied_on(AppliedObjects(api, "autoscaling/v2", "hpas", "HPA").merge("web", "api", {})),
        OBJECT,
    ),
    "a role": (lambda api: json_objects.owned(api, "/x", "APIService", "role").create("api", OBJECT), OBJECT),
    "a VPA": (lambda api: VpaStatusClient(api).read("web", "api"), OBJECT),
    "VPAs": (lambda api: list(VpaStatusClient(api).all()), LIST),
    "a buffer": (lambda api: CapacityBufferClient(api).buffer("web", "api"), OBJECT),
    "lists of a source": (_each_listed, LIST),
}


def _odd(value: object) -> Iterator[object]:
    """The value with an odd one, or none, in one place; in each place once."""
    yield from ODD
    if isinstance(value, dict):
        for key in value:
            yield {name: part for name, part in value.items() if name != key}
            for part in _odd(value[key]):
                yield {**value, key: part}
    if isinstance(value, list):
        for place, held in enumerate(value):
            for part in _odd(held):
                yield [*value[:place], part, *value[place + 1 :]]


@pytest.mark.parametrize("name", CALLS)
def test_each_client_reads_an_odd_answer_or_says_that_it_cannot(name: str) -> None:
    call, sound = CALLS[name]
    call(_fake(json.dumps(sound).encode()))
    for answer in _odd(copy.deepcopy(sound)):
        with contextlib.suppress(TryAgain, GiveUp):
            call(_fake(json.dumps(answer).encode()))


def test_what_was_asked_for_and_where_the_answer_is_odd_is_said() -> None:
    odd = {**LIST, "items": [{**OBJECT, "metadata": None}]}
    with pytest.raises(TryAgain) as caught:
        LabelSelectedPods(_fake(json.dumps(odd).encode())).selected("web", "app=api")
    assert (caught.value.doing, caught.value.to) == ("listing pods of", "web (app=api)")
    assert "Expected `object`, got `null` - at `$.items[0].metadata`" in caught.value.answer


def test_bytes_that_are_no_text_are_said_as_well() -> None:
    for body in (b"", b"\xff\xfe", b"[" * 100_000, b'{"metadata":', b"<html>"):
        for call, _sound in CALLS.values():
            with pytest.raises((TryAgain, GiveUp)):
                call(_fake(body))
