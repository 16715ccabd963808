"""What every log does: the definition of the port. Each adapter's test file runs this class against the real adapter."""

import random
import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from streams.errors import BadInput
from streams.log.log_port import MAX_RECORD_BYTES, Log, NewRecord, Record, RecordsRefused


class World:
    """A log with a topic of three partitions, `wide`, and one of a single partition, `narrow`."""

    log: Log
    wide: str
    narrow: str

    def truncate(self, topic: str, partition: int, offset: int) -> None:
        """Make retention take what stands before the offset."""
        raise NotImplementedError

    def another(self) -> Log:
        """A second opening of the same log, as another process has it."""
        raise NotImplementedError


def numbered(topic: str, partition: int, numbers: range) -> list[NewRecord]:
    return [NewRecord(topic, partition, b"key", str(n).encode()) for n in numbers]


def read_all(log: Log, topic: str, partition: int, start: int = 0, limit: int = 10_000) -> list[Record]:
    """Everything from `start` to the end, poll by poll."""
    found: list[Record] = []
    end = log.end(topic, partition)
    position = start
    while position < end:
        records = log.poll({(topic, partition): position}, wait=0.0, limit=limit)
        assert records, f"the log says it ends at {end}, but gives nothing at {position}"
        assert len(records) <= limit
        found += records
        position = records[-1].offset + 1
    return found


def values(records: Sequence[Record]) -> list[bytes | None]:
    return [r.value for r in records]


