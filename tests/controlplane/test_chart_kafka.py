"""The Kafka of the chart asks who its clients are: what Helm renders is run here, with Kafka's own programs and our clients."""

import base64
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agents.run.stage_topics import stage_names
from streams.admin import kafka_users
from streams.broker import BrokerSettings, jars, preflight
from streams.broker.preflight import free_ports
from streams.errors import LogUnavailable
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import NewRecord
from streams.topics import Topics, changelog_specs
from tests.controlplane.chart_values import VALUES, pods, rendered
from tests.support.commands import ROOT
from tests.support.documented_rights import documented_rights

LOG4J = Path(jars.__file__).with_name("log4j2.properties")
QUICK = "-Xmx256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
EVERYTHING = {**VALUES["everything"], "kafka.kind": "single", "kafka.brokers": "", "kafka.single.storage": ""}
LARGE, SMALL = ({**EVERYTHING, "layout": layout} for layout in ("large", "small"))
LOGIN = "ullage-kafka"
"""The Secret by which the setup signs in."""
ROWS = {
    "clock": ("clock",),
    "worker": ("worker",),
    "source-kube": ("kube",),
    "source-usage": ("usage",),
    "source-load": ("load",),
    "source-asg": ("asg",),
    "consumer-status": ("status",),
    "consumer-resizer": ("resizer",),
    "consumer-evictor": ("evictor",),
    "consumer-asg": ("nodes",),
    "consumer-autoscalers": ("autoscalers",),
    "webhook": ("webhook",),
    "metrics-api": ("metrics",),
    "commands": ("operator", "reader"),
}
"""The rows of docs/security.md for each process of the large layout, and for people's commands."""
MAIN = {"kafka-storage.sh": "kafka.tools.StorageTool", "kafka-server-start.sh": "kafka.Kafka"}


@dataclass(frozen=True, slots=True)
class ChartKafka:
    """A broker as the chart runs it, and what processes are given to sign in."""

    address: str
    login: dict[str, bytes]
    authority: Path
    own: dict[str, bytes]
    said: Path
    folder: Path
    documents: list[Any]

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

    def of(self, process: str, documents: list[Any] | None = None) -> KafkaConnection:
        """As this process signs in, by the Secret of its pod in these documents, or in those that were installed."""
        secret = _secret(documents or self.documents, f"ullage-kafka-{process}")
        return self.connection(sasl_username=secret["username"].decode(), sasl_password=secret["password"].decode())

    def run(self, documents: list[Any], pod: str, *words: str) -> subprocess.CompletedProcess[str]:
        """A command as it runs in a pod of these documents: with its settings, environment and files."""
        spec = pods(documents)[pod]["spec"]
        container = [*spec.get("initContainers", []), *spec["containers"]][0]
        (settings,) = (d["data"]["ullage.yaml"] for d in documents if d["kind"] == "ConfigMap" and "ullage.yaml" in d["data"])
        (self.folder / "ullage.yaml").write_text(settings.replace("ullage-kafka.shop.svc:9092", self.address))
        (self.folder / "users.json").write_bytes(_secret(documents, "ullage-kafka-users")["users.json"])
        here = {"/etc/ullage/settings": self.folder, "/etc/ullage/users": self.folder, "/etc/ullage/kafka": self.folder / "login"}
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
        for entry in container["env"]:
            source = entry.get("valueFrom", {}).get("secretKeyRef")
            value = entry["value"] if source is None else self._given(documents, source["name"])[source["key"]].decode()
            environment[entry["name"]] = str(here.get(value, value))
        moved = [re.sub("|".join(here), lambda found: str(here[found[0]]), word) for word in words]
        command = [sys.executable, "-m", "agents", *moved]
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=120)

    def _given(self, documents: list[Any], secret: str) -> dict[str, bytes]:
        """A Secret as the cluster has it: that of the installation outlives all upgrades."""
        return self.login if secret == LOGIN else _secret(documents, secret)

    def set_up(self, documents: list[Any]) -> str:
        """What the Job of the chart says when it makes topics and users."""
        (job,) = (name for name in pods(documents) if name.startswith("ullage-setup-"))
        steps = {each["name"]: each["args"] for each in pods(documents)[job]["spec"]["initContainers"]}
        done = [self.run(documents, job, *steps[name]) for name in ("topics", "users")]
        assert [each.returncode for each in done] == [0, 0], [each.stderr for each in done]
        return done[1].stdout


def _secret(documents: list[Any], name: str) -> dict[str, bytes]:
    (found,) = (d for d in documents if d["kind"] == "Secret" and d["metadata"]["name"] == name)
    text = {key: value.encode() for key, value in found.get("stringData", {}).items()}
    return {key: base64.b64decode(value) for key, value in found["data"].items()} | text


