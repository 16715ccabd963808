"""The rules that stages decide by: reads them from the log, compares ours with them, and publishes ours.

Every worker decides by what the log says, decisions rest on it, and a replay uses what was in force. A record takes effect at the
turn that takes it in. The first worker puts its rules there; later ones must agree with them, and an operator changes them for
all with `ullage settings apply`. This module compares and appends; stages obey.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from agents.engine.stage import Stage
from schemas.catalogue import Event
from schemas.facts.update_facts import HpaTargetChanged
from schemas.policies.control import RuleValue, StageRulesChanged, rules_version
from schemas.policies.ehpa import EhpaChanged, TimeSeriesPredictionChanged
from schemas.policies.limit_ranges import LimitRangeChanged
from schemas.policies.vertical import VerticalPolicyChanged
from schemas.policies.vpa import VpaChanged
from streams import compacted_copy, reverse_log_reader
from streams.codec.headers import header
from streams.errors import BadInput
from streams.log.log_port import Record
from streams.log_context import LogContext
from streams.log_range import has_topic
from streams.topics import RULES

SOURCE = "/ullage/rules"
_KEYS = b"stage/"
_NOT_SET = "not set"
_PUBLISHED_ONCE = (
    VerticalPolicyChanged,
    VpaChanged,
    LimitRangeChanged,
    EhpaChanged,
    TimeSeriesPredictionChanged,
    HpaTargetChanged,
)
"""Policies that stand in the log once, however long they are in force."""


@dataclass(frozen=True, slots=True)
class RulesDifference:
    """The rules of a stage here, and those in the log, which differ; None if it has none."""

    ours: StageRulesChanged
    there: StageRulesChanged | None
    settings: Mapping[str, tuple[RuleValue, RuleValue]]
    """Settings that differ: in the log, and here."""

    def __str__(self) -> str:
        """As in: recommender: margin is 0.15 in the log and 0.2 here."""
        return f"{self.ours.stage}: {'; '.join(self._differences())}"

    def as_object(self) -> dict[str, object]:
        """The same for programs."""
        settings = {name: {"in_log": there, "here": here} for name, (there, here) in self.settings.items()}
        program = {"in_log": None if self.there is None else self.there.program, "here": self.ours.program}
        return {"stage": self.ours.stage, "program": program, "settings": settings}

    def _differences(self) -> Iterator[str]:
        if self.there is None:
            yield "the log has no rules yet"
            return
        if self.there.program != self.ours.program:
            yield f"the program's rules are version {self.there.program} in the log and {self.ours.program} here"
        for name, (there, here) in self.settings.items():
            yield f"{name} is {json.dumps(there)} in the log and {json.dumps(here)} here"


def rules_of(stage: Stage, at: datetime) -> StageRulesChanged | None:
    """The record of a stage's rules; None for a stage that has none."""
    if stage.program == 0:
        return None
    return StageRulesChanged(at, stage.name, stage.program, stage.rules, rules_version(stage.name, stage.program, stage.rules))


def in_log(context: LogContext) -> dict[str, StageRulesChanged]:
    """The newest rules of each stage in the log. Raises LogUnavailable."""
    if not has_topic(context.log, context.topics.wire(RULES)):
        return {}
    present = compacted_copy.read_present(context.log, context.topics, RULES)
    return {rules.stage: rules for rules in _rules(context, present)}


def differences(context: LogContext, stages: Iterable[Stage], at: datetime) -> list[RulesDifference]:
    """The stages of which the log has no rules, or rules that would decide otherwise. Raises LogUnavailable."""
    there, differing_stages = in_log(context), []
    for stage in stages:
        ours = rules_of(stage, at)
        if ours is not None:
            theirs = there.get(stage.name)
            differing = {} if theirs is None else _differing(theirs.settings, stage)
            if theirs is None or differing or theirs.program != ours.program:
                differing_stages.append(RulesDifference(ours, theirs, differing))
    return differing_stages


def agree(context: LogContext, stages: Sequence[Stage], at: datetime) -> Sequence[StageRulesChanged]:
    """Put our rules into the log where it has none; returns these. Raises BadInput where it has others, LogUnavailable."""
    differing = differences(context, stages, at)
    new = [difference.ours for difference in differing if difference.there is None]
    append(context, new)
    # Asked again after an append: somebody else may have put other rules there at the same moment.
    other = [
        difference for difference in (differences(context, stages, at) if new else differing) if difference.there is not None
    ]
    if other:
        raise BadInput(
            f"this program would decide otherwise than the log says: {'. '.join(map(str, other))}. "
            "Start it with the settings of the log, or make these the rules of all workers with `ullage settings apply`"
        )
    return new


