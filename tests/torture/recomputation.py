"""Recomputes everything from the log with a plain loop and compares: every decision, every dead letter, every chunk of state.

It shares `step` and the codec with the product, because it proves recovery and not arithmetic; it shares neither the aligner, nor
the task, nor the host. Turns are cut in the most literal way, by the ends of the ticks that count.
"""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agents.engine import checkpoint_selection
from agents.engine.input_digest import InputDigests, record_digest
from agents.engine.stage import Stage
from agents.engine.turn import Recorded, State, Turn
from schemas.catalogue import Event
from streams.codec.event_codec import Codec
from streams.errors import BadRecord
from streams.log.log_port import NewRecord, Record
from streams.topics import Topics
from tests.torture import kafka_topics

Content = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes], ...]]


@dataclass
class Report:
    """What was compared, and what differed."""

    figures: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    little: list[str] = field(default_factory=list)
    """What happened too seldom for the run to show anything."""
    mutants: dict[str, list[str]] = field(default_factory=dict)
    """For each mutant among the consumers, what was found wrong with it."""

    def require(self, minimum: Mapping[str, int]) -> None:
        """A run in which too little happened shows nothing."""
        self.little += [f"only {self.figures[name]} {name}, wanted {n}" for name, n in minimum.items() if self.figures[name] < n]

    @property
    def exact(self) -> bool:
        return not self.wrong and not self.little

    @property
    def exit_code(self) -> int:
        """0 if exact, 1 if something is wrong, 3 if nothing is, but too little happened."""
        return 1 if self.wrong else 3 if self.little else 0

    def __str__(self) -> str:
        figures = " | ".join(f"{name} {count:,}" for name, count in self.figures.items())
        return f"{figures} | {self._verdict}"

    @property
    def _verdict(self) -> str:
        if self.wrong:
            return f"WRONG {'; '.join(self.wrong[:6])}"
        return f"TOO LITTLE HAPPENED: {'; '.join(self.little)}" if self.little else "EXACT"


Ticks = Sequence[tuple[int, Mapping[tuple[str, int], int]]]
"""Numbers of ticks that count, and all ends in force with each."""


def counted(clock: Sequence[Record]) -> Ticks:
    """What counts of the clock, read in the most literal way."""
    ticks, last, number, ends = [], None, -1, dict[tuple[str, int], int]()
    for record in clock:
        try:
            said = json.loads(record.value or b"")
            new = {(name, int(p)): end for name, parts in said["ends"].items() for p, end in parts.items()}
            at, after = said["at"], said["after"]
        except (ValueError, KeyError, TypeError):
            continue
        if record.key != b"tick" or at <= number or after != last or at - record.timestamp_ms > 300_000:
            continue
        if any(end < ends.get(place, 0) for place, end in new.items()):
            continue
        last, number, ends = [record.offset, said["name"]], at, {**ends, **new}
        ticks.append((number, ends))
    return ticks


def cut(
    names: Sequence[str], partition: int, logs: Sequence[Sequence[Record]], ticks: Ticks
) -> list[tuple[int, list[list[Record]]]]:
    """The turns of one partition: (number, records of each input)."""
    turns, at = [], dict.fromkeys(names, 0)
    for number, ends in ticks:
        upto = {name: ends.get((name, partition), 0) for name in names}
        inputs = [
            [r for r in log if at[name] <= r.offset < upto[name] and r.key != b"fill"]
            for name, log in zip(names, logs, strict=True)
        ]
        turns.append((number, inputs))
        at = upto
    return turns


@dataclass
class Redone:
    """One partition of one stage, redone."""

    state: State
    last: int
    turns: int
    decided: list[NewRecord]
    dead: list[NewRecord]
    records: int
    read: InputDigests


def redo(  # noqa: PLR0917  # one partition of one stage is all of this
    stage: Stage, partition: int, logs: Sequence[Sequence[Record]], ticks: Ticks, topics: Topics, codec: Codec, since: int
) -> Redone:
    done = Redone(stage.open(partition), -1, 0, [], [], 0, InputDigests.begin(stage.reads, since=-1))
    source = f"/ullage/{stage.name}/{partition}"
    for number, inputs in cut(stage.reads, partition, logs, ticks):
        if any(inputs):
            done.read = done.read.after(
                number, {name: list(map(record_digest, r)) for name, r in zip(stage.reads, inputs, strict=True)}
            )
        taken: dict[str, list[Recorded]] = {}
        for name, records in zip(stage.reads, inputs, strict=True):
            taken[name] = []
            for record in records:
                try:
                    taken[name].append(Recorded(_event(stage, codec, record, number), record.place))
                except BadRecord as error:
                    done.dead.append(codec.dead_letter(record, error, by=source))
            done.records += len(taken[name])
        for d in done.state.step(Turn(number, taken)):
            to = topics.partition_of(d.key)
            done.decided.append(codec.encode(d.event, topic=d.topic, key=d.key, partition=to, source=source, cause=d.cause))
        if number <= since:
            done.decided.clear()
            done.dead.clear()
        done.last, done.turns = number, done.turns + 1
    return done


