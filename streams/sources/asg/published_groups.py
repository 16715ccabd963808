"""What the asg source published: read back from the log at a start, so that a restart repeats nothing."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from schemas.facts.node_groups import (
    NodeGroupGone,
    NodeGroupSeen,
    NodeInstanceGone,
    NodeInstanceSeen,
    ScalingActivityFailed,
)
from streams.log_context import LogContext
from streams.publishing import published_state
from streams.publishing.published_state import REPUBLISH_AFTER

TOPIC = "node-group-changes"
_Fact = TypeVar("_Fact", NodeGroupSeen, NodeInstanceSeen)


@dataclass(slots=True)
class PublishedGroups:
    """By name or id: the newest fact of each group and instance, and the failed activities that were published."""

    groups: dict[str, NodeGroupSeen] = field(default_factory=dict)
    instances: dict[str, NodeInstanceSeen] = field(default_factory=dict)
    activities: dict[str, datetime] = field(default_factory=dict)

    def group_is_news(self, fact: NodeGroupSeen) -> bool:
        """Whether a fact is new, or was last published long ago. It then counts as published."""
        return _is_news(self.groups, fact.group, fact)

    def instance_is_news(self, fact: NodeInstanceSeen) -> bool:
        """As `group_is_news`."""
        return _is_news(self.instances, fact.instance, fact)

    def apply(self, event: object) -> None:
        """Apply a fact from the log."""
        match event:
            case NodeGroupSeen():
                self.groups[event.group] = event
            case NodeGroupGone():
                self.groups.pop(event.group, None)
            case NodeInstanceSeen():
                self.instances[event.instance] = event
            case NodeInstanceGone():
                self.instances.pop(event.instance, None)
            case ScalingActivityFailed():
                self.activities[event.activity] = event.at
            case _:
                pass

    def forget_activities(self, before: datetime) -> None:
        """Forget failures that AWS is not asked for any more."""
        self.activities = {name: at for name, at in self.activities.items() if at >= before}


def _is_news(published: dict[str, _Fact], name: str, fact: _Fact) -> bool:
    before = published.get(name)
    news = before is None or replace(before, at=fact.at) != fact or fact.at - before.at >= REPUBLISH_AFTER
    if news:
        published[name] = fact
    return news


def read_published(context: LogContext) -> PublishedGroups:
    """What the log has of the context's cluster. Raises LogUnavailable."""
    published = PublishedGroups()
    for record in published_state.newest(context.log, *context.cluster_partition(TOPIC), published_state.MOST):
        event = context.codec.decode_or_none(record)
        if getattr(event, "cluster", None) == context.cluster:
            published.apply(event)
    return published
