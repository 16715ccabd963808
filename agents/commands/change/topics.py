"""Runs `ullage topics plan` and `apply`: compares the topics in Kafka with the wanted ones."""

from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata

import yaml

from agents.run.stage_topics import stage_names
from agents.settings import log_factory
from agents.settings.all_settings import Settings
from agents.terminal import output_table
from agents.terminal.output import note, sentence
from agents.terminal.output_table import TextForm
from streams import compacted_copy
from streams.admin import async_api, topic_admin
from streams.compacted_copy import COPIES
from streams.errors import BadInput
from streams.topics import TopicSpec, changelog_specs

_NOTHING = "nothing to do: all topics are as planned"


def plan(settings: Settings, form: TextForm = "table") -> None:
    """Print what `apply` would change. Raises BadInput for a log that is not in Kafka."""
    require_kafka(settings)
    with topic_admin.connect(log_factory.answering_connection(settings)) as client:
        planned = topic_admin.plan(client, wanted(settings))
    output_table.print_text(form, map(str, planned.changes), [asdict(change) for change in planned.changes])
    for remark in planned.notes:
        note(remark)
    note(f"{len(planned.changes)} changes; `ullage topics apply` makes them" if planned.changes else _NOTHING)


def describe(settings: Settings) -> None:
    """Print the AsyncAPI document of the topics of these settings."""
    whole = async_api.document(log_factory.topics(settings), metadata.version("ullage"))
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
    note(f"{len(planned.changes)} changes made" if planned.changes else _NOTHING)


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