def _event(stage: Stage, codec: Codec, record: Record, turn: int) -> Event:
    event = codec.decode(record)
    if reason := stage.refuse(event) or stage.ahead(event, turn):
        raise BadRecord(reason)
    return event


def _content(r: Record | NewRecord) -> Content:
    return r.partition, r.key, r.value, tuple(r.headers)


def _id(r: Record | NewRecord) -> tuple[str, str]:
    return r.topic, next(v for k, v in r.headers if k == "ce_id").decode()


def _turn(r: Record | NewRecord) -> int:
    """The turn that made a decision; that of a dead letter, which is never copied, counts as the newest."""
    parts = _id(r)[1].split("/")
    return int(parts[2]) if len(parts) > 3 and parts[2].isdigit() else sys.maxsize


async def recompute(brokers: str, topics: Topics, stages: Sequence[Stage], name: str, *, since: int = -1) -> Report:
    """All state, and the decisions of the turns after `since`: those before it were made elsewhere in a log that was moved."""
    report = Report()
    codec = Codec(topics)
    inputs = {
        n: await kafka_topics.whole(brokers, topics.wire(n), topics.partitions) for n in {n for s in stages for n in s.reads}
    }
    (clock,) = await kafka_topics.whole(brokers, topics.wire("clock"), 1)
    ticks = counted(clock)
    report.figures["ticks"], report.figures["ticks that do not count"] = len(ticks), len(clock) - len(ticks)
    want: dict[tuple[str, str], Content] = {}
    for stage in stages:
        states = await kafka_topics.whole(brokers, f"{name}-{stage.name}-state-changelog", topics.partitions)
        for partition in range(topics.partitions):
            done = redo(stage, partition, [inputs[n][partition] for n in stage.reads], ticks, topics, codec, since)
            report.figures["turns"] += done.turns
            report.figures["records"] += done.records
            for r in [*done.decided, *done.dead]:
                if _id(r) in want:
                    report.wrong.append(f"id {_id(r)} decided twice")
                want[_id(r)] = _content(r)
            _compare_state(report, f"{stage.name}/{partition}", done, states[partition])
    written = {n for stage in stages for n in (*stage.writes, "dead-letters")}
    found = [r for n in sorted(written) for p in await kafka_topics.whole(brokers, topics.wire(n), topics.partitions) for r in p]
    _compare_decisions(report, want, [r for r in found if _turn(r) > since])
    return report


def _compare_decisions(report: Report, want: dict[tuple[str, str], Content], found: list[Record]) -> None:
    seen: dict[tuple[str, str], set[Content]] = defaultdict(set)
    for r in found:
        seen[_id(r)].add(_content(r))
    by_adaptive = sum(b"cpu_expert" in (value or b"") for _, _, value, _ in want.values())
    report.figures.update({"decisions": len(want), "decisions by adaptive": by_adaptive, "in topics": len(found)})
    faults = {
        "missing": [i for i in want if i not in seen],
        "two contents": [i for i, c in seen.items() if len(c) > 1],
        "other content": [i for i, c in seen.items() if i in want and want[i] not in c],
        "extra": [i for i in seen if i not in want],
    }
    report.figures.update({what: len(ids) for what, ids in faults.items()})
    report.wrong += [f"{len(ids)} {what}, such as {ids[:3]}" for what, ids in faults.items() if ids]


def _compare_state(report: Report, where: str, done: Redone, changelog: list[Record]) -> None:
    reading_ = checkpoint_selection.read({r.key: r.value for r in changelog if r.key is not None})
    found = reading_.found
    report.figures["torn marks"] += reading_.broken
    if found is None or found.mark.turn != done.last:
        report.wrong.append(f"{where}: state at turn {found and found.mark.turn}, log at {done.last}")
        return
    if found.mark.inputs != done.read:
        report.wrong.append(f"{where}: the mark's digests of inputs differ")
    ours = {chunk: done.state.dump(chunk) for chunk in done.state.chunks()}
    report.figures["chunks"] += len(ours)
    if set(ours) != set(found.chunks):
        report.wrong.append(f"{where}: chunks {sorted(set(ours) ^ set(found.chunks))[:3]} are in one of the two only")
    differ = [chunk for chunk in ours if ours[chunk] != found.chunks.get(chunk)]
    if differ:
        report.wrong.append(f"{where}: chunks {differ[:3]} differ")
