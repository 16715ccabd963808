"""Decisions on their way through the log, for a worker that reads its own back: compared by their bytes, not decoded again.

Most of what a worker takes in while it catches up are recommendations that its own recommender has just decided. A record that is
byte for byte the one that was published says the event that was published, so this changes nothing but the time that a turn
takes. Bounded in bytes.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from schemas.catalogue import Event
from schemas.decisions.recommendations import RequestsRecommended
from schemas.plain_json import JsonObject
from streams.log.log_port import NewRecord, Record, size_of

MOST_BYTES = 64 << 20
"""Bytes of all that is kept."""
_EVENT_BYTES = 1500
"""About what an event takes beside the bytes of its record."""

Refuse = Callable[[Event], str | None]


@dataclass(slots=True)
class _Published:
    """A record, its event, the check that accepts it, and about how many bytes all of it takes."""

    record: NewRecord
    event: Event
    refuse: Refuse
    size: int


class OwnDecisionCache:
    """What one process has published and not read back, for the partitions that it reads."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        """Follows no partition yet."""
        self._most, self.size = most, 0  # `size` in bytes
        self._partitions: dict[tuple[str, int], OrderedDict[bytes, _Published]] = {}

    def follow(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read these partitions (wire name and number) and no others from now on; what was in flight is forgotten."""
        self._partitions = {partition: OrderedDict() for partition in partitions}
        self.size = 0

    def follows(self, record: NewRecord) -> bool:
        """Whether the partition of a record is read, and there is room."""
        # What came first is read back first, so a full memory is more useful if it keeps what it has.
        return (record.topic, record.partition) in self._partitions and self.size < self._most

    def publish(self, record: NewRecord, event: Event, refuse: Refuse) -> None:
        """Keep an event that reading `record` would give, and that `refuse` accepts, of a partition that is followed."""
        flying, value = self._partitions[record.topic, record.partition], record.value
        because = event.because if isinstance(event, RequestsRecommended) else None
        # A JsonObject is the text that stands in the record, so that reading the record gives no other `because`.
        if value is None or value in flying or not isinstance(because, JsonObject):
            return
        size = size_of(record) + len(because.text) + _EVENT_BYTES
        self.size += size
        flying[value] = _Published(record, event, refuse, size)

    def land(self, record: Record, refuse: Refuse) -> Event | None:
        """The event in a record that is one of ours to the last byte of key, value and headers; None for any other."""
        flying = self._partitions.get((record.topic, record.partition))
        flying_record = flying.get(record.value) if flying and record.value is not None else None
        if flying is None or flying_record is None:
            return None
        published = flying_record.record
        if record.key != published.key or record.headers != published.headers or flying_record.refuse is not refuse:
            return None
        # A partition keeps its order, so records published before this one will not come any more.
        gone = None
        while gone is not flying_record:
            _, gone = flying.popitem(last=False)
            self.size -= gone.size
        return flying_record.event
