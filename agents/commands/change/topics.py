"""Runs `ullage topics plan`, `apply`, `asyncapi` and `users`: compares the topics in Kafka with the wanted ones.

`python -m agents.commands.change.topics > deploy/helm/ullage/files/topics.json` writes the topics as the Helm chart reads them,
which makes Strimzi's KafkaTopic objects from it. A test fails when that file differs.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

import yaml

from agents.run.stage_topics import stage_names
from agents.settings import log_factory
from agents.settings.all_settings import Settings
from agents.terminal import output_table
from agents.terminal.output import data, note, sentence
from agents.terminal.output_table import TextForm
from schemas.units import counted
from streams import compacted_copy
from streams.admin import async_api, kafka_users, topic_admin
from streams.compacted_copy import COPIES
from streams.errors import BadInput
from streams.topics import TOPICS, KeySpace, Topics, TopicSpec, changelog_specs

_NOTHING = "nothing to do: all topics are as planned"


def plan(settings: Settings, form: TextForm = "table") -> None:
    """Print what `apply` would change. Raises BadInput for a log that is not in Kafka."""
    require_kafka(settings)
    with topic_admin.connect(log_factory.answering_connection(settings)) as client:
        planned = topic_admin.plan(client, wanted(settings))
    output_table.print_text(form, map(str, planned.changes), [asdict(change) for change in planned.changes])
    for remark in planned.notes:
        note(remark)
    note(f"{counted(len(planned.changes), 'change')}; `ullage topics apply` makes them" if planned.changes else _NOTHING)


def describe(settings: Settings) -> None:
    """Print the AsyncAPI document of the topics of these settings."""
    whole = async_api.document(log_factory.topics(settings), metadata.version("ullage"))
    # libyaml where it is built in, because it is many times as fast
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    for line in yaml.dump(whole, Dumper=dumper, sort_keys=False, width=130, allow_unicode=True).splitlines():
        sentence(line)


def apply(settings: Settings, *, force: Sequence[str]) -> None:
    """Make the changes. Those that lose something are refused unless `force` names them. Raises BadInput as `plan` does."""
    require_kafka(settings)
    with topic_admin.connect(log_factory.answering_connection(settings), right=topic_admin.CHANGE) as client:
        planned = topic_admin.plan(client, wanted(settings))
        topic_admin.apply(client, planned, force=force)
    for change in planned.changes:
        sentence(str(change))
    with log_factory.log(settings) as log:
        # readers take a complete copy instead of its topic, so one that began empty would hide what was published before it
        completed = [name for name in COPIES if compacted_copy.complete(log, log_factory.topics(settings), name)]
    for name in completed:
        sentence(f"{log_factory.topics(settings).wire(COPIES[name])}: copied what is in force")
    note(f"{counted(len(planned.changes), 'change')} made" if planned.changes else _NOTHING)


def require_kafka(settings: Settings) -> None:
    """Raises BadInput for a log that is not in Kafka."""
    if settings.log.kind != "kafka":
        raise BadInput(
            f"log.kind is '{settings.log.kind}': only Kafka's topics are planned and made, and a log in a file needs none"
        )


def wanted(settings: Settings) -> tuple[TopicSpec, ...]:
    """All topics of these settings, with the changelogs of the stages."""
    count, copies = settings.topics.partitions, settings.topics.replication
    return (*log_factory.topics(settings).specs(copies), *changelog_specs(settings.worker.name, stage_names(), count, copies))


def apply_users(settings: Settings, file: Path, *, beginning: str) -> None:
    """Make them. Raises BadInput for a log that is not in Kafka and a file that says no users."""
    require_kafka(settings)
    users = kafka_users.read(file)
    with topic_admin.connect(log_factory.answering_connection(settings), right=kafka_users.RIGHT) as client:
        changes = kafka_users.apply(client, users, beginning=beginning)
    for change in changes:
        sentence(change)
    note(f"{counted(len(users), 'user')}, {counted(len(changes), 'change')}")


_APP = "ullage"
"""The worker group of the chart, after which changelogs are named."""


def helm_topics() -> str:
    """A JSON list: what follows the prefix (of a changelog, the whole name), whether it is a changelog, and how it is made."""
    ours = Topics()
    topics = [
        {
            "suffix": ours.wire(topic.name).removeprefix(f"{ours.prefix}."),
            "changelog": False,
            # the clock has one partition, however many the others have
            **({"partitions": 1} if topic.keyed is KeySpace.CLOCK else {}),
            "config": dict(topic.configs()),
        }
        for topic in TOPICS
    ]
    changelogs = [
        {"suffix": spec.name, "changelog": True, "config": dict(spec.configs)} for spec in changelog_specs(_APP, stage_names(), 1)
    ]
    return json.dumps([*topics, *changelogs], indent=1)


if __name__ == "__main__":
    for line in helm_topics().splitlines():
        data(line)
