"""What `replay --set` prints, computed by another hand: a second log of the same facts under the other rules, and both counted.

The facts of a recording are copied tick by tick into a new log, as its own clock cut them, with the other rules in the place of
the recorded ones and without the outcomes of plans that the other rules did not make. The stages decide over that log as a worker
does. What the table says is then counted in the JSON of both logs, with plans joined by pod, kind and number.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agents import cli
from agents.demo import day_in_memory, simulate_command
from agents.run.pipeline import stages
from agents.run.stage_runner import Runner
from agents.settings import loading
from schemas.policies.control import rules_version
from streams.log.log_port import Log, NewRecord, Record
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.log_range import has_topic
from streams.sources.clock import TickWriter, numbered
from streams.topics import TOPICS, Topics
from tests.support import random_scenarios

Json = dict[str, Any]
PlanKey = tuple[str, str, int]
STAGES = {"updates": "updater", "vertical": "recommender", "nodes": "scaler"}
PLANS = {"eviction-planned": "evict", "resize-planned": "resize"}
OTHERS = {
    "node-removal-planned": "removals of nodes planned",
    "scale-up-planned": "growths of node groups planned",
    "replicas-planned": "changes of replicas planned",
}


def kind_of(record: Record) -> str:
    return dict(record.headers).get("ce_type", b"..").decode().split(".")[1]


def whole(log: Log, topics: Topics, name: str) -> list[Record]:
    wire = topics.wire(name)
    return list(log.poll({(wire, 0): 0}, limit=1_000_000)) if has_topic(log, wire) else []


def bodies(log: Log, topics: Topics, name: str) -> Iterator[tuple[str, Json]]:
    for record in whole(log, topics, name):
        if record.value and record.key != b"fill":
            yield kind_of(record), json.loads(record.value)


@dataclass
class Side:
    """What one log says of a stretch that begins at `since` (RFC 3339)."""

    log: Log
    topics: Topics
    since: str
    plans: dict[PlanKey, Json] = field(default_factory=dict)

    def count(self) -> Counter[str]:
        rows: Counter[str] = Counter()
        for name in ("pod-updates", "node-updates", "replica-plans"):
            for kind, body in bodies(self.log, self.topics, name):
                if body["at"] < self.since:
                    continue
                if kind in PLANS:
                    nth = sum(key[:2] == (body["pod"]["uid"], PLANS[kind]) for key in self.plans)
                    self.plans[body["pod"]["uid"], PLANS[kind], nth] = body
                    rows["evictions planned" if kind == "eviction-planned" else "resizes planned"] += 1
                elif kind == "update-refused":
                    rows[f"refused by '{body['guard']}'"] += 1
                elif kind in OTHERS:
                    rows[OTHERS[kind]] += 1
        return rows

    def targets(self) -> Iterator[tuple[str, tuple[str, str], float, float]]:
        """When, for which container, and what was recommended: CPU and memory."""
        for _, body in bodies(self.log, self.topics, "recommendations"):
            workload = "/".join(body["workload"][part] for part in ("cluster", "namespace", "kind", "name"))
            for each in body["containers"]:
                amounts = (each["target"].get(name) for name in ("cpu", "memory"))
                yield body["at"], (workload, each["container"]), *(math.nan if a is None else float(a) for a in amounts)


@dataclass
class SecondLog:
    """The recording decided again under the other rules of a case, in a log of its own, from the tick `since` on."""

    recorded: Log
    topics: Topics
    case: "Case"
    since: int
    log: MemoryLog = field(default_factory=MemoryLog)
    ticks: list[tuple[int, dict[str, int]]] = field(default_factory=list)
    """Of each tick its number, and where each input ended."""

    def decide(self, settings: Mapping[str, str]) -> None:
        """Copy the facts tick by tick, and let the stages decide after each."""
        pipeline = stages(loading.load(flags=dict(settings)).settings)
        made = {name for stage in pipeline for name in stage.writes}
        inputs = [name for name in dict.fromkeys(name for stage in pipeline for name in stage.reads) if name not in made]
        for topic in TOPICS:
            self.log.create(self.topics.wire(topic.name), 1)
        runner = Runner(pipeline, LogContext.of(self.log, self.topics, "demo"))
        clock = TickWriter(self.log, self.topics, draw=numbered)
        facts, copied, ends = {name: whole(self.recorded, self.topics, name) for name in inputs}, dict.fromkeys(inputs, 0), {}
        for record in whole(self.recorded, self.topics, "clock"):
            said = json.loads(record.value or b"")
            ends |= {name: end["0"] for name, end in said["ends"].items() if "0" in end}
            self.ticks.append((said["at"], dict(ends)))
            begins = said["at"] >= self.since and not (len(self.ticks) > 1 and self.ticks[-2][0] >= self.since)
            for name in inputs:
                for fact in facts[name][copied[name] : ends.get(name, 0)]:
                    self._copy(fact, other=said["at"] >= self.since)
                copied[name] = ends.get(name, 0)
            if begins:
                self._begin(facts["rules"][: copied["rules"]], said["at"])
            clock.write(said["at"])
            runner.run()

    def _copy(self, fact: Record, *, other: bool) -> None:
        kind = kind_of(fact)
        if other and kind == "action-finished" and self._is_avoided(json.loads(fact.value or b"")):
            return
        if not (other and kind == self._kind):
            self.log.append([NewRecord(fact.topic, 0, fact.key, fact.value, fact.headers)])
        elif not self.case.mode:
            self._change(fact, {})

    @property
    def _kind(self) -> str:
        """The kind of the rules in whose place the other ones are."""
        return "vertical-policy-changed" if self.case.mode else "stage-rules-changed"

    def _begin(self, rules: list[Record], at: int) -> None:
        """The other rules, on top of those in force."""
        stage = STAGES.get(self.case.setting.partition(".")[0])
        newest = [rule for rule in rules if kind_of(rule) == self._kind and json.loads(rule.value or b"").get("stage") == stage]
        self._change(newest[-1], {"at": datetime.fromtimestamp(at / 1000, UTC).isoformat().replace("+00:00", "Z")})

    def _change(self, rule: Record, more: Json) -> None:
        body = json.loads(rule.value or b"") | more
        if self.case.mode:
            body |= {"update_mode": self.case.mode, "version": "what-if"}
        elif body["stage"] == STAGES[self.case.setting.partition(".")[0]]:
            body["settings"][self.case.setting.partition(".")[2]] = self.case.value
            body["version"] = rules_version(body["stage"], body["program"], body["settings"])
        self.log.append([NewRecord(rule.topic, 0, rule.key, json.dumps(body).encode(), rule.headers)])

    def _is_avoided(self, outcome: Json) -> bool:
        """Whether a plan of the recorded rules has this outcome, and the other rules have not made as many for the pod."""
        since = datetime.fromtimestamp(self.since / 1000, UTC).isoformat()[:19]
        recorded, ours = Side(self.recorded, self.topics, since), Side(self.log, self.topics, since)
        recorded.count(), ours.count()
        keys = [key for key, plan in recorded.plans.items() if plan["id"] == outcome["decision"]]
        return bool(keys) and keys[0] not in ours.plans

    def over(self, side: Side) -> int:
        """Containers whose memory went over what was recommended before that tick, in the stretch."""
        recommended = list(side.targets())
        scrapes = whole(self.recorded, self.topics, "pod-metrics")
        found, begin = set(), 0
        for number, ends in self.ticks:
            before = datetime.fromtimestamp(number / 1000, UTC).isoformat()
            newest = {key: memory for at, key, _, memory in recommended if datetime.fromisoformat(at).isoformat() < before}
            for scrape in scrapes[begin : ends.get("pod-metrics", 0)] if number >= self.since else ():
                body = json.loads(scrape.value or b"")
                used = body["memory_max"] if body.get("memory_max") else body["memory"]
                for key, amount in zip(
                    zip(body["names"]["workloads"], body["names"]["containers"], strict=True), used, strict=True
                ):
                    if amount is not None and float(amount) > newest.get(key, math.inf):
                        found.add(key)
            begin = ends.get("pod-metrics", 0)
        return len(found)


@dataclass(frozen=True)
class Case:
    """Another rule for the random log of a seed, from so many minutes on: a setting and its value, or a mode of all policies."""

    seed: int
    minutes: int
    setting: str = ""
    value: float = 0.0
    mode: str = ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        Case(14, 0, "updates.cool_down", 120.0),
        Case(14, 0, "updates.cool_down", 600.0),
        Case(14, 10, "updates.cool_down", 900.0),
        Case(1, 0, "updates.threshold", 0.6),
        Case(1, 0, "vertical.target_cpu_percentile", 0.3),
        Case(7, 0, "vertical.margin", 1.0),
        Case(14, 0, "nodes.interval", 300.0),
        Case(11, 0, mode="InPlace"),
        Case(1, 12, mode="Recreate"),
    ],
)
def test_a_program_of_its_own_counts_what_the_what_if_says(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = random_scenarios.scenario(case.seed)
    day, played = simulate_command.play(scenario, {})
    path = day_in_memory.save(played, day.topics, day.settings(), tmp_path).with_name("log.jsonl")
    since = int(day.start.timestamp() * 1000) + 60_000 * case.minutes
    flags = {name: str(value) for name, value in scenario.settings.items()} | {"topics.partitions": "1"}
    second = SecondLog(played, day.topics, case, since)
    second.decide(flags)

    begin = datetime.fromtimestamp(since / 1000, UTC).isoformat()[:19]
    given = [
        part
        for key, text in flags.items()
        for part in ("--set", f"{key}={text}")
        if key not in {case.setting, "topics.partitions"}
    ]
    (tmp_path / "policy.yaml").write_text(f"- target: demo/*\n  mode: {case.mode}\n")
    other = ("--policy", str(tmp_path / "policy.yaml")) if case.mode else ("--set", f"{case.setting}={case.value}")
    span = ("--from", f"{begin}Z") if case.minutes else ()
    capsys.readouterr()
    assert cli.run(["replay", "--log", str(path), *other, *given, *span, "-o", "json"]) == 0
    said = json.loads(capsys.readouterr().out)

    sides = (Side(played, day.topics, begin), Side(second.log, day.topics, begin))
    rows = [side.count() for side in sides]
    counts = {what: (both["recorded"], both["other"]) for what, both in said["counts"].items()}
    over = counts.pop("containers whose memory went over the recommendation")
    expected = {what: (rows[0][what], rows[1][what]) for what in rows[0].keys() | rows[1].keys()}
    assert {what: both for what, both in counts.items() if any(both)} == expected
    assert over == tuple(second.over(side) for side in sides)
    one, two = (side.plans for side in sides)
    assert {plan["id"] for plan in said["avoided"]} == {one[key]["id"] for key in one.keys() - two.keys()}
    assert {plan["id"] for plan in said["added"]} == {two[key]["id"] for key in two.keys() - one.keys()}
    moved = [(one[key]["id"], two[key]["id"]) for key in one.keys() & two.keys() if one[key]["at"] != two[key]["at"]]
    assert sorted((plan["recorded"]["id"], plan["other"]["id"]) for plan in said["moved"]) == sorted(moved)
    told = list(bodies(played, day.topics, "outcomes"))[: second.ticks[-1][1]["outcomes"]]  # later ones are in no turn
    done = Counter(body["action"] for _, body in told if body["result"] == "done")
    if not case.minutes:
        assert said["carried_out"] == dict(done)
    assert bool(said["changes"]) == (bool(case.mode) or scenario.settings.get(case.setting) != case.value)
    assert bool(said["changes"]) == (rows[0] != rows[1] or over[0] != over[1] or bool(moved)), (
        "a case in which nothing differs shows nothing"
    )
