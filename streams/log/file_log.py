"""The log in one file: for exports, recorded incidents, and runs without a broker that should outlive the process.

Append-only JSON lines (see `streams.log.file_format`); an append is on the disk when it returns. Several processes may append:
each takes the file's lock and first reads what the others wrote. A crash can leave half a line at the end: it was never
acknowledged, readers leave it out and `torn` says so, and the next append cuts it off.
"""

import fcntl
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Self

from schemas.names import Place
from streams.errors import BadInput, LogUnavailable
from streams.log import file_format
from streams.log.memory_log import unknown_time
from streams.log.offset_index import Shelves, share
from streams.log.port import NewRecord, Positions, Record, needs_key_or_value

READ_AT_ONCE = 4 << 20
POLL_BYTES = 32 << 20
"""One poll stops after about this much, so that ten thousand big records do not fill the memory."""
LOOK_AGAIN = 0.02


class FileLog:
    """Opens a file that is there; `FileLog.make` makes one. `now` gives the timestamps of appended records."""

    def __init__(self, path: Path | str, now: Callable[[], int] = unknown_time) -> None:
        """Raises BadInput when the file is missing, is not a log file, or holds a line that cannot be read."""
        self.path = Path(path)
        self._now = now
        self._shelves: Shelves[tuple[int, int]] = Shelves(f"the log file '{self.path}'")
        self._lock = threading.RLock()
        self._read_to, self._line = 0, 0
        try:
            self._file = os.open(self.path, os.O_RDWR if os.access(self.path, os.W_OK) else os.O_RDONLY)
        except OSError as error:
            raise BadInput(f"the log file '{self.path}' cannot be opened: {error.strerror}") from error
        self._catch_up()

    @classmethod
    def make(cls, path: Path | str, now: Callable[[], int] = unknown_time) -> "FileLog":
        """Open the file, making an empty log when there is no file yet."""
        path = Path(path)
        try:
            with path.open("xb") as file:
                file.write(file_format.first_line())
        except FileExistsError:
            pass
        except OSError as error:
            raise BadInput(f"the log file '{path}' cannot be made: {error.strerror}") from error
        return cls(path, now)

    @property
    def torn(self) -> str | None:
        """A sentence when the file ends in half a line: a crash cut it, or somebody is writing it this moment."""
        with self._lock:
            self._catch_up()
            left = os.fstat(self._file).st_size - self._read_to
        if not left:
            return None
        return f"the log file '{self.path}' ends in half a line ({left} bytes after line {self._line}), which is left out"

    def create(self, topic: str, partitions: int) -> None:
        """Make a topic; nothing happens when it is there already. Raises BadInput for another partition count."""
        with self._writing():
            if not self._shelves.create(topic, partitions):
                return
            try:
                self._write([file_format.write_topic(file_format.TopicLine(topic, (0,) * partitions))])
            except LogUnavailable:
                del self._shelves.topics[topic]
                raise

    def append(self, records: Iterable[NewRecord]) -> Sequence[Place]:
        """Append all or, when one of them names no known place, none."""
        with self._writing():
            ends: dict[tuple[str, int], int] = {}
            kept = []
            for new in records:
                needs_key_or_value(new)
                tp = new.topic, new.partition
                offset = ends.get(tp, self._shelves.at(*tp).end)
                ends[tp] = offset + 1
                kept.append(Record(*tp, offset, new.key, new.value, new.headers, self._now()))
            self._put(kept)
        return [record.place for record in kept]

    def keep(self, records: Iterable[Record]) -> None:
        """Take in records of another log with their offsets and timestamps, each after what its partition holds already."""
        batch = list(records)
        with self._writing():
            self._shelves.check_kept(record.place for record in batch)
            self._put(batch)

    def _put(self, records: Sequence[Record]) -> None:
        written = [file_format.write_record(record) for record in records]
        at = self._read_to
        self._write(written)
        for record, line in zip(records, written, strict=True):
            self._shelves.at(record.topic, record.partition).put(record.offset, (at, len(line)))
            at += len(line)

    def poll(self, positions: Positions, *, wait: float = 0.0, limit: int = 10_000) -> Sequence[Record]:
        """As the port says."""
        deadline = monotonic() + wait
        while True:
            with self._lock:
                self._catch_up()
                found = self._read(positions, limit)
            left = deadline - monotonic()
            if found or left <= 0:
                return found
            sleep(min(LOOK_AGAIN, left))

    def _read(self, positions: Positions, limit: int) -> list[Record]:
        found: list[Record] = []
        size = 0
        for (topic, partition), position in positions.items():
            room = min(share(len(positions), limit), limit - len(found))
            for at, length in self._shelves.at(topic, partition).read(position, room):
                if found and size + length > POLL_BYTES:
                    return found
                size += length
                record = file_format.read(os.pread(self._file, length, at))
                if isinstance(record, Record):
                    found.append(record)
        return found

    def truncate(self, topic: str, partition: int, offset: int) -> None:
        """Say that what stands before `offset` is no longer kept; its lines stay in the file, unread."""
        with self._writing():
            self._shelves.at(topic, partition).truncate(offset)
            begin = tuple(shelf.begin for shelf in self._shelves.topics[topic])
            self._write([file_format.write_topic(file_format.TopicLine(topic, begin))])

    def begin(self, topic: str, partition: int) -> int:
        """The first kept offset."""
        with self._lock:
            self._catch_up()
            return self._shelves.at(topic, partition).begin

    def end(self, topic: str, partition: int) -> int:
        """The offset after the last record."""
        with self._lock:
            self._catch_up()
            return self._shelves.at(topic, partition).end

    def partitions(self, topic: str) -> int:
        """How many partitions the topic has."""
        with self._lock:
            self._catch_up()
            return self._shelves.count(topic)

    def topics(self) -> Sequence[str]:
        """The topics in the file, in the order in which they came."""
        with self._lock:
            self._catch_up()
            return list(self._shelves.topics)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the file alone, knowing all that others wrote, with no half line at its end."""
        with self._lock:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                self._catch_up()
                yield
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def _write(self, written: Sequence[bytes]) -> None:
        data = b"".join(written)
        try:
            os.ftruncate(self._file, self._read_to)
            if os.pwrite(self._file, data, self._read_to) != len(data):
                raise LogUnavailable(f"the log file '{self.path}' took only a part of {len(data)} bytes; is the disk full?")
            os.fsync(self._file)
        except OSError as error:
            raise LogUnavailable(f"the log file '{self.path}' cannot be written: {error.strerror}") from error
        self._read_to += len(data)
        self._line += len(written)

    def _catch_up(self) -> None:
        """Index the whole lines after what has been read."""
        rest = b""
        while chunk := os.pread(self._file, READ_AT_ONCE, self._read_to + len(rest)):
            rest += chunk
            whole = rest.rfind(b"\n") + 1
            for line in _lines(rest[:whole]):
                self._line += 1
                self._index(line)
                self._read_to += len(line)
            rest = rest[whole:]
        if self._line == 0:
            raise BadInput(f"'{self.path}' is not a log file: it is empty")

    def _index(self, line: bytes) -> None:
        if self._line == 1:
            if not file_format.is_first_line(line):
                raise BadInput(f"'{self.path}' is not a log file: its first line is {line[:60]!r}")
            return
        try:
            found = file_format.read(line)
        except ValueError as error:
            raise BadInput(f"line {self._line} of the log file '{self.path}' cannot be read: {error}") from error
        if isinstance(found, Record):
            self._shelves.check_kept([found.place])
            self._shelves.at(found.topic, found.partition).put(found.offset, (self._read_to, len(line)))
            return
        self._shelves.create(found.topic, len(found.begin))
        for shelf, begin in zip(self._shelves.topics[found.topic], found.begin, strict=True):
            shelf.truncate(begin)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close."""
        self.close()


def _lines(data: bytes) -> list[bytes]:
    """The lines of data that ends in a line end, or of nothing, each with its end."""
    return [line + b"\n" for line in data.split(b"\n")[:-1]]
