"""How far this machine's time and the log's are apart.

A record's timestamp is the broker's (LogAppendTime). So a probe that is appended and read back shows the broker's time. A probe
is a record of the clock's topic with a key of its own, and so counts for nothing.
"""

from collections.abc import Callable, Iterator, Sequence

from schemas import times
from schemas.names import Place
from schemas.units import Seconds
from streams.clock_rules import PARTITION, PROBE
from streams.errors import LogUnavailable, TryAgain
from streams.log.log_port import Log, NewRecord, Record
from streams.topics import CLOCK, Topics


def refuse_skew(log: Log, topics: Topics, now: Callable[[], int], bound_ms: int) -> None:
    """Append a probe and compare its timestamp with our time around it.

    Raises TryAgain beyond `bound_ms`. A log without timestamps (`timestamp_ms` -1) cannot be compared, and passes.
    """
    before = now()
    places = log.append([NewRecord(topics.wire(CLOCK), PARTITION, PROBE, b"%d" % before)])
    after = now()
    for probe in _read_back(log, places):
        broker = probe.timestamp_ms
        ahead = before - broker if before > broker else min(after - broker, 0)
        if broker >= 0 and abs(ahead) > bound_ms:
            which = "ahead of" if ahead > 0 else "behind"
            answer = (
                f"this machine says {readable(before)}, the log says {readable(broker)}: "
                f"{abs(ahead) / 1000:.1f} s {which} it, and at most {bound_ms / 1000:.1f} s are allowed; "
                "set the time of one of them right"
            )
            raise TryAgain(doing="ticking", to=topics.prefix, answer=answer, after=Seconds(2.0))


def _read_back(log: Log, places: Sequence[Place]) -> Iterator[Record]:
    left = {(place.topic, place.partition): place.offset for place in places}
    while left:
        found = log.poll(left, wait=5.0, limit=len(left) * 4)
        if not found:
            (topic, partition), offset = next(iter(left.items()))
            raise LogUnavailable(
                f"the probe at {topic}:{partition}:{offset} was written but cannot be read back; is the log keeping anything?"
            )
        for record in found:
            if left.get((record.topic, record.partition)) == record.offset:
                del left[record.topic, record.partition]
                yield record


def readable(ms: int) -> str:
    """A time in milliseconds since the epoch, for people."""
    return times.from_ms(ms).isoformat(timespec="milliseconds")
