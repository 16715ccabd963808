"""On a Kafka with TLS, passwords and access rules: what is told of each thing that is wrong, and that the rights of the docs do.

The rights are those of the table in docs/security.md, read from there: what the docs say is what is granted here.
"""

import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from agents.cli import run
from agents.demo.demo_settings import Day
from agents.run.stage_topics import stage_names
from schemas.outcomes import ActionFinished
from streams.admin import kafka_users, topic_admin
from streams.broker.preflight import free_ports
from streams.codec.event_codec import Codec, is_of_a_clock
from streams.errors import LogUnavailable
from streams.log.kafka_connection import KafkaConnection
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import NewRecord
from streams.topics import Topics, changelog_specs
from tests.support import ticks
from tests.support.commands import Commands
from tests.support.documented_rights import PREFIX, documented_rights, wire
from tests.support.secured_kafka import ADMIN, Grant, SecuredKafka, changed, secured_kafka

Ullage = Callable[..., tuple[int, str]]
USERS = (
    "topics",
    "worker",
    "clock",
    "simulated",
    "traces",
    "usage",
    "history",
    "kube",
    "resizer",
    "evictor",
    "status",
    "webhook",
    "operator",
    "reader",
    "nobody",
    "describer",
    "lesser",
    "metrics",
    "autoscalers",
    "asg",
    "nodes",
    "expander",
    "load",
    "mirror",
    "policies",
    "groupless",
    "planner",
)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with secured_kafka(tmp_path_factory.mktemp("secured"), USERS) as kafka:
        topics = Topics(PREFIX, 2)
        kafka.make_topics([*topics.specs(1), *changelog_specs(PREFIX, stage_names(), 2, 1)])
        documented = documented_rights()
        everything = f"{PREFIX}*"
        kafka.allow(
            {
                **documented,
                "groupless": [grant for grant in documented["worker"] if grant.resource != "group"],
                "planner": [Grant("Describe", "topic", everything), Grant("DescribeConfigs", "topic", everything)],
                "describer": [Grant("Describe", "topic", everything)],
            }
        )
        yield kafka


@dataclass
class Wrong:
    """Something wrong about a connection, and what must be said of it."""

    changes: dict[str, object]
    said: str
    waits: bool = False
    """Whether the client waits first, because what it meets may yet become a broker that speaks without TLS."""


NOT_KNOWN = "(log.security.username), or the password is wrong"
WRONGS = {
    "password": Wrong({"sasl_password": "guessed"}, f"does not know user 'admin' {NOT_KNOWN}"),
    "user": Wrong({"sasl_username": "mallory"}, f"does not know user 'mallory' {NOT_KNOWN}"),
    "mechanism": Wrong({"sasl_mechanism": "PLAIN"}, "does not take log.security.mechanism 'PLAIN', but SCRAM-SHA-512"),
    "no SASL": Wrong({"security_protocol": "SSL"}, "asks for a user and a password (SCRAM-SHA-512)"),
    "no TLS": Wrong(
        {"security_protocol": "SASL_PLAINTEXT"}, "it may speak TLS, and log.security.protocol is 'SASL_PLAINTEXT'", waits=True
    ),
    "nothing": Wrong(
        {"security_protocol": "PLAINTEXT"}, "it may speak TLS, and log.security.protocol is 'PLAINTEXT'", waits=True
    ),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if w.waits else []) for n, w in WRONGS.items()])
def test_what_is_wrong_with_who_we_are_is_said(kafka: SecuredKafka, name: str) -> None:
    wrong = WRONGS[name]
    assert wrong.said in _told(changed(kafka.connection(), **wrong.changes))


def test_a_certificate_of_a_stranger_names_the_file_that_does_not_know_it(kafka: SecuredKafka) -> None:
    told = _told(changed(kafka.connection(), ssl_cafile=str(kafka.stranger.file)))
    assert f"is not signed by an authority in '{kafka.stranger.file}'" in told
    assert "look at log.security.ca" in told
    assert "is not signed by an authority that this system trusts" in _told(changed(kafka.connection(), ssl_cafile=None))


def test_a_certificate_for_another_host_names_the_host(kafka: SecuredKafka) -> None:
    there = f"localhost:{kafka.broker.port}"
    assert f"the certificate of '{there}' is for another host than 'localhost'" in _told(
        changed(kafka.connection(), brokers=there)
    )
    with KafkaLog(changed(kafka.connection(), brokers=there, ssl_check_hostname=False)) as log:
        assert log.partitions(wire("control")) == 2


