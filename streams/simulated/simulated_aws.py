"""A simulated AWS: Auto Scaling Groups whose instances take time to start, behind the SDK's own calls.

`AwsClient` takes it in place of the SDK's clients, so the real source and the real consumer run on it. Its time is the cluster's.
It refuses what AWS refuses: sizes out of bounds, instances that no group has. A group in a shortage starts nothing and reports a
failed activity each minute. A group that has more instances than it wants ends the oldest ones that are not protected, as AWS
does. Nothing else changes a size, and nothing replaces an instance that works.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

from schemas.outcomes import OutcomeDetail
from schemas.units import Bytes, Cores
from schemas.well_known_labels import INSTANCE_TYPE
from streams.clients.aws.ec2_instances import InstancePrices, InstanceSize, read_table
from streams.errors import BadInput, GiveUp
from streams.simulated.cluster_nodes import ClusterNodes
from streams.simulated.cluster_spec import SimulatedNode, SimulatedNodeGroup

IN_SERVICE_AFTER = 15
"""Seconds from an order to the instance that runs; its node joins after the group's `boot`."""
ENDS_AFTER = 60
"""Seconds from the order to end an instance until it is gone, with its node."""
AGAIN_AFTER = 60
"""Seconds between two tries of a group to start what it lacks."""
KEPT_ACTIVITIES = 50
_HOUR = 3600.0


@dataclass(slots=True)
class SimulatedInstance:
    """An instance; times in seconds since the epoch. `node` is its Node's name, empty until it has joined."""

    id: str
    group: SimulatedNodeGroup
    launched: int
    node: str = ""
    ordered_to_end: int | None = None
    protected: bool = False

    @property
    def provider_id(self) -> str:
        """What its Node is called by the cloud."""
        return f"aws:///{self.group.zone}/{self.id}"

    def lifecycle(self, now: int) -> str:
        """Its state in AWS's words."""
        if self.ordered_to_end is not None:
            return "Terminating"
        return "InService" if now >= self.launched + IN_SERVICE_AFTER else "Pending"


@dataclass(slots=True)
class _GroupState:
    spec: SimulatedNodeGroup
    desired: int
    instances: dict[str, SimulatedInstance] = field(default_factory=dict)
    activities: list[dict[str, Any]] = field(default_factory=list)
    tried: int | None = None


@dataclass(slots=True)
class MachineHours:
    """The cost of machines so far: hours and price by group, from the order to the end."""

    hours: dict[str, float] = field(default_factory=dict)
    price: float = 0.0

    @property
    def total(self) -> float:
        """Hours of all groups."""
        return sum(self.hours.values())


