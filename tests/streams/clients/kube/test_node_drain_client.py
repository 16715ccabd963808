"""Which node is an instance: all nodes are looked through, page by page, for its id in their provider id or their name."""

import pytest
from kubernetes import client as official

from streams.clients.kube.api import Api
from streams.clients.kube.node_drain_client import NodeDrainClient
from streams.errors import EdgeError
from tests.support.scripted_api import Reply, ScriptedApi, listed, refusal


def a_node(name: str, provider_id: str = "") -> dict[str, object]:
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": {"providerID": provider_id}}


def a_client(api: ScriptedApi) -> NodeDrainClient:
    settings = official.Configuration(host=api.url, retries=False)
    settings.proxy = None
    return NodeDrainClient(Api(official.ApiClient(settings)))


@pytest.mark.parametrize(
    ("last", "found"),
    [
        (a_node("ip-10-0-0-1", "aws:///eu-central-1a/i-1"), "ip-10-0-0-1"),
        (a_node("i-1.eu-central-1.compute.internal"), "i-1.eu-central-1.compute.internal"),
        (a_node("i-1"), "i-1"),
        (a_node("i-12", "aws:///eu-central-1a/i-12"), None),
    ],
)
def test_an_instance_is_a_node_by_its_provider_id_or_by_its_name(last: dict[str, object], found: str | None) -> None:
    pages = [listed(a_node("other", "kind://docker/x/y"), version="5", more="next page"), listed(last, version="5")]
    with ScriptedApi(pages).serving() as api:
        assert a_client(api).of_instance("i-1") == found
    assert [query.get("continue") for _path, query in api.requests] == [None, "next page"]


def test_a_list_that_breaks_off_is_no_answer() -> None:
    pages = [listed(a_node("other"), version="5", more="next page"), Reply(refusal(410, "too old"), 410)]
    with ScriptedApi(pages).serving() as api, pytest.raises(EdgeError):
        a_client(api).of_instance("i-1")