def test_tls_to_a_broker_without_it_is_said(broker: str) -> None:
    assert f"'{broker}' does not speak TLS with us" in _told(KafkaConnection(broker, "SSL"))
    assert f"'{broker}' asks for no user" in _told(KafkaConnection(broker, "SASL_PLAINTEXT", "PLAIN", "a", "b"))


def test_a_kafka_that_checks_no_rights_is_told_from_one_that_does(kafka: SecuredKafka, broker: str) -> None:
    assert kafka_users.checks_rights(kafka.connection())
    assert kafka_users.checks_rights(kafka.connection("nobody"))
    assert not kafka_users.checks_rights(KafkaConnection(broker))


def _told(where: KafkaConnection) -> str:
    with KafkaLog(where) as log, pytest.raises(LogUnavailable) as caught:
        log.partitions(wire("control"))
    with pytest.raises(LogUnavailable), topic_admin.connect(where) as client:
        topic_admin.survey(client, [wire("control")])
    return str(caught.value)


def test_each_use_of_the_log_names_the_right_and_the_topic_that_are_missing(kafka: SecuredKafka) -> None:
    topic = wire("control")
    with KafkaLog(kafka.connection("nobody")) as log, pytest.raises(LogUnavailable) as described:
        log.partitions(topic)
    with KafkaLog(kafka.connection("describer")) as log:
        assert log.end(topic, 0) >= 0
        with KafkaLog(kafka.connection()) as other:
            other.append([NewRecord(topic, 0, b"k", b"{}")])
        with pytest.raises(LogUnavailable) as read:
            log.poll({(topic, 0): 0}, wait=5.0)
        with pytest.raises(LogUnavailable) as written:
            log.append([NewRecord(topic, 0, b"k", b"{}")])
    for caught, user, right in ((described, "nobody", "Describe"), (read, "describer", "Read"), (written, "describer", "Write")):
        assert f"user '{user}' lacks the right {right} on topic '{topic}'" in str(caught.value)


def test_topics_whose_settings_are_hidden_are_no_reason_to_invent_changes(kafka: SecuredKafka) -> None:
    with pytest.raises(LogUnavailable, match=r"'describer' lacks the right Describe and DescribeConfigs on topic 'ullage"):
        _plan(kafka.connection("describer"))
    assert _plan(kafka.connection("topics")) == 0


def _plan(where: KafkaConnection) -> int:
    with topic_admin.connect(where) as client:
        return len(topic_admin.plan(client, Topics(PREFIX, 2).specs(1)).changes)


@pytest.fixture
def commands(kafka: SecuredKafka, tmp_path: Path) -> Iterator[Commands]:
    commands = Commands(kafka.broker.bootstrap, Topics(PREFIX, 2), tmp_path, kafka.settings())
    yield commands
    commands.close()


def as_user(name: str) -> list[str]:
    return ["--set", f"log.security.username={name}"]