class SimulatedAws:
    """One region with these groups. Stands for both clients of the SDK, `autoscaling` and `ec2`."""

    def __init__(self, groups: Sequence[SimulatedNodeGroup], nodes: ClusterNodes) -> None:
        """Raises BadInput for an unknown type of instance."""
        self._nodes, self._now, self._born = nodes, 0, 0
        self._groups = {group.name: _GroupState(group, group.desired) for group in groups}
        self._ended: dict[str, SimulatedInstance] = {}
        self.machine_hours = MachineHours({group.name: 0.0 for group in groups})
        self.sizes = {group.name: _size(group) for group in groups}

    # Time

    def begin(self, now: int) -> None:
        """The first moment: what every group wants runs already, and has joined."""
        self._now = now
        for state in self._groups.values():
            # machines of the beginning have been there for long, so nobody waits for them to boot
            for _ in range(state.desired):
                self._join(self._launch(state, now), now)

    def advance(self, now: int) -> list[str]:
        """Let time pass; the names of nodes that left with their machines."""
        # counted before anything changes, for the time that has passed belongs to what was there
        for state in self._groups.values():
            self._count(state, now - self._now)
        self._now = now
        gone: list[str] = []
        for state in self._groups.values():
            self._choose_victims(state)
            gone += self._end(state, now)
            self._start(state, now)
            for instance in state.instances.values():
                if not instance.node and instance.ordered_to_end is None and now >= instance.launched + state.spec.boot:
                    self._join(instance, now)
        return gone

    def _count(self, state: _GroupState, seconds: int) -> None:
        hours = len(state.instances) * seconds / _HOUR
        self.machine_hours.hours[state.spec.name] += hours
        self.machine_hours.price += hours * state.spec.price

    def _choose_victims(self, state: _GroupState) -> None:
        # instances that are on their way out do not count towards the desired size, as at AWS
        staying = [instance for instance in state.instances.values() if instance.ordered_to_end is None]
        # by id where ages are equal, so that the same run ends the same machines
        bare = sorted((instance for instance in staying if not instance.protected), key=attrgetter("launched", "id"))
        for instance in bare[: max(len(staying) - state.desired, 0)]:
            instance.ordered_to_end = self._now

    def _end(self, state: _GroupState, now: int) -> list[str]:
        over = [
            instance
            for instance in state.instances.values()
            if instance.ordered_to_end is not None and now >= instance.ordered_to_end + ENDS_AFTER
        ]
        for instance in over:
            del state.instances[instance.id]
            # kept, for EC2 goes on showing an instance that has ended
            self._ended[instance.id] = instance
            # an instance may be ended before its node has joined
            if instance.node:
                self._nodes.leave(instance.node)
        return [instance.node for instance in over if instance.node]

    def _start(self, state: _GroupState, now: int) -> None:
        """Start what is missing, unless the cloud has no machine of this type."""
        missing = state.desired - sum(instance.ordered_to_end is None for instance in state.instances.values())
        if missing <= 0:
            return
        if any(shortage.begin <= now < shortage.end for shortage in state.spec.shortages):
            if state.tried is None or now >= state.tried + AGAIN_AFTER:
                state.tried = now
                self._fail(state, now)
            return
        for _ in range(missing):
            self._launch(state, now)

    def _launch(self, state: _GroupState, now: int) -> SimulatedInstance:
        self._born += 1
        instance = SimulatedInstance(f"i-{self._born:017x}", state.spec, now)
        state.instances[instance.id] = instance
        return instance

    def _join(self, instance: SimulatedInstance, now: int) -> None:
        # the number of the instance is unique, so a node's name never comes again
        instance.node = f"{instance.group.name}-{int(instance.id.removeprefix('i-'), 16)}"
        size, spec = self.sizes[instance.group.name], instance.group
        node = SimulatedNode(
            instance.node,
            Cores(float(size.vcpus)),
            Bytes(size.memory_mib << 20),
            labels={**_node_labels(spec, size), **spec.labels},
            taints=spec.taints,
            gpus=size.gpus,
            provider_id=instance.provider_id,
        )
        self._nodes.join(node, datetime.fromtimestamp(now, UTC))

    @staticmethod
    def _fail(state: _GroupState, now: int) -> None:
        spec = state.spec
        activity = {
            "ActivityId": f"{spec.name}-{now}",
            "StatusCode": "Failed",
            "StartTime": datetime.fromtimestamp(now, UTC),
            "StatusMessage": f"We currently do not have sufficient {spec.instance_type} capacity in the Availability Zone you "
            f"requested ({spec.zone}). Launching EC2 instance failed.",
            "Details": f'{{"Availability Zone":"{spec.zone}"}}',
        }
        state.activities = [activity, *state.activities][:KEPT_ACTIVITIES]

    # For people

    @property
    def running(self) -> Mapping[str, int]:
        """How many instances each group has."""
        return {name: len(state.instances) for name, state in self._groups.items()}

    @property
    def desired(self) -> Mapping[str, int]:
        """How many each group wants."""
        return {name: state.desired for name, state in self._groups.items()}

    @property
    def prices(self) -> InstancePrices:
        """What nodes cost; a group without a price has none."""
        specs = [state.spec for state in self._groups.values()]
        return InstancePrices({spec.instance_type: spec.price for spec in specs if spec.price})

    @property
    def leaving(self) -> Sequence[SimulatedInstance]:
        """Instances that were ordered to end, and those that have ended."""
        going = [
            instance
            for state in self._groups.values()
            for instance in state.instances.values()
            if instance.ordered_to_end is not None
        ]
        return [*going, *self._ended.values()]

    def resize_by_hand(self, group: str, desired: int) -> None:
        """Change the desired size by hand, as somebody else would; that ends no instance."""
        self._groups[group].desired = desired

    # The SDK's calls

    def describe_auto_scaling_groups(self, **asked: Any) -> Mapping[str, Any]:
        """DescribeAutoScalingGroups, by names; filters by tags take every group."""
        names = asked.get("AutoScalingGroupNames")
        chosen = [state for name, state in self._groups.items() if names is None or name in names]
        return {"AutoScalingGroups": [self._described(state) for state in chosen]}

    def describe_auto_scaling_instances(self, **asked: Any) -> Mapping[str, Any]:
        """DescribeAutoScalingInstances."""
        instances = map(self._find, asked["InstanceIds"])
        return {"AutoScalingInstances": [self._described_instance(instance) for instance in instances if instance is not None]}

    def describe_scaling_activities(self, **asked: Any) -> Mapping[str, Any]:
        """DescribeScalingActivities."""
        return {"Activities": self._groups[asked["AutoScalingGroupName"]].activities}

    def describe_instance_refreshes(self, **_asked: Any) -> Mapping[str, Any]:
        """DescribeInstanceRefreshes: nobody refreshes."""
        return {"InstanceRefreshes": []}

    def describe_scheduled_actions(self, **_asked: Any) -> Mapping[str, Any]:
        """DescribeScheduledActions: there are none."""
        return {"ScheduledUpdateGroupActions": []}

    def describe_policies(self, **_asked: Any) -> Mapping[str, Any]:
        """DescribePolicies: there are none."""
        return {"ScalingPolicies": []}

    def describe_instances(self, **asked: Any) -> Mapping[str, Any]:
        """DescribeInstances, by the filter `instance-id`."""
        wanted = asked["Filters"][0]["Values"]
        instances = (self._find(name) or self._ended.get(name) for name in wanted)
        return {"Reservations": [{"Instances": [self._ec2(instance) for instance in instances if instance is not None]}]}

    def describe_launch_configurations(self, **asked: Any) -> Mapping[str, Any]:
        """DescribeLaunchConfigurations: each group has one of its own name."""
        specs = [self._groups[name].spec for name in asked["LaunchConfigurationNames"] if name in self._groups]
        return {
            "LaunchConfigurations": [{"LaunchConfigurationName": spec.name, "InstanceType": spec.instance_type} for spec in specs]
        }

    def describe_instance_types(self, **_asked: Any) -> Mapping[str, Any]:
        """DescribeInstanceTypes: none beyond our own table."""
        return {"InstanceTypes": []}

    def set_desired_capacity(self, **asked: Any) -> Mapping[str, Any]:
        """SetDesiredCapacity."""
        state, wanted = self._group(asked["AutoScalingGroupName"], "raising"), int(asked["DesiredCapacity"])
        if not state.spec.least <= wanted <= state.spec.most:
            bound = f"above max value {state.spec.most}" if wanted > state.spec.most else f"below min value {state.spec.least}"
            answer = f"ValidationError: New SetDesiredCapacity value {wanted} is {bound} for the AutoScalingGroup."
            raise _refused("raising", state.spec.name, answer, OutcomeDetail.AT_LIMIT)
        state.desired = wanted
        return {}

    def terminate_instance_in_auto_scaling_group(self, **asked: Any) -> Mapping[str, Any]:
        """TerminateInstanceInAutoScalingGroup, which never lowers a group below its minimum."""
        instance = self._find(asked["InstanceId"])
        if instance is None:
            answer = f"ValidationError: Instance Id not found - {asked['InstanceId']}"
            raise _refused("terminating", asked["InstanceId"], answer, OutcomeDetail.NOT_FOUND)
        state = self._groups[instance.group.name]
        # a second order changes nothing, and above all does not lower the size again
        if instance.ordered_to_end is None:
            if asked["ShouldDecrementDesiredCapacity"]:
                # refused as a whole: the instance stays if the size cannot go down with it
                if state.desired <= state.spec.least:
                    answer = f"ValidationError: Currently, desiredSize equals minSize ({state.spec.least})"
                    raise _refused("terminating", instance.id, answer, OutcomeDetail.AT_LIMIT)
                state.desired -= 1
            instance.ordered_to_end = self._now
        return {}

    def set_instance_protection(self, **asked: Any) -> Mapping[str, Any]:
        """SetInstanceProtection."""
        for name in asked["InstanceIds"]:
            instance = self._find(name)
            if instance is not None:
                instance.protected = bool(asked["ProtectedFromScaleIn"])
        return {}

    def _group(self, name: str, doing: str) -> _GroupState:
        if name not in self._groups:
            raise _refused(doing, name, f"ValidationError: AutoScalingGroup name not found - {name}", OutcomeDetail.NOT_FOUND)
        return self._groups[name]

    def _find(self, instance: str) -> SimulatedInstance | None:
        return next((state.instances[instance] for state in self._groups.values() if instance in state.instances), None)

    def _described(self, state: _GroupState) -> Mapping[str, Any]:
        spec = state.spec
        tags = {f"k8s.io/cluster-autoscaler/node-template/label/{key}": value for key, value in spec.labels.items()}
        tags |= {
            f"k8s.io/cluster-autoscaler/node-template/taint/{taint.key}": f"{taint.value}:{taint.effect}" for taint in spec.taints
        }
        return {
            "AutoScalingGroupName": spec.name,
            "MinSize": spec.least,
            "MaxSize": spec.most,
            "DesiredCapacity": state.desired,
            "AvailabilityZones": [spec.zone],
            "Instances": [self._described_instance(instance) for instance in state.instances.values()],
            "Tags": [{"Key": key, "Value": value} for key, value in sorted(tags.items())],
            "LaunchConfigurationName": spec.name,
        }

    def _described_instance(self, instance: SimulatedInstance) -> Mapping[str, Any]:
        return {
            "AutoScalingGroupName": instance.group.name,
            "InstanceId": instance.id,
            "AvailabilityZone": instance.group.zone,
            "LifecycleState": instance.lifecycle(self._now),
            "HealthStatus": "Healthy",
            "InstanceType": instance.group.instance_type,
            "ProtectedFromScaleIn": instance.protected,
        }

    def _ec2(self, instance: SimulatedInstance) -> Mapping[str, Any]:
        state = (
            "terminated" if instance.id in self._ended else "shutting-down" if instance.ordered_to_end is not None else "running"
        )
        return {"InstanceId": instance.id, "State": {"Name": state}, "LaunchTime": datetime.fromtimestamp(instance.launched, UTC)}


def _size(group: SimulatedNodeGroup) -> InstanceSize:
    size = read_table().get(group.instance_type)
    if size is None:
        raise BadInput(f"the node group '{group.name}' has the instance type '{group.instance_type}', which nobody knows")
    return size


def _node_labels(group: SimulatedNodeGroup, size: InstanceSize) -> dict[str, str]:
    """The labels of a node on AWS."""
    return {
        "kubernetes.io/arch": size.architecture,
        "kubernetes.io/os": "linux",
        INSTANCE_TYPE: group.instance_type,
        # a zone is its region with a letter behind it
        "topology.kubernetes.io/region": group.zone[:-1],
        "topology.kubernetes.io/zone": group.zone,
    }


def _refused(doing: str, to: str, answer: str, detail: OutcomeDetail) -> GiveUp:
    return GiveUp(doing=doing, to=to, answer=answer, detail=detail)
