"""Remote-write 1.0 and 2.0 into samples of usage, over HTTP."""

import contextlib
import socket
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.units import Seconds
from streams.sources.usage.promql import MetricNames
from streams.sources.usage.received import remote_write
from streams.sources.usage.received.sample_table import UnreadableRequest
from streams.sources.usage.received.usage_samples import UsageSamples
from tests.support import usage_senders
from tests.support.receiver_scene import BEGIN, NOW, ReceiverScene, steady
from tests.support.usage_senders import CPU, MEMORY, STALE, labels

WEB = ("shop", "web-1", "main")
AT = NOW.timestamp()


@pytest.mark.parametrize("version", [1, 2])
def test_cpu_is_a_rate_and_memory_the_newest_value(version: int) -> None:
    with ReceiverScene().listening() as scene:
        answer = scene.write([(labels(CPU), steady(0.25)), (labels(MEMORY), [(AT - 15, 1e8), (AT, 1.5e8)])], version=version)
        assert (answer.status, answer.data) == (204, b"")
        assert answer.headers["X-Prometheus-Remote-Write-Samples-Written"] == "23"
        assert scene.rows() == {WEB: (0.25, 1.5e8)}
        assert scene.read().ends.tolist() == [AT]


def test_the_same_series_by_both_versions_is_one() -> None:
    with ReceiverScene().listening() as scene:
        scene.write([(labels(MEMORY), [(AT - 15, 1e8)])], version=1)
        assert scene.write([(labels(MEMORY), [(AT - 15, 1e8)])], version=2).status == 204
        assert (len(scene.samples), scene.samples.counts["repeated"]) == (1, 1)


def test_runs_and_cpus_of_a_container_are_added_and_of_two_servers_the_larger_counts() -> None:
    cpus = [(labels(CPU, id="/a", cpu=str(cpu), replica="0"), steady(0.2)) for cpu in range(2)]
    other = (labels(CPU, id="/a", replica="1"), steady(0.3))
    with ReceiverScene().listening() as scene:
        scene.write([*cpus, other, (labels(MEMORY, replica="0"), [(AT, 10.0)]), (labels(MEMORY, replica="1"), [(AT, 30.0)])])
        assert scene.rows() == {WEB: (0.4, 30.0)}


@pytest.mark.parametrize(
    "foreign",
    [
        labels(CPU, container="POD"),
        labels(CPU, container=""),
        labels(CPU, pod=""),
        labels(CPU) | {"job": "node"},
        labels(CPU) | {"cluster": "west"},
        labels(CPU) | {"namespace": "other"},
        labels("container_cpu_system_seconds_total"),
    ],
)
def test_what_the_queries_would_not_select_is_passed_over(foreign: dict[str, str]) -> None:
    names = MetricNames(labels=("cluster=east",), namespaces=("shop",))
    with ReceiverScene(names).listening() as scene:
        assert scene.write([({"cluster": "east"} | foreign, steady(0.25))]).status == 204
        assert (scene.rows(), scene.samples.counts["other"]) == ({}, 21)


def test_a_stale_marker_takes_a_container_away_at_once_and_silence_after_five_minutes() -> None:
    with ReceiverScene().listening() as scene:
        scene.write([(labels(MEMORY, pod), [(AT - 30, 1.0)]) for pod in ("a", "b")])
        scene.write([(labels(MEMORY, "a"), [(AT - 15, STALE)])])
        assert list(scene.rows()) == [("shop", "b", "main")]
        assert not scene.rows(after=271)


def test_out_of_order_samples_are_refused_with_a_sentence_and_the_others_taken() -> None:
    with ReceiverScene().listening() as scene:
        scene.write([(labels(MEMORY), [(AT - 15, 1.0)])])
        answer = scene.write([(labels(MEMORY), [(AT - 30, 5.0)]), (labels(MEMORY, "web-2"), [(AT, 2.0)])])
        assert (answer.status, answer.data.decode()) == (400, "1 sample is out of order\n")
        assert answer.headers["X-Prometheus-Remote-Write-Samples-Written"] == "1"
        assert scene.rows()["shop", "web-2", "main"][1] == 2.0


