"""Topics planned and applied on a real broker."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from kafka import KafkaAdminClient

from agents import cli
from agents.run.stage_topics import stage_names
from streams.admin import topic_admin
from streams.errors import BadInput, LogUnavailable
from streams.log.kafka_connection import KafkaConnection
from streams.topics import Topics, TopicSpec, changelog_specs


@pytest.fixture
def client(broker: str) -> Iterator[KafkaAdminClient]:
    with topic_admin.connect(KafkaConnection(broker)) as client:
        yield client


def test_apply_makes_all_topics_and_a_second_plan_is_empty(client: KafkaAdminClient, prefix: str) -> None:
    wanted = [*Topics(prefix, 2).specs(), *changelog_specs(prefix, stage_names(), 2)]
    plan = topic_admin.plan(client, wanted)
    assert [(c.what, c.topic) for c in plan.changes] == [("topic", s.name) for s in wanted]
    topic_admin.apply(client, plan)
    again = topic_admin.plan(client, wanted)
    assert (again.changes, again.notes) == ((), ())
    topic_admin.apply(client, again)
    topic_admin.apply(client, plan)  # somebody applied the same plan in between: as good
    there = topic_admin.survey(client, [s.name for s in wanted])
    assert {name: e.partitions for name, e in there.items()} == {s.name: s.partitions for s in wanted}
    assert {s.name for s in wanted if s.partitions == 1} == {f"{prefix}.clock.v1"}
    assert there[f"{prefix}-updater-state-changelog"].configs["cleanup.policy"] == "compact"


def test_settings_that_drifted_are_listed_and_put_right(client: KafkaAdminClient, prefix: str) -> None:
    (spec,) = [s for s in Topics(prefix, 1).specs() if ".pod-metrics." in s.name]
    drifted = replace(spec, configs={**spec.configs, "retention.ms": "1000", "max.message.bytes": "2000"})
    topic_admin.apply(client, topic_admin.plan(client, [drifted]))
    plan = topic_admin.plan(client, [spec])
    assert [(c.what, c.before, c.after) for c in plan.changes] == [
        ("retention.ms", "1000", spec.configs["retention.ms"]),
        ("max.message.bytes", "2000", spec.configs["max.message.bytes"]),
    ]
    topic_admin.apply(client, plan)
    assert topic_admin.plan(client, [spec]).changes == ()


def wait_until_served(client: KafkaAdminClient, specs: Sequence[TopicSpec]) -> None:
    """The broker takes a moment to serve what the controller has accepted."""
    until = time.monotonic() + 60
    while topic_admin.plan(client, specs).changes and time.monotonic() < until:
        time.sleep(0.1)


def test_the_command_prints_a_plan_for_programs(
    client: KafkaAdminClient, broker: str, prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--brokers", broker, "--set", f"topics.prefix={prefix}", "--set", "topics.partitions=2"]
    topic_admin.apply(client, topic_admin.plan(client, Topics(prefix, 2).specs()))
    wait_until_served(client, Topics(prefix, 2).specs())
    assert cli.run(["topics", "plan", "-o", "json", *flags]) == 0
    changes = json.loads(capsys.readouterr().out)
    assert {change["topic"] for change in changes} == {spec.name for spec in changelog_specs("ullage", stage_names(), 2)}
    assert {(c["what"], c["before"], c["after"], c["danger"], c["possible"]) for c in changes} == {
        ("topic", None, "2 partitions", "", True)
    }


def test_destructive_changes_are_refused_whole_until_they_are_forced(client: KafkaAdminClient, prefix: str) -> None:
    (spec,) = [s for s in Topics(prefix, 1).specs() if ".rules.v1" in s.name]
    topic_admin.apply(client, topic_admin.plan(client, [spec]))
    wanted = replace(spec, partitions=3, configs={**spec.configs, "min.compaction.lag.ms": "0", "max.message.bytes": "9000000"})
    plan = topic_admin.plan(client, [wanted])
    with pytest.raises(BadInput, match=rf"--force {spec.name}:partitions --force {spec.name}:min\.compaction\.lag\.ms"):
        topic_admin.apply(client, plan)
    assert topic_admin.plan(client, [wanted]) == plan
    topic_admin.apply(client, plan, force=[f"{spec.name}:partitions", f"{spec.name}:min.compaction.lag.ms"])
    wait_until_served(client, [wanted])
    assert topic_admin.plan(client, [wanted]).changes == ()
    with pytest.raises(BadInput, match="cannot take partitions away"):
        topic_admin.apply(client, topic_admin.plan(client, [spec]), force=[spec.name])


def test_more_copies_than_brokers_are_told_with_the_brokers_answer(broker: str, prefix: str) -> None:
    with (
        pytest.raises(LogUnavailable, match=rf"creating topic '{prefix}\.clock\.v1'"),
        topic_admin.connect(KafkaConnection(broker)) as client,
    ):
        topic_admin.apply(client, topic_admin.plan(client, Topics(prefix, 1).specs(replication=3)))


def test_the_doctor_warns_of_topics_that_are_not_as_planned(
    client: KafkaAdminClient, broker: str, prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    specs = [*Topics(prefix, 1).specs(), *changelog_specs(prefix, stage_names(), 1)]
    topic_admin.apply(client, topic_admin.plan(client, specs))
    flags = ["--brokers", broker, "--set", f"topics.prefix={prefix}", "--set", "topics.partitions=1"]
    flags += ["--set", f"worker.name={prefix}", "--set", "cluster.kubeconfig=/no/such/file"]
    cli.run(["doctor", *flags])
    assert "not as planned" not in capsys.readouterr().out
    (outcomes,) = [spec for spec in specs if ".outcomes." in spec.name]
    drifted = replace(outcomes, configs={**outcomes.configs, "retention.ms": "60000"})
    topic_admin.apply(client, topic_admin.plan(client, [drifted]), force=[outcomes.name])
    cli.run(["doctor", *flags])
    assert f"warn  topics    not as planned: {outcomes.name}: retention.ms 60000 -> " in capsys.readouterr().out
