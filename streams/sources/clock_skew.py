"""How far this machine's time and the log's are apart, and whether the log holds a tick of the future.

A record's timestamp is the broker's (LogAppendTime). So a probe that is appended and read back shows the broker's time. Probes
look like ticks, which every reader passes over, and go to a topic that no stage reads.
"""

from collections.abc import Callable

from schemas import times
from schemas.units import Seconds
from streams.codec import event_codec
from streams.errors import LogUnavailable, TryAgain
from streams.log.port import Log
from streams.topics import Topics

PROBE_TOPIC = "dead-letters"
LOOK_BACK = 1_000
"""Records to look at for the highest tick: in a log with a clock, ticks are never far from the end of a topic."""


def refuse_skew(log: Log, topics: Topics, now: Callable[[], int], bound_ms: int) -> None:
    """Append a probe and compare its timestamp with our time before and after. Raises TryAgain beyond `bound_ms`.

    A log without timestamps (`timestamp_ms` -1) cannot be compared, and is trusted.
    """
    before = now()
    (place,) = log.append([event_codec.tick(topics.wire(PROBE_TOPIC), 0, before)])
    after = now()
    found = log.poll({(place.topic, place.partition): place.offset}, wait=5.0, limit=1)
    if not found:
        raise LogUnavailable(f"the probe at {place} was written but cannot be read back; is the log keeping anything?")
    broker = found[0].timestamp_ms
    ahead = before - broker if before > broker else min(after - broker, 0)
    if broker >= 0 and abs(ahead) > bound_ms:
        which = "ahead of" if ahead > 0 else "behind"
        answer = (
            f"this machine says {readable(before)}, the log says {readable(broker)}: {abs(ahead) / 1000:.1f} s {which} it, "
            f"and at most {bound_ms / 1000:.1f} s are allowed; set the time of one of them right"
        )
        raise TryAgain(doing="ticking", to=topics.prefix, answer=answer, after=Seconds(2.0))


def highest_tick(log: Log, topics: Topics) -> int:
    """The highest tick among the last records of a partition that every stage reads; -1 without any."""
    place = (topics.wire("policies"), 0)
    start = max(log.begin(*place), log.end(*place) - LOOK_BACK)
    numbers = (event_codec.tick_number(record) for record in log.poll({place: start}, limit=LOOK_BACK))
    return max((number for number in numbers if number is not None), default=-1)


def readable(ms: int) -> str:
    """A time in milliseconds since the epoch, for people."""
    return times.from_ms(ms).isoformat(timespec="milliseconds")
