"""Attests to plans: the digest of a plan's record, and the record that vouches for all plans of a turn.

The digest covers the record as its reader gets it, key, value and headers, so that a plan with another pod, amount, turn or cause
is another plan.
"""

from collections.abc import Collection
from hashlib import blake2b

from schemas import times
from schemas.bounds import MOST_ENTRIES
from schemas.catalogue import CATALOGUE
from schemas.decisions.plan_attestations import PLANS, PlansAttested
from schemas.ids import DecisionId, TaskSource
from streams.codec.event_codec import Codec
from streams.log.log_port import NewRecord, Record
from streams.topics import Topics

TOPIC = "plan-attestations"
_TYPES = frozenset(CATALOGUE.of(plan).wire.encode() for plan in PLANS)
PLAN_TOPICS = frozenset(topic for plan in PLANS for topic in CATALOGUE.of(plan).topics if not topic.endswith("-by-cluster"))
"""Where consumers read the plans that they carry out; a copy by cluster is for stages."""


def digest(record: Record | NewRecord) -> str:
    """32 hexadecimal digits of the content of a record."""
    # Without the place: a worker that takes a turn again appends the same plans elsewhere. Its length goes before each part, so
    # that no two contents are one.
    hashed = blake2b(digest_size=16)
    for part in (record.key, record.value, *(text for name, value in record.headers for text in (name.encode(), value))):
        hashed.update(b"-" if part is None else b"%d:%b" % (len(part), part))
    return hashed.hexdigest()


def attested(decisions: Collection[NewRecord], *, task: TaskSource, turn: int, topics: Topics, codec: Codec) -> list[NewRecord]:
    """The records that vouch for the plans among the decisions of a turn, each for as many as an event may name."""
    digests: dict[int, list[str]] = {}
    wires = {topics.wire(name) for name in PLAN_TOPICS} if decisions else ()
    for record in decisions:
        if record.topic in wires and dict(record.headers)["ce_type"] in _TYPES:
            digests.setdefault(record.partition, []).append(digest(record))
    return [
        codec.encode(
            PlansAttested(
                str(DecisionId(task.stage, task.partition, turn, "attest", f"{partition}/{first}")),
                times.from_ms(turn),
                tuple(plans[first : first + MOST_ENTRIES]),
            ),
            topic=TOPIC,
            key=f"{task.stage}/{task.partition}",
            partition=partition,
            source=str(task),
        )
        for partition, plans in digests.items()
        for first in range(0, len(plans), MOST_ENTRIES)
    ]
