"""The way from a controller up to the topmost one, asked of an API server."""

from typing import Any

import msgspec
import pytest

from streams.clients.kube.api import ApiRequest
from streams.clients.kube.controllers import ControllerKey
from streams.consumers.webhook.controller_lookups import ControllerChain
from streams.errors import GiveUp

APPS = "/apis/apps/v1/namespaces/shop"
CUSTOM = "/apis/example.com/v1"


class Server:
    """What is at each path; anything else is not there."""

    def __init__(self, objects: dict[str, Any]) -> None:
        self.objects, self.asked = objects, list[str]()

    def find(self, request: ApiRequest, kind: type[Any]) -> Any:
        self.asked.append(request.path)
        found = self.objects.get(request.path)
        return None if found is None else msgspec.convert(found, kind)


def owned(*by: tuple[str, str, str], controller: bool = True, name: str = "x") -> dict[str, Any]:
    references = [{"kind": kind, "name": name, "apiVersion": version, "controller": controller} for kind, name, version in by]
    return {"metadata": {"name": name, "ownerReferences": references}, "spec": {}, "status": {"selector": "a=b"}}


def topmost(objects: dict[str, Any], kind: str, name: str, version: str = "apps/v1") -> ControllerKey | None:
    chain = ControllerChain(Server(objects))  # type: ignore[arg-type]  # the one method of an Api that it calls
    return chain.topmost(ControllerKey("shop", kind, name, version))


KINDS = {CUSTOM: {"resources": [{"name": "shops", "kind": "Shop"}, {"name": "shops/scale", "kind": "Scale"}]}}


def test_a_replica_set_leads_to_its_deployment() -> None:
    objects = {f"{APPS}/replicasets/web-1": owned(("Deployment", "web", "apps/v1")), f"{APPS}/deployments/web": owned()}
    assert topmost(objects, "ReplicaSet", "web-1") == ("shop", "Deployment", "web", "")


def test_a_job_leads_to_its_cron_job_and_one_without_an_owner_is_topmost_itself() -> None:
    batch = "/apis/batch/v1/namespaces/shop"
    objects = {
        f"{batch}/jobs/night-1": owned(("CronJob", "night", "batch/v1")),
        f"{batch}/cronjobs/night": owned(),
        f"{batch}/jobs/once": owned(),
    }
    assert topmost(objects, "Job", "night-1", "batch/v1") == ("shop", "CronJob", "night", "")
    assert topmost(objects, "Job", "once", "batch/v1") == ("shop", "Job", "once", "")


@pytest.mark.parametrize("name", ["..", "../../../../api/v1/secrets", "web%2f.."])
def test_a_name_that_would_lead_elsewhere_is_not_asked_for(name: str) -> None:
    server = Server({})
    with pytest.raises(GiveUp, match="no name of an object"):
        ControllerChain(server).topmost(ControllerKey("shop", "ReplicaSet", name, "apps/v1"))  # type: ignore[arg-type]  # as above
    assert server.asked == []


def test_a_custom_owner_counts_if_it_can_be_scaled() -> None:
    objects = {f"{APPS}/deployments/web": owned(("Shop", "mine", "example.com/v1")), **KINDS}
    assert topmost(objects, "Deployment", "web") == ("shop", "Deployment", "web", "")
    objects[f"{CUSTOM}/namespaces/shop/shops/mine/scale"] = owned()
    assert topmost(objects, "Deployment", "web") == ("shop", "Shop", "mine", "example.com/v1")


def test_what_has_no_scale_and_a_node_are_no_controllers() -> None:
    assert topmost(KINDS, "Shop", "mine", "example.com/v1") is None
    assert topmost({}, "Node", "n", "v1") is None


def test_an_owner_that_does_not_control_it_does_not_count() -> None:
    objects = {f"{APPS}/replicasets/web-1": owned(("Deployment", "web", "apps/v1"), controller=False)}
    assert topmost(objects, "ReplicaSet", "web-1") == ("shop", "ReplicaSet", "web-1", "")


def test_a_missing_object_a_circle_and_an_unknown_kind_are_said() -> None:
    with pytest.raises(GiveUp, match="not found"):
        topmost({}, "ReplicaSet", "web-1")
    circle = {
        f"{APPS}/replicasets/a": owned(("ReplicaSet", "b", "apps/v1")),
        f"{APPS}/replicasets/b": owned(("ReplicaSet", "a", "apps/v1")),
    }
    with pytest.raises(GiveUp, match="circle"):
        topmost(circle, "ReplicaSet", "a")
    with pytest.raises(GiveUp, match="no 'Thing' is known"):
        topmost({}, "Thing", "x", "example.com/v1")


def test_installed_kinds_are_looked_up_anew_after_a_while() -> None:
    now = [0.0]
    server = Server({**KINDS, f"{CUSTOM}/namespaces/shop/shops/mine/scale": owned()})
    chain = ControllerChain(server, clock=lambda: now[0])  # type: ignore[arg-type]  # as above
    key = ControllerKey("shop", "Shop", "mine", "example.com/v1")
    for at, looked_up in ((0.0, 1), (299.0, 1), (301.0, 2)):
        now[0] = at
        assert chain.topmost(key) == key
        assert server.asked.count(CUSTOM) == looked_up


def test_a_custom_owner_says_by_its_scale_how_many_pods_are_still_to_come() -> None:
    server = Server(
        {**KINDS, f"{CUSTOM}/namespaces/shop/shops/mine/scale": {**owned(), "spec": {"replicas": 5}, "status": {"replicas": 3}}}
    )
    chain = ControllerChain(server)  # type: ignore[arg-type]  # as above
    assert chain.coming(ControllerKey("shop", "Shop", "mine", "example.com/v1")) == 2
    assert chain.coming(ControllerKey("shop", "Shop", "none", "example.com/v1")) is None
