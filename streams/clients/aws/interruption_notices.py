"""What EventBridge puts into a queue when AWS takes an instance away, or recommends to replace it.

Rules that send such events to a queue are the user's; docs/nodes.md has them. Messages about anything else are ignored.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from schemas import bounds
from schemas.facts.nodes import InterruptionKind
from streams import typed_json

_KINDS: Mapping[str, InterruptionKind] = {
    "EC2 Spot Instance Interruption Warning": InterruptionKind.SPOT,
    "EC2 Instance Rebalance Recommendation": InterruptionKind.REBALANCE,
    "AWS Health Event": InterruptionKind.MAINTENANCE,
}
_SCHEDULED = "scheduledChange"
_SHOWN = 80
"""Characters of a message's own text that an error quotes."""


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """A message as the queue has it; `receipt` removes it."""

    id: str
    receipt: str
    body: str


@dataclass(frozen=True, slots=True)
class InterruptionNotice:
    """What a message announces, about which instances."""

    kind: InterruptionKind
    instances: tuple[str, ...]
    noticed: datetime | None


class _Entity(msgspec.Struct):
    entity_value: str = msgspec.field(default="", name="entityValue")


class _Detail(msgspec.Struct):
    instance: str = msgspec.field(default="", name="instance-id")
    service: str = ""
    category: str = msgspec.field(default="", name="eventTypeCategory")
    entities: list[_Entity] = msgspec.field(default_factory=list, name="affectedEntities")


class _Message(msgspec.Struct):
    kind: str = msgspec.field(default="", name="detail-type")
    time: Any = None
    detail: _Detail = msgspec.field(default_factory=_Detail)


def read_message(answer: Mapping[str, Any]) -> QueueMessage:
    """A message of ReceiveMessage. Raises LookupError and TypeError for what is none."""
    return QueueMessage(str(answer["MessageId"]), str(answer["ReceiptHandle"]), str(answer.get("Body") or ""))


def read_notice(message: QueueMessage) -> InterruptionNotice | None:
    """What a message announces, each instance once; None for an event of AWS Health about something else.

    Raises ValueError for what none of our rules sends: no event, one of another kind, or one without an instance.
    """
    try:
        event = typed_json.decode(message.body, _Message)
    # The decoder raises it for a deep nest of brackets, which anybody may send who may write to the queue.
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    kind, detail = _KINDS.get(event.kind), event.detail
    if kind is None:
        raise ValueError(f"its detail-type is '{event.kind[:_SHOWN]}'")
    # AWS Health has one kind for all its events; only a scheduled change of EC2's takes an instance.
    if kind is InterruptionKind.MAINTENANCE and (detail.service, detail.category) != ("EC2", _SCHEDULED):
        return None
    # EC2's own events are about one instance, those of AWS Health about entities, which need not be instances.
    named = [detail.instance] if detail.instance else [entity.entity_value for entity in detail.entities]
    instances = tuple(dict.fromkeys(name for name in named if name.startswith("i-")))
    if not instances:
        raise ValueError(f"it names no instance, but '{', '.join(named[:1])[:_SHOWN]}'")
    return InterruptionNotice(kind, instances, _time(event.time))


def _time(value: object) -> datetime | None:
    """When a message was sent, by its own account; None if that is no time that an event can have."""
    try:
        sent = typed_json.convert(value, datetime) if isinstance(value, str) else None
    except msgspec.ValidationError:
        return None
    return sent if sent is not None and sent.tzinfo is not None and sent.year in bounds.YEARS else None
