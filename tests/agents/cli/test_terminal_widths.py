"""What each command prints for people fits the terminal: a log of the demo's shop, asked at three widths."""

import json
from pathlib import Path

import pytest

from agents import cli
from tests.support import demo_hour_log, sample_trace

SAMPLE = str(sample_trace.SAMPLE)
QUESTIONS = {
    "status": ["status"],
    "plan": ["plan"],
    "recommendations": ["recommendations"],
    "workloads": ["recommendations", "--of", "workloads"],
    "replicas": ["recommendations", "--of", "replicas"],
    "nodes": ["recommendations", "--of", "nodes"],
    "resources": ["recommendations", "--of", "requests"],
    "timeline": ["timeline"],
    "timeline of all": ["timeline", "--all"],
    "history": ["history", "cart"],
    "settings": ["config", "show", "--origin", "--explain"],
    "policies": ["policy", "list", "-o", "table"],
    "rules": ["settings", "plan"],
    "tap": ["tap", "pod-updates", "--last", "20"],
    "usage": ["tap", "pod-metrics", "--last", "2"],
    "replay": ["replay", "--verify"],
    "what if": ["replay", "--set", "vertical.margin=0.3", "--from", "10m"],
    "why-not": ["why-not", "cart"],
    "doctor": ["doctor"],
    "why": ["why", "cart"],
    "scan": ["scan", "--from-file", SAMPLE],
    "backtest": ["backtest", SAMPLE],
    "policies side by side": ["backtest", SAMPLE, "--policy", "default", "--policy", "p97:vertical.target_cpu_percentile=0.97"],
    "version": ["version"],
}


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo_hour_log.keep(tmp_path_factory.mktemp("day"), hours=0.5)


def asked(words: list[str], day: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines of both outputs."""
    at = [] if words[0] == "version" else ["--config", str(day.with_name("ullage.yaml"))]
    at += [] if words[0] in {"version", "config", "doctor", "scan", "backtest"} else ["--log", str(day)]
    cli.run([*words, *at])
    said = capsys.readouterr()
    return [*said.out.splitlines(), *said.err.splitlines()]


@pytest.mark.parametrize("width", [80, 100, 170])
@pytest.mark.parametrize("words", QUESTIONS.values(), ids=QUESTIONS)
def test_no_line_is_wider_than_the_terminal_unless_it_is_one_word(
    words: list[str], width: int, day: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = asked(words, day, capsys)
    assert lines
    last = {
        line: line.strip().rpartition("  ")[2] for line in lines
    }  # of a table the last column, which alone goes over the edge
    assert [line for line in lines if len(line) > width and " " in last[line]] == []


def test_a_program_gets_the_same_at_every_width(
    day: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = []
    for width in ("80", "170"):
        monkeypatch.setenv("COLUMNS", width)
        cli.run(["recommendations", "-o", "json", "--config", str(day.with_name("ullage.yaml")), "--log", str(day)])
        rows.append(json.loads(capsys.readouterr().out))
    assert rows[0] == rows[1] != []


def test_wide_has_every_column_in_the_narrowest_terminal(
    day: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    narrow, wide = (asked(["recommendations", "-o", form], day, capsys)[0] for form in ("table", "wide"))
    assert "CPU BOUNDS" in wide
    assert "WHY" in wide
    assert "CPU BOUNDS" not in narrow
    assert all(name in narrow for name in ("WORKLOAD", "CPU NOW", "MEMORY NOW", "RISK"))
