"""The report's savings and changes, computed by another hand from the JSON of the log."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from agents import cli
from tests.support import demo_hour_log
from tests.support.commands import ROOT
from tests.support.raw_log import Json, RawLog, size


def requested(log: RawLog, until: str) -> tuple[float, float]:
    """CPU and memory that running pods requested at a moment."""
    facts = [*log.of("pod-changes", "pod-changed"), *log.of("pod-changes", "pod-deleted")]
    live: dict[str, Json] = {}
    for fact in sorted(facts, key=lambda fact: (fact["at"], "phase" not in fact)):
        if fact["at"] <= until:
            live[fact["pod"]["uid"]] = fact
    running = [seen["requests"] for fact in live.values() if fact.get("phase") == "Running" for seen in fact["containers"]]
    cpu, memory = ([float(each.get(name) or 0) for each in running] for name in ("cpu", "memory"))
    return sum(cpu), sum(memory)


def amounts(cpu: float, memory: float) -> str:
    return f"{f'{cpu:,.1f} cores' if cpu >= 10 else f'{cpu * 1000:.0f}m CPU'}, {size(memory)}"


def demo_log(folder: Path) -> Path:
    return demo_hour_log.keep(folder, hours=1.5)


def storm_log(folder: Path) -> Path:
    assert cli.run(["simulate", str(ROOT / "docs/scenarios/storm.yaml"), "--keep", str(folder)]) == 0
    return folder / "log.jsonl"


@pytest.mark.parametrize("played", [demo_log, storm_log])
def test_what_was_freed_removed_and_changed_is_what_the_log_says(played: Callable[[Path], Path], tmp_path: Path) -> None:
    path = played(tmp_path)
    assert cli.run(["report", str(tmp_path / "report.html"), "--config", str(tmp_path / "ullage.yaml")]) == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    tiles = [f"{number} {text}" for number, text in re.findall(r"<b>([^<]*)</b><small>([^<]*)</small>", page)]
    log = RawLog(path)
    first, last = (log.of("pod-changes", "pod-changed")[0]["at"], "9999")
    begin, end = requested(log, first), requested(log, last)
    freed = amounts(begin[0] - end[0], begin[1] - end[1])
    assert begin[0] > end[0] + 1
    assert any(tile.startswith(f"{freed} requests freed in this time") for tile in tiles), (freed, tiles)
    assert any(tile.startswith(f"{amounts(*end)} requested by running pods") for tile in tiles), (amounts(*end), tiles)
    done = Counter(each["action"] for each in log.of("outcomes", "action-finished") if each["result"] == "done")
    assert done["patch"] > 0
    assert f"{done['evict']} pods restarted by us; {done['resize']} resized in place, {done['patch']} new ones changed" in tiles
    assert f"{len(log.of('oom-events'))} OOM kills" in tiles
    planned = {plan["node"] for plan in log.of("node-updates", "node-removal-planned")}
    gone = {each["subject"]["name"] for each in log.of("outcomes", "action-finished") if each["action"] == "remove-node"}
    assert any(tile.startswith(f"{len(planned & gone)} nodes removed by a plan of ours") for tile in tiles), tiles
