"""Explains a decision: follows `cause` back to what it rests on, and finds its outcomes.

Everything comes from the log: each part of an explanation is a record with its place and the numbers that a person needs to redo
the sum. Where retention or a bad record cuts the chain, the explanation says so. It uses no state and recomputes nothing.

A log may hold millions of records, and decoding one costs more than reading it. So a search checks headers or raw bytes first,
and only decodes matching records.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain

from agents.run.stage_topics import all_decision_topics
from agents.why import event_descriptions, node_decisions, subject_past
from agents.why.explanation_lines import ExplainedRecord, Explanation
from agents.why.subject_past import names_of
from schemas.catalogue import Event
from schemas.decisions.node_updates import NodeRemovalPlanned
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.decisions.recommendations import CitedRules, RequestsRecommended
from schemas.decisions.replica_plans import LoadForecast, ReplicasPlanned, ReplicasRefused
from schemas.decisions.vpa_conditions import VpaConditionsDecided
from schemas.facts.pods import PodChanged
from schemas.facts.usage import ContainerOOMKilled
from schemas.ids import DecisionId, OutcomeId
from schemas.names import Place
from schemas.outcomes import ActionFinished, StatusWritten
from schemas.policies.control import StageRulesChanged
from schemas.times import from_ms, to_ms
from streams import log_range, reverse_log_reader, truncated_topics
from streams.codec import event_codec
from streams.codec.event_codec import Codec
from streams.errors import BadInput, BadRecord
from streams.log.log_port import Log, Record
from streams.log_context import LogContext
from streams.log_range import has_topic
from streams.topics import TOPICS, Topics

WIDEST = 6
"""How many causes of one record and topic are shown, the latest; the others are counted. There may be hundreds of scrapes."""
DEEPEST = 8
_PLACE = re.compile(r"[^/:]+:\d+:\d+")
_WORKLOAD = 2
"""Slashes that only the name of a workload has: NAMESPACE/KIND/NAME, or with the cluster before it."""
_SCALING = (ReplicasPlanned, ReplicasRefused, LoadForecast)
_OfPod = ResizePlanned | EvictionPlanned | UpdateRefused | ContainerOOMKilled
_CLOCKS_APART = timedelta(hours=1)


def explain(context: LogContext, query: str) -> Explanation:
    """Explain a decision by its id, an outcome's id, or the newest about a pod (`namespace/name`, its name, or its uid) or a VPA.

    Or the newest about a node, a node group, or a pod that waits for a node.
    Or the newest recommendation of a workload (`namespace/name`, its kind between them or not), or the record at a place
    (`topic:partition:offset`).

    A pod without any decision yet is explained by its admission, which gave it its requests.

    Raises BadInput if the log has nothing about it, or no topics at all.
    """
    if not any(has_topic(context.log, context.topics.wire(topic.name)) for topic in TOPICS):
        raise BadInput(
            f"the log has none of Ullage's topics ('{context.topics.wire('policies')}' and others): make them with "
            "`ullage topics apply`, or name another log with log.brokers or --log"
        )
    search = _Search(context.log, context.codec, context.topics)
    explanation = search.explain(query)
    event = search.event_at(explanation.decision.place)
    # What ended there is asked last, and does not change what is explained.
    return replace(explanation, harm=tuple(subject_past.harms(context, query, event, search.mentioning)))


@dataclass(slots=True)
class _Search:
    log: Log
    codec: Codec
    topics: Topics

    def explain(self, query: str) -> Explanation:
        if _PLACE.fullmatch(query):
            return self._at_place(query)
        record = self._by_id(query) or self._by_outcome(query)
        # Only a workload's name has so many slashes, so the searches for pods and nodes, which read much, are left out.
        if record is None and query.count("/") >= _WORKLOAD:
            return self._workload(query)
        # Before its admission, for what people ask of a pod that waits for a node is why it waits.
        record = record or node_decisions.about_waiting_pod(query, self.mentioning, self.codec.decode_or_none)
        record = record or self._newest_of_pod(query, "pod-updates", (ResizePlanned, EvictionPlanned, UpdateRefused))
        if record is None and (admitted := self._by_admission(query)) is not None:
            return admitted
        record = record or self._newest_of_pod(query, "oom-events", (ContainerOOMKilled,)) or self._by_vpa(query)
        record = record or node_decisions.about_node(query, self.mentioning, self.codec.decode_or_none)
        if record is None:
            return self._workload(query)
        return self._answer(query, record)

    def _workload(self, query: str) -> Explanation:
        """The newest recommendation of a workload, its newest decision about replicas, and the forecasts of its load."""
        scaling = tuple(self._explained(record.place, None, DEEPEST) for record in self._by_scaled(query))
        recommendation = self._by_workload(query)
        if recommendation is None and scaling:
            return Explanation(query, scaling[0], (), scaling=scaling[1:])
        if recommendation is None:
            lost = self._lost(("recommendations",))
            undecided = subject_past.undecided(query, self.mentioning, self.codec.decode_or_none, lost=lost)
            nothing = f"no decision in the log has the id, pod, VPA, node, node group or workload '{query}'"
            lost = self._lost(_decision_topics())
            raise BadInput(undecided or (f"{nothing}; {lost}" if lost else nothing))
        return replace(self._answer(query, recommendation), scaling=scaling)

    def _by_scaled(self, query: str) -> list[Record]:
        """The newest decision about the replicas of a workload, then the newest forecast of each object that is about it."""
        name, newest = _name_in_json(query), dict[str, tuple[datetime, Record]]()
        for topic in ("replica-plans", "load-forecasts"):
            for record in self.mentioning(name, topic):
                event = self.codec.decode_or_none(record)
                if not isinstance(event, _SCALING) or query not in names_of(event.workload):
                    continue
                key = event.key if isinstance(event, LoadForecast) else ""
                if key not in newest or event.at >= newest[key][0]:
                    newest[key] = (event.at, record)
        return [record for _, (_, record) in sorted(newest.items())]

    def _answer(self, query: str, record: Record) -> Explanation:
        event = self.codec.decode_or_none(record)
        workload = None if event is None else event_descriptions.workload_of(event)
        explained = self._explained(record.place, workload, DEEPEST)
        if self.topics.short(record.topic) not in _decision_topics():
            return Explanation(query, explained, ())
        outcomes = tuple(self._outcomes(event_codec.header(record, "ce_id") or ""))
        return Explanation(query, explained, outcomes, awaits_outcome=event_descriptions.awaits_outcome(event))

    def event_at(self, place: Place) -> Event | None:
        """The event at a place; None if it is gone or cannot be read."""
        record, _ = self._fetch(place)
        return None if record is None else self.codec.decode_or_none(record)

    def _at_place(self, query: str) -> Explanation:
        """The record at a place; the topic may be named in short."""
        place = Place.parse(query)
        wires = {name: self.topics.wire(name) for name in (topic.name for topic in TOPICS)}
        place = replace(place, topic=wires.get(place.topic, place.topic))
        if place.topic not in wires.values():
            raise BadInput(f"there is no topic '{place.topic}'; there are {', '.join(wires)}")
        record, gone = self._fetch(place)
        if record is None:
            raise BadInput(f"the record at '{place}' {gone}")
        if event_codec.is_of_a_clock(record):
            raise BadInput(f"the record at '{place}' is a tick of the clock: what rests on it names the records before it")
        return self._answer(query, record)

    def _by_workload(self, query: str) -> Record | None:
        """The newest recommendation of a workload. Raises BadInput if several workloads are called so."""
        newest: dict[str, tuple[datetime, Record]] = {}
        for record in self.mentioning(_name_in_json(query), "recommendations"):
            event = self.codec.decode_or_none(record)
            if not isinstance(event, RequestsRecommended) or query not in names_of(event.workload):
                continue
            # The newest by event time: a repeat after a crash may stand behind a newer one.
            key = event.workload.key
            if key not in newest or event.at >= newest[key][0]:
                newest[key] = (event.at, record)
        if len(newest) > 1:
            raise BadInput(f"'{query}' may be any of {', '.join(sorted(newest))}: say which")
        return next((record for _, record in newest.values()), None)

    def _by_id(self, query: str) -> Record | None:
        """The decision of this id."""
        turn = _turn(query)
        if turn is None:
            return None
        # Near its turn first, which reads little. A repeat after a crash may stand anywhere, so whole topics follow.
        near = (r for name in _decision_topics() for r in self._records_of(name, turn))
        wires, wanted = map(self.topics.wire, _decision_topics()), query.encode()
        everywhere = (r for wire in wires for r in reverse_log_reader.forwards(self.log, wire, containing=wanted))
        return next((r for r in chain(near, everywhere) if event_codec.header(r, "ce_id") == query), None)

    def _by_outcome(self, query: str) -> Record | None:
        if not _may_be_outcome(query):
            return None
        for record in reverse_log_reader.forwards(self.log, self.topics.wire("outcomes"), containing=query.encode()):
            if event_codec.header(record, "ce_id") == query:
                event = self.codec.decode_or_none(record)
                return self._by_id(event.decision) if isinstance(event, ActionFinished | StatusWritten) else None
        return None

    def _newest_of_pod(self, query: str, topic: str, kinds: tuple[type[_OfPod], ...]) -> Record | None:
        newest: tuple[datetime, Record] | None = None
        for record in self.mentioning(_name_in_json(query), topic):
            event = self.codec.decode_or_none(record)
            if not isinstance(event, kinds):
                continue
            pod = event.pod
            about = query in (pod.uid, pod.name, f"{pod.namespace}/{pod.name}")
            if about and (newest is None or event.at >= newest[0]):
                newest = (event.at, record)
        return newest[1] if newest else None

    def _by_admission(self, query: str) -> Explanation | None:
        """The recommendation that a pod was created with, and the outcome about this pod among its many outcomes."""
        events = {
            event.id: (event, record.place)
            for record in self.mentioning(node_decisions.beginning(query), "outcomes")
            if isinstance(event := self.codec.decode_or_none(record), ActionFinished)
            and node_decisions.is_admission_of(event, query)
        }
        admission = node_decisions.nearest([event for event, _ in events.values()], self._created(query)) if events else None
        record = self._by_id(admission.decision) if admission is not None and admission.decision else None
        if admission is None or record is None:
            return None
        outcome = ExplainedRecord(
            event_descriptions.what(admission),
            admission.at,
            events[admission.id][1],
            event_descriptions.numbers(admission, admission.subject.workload),
        )
        return Explanation(query, self._explained(record.place, admission.subject.workload, DEEPEST), (outcome,))

    def _created(self, query: str) -> datetime | None:
        """When a pod was created, by what a source published of it."""
        namespace, _, name = query.rpartition("/")
        for record in self.mentioning(name, "pod-changes-by-cluster"):
            event = self.codec.decode_or_none(record)
            if isinstance(event, PodChanged) and event.pod.name == name and namespace in ("", event.pod.namespace):
                return event.created
        return None

    def _by_vpa(self, query: str) -> Record | None:
        """The newest decision about the conditions of the VPA `NAMESPACE/NAME`; in an old log, what its status showed last."""
        newest: tuple[datetime, Record] | None = None
        for record in self.mentioning(_name_in_json(query), "vpa-conditions"):
            event = self.codec.decode_or_none(record)
            about = isinstance(event, VpaConditionsDecided) and query == f"{event.namespace}/{event.name}"
            if event is not None and about and (newest is None or event.at >= newest[0]):
                newest = (event.at, record)
        return newest[1] if newest else self._by_status(query)

    def _by_status(self, query: str) -> Record | None:
        """The decision that the last write of a VPA's status names."""
        decision = ""
        for record in self.mentioning(query.rpartition("/")[2], "outcomes"):
            event = self.codec.decode_or_none(record)
            if isinstance(event, StatusWritten) and query == f"{event.namespace}/{event.name}":
                decision = event.decision
        return self._by_id(decision) if decision else None

    def _outcomes(self, decision: str) -> Iterator[ExplainedRecord]:
        """The consumers' outcomes, each id once."""
        seen = set()
        turn = _turn(decision)
        # Outcomes have the log's time, so none is much older than its decision.
        for record in self.mentioning(decision, "outcomes", since=None if turn is None else turn - _CLOCKS_APART):
            event = self.codec.decode_or_none(record)
            if not isinstance(event, ActionFinished | StatusWritten):
                continue
            if event.decision == decision and event.id not in seen:
                seen.add(event.id)
                numbers = event_descriptions.numbers(event, event_descriptions.workload_of(event))
                yield ExplainedRecord(event_descriptions.what(event), event.at, record.place, numbers)

    def _explained(self, place: Place, workload: str | None, depth: int) -> ExplainedRecord:
        """The record at `place` with its causes, as seen from `workload`: of a scrape only its rows count."""
        record, gone = self._fetch(place)
        if record is None:
            return ExplainedRecord("record", None, place, gone=gone)
        try:
            event, causes = self.codec.decode(record), tuple(dict.fromkeys(event_codec.causes(record)))
        except BadRecord as error:
            return ExplainedRecord("record", None, place, gone=f"cannot be read: {error}")
        # A recommendation rests on scrapes of many workloads, of which only its own matters from here on.
        workload = event_descriptions.workload_of(event) if isinstance(event, RequestsRecommended) else workload
        # There may be hundreds of scrapes, among which a policy or an OOM kill must not be lost.
        shown = _latest_of_each_topic(causes) if depth > 0 else ()
        if depth > 0 and isinstance(event, NodeRemovalPlanned):
            shown += tuple(node_decisions.places(event, self.mentioning, self.codec.decode_or_none, self._by_id))
        shown_causes = tuple(self._explained(cause, workload, depth - 1) for cause in shown)
        return ExplainedRecord(
            what=event_descriptions.what(event),
            at=event.at,
            place=place,
            numbers=event_descriptions.numbers(event, workload),
            causes=shown_causes,
            more=max(len(causes) - len(shown), 0),
            because={**event_descriptions.because(event), **self._rules(event)},
            exact=event_descriptions.exact_amounts(event, workload),
        )

    def _rules(self, event: object) -> Mapping[str, object]:
        """The settings that a decision was made by, from the record that it cites."""
        cited = getattr(event, "rules", None)
        if not isinstance(cited, CitedRules):
            return {}
        record, gone = self._fetch(cited.place)
        rules = None if record is None else self.codec.decode_or_none(record)
        if not isinstance(rules, StageRulesChanged):
            # Another record of the same version has the same settings, and compaction keeps the newest of each stage.
            same = map(self.codec.decode_or_none, self.mentioning(cited.version, "rules"))
            rules = next((e for e in same if isinstance(e, StageRulesChanged) and e.version == cited.version), None)
        settings = {"settings": rules.settings} if isinstance(rules, StageRulesChanged) else {}
        return {**settings, "rules": f"version {cited.version}, at {cited.place}" + (f", which {gone}" if gone else "")}

    def _fetch(self, place: Place) -> tuple[Record | None, str]:
        """The record, or why it is not there."""
        try:
            begin, end = self.log.begin(place.topic, place.partition), self.log.end(place.topic, place.partition)
        except BadInput as error:
            return None, f"is in no log we have: {error}"
        # Why a record is not there differs, and what can be done about it, too.
        if place.offset < begin:
            return None, f"is no longer kept: retention cut this partition at offset {begin}"
        if place.offset >= end:
            return None, f"does not exist: this partition ends at offset {end}"
        records = self.log.poll({(place.topic, place.partition): place.offset}, limit=1)
        if not records or records[0].offset != place.offset:
            return None, "is no longer kept: compaction took it"
        return records[0], ""

    def mentioning(self, text: str, name: str, *, since: datetime | None = None) -> Iterator[Record]:
        """The records of a topic whose value contains this text. Names and ids of Kubernetes stand in JSON as they are."""
        wanted, wire = text.encode(), self.topics.wire(name)
        records = reverse_log_reader.forwards(self.log, wire, since, containing=wanted)
        # Again by record: the reader skips whole batches that lack the text.
        return (record for record in records if wanted in (record.value or b""))

    def _records_of(self, name: str, turn: datetime) -> Iterator[Record]:
        """The records of a topic in each partition from a turn on up to the first after it."""
        wire = self.topics.wire(name)
        for p in range(self.topics.partitions if has_topic(self.log, wire) else 0):
            start = log_range.offset_at(self.log, wire, p, turn)
            for record in reverse_log_reader.between(self.log, wire, p, start, self.log.end(wire, p)):
                if log_range.event_time_ms(record) > to_ms(turn):
                    break
                yield record

    def _lost(self, names: Iterable[str]) -> str:
        """A sentence on what retention has removed, which may be why nothing was found."""
        return truncated_topics.sentence(truncated_topics.late_starts(self.log, self.topics, names))


def _name_in_json(query: str) -> str:
    """The end of a JSON text that names this object, by name or uid."""
    return f'{query.rpartition("/")[2]}"'


def _decision_topics() -> Sequence[str]:
    """The topics of all stages' decisions, the last stage's first: people ask about what was done."""
    return tuple(reversed(all_decision_topics()))


def _latest_of_each_topic(causes: Sequence[Place]) -> tuple[Place, ...]:
    """The latest causes of each topic, in their order."""
    by_topic: dict[str, list[Place]] = {}
    for cause in causes:
        by_topic.setdefault(cause.topic, []).append(cause)
    latest = {cause for places in by_topic.values() for cause in places[-WIDEST:]}
    return tuple(cause for cause in causes if cause in latest)


def _may_be_outcome(text: str) -> bool:
    """Whether a text can be the id of an outcome: of an act, or of what was written into a VPA's status."""
    try:
        OutcomeId.parse(text)
    except ValueError:
        return "/status/" in text
    return True


def _turn(decision: str) -> datetime | None:
    """When a decision was taken, by its id; None for another kind of text."""
    try:
        return from_ms(DecisionId.parse(decision).turn)
    except (ValueError, OverflowError):
        return None
