"""The Kafka of the chart asks who its clients are: what Helm renders is run here, with Kafka's own programs and our clients."""

import base64
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from streams.broker import BrokerSettings, jar_lock, jars, java
from streams.broker.preflight import free_ports
from streams.errors import LogUnavailable
from streams.log import open_log
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from tests.controlplane.chart_values import VALUES, rendered

LOG4J = Path(jars.__file__).with_name("log4j2.properties")
QUICK = "-Xmx256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
MAIN = {"kafka-storage.sh": "kafka.tools.StorageTool", "kafka-server-start.sh": "kafka.Kafka"}


@dataclass(frozen=True, slots=True)
class ChartKafka:
    """A broker as the chart runs it, and what processes are given to sign in."""

    address: str
    login: dict[str, bytes]
    authority: Path
    own: dict[str, bytes]
    said: Path

    def connection(self, **changed: Any) -> KafkaConnection:
        """As a process of the chart connects."""
        words = {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_username": self.login["username"].decode(),
            "sasl_password": self.login["password"].decode(),
            "ssl_cafile": str(self.authority),
        }
        return KafkaConnection(self.address, **{**words, **changed})


def _secret(documents: list[Any], name: str) -> dict[str, bytes]:
    (found,) = (d for d in documents if d["kind"] == "Secret" and d["metadata"]["name"] == name)
    text = {key: value.encode() for key, value in found.get("stringData", {}).items()}
    return {key: base64.b64decode(value) for key, value in found["data"].items()} | text


@pytest.fixture(scope="module")
def kafka(helm: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChartKafka]:
    """The container's command, with its folders, ports and host in place of those of a pod."""
    folder = tmp_path_factory.mktemp("chart-kafka")
    documents = rendered(helm, "shop", VALUES["tried out"])
    (container,) = next(d for d in documents if d["kind"] == "StatefulSet")["spec"]["template"]["spec"]["containers"]
    port, controller = free_ports(2)
    here = {
        "/etc/ullage-kafka-login": str(folder / "login"),
        "/etc/ullage-kafka": str(folder / "broker"),
        "/opt/kafka/bin": str(folder / "bin"),
        "/var/lib/kafka/data": str(folder / "data"),
        "/tmp/": f"{folder}/",  # noqa: S108  # the container's own
        "ullage-kafka.shop.svc:9092": f"localhost:{port}",
        "://:9092": f"://127.0.0.1:{port}",
        "127.0.0.1:9093": f"127.0.0.1:{controller}",
    }

    def moved(text: str) -> str:
        return re.sub("|".join(map(re.escape, here)), lambda found: here[found[0]], text)

    for name, secret in (("broker", "ullage-kafka-broker"), ("login", "ullage-kafka")):
        (folder / name).mkdir()
        for key, value in _secret(documents, secret).items():
            (folder / name / key).write_text(moved(value.decode()))
    classpath = jars.classpath(jars.ensure(BrokerSettings().cache), jar_lock.read())
    (folder / "bin").mkdir()
    for name, program in MAIN.items():
        run = f"{java.find()} {QUICK} -Dlog4j2.configurationFile={LOG4J.as_uri()} -cp {classpath} {program}"
        (folder / "bin" / name).write_text(f'#!/bin/bash\nexec {run} "$@"\n')
        (folder / "bin" / name).chmod(0o700)
    *shell, script = container["command"]
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(  # the chart's own command
            [*shell, moved(script)], stdout=said, stderr=said, start_new_session=True, env={"PATH": os.environ["PATH"]}
        )
        try:
            until = time.monotonic() + 300
            while "Kafka Server started" not in (text := (folder / "said").read_text()):
                assert process.poll() is None, text[-3000:]
                assert time.monotonic() < until, text[-3000:]
                time.sleep(0.2)
            login, own = (_secret(documents, name) for name in ("ullage-kafka", "ullage-kafka-broker"))
            yield ChartKafka(f"localhost:{port}", login, folder / "login" / "ca.crt", own, folder / "said")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_processes_of_the_chart_sign_in_and_its_log_is_not_open(kafka: ChartKafka) -> None:
    with closing(KafkaAdminClient(**kafka.connection().options())) as admin:
        admin.create_topics([NewTopic("ullage.control.v1", 2, 1)])
    with KafkaLog(kafka.connection()) as log:
        assert log.partitions("ullage.control.v1") == 2
    assert open_log.checks_rights(kafka.connection())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"security_protocol": "PLAINTEXT", "sasl_mechanism": None, "sasl_username": None, "sasl_password": None},
            "may speak TLS",
        ),
        ({"sasl_password": "guessed"}, "does not know user 'ullage'"),
        ({"ssl_cafile": None}, "is not signed by an authority that this system trusts"),
    ],
)
def test_whoever_has_no_login_and_whoever_trusts_another_broker_is_refused(
    kafka: ChartKafka, changed: dict[str, Any], said: str
) -> None:
    with KafkaLog(kafka.connection(**changed)) as log, pytest.raises(LogUnavailable) as refused:
        log.partitions("ullage.control.v1")
    assert said in str(refused.value)


def test_the_brokers_log_has_no_password_and_no_key_of_one(kafka: ChartKafka) -> None:
    said = kafka.said.read_text()
    assert "storedKey" not in said
    for secret in (kafka.login, kafka.own):
        assert secret["password"].decode() not in said


def test_every_process_of_the_chart_is_given_the_login_and_only_the_broker_its_own(helm: Path) -> None:
    documents = rendered(helm, "shop", VALUES["tried out, kept"])
    (settings,) = (d["data"]["ullage.yaml"] for d in documents if d["kind"] == "ConfigMap" and "ullage.yaml" in d["data"])
    assert "protocol: SASL_SSL" in settings
    for document in documents:
        if document["kind"] not in {"Deployment", "Job"}:
            continue
        pod = document["spec"]["template"]["spec"]
        secrets = {volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
        assert "ullage-kafka" in secrets, document["metadata"]["name"]
        assert "ullage-kafka-broker" not in secrets, document["metadata"]["name"]
