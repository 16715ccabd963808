"""Plans that a test puts into the log by hand, together with the attestation of the turn that would have made them."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from schemas.catalogue import Event
from schemas.decisions.plan_attestations import PLANS, PlansAttested
from schemas.ids import DecisionId
from streams.codec.event_codec import Codec
from streams.codec.plan_attestations import TOPIC, digest
from streams.errors import BadRecord
from streams.log.log_port import NewRecord
from streams.topics import Topics


def with_attestations(records: Iterable[NewRecord], topics: Topics) -> list[NewRecord]:
    """Each record behind what vouches for it, if its id names a turn: as a worker appends plans."""
    plans: list[NewRecord] = []
    for record in records:
        try:
            made, at = _turn(record, topics)
        except ValueError:
            plans.append(record)
            continue
        event = PlansAttested(str(replace(made, kind="attest", key="0/0")), at, (digest(record),))
        vouching = Codec(topics).encode(event, topic=TOPIC, key="test", partition=record.partition, source="/test")
        plans += [vouching, record]
    return plans


def _turn(record: NewRecord, topics: Topics) -> tuple[DecisionId, datetime]:
    """What a record says of itself, by its body if it can be read. Raises ValueError."""
    try:
        event = Codec(topics).decode(record)  # type: ignore[arg-type]  # a place does not matter
    except BadRecord:
        headers = {name: value.decode(errors="replace") for name, value in record.headers}
        return DecisionId.parse(headers.get("ce_id", "")), datetime.fromisoformat(headers.get("ce_time", ""))
    return DecisionId.parse(getattr(event, "id", "")), event.at


_PREFIX = "test/0/1/plan/"


def of_a_turn(event: Event) -> Any:
    """A plan whose id names a turn, for tests to which the id is a word; anything else as it is."""
    if not isinstance(event, PLANS) or event.id.count("/") > 1:
        return event
    return replace(event, id=f"{_PREFIX}{event.id}")


def word_of(decision: str) -> str:
    """The word that `of_a_turn` made an id of."""
    return decision.removeprefix(_PREFIX)
