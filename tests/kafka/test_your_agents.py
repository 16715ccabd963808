"""The examples of agents of one's own, as a user starts them, on a real Kafka: events in, calls out; ticks and noise pass by."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from kafka import KafkaAdminClient, TopicPartition

from schemas.decisions.pod_updates import UpdateRefused
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.facts.usage import MetricsScraped
from schemas.names import Amounts, PodName, Workload
from schemas.units import Bytes, Cores, Seconds
from streams.codec.event_codec import Codec
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import NewRecord
from streams.topics import Topics

ROOT = Path(__file__).parents[2]
AT = datetime(2026, 3, 1, tzinfo=UTC)
CART = Workload("prod", "shop", "Deployment", "cart")
AMOUNTS = Amounts(Cores(0.25), Bytes(1 << 30))
WANTED: dict[str, tuple[str, str, Any, Any]] = {
    "post_recommendations": (
        "CHAT_URL",
        "recommendations",
        RequestsRecommended("d1", AT, CART, (ContainerRecommendation("main", AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS),), {}),
        {"text": f"prod/shop/Deployment/cart should request { ({'main': AMOUNTS}) }"},
    ),
    "open_tickets": (
        "TICKETS_URL",
        "pod-updates",
        UpdateRefused("d2", AT, CART, PodName("shop", "cart-1", "u1"), "hpa", "an HPA scales it by cpu", {}),
        {"title": "prod/shop/Deployment/cart is held back by hpa", "body": "an HPA scales it by cpu"},
    ),
    "charge_namespaces": (
        "BILLING_URL",
        "pod-metrics",
        MetricsScraped(
            AT,
            "prod",
            (CART.key, CART.key),
            ("cart-1", "cart-2"),
            ("main", "main"),
            np.array([1.5, 1.0]),
            np.array([1.0, 1.0]),
            Seconds(3600.0),
        ),
        {"shop": 0.1},  # 2.5 cores, an hour, 0.04
    ),
}


@contextmanager
def service(fails: Callable[[int], bool] = lambda n: n == 1) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """Somebody's service, which `fails` at some of the requests: what was asked of it, and what it took."""
    asked: list[Any] = []
    posted: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            failed = fails(len(asked))
            posted.extend([] if failed else asked[-1:])
            self.send_response(500 if failed else 204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", asked, posted
    finally:
        server.shutdown()
        server.server_close()


def appended(broker: str, records: Sequence[NewRecord]) -> None:
    with KafkaLog(KafkaConnection(broker)) as log:
        log.append(list(records))


@contextmanager
def running(example: str, broker: str, prefix: str, folder: Path, told: dict[str, str]) -> Iterator[None]:
    """An example at work, which ends as a user ends it."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ULLAGE_")},
        "ULLAGE_LOG__BROKERS": broker,
        "ULLAGE_TOPICS__PREFIX": prefix,
        "ULLAGE_TOPICS__PARTITIONS": "2",
        "PYTHONPATH": str(ROOT),
        **told,
    }
    with (folder / "log").open("a") as said:
        script = [sys.executable, str(ROOT / f"examples/{example}.py"), "worker"]
        process = subprocess.Popen(script, cwd=folder, env=environment, stdout=said, stderr=said)
        try:
            yield
            assert process.poll() is None, (folder / "log").read_text()
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def wait_for(done: Callable[[], Any], meanwhile: Callable[[], Any] = lambda: None) -> None:
    until = time.monotonic() + 240
    while not done():
        assert time.monotonic() < until, "nothing came"
        meanwhile()
        time.sleep(2)


@pytest.mark.parametrize("example", WANTED)
def test_an_example_posts_what_the_log_tells_it_and_nothing_else(
    example: str, broker: str, prefix: str, topics_made: Callable[..., Topics], tmp_path: Path
) -> None:
    variable, topic, event, wanted = WANTED[example]
    topics = topics_made(partitions=2)
    codec, partition = Codec(topics), topics.partition_of(CART.key)
    record = codec.encode(event, topic=topic, key=CART.key, partition=partition, source="/test")
    noise = [NewRecord(topics.wire(topic), partition, b"k", b"no event")]
    with service() as (url, asked, posted), running(example, broker, prefix, tmp_path, {variable: url}):
        wait_for(
            lambda: posted, lambda: asked or appended(broker, [*noise, record])
        )  # a new group begins with what comes after it
    assert posted[0] == asked[0], "what the service refused came again"
    assert all(body == pytest.approx(wanted) if topic == "pod-metrics" else body == wanted for body in posted)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log"], "nothing is stored in files"


def test_what_was_not_done_comes_again_after_a_restart_and_what_was_done_does_not(
    broker: str, prefix: str, topics_made: Callable[..., Topics], tmp_path: Path
) -> None:
    variable, topic, event, wanted = WANTED["post_recommendations"]
    topics = topics_made(partitions=2)
    where = TopicPartition(topics.wire(topic), topics.partition_of(CART.key))

    def record(container: str) -> NewRecord:
        told = replace(event, containers=(replace(event.containers[0], container=container),))
        return Codec(topics).encode(told, topic=topic, key=CART.key, partition=where.partition, source="/test")

    def committed(admin: KafkaAdminClient) -> int:
        [offsets] = admin.list_group_offsets("post-recommendations").values()
        return offsets[where].offset if where in offsets else -1

    def run(url: str) -> Any:
        return running("post_recommendations", broker, prefix, tmp_path, {variable: url})

    with service(lambda n: n > 1) as (url, asked, _), run(url):
        wait_for(lambda: asked[1:], lambda: appended(broker, [record("main")]))
    with KafkaLog(KafkaConnection(broker)) as log, closing(KafkaAdminClient(bootstrap_servers=broker)) as admin:
        end = log.end(where.topic, where.partition)
        with service(lambda _: False) as (url, _, posted), run(url):
            wait_for(lambda: committed(admin) == end)
        assert posted
        assert all(body == wanted for body in posted)
        log.append([record("other")])
    with service(lambda _: False) as (url, _, posted), run(url):
        wait_for(lambda: posted)
    assert len(posted) == 1
    assert "other" in posted[0]["text"]


@pytest.mark.parametrize("example", WANTED)
def test_an_example_has_fifteen_lines(example: str) -> None:
    """From the app to the last line of the agent."""
    code = (ROOT / f"examples/{example}.py").read_text()
    lines = code[code.index("\napp = ") : code.index("\nif __name__")].strip().splitlines()
    assert len([line for line in lines if line.strip()]) <= 15
