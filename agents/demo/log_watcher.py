"""From the log to the picture: reads what the picture is made from, from a given place on, in any log."""

from collections.abc import Sequence

from agents.demo.picture import TOPICS, Picture
from streams.codec.event_codec import Codec, tick_number
from streams.errors import BadRecord
from streams.log.port import Log
from streams.topics import KeySpace, Topics


class Watch:
    """Follows the log; `picture` is what it saw so far. `skipped` counts records that could not be read."""

    def __init__(self, log: Log, topics: Topics, names: Sequence[str] = TOPICS) -> None:
        """Begins at the first kept record. Of a broadcast topic one partition is read: all hold the same."""
        self.picture, self.skipped = Picture(), 0
        self._log, self._codec = log, Codec(topics)
        self._positions: dict[tuple[str, int], int] = {}
        for name in names:
            wire = topics.wire(name)
            count = 1 if topics.topic(wire).keyed is KeySpace.BROADCAST else topics.partitions
            self._positions |= {(wire, p): log.begin(wire, p) for p in range(count)}

    def take(self, wait: float = 0.0) -> int:
        """Take in what is there; waits up to `wait` seconds for the first record. Returns how many there were."""
        records = self._log.poll(self._positions, wait=wait)
        for record in records:
            self._positions[record.topic, record.partition] = record.offset + 1
            if tick_number(record) is None:
                try:
                    self.picture.take(self._codec.decode(record))
                except BadRecord:
                    self.skipped += 1
        return len(records)

    def take_all(self) -> Picture:
        """Take in all that is there now."""
        while self.take():
            pass
        return self.picture