def test_a_sample_from_the_future_is_refused() -> None:
    with ReceiverScene().listening() as scene:
        assert scene.write([(labels(MEMORY), [(AT + 121, 1.0)])]).status == 400
        assert not scene.rows()


def test_a_series_with_unreadable_labels_costs_itself_alone() -> None:
    many = labels(MEMORY) | {f"label{n}": "x" for n in range(64)}
    long, twice = labels(MEMORY, name="x" * (16 << 10)), usage_senders.v1([(labels(MEMORY), [(AT, 1.0)])])
    for bad in (many, long):
        with ReceiverScene().listening() as scene:
            answer = scene.write([(bad, [(AT, 1.0)]), (labels(MEMORY), [(AT, 2.0)])])
            assert answer.status == 400
            assert answer.data.startswith(b"1 sample is malformed; ")
            assert scene.rows()[WEB][1] == 2.0
    assert twice


def test_series_beyond_the_bound_are_refused_and_counted_and_those_within_go_on() -> None:
    with ReceiverScene(most_series=2).listening() as scene:
        pods = ["a", "b", "c"]
        assert scene.write([(labels(MEMORY, pod), [(AT - 15, 1.0)]) for pod in pods]).status == 400
        assert scene.write([(labels(MEMORY, "a"), [(AT, 2.0)])]).status == 204
        assert (len(scene.samples), scene.samples.counts["refused"]) == (2, 1)


def test_a_sender_that_has_the_most_series_gives_room_to_one_that_has_fewer() -> None:
    """Before, whoever came first with many kept all others out."""
    samples = UsageSamples(Seconds(300.0), 100)

    def send(sender: str, pods: int) -> Counter[str]:
        content = usage_senders.v1([(labels(MEMORY, f"{sender}-{pod}"), [(AT, 1.0)]) for pod in range(pods)])
        return samples.take(lambda into: remote_write.decode(remote_write.V1, content, MetricNames(), into), NOW, sender)

    assert send("greedy", 1000)["stored"] == 100
    assert send("honest", 40)["refused"] == 0
    assert send("greedy", 1000)["refused"] == 940
    assert send("third", 40)["refused"] == 40 - 33
    kept = Counter(pod.partition("-")[0] for pod in samples.read(NOW).pods)
    assert kept == {"honest": 34, "greedy": 33, "third": 33}


def test_the_room_of_a_sender_is_that_of_its_token_wherever_it_sends_from() -> None:
    """Before, two tokens at one address (a NAT, a host's network) were one sender, and the first kept the second out."""
    with ReceiverScene(most_series=100, tokens=["greedy", "honest"]).listening() as scene:

        def send(token: str, pods: int) -> int:
            body = usage_senders.v1([(labels(MEMORY, f"{token}-{pod}"), [(AT, 1.0)]) for pod in range(pods)])
            headers = {"Authorization": f"Bearer {token}"} | usage_senders.V1
            return scene.send("/api/v1/write", usage_senders.packed(body), headers).status

        assert [send("greedy", 1000), send("honest", 40), send("stranger", 1)] == [400, 204, 401]
        assert Counter(pod.partition("-")[0] for _, pod, _ in scene.rows()) == {"greedy": 60, "honest": 40}


def test_no_sender_ends_or_lowers_what_another_one_brings() -> None:
    """Before, a stale marker two minutes ahead, or a small value, took the place of the honest sender's samples."""
    samples = UsageSamples(Seconds(300.0), 100)

    def send(sender: str, *written: tuple[float, float]) -> None:
        content = usage_senders.v1([(labels(MEMORY), list(written))])
        samples.take(lambda into: remote_write.decode(remote_write.V1, content, MetricNames(), into), NOW, sender)

    send("hostile", (AT + 60, 1.0), (AT + 100, STALE))
    send("honest", (AT - 15, 1e8), (AT, 2e8))
    assert samples.read(NOW).memory.tolist() == [2e8]


