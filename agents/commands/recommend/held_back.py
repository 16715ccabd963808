"""What is recommended and may not be applied now: savings that the mode, a policy, a guard, an HPA, a quota or an owner forbids.

They are counted apart from what may be freed, so that nobody takes them for money to come.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from agents.commands.recommend import request_totals
from agents.commands.recommend.recommendation_table import RecommendedContainer
from agents.engine.turn import Recorded
from agents.logic.governing_policies import Policies
from schemas.policies.control import ControlChanged, Mode, faults
from schemas.policies.vertical import UpdateMode
from streams import compacted_copy
from streams.log_context import LogContext
from streams.log_range import has_topic
from streams.publishing.operator_log import OperatorLog

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


def read(context: LogContext) -> PoliciesInForce:
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


def in_words(rows: Sequence[RecommendedContainer]) -> str:
    """As in `800m CPU, 2.00 GiB memory of what would be freed is held back (containers: HPA 2)`; empty if nothing is."""
    rows_held_back = [row for row in rows if row.held_back and row.worth > 0]
    if not rows_held_back:
        return ""
    amounts = request_totals.amount_texts(
        math.fsum(row.saved.cpu or 0.0 for row in rows_held_back), float(sum(row.saved.memory or 0 for row in rows_held_back))
    )
    reasons = ", ".join(f"{word} {count}" for word, count in sorted(Counter(row.held_back for row in rows_held_back).items()))
    return f"{', '.join(amounts)} of what would be freed is held back (containers: {reasons})"
