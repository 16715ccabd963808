"""The expander consumer asks a real gRPC server over TLS, and no answer harms it."""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from schemas.decisions.node_updates import ExpanderAsked, OfferedGroup, OfferedPods, OfferedTaint
from schemas.outcomes import Action, ActionFinished, OutcomeDetail, Result
from schemas.policies.control import Mode
from schemas.units import Seconds
from streams import protobuf_messages
from streams.clients import expander_client
from streams.clients.expander_client import ExpanderClient
from streams.consumers.nodes.expander_consumer import expander_consumer
from streams.errors import BadInput
from streams.protobuf_messages import BYTES, INT32, MANY, ONE, STRING
from tests.support.attested_plans import with_attestations
from tests.support.consumer_scene import ConsumerScene, scene_at_two
from tests.support.expander_server import chosen, expander_server

SIZE = {"cpu": 4000, "memory": 16 << 30, "pods": 110}
READ = protobuf_messages.classes(
    "test.upstream",
    {
        "Entry": (("key", 1, STRING, ONE), ("value", 2, BYTES, ONE)),
        "Option": (
            ("nodeGroupId", 1, STRING, ONE),
            ("nodeCount", 2, INT32, ONE),
            ("debug", 3, STRING, ONE),
            ("pod", 4, BYTES, MANY),
            ("podBytes", 5, BYTES, MANY),
        ),
        "Request": (("options", 1, "Option", MANY), ("nodeMap", 2, "Entry", MANY), ("nodeBytesMap", 3, "Entry", MANY)),
    },
)
"""Upstream's expander.proto at 206b3ce, by its numbers."""


def question(scene: ConsumerScene, names: tuple[str, ...] = ("cart-1", "cart-2")) -> ExpanderAsked:
    at = scene.cluster.now

    def offered(name: str, nodes: int) -> OfferedGroup:
        return OfferedGroup(name, nodes, (len(names),), {"zone": "a"}, (OfferedTaint("gpu", "", "NoSchedule"),), SIZE, SIZE)

    pods = OfferedPods("shop", {"app": "cart"}, {"disk": "ssd"}, {"cpu": 250, "memory": 1 << 30}, names)
    return ExpanderAsked(
        "scaler/0/1/ask-expander/demo/groups",
        at,
        at + timedelta(seconds=10),
        "demo",
        (offered("a", 1), offered("b", 2), offered("c", 3)),
        (pods,),
        {},
    )


def outcomes_of(
    tmp_path: Path, answer: Callable[[bytes, Any], bytes], *, seconds: float = 5.0, mode: Mode = Mode.APPLY
) -> tuple[list[ActionFinished], list[bytes]]:
    """The outcomes of one question, and what the server was asked."""
    scene = scene_at_two()
    scene.control(mode)
    asked = question(scene)
    with expander_server(tmp_path, answer) as server:
        record = scene.codec.encode(
            asked, topic="node-updates", key="demo", partition=scene.topics.partition_of("demo"), source="/test"
        )
        scene.log.append(with_attestations([record], scene.topics))
        consumer = expander_consumer(scene.context, ExpanderClient(server.url, server.certificate, Seconds(seconds)))
        consumer.poll_once()
        consumer.poll_once()
        assert not consumer.reasons()
        return scene.outcomes(), list(server.questions)


@pytest.mark.parametrize("mode", [Mode.APPLY, Mode.SHADOW])
def test_an_answer_becomes_the_outcome_in_every_mode(tmp_path: Path, mode: Mode) -> None:
    [outcome], [asked] = outcomes_of(tmp_path, lambda *_: chosen("c", "a", "c"), mode=mode)
    assert (outcome.action, outcome.result, outcome.groups) == (Action.ASK_EXPANDER, Result.DONE, ("a", "c"))
    request = READ["Request"].FromString(asked)
    assert [(option.nodeGroupId, option.nodeCount) for option in request.options] == [("a", 1), ("b", 2), ("c", 3)]
    assert all(len(option.pod) == 2 and option.pod == option.podBytes for option in request.options)
    assert {entry.key for entry in request.nodeMap} == {"a", "b", "c"}
    assert request.nodeMap == request.nodeBytesMap
    node, pod = request.nodeMap[0].value, request.options[0].pod[0]
    assert b"zone" in node
    assert b"4000m" in node
    assert b"cart-1" in pod
    assert b"250m" in pod