class Conformance:
    """A subclass gives the fixture `world`."""

    @pytest.fixture
    def world(self) -> Iterator[World]:
        raise NotImplementedError

    def test_an_empty_partition_begins_and_ends_at_zero_and_gives_nothing(self, world: World) -> None:
        assert (world.log.begin(world.wide, 1), world.log.end(world.wide, 1)) == (0, 0)
        assert list(world.log.poll({(world.wide, 1): 0})) == []

    def test_appended_records_come_back_in_order_with_the_offsets_that_append_gave(self, world: World) -> None:
        places = world.log.append(numbered(world.narrow, 0, range(5)))
        assert [(p.topic, p.partition, p.offset) for p in places] == [(world.narrow, 0, n) for n in range(5)]
        found = read_all(world.log, world.narrow, 0)
        assert [r.place for r in found] == list(places)
        assert values(found) == [b"0", b"1", b"2", b"3", b"4"]

    def test_a_batch_over_partitions_and_topics_keeps_the_order_of_each_and_the_places_in_order_of_the_batch(
        self, world: World
    ) -> None:
        batch = [
            NewRecord(world.wide, 2, b"a", b"1"),
            NewRecord(world.narrow, 0, b"b", b"2"),
            NewRecord(world.wide, 0, b"c", b"3"),
            NewRecord(world.wide, 2, b"d", b"4"),
        ]
        places = world.log.append(batch)
        assert [(p.topic, p.partition, p.offset) for p in places] == [
            (world.wide, 2, 0),
            (world.narrow, 0, 0),
            (world.wide, 0, 0),
            (world.wide, 2, 1),
        ]
        assert values(read_all(world.log, world.wide, 2)) == [b"1", b"4"]
        assert values(read_all(world.log, world.wide, 0)) == [b"3"]
        assert values(read_all(world.log, world.narrow, 0)) == [b"2"]

    def test_an_empty_append_does_nothing(self, world: World) -> None:
        assert list(world.log.append([])) == []
        assert world.log.end(world.narrow, 0) == 0

    def test_keys_values_and_headers_come_back_byte_for_byte(self, world: World) -> None:
        headers = (("ce_id", "prüfung".encode()), ("ce_id", b"again"), ("raw", b"\xff\x00\n"), ("empty", b""))
        world.log.append([NewRecord(world.narrow, 0, b"\x00\xfe", b'{"a":"\xc3\xa4\\n"}\n\r\n', headers)])
        (record,) = read_all(world.log, world.narrow, 0)
        assert (record.key, record.value, record.headers) == (b"\x00\xfe", b'{"a":"\xc3\xa4\\n"}\n\r\n', headers)

    def test_null_and_empty_are_different_for_keys_and_values(self, world: World) -> None:
        pairs: list[tuple[bytes | None, bytes | None]] = [(None, b""), (b"", None), (b"", b"")]
        world.log.append([NewRecord(world.narrow, 0, key, value) for key, value in pairs])
        assert [(r.key, r.value) for r in read_all(world.log, world.narrow, 0)] == pairs

    def test_a_record_with_neither_key_nor_value_is_refused(self, world: World) -> None:
        with pytest.raises(BadInput, match=f"{world.narrow}:0 has neither a key nor a value"):
            world.log.append([NewRecord(world.narrow, 0, b"k", b"v"), NewRecord(world.narrow, 0, None, None)])
        assert world.log.end(world.narrow, 0) == 0

    def test_a_tombstone_is_a_record_like_any_other(self, world: World) -> None:
        world.log.append([NewRecord(world.narrow, 0, b"k", b"v"), NewRecord(world.narrow, 0, b"k", None)])
        assert values(read_all(world.log, world.narrow, 0)) == [b"v", None]

    def test_end_follows_each_append(self, world: World) -> None:
        for n in range(3):
            assert world.log.end(world.narrow, 0) == n
            world.log.append(numbered(world.narrow, 0, range(1)))
        assert world.log.end(world.narrow, 0) == 3

    def test_partitions_says_how_many_there_are(self, world: World) -> None:
        assert (world.log.partitions(world.wide), world.log.partitions(world.narrow)) == (3, 1)

    def test_an_unknown_topic_is_named_by_whatever_is_asked_about_it(self, world: World) -> None:
        unknown = world.wide + "-not-there"
        for ask in (
            lambda: world.log.partitions(unknown),
            lambda: world.log.begin(unknown, 0),
            lambda: world.log.end(unknown, 0),
            lambda: world.log.poll({(unknown, 0): 0}),
            lambda: world.log.append([NewRecord(unknown, 0, b"k", b"v")]),
        ):
            with pytest.raises(BadInput, match=unknown):
                ask()

    def test_an_unknown_partition_is_named_by_whatever_is_asked_about_it(self, world: World) -> None:
        for ask in (
            lambda: world.log.begin(world.wide, 3),
            lambda: world.log.end(world.wide, 3),
            lambda: world.log.end(world.wide, -1),
            lambda: world.log.poll({(world.wide, 3): 0}),
            lambda: world.log.append([NewRecord(world.wide, 3, b"k", b"v")]),
        ):
            with pytest.raises(BadInput, match=f"{world.wide}.* 0 to 2"):
                ask()

    def test_a_batch_with_one_unknown_place_appends_nothing(self, world: World) -> None:
        with pytest.raises(BadInput):
            world.log.append([NewRecord(world.wide, 0, b"k", b"v"), NewRecord(world.wide, 7, b"k", b"v")])
        assert world.log.end(world.wide, 0) == 0

    def test_poll_gives_no_more_than_the_limit_and_goes_on_where_it_is_told(self, world: World) -> None:
        world.log.append(numbered(world.narrow, 0, range(10)))
        first = world.log.poll({(world.narrow, 0): 0}, wait=5, limit=4)
        assert 1 <= len(first) <= 4
        assert values(first) == [b"0", b"1", b"2", b"3"][: len(first)]
        assert values(read_all(world.log, world.narrow, 0, limit=3)) == [str(n).encode() for n in range(10)]

    def test_the_limit_holds_also_when_it_is_below_the_number_of_partitions(self, world: World) -> None:
        for p in range(3):
            world.log.append(numbered(world.wide, p, range(3)))
        found = world.log.poll({(world.wide, p): 0 for p in range(3)}, limit=2)
        assert 1 <= len(found) <= 2

    def test_poll_begins_at_the_position_wanted_also_when_that_is_earlier_than_before(self, world: World) -> None:
        world.log.append(numbered(world.narrow, 0, range(6)))
        for start in (4, 0, 2, 2, 5):
            assert values(read_all(world.log, world.narrow, 0, start))[0] == str(start).encode()

    def test_poll_gives_something_whenever_something_is_there_even_without_waiting(self, world: World) -> None:
        world.log.append(numbered(world.wide, 1, range(1)))
        positions = {(world.wide, 0): 0, (world.wide, 1): 0, (world.narrow, 0): 0}
        assert values(world.log.poll(positions)) == [b"0"]

    def test_a_long_partition_does_not_hide_a_short_one(self, world: World) -> None:
        world.log.append(numbered(world.wide, 0, range(50)) + numbered(world.wide, 2, range(1)))
        positions = {(world.wide, p): 0 for p in range(3)}
        seen: set[int] = set()
        for _ in range(100):
            for record in world.log.poll(positions, limit=5):
                positions[record.topic, record.partition] = record.offset + 1
                seen.add(record.partition)
            if seen == {0, 2} and positions[world.wide, 0] == 50:
                break
        assert positions == {(world.wide, 0): 50, (world.wide, 1): 0, (world.wide, 2): 1}

    def test_poll_waits_for_the_first_record(self, world: World) -> None:
        later = threading.Timer(0.2, world.log.append, [numbered(world.narrow, 0, range(1))])
        later.start()
        found = world.log.poll({(world.narrow, 0): 0}, wait=30)
        later.join()
        assert values(found) == [b"0"]

    def test_poll_of_nothing_gives_nothing(self, world: World) -> None:
        assert list(world.log.poll({})) == []

    def test_a_position_after_the_end_gives_nothing_until_the_log_gets_there(self, world: World) -> None:
        world.log.append(numbered(world.narrow, 0, range(2)))
        assert list(world.log.poll({(world.narrow, 0): 3})) == []
        world.log.append(numbered(world.narrow, 0, range(2, 5)))
        assert values(read_all(world.log, world.narrow, 0, 3)) == [b"3", b"4"]

    def test_a_position_before_the_first_kept_offset_reads_from_the_first(self, world: World) -> None:
        world.log.append(numbered(world.narrow, 0, range(6)))
        assert len(read_all(world.log, world.narrow, 0)) == 6
        world.truncate(world.narrow, 0, 4)
        assert (world.log.begin(world.narrow, 0), world.log.end(world.narrow, 0)) == (4, 6)
        assert values(read_all(world.log, world.narrow, 0, 1)) == [b"4", b"5"]

    def test_offsets_go_on_after_everything_was_taken_by_retention(self, world: World) -> None:
        world.log.append(numbered(world.narrow, 0, range(3)))
        world.truncate(world.narrow, 0, 3)
        assert (world.log.begin(world.narrow, 0), world.log.end(world.narrow, 0)) == (3, 3)
        (place,) = world.log.append(numbered(world.narrow, 0, range(1)))
        assert place.offset == 3

    def test_a_big_record_comes_back_whole(self, world: World) -> None:
        big = bytes(range(256)) * (12 << 10)  # 3 MiB that compression does not make small enough to hide a limit
        world.log.append([NewRecord(world.narrow, 0, b"big", big), NewRecord(world.narrow, 0, b"small", b"1")])
        assert values(read_all(world.log, world.narrow, 0)) == [big, b"1"]

    def test_a_record_beyond_the_bound_is_refused_and_all_others_are_appended_once_and_in_order(self, world: World) -> None:
        huge = random.Random(3).randbytes(MAX_RECORD_BYTES + (1 << 20))
        batch = [
            NewRecord(world.narrow, 0, b"a", b"1"),
            NewRecord(world.narrow, 0, b"huge", huge),
            NewRecord(world.narrow, 0, b"b", b"2"),
            NewRecord(world.wide, 2, b"c", b"3"),
            NewRecord(world.wide, 2, b"huge", huge),
            NewRecord(world.narrow, 0, b"d", b"4"),
        ]
        with pytest.raises(RecordsRefused, match=r"a record for .*:0: it has 94371\d+ bytes") as caught:
            world.log.append(batch)
        assert [record for record, _ in caught.value.refused] == [batch[1], batch[4]]
        assert [None if p is None else (p.topic, p.partition, p.offset) for p in caught.value.places] == [
            (world.narrow, 0, 0),
            None,
            (world.narrow, 0, 1),
            (world.wide, 2, 0),
            None,
            (world.narrow, 0, 2),
        ]
        assert values(read_all(world.log, world.narrow, 0)) == [b"1", b"2", b"4"]
        assert values(read_all(world.log, world.wide, 2)) == [b"3"]
        (place,) = world.log.append([NewRecord(world.narrow, 0, b"e", b"5")])
        assert place.offset == 3

    def test_threads_that_append_at_once_lose_nothing_and_each_keeps_its_order(self, world: World) -> None:
        def write(thread: int) -> None:
            for n in range(20):
                world.log.append([NewRecord(world.wide, 1, str(thread).encode(), str(n).encode())])

        threads = [threading.Thread(target=write, args=(t,)) for t in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = read_all(world.log, world.wide, 1)
        assert [r.offset for r in found] == list(range(80))
        for t in range(4):
            assert [r.value for r in found if r.key == str(t).encode()] == [str(n).encode() for n in range(20)]

    def test_a_thread_may_read_while_another_appends(self, world: World) -> None:
        def write() -> None:
            for n in range(30):
                world.log.append(numbered(world.narrow, 0, range(n, n + 1)))
                time.sleep(0.001)

        writer = threading.Thread(target=write)
        writer.start()
        found: list[Record] = []
        while len(found) < 30:
            position = found[-1].offset + 1 if found else 0
            records = world.log.poll({(world.narrow, 0): position}, wait=20)
            assert records, "nothing came within the time of the wait"
            found += records
        writer.join()
        assert values(found) == [str(n).encode() for n in range(30)]

    def test_another_opening_of_the_log_sees_what_was_appended(self, world: World) -> None:
        world.log.append(numbered(world.narrow, 0, range(2)))
        with world.another() as other:
            assert values(read_all(other, world.narrow, 0)) == [b"0", b"1"]
            other.append(numbered(world.narrow, 0, range(2, 3)))
        assert values(read_all(world.log, world.narrow, 0)) == [b"0", b"1", b"2"]

    def test_closing_twice_is_harmless(self, world: World) -> None:
        with world.another() as other:
            other.close()
