"""A worker that is asked to stop ends in time, whatever the log or Faust do, and says what it gave up."""

import json
import subprocess
import sys

import pytest

START = """
import asyncio
from agents.app import worker
async def hangs(): await asyncio.sleep(60)
async def nothing(): pass
async def stop():
    worker.FLUSH_WITHIN = worker.LEAVE_WITHIN = 0.2
    app = worker.App("w", broker="kafka://127.0.0.1:1", **worker.SETTINGS)
    app.before_stop, app._stop_consumer = {before_stop}, {faust}
    await app.on_stop()
asyncio.run(stop())
"""


def stopped(before_stop: str, faust: str) -> tuple[int, dict[str, object]]:
    """Exit code and last line of a worker in which these hang."""
    code = START.format(before_stop=before_stop, faust=faust)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    return ended.returncode, json.loads(ended.stderr.splitlines()[-1])


def test_a_worker_whose_last_checkpoint_the_log_does_not_take_ends_with_code_75_and_says_so() -> None:
    code, line = stopped(before_stop="hangs", faust="nothing")
    assert (code, line["doing"]) == (75, "stopping")
    assert "the log did not take the last decisions and checkpoints within 0.2 s" in str(line["error"])


def test_a_worker_that_has_written_all_does_not_wait_for_ever_to_leave_the_group() -> None:
    code, line = stopped(before_stop="nothing", faust="hangs")
    assert (code, line["doing"], line["error"]) == (0, "leaving the group", "not done within 0.2 s")


END = """
import asyncio
from aiokafka import errors
from agents.app import log_reader, supervision
from streams.log.kafka_connection import KafkaConnection
async def ask():
    with supervision.guarded("recovering partitions"):
        {what}
asyncio.run(ask())
"""


@pytest.mark.parametrize(
    ("what", "code", "traced"),
    [
        ("await log_reader.committed(KafkaConnection('127.0.0.1:1'), 'g', [('t', 0)])", 75, False),
        ("async with log_reader.reader(KafkaConnection('127.0.0.1:1')): pass", 75, False),
        ("raise errors.NotLeaderForPartitionError('t')", 75, False),
        ("raise TimeoutError('no answer within 9 s')", 75, False),
        ("raise errors.UnsupportedVersionError('a broker of another age')", 75, True),
        ("raise AssertionError('the state holds a turn that never was')", 70, True),
    ],
)
def test_a_broker_that_is_away_ends_a_worker_with_a_sentence_and_a_fault_with_its_trace(
    what: str, code: int, traced: bool
) -> None:
    ended = subprocess.run([sys.executable, "-c", END.format(what=what)], capture_output=True, text=True, timeout=60, check=False)
    line = json.loads(ended.stderr.splitlines()[-1])
    assert (ended.returncode, line["exit"], "Traceback" in line["trace"]) == (code, code, traced)
    assert line["doing"] == "recovering partitions"
