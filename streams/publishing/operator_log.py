"""What operators put into the log: policies and control, a copy in every partition, because every reader needs them.

What was published last is in force. So a change reads what is in force and publishes it again with the change; if two operators
do that at the same moment, one may undo the other. Nothing is validated here; the caller has done that.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from schemas import times
from schemas.catalogue import CATALOGUE
from schemas.names import Place
from schemas.policies import Policy, control
from schemas.policies.control import Author, ControlChanged, RevertEnded, RevertRequested, StageRulesChanged
from schemas.policies.vertical import VerticalPolicyChanged, VerticalPolicyRemoved
from streams import clock_log, compacted_copy
from streams.codec.event_codec import Codec
from streams.compacted_copy import CompactedState
from streams.log.log_port import NewRecord
from streams.log_context import LogContext
from streams.log_range import has_topic
from streams.topics import CLOCK, RULES

SOURCE = "/ullage/source/operator"
_Command = ControlChanged | VerticalPolicyChanged | VerticalPolicyRemoved | RevertRequested | RevertEnded | StageRulesChanged
"""What people command by, and so what says who did."""


def policy_records(policies: Sequence[Policy], codec: Codec, *, source: str = SOURCE) -> list[NewRecord]:
    """The records of these policies, in this order in every partition."""
    return [
        record
        for policy in policies
        for topic, key in [_topic_and_key(policy)]
        for record in codec.encode_for_all(policy, topic=topic, key=key, source=source)
    ]


def _topic_and_key(policy: Policy) -> tuple[str, str]:
    if isinstance(policy, ControlChanged):
        return ("control", policy.cluster)
    topic = RULES if RULES in CATALOGUE.of(type(policy)).topics else "policies"
    return (topic, policy.target if isinstance(policy, VerticalPolicyChanged | VerticalPolicyRemoved) else policy.key)


@dataclass(frozen=True, slots=True)
class NewestTick:
    """The newest tick: its event time, and when the log appended it in milliseconds (-1 when the log does not know)."""

    at: datetime
    appended_ms: int


@dataclass(frozen=True, slots=True)
class OperatorLog:
    """Reads and publishes policies and control in one log."""

    context: LogContext
    author: Author | None = None
    """Signs whatever is published."""

    def publish(self, *policies: Policy) -> Sequence[Place | None]:
        """Append them to every partition, as one of several operators. Raises LogUnavailable, and BadInput without our topics."""
        records = policy_records([self._signed(policy) for policy in policies], self.context.codec)
        # A process that starts must not hear of a permit before those that run already.
        permits = any(isinstance(policy, ControlChanged) and policy.may_apply and not policy.paused for policy in policies)
        return compacted_copy.append_settled(self.context.log, self.context.topics, records, permits=permits)

    def _signed(self, policy: Policy) -> Policy:
        return replace(policy, by=self.author) if self.author is not None and isinstance(policy, _Command) else policy

    def newest_tick(self) -> NewestTick | None:
        """The newest tick; None in a log that has none."""
        tick = clock_log.newest(self.context.log, self.context.topics) if self._has_clock else None
        return None if tick is None else NewestTick(times.from_ms(tick.number), tick.taken_ms)

    def first_tick(self) -> datetime | None:
        """The time of the oldest tick that is kept; None in a log that has none."""
        tick = clock_log.oldest(self.context.log, self.context.topics) if self._has_clock else None
        return None if tick is None else times.from_ms(tick.number)

    @property
    def _has_clock(self) -> bool:
        return has_topic(self.context.log, self.context.topics.wire(CLOCK))

    def control(self, cluster: str) -> ControlChanged | None:
        """The control in force for a cluster; None when none was ever published."""
        newest: ControlChanged | None = None
        for record in self._present("control", self.context.topics.partition_of(cluster)):
            event = self.context.codec.decode_or_none(record)
            if isinstance(event, ControlChanged) and event.cluster == cluster and not any(control.faults(event)):
                newest = event
        return newest

    def policies(self) -> dict[str, VerticalPolicyChanged]:
        """The vertical policies in force, by target."""
        in_force: dict[str, VerticalPolicyChanged] = {}
        # Each partition has a copy of all, so one will do.
        for record in self._present(RULES, 0):
            event = self.context.codec.decode_or_none(record)
            if isinstance(event, VerticalPolicyChanged):
                in_force[event.target] = event
            elif isinstance(event, VerticalPolicyRemoved):
                in_force.pop(event.target, None)
        return dict(sorted(in_force.items()))

    def _present(self, name: str, partition: int) -> CompactedState:
        return compacted_copy.read_present(self.context.log, self.context.topics, name, partition)
