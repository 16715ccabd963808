"""The private parts of Kafka's two clients and of Faust that we use or replace are those that were read when we did.

A newer version may move them. Then a method that replaces one may lose state that the client has learnt to keep, as the leader
epoch of a position once was. So each has its signature here and, where we replace it or go by what it does, a digest of its text.
When this fails, read the new text first.
"""

import ast
import hashlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiokafka.consumer.fetcher
import faust
import faust.transport.consumer
import mode
import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection
from aiokafka.protocol.fetch import FetchRequest
from faust.sensors import Monitor
from faust.tables.manager import TableManager
from faust.tables.recovery import Recovery
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.net.manager import KafkaConnectionManager
from kafka.producer.sender import Sender
from kafka.protocol.consumer.offsets import ListOffsetsRequest
from kafka.record.memory_records import MemoryRecords

from agents.app import faust_internals, worker
from streams.log import record_batches
from streams.log.record_batches import FetchedRecords

ROOT = Path(__file__).parents[3]
Records: Any = Fetcher.PartitionRecords
REPLACED: dict[str, tuple[Callable[..., Any], str]] = {
    "kafka records": (Records._unpack_records, "a4a75c83fe53"),
    "kafka records' state": (Records.__init__, "2b10d943852f"),
    "kafka records' end": (Records.drain, "518386d03896"),
    "kafka position": (Fetcher._append, "e1ef650f91aa"),
    "kafka fetched data": (Fetcher._parse_fetched_data, "3297eb2fe645"),
    "kafka fetched records": (Fetcher.fetched_records, "24d131335e35"),
    "kafka sender": (Sender.force_close, "f589c29bdf1d"),
    "kafka metadata": (KafkaAdminClient._get_cluster_metadata, "90da1ed4ca60"),
    "kafka questions": (KafkaConnectionManager.send, "57feebdc47fd"),
    "aiokafka record": (aiokafka.consumer.fetcher.PartitionRecords._consumer_record, "eb26a87b0925"),
    "aiokafka requests": (aiokafka.consumer.fetcher.Fetcher._get_actions_per_node, "cbc515639044"),
    "aiokafka fetch": (aiokafka.consumer.fetcher.Fetcher._proc_fetch_request, "7ba996ef7098"),
    "aiokafka close": (AIOKafkaConnection.close, "c3b150583836"),
    "aiokafka routine": (aiokafka.consumer.fetcher.Fetcher._fetch_requests_routine, "7160550ba3fb"),
    "aiokafka records": (aiokafka.consumer.fetcher.PartitionRecords._unpack_records, "cd3e03d0481f"),
    "aiokafka request": (FetchRequest.__init__, "6d2db26db549"),
    "faust records": (Consumer._wait_next_records, "56b855132618"),
    "faust messages": (Consumer._to_message, "e20ceb92c6ec"),
    "faust thread": (Consumer._new_consumer_thread, "0bc8e7de1009"),
    "faust commit": (Consumer._commit, "a5121fa291ce"),
    "faust consumer of a thread": (AIOKafkaConsumerThread._create_worker_consumer, "f283c3eca62a"),
    "faust start of a thread": (AIOKafkaConsumerThread.on_start, "62a726b8a143"),
    "faust fetch": (AIOKafkaConsumerThread._fetch_records, "86a9aeddd3a9"),
    "faust recovery": (Recovery._build_highwaters, "ad91e7035255"),
    "faust tables": (TableManager.on_start, "c39281f83579"),
    "faust transport": (faust.App._new_transport, "fda75f3570ad"),
    "faust folders": (faust.App._create_directories, "205253adb946"),
    "faust monitor": (Monitor._sampler.fun, "d2de22271552"),
    "faust crash": (faust.App._crash, "afb86da7a29c"),
    "mode waits": (mode.Service.wait_first, "9fbd83128dfc"),
}
"""What we replace, wrap or go by, and a digest of its text."""
STATE = {
    **dict.fromkeys(("fetch_offset", "topic_partition", "metric_aggregator", "record_iterator", "on_drain"), "the client's own"),
    **dict.fromkeys(("records_read", "_next_inline_exception"), "the client's own"),
    **dict.fromkeys(("next_fetch_offset", "leader_epoch", "bytes_read"), "moved on with each batch"),
    "check_crcs": "always checked",
    **dict.fromkeys(
        ("isolation_level", "aborted_producer_ids", "aborted_transactions"), "no reader of ours leaves out the aborted"
    ),
}
"""What the client's records of a partition know, and what ours do about it."""
USED = {
    "streams/log/kafka_log.py": {"_sender"},
    "streams/log/leader_questions.py": {"_manager", "_get_cluster_metadata"},
    "streams/log/kafka_reader.py": {"_cluster", "_fetcher", "_next_partition_records"},
    "agents/app/faust_internals.py": {
        *("_commit", "_recovery", "_fetch_max_wait_ms", "_fetcher"),
        *("_get_actions_per_node", "_records", "_max_wait_ms", "_client", "_in_flight", "_pending_tasks"),
        *("_proc_fetch_request", "_conns"),
    },
}
"""Private names of others, by the files that use them."""


