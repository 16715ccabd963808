"""The outbox while the log is away: what is dropped first, and that a lost fact is not forgotten before it is reported."""

from streams.log.log_port import NewRecord
from streams.log.memory_log import MemoryLog
from streams.log_context import LogContext
from streams.publishing.outbox import Outbox
from streams.topics import Topics
from tests.support.lossy_log import AwayLog

TOPICS = Topics("t", 1)
FACTS, SCRAPES = TOPICS.wire("pod-changes"), TOPICS.wire("pod-metrics")
ROOM = 250
"""Bytes: two of the records below."""


def fact(name: str) -> NewRecord:
    return NewRecord(FACTS, 0, name.encode(), b"{}")


def scrape(name: str) -> NewRecord:
    return NewRecord(SCRAPES, 0, name.encode(), b"{}")


def opened() -> tuple[AwayLog, Outbox]:
    log = AwayLog()
    log.away = True
    for wire in (FACTS, SCRAPES):
        log.create(wire, 1)
    return log, Outbox(LogContext.of(log, TOPICS, "c"), bound=ROOM)


def there(log: MemoryLog) -> list[bytes | None]:
    return [record.key for record in log.poll({(FACTS, 0): 0, (SCRAPES, 0): 0})]


def test_the_oldest_scrape_goes_before_any_fact() -> None:
    log, outbox = opened()
    outbox.publish(facts=[fact("one")], scrapes=[scrape("old"), scrape("new")])
    assert not outbox.flush()
    log.away = False
    assert outbox.flush()
    assert there(log) == [b"one", b"new"]
    assert dict(outbox.dropped) == {SCRAPES: 1}
    assert not outbox.report_losses(), "the next scrape makes up for it"


def test_a_lost_fact_is_reported_once_although_only_scrapes_were_lost_after_it() -> None:
    log, outbox = opened()
    outbox.publish(facts=[fact("one"), fact("two"), fact("three")], scrapes=())
    assert not outbox.flush()
    outbox.publish(facts=(), scrapes=[scrape("late")])
    assert not outbox.flush()
    log.away = False
    assert outbox.flush()
    assert there(log) == [b"two", b"three"]
    assert (outbox.report_losses(), outbox.report_losses()) == (True, False)
