"""How far this machine's time and the log's are apart, and whether the log has a tick of the future.

A record's timestamp is the broker's (LogAppendTime). So a probe that is appended and read back shows the broker's time. Probes
look like ticks, which every reader skips, and go to a topic that no stage reads.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from schemas import times
from schemas.names import Place
from schemas.units import Seconds
from streams.codec import event_codec
from streams.errors import LogUnavailable, TryAgain
from streams.log.log_port import Log, Record
from streams.topics import Topics

PROBE_TOPIC = "dead-letters"
LOOK_BACK = 1_000
"""Records to look at for the highest tick: in a log with a clock, ticks are never far from the end of a topic."""


def refuse_skew(log: Log, topics: Topics, now: Callable[[], int], bound_ms: int) -> None:
    """Append a probe to every partition, as each may lie on another broker, and compare its timestamp with our time around it.

    Raises TryAgain beyond `bound_ms`. A log without timestamps (`timestamp_ms` -1) cannot be compared, and passes.
    """
    before = now()
    wire = topics.wire(PROBE_TOPIC)
    places = log.append([event_codec.tick(wire, partition, before) for partition in range(topics.partitions)])
    after = now()
    for probe in _read_back(log, places):
        broker = probe.timestamp_ms
        ahead = before - broker if before > broker else min(after - broker, 0)
        if broker >= 0 and abs(ahead) > bound_ms:
            which = "ahead of" if ahead > 0 else "behind"
            answer = (
                f"this machine says {readable(before)}, the log says {readable(broker)} in partition {probe.partition}: "
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


def future_ticks(log: Log, topics: Topics, ticked: Iterable[str], honest: int) -> dict[tuple[str, int], int]:
    """The highest tick above `honest` at the end of each partition of these topics (short names), where there is one.

    Ticks so far ahead that readers ignore them are left out, because nothing waits for them.
    """
    found: dict[tuple[str, int], int] = {}
    for place in [(topics.wire(name), partition) for name in ticked for partition in range(topics.partitions)]:
        highest = _highest(log, place)
        if highest > honest:
            found[place] = highest
    return found


def _highest(log: Log, place: tuple[str, int]) -> int:
    position, end, highest = max(log.begin(*place), log.end(*place) - LOOK_BACK), log.end(*place), -1
    while position < end and (records := log.poll({place: position}, limit=LOOK_BACK)):
        for record in records:
            tick = event_codec.latest_tick(record, before=highest)
            highest = highest if tick is None else tick
        position = records[-1].offset + 1
    return highest


def readable(ms: int) -> str:
    """A time in milliseconds since the epoch, for people."""
    return times.from_ms(ms).isoformat(timespec="milliseconds")
