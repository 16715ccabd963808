"""An incident goes from one real Kafka prefix into another, and verifies there."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agents import cli
from streams.incidents.incident_file import IncidentFile
from streams.log.file_log import FileLog
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.topics import Topics
from tests.support import demo_hour_log


def test_an_incident_imported_into_kafka_verifies_and_exports_the_same_again(
    broker: str, topics_made: Callable[..., Topics], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = demo_hour_log.keep(tmp_path, hours=0.6)
    incident, again = tmp_path / "hour.parquet", tmp_path / "again.parquet"
    assert cli.run(["export", str(incident), "--log", str(log)]) == 0
    topics = topics_made(partitions=2)
    kafka = ["--brokers", broker, "--set", f"topics.prefix={topics.prefix}", "--set", "topics.partitions=2"]
    assert cli.run(["import", str(incident), *kafka]) == 0
    assert cli.run(["import", str(incident), *kafka]) == 2
    assert "is not empty there" in capsys.readouterr().err
    assert cli.run(["export", str(again), *kafka]) == 0
    with IncidentFile(incident) as first, IncidentFile(again) as second:
        events = dict(first.manifest.events)
        assert events.pop("checkpoint") > 0
        assert second.manifest.events == events, "all but checkpoints, which name offsets of the log that they came from"
        assert second.check().sentences() == []
    with FileLog(log) as ours, KafkaLog(KafkaConnection(broker)) as there:
        wire = topics.wire("pod-updates")
        old = ours.poll({("ullage.pod-updates.v1", 1): 0})
        new = there.poll({(wire, 1): 0}, wait=5.0)
        assert [r.value for r in new] == [r.value for r in old]
        assert all(wire.split(".")[0] in data.decode() for r in new for name, data in r.headers if name in {"ce_cause", "cause"})
