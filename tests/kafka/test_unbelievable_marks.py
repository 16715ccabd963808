"""Checkpoints that the log contradicts, in a real changelog: a worker passes them over, says so, and goes on."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from agents.engine.checkpoint_selection import CheckpointLedger, CheckpointMark
from streams import clock_log
from streams.clock_rules import Tick
from streams.log.log_port import NewRecord
from streams.topics import Topics
from tests.kafka.test_worker_turns import Bench
from tests.torture import sums_stage


@pytest.fixture
def bench(broker: str, topics_made: Callable[..., Topics], tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(broker, topics_made(partitions=2), tmp_path)
    yield bench
    bench.close()


def forged(ends: dict[str, int], tick: Tick) -> Iterator[tuple[bytes, bytes]]:
    """Records that no worker writes: a name that is no text, a chunk that nobody knows, and what no turn had."""
    yield b"a/mark/0", b'{"turn":1,"positions":{},"chunks":{"\\ud800":[0,1]}}'
    unknown = CheckpointLedger("b").plan(turn=tick.number, positions=ends, dumps=[("nobody", b"\0knows")], tick=tick.place)
    yield from [*unknown.records, unknown.mark]
    for family, position in (("c", 10**9), ("d", 10**30)):
        yield marked(family, tick.number, dict.fromkeys(ends, position), tick.place)
    for family, turn in (("e", 4_102_444_800_000), ("f", 10**20)):
        yield marked(family, turn, ends, tick.place)
    for family, place in (("g", (tick.offset, "another")), ("h", (10**6, tick.name)), ("i", None)):
        yield marked(family, tick.number, ends, place)


def marked(family: str, turn: int, positions: dict[str, int], tick: tuple[int, str] | None) -> tuple[bytes, bytes]:
    return f"{family}/mark/0".encode(), CheckpointMark(turn, positions, {}, tick=tick).encode()


def refused(bench: Bench) -> list[str]:
    lines = bench.workers[0].log.read_text().splitlines()
    return sorted(json.loads(line)["reason"] for line in lines if '"a checkpoint is not believed"' in line)


def test_marks_that_cannot_be_are_passed_over_and_the_worker_goes_on_from_its_own(bench: Bench) -> None:
    worker = bench.worker()
    bench.oom("a", "b", "c")
    bench.tick(2)
    assert bench.settled(120).exact
    worker.kill()
    bench.tick()
    ends = {name: bench.log.end(bench.topics.wire(name), 0) for name in sums_stage.READS}
    changelog, tick = f"{bench.topics.prefix}-sums-state-changelog", clock_log.newest(bench.log, bench.topics)
    assert tick is not None
    bench.log.append([NewRecord(changelog, 0, key, value) for key, value in forged(ends, tick)])
    bench.oom("a", "d")
    bench.tick()
    worker.start()
    report = bench.settled(120)
    assert report.exact, report
    first, end = sums_stage.READS[0], ends[sums_stage.READS[0]]
    whys = refused(bench)
    assert [why for why in whys if not why.startswith("what it names cannot be loaded")] == sorted(
        [
            *(f"it says that '{first}' was read up to offset {n}, and '{first}' ends at {end}" for n in (10**9, 10**30)),
            *(
                f"the record at offset {tick.offset} of the clock is not the tick of its turn {turn}"
                for turn in (4_102_444_800_000, 10**20, tick.number)
            ),
            f"the tick of its turn {tick.number} is said to be at offset {10**6} of the clock, which ends at {tick.offset + 2}",
            "it names no tick of the clock",
        ]
    )
    assert len(whys) == 8
    assert '"found":"nothing"' not in worker.log.read_text().split('"a checkpoint is not believed"')[-1]


def test_an_input_that_was_deleted_and_made_anew_is_named_and_the_state_is_taken_again(bench: Bench) -> None:
    worker = bench.worker()
    bench.oom(*"abcdefgh")
    bench.use(60.0, *"abcdefgh")
    bench.tick(4)
    assert bench.settled(120).exact
    assert worker.stop(60) == 0
    wire = bench.topics.wire("oom-events")
    before = [bench.log.end(wire, partition) for partition in range(2)]
    assert all(before)
    admin = KafkaAdminClient(bootstrap_servers=bench.broker)
    admin.delete_topics([wire])
    while wire in admin.list_topics():
        time.sleep(0.1)
    admin.create_topics([NewTopic(name=wire, num_partitions=2, replication_factor=1)], wait_for_metadata=True)
    admin.close()
    bench.tick()
    worker.start()
    _until(lambda: len(refused(bench)) >= 2)
    assert all("'oom-events' was read up to offset" in why for why in refused(bench))
    while any(bench.log.end(wire, p) <= end for p, end in enumerate(before)):  # turns wait for what the ticks say
        bench.oom(*"stuvwxyz")
    bench.tick()
    _until(lambda: _decided(bench, "/z"))
    assert worker.log.read_text().count('"state gone"') == 2
    assert not worker.dead


def _until(done: Callable[[], bool]) -> None:
    until = time.monotonic() + 180
    while not done():
        assert time.monotonic() < until
        time.sleep(0.3)


def _decided(bench: Bench, name: str) -> bool:
    return any(name.encode() in record.key for partition in bench.read("recommendations") for record in partition)
