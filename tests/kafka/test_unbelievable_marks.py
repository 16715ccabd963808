"""Checkpoints that the log contradicts, in a real changelog: a worker passes them over, says so, and goes on."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from agents.engine.checkpoint_selection import CheckpointLedger, CheckpointMark
from streams.log.log_port import NewRecord
from streams.topics import Topics
from tests.kafka.test_worker_turns import T0, Bench
from tests.torture import sums_stage


@pytest.fixture
def bench(broker: str, topics_made: Callable[..., Topics], tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(broker, topics_made(partitions=2), tmp_path)
    yield bench
    bench.close()


def forged(ends: dict[str, int]) -> Iterator[tuple[bytes, bytes]]:
    """Records that no worker writes: a name that is no text, a chunk that nobody knows, and positions and turns that are none."""
    yield b"a/mark/0", b'{"turn":1,"positions":{},"chunks":{"\\ud800":[0,1]}}'
    unknown = CheckpointLedger("b").plan(turn=T0 + 1_500, positions=ends, dumps=[("nobody", b"\0knows")])
    yield from [*unknown.records, unknown.mark]
    for family, turn, position in (("c", T0 + 10_000, 10**9), ("d", T0 + 10_000, 10**30)):
        yield f"{family}/mark/0".encode(), CheckpointMark(turn, dict.fromkeys(ends, position), {}).encode()
    for family, turn in (("e", 4_102_444_800_000), ("f", 10**20)):
        yield f"{family}/mark/0".encode(), CheckpointMark(turn, ends, {}).encode()


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
    changelog = f"{bench.topics.prefix}-sums-state-changelog"
    bench.log.append([NewRecord(changelog, 0, key, value) for key, value in forged(ends)])
    bench.oom("a", "d")
    bench.tick()
    worker.start()
    report = bench.settled(120)
    assert report.exact, report
    first, end = sums_stage.READS[0], ends[sums_stage.READS[0]]
    whys = refused(bench)
    assert len(whys) == 5
    assert [why for why in whys if why.startswith("it says")] == [
        f"it says that '{first}' was read up to offset {position}, and '{first}' ends at {end + 1}"
        for position in (10**9, 10**30)
    ]
    assert '"found":"nothing"' not in worker.log.read_text().split('"a checkpoint is not believed"')[-1]


def test_an_input_that_was_deleted_and_made_anew_is_named_and_the_state_is_taken_again(bench: Bench) -> None:
    worker = bench.worker()
    bench.oom("a")
    bench.tick(4)
    assert bench.settled(120).exact
    assert worker.stop(20) == 0
    wire = bench.topics.wire("oom-events")
    admin = KafkaAdminClient(bootstrap_servers=bench.broker)
    admin.delete_topics([wire])
    while wire in admin.list_topics():
        time.sleep(0.1)
    admin.create_topics([NewTopic(name=wire, num_partitions=2, replication_factor=1)])
    admin.close()
    bench.tick()
    worker.start()
    until = time.monotonic() + 90
    while time.monotonic() < until and not _decided(bench, "/z"):
        bench.oom("z")
        bench.tick()
        time.sleep(0.5)
    assert _decided(bench, "/z")
    assert len(refused(bench)) >= 2
    assert all("'oom-events'" in why for why in refused(bench))
    assert worker.log.read_text().count('"state gone"') == 2
    assert not worker.dead


def _decided(bench: Bench, name: str) -> bool:
    return any(name.encode() in record.key for partition in bench.read("recommendations") for record in partition)