def test_no_series_of_a_request_becomes_another_one_in_the_same_request() -> None:
    samples = UsageSamples(Seconds(300.0), 10)

    def send(sender: str, *pods: str) -> None:
        content = usage_senders.v1([(labels(MEMORY, pod), [(AT - (sender == "a"), float(pod))]) for pod in pods])
        samples.take(lambda into: remote_write.decode(remote_write.V1, content, MetricNames(), into), NOW, sender)

    send("a", *map(str, range(10)))
    send("b", *map(str, range(5)), *map(str, range(100, 110)))
    readings = samples.read(NOW)
    assert {float(pod) for pod in readings.pods} == set(readings.memory.tolist())
    assert len(readings.pods) == 10


def test_series_that_ended_make_room_for_others() -> None:
    with ReceiverScene(most_series=1).listening() as scene:
        scene.write([(labels(MEMORY, "a"), [(BEGIN - 10, 1.0)])])
        scene.read()
        assert scene.write([(labels(MEMORY, "b"), [(AT, 2.0)])]).status == 204
        assert scene.rows() == {("shop", "b", "main"): (pytest.approx(float("nan"), nan_ok=True), 2.0)}


def test_a_series_without_a_sample_holds_no_room() -> None:
    with ReceiverScene(most_series=1).listening() as scene:
        scene.write([(labels(MEMORY, "a"), [])])
        scene.read()
        assert scene.write([(labels(MEMORY, "b"), [(AT, 2.0)])]).status == 204


def test_after_a_restart_a_rate_is_of_the_time_that_was_seen() -> None:
    """60 s of samples say what a window of 300 s of them would: a steady container uses a quarter of a core."""
    with ReceiverScene().listening() as scene:
        scene.write([(labels(CPU), steady(0.25, begin=AT - 60))])
        readings = scene.read()
        assert readings.cores.tolist() == [0.25]
        assert readings.window == pytest.approx(60.0, abs=0.1)


@pytest.mark.parametrize("seconds", [0.0, 0.001, AT - 299, AT - 3600])
def test_a_forged_time_changes_no_rate_of_others(seconds: float) -> None:
    """The forger's window would be everybody's: 60 s of samples, spread over 300 s, are a fifth of what is used."""
    with ReceiverScene().listening() as scene:
        scene.write([(labels(CPU, "forged"), [(seconds, 1.0)]), (labels(CPU), steady(0.25, begin=AT - 60))])
        assert scene.rows()[WEB][0] == pytest.approx(0.25)


def test_samples_of_no_use_any_more_are_refused_with_a_sentence() -> None:
    with ReceiverScene().listening() as scene:
        answer = scene.write([(labels(MEMORY, "late"), [(AT - 301, 5.0)]), (labels(MEMORY), [(AT, 2.0)])])
        assert (answer.status, answer.data.decode()) == (400, "1 sample is too old\n")
        assert (list(scene.rows()), scene.samples.counts["stored"]) == ([WEB], 1)


@pytest.mark.parametrize("of", [labels(MEMORY, "bomb"), {"__name__": "up"}])
def test_a_request_of_many_empty_samples_is_refused_before_each_of_them_is_looked_at(of: dict[str, str]) -> None:
    """Two bytes each, and next to nothing when packed; before, each of a series took a step over all of them."""
    empty = usage_senders.message(1, usage_senders.v1([(of, [])])[2:] + b"\x12\x00" * 50_000)
    with ReceiverScene().listening() as scene:
        answer = scene.send("/api/v1/write", usage_senders.packed(empty * 4), usage_senders.V1)
        assert (answer.status, answer.data.decode()) == (413, "the request has more than 131072 samples\n")
        assert scene.write([(labels(MEMORY), [(AT, 2.0)])]).status == 204
        assert list(scene.rows()) == [WEB]


