"""Header names that are no text: both clients read the record, and those around it, instead of raising for ever."""

from types import ModuleType

import aiokafka.consumer.fetcher
import kafka.consumer.fetcher
import pytest
from kafka.record.memory_records import MemoryRecordsBuilder

import streams.log.kafka_reader  # noqa: F401  # its import puts the guard in place, as does the line above

CLIENTS = [pytest.param(kafka.consumer.fetcher, id="kafka-python"), pytest.param(aiokafka.consumer.fetcher, id="aiokafka")]
PLACEHOLDER = b"not-a-text"


def batch(first: int, names: list[str], compression: int) -> bytes:
    """A record for each name, whose only header has that name."""
    builder = MemoryRecordsBuilder(magic=2, compression_type=compression, batch_size=1 << 20, offset=first)
    for number, name in enumerate(names):
        builder.append(timestamp=1_000 + number, key=b"k", value=b"v%d" % number, headers=[(name, b"x")])
    builder.close()
    return bytes(builder.buffer())


def spoiled(data: bytes) -> bytes:
    assert PLACEHOLDER in data
    return data.replace(PLACEHOLDER, b"\xff\xfe-a-text\x80")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_name_that_is_no_text_is_read_with_a_replacement_and_its_neighbours_as_they_are(client: ModuleType) -> None:
    good, bad = batch(0, ["a", "b"], 0), spoiled(batch(2, ["c", PLACEHOLDER.decode(), "ä"], 0))
    records = client.MemoryRecords(good + bad + batch(5, ["d"], 0))
    found = []
    while records.has_next():
        found += list(records.next_batch())
    assert [r.offset for r in found] == [0, 1, 2, 3, 4, 5]
    assert [r.value for r in found] == [b"v0", b"v1", b"v0", b"v1", b"v2", b"v0"]
    names = [name for r in found for name, _ in r.headers]
    assert names == ["a", "b", "c", "��-a-text�", "ä", "d"]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_batch_of_readable_names_is_left_to_the_client(client: ModuleType) -> None:
    records = client.MemoryRecords(batch(0, ["a", "é"], 1))
    assert [name for record in records.next_batch() for name, _ in record.headers] == ["a", "é"]
