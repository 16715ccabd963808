from streams import truncated_topics
from streams.log.log_port import NewRecord
from streams.topics import CLOCK, Topics
from tests.support.lossy_log import LossyLog

PAPERS = Topics(partitions=2)
CONTROL = PAPERS.wire("control")


def log_of(records: int) -> LossyLog:
    log = LossyLog()
    for name in ("control", CLOCK):
        log.create(PAPERS.wire(name), PAPERS.count(name))
    log.append([NewRecord(CONTROL, 1, b"k", b"v")] * records)
    return log


def gone(log: LossyLog, *read: tuple[int, int], name: str = "control") -> tuple[str, ...]:
    return truncated_topics.lost_records(log, PAPERS, [(1, {name: read})]).gone


def test_a_log_that_lost_its_end_and_grew_beyond_it_no_longer_holds_what_was_read() -> None:
    log = log_of(10)
    assert gone(log, (0, 10)) == ()
    log.elect(CONTROL, 1, losing=3)
    log.append([NewRecord(CONTROL, 1, b"k", b"other")] * 9)
    assert gone(log, (0, 10)) == (f"{CONTROL}:1 was read up to 10 under a leader of epoch 0, and the log left that at 7",)
    assert gone(log, (0, 7), (1, 16)) == ()


def test_what_was_read_on_beyond_the_loss_does_not_hide_it() -> None:
    log = log_of(10)
    log.elect(CONTROL, 1, losing=3)
    log.append([NewRecord(CONTROL, 1, b"k", b"other")] * 9)
    assert len(gone(log, (0, 10), (1, 16))) == 1


def test_a_leader_that_has_everything_takes_nothing() -> None:
    log = log_of(10)
    log.elect(CONTROL, 1)
    log.append([NewRecord(CONTROL, 1, b"k", b"v")])
    assert gone(log, (0, 10), (1, 11)) == ()


def test_a_topic_that_was_made_anew_has_none_of_an_epoch() -> None:
    assert gone(log_of(10), (4, 5)) == (f"{CONTROL}:1 was read up to 5 under a leader of epoch 4, and the log has none of that",)


def test_the_clock_has_one_partition_for_all() -> None:
    log = log_of(0)
    log.append([NewRecord(PAPERS.wire(CLOCK), 0, b"tick", b"v")] * 4)
    assert gone(log, (0, 4), name=CLOCK) == ()
    log.elect(PAPERS.wire(CLOCK), 0, losing=1)
    assert len(gone(log, (0, 4), name=CLOCK)) == 1


def test_a_partition_without_a_leader_is_asked_again() -> None:
    log = log_of(10)
    log.silent.add((CONTROL, 1))
    held = truncated_topics.lost_records(log, PAPERS, [(1, {"control": [(0, 10)]}), (0, {"control": [(0, 0)]})])
    assert (held.gone, held.complete) == ((), False)
