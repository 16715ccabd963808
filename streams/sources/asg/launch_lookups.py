"""How each group would start an instance: its launch template's version, its type and its size, looked up once and cached.

A version that is a number never changes. `$Default` and `$Latest` are looked up again after a minute. A refusal by AWS is cached
as a sentence for a minute, too. What else decides about a group at AWS is looked up here as well, a few groups at a time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Generic, TypeVar

import structlog

from streams.clients.aws import group_responses
from streams.clients.aws.aws_client import AwsClient
from streams.clients.aws.ec2_instances import InstanceSize, read_table
from streams.clients.aws.group_responses import (
    AutoScalingGroup,
    EksNodeGroup,
    TemplateReference,
    TemplateVersion,
    TypeRequirements,
)
from streams.errors import EdgeError, GiveUp

T = TypeVar("T")
MOVING = timedelta(minutes=1)
"""For how long the answer about a version that may move, and a refusal, are kept."""
MANAGED = timedelta(minutes=6)
"""For how long EKS's answer about a managed group is kept, a refusal, too; upstream's."""
SIZES = timedelta(hours=6)
"""For how long the list of instance types is kept."""
# Launch configurations and numbered versions cannot be changed once they are made.
_FOR_EVER = timedelta(days=3650)
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LaunchDetails:
    """What a group starts. `configured`: the type of its launch configuration. `template`: its own, or its mixed policy's.

    `fitting`: the first type that fits where the group demands attributes instead of a type. `version` names what a new instance
    would come from: `lt-0abc:7`, or the name of a launch configuration; `own_versions`: those of types with a template of their
    own. `failure`: why it is unknown. `managed`: EKS's description of the group; None if it is not EKS's, or EKS does not answer.
    """

    version: str = ""
    configured: str | None = None
    template: TemplateVersion | None = None
    fitting: str = ""
    own_versions: tuple[str, ...] = ()
    failure: str = ""
    managed: EksNodeGroup | None = None


@dataclass(frozen=True, slots=True)
class _Kept(Generic[T]):
    until: datetime
    value: T


class LaunchLookups:
    """The answers of one AWS account and region."""

    def __init__(self, client: AwsClient) -> None:
        self._client = client
        self._versions: dict[str, _Kept[TemplateVersion | None]] = {}
        self._configured: dict[str, _Kept[str | None]] = {}
        self._fitting: dict[tuple[str, str], _Kept[str]] = {}
        self._failures: dict[str, _Kept[str]] = {}
        self._managed: dict[tuple[str, str], _Kept[EksNodeGroup | None]] = {}
        self._sizes: _Kept[dict[str, InstanceSize]] | None = None

    def details(self, group: AutoScalingGroup, at: datetime) -> LaunchDetails:
        """How a group starts instances, as of `at`. Refusals by AWS are part of the answer."""
        failed = self._failures.get(group.name)
        if failed is not None and at < failed.until:
            return LaunchDetails(failure=failed.value)
        try:
            return replace(self._look_up(group, at), managed=self._managed_by_eks(group, at))
        except EdgeError as error:
            # Kept, so that one group whose template cannot be read does not delay the others in each look.
            self._failures[group.name] = _Kept(at + MOVING, str(error))
            _log.warning("a group's launch template cannot be read", group=group.name, error=str(error))
            return LaunchDetails(failure=str(error))

    def sizes(self, at: datetime) -> dict[str, InstanceSize]:
        """All instance types: the region's, merged over our own table; without the right to ask, the table alone."""
        if self._sizes is None or at >= self._sizes.until:
            try:
                self._sizes = _Kept(at + SIZES, read_table() | self._client.instance_sizes())
            except GiveUp as error:
                _log.warning("instance types come from our own table", error=str(error))
                # A missing right: it would be missing at each look.
                self._sizes = _Kept(at + SIZES, read_table())
            except EdgeError as error:
                _log.warning("instance types come from our own table for a minute", error=str(error))
                self._sizes = _Kept(at + MOVING, read_table())
        return self._sizes.value

    def _managed_by_eks(self, group: AutoScalingGroup, at: datetime) -> EksNodeGroup | None:
        """EKS's description of its group; None where it refuses, which does not affect anything else."""
        key = group_responses.managed_by(group.tags)
        if key is None:
            return None
        kept = self._managed.get(key)
        if kept is None or at >= kept.until:
            managed: EksNodeGroup | None = None
            try:
                managed = self._client.managed_group(*key)
            except EdgeError as error:
                _log.warning("a group goes without what EKS knows of its nodes", group=group.name, error=str(error))
            kept = self._managed[key] = _Kept(at + MANAGED, managed)
        return kept.value

    def _look_up(self, group: AutoScalingGroup, at: datetime) -> LaunchDetails:
        if group.launch_configuration:
            name = group.launch_configuration
            configured = _kept(
                self._configured, name, at, lambda: self._client.launch_configuration_types([name]).get(name), _FOR_EVER
            )
            return LaunchDetails(version=name, configured=configured)
        reference = group.template or (None if group.mixed is None else group.mixed.template)
        if reference is None:
            return LaunchDetails()
        template = self._version(reference, at)
        version = _key(reference, template)
        demanded = None if group.mixed is None or group.mixed.types else group.mixed.requirements
        if demanded is None and template is not None and not template.instance_type:
            demanded = template.requirements
        fitting = "" if demanded is None or template is None else self._first_fitting(template, demanded, at)
        own = () if group.mixed is None else group.mixed.own_templates
        versions = tuple(sorted({_key(other, self._version(other, at)) for other in own}))
        return LaunchDetails(version=version, template=template, fitting=fitting, own_versions=versions)

    def _version(self, reference: TemplateReference, at: datetime) -> TemplateVersion | None:
        # $Default and $Latest may move: a new version is to be seen as soon as instances would be started from it.
        keep = _FOR_EVER if reference.fixed else MOVING
        return _kept(self._versions, reference.key, at, lambda: self._client.launch_template(reference), keep)

    def _first_fitting(self, template: TemplateVersion, demanded: TypeRequirements, at: datetime) -> str:
        if not template.image:
            return ""
        key = template.image, repr(sorted(demanded.asked.items()))
        return _kept(self._fitting, key, at, lambda: self._client.first_fitting_type(template.image, demanded), SIZES)


