"""A tenant's texts in the log cannot command the terminal of whoever reads it: each command that reads spells them out."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agents import cli
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.facts.pods import ContainerSeen, PodChanged, PodPhase
from schemas.names import Amounts, PodName, Workload
from schemas.units import Bytes, Cores
from streams.codec.event_codec import Codec
from streams.log.file_log import FileLog
from streams.log.log_port import NewRecord
from streams.topics import TOPICS, Topics
from tests.support import ticks

EVIL = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m\r"
AT = datetime(2026, 1, 1, tzinfo=UTC)
COMMANDS = {
    "tap": ["tap", "pod-changes", "--from", "begin"],
    "tap of JSON lines": ["tap", "pod-changes", "--from", "begin", "-o", "jsonl"],
    "tap of what cannot be read": ["tap", "outcomes", "--from", "begin"],
    "status": ["status"],
    "why": ["why", EVIL],
    "policies": ["policy", "list"],
    "a flag": ["tap", EVIL],
    "plan": ["plan", "--cluster", "demo"],
    "plan with a flag that is none": ["plan", EVIL],
    "why not": ["why-not", f"shop{EVIL}/web-0{EVIL}"],
    "recommendations": ["recommendations"],
    "recommendations as JSON": ["recommendations", "-o", "json"],
    "recommendations of nobody": ["recommendations", EVIL],
    "revert": ["revert", EVIL],
    "why of a decision": ["why", f"recommender/0/1767225600000/requests/demo{EVIL}/shop{EVIL}/Deployment/web{EVIL}"],
    "doctor": ["doctor", "--set", f"cluster.name={EVIL}"],
    "checkpoints": ["checkpoints", "show"],
    "replay": ["replay", "--verify"],
}


SHOWING = [name for name in COMMANDS if name.startswith("tap") or name in ("recommendations", "why of a decision")]
"""These show what the tenant wrote."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    topics = Topics(partitions=1)
    codec = Codec(topics)
    workload = Workload(f"demo{EVIL}", f"shop{EVIL}", "Deployment", f"web{EVIL}")
    container = ContainerSeen(f"app{EVIL}", Amounts(), Amounts())
    pod = PodChanged(AT, workload, PodName(workload.namespace, f"web-0{EVIL}", "u"), PodPhase.RUNNING, AT, (container,))
    with FileLog.open_or_create(tmp_path / "log.jsonl") as log:
        for topic in TOPICS:
            log.create(topics.wire(topic.name), 1)
        log.append([codec.encode(pod, topic="pod-changes", key=workload.key, partition=0, source="/test")])
        one = Amounts(Cores(0.1), Bytes(1 << 20))
        amounts = (ContainerRecommendation(f"app{EVIL}", one, one, one, one),)
        decision = f"recommender/0/1767225600000/requests/{workload.key}"
        workload = replace(workload, cluster="demo")
        said = RequestsRecommended(decision, AT, workload, amounts, {f"why{EVIL}": EVIL}, 1)
        log.append([codec.encode(said, topic="recommendations", key=workload.key, partition=0, source="/test")])
        ticks.append(log, topics, 1_767_225_600_000)
        log.append([NewRecord(topics.wire("outcomes"), 0, EVIL.encode(), EVIL.encode(), ((EVIL, EVIL.encode()),))])
    return tmp_path / "log.jsonl"


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_hands_a_terminal_what_it_would_obey(
    file: Path, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ULLAGE_LOG__KIND", "file")
    monkeypatch.setenv("ULLAGE_LOG__PATH", str(file))
    monkeypatch.setenv("ULLAGE_TOPICS__PARTITIONS", "1")
    cli.run(COMMANDS[name])
    said = capsys.readouterr()
    text = said.out + said.err
    assert text
    assert not {sign for sign in text if sign != "\n" and not sign.isprintable()}
    if name in SHOWING:
        assert "\\u001b]0;owned" in text
