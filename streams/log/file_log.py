"""The log in one file: for exports, recorded incidents, and runs without a broker that outlive their process.

The file holds JSON lines (see `streams.log.file_format`) and only grows; an append is on the disk when it returns. Several
processes may append: each locks the file and first indexes what the others wrote. Opening the file indexes where each record
stands and parses nothing else, so that a command that needs ten records of a large file pays for ten.
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
from streams.log.log_port import NewRecord, Positions, Record, RecordsRefused, oversize, require_key_or_value
from streams.log.memory_log import OffsetIndex, PartitionIndex, fair_share, unknown_time

READ_AT_ONCE = 4 << 20
POLL_BYTES = 32 << 20  # then a poll stops, so that ten thousand big records do not fill the memory
LOOK_AGAIN = 0.02
_LONGEST_REASON = 500

Span = tuple[int, int]
"""Where a line stands in the file: its first byte and its length."""


class FileLog:
    """Opens an existing file; `FileLog.open_or_create` creates it if needed. `now` gives the timestamps of appended records.

    A damaged line raises BadInput: at once if it is no record at all or contradicts the lines before it, else when that record is
    read.
    """

    def __init__(self, path: Path | str, now: Callable[[], int] = unknown_time) -> None:
        """Raises BadInput when the file is missing, is not a log file, or holds a damaged line."""
        self.path = Path(path)
        self._now = now
        self._index: OffsetIndex[Span] = OffsetIndex(f"the log file '{self.path}'")
        self._partitions: dict[bytes, PartitionIndex[Span]] = {}
        """The partitions of the index by `topic:partition`, as lines spell them."""
        self._lock = threading.RLock()
        self._read_to, self._line = 0, 0
        if self.path.is_char_device() or self.path.is_fifo() or self.path.is_socket():  # which never ends
            raise BadInput(f"the log file '{self.path}' cannot be opened: it is a device, a pipe or a socket")
        self._may_write = os.access(self.path, os.W_OK)
        try:
            self._file = os.open(self.path, os.O_RDWR if self._may_write else os.O_RDONLY)
        except OSError as error:
            raise BadInput(f"the log file '{self.path}' cannot be opened: {error.strerror}") from error
        self._catch_up()

    @classmethod
    def open_or_create(cls, path: Path | str, now: Callable[[], int] = unknown_time) -> "FileLog":
        """Open the file; create an empty log when there is none yet."""
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
        """A sentence if the file ends in half a line: a crash cut it, or another process is just writing it."""
        with self._lock:
            self._catch_up()
            rest = os.fstat(self._file).st_size - self._read_to
        if not rest:
            return None
        return f"the log file '{self.path}' ends in half a line ({rest} bytes after line {self._line}), which is left out"

    def create(self, topic: str, partitions: int) -> None:
        """Make a topic; nothing happens when it is there already. Raises BadInput for another partition count."""
        with self._writing():
            if not self._index.create(topic, partitions):
                return
            try:
                self._write([file_format.encode_topic(file_format.TopicLine(topic, (0,) * partitions))])
            except LogUnavailable:  # nobody else sees the topic, so we must not either
                del self._index.topics[topic]
                raise

    def append(self, records: Iterable[NewRecord]) -> Sequence[Place]:
        """Append all, or none if one of them names an unknown partition."""
        with self._writing():
            ends: dict[tuple[str, int], int] = {}
            taken: list[Record] = []
            places: list[Place | None] = []
            refused: list[tuple[NewRecord, str]] = []
            for new in records:
                require_key_or_value(new)
                tp = new.topic, new.partition
                why = oversize(new)
                if why is not None:
                    self._index.at(*tp)
                    refused.append((new, why))
                    places.append(None)
                    continue
                offset = ends.get(tp, self._index.at(*tp).end)
                ends[tp] = offset + 1
                taken.append(Record(*tp, offset, new.key, new.value, new.headers, self._now()))
                places.append(taken[-1].place)
            self._append(taken)
        if refused:
            raise RecordsRefused(refused, places)
        return [record.place for record in taken]

    def import_records(self, records: Iterable[Record]) -> None:
        """Append records of another log with their offsets and timestamps, each after what its partition holds already."""
        batch = list(records)
        with self._writing():
            self._index.check_offsets(record.place for record in batch)
            self._append(batch)

    def _append(self, records: Sequence[Record]) -> None:
        written = [file_format.encode_record(record) for record in records]
        at = self._read_to
        self._write(written)
        for record, line in zip(records, written, strict=True):
            self._index.at(record.topic, record.partition).add(record.offset, (at, len(line)))
            at += len(line)

    def poll(self, positions: Positions, *, wait: float = 0.0, limit: int = 10_000) -> Sequence[Record]:
        """As the port says."""
        deadline = monotonic() + wait
        while True:
            with self._lock:
                self._catch_up()
                records = self._read(positions, limit)
            remaining = deadline - monotonic()
            if records or remaining <= 0:
                return records
            sleep(min(LOOK_AGAIN, remaining))

    def _read(self, positions: Positions, limit: int) -> list[Record]:
        records: list[Record] = []
        size = 0
        for (topic, partition), position in positions.items():
            room = min(fair_share(len(positions), limit), limit - len(records))
            for at, length in self._index.at(topic, partition).read(position, room):
                if records and size + length > POLL_BYTES:
                    return records
                size += length
                records.append(self._record(at, length))
        return records

    def _record(self, at: int, length: int) -> Record:
        line = os.pread(self._file, length, at)
        try:
            record = file_format.decode(line)
        except ValueError as error:
            where = line[:60].decode(errors="replace").rstrip()
            why = str(error)[:_LONGEST_REASON]
            raise BadInput(f"the line at byte {at} of the log file '{self.path}' ('{where}…') cannot be read: {why}") from error
        if not isinstance(record, Record):
            raise BadInput(f"the line at byte {at} of the log file '{self.path}' is no record any more")
        return record

    def truncate(self, topic: str, partition: int, offset: int) -> None:
        """Mark records before `offset` as deleted; their lines stay in the file, unread."""
        with self._writing():
            self._index.at(topic, partition).truncate(offset)
            begin = tuple(index.begin for index in self._index.topics[topic])
            self._write([file_format.encode_topic(file_format.TopicLine(topic, begin))])

    def begin(self, topic: str, partition: int) -> int:
        """The first kept offset."""
        with self._lock:
            self._catch_up()
            return self._index.at(topic, partition).begin

    def end(self, topic: str, partition: int) -> int:
        """The offset after the last record."""
        with self._lock:
            self._catch_up()
            return self._index.at(topic, partition).end

    def partitions(self, topic: str) -> int:
        """How many partitions the topic has."""
        with self._lock:
            self._catch_up()
            return self._index.count(topic)

    def topics(self) -> Sequence[str]:
        """The topics in the file, in the order in which they came."""
        with self._lock:
            self._catch_up()
            return list(self._index.topics)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Lock the file, index what others wrote, and cut off half a line at the end. Raises BadInput if we may only read it."""
        if not self._may_write:
            raise BadInput(f"the log file '{self.path}' may only be read: give a copy of it that you may write")
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
            # A crash can leave half a line at the end. It was never acknowledged, so it goes.
            os.ftruncate(self._file, self._read_to)
            if os.pwrite(self._file, data, self._read_to) != len(data):
                raise LogUnavailable(f"the log file '{self.path}' took only a part of {len(data)} bytes; is the disk full?")
            os.fsync(self._file)
        except OSError as error:
            raise LogUnavailable(f"the log file '{self.path}' cannot be written: {error.strerror}") from error
        self._read_to += len(data)
        self._line += len(written)

    def _catch_up(self) -> None:
        """Index the whole lines after the indexed part of the file."""
        rest = b""
        while chunk := os.pread(self._file, READ_AT_ONCE, self._read_to + len(rest)):
            rest += chunk
            indexed = self._read_to
            self._index_lines(rest, rest.rfind(b"\n") + 1)
            rest = rest[self._read_to - indexed :]
            if len(rest) > file_format.MOST_LINE:
                most = file_format.MOST_LINE
                raise BadInput(
                    f"line {self._line + 1} of the log file '{self.path}' has more than {most} bytes, which are the most"
                )
        if self._line == 0:
            raise BadInput(f"'{self.path}' is not a log file: it is empty")

    def _index_lines(self, data: bytes, end: int) -> None:
        """Index the lines of `data`, which begins where the index ends, up to the byte `end`."""
        at, line, begin = 0, self._line, self._read_to
        match_record, partition_at = file_format.RECORD_LINE.match, self._partitions.get
        while at < end:
            line += 1
            match = match_record(data, at, end)
            partition = None if match is None else partition_at(match[1])
            if match is None or partition is None or (offset := int(match[2])) < partition.end:
                after = data.index(b"\n", at) + 1
                self._line, self._read_to = line, begin + at
                self._index_line(data[at:after])
            else:
                after = match.end()
                partition.add(offset, (begin + at, after - at))
            at = after
        self._line, self._read_to = line, begin + at

    def _index_line(self, line: bytes) -> None:
        """Index a line of any kind; the others are records of partitions that have a record already."""
        if self._line == 1:
            if not file_format.is_first_line(line):
                raise BadInput(f"'{self.path}' is not a log file: its first line is {line[:60]!r}")
            return
        try:
            entry = file_format.decode(line)
        except ValueError as error:
            why = str(error)[:_LONGEST_REASON]
            raise BadInput(f"line {self._line} of the log file '{self.path}' cannot be read: {why}") from error
        if isinstance(entry, Record):
            self._index.check_offsets([entry.place])
            partition = self._index.at(entry.topic, entry.partition)
            partition.add(entry.offset, (self._read_to, len(line)))
            self._partitions[f"{entry.topic}:{entry.partition}".encode()] = partition
            return
        self._check_count(entry)
        self._index.create(entry.topic, len(entry.begin))
        for index, begin in zip(self._index.topics[entry.topic], entry.begin, strict=True):
            index.truncate(begin)

    def _check_count(self, line: file_format.TopicLine) -> None:
        topics = self._index.topics  # each partition takes memory that its line does not show
        if line.topic not in topics and sum(map(len, topics.values())) + len(line.begin) > file_format.MOST_PARTITIONS:
            most = file_format.MOST_PARTITIONS
            raise BadInput(
                f"line {self._line} of the log file '{self.path}' makes more than {most} partitions, which are the most"
            )

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
