"""Logs that no process of ours wrote: whatever stands in them, each command that reads answers, or says in a sentence why not."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents import cli
from tests.support import demo_hour_log

pytestmark = pytest.mark.slow
Json = Any
ASKED = (
    ("status",),
    ("recommendations", "-o", "json"),
    ("why", "payments/ledger", "-v"),
    ("why-not", "payments/ledger"),
    ("plan",),
    ("timeline", "--all"),
    ("history", "ledger"),
    ("replay", "--verify"),
    ("replay", "--set", "updates.threshold=30%"),
    ("report", "report.html"),
    ("revert", "payments/Deployment/ledger", "--end", "never"),
    ("backtest", "LOG"),
    ("tap", "pod-updates", "--from", "begin"),
    ("export", "incident.parquet", "--pseudonyms", "key"),
)
PYTHONS = re.compile(r"Traceback|\bNone\b|\bnan\b|\bTrue\b|\bFalse\b")


def numbers(text: str) -> Callable[[Json], Json]:
    """All numbers of a body with a fraction become this one, as JSON has it."""
    return lambda body: mapped(body, lambda value: json.loads(text) if isinstance(value, float) else value)


def texts(old: str, new: str) -> Callable[[Json], Json]:
    return lambda body: mapped(body, lambda value: value.replace(old, new) if isinstance(value, str) else value)


def mapped(body: Json, change: Callable[[Json], Json]) -> Json:
    """The body with each of its values changed."""
    if isinstance(body, dict):
        return {name: mapped(value, change) for name, value in body.items()}
    return [mapped(value, change) for value in body] if isinstance(body, list) else change(body)


DAMAGES: dict[str, Callable[[Json], Json]] = {
    "numbers that are hardly any": numbers("5e-324"),
    "the largest numbers": numbers("1.7e308"),
    "negative numbers": numbers("-1.5"),
    "no numbers": numbers("null"),
    "workloads without a name": texts("ledger", ""),
    "names that make no key": texts("ledger", "led/ger"),
    "names too long for an id": texts("ledger", "ledger" * 600),
    "names of other scripts": texts("ledger", "\u202e\U0001f4d2\u0301 "),
    "facts of the far future": texts("2026-", "2199-"),
    "facts before there were clocks": texts("2026-", "0001-"),
    "records that were appended beyond all time": lambda body: body,
}
TAKEN = {"records that were appended beyond all time": (1 << 63) - 1}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("kept")
    return demo_hour_log.keep(folder, hours=0.4).read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_command_that_reads_answers_in_sentences(
    damage: str, kept: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "key").write_text("k" * 40)
    log = tmp_path / "log.jsonl"
    lines = (damaged(line, DAMAGES[damage], TAKEN.get(damage)) for line in kept)
    log.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    for words in ASKED:
        named = [str(log) if word == "LOG" else word for word in words]
        code = cli.run([*named, *(() if "LOG" in words else ("--log", str(log)))])
        said = capsys.readouterr()
        assert code in {0, 2, 3, 4}, (words, code, said.err[-2000:])
        assert words[0] in {"recommendations", "tap", "backtest"} or not PYTHONS.search(said.out + said.err), (words, said)


def damaged(line: str, damage: Callable[[Json], Json], taken: int | None) -> str:
    """A line of the log; ticks stay as they are. `taken`: when the log has taken the record, in milliseconds."""
    record = json.loads(line)
    if "at" not in record or ".clock." in record["at"] or not isinstance(record["value"], str):
        return line
    value = json.dumps(damage(json.loads(record["value"])))
    return json.dumps({**record, "value": value, "ms": record["ms"] if taken is None else taken})
