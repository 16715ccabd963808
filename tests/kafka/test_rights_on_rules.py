"""A source that somebody took over commands nothing, on a Kafka with access rules: it may not write what people decide.

What it writes where it may is set aside with the reason, and ends no worker.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from agents.run.pipeline import stages
from agents.run.rules_in_log import rules_of
from agents.run.stage_topics import RECOMMENDER, UPDATER, stage_names
from agents.settings.all_settings import Settings
from schemas import times
from schemas.catalogue import CATALOGUE, Event
from schemas.names import Workload
from schemas.policies.control import RevertEnded, RevertRequested
from schemas.policies.vertical import UpdateMode, VerticalPolicyChanged, VerticalPolicyRemoved
from streams.codec.event_codec import Codec, is_of_a_clock
from streams.codec.headers import header
from streams.errors import LogUnavailable
from streams.log.kafka_log import KafkaLog
from streams.log.log_port import NewRecord, Record
from streams.topics import Topics, changelog_specs
from tests.support import ticks
from tests.support.commands import Commands
from tests.support.documented_rights import PREFIX, documented_rights, wire
from tests.support.secured_kafka import SecuredKafka, secured_kafka

T0 = 1_700_000_000_000
AT = times.from_ms(T0)
COMMANDED = ("rules", "rules-latest", "control", "control-latest")
"""The topics of what people decide, and their copies."""
NOT_SOURCES = {"topics", "worker", "operator", "mirror", "policies"}
"""`mirror` and `policies` are sources that are told to obey objects of the cluster."""
WEB = Workload("demo", "web", "Deployment", "api")
TOPICS = Topics(PREFIX, 2)


def of_other_rules() -> Event:
    """Rules of the updater that another version of the program would decide by."""
    updater = next(stage for stage in stages(Settings()) if stage.name == UPDATER.name)
    rules = rules_of(replace(updater, program=updater.program + 1), AT)
    assert rules is not None
    return rules


FORGED = (
    of_other_rules(),
    VerticalPolicyChanged(AT, "demo/*", "forged", UpdateMode.RECREATE),
    VerticalPolicyRemoved(AT, "demo/*"),
    RevertRequested(AT, WEB, AT, {}, {}, "forged"),
    RevertEnded(AT, WEB),
)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    rights = documented_rights()
    with secured_kafka(tmp_path_factory.mktemp("secured"), ("worker", "kube")) as kafka:
        kafka.make_topics([*TOPICS.specs(1), *changelog_specs(PREFIX, stage_names(), 2, 1)])
        kafka.allow({user: rights[user] for user in ("worker", "kube")})
        yield kafka


@pytest.fixture
def commands(kafka: SecuredKafka, tmp_path: Path) -> Iterator[Commands]:
    commands = Commands(kafka.broker.bootstrap, TOPICS, tmp_path, kafka.settings())
    yield commands
    commands.close()


def test_no_source_and_no_consumer_has_a_right_to_command() -> None:
    wires = {wire(name) for name in COMMANDED}
    users = {
        user
        for user, grants in documented_rights().items()
        if any(grant.operation == "Write" and grant.resource == "topic" and grant.name in wires for grant in grants)
    }
    assert users == NOT_SOURCES
    for event in FORGED:
        assert set(CATALOGUE.of(type(event)).topics) <= set(COMMANDED)


@pytest.mark.parametrize("name", COMMANDED)
def test_the_broker_refuses_what_a_source_would_command(kafka: SecuredKafka, name: str) -> None:
    with KafkaLog(kafka.connection("kube")) as log, pytest.raises(LogUnavailable) as refused:
        log.append([NewRecord(wire(name), 0, b"stage/updater", b"{}")])
    assert re.search(rf"user 'kube' lacks the right (Describe|Write) on topic '{wire(name)}'", str(refused.value))


@pytest.mark.timeout(240)
def test_commands_among_what_a_source_mirrors_end_no_worker_and_become_dead_letters(
    kafka: SecuredKafka, commands: Commands
) -> None:
    codec = Codec(TOPICS)
    commands.start("worker", "worker", "--set", "log.security.username=worker")
    commands.wait(lambda: '"found":"nothing"' in commands.said("worker"), 90, "the worker has its partitions")
    with KafkaLog(kafka.connection()) as log, KafkaLog(kafka.connection("kube")) as taken_over:
        _tick(log, 1)
        for event in FORGED:
            taken_over.append(codec.encode_for_all(event, topic="policies", key="forged", source="/ullage/source/kube"))
        for number in (2, 3):
            _tick(log, number)
        wanted = 2 * len(FORGED)
        commands.wait(lambda: len(_set_aside(log, RECOMMENDER.name)) >= wanted, 90, "each is a dead letter in each partition")
        said = {orjson.loads(record.value or b"")["reason"].partition(", but")[0] for record in _set_aside(log, RECOMMENDER.name)}
        assert said == {f"the ce_type is '{CATALOGUE.of(type(event)).wire}'" for event in FORGED}
        _tick(log, 4)
        commands.wait(lambda: commands.running["worker"].poll() is None, 1)


def _tick(log: KafkaLog, number: int) -> None:
    ticks.append(log, TOPICS, T0 + 500 * number)


def _set_aside(log: KafkaLog, stage: str) -> list[Record]:
    """The dead letters of one stage."""
    place = {(wire("dead-letters"), partition): 0 for partition in range(TOPICS.partitions)}
    letters = (record for record in log.poll(place, limit=10_000) if not is_of_a_clock(record))
    return [record for record in letters if stage in (header(record, "ce_source") or "")]
