"""The changes that would bring the broker's topics into the wanted form, as data. It makes no request and changes nothing.

A change that can lose records or break keys names its danger in a sentence. Settings that we do not name stay as they are.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from streams.topics import TopicSpec

FOREVER = -1
NEW = "topic"
PARTITIONS = "partitions"


@dataclass(frozen=True, slots=True)
class ExistingTopic:
    """A topic as the broker has it: effective values, defaults included."""

    partitions: int
    replication: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopicChange:
    """One difference. `what` is "topic" (it is missing), "partitions" or a setting; `danger` is empty when it is safe."""

    topic: str
    what: str
    before: str | None
    after: str
    danger: str = ""
    possible: bool = True

    @property
    def name(self) -> str:
        """How `force` names it."""
        return f"{self.topic}:{self.what}"

    @property
    def destructive(self) -> bool:
        """Whether it is refused unless forced."""
        return bool(self.danger)

    def __str__(self) -> str:
        """One line for people."""
        line = f"{self.topic}: {self.what} {self.before or 'missing'} -> {self.after}"
        return f"{line} [{self.danger}]" if self.danger else line


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """All changes, in the order of the wanted topics, and notes on differences that stay as they are."""

    wanted: tuple[TopicSpec, ...]
    changes: tuple[TopicChange, ...]
    notes: tuple[str, ...] = ()

    def refused(self, force: Collection[str] = ()) -> tuple[TopicChange, ...]:
        """The changes that stand in the way: dangerous ones that `force` does not name, and those Kafka cannot do at all."""
        return tuple(c for c in self.changes if not c.possible or (c.destructive and not {c.name, c.topic} & set(force)))


def compare(wanted: Iterable[TopicSpec], existing: Mapping[str, ExistingTopic]) -> TopicPlan:
    """The plan that turns `existing` into `wanted`; it is empty when there is nothing to do."""
    specs = tuple(wanted)
    changes: list[TopicChange] = []
    notes: list[str] = []
    for spec in specs:
        topic = existing.get(spec.name)
        if topic is None:
            changes.append(TopicChange(spec.name, NEW, None, f"{spec.partitions} partitions"))
            continue
        changes += _partitions(spec, topic)
        changes += _configs(spec, topic)
        if spec.replication not in (-1, topic.replication):
            notes.append(
                f"{spec.name} has {topic.replication} copies, not {spec.replication}; moving them is a job for Kafka's own tools"
            )
    return TopicPlan(specs, tuple(changes), tuple(notes))


def _partitions(spec: TopicSpec, topic: ExistingTopic) -> Iterator[TopicChange]:
    if spec.partitions < topic.partitions:
        danger = "Kafka cannot take partitions away; delete the topic or take another prefix"
        yield TopicChange(spec.name, PARTITIONS, str(topic.partitions), str(spec.partitions), danger, possible=False)
    elif spec.partitions > topic.partitions:
        danger = "keys would move to other partitions, away from their state and their history"
        yield TopicChange(spec.name, PARTITIONS, str(topic.partitions), str(spec.partitions), danger)


def _configs(spec: TopicSpec, topic: ExistingTopic) -> Iterator[TopicChange]:
    for name, after in spec.configs.items():
        before = topic.configs.get(name)
        if before is None or not _same(name, before, after):
            yield TopicChange(spec.name, name, before, after, _danger(name, before, after))


def _same(name: str, before: str, after: str) -> bool:
    if name == "cleanup.policy":
        return _policies(before) == _policies(after)
    try:
        return float(before) == float(after)
    except ValueError:
        return before == after


def _policies(text: str) -> set[str]:
    return {part.strip() for part in text.split(",") if part.strip()}


def _danger(name: str, before: str | None, after: str) -> str:
    """Why a setting must not change by itself; empty when it may."""
    if before is None:
        return ""
    if name == "cleanup.policy":
        return _cleanup_danger(_policies(before), _policies(after))
    if name == "retention.ms" and _length(after) < _length(before):
        return "records older than that would be deleted"
    if name == "min.compaction.lag.ms" and int(after) < int(before):
        return "compaction would eat records and ticks that replay needs"
    if name == "max.message.bytes" and int(after) < int(before):
        return "larger records would be refused"
    return ""


def _length(milliseconds: str) -> float:
    return float("inf") if int(milliseconds) == FOREVER else int(milliseconds)


def _cleanup_danger(before: set[str], after: set[str]) -> str:
    if "compact" in after - before:
        return "compaction would eat all but the newest record of each key"
    if "delete" in after - before:
        return "records older than retention.ms would be deleted"
    if "compact" in before - after:
        return "without compaction the newest record of a key is no longer kept"
    return ""
