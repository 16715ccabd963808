"""Checks, before a worker starts, that the log fits: every topic is there, all inputs with the same number of partitions.

Unequal counts would give the inputs of one partition to different workers, and no turn would ever be complete; a topic that is
missing at the start would be left out for minutes. Also makes the changelogs. Refuses to start otherwise, in a sentence.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import TopicAlreadyExistsError, for_code

from agents.app.plan import Plan
from streams.errors import BadInput

CHANGELOG = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 << 20),  # the active segment is never compacted, and a recovery reads it whole
    "segment.ms": "600000",
    "min.cleanable.dirty.ratio": "0.3",
    "delete.retention.ms": "3600000",
    "max.message.bytes": str(8 << 20),
}


async def check(plan: Plan) -> None:
    """Raises BadInput when the topics do not fit; makes the changelogs that are missing."""
    admin = AIOKafkaAdminClient(bootstrap_servers=plan.brokers)
    await admin.start()
    try:
        counts = _counts(await admin.describe_topics(_needed(plan)))
        _fit(plan, counts)
        await _make(admin, plan, counts)
    finally:
        await admin.close()


def _needed(plan: Plan) -> list[str]:
    written = [plan.topics.wire(name) for stage in plan.stages for name in stage.writes]
    changelogs = [plan.changelog(stage) for stage in plan.stages]
    return [*plan.inputs(), *dict.fromkeys([*written, plan.topics.wire("dead-letters")]), *changelogs]


def _counts(described: Sequence[Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """Partitions and replicas of each topic that exists."""
    return {
        topic["topic"]: (len(topic["partitions"]), len(topic["partitions"][0]["replicas"]))
        for topic in described
        if topic["error_code"] == 0 and topic["partitions"]
    }


def _fit(plan: Plan, counts: Mapping[str, tuple[int, int]]) -> None:
    changelogs = {plan.changelog(stage) for stage in plan.stages}
    for topic in _needed(plan):
        if topic not in counts and topic not in changelogs:
            raise BadInput(f"topic '{topic}' does not exist at {plan.brokers}: run `ullage topics apply` first")
        partitions = counts[topic][0] if topic in counts else plan.topics.partitions
        if partitions != plan.topics.partitions:
            raise BadInput(
                f"topic '{topic}' has {partitions} partitions, but topics.partitions is {plan.topics.partitions}: "
                "all topics of a worker must have the same number, or their turns never become complete"
            )


async def _make(admin: Any, plan: Plan, counts: Mapping[str, tuple[int, int]]) -> None:
    replicas = min(counts[topic][1] for topic in plan.inputs())
    missing = [name for name in map(plan.changelog, plan.stages) if name not in counts]
    if not missing:
        return
    new = [NewTopic(name, plan.topics.partitions, replicas, topic_configs=CHANGELOG) for name in missing]
    for name, code, *_ in (await admin.create_topics(new)).topic_errors:
        if code and for_code(code) is not TopicAlreadyExistsError:
            raise for_code(code)(f"creating changelog '{name}'")