def publish(context: LogContext, stages: Iterable[Stage], at: datetime) -> Sequence[StageRulesChanged]:
    """Append our rules to every partition where they differ; returns these. Raises LogUnavailable."""
    new = [difference.ours for difference in differences(context, stages, at)]
    append(context, new)
    return new


def append(context: LogContext, new: Sequence[StageRulesChanged]) -> None:
    """Append these rules to every partition. Raises LogUnavailable."""
    before = in_log(context) if new else {}
    # A new program may read policies that the former one skipped, and its state, taken over from a checkpoint, lacks them.
    # Sources publish a policy only when it changes, so all in force are published again after such rules.
    upgraded = any(rules.stage in before and before[rules.stage].program != rules.program for rules in new)
    _append_rules(context, new)
    if upgraded:
        for topic in (RULES, "policies"):
            _restate_policies(context, topic, new[0].at)


def _append_rules(context: LogContext, new: Sequence[StageRulesChanged]) -> None:
    places = [(context.topics.wire(RULES), partition) for partition in range(context.topics.partitions)]
    begun = {place: context.log.end(*place) for place in places}
    _append_once(context, RULES, ((rules.key, rules) for rules in new))
    by_partition = [list(_rules(context, _after(context, place, begun[place]))) for place in places] if new else []
    for ours in new:
        others = [rule for rules in by_partition for rule in rules if rule.stage == ours.stage and rule.version != ours.version]
        # If two processes append at the same time, the order may differ between partitions, so the last one in partition 0
        # appends again.
        if others and next(last for last in reversed(by_partition[0]) if last.stage == ours.stage).version == ours.version:
            _append_once(context, RULES, [(ours.key, ours)])


def _restate_policies(context: LogContext, topic: str, at: datetime) -> None:
    """Append each policy in force once more. A version that somebody else published meanwhile is newer, so that one goes last."""
    present = compacted_copy.read_present(context.log, context.topics, topic)
    newest = {record.key: context.codec.decode_or_none(record) for record in present}
    behind: dict[bytes | None, Event] = {
        key: replace(event, at=at) for key, event in newest.items() if isinstance(event, _PUBLISHED_ONCE)
    }
    place, position = (context.topics.wire(topic), 0), present.position
    while behind:
        _append_once(context, topic, (((key or b"").decode(), event) for key, event in behind.items()))
        news = {}
        for record in _after(context, place, position):
            position = record.offset + 1
            if record.key in behind and header(record, "ce_source") != SOURCE:
                news[record.key] = context.codec.decode_or_none(record)
        behind = {key: event for key, event in news.items() if event is not None}


def _append_once(context: LogContext, topic: str, events: Iterable[tuple[str, Event]]) -> None:
    """Append rules or policies by key, each to every partition."""
    records = [
        record for key, event in events for record in context.codec.encode_for_all(event, topic=topic, key=key, source=SOURCE)
    ]
    compacted_copy.append_settled(context.log, context.topics, records)


def _rules(context: LogContext, records: Iterable[Record]) -> Iterator[StageRulesChanged]:
    for record in records:
        event = context.codec.decode_or_none(record) if (record.key or b"").startswith(_KEYS) else None
        if isinstance(event, StageRulesChanged):
            yield event


def _after(context: LogContext, place: tuple[str, int], position: int) -> Iterator[Record]:
    return reverse_log_reader.all_between(context.log, place, position, context.log.end(*place))


def _differing(there: Mapping[str, RuleValue], stage: Stage) -> dict[str, tuple[RuleValue, RuleValue]]:
    # A setting that one side does not name has its default there: a program that knows one more is no other program.
    names = dict.fromkeys([*stage.rules, *there])
    pairs = {name: (_value(there, stage, name), _value(stage.rules, stage, name)) for name in names}
    return {name: (theirs, ours) for name, (theirs, ours) in pairs.items() if theirs != ours}


def _value(rules: Mapping[str, RuleValue], stage: Stage, name: str) -> RuleValue:
    return rules[name] if name in rules else stage.defaults.get(name, _NOT_SET)