def digest(function: Callable[..., Any]) -> str:
    """Of a function's text without its spaces and comments."""
    text = inspect.cleandoc("\n" + inspect.getsource(function))
    return hashlib.sha256("".join(re.sub(r"(?m)^\s*#.*$", "", text).split()).encode()).hexdigest()[:12]


@pytest.mark.parametrize("part", REPLACED)
def test_what_we_replace_is_what_it_was(part: str) -> None:
    function, known = REPLACED[part]
    assert digest(function) == known, f"'{function.__qualname__}' has another text: read it, and what we make of it"


def test_the_records_of_a_partition_have_the_state_that_ours_keep() -> None:
    made = Records(0, TopicPartition("t", 0), MemoryRecords(b""))
    assert set(vars(made)) == set(STATE)
    ours = FetchedRecords(0, TopicPartition("t", 0), record_batches.guarded(MemoryRecords)(b""))
    assert set(vars(ours)) == set(vars(made))


def test_our_subclasses_replace_nothing_else() -> None:
    known = {function.__name__ for function, _ in REPLACED.values()} | {"sleep", "on_first_start", "on_stop", "__init__"}
    for ours in (
        *(FetchedRecords, faust_internals.QuickConsumer, faust_internals.QuickConsumerThread),
        *(faust_internals.SkippedTableRecovery, faust_internals.ReadyTableManager, worker.App, worker.IdleMonitor),
    ):
        theirs = ours.__mro__[1]
        replaced = {name for name, value in vars(ours).items() if callable(value) and hasattr(theirs, name)}
        assert replaced - {"__module__", "__doc__", "__classcell__", "logger", "log"} <= known, ours


def test_every_private_name_that_we_use_is_there() -> None:
    producer, consumer = inspect.getsource(KafkaProducer.__init__), inspect.getsource(KafkaConsumer.__init__)
    fetcher = inspect.getsource(aiokafka.consumer.fetcher.Fetcher.__init__)
    assert "self._sender = " in producer
    assert {"self._fetcher = ", "self._cluster = "} <= set(re.findall(r"self\._\w+ = ", consumer))
    assert "self._manager = " in inspect.getsource(KafkaAdminClient.__init__)
    assert ListOffsetsRequest().isolation_level == 0  # the end of what all replicas have, committed or not
    assert "self._next_partition_records = None" in inspect.getsource(Fetcher.__init__)
    assert "max_wait_ms=self.config['fetch_max_wait_ms']" in inspect.getsource(Fetcher)  # read anew for each request
    for name in ("_records", "_in_flight", "_pending_tasks", "_client"):
        assert f"self.{name} = " in fetcher, name
    assert "self._conns[(node_id, group)]" in inspect.getsource(AIOKafkaClient.send)
    request = inspect.getsource(FetchRequest.__init__)
    assert {"self._max_wait_ms = ", "self._min_bytes = "} <= set(re.findall(r"self\._\w+ = ", request))
    waits = inspect.getsource(aiokafka.AIOKafkaConsumer.__init__)
    assert "self._fetch_max_wait_ms = fetch_max_wait_ms" in waits
    kept = inspect.getsource(faust.transport.consumer)
    assert {"_buffered_partitions", "_read_offset"} <= set(re.findall(r"_\w+", kept))
    assert "_recovery" in inspect.getsource(TableManager)


def test_no_other_private_name_of_others_is_used() -> None:
    found: dict[str, set[str]] = {}
    for file in sorted([*(ROOT / "streams" / "log").glob("*.py"), *(ROOT / "agents" / "app").glob("*.py")]):
        names = set(private_names(ast.parse(file.read_text()))) - {"_exit"}  # of os
        if names:
            found[str(file.relative_to(ROOT))] = names
    assert found == USED


def private_names(tree: ast.AST) -> Iterator[str]:
    """Of attributes that begin with one underscore and belong to something else than the object itself or its parent."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and re.match(r"_[^_]", node.attr):
            owner = node.value
            parent = isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name) and owner.func.id == "super"
            if not parent and not (isinstance(owner, ast.Name) and owner.id in {"self", "cls"}):
                yield node.attr


def test_every_reader_takes_what_was_aborted_alike() -> None:
    """Or a command would see another log than the worker that decided."""
    assert KafkaConsumer.DEFAULT_CONFIG["isolation_level"] == "read_uncommitted"
    assert inspect.signature(aiokafka.AIOKafkaConsumer).parameters["isolation_level"].default == "read_uncommitted"
    assert "isolation_level" not in "".join(file.read_text() for file in (ROOT / "streams" / "log").glob("*.py"))
    assert not faust.App("unused").in_transaction
