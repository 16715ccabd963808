"""Where to begin reading: `--from begin`, `--from end`, `--from 1h` or `--from OFFSET`, as positions in the log."""

import re
from collections.abc import Iterable

from streams.errors import BadInput
from streams.log.port import Log

_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGO = re.compile(r"(\d+)([smhd])")


def positions(log: Log, topics: Iterable[str], begin: str, *, now_ms: int) -> dict[tuple[str, int], int]:
    """A position for each partition of these topics (wire names). Raises BadInput for what is none of the four forms."""
    return {(t, p): _position(log, t, p, begin, now_ms) for t in topics for p in range(log.partitions(t))}


def _position(log: Log, topic: str, partition: int, begin: str, now_ms: int) -> int:
    if begin == "begin":
        return log.begin(topic, partition)
    if begin == "end":
        return log.end(topic, partition)
    if begin.isdecimal():
        return int(begin)
    ago = _AGO.fullmatch(begin)
    if ago is None:
        raise BadInput(f"--from '{begin}' is neither begin, end, an offset, nor a time like 90s, 30m, 1h or 2d")
    return first_after(log, topic, partition, now_ms - int(ago[1]) * _UNITS_MS[ago[2]])


def first_after(log: Log, topic: str, partition: int, moment_ms: int) -> int:
    """The first offset that the log took at or after this moment; its end when there is none. By halving."""
    low, high = log.begin(topic, partition), log.end(topic, partition)
    while low < high:
        middle = (low + high) // 2
        found = log.poll({(topic, partition): middle}, wait=1.0, limit=1)
        if not found or found[0].offset >= high or found[0].timestamp_ms >= moment_ms:
            high = middle
        else:
            low = found[0].offset + 1
    return low