def test_many_samples_of_one_series_cost_that_series_alone() -> None:
    with ReceiverScene().listening() as scene:
        many = [(labels(MEMORY, "many"), [(AT - 100 + n / 100, float(n))]) for n in range(1100)]
        answer = scene.write([*many, (labels(MEMORY), [(AT, 2.0)])])
        assert (answer.status, answer.data.decode()) == (400, "100 samples are refused\n")
        assert scene.rows() == {
            ("shop", "many", "main"): (pytest.approx(float("nan"), nan_ok=True), 999.0),
            WEB: (pytest.approx(float("nan"), nan_ok=True), 2.0),
        }


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"Content-Type": "application/json"}, 415),
        ({"Content-Type": "application/x-protobuf;proto=io.prometheus.write.v3.Request"}, 415),
        ({"Content-Encoding": "zstd"}, 415),
        ({"Content-Type": "application/x-protobuf;proto=prometheus.WriteRequest"}, 204),
        ({"Authorization": "Bearer other"}, 401),
    ],
)
def test_what_is_no_remote_write_is_refused(change: dict[str, str], code: int) -> None:
    with ReceiverScene().listening() as scene:
        scene.tokens = ["open"]
        body = usage_senders.packed(usage_senders.v1([(labels(MEMORY), [(AT, 1.0)])]))
        assert scene.send("/api/v1/write", body, {"Authorization": "Bearer open"} | usage_senders.V1 | change).status == code


def test_senders_are_told_to_come_again_while_nothing_can_be_taken() -> None:
    with ReceiverScene(reasons=["the log is away"]).listening() as scene:
        answer = scene.write([(labels(MEMORY), [(AT, 1.0)])])
        assert (answer.status, answer.headers["Retry-After"], answer.data) == (503, "5", b"the log is away\n")
        scene.reasons.clear()
        assert scene.write([(labels(MEMORY), [(AT, 1.0)])]).status == 204


def test_a_sender_that_is_slow_is_told_to_come_again() -> None:
    """At 408 Prometheus and Collectors drop what they have."""
    with ReceiverScene(deadline=0.2).listening() as scene:
        sender = socket.create_connection(("127.0.0.1", scene.server.port), timeout=60)
        sender.sendall(b"POST /api/v1/write HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n")
        sender.sendall(b"Content-Length: 10\r\n\r\n12345")
        said = sender.recv(1000).decode()
        sender.close()
    assert said.startswith("HTTP/1.1 503 ")
    assert "Retry-After: 5\r\n" in said


def test_a_declared_length_beyond_the_bound_is_refused_before_it_is_unpacked() -> None:
    with ReceiverScene().listening() as scene:
        bomb = usage_senders.varint(1 << 31) + b"\x00a"
        assert scene.send("/api/v1/write", bomb, usage_senders.V1).status == 413
        assert scene.send("/api/v1/write", b"x" * ((1 << 20) + 1), usage_senders.V1).status == 413


@given(st.binary(max_size=200), st.sampled_from([remote_write.V1, remote_write.V2]))
def test_any_bytes_are_a_request_or_refused(content: bytes, version: str) -> None:
    samples = UsageSamples(Seconds(300.0), 10)
    with contextlib.suppress(UnreadableRequest):
        samples.take(lambda into: remote_write.decode(version, content, MetricNames(), into), NOW)
    with contextlib.suppress(UnreadableRequest):
        remote_write.unpacked(content, 1000)


@settings(max_examples=50)
@given(st.data())
def test_a_request_with_a_changed_byte_is_taken_or_refused(data: st.DataObject) -> None:
    make, version = data.draw(st.sampled_from([(usage_senders.v1, remote_write.V1), (usage_senders.v2, remote_write.V2)]))
    content = bytearray(make([(labels(CPU), steady(0.25)), (labels(MEMORY), [(AT, 1.0)])]))
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    samples = UsageSamples(Seconds(300.0), 10)
    with contextlib.suppress(UnreadableRequest):
        samples.take(lambda into: remote_write.decode(version, bytes(content), MetricNames(), into), NOW)
    samples.read(NOW)
