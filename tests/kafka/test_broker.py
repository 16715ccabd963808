import contextlib
import itertools
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from streams.broker import Broker, BrokerSettings, broker_process, preflight
from streams.errors import LogUnavailable
from streams.topics import TOPICS, Topics


def _make_topic(bootstrap: str, name: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1)])
    admin.close()


def _produce(bootstrap: str, topic: str, *values: bytes) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    for value in values:
        producer.send(topic, value, partition=0).get(timeout=60)
    producer.close()


def _values(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=20_000)
    consumer.assign([TopicPartition(topic, 0)])
    values = [record.value for record in itertools.islice(consumer, count)]
    consumer.close()
    return values


def _ends(pid: int, within: float = 30.0) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        until = time.monotonic() + within
        while time.monotonic() < until:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
            time.sleep(0.1)
        return False
    return True


def _small(data: Path) -> BrokerSettings:
    return BrokerSettings(data=data, heap_mb=256, quick=True)


def test_the_data_survives_a_stop_and_a_kill(tmp_path: Path, embedded: Broker) -> None:
    assert embedded.running
    with Broker(_small(tmp_path / "kafka")) as broker:
        where = broker.bootstrap
        _make_topic(where, "kept")
        _produce(where, "kept", b"one", b"two")
        broker.stop()
        assert not broker.running
        broker.start()
        assert broker.bootstrap == where
        _produce(where, "kept", b"three")
        first = broker.pid
        broker.kill()
        assert _ends(first)
        broker.start()
        assert _values(where, "kept", 3) == [b"one", b"two", b"three"]
    assert (tmp_path / "kafka" / "log" / "meta.properties").exists()


def test_what_the_broker_writes_is_for_its_owner_alone(tmp_path: Path, embedded: Broker) -> None:
    assert embedded.running
    before = os.umask(0)  # the most careless that a shell may be
    try:
        with Broker(_small(tmp_path / "kafka")) as broker:
            _make_topic(broker.bootstrap, "private")
            _produce(broker.bootstrap, "private", b"secret")
            made = [tmp_path / "kafka", *(tmp_path / "kafka").rglob("*")]
            rights = {path: stat.S_IMODE(path.stat().st_mode) for path in made if path.exists()}
    finally:
        os.umask(before)
    assert len(rights) > 20
    assert {path.name: oct(mode) for path, mode in rights.items() if mode & 0o077} == {}
    assert rights[tmp_path / "kafka" / "server.properties"] == 0o600
    assert rights[tmp_path / "kafka" / "log"] == rights[tmp_path / "kafka"] == 0o700


def test_a_second_broker_on_the_same_data_is_refused(tmp_path: Path, embedded: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_process, "_LOCK_WAIT", 0.0)
    with pytest.raises(LogUnavailable, match=r"another Kafka is at work in '.*': use that one"):
        Broker(_small(embedded.data)).start()
    assert embedded.running
    assert not list(tmp_path.iterdir())


def test_a_second_broker_on_the_same_port_is_refused(tmp_path: Path, embedded: Broker) -> None:
    settings = BrokerSettings(data=tmp_path / "kafka", port=embedded.port, heap_mb=256, quick=True)
    with pytest.raises(LogUnavailable, match=rf"port {embedded.port} on 127.0.0.1 cannot be used"):
        Broker(settings).start()


def test_of_two_brokers_that_race_for_a_port_one_says_that_it_is_taken(embedded: Broker) -> None:
    assert embedded.running
    (port,) = preflight.free_ports(1)
    racers = [Broker(BrokerSettings(port=port, heap_mb=256, quick=True)) for _ in range(2)]
    said: list[str] = []

    def start(broker: Broker) -> None:
        try:
            broker.start()
        except LogUnavailable as error:
            said.append(str(error))

    threads = [threading.Thread(target=start, args=(broker,)) for broker in racers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    running = [broker.running for broker in racers]
    for broker in racers:
        broker.close()
    assert sorted(running) == [False, True]
    assert [sentence.partition(" (")[0] for sentence in said] == [f"port {port} on 127.0.0.1 cannot be used"]


def test_a_broker_on_a_full_disk_is_refused_and_leaves_no_folder(embedded: Broker) -> None:
    assert embedded.running
    broker = Broker(BrokerSettings(min_free_mb=1 << 40))
    with pytest.raises(LogUnavailable, match=r"MB left and the broker wants 1099511627776: make room, or") as caught:
        broker.start()
    folder = re.search(r"'(/.*/ullage-broker-\w+)'", str(caught.value))
    assert folder is not None
    assert not Path(folder[1]).exists()


def test_no_topic_is_made_by_accident(broker: str) -> None:
    consumer = KafkaConsumer(bootstrap_servers=broker)
    assert consumer.partitions_for_topic("no-such-topic") in (None, set())
    assert "no-such-topic" not in consumer.topics()
    consumer.close()


def test_our_topics_can_be_made_as_the_table_says(broker: str, topics_made: Callable[..., Topics]) -> None:
    topics = topics_made(partitions=3)
    admin = KafkaAdminClient(bootstrap_servers=broker)
    described = {t["name"]: len(t["partitions"]) for t in admin.describe_topics([topics.wire(t.name) for t in TOPICS])}
    admin.close()
    assert described == {topics.wire(t.name): topics.count(t.name) for t in TOPICS}
    assert sorted(set(described.values())) == [1, 3]  # the clock has one partition


_PARENT = """
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # who is started in the background may have inherited "ignore"
from streams.broker import Broker, BrokerSettings
broker = Broker(BrokerSettings(heap_mb=256, quick=True)).start()
print(broker.pid, broker.data, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_no_java_and_no_data_outlive_a_parent_that_dies(how: signal.Signals, embedded: Broker) -> None:
    assert embedded.running
    parent = subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert parent.stdout is not None
    pid, data = parent.stdout.readline().split()
    assert psutil.Process(int(pid)).name() == "java"
    parent.send_signal(how)
    try:
        parent.communicate(timeout=60)
    finally:
        parent.kill()
    assert _ends(int(pid))
    until = time.monotonic() + 60
    while os.path.exists(data) and time.monotonic() < until:  # noqa: PTH110  # a path given as text by another process
        time.sleep(0.1)
    assert not Path(data).exists()


def test_a_killed_keeper_takes_java_with_it(tmp_path: Path, embedded: Broker) -> None:
    assert embedded.running
    if sys.platform != "linux":
        pytest.skip("the kernel does this on Linux only")
    with Broker(_small(tmp_path / "kafka")) as broker:
        pid = broker.pid
        keeper = psutil.Process(pid).parent()
        assert keeper is not None
        keeper.kill()
        assert _ends(pid)
        broker.stop()
        assert not broker.running


def test_a_folder_that_cannot_be_formatted_says_what_the_tool_said(tmp_path: Path, embedded: Broker) -> None:
    assert embedded.running
    (tmp_path / "log").write_text("not a folder")
    with pytest.raises(
        LogUnavailable, match=r"formatting the broker's data folder '.*' did not work: .*log directories to format"
    ):
        Broker(_small(tmp_path)).start()


def test_a_broker_that_dies_while_starting_says_what_kafka_said(tmp_path: Path, embedded: Broker) -> None:
    assert embedded.running
    data = tmp_path / "kafka"
    (data / "log").mkdir(parents=True)
    (data / "log" / "meta.properties").write_text("version=1\nnode.id=7\ncluster.id=xxxxxxxxxxxxxxxxxxxxxx\n")
    with pytest.raises(LogUnavailable, match=r"Kafka ended while it started\. The last it wrote to '.*broker\.log' was: .*node"):
        Broker(_small(data)).start()
