import socket
import subprocess
import sys
from pathlib import Path

import pytest

from streams.broker import Broker, BrokerSettings, broker_process, broker_settings, preflight
from streams.errors import BadInput, LogUnavailable

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_port_somebody_listens_on_is_busy_and_a_free_one_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(LogUnavailable) as caught:
            preflight.check_port(port)
    assert str(caught.value) == (
        f"port {port} on 127.0.0.1 cannot be used (Address already in use): stop what uses it, choose another, "
        "or 0 for any free one (`ullage broker --port`)"
    )
    preflight.check_port(port)


def test_free_ports_differ() -> None:
    ports = preflight.free_ports(5)
    assert len(set(ports)) == 5
    for port in ports:
        preflight.check_port(port)


def test_a_full_disk_says_how_much_is_left_and_wanted(tmp_path: Path) -> None:
    preflight.check_space(tmp_path, 100, free=lambda _folder: 100)
    with pytest.raises(LogUnavailable, match=rf"data folder '{tmp_path}' has 99 MB left and the broker wants 100: make room, or"):
        preflight.check_space(tmp_path, 100, free=lambda _folder: 99)
    assert preflight.free_mb(tmp_path) > 0


def test_a_data_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LogUnavailable, match=r"data folder '.*/file/kafka' cannot be made \(Not a directory\): choose another"):
        broker_process.make_folder(tmp_path / "file" / "kafka")


def test_a_data_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_process.os, "access", lambda *_: False)
    with pytest.raises(LogUnavailable, match=rf"data folder '{tmp_path}' cannot be written: choose another with broker.data, or"):
        broker_process.make_folder(tmp_path)


def test_a_folder_another_process_has_locked_is_refused_until_it_lets_go(tmp_path: Path) -> None:
    logs = tmp_path / "log"
    logs.mkdir()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(logs / ".lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(LogUnavailable, match=rf"another Kafka is at work in '{tmp_path}': use that one \(log.brokers\), stop it"):
        preflight.check_unlocked(logs, wait=0.0)
    holder.communicate("")
    preflight.check_unlocked(logs, wait=0.0)


def test_a_folder_that_was_never_used_is_not_locked(tmp_path: Path) -> None:
    preflight.check_unlocked(tmp_path / "log", wait=0.0)


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_cannot_be_is_refused(port: int) -> None:
    with pytest.raises(BadInput, match=f"port {port} is none: a port is between 0"):
        BrokerSettings(port=port)


def test_a_heap_no_kafka_starts_with_is_refused() -> None:
    with pytest.raises(BadInput, match="a heap of 64 MB is too small: Kafka needs at least 128"):
        BrokerSettings(heap_mb=64)


def test_a_cluster_id_never_looks_like_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([b"\xf8" + bytes(15), bytes(16)])
    monkeypatch.setattr(broker_settings.secrets, "token_bytes", lambda _count: next(drawn))
    assert broker_settings.cluster_id() == "A" * 22


def test_the_broker_listens_on_loopback_only_and_makes_no_topics_by_accident() -> None:
    text = broker_settings.server_properties(port=1000, controller=1001, logs=Path("/data/log"))
    settings = dict(line.split("=", 1) for line in text.splitlines())
    assert settings["listeners"] == "CLIENTS://127.0.0.1:1000,CONTROLLER://127.0.0.1:1001"
    assert settings["auto.create.topics.enable"] == "false"
    assert settings["log.dirs"] == "/data/log"
    assert settings["controller.quorum.voters"] == "1@127.0.0.1:1001"


def test_a_broker_that_does_not_run_has_no_process_and_can_be_stopped() -> None:
    broker = Broker(BrokerSettings(port=9092))
    assert broker.bootstrap == "127.0.0.1:9092"
    assert not broker.running
    with pytest.raises(LogUnavailable, match=r"the broker on 127\.0\.0\.1:9092 does not run"):
        _ = broker.pid
    broker.close()


def test_a_folder_that_cannot_be_used_is_named_before_anything_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ensure(*_about: object, **_more: object) -> Path:
        raise AssertionError("jars were fetched for a broker that cannot start")

    monkeypatch.setattr("streams.broker.jars.ensure", ensure)
    with pytest.raises(LogUnavailable, match="make room, or choose another folder"):
        Broker(BrokerSettings(data=tmp_path / "kafka", min_free_mb=1 << 40)).start()
    with pytest.raises(AssertionError, match="jars were fetched"):
        Broker(BrokerSettings(data=tmp_path / "kafka")).start()
