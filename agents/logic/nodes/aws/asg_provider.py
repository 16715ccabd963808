"""The groups as we know them from AWS, and the calls that refresh and change them.

Whatever needs AWS is a generator: it yields a `AwsCall`, is sent the answer (or an `ApiError` is thrown into it), and returns its
result. So the rules stay pure, in the order of upstream's calls, and the caller decides how to make the calls.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agents.logic.nodes.aws import group_specs, provider_ids
from agents.logic.nodes.aws.provider_ids import IdentityError

REFRESH_AFTER = 60.0
"""Seconds for which the groups are not asked for again."""
DESCRIBED_AT_ONCE = 100
CONFIGURATIONS_AT_ONCE = 50
UNFULFILLED = "placeholder-cannot-be-fulfilled"
DYING = frozenset(("Terminated", "Terminating", "Terminating:Wait", "Terminating:Proceed"))
OPT_OUT = "k8s.io/cluster-autoscaler-enabled"

FOR_EVER_AGO = float("-inf")


class ApiError(Exception):
    """AWS refused a call; the message is its code."""


class ProviderError(ValueError):
    """A change that is not requested, because it would be wrong; the message is upstream's."""


class NotImplementedHere(ProviderError):
    """A part of upstream's interface that AWS does not support."""

    def __init__(self) -> None:
        super().__init__("Not implemented")


@dataclass(frozen=True, slots=True)
class AwsCall:
    """A call to AWS, with those arguments that its kind has."""

    api: str
    group: str = ""
    names: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    desired: int = 0
    instance: str = ""


