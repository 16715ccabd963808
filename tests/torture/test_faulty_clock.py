"""Whatever the bad clock forges counts for nobody, so a run that comes out EXACT has refused it."""

import random
import time

from schemas.names import Place
from streams.clock_rules import ClockRecord, Counted
from streams.log.log_port import NewRecord, Record
from tests.torture.faulty_clock import forged

AT = 5


def appended(record: NewRecord, offset: int) -> Record:
    return Record("c", 0, offset, record.key, record.value, (), int(time.time() * 1000))


def test_no_forged_record_counts_though_each_can_be_read() -> None:
    tick = ClockRecord(1_700_000_000_000, "honest", None, {("rules", 0): 3, ("control", 1): 0}, full=True).encode("c")
    kinds = set()
    for seed in range(200):
        counted = Counted()
        assert counted.take(appended(tick, AT)) is not None
        record = forged(tick, Place("c", 0, AT), random.Random(seed))
        said = ClockRecord.decode(record)
        assert said is not None
        kinds.add((said.after, said.number // 10**9, said.ends[("rules", 0)]))
        assert counted.take(appended(record, AT + 1)) is None
    assert len(kinds) == 5
