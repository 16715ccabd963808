"""Several parts in one process: one that fails ends all, with its own sentence and code; their metrics are one page."""

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from agents.processes import one_process
from agents.processes.signals import pause
from agents.settings import loading
from agents.settings.all_settings import Settings
from agents.telemetry import DependencyMonitor, SourceMetrics
from agents.telemetry.process_parts import ProcessParts
from streams.errors import BadInput
from streams.log.log_port import NewRecord
from streams.topics import Topics


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return loading.load(flags={"log.kind": "file", "log.path": str(tmp_path / "log.jsonl")}).settings


def test_a_part_that_fails_ends_the_others_in_order_and_is_what_the_process_says(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []

    def lasting(_settings: Settings) -> None:
        try:
            while True:
                pause(10.0)
        finally:
            ended.append("source-usage")

    def failing(_settings: Settings) -> None:
        raise BadInput("the part cannot begin")

    monkeypatch.setattr(one_process, "SOURCES", {"source-usage": lasting, "source-asg": failing})
    with pytest.raises(BadInput, match="the part cannot begin"):
        one_process.run(settings, ["source-usage", "source-asg"])
    assert ended == ["source-usage"]


def test_a_part_named_twice_is_refused(settings: Settings) -> None:
    with pytest.raises(BadInput, match="named twice"):
        one_process.run(settings, ["clock", "clock"])


def test_the_page_has_each_family_once_with_the_series_of_all_parts_and_readiness_names_the_part() -> None:
    topics = Topics("t", 1)
    parts = ProcessParts(["kube", "usage", "clock"], CollectorRegistry(), DependencyMonitor())
    for name, reasons in (("kube", []), ("usage", ["nobody answers"])):
        registry = CollectorRegistry()
        SourceMetrics(registry, topics, name).appended([NewRecord(topics.wire("pod-changes"), 0, b"", b"", ())])
        parts.add(name, registry, ready=lambda reasons=reasons: reasons)
    families = list(text_string_to_metric_families(generate_latest(parts).decode()))
    names = [family.name for family in families]
    assert len(names) == len(set(names))
    (records,) = (family for family in families if family.name == "ullage_source_records")
    assert {sample.labels["source"] for sample in records.samples if sample.name.endswith("_total")} == {"kube", "usage"}
    assert parts.reasons() == ["clock: has not begun yet", "usage: nobody answers"]