@dataclass(frozen=True, slots=True)
class AwsInstance:
    """An instance as AWS lists it."""

    name: str
    zone: str
    lifecycle: str = ""
    health: str | None = "Healthy"

    @property
    def provider_id(self) -> str:
        """The id that its node carries."""
        return provider_ids.provider_id(self.zone, self.name)


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """A group as DescribeAutoScalingGroups has it."""

    name: str
    least: int
    most: int
    desired: int
    zones: tuple[str, ...]
    instances: tuple[AwsInstance, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    launch_configuration: str = ""


@dataclass(frozen=True, slots=True)
class ScalingActivity:
    """A scaling activity; `at` in seconds on the clock that the caller uses."""

    at: float
    status: str


AsgAnswer = Sequence[DescribedGroup] | Sequence[ScalingActivity] | Mapping[str, str] | None
Asking = Generator[AwsCall, AsgAnswer, None]


@dataclass(slots=True)
class ManagedAsg:
    """A group that we manage. `listed` is None until AWS has listed it; `resized` is when we last set its size."""

    name: str
    least: int
    most: int
    explicit: bool
    size: int = 0
    described: DescribedGroup | None = None
    listed: tuple[AwsInstance, ...] | None = None
    resized: float = FOR_EVER_AGO

    def instances(self) -> tuple[AwsInstance, ...]:
        """Its instances, placeholders included."""
        if self.listed is None:
            raise ProviderError(f"error while looking for instances of ASG: {{{self.name}}}")
        return self.listed


@dataclass(frozen=True, slots=True)
class NodeRef:
    """A node as the provider needs it."""

    name: str
    provider_id: str
    annotations: Mapping[str, str] = field(default_factory=dict)


class AsgProvider:
    """All groups, from specs by hand and from tags. Source: asgCache and AwsManager in cloudprovider/aws."""

    def __init__(self, explicit: Iterable[group_specs.GroupSpec] = (), tags: Mapping[str, str] | None = None) -> None:
        self.groups = {one.name: ManagedAsg(one.name, one.least, one.most, explicit=True) for one in explicit}
        self.types: dict[str, str] = {}
        """The instance type of each group with a launch configuration."""
        self._tags = dict(tags or {})
        self._refreshed = FOR_EVER_AGO
        self._by_id: dict[str, tuple[ManagedAsg, AwsInstance]] = {}

    # Looking

    def group_of(self, node: NodeRef) -> ManagedAsg | None:
        """The group of a node, or None if it is not ours to manage."""
        try:
            provider_ids.instance_name(node.provider_id)
        except IdentityError:
            return None
        return self._owner(node.provider_id)

    def has_instance(self, node: NodeRef) -> bool:
        """Whether a node's instance is there. Raises ProviderError or IdentityError where upstream answers with an error."""
        if node.name.startswith("fargate"):
            raise NotImplementedHere
        if node.annotations.get(OPT_OUT) == "false":
            return False
        name = provider_ids.instance_name(node.provider_id)
        found = self._by_id.get(node.provider_id)
        if found is None:
            raise ProviderError(f"node is not present in aws: could not find instance {{{node.provider_id} {name}}}")
        if found[1].health is None:
            raise ProviderError("node is not present in aws: <nil>")
        return True

    # Refreshing

    def refresh(self, now: float) -> Asking:
        """Ask AWS for everything again, unless that was done within the last minute."""
        if now - self._refreshed >= REFRESH_AFTER:
            yield from self._regenerate()
            self._refreshed = now

    def _regenerate(self) -> Asking:
        described: list[DescribedGroup] = []
        names = [group.name for group in self.groups.values() if group.explicit]
        for start in range(0, len(names), DESCRIBED_AT_ONCE):
            call = AwsCall("DescribeAutoScalingGroups", names=tuple(names[start : start + DESCRIBED_AT_ONCE]))
            described += _groups((yield call))
        if self._tags:
            found = _groups((yield AwsCall("DescribeAutoScalingGroups", filters=tuple(group_specs.filters(self._tags)))))
            described += [one for one in found if one.name not in names]
        instances: dict[str, tuple[AwsInstance, ...]] = {}
        for one in described:
            instances[one.name] = one.instances + (yield from self._placeholders(one))
        for one in described:
            self._register(one, instances[one.name])
        self.groups = {n: g for n, g in self.groups.items() if g.explicit or n in instances}
        for name, group in self.groups.items():
            if name not in instances:
                group.listed = None
        self._by_id = {i.provider_id: (g, i) for g in self.groups.values() for i in g.listed or ()}
        yield from self._learn_types()

    def _placeholders(self, one: DescribedGroup) -> Generator[AwsCall, AsgAnswer, tuple[AwsInstance, ...]]:
        """Stand-ins for missing instances of a group, with a status that says whether AWS failed to make them."""
        missing = range(len(one.instances), one.desired)
        if not missing or not one.zones:
            return ()
        try:
            activities = _activities((yield AwsCall("DescribeScalingActivities", group=one.name)))
        except ApiError:
            activities = []
        health = UNFULFILLED if self._failed(one.name, activities) else ""
        return tuple(AwsInstance(provider_ids.placeholder(one.name, number), one.zones[0], "", health) for number in missing)

    def _failed(self, name: str, activities: Sequence[ScalingActivity]) -> bool:
        """Whether an activity since we last set the size failed; they come newest first. A new group is not judged yet."""
        group = self.groups.get(name)
        if group is None:
            return False
        for one in activities:
            if one.at < group.resized:
                return False
            if one.status == "Failed":
                return True
        return False

    def _register(self, one: DescribedGroup, instances: tuple[AwsInstance, ...]) -> None:
        group = self.groups.setdefault(one.name, ManagedAsg(one.name, one.least, one.most, explicit=False))
        if not group.explicit:
            group.least, group.most = one.least, one.most
        group.size, group.described, group.listed = one.desired, one, instances

    def _learn_types(self) -> Asking:
        """Ask for the launch configurations of groups whose type is not known."""
        wanted = [g.described for g in self.groups.values() if g.described is not None and g.name not in self.types]
        named = [(one.name, one.launch_configuration) for one in wanted if one.launch_configuration]
        for start in range(0, len(named), CONFIGURATIONS_AT_ONCE):
            batch = named[start : start + CONFIGURATIONS_AT_ONCE]
            try:
                answer = yield AwsCall("DescribeLaunchConfigurations", names=tuple(name for _group, name in batch))
            except ApiError:
                return
            types = answer if isinstance(answer, Mapping) else {}
            self.types.update({group: types[name] for group, name in batch if name in types})

    # Changing

    def increase(self, group: ManagedAsg, delta: int, now: float) -> Asking:
        """Let a group grow."""
        if delta <= 0:
            raise ProviderError("size increase must be positive")
        if group.size + delta > group.most:
            raise ProviderError(f"size increase too large - desired:{group.size + delta} max:{group.most}")
        yield from self._resize(group, group.size + delta, now)

    def decrease(self, group: ManagedAsg, delta: int, now: float) -> Asking:
        """Take back (a negative delta) what no instance exists for; placeholders count as existing, as upstream has it."""
        if delta >= 0:
            raise ProviderError("size decrease size must be negative")
        existing = len(group.instances())
        if group.size + delta < existing:
            sizes = f"targetSize:{group.size} delta:{delta} existingNodes: {existing}"
            raise ProviderError(f"attempt to delete existing nodes {sizes}")
        yield from self._resize(group, group.size + delta, now)

    def _resize(self, group: ManagedAsg, size: int, now: float) -> Asking:
        yield AwsCall("SetDesiredCapacity", group=group.name, desired=size)
        group.size, group.resized = size, now

    def delete(self, group: ManagedAsg, nodes: Sequence[NodeRef], now: float) -> Asking:
        """Terminate the instances of nodes and lower the group's size by as many. The minimum is looked at once, at first."""
        if group.size <= group.least:
            raise ProviderError("min size reached, nodes will not be deleted")
        for node in nodes:
            provider_ids.instance_name(node.provider_id)
            owner = self._owner(node.provider_id)
            if owner is None:
                raise ProviderError(f"{node.name} doesn't belong to a known asg")
            if owner.name != group.name:
                raise ProviderError(f"{node.name} belongs to a different asg than {group.name}")
        yield from self._delete_instances(group, [self._by_id[node.provider_id][1] for node in nodes], now)
        self._refreshed = FOR_EVER_AGO

    def _delete_instances(self, group: ManagedAsg, instances: Sequence[AwsInstance], now: float) -> Asking:
        """Placeholders first, all at once: the size becomes what AWS lists at that moment. Then one instance after the other."""
        if any(provider_ids.is_placeholder(one.name) for one in instances):
            found = _groups((yield AwsCall("DescribeAutoScalingGroups", names=(group.name,))))
            if not found:
                raise ProviderError(f"AWS does not list the group {group.name}")
            yield from self._resize(group, len(found[0].instances), now)
        for one in instances:
            if not provider_ids.is_placeholder(one.name) and one.lifecycle not in DYING:
                yield AwsCall("TerminateInstanceInAutoScalingGroup", instance=one.name)
                group.size -= 1

    def _owner(self, provider_id: str) -> ManagedAsg | None:
        found = self._by_id.get(provider_id)
        return None if found is None else found[0]


def _groups(answer: AsgAnswer) -> list[DescribedGroup]:
    return [one for one in answer if isinstance(one, DescribedGroup)] if isinstance(answer, Sequence) else []


def _activities(answer: AsgAnswer) -> list[ScalingActivity]:
    return [one for one in answer if isinstance(one, ScalingActivity)] if isinstance(answer, Sequence) else []
