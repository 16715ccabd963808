"""Facts about groups, their instances and their failures, made from AWS's responses, and which of them the log has already.

What was published is read back at a start, so that a restart repeats nothing. The time of a fact is given.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from schemas.bounds import MOST_NODES
from schemas.facts.nodes import (
    NodeGroupGone,
    NodeGroupSeen,
    NodeInstanceGone,
    NodeInstanceSeen,
    NodeTemplateSeen,
    ScalingActivityFailed,
)
from schemas.units import Seconds
from schemas.well_known_labels import OPTION_TAG
from streams.clients.aws.ec2_instances import InstanceState
from streams.clients.aws.group_responses import AutoScalingGroup, GroupActivity, GroupInstance
from streams.log_context import LogContext
from streams.publishing import published_state
from streams.publishing.published_state import REPUBLISH_AFTER
from streams.sources.asg.launch_lookups import LaunchDetails

_MESSAGE = 2_000


def group_seen(  # noqa: PLR0913  # what is known of a group, by keyword
    cluster: str,
    group: AutoScalingGroup,
    launch: LaunchDetails,
    template: NodeTemplateSeen | str,
    at: datetime,
    *,
    refreshing: bool = False,
) -> NodeGroupSeen:
    """The fact about a group. `template` describes a new node of it, or is a sentence on why that is unknown."""
    template_seen = template if isinstance(template, NodeTemplateSeen) else None
    return NodeGroupSeen(
        at,
        cluster,
        group.name,
        group.least,
        min(group.most, MOST_NODES),  # AWS allows millions for a group without a real limit
        group.desired,
        template=template_seen,
        no_template=template if isinstance(template, str) else "",
        zones=group.zones,
        instance_types=_types(group, launch),
        options=_options(group.tags),
        spot=(group.mixed is not None and group.mixed.spot) or (launch.template is not None and launch.template.spot),
        launch_version=launch.version,
        own_versions=launch.own_versions,
        suspended=group.suspended,
        unscalable=group.unscalable,
        lifetime=Seconds(group.lifetime) if group.lifetime else None,
        rebalances=group.rebalances,
        refreshing=refreshing,
    )


def instance_seen(
    cluster: str, group: str, instance: GroupInstance, state: InstanceState | None, at: datetime
) -> NodeInstanceSeen:
    """The fact about an instance of a group; `state` is its state in EC2, if that was looked up."""
    version = instance.template.key if instance.template is not None else ""
    return NodeInstanceSeen(
        at,
        cluster,
        group,
        instance.id,
        # The provider id that AWS's cloud controller gives to the instance's node.
        f"aws:///{instance.zone}/{instance.id}",
        zone=instance.zone,
        lifecycle=instance.lifecycle,
        health=instance.health,
        instance_type=instance.type,
        launch_version=version,
        spot=state is not None and state.spot,
        protected=instance.protected,
        launched=None if state is None else state.launched,
    )


def activity_failed(cluster: str, group: str, activity: GroupActivity, at: datetime) -> ScalingActivityFailed:
    """The fact about an activity that failed."""
    return ScalingActivityFailed(
        at,
        cluster,
        group,
        activity.id,
        activity.code,
        activity.message[:_MESSAGE],
        instance_type=activity.instance_type,
        zone=activity.zone,
        started=activity.started,
    )


def _types(group: AutoScalingGroup, launch: LaunchDetails) -> tuple[str, ...]:
    """The types that a group may start, by preference, as far as they are known."""
    if group.mixed is not None and group.mixed.types:
        return group.mixed.types
    # As AWS decides: a launch configuration excludes a template, and demands count only where no type is named.
    first = launch.configured or (launch.template.instance_type if launch.template is not None else "") or launch.fitting
    return (first,) if first else ()


def _options(tags: Mapping[str, str]) -> dict[str, str]:
    return {key.removeprefix(OPTION_TAG): value for key, value in sorted(tags.items()) if key.startswith(OPTION_TAG)}


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
    # Also what stands unchanged for long, because readers begin only so far back.
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
