"""The examples of agents of one's own, as a user starts them, on a real Kafka: events in, calls out; ticks and noise pass by."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

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
def service() -> Iterator[tuple[str, list[Any]]]:
    """Somebody's service, and what was posted to it."""
    posted: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", posted
    finally:
        server.shutdown()
        server.server_close()


def appended(broker: str, records: Sequence[NewRecord]) -> None:
    with KafkaLog(KafkaConnection(broker)) as log:
        log.append(list(records))


@pytest.mark.parametrize("example", WANTED)
def test_an_example_posts_what_the_log_tells_it_and_nothing_else(
    example: str, broker: str, prefix: str, topics_made: Callable[..., Topics], tmp_path: Path
) -> None:
    variable, topic, event, wanted = WANTED[example]
    topics = topics_made(partitions=2)
    codec, partition = Codec(topics), topics.partition_of(CART.key)
    record = codec.encode(event, topic=topic, key=CART.key, partition=partition, source="/test")
    noise = [NewRecord(topics.wire(topic), partition, b"k", b"no event")]
    with service() as (url, posted):
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ULLAGE_")},
            "ULLAGE_LOG__BROKERS": broker,
            "ULLAGE_TOPICS__PREFIX": prefix,
            "ULLAGE_TOPICS__PARTITIONS": "2",
            "PYTHONPATH": str(ROOT),
            variable: url,
        }
        script = [sys.executable, str(ROOT / f"examples/{example}.py"), "worker"]
        with (tmp_path / "log").open("w+") as said:
            process = subprocess.Popen(script, cwd=tmp_path, env=environment, stdout=said, stderr=said)
            try:
                until = time.monotonic() + 240
                while not posted:
                    assert process.poll() is None, (tmp_path / "log").read_text()
                    assert time.monotonic() < until, (tmp_path / "log").read_text()
                    appended(broker, [*noise, record])  # a new group begins with what comes after it
                    time.sleep(2)
                assert all(body == pytest.approx(wanted) if topic == "pod-metrics" else body == wanted for body in posted)
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(60)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log"], "nothing is stored in files"


@pytest.mark.parametrize("example", WANTED)
def test_an_example_has_fifteen_lines(example: str) -> None:
    """From the app to the last line of the agent."""
    code = (ROOT / f"examples/{example}.py").read_text()
    lines = code[code.index("\napp = ") : code.index("\nif __name__")].strip().splitlines()
    assert len([line for line in lines if line.strip()]) <= 15
