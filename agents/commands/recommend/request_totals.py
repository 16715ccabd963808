"""What becomes of all requests together if targets are taken, in words. What grows is negative, as in the rows' `saved`.

What may not be applied now, by the mode, a policy, a guard, an HPA, a quota or an owner, is counted apart from what may be freed,
so that nobody takes it for money to come.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from agents.commands.recommend.recommendation_table import RecommendedContainer
from agents.engine.turn import Recorded
from agents.logic.governing_policies import Policies
from agents.why import event_descriptions
from schemas.policies.control import ControlChanged, Mode, faults
from schemas.policies.vertical import UpdateMode
from streams import compacted_copy
from streams.log_context import LogContext
from streams.log_range import has_topic
from streams.publishing.operator_log import OperatorLog

_MANY_CORES = 10.0
# what a table shows as nothing is not worth a place in a sentence
_NOTHING = re.compile(r"<1m|0m|0 |[\d.]+ (B|KiB)")


def in_words(rows: Iterable[RecommendedContainer]) -> str:
    """As in `2294m CPU of requests would be freed and 605.6 MiB memory added`, and how many containers these sums leave out."""
    cpu, memory, left_out = 0.0, 0, 0
    for row in rows:
        cpu += row.saved.cpu or 0.0
        memory += row.saved.memory or 0
        # there is a target, and nothing to compare it with
        left_out += (row.saved.cpu is None and row.target.cpu is not None) or (
            row.saved.memory is None and row.target.memory is not None
        )
    whole = freed_or_added(cpu, memory)
    if not left_out:
        return whole
    which = "1 container whose requests are" if left_out == 1 else f"{left_out} containers whose requests are"
    return f"{whole}, without {which} not set or not known"


def freed_or_added(cpu: float, memory: float) -> str:
    """As `in_words`, of two sums."""
    both = zip((cpu, memory), _texts(abs(cpu), abs(memory)), strict=True)
    changes = [(text, "added" if amount < 0 else "freed") for amount, text in both if not _NOTHING.match(text)]
    if not changes:
        return "no requests would be freed"
    if len(changes) == 1 or changes[0][1] == changes[1][1]:
        return f"{' and '.join(text for text, _ in changes)} of requests would be {changes[0][1]}"
    (first, word), (second, other) = changes
    return f"{first} of requests would be {word} and {second} {other}"


def amount_texts(cpu: float, memory: float) -> list[str]:
    """As in `2294m CPU` and `605.6 MiB memory`, without what would be shown as nothing."""
    return [text for text in _texts(cpu, memory) if not _NOTHING.match(text)]


def _texts(cpu: float, memory: float) -> tuple[str, str]:
    cpu_text, memory_text = amount_text((cpu, memory)).rsplit(", ", 1)
    return cpu_text, f"{memory_text} memory"


def amount_text(amount: tuple[float, float]) -> str:
    """Cores and bytes for people, with a sign where they are negative."""
    cpu, memory = amount
    cores = (
        f"{cpu:,.1f} cores"
        if abs(cpu) >= _MANY_CORES
        else f"{'-' if cpu < 0 else ''}{event_descriptions.amount(cpu=abs(cpu))} CPU"
    )
    return f"{cores}, {'-' if memory < 0 else ''}{event_descriptions.amount(memory=abs(memory))}"


_TOPICS = ("rules", "policies", "control")


@dataclass(slots=True)
class PoliciesInForce:
    """The newest policies and the control record of a cluster."""

    policies: Policies = field(default_factory=Policies)
    control: ControlChanged | None = None

    def forbids(self, workload: str) -> str:
        """What keeps a workload's running pods as they are, in a word or two; empty if nothing here does."""
        if self.control is None or self.control.mode is not Mode.APPLY:
            return f"mode {Mode.SHADOW.value if self.control is None else self.control.mode.value}"
        if self.control.paused:
            return "pause"
        record = self.policies.of(workload)
        if record is None:
            return "no policy"
        mode = record.policy.update_mode
        return f"update mode {mode.value}" if mode in {UpdateMode.OFF, UpdateMode.INITIAL} else ""


def policies_in_force(context: LogContext) -> PoliciesInForce:
    """What is in force in the context's cluster. Raises LogUnavailable."""
    in_force = PoliciesInForce()
    tick = OperatorLog(context).newest_tick()
    for topic in _TOPICS:
        if not has_topic(context.log, context.topics.wire(topic)):
            continue
        for record in compacted_copy.read_present(context.log, context.topics, topic, 0):
            event = context.codec.decode_or_none(record)
            if isinstance(event, ControlChanged):
                # the updater obeys no control with a fault, so it does not count here, either
                if event.cluster == context.cluster and not any(faults(event)):
                    in_force.control = event if tick is None else event.in_force_at(tick.at)
            elif event is not None:
                in_force.policies.take(Recorded(event, record.place))
    return in_force


def marked(rows: Iterable[RecommendedContainer], in_force: PoliciesInForce) -> list[RecommendedContainer]:
    """The rows, with what keeps each from being applied: another recommender, mode and policies first, then guards."""
    return [replace(row, held_back=_word(row, in_force)) for row in rows]


def _word(row: RecommendedContainer, in_force: PoliciesInForce) -> str:
    if row.other_recommender:
        return "another recommender"
    workload = f"{row.cluster}/{row.namespace}/{row.kind}/{row.workload}"
    guards = [cap.word for cap in row.caps if cap.by_guard]
    return in_force.forbids(workload) or (guards[0] if guards else "")


def held_back_in_words(rows: Sequence[RecommendedContainer]) -> str:
    """As in `800m CPU, 2.00 GiB memory of what would be freed is held back (containers: HPA 2)`; empty if nothing is."""
    # only what would be freed: nobody waits for requests that grow
    rows_held_back = [row for row in rows if row.held_back and row.worth > 0]
    if not rows_held_back:
        return ""
    amounts = amount_texts(
        math.fsum(row.saved.cpu or 0.0 for row in rows_held_back), float(sum(row.saved.memory or 0 for row in rows_held_back))
    )
    reasons = ", ".join(f"{word} {count}" for word, count in sorted(Counter(row.held_back for row in rows_held_back).items()))
    return f"{', '.join(amounts)} of what would be freed is held back (containers: {reasons})"
