"""Checks rights and topics before a worker starts: all exist, and have the same number of partitions. Creates changelogs.

It also learns how large a record each topic accepts. A decision beyond that is set aside as a dead letter, by name and size; a
checkpoint is written in parts that fit.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import structlog
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import TopicAlreadyExistsError, for_code

from agents.app import kafka_client_options
from agents.app.worker_plan import WorkerPlan
from streams import refused_records
from streams.codec import dead_letters, plan_attestations
from streams.compacted_copy import COPIES
from streams.errors import BadInput
from streams.log import kafka_errors
from streams.log.kafka_errors import Needs
from streams.log.log_port import MAX_RECORD_BYTES, NewRecord, size_of
from streams.topics import CLOCK, Topics, changelog_specs

FRAME = 1_024
"""Bytes that Kafka adds at most to a record that stands alone in its batch, for as many headers as ours have."""
_log = structlog.get_logger("ullage", component="worker")


class RecordBounds:
    """The bytes that each topic (wire name) accepts; an unknown topic accepts as much as ours."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._most: dict[str, int] = {}

    def learn(self, most: Mapping[str, int]) -> None:
        """These topics accept records of so many bytes, including framing."""
        self._most.update(most)

    def most(self, topic: str) -> int:
        """Bytes of key, value and headers that the topic accepts."""
        return min(self._most.get(topic, MAX_RECORD_BYTES), MAX_RECORD_BYTES) - FRAME

    def refusal(self, record: NewRecord) -> str | None:
        """Why the topic refuses a record for good; None if it accepts it."""
        size, most = size_of(record), self.most(record.topic)
        return None if size <= most else f"it has {size} bytes, and the topic takes {most}"

    def admissible(self, records: Sequence[NewRecord]) -> Sequence[NewRecord]:
        """The records, with a dead letter in the place of each that its topic refuses."""
        # As nearly always, and then the caller's list is not copied.
        if all(self.refusal(record) is None for record in records):
            return records
        return [letter for record in records for letter in self._admit(record)]

    def _admit(self, record: NewRecord) -> Iterable[NewRecord]:
        why = self.refusal(record)
        return [record] if why is None else self.letters(record, why)

    def letters(self, record: NewRecord, why: str) -> Sequence[NewRecord]:
        """The dead letter of a record; none if not even that would be accepted."""
        _log.error("the log never takes this record", **refused_records.name_of(record), bytes=size_of(record), reason=why)
        letter = dead_letters.refused_letter(record, why, topics=self._topics)
        return [letter] if size_of(letter) <= self.most(letter.topic) else []


async def ask(admin: Any, topics: Iterable[str]) -> dict[str, int]:
    """`max.message.bytes` of these topics. A topic whose settings we may not read is left out."""
    # Before anything is sent, because a refusal would break the order of an idempotent producer.
    wanted = [ConfigResource(ConfigResourceType.TOPIC, name, configs={"max.message.bytes": None}) for name in topics]
    most_bytes: dict[str, int] = {}
    for response in await admin.describe_configs(wanted):
        # aiokafka answers with plain tuples, in the order of Kafka's protocol, with more fields in later versions.
        for code, _message, _kind, name, entries in (resource[:5] for resource in response.resources):
            settings = {entry[0]: entry[1] for entry in entries} if not code else {}
            if settings.get("max.message.bytes"):
                most_bytes[name] = int(settings["max.message.bytes"])
    return most_bytes


async def check(plan: WorkerPlan) -> dict[str, int]:
    """Create the changelogs that are missing; returns the bytes of the largest record of each topic that a worker writes.

    Raises BadInput when the topics do not fit, LogUnavailable for missing rights.
    """
    # A missing right would leave the worker waiting for records that never come.
    await asyncio.to_thread(kafka_errors.require, plan.where, _needs(plan))
    admin = AIOKafkaAdminClient(**kafka_client_options.options(plan.where))
    await admin.start()
    try:
        counts = _counts(await admin.describe_topics(_needed(plan)))
        _check_counts(plan, counts)
        await _create(admin, plan, counts)
        return await ask(admin, [name for name in _needed(plan) if name not in (plan.topics.wire(CLOCK), *plan.inputs())])
    finally:
        await admin.close()


def _needs(plan: WorkerPlan) -> Needs:
    """The rights of a worker."""
    written = {plan.topics.wire(name) for stage in plan.stages for name in stage.writes} | set(_besides(plan))
    rules = [plan.topics.wire(name) for topic in ("rules", "policies") for name in (topic, COPIES[topic])]
    topics = {name: {"Write"} for name in (*written, *rules)}
    for name in (plan.topics.wire(CLOCK), *plan.inputs(), *rules):
        topics[name] = topics.get(name, set()) | {"Read"}
    changelogs = {plan.changelog(stage): {"Read", "Write"} for stage in plan.stages}
    return Needs(topics | changelogs, groups={plan.name: {"Read"}})


def _needed(plan: WorkerPlan) -> list[str]:
    written = [plan.topics.wire(name) for stage in plan.stages for name in stage.writes]
    changelogs = [plan.changelog(stage) for stage in plan.stages]
    return [plan.topics.wire(CLOCK), *plan.inputs(), *dict.fromkeys([*written, *_besides(plan)]), *changelogs]


def _besides(plan: WorkerPlan) -> list[str]:
    """What a worker writes for all its stages."""
    return [plan.topics.wire(name) for name in ("dead-letters", plan_attestations.TOPIC)]


def _counts(described: Sequence[Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """Numbers of partitions and of replicas of each topic that exists."""
    return {
        topic["topic"]: (len(topic["partitions"]), len(topic["partitions"][0]["replicas"]))
        for topic in described
        if topic["error_code"] == 0 and topic["partitions"]
    }


def _check_counts(plan: WorkerPlan, counts: Mapping[str, tuple[int, int]]) -> None:
    changelogs = {plan.changelog(stage) for stage in plan.stages}
    for topic in _needed(plan):
        # Faust would leave a topic that is missing at the start out for minutes.
        if topic not in counts and topic not in changelogs:
            raise BadInput(f"topic '{topic}' does not exist at Kafka '{plan.where.brokers}': run `ullage topics apply` first")
        wanted = 1 if topic == plan.topics.wire(CLOCK) else plan.topics.partitions
        partitions = counts[topic][0] if topic in counts else wanted
        # With unequal counts Faust would assign the inputs of one partition to different workers.
        if partitions != wanted:
            if wanted == 1:
                raise BadInput(f"topic '{topic}' has {partitions} partitions, but there is one order of ticks: it must have 1")
            raise BadInput(
                f"topic '{topic}' has {partitions} partitions, but topics.partitions is {plan.topics.partitions}: "
                "all topics of a worker must have the same number, or their turns never become complete"
            )


async def _create(admin: Any, plan: WorkerPlan, counts: Mapping[str, tuple[int, int]]) -> None:
    replicas = min(counts[topic][1] for topic in plan.inputs())
    specs = changelog_specs(plan.name, [stage.name for stage in plan.stages], plan.topics.partitions, replicas)
    new = [NewTopic(s.name, s.partitions, replicas, topic_configs=dict(s.configs)) for s in specs if s.name not in counts]
    if not new:
        return
    for name, code, *_ in (await admin.create_topics(new)).topic_errors:
        # Another worker that starts at the same moment may have made it.
        if code and for_code(code) is not TopicAlreadyExistsError:
            raise for_code(code)(f"creating changelog '{name}'")
