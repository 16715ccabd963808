"""Reads the log into the demo's state, from the first kept record on."""

from collections.abc import Sequence

from agents.demo.day_state import TOPICS, DayState
from streams.codec.event_codec import Codec, is_of_a_clock
from streams.errors import BadRecord
from streams.log.log_port import Log
from streams.topics import KeySpace, Topics


class LogWatcher:
    """Follows the log into `state`. `skipped` counts records that could not be read."""

    def __init__(self, log: Log, topics: Topics, names: Sequence[str] = TOPICS) -> None:
        self.state, self.skipped = DayState(), 0
        self._log, self._codec = log, Codec(topics)
        self._positions: dict[tuple[str, int], int] = {}
        for name in names:
            wire = topics.wire(name)
            # all partitions of a broadcast topic hold the same
            count = 1 if topics.topic(wire).keyed is KeySpace.BROADCAST else topics.partitions
            self._positions |= {(wire, p): log.begin(wire, p) for p in range(count)}

    def poll_once(self, wait: float = 0.0) -> int:
        """Apply the next records; waits up to `wait` seconds for the first one. Returns how many there were."""
        records = self._log.poll(self._positions, wait=wait)
        for record in records:
            self._positions[record.topic, record.partition] = record.offset + 1
            if not is_of_a_clock(record):
                try:
                    self.state.apply(self._codec.decode(record))
                except BadRecord:
                    self.skipped += 1
        return len(records)

    def catch_up(self) -> DayState:
        """Read to the end of the log."""
        while self.poll_once():
            pass
        return self.state
