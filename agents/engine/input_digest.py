"""A running digest of everything that a task read, for each of its inputs.

Two tasks that read the same records in the same turns have equal digests, wherever they stopped in between. A checkpoint carries
the digests, so that a later replay proves that it reads what the worker read, even where a changed input changed no decision. A
digest is no signature: whoever can write marks can write digests.

A log may also lose its newest records to a leader that never had them, and grow beyond where a task stands before anybody looks.
Each record bears the epoch of the leader that appended it, and two logs that both hold a record of an epoch at an offset are the
same up to there. So it is enough to know, of each epoch, up to where its records were read, and to ask where the log left it
(https://cwiki.apache.org/confluence/display/KAFKA/KIP-320). Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

_BYTES = 16
EMPTY = bytes(_BYTES)


class DigestedRecord(Protocol):
    """The parts of a record that count: its place and content, but not when it was appended."""

    @property
    def offset(self) -> int:
        """Its place in the partition."""

    @property
    def key(self) -> bytes | None:
        """Its key."""

    @property
    def value(self) -> bytes | None:
        """Its value."""

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        """Its headers, in order."""


@dataclass(frozen=True, slots=True)
class InputDigests:
    """For each input (short topic name) a chain over the records of all turns after `since`, -1 for all turns."""

    since: int
    chains: Mapping[str, bytes]

    @staticmethod
    def begin(inputs: Iterable[str], *, since: int) -> "InputDigests":
        """Start after the turn `since`, with nothing read yet."""
        return InputDigests(since, dict.fromkeys(inputs, EMPTY))

    def after(self, turn: int, digests: Mapping[str, Sequence[bytes]]) -> "InputDigests":
        """The digests after one more turn, of whose records these are the digests, in order.

        An input without a record in this turn keeps its digest.
        """
        return InputDigests(self.since, {n: _after(c, turn, d) if (d := digests[n]) else c for n, c in self.chains.items()})


def _after(chain: bytes, turn: int, digests: Sequence[bytes]) -> bytes:
    digest = sha256(chain)
    # With the turn and the count, so that a record that moved from one turn to the next changes the chain.
    digest.update(b"%d;%d;" % (turn, len(digests)))
    digest.update(b"".join(digests))
    return digest.digest()[:_BYTES]


def record_digest(record: DigestedRecord) -> bytes:
    """The digest of one record, the same for every stage that reads it."""
    # Variable parts are preceded by their lengths, so that no two different records give the same bytes.
    value, key = record.value, record.key
    parts = [b"%d;-;" % record.offset if key is None else b"%d;%d;%b" % (record.offset, len(key), key)]
    for name, content in record.headers:
        part = _NAMES.get(name) or _name(name)
        # A header without content counts as an empty one: some clients of Kafka distinguish the two, and some do not.
        parts.append(b"%b%d;%b" % (part, len(content), content) if content else part + b"0;")
    parts.append(b"-;" if value is None else b"%d;" % len(value))
    digest = sha256(b"".join(parts))
    if value:
        # A scrape has hundreds of kilobytes, which joining would copy once more.
        digest.update(value)
    return digest.digest()


_NAMES: dict[str, bytes] = {}
"""The parts of headers' names that came: there are few."""
_MOST_NAMES = 1000


def _name(name: str) -> bytes:
    encoded = name.encode()
    part = b"%d;%b" % (len(encoded), encoded)
    # Whoever may write to a topic may invent names of headers.
    if len(_NAMES) < _MOST_NAMES:
        _NAMES[name] = part
    return part


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
