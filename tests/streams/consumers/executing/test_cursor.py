import pytest

from streams.errors import LogUnavailable
from streams.log.log_port import NewRecord
from streams.log_range import Cursor
from tests.support.lossy_log import LossyLog

PLACES = [("plans", 0), ("plans", 1), ("pauses", 0)]


def two_topics() -> LossyLog:
    log = LossyLog()
    for topic in ("plans", "pauses"):
        log.create(topic, 2)
    log.append([NewRecord(topic, partition, b"k", b"v") for topic, partition in PLACES])
    return log


def test_it_asks_for_all_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    log, asked = two_topics(), []
    ends = log.ends
    monkeypatch.setattr(log, "ends", lambda places: asked.append(list(places)) or ends(places))
    cursor = Cursor(log, PLACES)
    assert sorted((record.topic, record.partition) for record in cursor.catch_up()) == sorted(PLACES)
    assert asked == [PLACES]


def test_nothing_is_read_while_nobody_says_where_one_of_them_ends() -> None:
    log = two_topics()
    cursor = Cursor(log, PLACES)
    log.silent = {("pauses", 0)}
    with pytest.raises(LogUnavailable, match="nobody says where 'pauses:0' ends"):
        next(cursor.catch_up())
    log.silent = set()
    assert len(list(cursor.catch_up())) == len(PLACES)