@pytest.fixture(scope="module")
def kafka(helm: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChartKafka]:
    """The container's command, with its folders, ports and host in place of those of a pod."""
    folder = tmp_path_factory.mktemp("chart-kafka")
    documents = rendered(helm, "shop", LARGE)
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
    classpath = jars.classpath(jars.ensure(BrokerSettings().cache), jars.locked())
    (folder / "bin").mkdir()
    for name, program in MAIN.items():
        run = f"{preflight.find_java()} {QUICK} -Dlog4j2.configurationFile={LOG4J.as_uri()} -cp {classpath} {program}"
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
            made = ChartKafka(f"localhost:{port}", login, folder / "login" / "ca.crt", own, folder / "said", folder, documents)
            made.set_up(documents)
            yield made
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_processes_of_the_chart_sign_in_and_its_log_is_not_open(kafka: ChartKafka) -> None:
    with KafkaLog(kafka.of("worker")) as log:
        assert log.partitions("ullage.control.v1") == 4
    assert kafka_users.checks_rights(kafka.connection())


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


TOPICS = [spec.name for spec in (*Topics("ullage", 4).specs(1), *changelog_specs("ullage", stage_names(), 4, 1))]


def written(connection: KafkaConnection) -> set[str]:
    """The topics into which this user could put a record."""
    done = set()
    with KafkaLog(connection) as log:
        for topic in TOPICS:
            with suppress(LogUnavailable):
                log.append([NewRecord(topic, 0, b"key", b"{}")])
                done.add(topic)
    return done


def documented(*rows: str) -> set[str]:
    """The topics that these rows of docs/security.md may write."""
    rights = documented_rights()
    return {grant.name for row in rows for grant in rights[row] if (grant.operation, grant.resource) == ("Write", "topic")}


def test_every_process_has_a_user_of_its_own(kafka: ChartKafka) -> None:
    deployed = {d["metadata"]["name"].removeprefix("ullage-") for d in kafka.documents if d["kind"] == "Deployment"}
    assert deployed == ROWS.keys()
    for name in deployed:
        secrets = secrets_of(pods(kafka.documents)[f"ullage-{name}"]["spec"])
        assert secrets == {f"ullage-kafka-{name}"}


@pytest.mark.parametrize("process", ROWS)
def test_a_process_may_write_the_topics_of_its_row_and_is_refused_at_all_others(kafka: ChartKafka, process: str) -> None:
    assert written(kafka.of(process)) == documented(*ROWS[process])


def test_a_second_setup_changes_nothing_and_one_of_another_layout_leaves_no_right_behind(kafka: ChartKafka, helm: Path) -> None:
    assert kafka.set_up(kafka.documents) == ""
    small = rendered(helm, "shop", SMALL)
    said = kafka.set_up(small)
    assert "user 'ullage-kafka-clock' may no longer sign in\n" in said
    with pytest.raises(LogUnavailable, match="does not know user 'ullage-kafka-clock'"), KafkaLog(kafka.of("clock")) as log:
        log.partitions(TOPICS[0])
    rows = [row for name, own in ROWS.items() if name not in {"webhook", "metrics-api", "commands"} for row in own]
    assert written(kafka.of("worker", small)) == documented(*rows)
    assert written(kafka.of("webhook", small)) == documented("webhook", "metrics")
    kafka.set_up(kafka.documents)
    assert written(kafka.of("worker")) == documented("worker")


def test_people_command_where_they_are_given_a_user_and_nowhere_else(kafka: ChartKafka) -> None:
    words = ("mode", "apply", "--reason", "a test", "--config", "/etc/ullage/settings/ullage.yaml")
    done = kafka.run(kafka.documents, "ullage-commands", *words)
    assert done.returncode == 0, done.stderr
    for process in ("worker", "webhook", "source-kube"):
        refused = kafka.run(kafka.documents, f"ullage-{process}", *words)
        assert refused.returncode == 1
        assert f"user 'ullage-kafka-{process}' lacks the right" in refused.stderr
    assert kafka.run(kafka.documents, "ullage-commands", "status", *words[-2:]).returncode == 0


def secrets_of(pod: dict[str, Any]) -> set[str]:
    """The Secrets of Kafka that a pod is given, as files or in its environment."""
    mounted = {volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
    containers = [*pod.get("initContainers", []), *pod["containers"]]
    named = {entry["valueFrom"]["secretKeyRef"]["name"] for each in containers for entry in each["env"] if "valueFrom" in entry}
    return {name for name in mounted | named if name.startswith("ullage-kafka")}


def test_only_the_broker_and_the_setup_are_given_a_login_that_may_do_everything(helm: Path) -> None:
    documents = rendered(helm, "shop", VALUES["tried out, kept"])
    (settings,) = (d["data"]["ullage.yaml"] for d in documents if d["kind"] == "ConfigMap" and "ullage.yaml" in d["data"])
    assert "protocol: SASL_SSL" in settings
    everything = {"ullage-kafka", "ullage-kafka-broker", "ullage-kafka-users"}
    (setup,) = (name for name in pods(documents) if name.startswith("ullage-setup-"))
    given = {name: secrets_of(pod["spec"]) for name, pod in pods(documents).items() if name != "ullage-kafka"}
    assert {name for name, secrets in given.items() if secrets & everything} == {setup}
    assert all(given.values())
