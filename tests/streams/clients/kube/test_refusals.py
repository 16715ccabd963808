"""What refusals mean, and what happens when the other side is away or talks nonsense."""

import threading
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes import client as official
from kubernetes.config import ConfigException

from schemas.facts.pods import ContainerRun, ResizeState
from schemas.names import Amounts, PodName
from schemas.units import Bytes, Cores
from streams.clients.cluster_port import OOMKill
from streams.clients.kube import cluster_client, pod_objects, quantities, refusals
from streams.clients.kube.cluster_client import KubernetesClient, connect
from streams.errors import GiveUp, TryAgain, Unreachable

POD = PodName("shop", "web-1", "u1")


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        (429, "too many requests", TryAgain),
        (500, "etcd is away", TryAgain),
        (503, "", TryAgain),
        (504, "timeout", TryAgain),
        (408, "", TryAgain),
        (409, "the object has been modified", TryAgain),
        (500, "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.", GiveUp),
        (409, "the UID in the precondition (a) does not match", GiveUp),
        (404, "not found", GiveUp),
        (403, "forbidden", GiveUp),
        (422, "invalid", GiveUp),
        (400, "bad", GiveUp),
        (401, "the token has expired", TryAgain),
    ],
)
def test_a_status_code_means_try_again_or_give_up(code: int, message: str, kind: type[Exception]) -> None:
    assert type(refusals.error_for_status(doing="evicting", to="a/b", code=code, message=message)) is kind


def test_nobody_there_means_try_again_and_names_what_was_tried() -> None:
    client = connect("demo", "http://127.0.0.1:1")
    with pytest.raises(Unreachable, match=r"evicting 'shop/web-1' did not work: .*refused") as caught:
        client.evict(POD)
    assert caught.value.after == refusals.RETRY_AFTER


@pytest.mark.parametrize("token", ["Bearer geheim\nsecond", "Bearer geheim\u2026"])
def test_an_error_about_a_token_that_no_header_may_hold_does_not_quote_it_and_may_pass(token: str) -> None:
    settings = official.Configuration(host="http://127.0.0.1:1", retries=False, api_key={"authorization": token})
    with pytest.raises(TryAgain, match=r"evicting 'shop/web-1' .* the credentials cannot be used") as caught:
        KubernetesClient("demo", official.ApiClient(settings)).evict(POD)
    assert "geheim" not in "".join(traceback.format_exception(caught.value))


def test_a_token_file_that_is_empty_while_it_is_renewed_is_tried_again() -> None:
    def renew(_: official.Configuration) -> None:
        raise ConfigException("Token file exists but empty.")

    settings = official.Configuration(host="http://127.0.0.1:1", retries=False, api_key={"authorization": "Bearer a"})
    settings.refresh_api_key_hook = renew
    with pytest.raises(TryAgain, match="the credentials cannot be used"):
        KubernetesClient("demo", official.ApiClient(settings)).evict(POD)


class _Canned(BaseHTTPRequestHandler):
    code, body, headers_out = 200, b"", {"X-None": "1"}

    def do_GET(self) -> None:
        self.send_response(self.code)
        for name, value in self.headers_out.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the standard library's name
        pass


@pytest.fixture
def canned() -> Iterator[tuple[KubernetesClient, type[_Canned]]]:
    handler = type("Canned", (_Canned,), {})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    client = connect("demo", f"http://127.0.0.1:{server.server_address[1]}")
    yield client, handler
    client.close()
    server.shutdown()
    server.server_close()
    thread.join()


def test_an_answer_that_is_no_json_means_try_again(canned: tuple[KubernetesClient, type[_Canned]]) -> None:
    client, handler = canned
    handler.body = b"<html>proxy</html>"
    with pytest.raises(TryAgain, match="listing pods of 'demo' did not work: an answer that cannot be read"):
        client.pods()


def test_a_quantity_that_is_none_means_try_again_and_is_quoted(canned: tuple[KubernetesClient, type[_Canned]]) -> None:
    client, handler = canned
    handler.body = (
        b'{"metadata":{"name":"p","creationTimestamp":"2026-01-01T00:00:00Z"},'
        b'"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"much"}}}]}}'
    )
    with pytest.raises(TryAgain, match="much"):
        client.pod("default", "p")


@pytest.mark.parametrize(
    ("old", "new"),
    [("2026-01-01T00:00:00Z", "2026-01-01T00:00:00"), ('"name":"c"', '"name":"c","resources":{"requests":{"cpu":"NaN"}}')],
)
def test_a_time_without_offset_and_an_amount_that_is_no_number_mean_try_again(
    canned: tuple[KubernetesClient, type[_Canned]], old: str, new: str
) -> None:
    client, handler = canned
    handler.body = owned("db", kind="StatefulSet").replace(old.encode(), new.encode())
    with pytest.raises(TryAgain, match="an answer that cannot be read"):
        client.pod("n", "p-1")


def test_a_kill_of_a_container_that_the_spec_does_not_have_is_left_out(canned: tuple[KubernetesClient, type[_Canned]]) -> None:
    client, handler = canned
    ended = '"lastState":{"terminated":{"reason":"OOMKilled","finishedAt":"2026-01-02T03:04:05Z"}}'
    status = f'"containerStatuses":[{{"name":"ghost","restartCount":3,{ended}}}],"phase"'
    handler.body = owned("db", kind="StatefulSet").replace(b'"phase"', status.encode())
    pod = client.pod("n", "p-1")
    assert pod is not None
    assert pod.ooms == ()


