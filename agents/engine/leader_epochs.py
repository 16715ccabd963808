"""In which leaders' epochs a task has read its logs: the evidence that these logs still hold what it read. Pure.

A log may lose its newest records to a leader that never had them, and grow beyond where a task stands before anybody looks. Each
record bears the epoch of the leader that appended it, and two logs that both hold a record of an epoch at an offset are the same
up to there. So it is enough to know, of each epoch, up to where its records were read, and to ask where the log left it
(https://cwiki.apache.org/confluence/display/KAFKA/KIP-320).
"""

from collections.abc import Iterable, Mapping

Epochs = Mapping[str, Iterable[tuple[int, int]]]
"""For each topic (short name), the clock's among them: an epoch, and the offset after its last record that was read."""


class EpochsRead:
    """What one task has read since it was last seen that the logs hold it. Older epochs lie before newer ones."""

    def __init__(self, epochs: Epochs | None = None) -> None:
        self._read = {topic: list(read) for topic, read in (epochs or {}).items()}

    def take(self, topic: str, epoch: int, upto: int) -> None:
        """A record of this epoch was read, and everything before the offset `upto`. A log without leaders has the epoch -1."""
        if epoch < 0:
            return
        read = self._read.setdefault(topic, [])
        # Older epochs lie before newer ones, so only the last can go on.
        if read and read[-1][0] == epoch:
            read[-1] = epoch, max(upto, read[-1][1])
        else:
            read.append((epoch, upto))

    def epochs(self) -> dict[str, list[tuple[int, int]]]:
        """All of it, as a copy."""
        return {topic: list(read) for topic, read in self._read.items()}

    def seen(self, epochs: Epochs) -> None:
        """The logs hold what was read of these."""
        for topic, present in epochs.items():
            numbers = {epoch for epoch, _ in present}
            before = self._read.get(topic, [])
            # The newest is asked about again, because its leader may go, too.
            before[:] = [read for read in before[:-1] if read[0] not in numbers] + before[-1:]