def _key(reference: TemplateReference, version: TemplateVersion | None) -> str:
    """What a reference stands for: the template's id, and the number of the version."""
    return reference.key if version is None else f"{version.id}:{version.number}"


K = TypeVar("K")


def _kept(kept: dict[K, _Kept[T]], key: K, at: datetime, ask: Callable[[], T], keep: timedelta) -> T:
    """The cached answer, or a new one. A missing thing is looked up again soon."""
    answer = kept.get(key)
    if answer is None or at >= answer.until:
        value = ask()
        answer = kept[key] = _Kept(at + (MOVING if value is None else keep), value)
    return answer.value


# AWS names none of this where it describes a group: each is a call of its own, so it is asked for seldom, and few at a time.
PAUSE = timedelta(minutes=5)
"""Between two looks at the actions and policies of the account, and at the refreshes of a group."""
REFRESHING = timedelta(minutes=1)
"""Between two looks at a group whose instances are being replaced."""
BALANCING = "AZRebalance"
MOST_GROUPS = 5
"""Groups that one look asks about."""


@dataclass(slots=True)
class RivalControls:
    """What was found out last. `refreshing`: the groups whose instances AWS replaces now."""

    client: AwsClient
    refreshing: set[str] = field(default_factory=set)
    _rivals: dict[str, list[str]] = field(default_factory=dict)
    _asked: datetime | None = None
    _asked_group: dict[str, datetime] = field(default_factory=dict)
    _refusals: dict[str, str] = field(default_factory=dict)

    def look(self, groups: Sequence[AutoScalingGroup], at: datetime) -> None:
        """Ask AWS what is due. A refusal is told by `sentences`."""
        if self._asked is None or at - self._asked >= PAUSE:
            self._asked = at
            self._rivals = {}
            for what, ask in (
                ("scheduled action", self.client.scheduled_actions),
                ("scaling policy", self.client.scaling_policies),
            ):
                self._learn(what, ask)
        self._asked_group = {group.name: self._asked_group[group.name] for group in groups if group.name in self._asked_group}
        self.refreshing &= {group.name for group in groups}
        due = [group.name for group in groups if self._is_due(group.name, at)]
        due.sort(key=lambda name: self._asked_group.get(name, datetime.min.replace(tzinfo=at.tzinfo)))
        for name in due[:MOST_GROUPS]:
            self._asked_group[name] = at
            self._refresh(name)

    def sentences(self, groups: Sequence[AutoScalingGroup]) -> Iterator[str]:
        """What a user should know of these groups, and what could not be asked."""
        names = {group.name for group in groups}
        for name in sorted(self._rivals.keys() & names):
            yield f"group '{name}' has {' and '.join(self._rivals[name])}, which set its size beside Ullage"
        for group in groups:
            # AWS drains no instance that it ends to balance zones.
            if len(group.zones) > 1 and BALANCING not in group.suspended:
                ends = "AWS may end nodes of it without a drain"
                yield f"group '{group.name}' has {len(group.zones)} zones, and its process {BALANCING} is not suspended: {ends}"
        yield from self._refusals.values()

    def _is_due(self, group: str, at: datetime) -> bool:
        last = self._asked_group.get(group)
        return last is None or at - last >= (REFRESHING if group in self.refreshing else PAUSE)

    def _learn(self, what: str, ask: Callable[[], Mapping[str, Sequence[str]]]) -> None:
        try:
            for group, names in ask().items():
                self._rivals.setdefault(group, []).extend(f"the {what} '{name}'" for name in names)
            self._refusals.pop(what, None)
        except EdgeError as error:
            self._refusals[what] = f"nobody knows whether a group has a {what}: {error}"

    def _refresh(self, group: str) -> None:
        try:
            runs = self.client.refreshes(group)
            self._refusals.pop("refresh", None)
        except EdgeError as error:  # what was known last holds
            self._refusals["refresh"] = f"nobody knows whether AWS is replacing the instances of a group: {error}"
            return
        if runs != (group in self.refreshing):
            _log.info("AWS replaces instances of a group" if runs else "AWS has replaced instances of a group", group=group)
        (self.refreshing.add if runs else self.refreshing.discard)(group)