def test_retry_after_is_obeyed_in_header_and_in_details(canned: tuple[KubernetesClient, type[_Canned]]) -> None:
    client, handler = canned
    handler.code, handler.headers_out = 429, {"Retry-After": "7"}
    with pytest.raises(TryAgain) as in_header:
        client.pods()
    handler.headers_out, handler.body = {}, b'{"kind":"Status","message":"slow down","details":{"retryAfterSeconds":3}}'
    with pytest.raises(TryAgain, match="429 slow down") as in_details:
        client.pods()
    assert (in_header.value.after, in_details.value.after) == (7, 3)


def owned(owner: str, *, labels: str = "{}", kind: str = "ReplicaSet") -> bytes:
    return (
        f'{{"metadata":{{"name":"p-1","namespace":"n","uid":"u","creationTimestamp":"2026-01-01T00:00:00Z","labels":{labels},'
        f'"ownerReferences":[{{"kind":"{kind}","name":"{owner}","controller":true}}]}},'
        f'"spec":{{"containers":[{{"name":"c"}}]}},"status":{{"phase":"Running"}}}}'
    ).encode()


@pytest.mark.parametrize(
    ("body", "key"),
    [
        (owned("web-5d8f", labels='{"pod-template-hash":"5d8f"}'), "demo/n/Deployment/web"),
        (owned("web-5d8f"), "demo/n/ReplicaSet/web-5d8f"),
        (owned("db", kind="StatefulSet"), "demo/n/StatefulSet/db"),
        (owned("web-5d8f").replace(b"true", b"false"), "demo/n/Pod/p-1"),
    ],
)
def test_the_workload_is_the_topmost_controller_that_the_pod_tells(
    canned: tuple[KubernetesClient, type[_Canned]], body: bytes, key: str
) -> None:
    client, handler = canned
    handler.body = body
    pod = client.pod("n", "p-1")
    assert pod is not None
    assert pod.workload.key == key


@pytest.mark.parametrize(
    ("condition", "state"),
    [
        ('{"type":"PodResizePending","status":"True","reason":"Infeasible"}', ResizeState.INFEASIBLE),
        ('{"type":"PodResizePending","status":"True","reason":"Deferred"}', ResizeState.DEFERRED),
        ('{"type":"PodResizePending","status":"True","reason":"Sideways"}', ResizeState.UNKNOWN),
        ('{"type":"PodResizeInProgress","status":"True"}', ResizeState.IN_PROGRESS),
        ('{"type":"PodResizeInProgress","status":"True","reason":"Error"}', ResizeState.ERROR),
        ('{"type":"PodResizeInProgress","status":"False"}', ResizeState.NONE),
        ('{"type":"Ready","status":"True"}', ResizeState.NONE),
    ],
)
def test_the_state_of_a_resize_is_read_from_the_conditions(
    canned: tuple[KubernetesClient, type[_Canned]], condition: str, state: ResizeState
) -> None:
    client, handler = canned
    handler.body = owned("db", kind="StatefulSet").replace(b'"phase"', b'"conditions":[' + condition.encode() + b'],"phase"')
    pod = client.pod("n", "p-1")
    assert pod is not None
    assert pod.resize is state


@pytest.mark.parametrize(
    ("state", "restarts"),
    [
        ('"state":{"waiting":{}},"lastState":{ENDED}', 4),
        ('"state":{"running":{}},"lastState":{ENDED}', 3),
        ('"state":{ENDED}', 4),
    ],
)
def test_an_oom_kill_is_counted_by_the_restart_that_follows_it(
    canned: tuple[KubernetesClient, type[_Canned]], state: str, restarts: int
) -> None:
    client, handler = canned
    ended = '"terminated":{"reason":"OOMKilled","startedAt":"2026-01-02T03:03:05Z","finishedAt":"2026-01-02T03:04:05Z"}'
    status = f'"containerStatuses":[{{"name":"c","restartCount":3,{state.replace("ENDED", ended)}}}],"phase"'
    handler.body = owned("db", kind="StatefulSet").replace(b'"phase"', status.encode())
    pod = client.pod("n", "p-1")
    assert pod is not None
    began, end = datetime(2026, 1, 2, 3, 3, 5, tzinfo=UTC), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert pod.ooms == (OOMKill("c", restarts, end, began),)
    assert [seen.last_run for seen in pod.containers] == [ContainerRun(end, began, "OOMKilled")]


@given(st.integers(1, 10_000_000), st.integers(1, 1 << 50))
def test_amounts_that_a_cluster_can_hold_come_back_as_they_were(milli: int, memory: int) -> None:
    held = Amounts(Cores(milli / 1000), Bytes(memory))
    assert quantities.read_amounts(quantities.spell_amounts(held)) == quantities.settled(held) == held


def test_quantities_are_read_in_every_spelling() -> None:
    assert quantities.read_amounts({"cpu": "2", "memory": "1Gi"}) == Amounts(Cores(2.0), Bytes(1 << 30))
    assert quantities.read_amounts({"cpu": "1500000n", "memory": "1500k"}) == Amounts(Cores(0.0015), Bytes(1_500_000))
    assert quantities.read_amounts({}) == Amounts()


def test_a_difference_below_a_millicore_is_none() -> None:
    assert quantities.same({"a": Amounts(cpu=Cores(0.1 + 0.2))}, {"a": Amounts(cpu=Cores(0.3))})
    assert not quantities.same({"a": Amounts(cpu=Cores(0.3))}, {"a": Amounts(cpu=Cores(0.301))})
    assert quantities.same({"a": Amounts()}, {})


@pytest.mark.parametrize(("text", "seconds"), [("1m0s", 60), ("30s", 30), ("15.5s", 15.5), ("1h2m3s", 3723)])
def test_windows_are_read_as_go_spells_them(text: str, seconds: float) -> None:
    usage = cluster_client.PodMetrics(pod_objects.ObjectMeta("p"), datetime(2026, 1, 1, tzinfo=UTC), text, [])
    assert cluster_client.read_usage(usage).window == seconds
