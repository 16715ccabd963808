"""Rows of usage become records: nothing lost, each row where its workload belongs, in order."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.facts.usage import MetricsScraped
from streams.codec.event_codec import Codec
from streams.log.log_port import NewRecord, Record
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.publishing.scrape_batches import ScrapeBatcher, ScrapeContext, UsageColumns
from streams.topics import Topics

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)
TOPICS = Topics(partitions=3)
CONTEXT = LogContext.of(MemoryLog(), TOPICS, "prod")
WORKLOADS = [f"prod/shop/Deployment/{name}" for name in ("api", "cart", "mail", "till", "web")]
NAMES = st.tuples(st.sampled_from(WORKLOADS), st.sampled_from("xyz"), st.sampled_from("mn"))
ROWS = st.lists(st.tuples(NAMES, st.floats(0, 100), st.floats(0, 1e12), st.sampled_from([0.0, 1.5, 40.0])), max_size=30)


def rows(given: list[tuple[tuple[str, str, str], float, float, float]]) -> UsageColumns:
    names = [tuple(name[part] for name, *_ in given) for part in range(3)]
    numbers = [np.array([row[part] for row in given], np.float64) for part in (1, 2, 3)]
    return UsageColumns(*names, numbers[0], numbers[1], AT.timestamp() - numbers[2])


def read(records: list[NewRecord]) -> list[tuple[int, MetricsScraped]]:
    found = []
    for record in records:
        event = Codec(TOPICS).decode(Record(record.topic, record.partition, 0, record.key, record.value, record.headers))
        assert isinstance(event, MetricsScraped)
        found.append((record.partition, event))
    return found


def published(events: list[tuple[int, MetricsScraped]]) -> list[tuple[tuple[str, str, str], float, float, float]]:
    found = []
    for partition, event in events:
        ages = event.ages if len(event.ages) else [0.0] * len(event.pods)
        here = list(zip(event.workloads, event.pods, event.containers, event.cores, event.memory, ages, strict=True))
        assert [row[:3] for row in here] == sorted(row[:3] for row in here)
        assert {TOPICS.partition_of(row[0]) for row in here} == {partition}
        found += [(row[:3], float(row[3]), float(row[4]), float(row[5])) for row in here]
    return found


@given(ROWS, ROWS, st.integers(1, 5))
def test_every_row_is_in_one_record_of_its_partition_in_order(first: list, second: list, most: int) -> None:  # type: ignore[type-arg]  # ROWS says
    batcher = ScrapeBatcher(CONTEXT, "test")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streams.publishing.scrape_batches.ROWS", most)
        for given_rows in (first, first[::-1], second, second):
            events = read(batcher.records(rows(given_rows), ScrapeContext(AT, 60.0)))
            assert sorted(published(events)) == sorted(given_rows)
            assert all(len(event.pods) <= most for _, event in events)


@given(ROWS)
def test_rows_of_one_container_stay_in_the_order_they_were_given_in(given_rows: list) -> None:  # type: ignore[type-arg]  # ROWS says
    events = read(ScrapeBatcher(CONTEXT, "test").records(rows(given_rows), ScrapeContext(AT, 60.0)))
    for name in {row[0] for row in given_rows}:
        assert [row for row in published(events) if row[0] == name] == [row for row in given_rows if row[0] == name]


def test_other_numbers_under_the_same_names_have_the_very_same_columns() -> None:
    codec = Codec(TOPICS)
    batcher = ScrapeBatcher(LogContext(MemoryLog(), TOPICS, codec, "prod"), "test")
    names = [[(WORKLOADS[0], "x", "m"), cores, 1.0, 0.0] for cores in (1.0, 2.0)]
    records = [
        batcher.records(rows([tuple(row)]), ScrapeContext(AT + timedelta(seconds=i), 60.0))[0] for i, row in enumerate(names)
    ]  # type: ignore[arg-type]  # a row
    events = [codec.decode(Record(r.topic, r.partition, 0, r.key, r.value, r.headers)) for r in records]
    assert all(isinstance(event, MetricsScraped) for event in events)
    assert events[0].workloads is events[1].workloads  # type: ignore[union-attr]  # see above
    assert [list(event.cores) for event in events] == [[1.0], [2.0]]  # type: ignore[union-attr]  # see above


def test_no_rows_are_no_records() -> None:
    assert ScrapeBatcher(CONTEXT, "test").records(rows([]), ScrapeContext(AT, 60.0)) == []
