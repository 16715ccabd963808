"""A whole installation in one process, against a real API server and Kafka: as green as its parts, with all their metrics."""

import signal
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agents.cli.processes import PartName
from schemas.decisions.node_updates import ExpanderAsked, OfferedGroup
from schemas.outcomes import Action, ActionFinished
from streams.broker import Broker
from streams.codec.event_codec import Codec
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log_range import Cursor
from streams.topics import Topics
from tests.controlplane.chart_mounts import mount
from tests.controlplane.chart_values import VALUES, rendered
from tests.controlplane.plane import Plane, free_ports
from tests.controlplane.test_readiness import Site, aws_server, home, kafka, settings_of_all
from tests.controlplane.world import World
from tests.support.attested_plans import with_attestations
from tests.support.aws_double import AwsDouble
from tests.support.certificates import Authority
from tests.support.commands import ROOT, Commands
from tests.support.expander_server import ExpanderServer, chosen, expander_server

__all__ = ["aws_server", "home", "kafka"]

PARTS = tuple(part for part in get_args(PartName) if part != "source-load")
"""All of them, but for the one that wants a Prometheus."""
MOUNTS = {**VALUES["external expander"], **VALUES["own certificate"], **VALUES["policies as code"], "clusterName": "real"}
"""Values by which the process reads a policy, an authority and a certificate of its own from ConfigMaps and Secrets."""


@pytest.fixture
def site(plane: Plane, home: World, kafka: Broker, aws_server: AwsDouble, *, helm: Path, tmp_path: Path) -> Iterator[Site]:
    """The process with the settings and files of the chart, and an external expander that always chooses the group `far`."""
    (port,) = free_ports(1)
    told = {**settings_of_all(plane, home, aws_server, tmp_path), "METRICS__PORT": str(port), "CLUSTER__NODES": "false"}
    del told["WEBHOOK__CERTIFICATE_FOLDER"]  # the Secret has one
    with expander_server(tmp_path, lambda *_: chosen("far")) as expander:
        told["EXPANDER__URL"] = expander.url
        commands = Commands(kafka.bootstrap, Topics("together", 1), tmp_path, told)
        settings = str(mount(rendered(helm, "ullage", MOUNTS), tmp_path, in_the_cluster(expander, tmp_path)))
        commands.start("topics", "topics", "apply", "--config", settings)
        assert commands.running.pop("topics").wait(60) == 0, commands.said("topics")
        commands.start("all", "run", *PARTS, "--config", settings)
        try:
            yield Site(commands, {"all": port})
        finally:
            commands.close()


def in_the_cluster(expander: ExpanderServer, folder: Path) -> dict[str, dict[str, bytes]]:
    """What the values' ConfigMap and Secrets hold."""
    (folder / "webhook").mkdir()
    authority = Authority.make(folder / "webhook")
    pem = authority.sign("tls", ["127.0.0.1"]).read_bytes()
    begins = pem.index(b"-----BEGIN CERTIFICATE")
    return {
        "ullage-policies": {"mine.py": (ROOT / "examples/built_in_rule.py").read_bytes()},
        "expander-ca": {"ca.crt": expander.certificate.read_bytes()},
        "webhook-tls": {"tls.key": pem[:begins], "tls.crt": pem[begins:], "ca.crt": authority.file.read_bytes()},
    }


def question() -> ExpanderAsked:
    """Of the groups `near` and `far`; it holds for ten minutes from now, so no module makes it while it is imported."""
    at = datetime.now(UTC)
    groups = tuple(OfferedGroup(name, 1, (), {}, (), {"cpu": 4000}, {"cpu": 4000}) for name in ("near", "far"))
    return ExpanderAsked("scaler/0/1/ask-expander/real/groups", at, at + timedelta(minutes=10), "real", groups, (), {})


def reason(site: Site, text: str) -> bool:
    return any(text in said for said in site.reasons("all"))


def chosen_groups(kafka: Broker, topics: Topics) -> list[tuple[str, ...]]:
    """What the outcomes in the log say that an external expander chose."""
    codec = Codec(topics)
    with KafkaLog(KafkaConnection(kafka.bootstrap)) as log:
        records = Cursor(log, [(topics.wire("outcomes"), 0)]).catch_up()
    outcomes = [event for record in records if isinstance(event := codec.decode(record), ActionFinished)]
    return [outcome.groups for outcome in outcomes if outcome.action is Action.ASK_EXPANDER]


@pytest.mark.timeout(300)
def test_it_is_ready_only_while_all_its_parts_are_and_shows_the_metrics_of_each(
    plane: Plane, kafka: Broker, aws_server: AwsDouble, site: Site
) -> None:
    site.all_ready(90.0)
    with urllib.request.urlopen(f"http://127.0.0.1:{site.ports['all']}/metrics", timeout=5) as answer:
        families = {family.name: family for family in text_string_to_metric_families(answer.read().decode())}
    series = [(sample.name, *sorted(sample.labels.items())) for family in families.values() for sample in family.samples]
    assert len(set(series)) == len(series)
    parts = {"ullage_clock_ticks", "ullage_turn_lag_seconds", "ullage_usage_rows", "ullage_outcomes", "ullage_webhook_reviews"}
    assert parts <= families.keys()
    sources = {sample.labels["source"] for sample in families["ullage_source_records"].samples}
    assert {"kube", "usage"} <= sources

    topics = site.commands.topics
    record = Codec(topics).encode(question(), topic="node-updates", key="real", partition=0, source="/test")
    with KafkaLog(KafkaConnection(kafka.bootstrap)) as log:
        log.append(with_attestations([record], topics))
    site.commands.wait(lambda: chosen_groups(kafka, topics) == [("far",)], 30.0, "the external expander has chosen")

    plane.metrics.refuse(503)
    site.commands.wait(lambda: reason(site, "the metrics API is away"), 30.0)
    plane.metrics.refuse(None)
    aws_server.down = True
    site.commands.wait(lambda: reason(site, "AWS is away"), 30.0)
    aws_server.down = False
    with plane.down(kill=True):
        site.commands.wait(lambda: reason(site, "the API server is away"), 45.0)
    site.all_ready(60.0)
    kafka.kill()
    site.commands.wait(lambda: reason(site, "Kafka '"), 45.0)
    assert site.alive("all")
    kafka.start()
    site.all_ready(90.0)

    ended = site.commands.running["all"]
    ended.send_signal(signal.SIGTERM)
    assert ended.wait(60.0) == 0, site.commands.said("all")