@pytest.fixture
def ullage(
    kafka: SecuredKafka, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """A command that ends by itself, run here as a user: its exit code and all that it said."""
    for name, value in {**kafka.settings(), "TOPICS__PREFIX": PREFIX, "TOPICS__PARTITIONS": "2", "WORKER__NAME": PREFIX}.items():
        monkeypatch.setenv(f"ULLAGE_{name}", value)

    def command(user: str, *words: str) -> tuple[int, str]:
        code = run([*words, *as_user(user)])
        said = capsys.readouterr()
        return code, said.out + said.err

    return command


ENDING = {
    "settings": ["settings", "apply"],
    "status": ["status"],
    "tap": ["tap", "control", "--from", "begin"],
    "why": ["why", "nothing"],
    "replay": ["replay", "--verify"],
    "checkpoints": ["checkpoints", "show"],
    "mode": ["mode", "apply"],
    "pause": ["pause", "--reason", "a test"],
    "resume": ["resume"],
    "policy": ["policy", "list"],
    "topics": ["topics", "plan"],
    "history": ["source", "history"],
    "doctor": ["doctor"],
}


@pytest.mark.parametrize("name", ENDING)
def test_every_command_says_that_the_password_is_wrong_and_that_a_right_is_missing(
    ullage: Ullage, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    code, said = ullage("nobody", *ENDING[name])
    assert code == 1
    assert re.search(r"user 'nobody' lacks the right (Describe|Describe and DescribeConfigs) on (topic 'ullage|group)", said), (
        said
    )
    monkeypatch.setenv("ULLAGE_LOG__SECURITY__PASSWORD", "guessed")
    code, said = ullage("reader", *ENDING[name])
    assert code == 1
    assert "does not know user 'reader' (log.security.username), or the password is wrong" in said
    assert "guessed" not in said


def test_doctor_says_who_may_write_the_clock(ullage: Ullage) -> None:
    _, said = ullage(ADMIN, "doctor")
    assert re.search(
        r"warn +clock +User:clock, .*may write `clock`, and whoever may write it can stop every turn", " ".join(said.split())
    )


NOWHERE = ("--set", "cluster.url=http://127.0.0.1:1")
"""Without an address these would look for a kubeconfig first."""
LIVING = {
    "worker": ["worker"],
    "clock": ["source", "clock"],
    "simulated": ["source", "simulated", "--port", "0"],
    "usage": ["source", "usage", *NOWHERE],
    "kube": ["source", "kube", *NOWHERE],
    "consumer": ["consumer", "resizer", *NOWHERE],
}


@pytest.mark.timeout(300)
def test_every_process_says_that_a_right_is_missing_and_is_not_ready(commands: Commands, kafka: SecuredKafka) -> None:
    with KafkaLog(kafka.connection()) as log:  # something to read, or nobody would be refused
        log.append([NewRecord(wire("control"), partition, b"k", b"{}") for partition in range(2)])
    ports = dict(zip(LIVING, free_ports(len(LIVING)), strict=True))
    for name, words in LIVING.items():
        commands.start(name, *words, *as_user("describer"), "--set", f"metrics.port={ports[name]}")
    waiting = set(LIVING)
    until = time.monotonic() + 120
    while waiting and time.monotonic() < until:
        waiting -= {name for name in waiting if _refused(commands, name, ports[name])}
        time.sleep(0.5)
    assert not waiting, {name: commands.said(name)[-600:] for name in waiting}


def _refused(commands: Commands, name: str, port: int) -> bool:
    """Whether the process has said which right is missing, and is either gone with an error or not ready for that reason."""
    said = "user 'describer' lacks the right "
    if said not in commands.said(name):
        return False
    code = commands.running[name].poll()
    if code is not None:
        assert code in (1, 75), f"{name} ended with {code}"
        return True
    return said in _not_ready(port)


def _not_ready(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
            return ""
    except urllib.error.HTTPError as error:
        return error.read().decode()
    except OSError:
        return ""


def test_a_worker_that_may_not_use_its_group_says_so(commands: Commands) -> None:
    commands.start("worker", "worker", *as_user("groupless"))
    assert commands.running["worker"].wait(60) == 75
    assert "user 'groupless' lacks the right Read on group 'ullage'" in commands.said("worker")


def test_whoever_may_make_no_topic_in_the_cluster_is_told_so(ullage: Ullage) -> None:
    code, said = ullage("planner", "topics", "apply", "--set", f"topics.prefix={PREFIX}-new")
    assert code == 1
    assert re.search(r"user 'planner' lacks the right .*Create, Alter and AlterConfigs on topic 'ullage-new\.", said), said


NO_AWS = ("--set", "aws.region=eu-west-1", "--set", "aws.endpoint=http://127.0.0.1:1", "--set", "aws.timeout_seconds=1")
IDLE = {
    "metrics": (["consumer", "metrics-api", *NOWHERE, "--set", "metrics_api.port=0"], "at work"),
    "autoscalers": (["consumer", "autoscalers", *NOWHERE], "at work"),
    "asg": (["source", "asg", *NO_AWS, "--set", "aws.groups=1:3:workers"], '"AWS"'),
    "nodes": (["consumer", "asg", *NOWHERE, *NO_AWS], "at work"),
    "expander": (
        # the certificate is read, and nothing is asked
        ["consumer", "expander", "--set", "expander.url=127.0.0.1:1", "--set", f"expander.certificate={__file__}"],
        "at work",
    ),
    "load": (["source", "load", "--set", "prometheus.url=http://127.0.0.1:1"], '"Prometheus"'),
}
"""What each is started with, and what it says once it has read the log."""


def test_processes_that_find_no_cluster_here_need_no_more_of_the_log_than_the_docs_say(
    commands: Commands, kafka: SecuredKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KafkaLog(kafka.connection()) as log:
        ticks.append(log, Topics(PREFIX, 2), 1)  # something to read
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "made-up")
    for name, (words, _) in IDLE.items():
        commands.start(name, *words, *as_user(name))
    for name, (_, begun) in IDLE.items():
        commands.wait(lambda name=name, begun=begun: begun in commands.said(name), 90, f"{name} says '{begun}'")  # type: ignore[misc]  # bound now
    time.sleep(2)
    said = {name: commands.said(name) for name in IDLE}
    assert not [name for name in IDLE if "lacks the right" in said[name]], said


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_whole_pipeline_runs_with_the_rights_of_the_docs_and_no_others(
    commands: Commands, kafka: SecuredKafka, ullage: Ullage, monkeypatch: pytest.MonkeyPatch
) -> None:
    (port,) = free_ports(1)
    there = ["--set", f"cluster.url=http://127.0.0.1:{port}"]
    for words in (["topics", "apply"], ["topics", "plan"]):
        code, said = ullage("topics", *words)
        assert code == 0, said
        assert said.endswith("nothing to do: all topics are as planned\n")
    assert ullage("operator", "mode", "apply")[0] == 0
    assert ullage("operator", "policy", "set", "demo/*", "--mode", "InPlaceOrRecreate")[0] == 0
    day = Day(seed=7, seconds=200).settings() | {"clock.anchor_ms": time.time_ns() // 1_000_000 + 20_000}
    commands.told = {**kafka.settings(), **{name.replace(".", "__").upper(): str(value) for name, value in day.items()}}
    commands.start("simulated", "source", "simulated", "--port", str(port), *as_user("simulated"))
    commands.start("worker", "worker", *as_user("worker"))
    for name in ("resizer", "evictor", "status"):
        commands.start(name, "consumer", name, *there, *as_user(name))
    commands.start("clock", "source", "clock", "--in-step", *as_user("clock"))
    with KafkaLog(kafka.connection("reader")) as log:
        outcome = _first(log, commands)
    for name, value in commands.told.items():
        monkeypatch.setenv(f"ULLAGE_{name}", value)
    code, said = ullage("reader", "why", outcome)
    assert code == 0, said
    for words in (["status"], ["tap", "outcomes", "--from", "begin"], ["replay", "--verify"], ["checkpoints", "show"]):
        code, said = ullage("reader", *words)
        assert code == 0 or words[0] == "checkpoints", (words, said)  # nobody has a VPA here
        assert "lacks the right" not in said
    assert ullage("operator", "pause", "--reason", "a test")[0] == 0
    assert ullage("operator", "policy", "list")[0] == 0
    assert ullage("operator", "settings", "plan")[0] == 0
    code, said = ullage("operator", "settings", "apply", "--set", "updates.rate=99")
    assert code == 0, said
    code, said = ullage("reader", "doctor")
    assert "ok    topics    all" in said
    for name in commands.running:
        assert "lacks the right" not in commands.said(name), commands.said(name)
    assert all(process.poll() is None for process in commands.running.values())


def _first(log: KafkaLog, commands: Commands) -> str:
    """The decision that the first outcome is about."""
    topics = Topics(PREFIX, 2)
    codec, found = Codec(topics), list[str]()

    def look() -> bool:
        refused = [line for name in commands.running for line in commands.said(name).splitlines() if "lacks the right" in line]
        assert not refused, refused[-1]
        for partition in range(topics.partitions):
            for record in log.poll({(topics.wire("outcomes"), partition): 0}):
                event = None if is_of_a_clock(record) else codec.decode(record)
                found.extend([event.decision] if isinstance(event, ActionFinished) else [])
        return bool(found)

    commands.wait(look, 240, "there is an outcome")
    return found[0]


def test_every_user_of_the_docs_reads_its_own_topics_and_is_refused_at_all_others(kafka: SecuredKafka) -> None:
    names = [spec.name for spec in (*Topics(PREFIX, 2).specs(1), *changelog_specs(PREFIX, stage_names(), 2, 1))]
    with KafkaLog(kafka.connection()) as log:
        log.append([NewRecord(name, 0, b"key", b"{}") for name in names])

    def readable(user: str) -> set[str]:
        found = set()
        with KafkaLog(kafka.connection(user)) as log:
            for name in names:
                with suppress(LogUnavailable):
                    assert log.poll({(name, 0): 0}, wait=30.0, limit=1), (user, name)
                    found.add(name)
        return found

    for user, grants in documented_rights().items():
        own = [grant.name for grant in grants if (grant.operation, grant.resource) == ("Read", "topic")]
        assert readable(user) == {name for name in names if any(fnmatchcase(name, pattern) for pattern in own)}, user
