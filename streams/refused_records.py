"""Appends records, and sets aside those that the log will never accept, so that everything else goes on.

A record is refused for good when it is larger than the topic's bound, or lacks a key that the topic demands. Retrying would block
everything behind it for ever. So a dead letter gives its name and size, and the reason.
"""

from collections.abc import Iterable, Sequence

from schemas.names import Place
from streams.codec import dead_letters
from streams.log.log_port import Log, NewRecord, RecordsRefused, size_of
from streams.topics import Topics


def append(log: Log, topics: Topics, records: Iterable[NewRecord]) -> Sequence[Place | None]:
    """The place of each record, None for those that were set aside. Raises LogUnavailable and BadInput as the log."""
    batch = list(records)
    try:
        return log.append(batch)
    except RecordsRefused as error:
        set_aside(log, topics, error.refused)
        return error.places


def set_aside(log: Log, topics: Topics, refused: Sequence[tuple[NewRecord, str]]) -> None:
    """Append a dead letter for each of these. A dead letter that is refused itself is only logged."""
    import structlog  # for a command that only reads, this import costs as much as all its work

    _log = structlog.get_logger(__name__)
    for record, why in refused:
        _log.error("the log never takes this record", **name_of(record), bytes=size_of(record), reason=why)
    try:
        log.append([dead_letters.refused_letter(record, why, topics=topics) for record, why in refused])
    except RecordsRefused as error:
        for record, why in error.refused:
            _log.error("nor a dead letter for it", **name_of(record), reason=why)


def name_of(record: NewRecord) -> dict[str, object]:
    """Names a record that has no place: its target, and its key."""
    return {"topic": record.topic, "partition": record.partition, "key": (record.key or b"")[:200].decode(errors="replace")}