def _slow(_question: bytes, context: Any) -> bytes:
    ended = threading.Event()
    context.add_callback(ended.set)
    ended.wait(60)
    return b""


def _aborts(_question: bytes, context: Any) -> bytes:
    context.abort(grpc.StatusCode.INTERNAL, "a fault\n" * 500)
    raise AssertionError


@pytest.mark.parametrize(
    ("answer", "detail", "says"),
    [
        (_slow, OutcomeDetail.NO_ANSWER, "DEADLINE_EXCEEDED"),
        (_aborts, OutcomeDetail.SERVER_ERROR, "INTERNAL: a fault a fault"),
        (lambda *_: b"\0" * (5 << 20), OutcomeDetail.INVALID, "RESOURCE_EXHAUSTED"),
        (lambda *_: b"\xff" * 100, OutcomeDetail.INVALID, "cannot be read"),
        (lambda *_: b"\x0a\x02\x0a\x7f", OutcomeDetail.INVALID, "cannot be read"),
        (lambda *_: b"", OutcomeDetail.INVALID, "none of the 3 groups"),
        (lambda *_: b"\x0a\x00" * 1_000_000, OutcomeDetail.INVALID, "none of the 3 groups"),
        (lambda *_: chosen("nobody's", ""), OutcomeDetail.INVALID, "2 of its options are no groups"),
        (lambda *_: b"\x0a\x05\x0a\x03\xff\xfe\xfd", OutcomeDetail.INVALID, "none of the 3 groups"),
    ],
    ids=["slow", "fails", "huge", "garbage", "cut", "empty", "a million empty ones", "unknown", "no text"],
)
def test_no_answer_harms_more_than_its_own_question(
    tmp_path: Path, answer: Callable[[bytes, Any], bytes], detail: OutcomeDetail, says: str
) -> None:
    [outcome], _asked = outcomes_of(tmp_path, answer, seconds=2.0 if answer is _slow else 20.0)
    assert (outcome.result, outcome.detail, outcome.groups) == (Result.FAILED, detail, ())
    assert says in outcome.reason
    assert len(outcome.reason) < 500


def test_a_server_of_another_authority_and_one_that_is_not_there_are_not_asked(tmp_path: Path) -> None:
    scene = scene_at_two()
    scene.control()
    other = tmp_path / "other"
    other.mkdir()
    with expander_server(tmp_path, lambda *_: chosen("a")) as server, expander_server(other, lambda *_: b"") as stranger:
        for url, certificate in ((server.url, stranger.certificate), ("127.0.0.1:1", server.certificate)):
            with pytest.raises(expander_client.GiveUp, match="UNAVAILABLE"):
                ExpanderClient(url, certificate, Seconds(20.0)).best(question(scene))
        assert not server.questions


def test_nobody_is_asked_without_tls_or_after_the_certificate_is_gone(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="over TLS only"):
        ExpanderClient("127.0.0.1:1", None, Seconds(1.0))
    with expander_server(tmp_path, lambda *_: chosen("a")) as server:
        client = ExpanderClient(server.url, server.certificate, Seconds(20.0))
        server.certificate.unlink()
        with pytest.raises(expander_client.GiveUp, match=r"expander\.certificate"):
            client.best(question(scene_at_two()))


def test_a_question_has_its_length_however_many_pods_wait() -> None:
    asked = question(scene_at_two(), tuple(f"cart-{'x' * 200}-{number}" for number in range(500)))
    many = replace(asked, groups=tuple(replace(asked.groups[0], group=f"g{number}", pods=(100_000,)) for number in range(200)))
    assert len(expander_client.request(many)) < 4 << 20
