"""The settings of node groups on AWS: where AWS is, which groups are ours, and how their nodes are taken away."""

from typing import Annotated

from pydantic import Field

from agents.settings.settings_group import SettingsGroup


class AwsSettings(SettingsGroup):
    """Node groups on AWS Auto Scaling Groups: `ullage source asg` and `ullage consumer asg`."""

    region: Annotated[str, Field(pattern=r"^[a-z0-9-]+$", max_length=63)] | None = None
    """The region; unset means AWS_REGION, else what the SDK finds (AWS_DEFAULT_REGION, the profile)."""
    endpoint: str | None = None
    """Where AWS's API answers; unset means AWS itself. A private endpoint, or a double of the API in tests."""
    groups: tuple[str, ...] = ()
    """Groups by name, with bounds that count instead of AWS's own: `min:max:name`; upstream's nodes."""
    discovery: tuple[str, ...] = ()
    """Groups by tags: `asg:tag=KEY,KEY=VALUE`, all of which a group must carry; upstream's node-group-auto-discovery."""
    prices: str | None = None
    """A CSV file with what nodes cost for an hour, by type of instance (`type,on_demand,spot`); for the expander `price`."""
    interruption_queue: str = ""
    """The URL of the SQS queue into which EventBridge puts what AWS announces of instances (docs/nodes.md); empty for none."""
    refresh_seconds: Annotated[float, Field(ge=1, le=3600)] = 5.0
    """Seconds between two looks at the groups when all of them have what they want."""
    busy_seconds: Annotated[float, Field(ge=0.2, le=3600)] = 1.0
    """... and while one of them has not, so that a failure becomes known within a second or two."""
    timeout_seconds: Annotated[float, Field(gt=0, le=300)] = 10.0
    """Seconds that AWS may take for each answer; each call is made three times at most."""
    protect_instances: bool = True
    """Whether instances are protected from being chosen by their own group, so that only a decision of ours ends one."""


class NodeDrainSettings(SettingsGroup):
    """How a node is emptied before its instance is terminated."""

    cordon: bool = True
    """Whether the node is cordoned besides being tainted; upstream's cordon-node-before-terminating."""
    delay_seconds: Annotated[float, Field(ge=0, le=3600)] = 5.0
    """Seconds from the taint to the first eviction, for the scheduler to see it; upstream's node-delete-delay-after-taint."""
    gone_margin_seconds: Annotated[float, Field(ge=0, le=3600)] = 30.0
    """Seconds beyond its grace period that a pod may take to be gone."""
    hooks_seconds: Annotated[float, Field(ge=0, le=3600)] = 120.0
    """Seconds that `delay-deletion` annotations may hold a node up; upstream's node-deletion-delay-timeout."""
    evictions: Annotated[int, Field(ge=1, le=100)] = 8
    """Pods of one node whose evictions are asked for at the same time."""
