from streams import clock_log
from streams.clock_log import ClockReader
from streams.clock_rules import ClockRecord, Counted
from streams.log.memory_log import MemoryLog
from streams.topics import CLOCK, Topics

PAPERS = Topics(partitions=1)
WIRE = PAPERS.wire(CLOCK)


def log_of(*records: ClockRecord) -> MemoryLog:
    log = MemoryLog()
    log.create(WIRE, 1)
    log.append([record.encode(WIRE) for record in records])
    return log


FIRST, SECOND = ClockRecord(500, "a", None, {}, full=True), ClockRecord(1_000, "b", (0, "a"), {("control", 0): 4}, full=True)
THIRD, LATE = ClockRecord(1_500, "c", (1, "b"), {("control", 0): 7}), ClockRecord(1_600, "d", (0, "a"), {("control", 0): 9})
FULL, LAST = ClockRecord(2_000, "e", (2, "c"), {("control", 0): 8}, full=True), ClockRecord(2_500, "f", (4, "e"), {})


def test_a_reader_that_retention_has_overtaken_does_not_read_on_after_the_gap() -> None:
    """What is late seems to come after what it read last, and it would go on alone."""
    log = log_of(FIRST)
    reader = ClockReader(log, PAPERS, Counted())
    reader.catch_up()
    log.append([record.encode(WIRE) for record in (SECOND, THIRD, LATE, FULL, LAST)])
    log.truncate(WIRE, 0, 3)
    assert [tick.number for tick in reader.catch_up()] == [2_000, 2_500]
    assert reader.counted.end("control", 0) == 8


def test_a_place_whose_tick_is_no_longer_kept_is_followed_by_the_first_full_one() -> None:
    log = log_of(FIRST, SECOND, THIRD, LATE)
    log.truncate(WIRE, 0, 1)
    found = clock_log.counted(log, PAPERS, before=1)
    assert found.last is not None
    assert found.last.number == 1_000


def test_a_hole_is_no_gap() -> None:
    """The end of somebody's transaction has an offset and no record."""
    log = log_of(FIRST, SECOND)
    log._index.at(WIRE, 0).end += 1
    log.append([THIRD.encode(WIRE)])
    reader = ClockReader(log, PAPERS, Counted())
    assert [tick.number for tick in reader.catch_up()] == [500, 1_000, 1_500]


class CountedQuestions(MemoryLog):
    """Counts how often somebody asks where a partition ends."""

    asked = 0

    def end(self, topic: str, partition: int) -> int:
        self.asked += 1
        return super().end(topic, partition)


def test_who_waits_for_the_next_tick_asks_nothing_besides() -> None:
    """A worker waits for each tick of a day, and each question is a request."""
    log = CountedQuestions()
    log.create(WIRE, 1)
    reader = ClockReader(log, PAPERS, Counted())
    for record in (FIRST, SECOND):
        log.append([record.encode(WIRE)])
        assert [tick.number for tick in reader.catch_up(wait=0.5)] == [record.number]
    assert log.asked == 0
