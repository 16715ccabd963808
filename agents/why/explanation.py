"""Explains a decision: walks from it back through `cause` to what it rests on, and forward to what became of it.

Everything comes from the log: a step is a record, its place, and the numbers that a person needs to redo the sum. Where retention
or a bad record cuts the chain, the step says so instead of leaving it out. It looks at no state and recomputes nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from agents.engine.turn import Event
from agents.pipeline import decision_topics
from agents.why import because, describe
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.decisions.recommendations import RequestsRecommended
from schemas.names import Place
from schemas.outcomes import ActionFinished, StatusWritten
from streams.codec import event_codec
from streams.codec.event_codec import Codec
from streams.errors import BadInput, BadRecord
from streams.log.port import Log, Record
from streams.topics import Topics

WIDEST = 6
"""Causes shown of one step and topic, the latest; the rest is counted. A recommendation may rest on hundreds of scrapes."""
DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Step:
    """One record of the chain: its numbers and, of a decision, its `because`.

    `gone` is a sentence when the record cannot be shown; `more` counts the causes left out.
    """

    what: str
    at: datetime | None
    place: Place
    numbers: Mapping[str, object] = field(default_factory=dict)
    causes: tuple["Step", ...] = ()
    more: int = 0
    gone: str = ""
    because: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chain:
    """What was asked, the decision with all it rests on, and the outcomes that answer it."""

    asked: str
    decision: Step
    outcomes: tuple[Step, ...]


def explain(log: Log, codec: Codec, topics: Topics, asked: str) -> Chain:
    """The chain of a decision id, an outcome id, or the newest pod update of a pod (`namespace/name`, its name, or its uid).

    Raises BadInput when the log holds nothing about it.
    """
    return _Walk(log, codec, topics).explain(asked)


@dataclass(slots=True)
class _Walk:
    log: Log
    codec: Codec
    topics: Topics

    def explain(self, asked: str) -> Chain:
        found = self._by_id(asked) or self._by_outcome(asked) or self._by_pod(asked) or self._by_vpa(asked)
        if found is None:
            raise BadInput(f"nothing in {' or '.join(_decision_topics())} has the id, pod or VPA '{asked}'{self._lost()}")
        event = self._read(found)
        outcomes = self._outcomes(event_codec.header(found, "ce_id") or "")
        workload = None if event is None else describe.workload_of(event)
        return Chain(asked, self._step(found.place, workload, DEEPEST), tuple(outcomes))

    def _by_id(self, asked: str) -> Record | None:
        return next((r for name in _decision_topics() for r in self._all(name) if event_codec.header(r, "ce_id") == asked), None)

    def _by_outcome(self, asked: str) -> Record | None:
        for record in self._all("outcomes"):
            if event_codec.header(record, "ce_id") == asked:
                event = self._read(record)
                return self._by_id(event.decision) if isinstance(event, ActionFinished | StatusWritten) else None
        return None

    def _by_pod(self, asked: str) -> Record | None:
        """Of all updates of the pod, the one of the newest turn; the last one in the log if there are several."""
        newest: tuple[datetime, Record] | None = None
        for record in self._all("pod-updates"):
            event = self._read(record)
            if not isinstance(event, ResizePlanned | EvictionPlanned | UpdateRefused):
                continue
            pod = event.pod
            about = asked in (pod.uid, pod.name, f"{pod.namespace}/{pod.name}")
            if about and (newest is None or event.at >= newest[0]):
                newest = (event.at, record)
        return newest[1] if newest else None

    def _by_vpa(self, asked: str) -> Record | None:
        """What the status of the VPA `NAMESPACE/NAME` shows: the decision of its last write."""
        decision = ""
        for record in self._all("outcomes"):
            event = self._read(record)
            if isinstance(event, StatusWritten) and asked == f"{event.namespace}/{event.name}":
                decision = event.decision
        return self._by_id(decision) if decision else None

    def _outcomes(self, decision: str) -> Iterator[Step]:
        seen = set()
        for record in self._all("outcomes"):
            event = self._read(record)
            if not isinstance(event, ActionFinished | StatusWritten):
                continue
            if event.decision == decision and event.id not in seen:
                seen.add(event.id)
                yield Step(describe.what(event), event.at, record.place, describe.numbers(event, describe.workload_of(event)))

    def _step(self, place: Place, workload: str | None, depth: int) -> Step:
        """The record at `place` with its causes, as seen from `workload`: of a scrape only its rows count."""
        record, gone = self._fetch(place)
        if record is None:
            return Step("record", None, place, gone=gone)
        try:
            event, causes = self.codec.decode(record), _no_repeats(event_codec.causes(record))
        except BadRecord as error:
            return Step("record", None, place, gone=f"cannot be read: {error}")
        workload = describe.workload_of(event) if isinstance(event, RequestsRecommended) else workload
        shown = _latest_of_each_topic(causes) if depth > 0 else ()
        steps = tuple(self._step(cause, workload, depth - 1) for cause in shown)
        return Step(
            what=describe.what(event),
            at=event.at,
            place=place,
            numbers=describe.numbers(event, workload),
            causes=steps,
            more=len(causes) - len(shown),
            because=describe.because(event),
        )

    def _fetch(self, place: Place) -> tuple[Record | None, str]:
        """The record, or why it is not there."""
        try:
            begin, end = self.log.begin(place.topic, place.partition), self.log.end(place.topic, place.partition)
        except BadInput as error:
            return None, f"is in no log we have: {error}"
        if place.offset < begin:
            return None, f"is no longer kept: retention cut this partition at offset {begin}"
        if place.offset >= end:
            return None, f"does not exist: this partition ends at offset {end}"
        records = self.log.poll({(place.topic, place.partition): place.offset}, limit=1)
        if not records or records[0].offset != place.offset:
            return None, "is no longer kept: compaction took it"
        return records[0], ""

    def _read(self, record: Record) -> Event | None:
        try:
            return self.codec.decode(record)
        except BadRecord:
            return None

    def _all(self, name: str) -> Iterator[Record]:
        """All records of a topic, ticks left out."""
        wire = self.topics.wire(name)
        for partition in range(self.topics.partitions):
            position, end = self.log.begin(wire, partition), self.log.end(wire, partition)
            while position < end and (records := self.log.poll({(wire, partition): position}, limit=5_000)):
                yield from (r for r in records if event_codec.tick_number(r) is None)
                position = records[-1].offset + 1

    def _lost(self) -> str:
        """Retention may be why nothing was found."""
        parts = [(self.topics.wire(name), p) for name in _decision_topics() for p in range(self.topics.partitions)]
        gone = [f"partition {p} of '{wire}' from {begin} on" for wire, p in parts if (begin := self.log.begin(wire, p)) > 0]
        return f"; kept are only {', '.join(gone)}" if gone else ""


def _decision_topics() -> Sequence[str]:
    """The topics of all stages' decisions, the last stage's first: people ask about what was done."""
    return tuple(reversed(decision_topics().values()))


def _latest_of_each_topic(causes: Sequence[Place]) -> tuple[Place, ...]:
    """So that a policy or an OOM kill is not lost among scrapes; in the order of the decision."""
    kept: dict[str, list[Place]] = {}
    for cause in causes:
        kept.setdefault(cause.topic, []).append(cause)
    latest = {cause for places in kept.values() for cause in places[-WIDEST:]}
    return tuple(cause for cause in causes if cause in latest)


def _no_repeats(places: Sequence[Place]) -> tuple[Place, ...]:
    return tuple(dict.fromkeys(places))


def lines(chain: Chain, *, full: bool = False) -> Iterator[str]:
    """The chain as plain text: the decision, what it rests on as a tree, and what became of it.

    `full` writes every number of a `because` out as it is in the record; else they are told in words and units.
    """
    yield from _lines(chain.decision, "", "", full=full)
    if not chain.outcomes:
        yield "no outcome yet: no consumer has finished with it"
    for outcome in chain.outcomes:
        yield f"then: {_line(outcome)}"


def _lines(step: Step, head: str, indent: str, *, full: bool) -> Iterator[str]:
    yield head + _line(step)
    trunk = "│  " if step.causes or step.more else "   "
    for line in because.written(step.because) if full else because.told(step.because):
        yield f"{indent}{trunk}· {line}"
    for i, cause in enumerate(step.causes):
        last = i == len(step.causes) - 1 and not step.more
        ahead, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
        yield from _lines(cause, indent + ahead, indent + below, full=full)
    if step.more:
        yield f"{indent}└─ and {step.more} more records"


def _line(step: Step) -> str:
    if step.gone:
        return f"{step.what} at {step.place} {step.gone}"
    at = f"{step.at:%Y-%m-%d %H:%M:%S}" if step.at else "at no time"
    numbers = ", ".join(f"{name} {describe.said(value)}" for name, value in step.numbers.items())
    return f"{at}  {step.what}: {numbers}  [{step.place}]"
