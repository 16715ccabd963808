"""Provider ids, specs, tags, templates and calls against upstream's answers; AWS is a fake that behaves as theirs did."""

from collections.abc import Mapping
from typing import Any

import pytest

from agents.logic.nodes.aws import asg_provider, group_options, group_specs, node_templates, provider_ids
from agents.logic.nodes.aws.asg_provider import (
    ApiError,
    AsgProvider,
    Asking,
    AwsCall,
    AwsInstance,
    DescribedGroup,
    NodeRef,
    ScalingActivity,
)
from agents.logic.nodes.aws.node_templates import (
    InstanceRequirements,
    InstanceType,
    LaunchSource,
    LaunchTemplate,
    MixedPolicy,
    NodegroupAnswer,
)
from tests.support.ca_vectors import vectors

Vector = dict[str, Any]

ARM = ("t4g", "c6g", "c7g", "a1", "m6g", "r6g", "g5g")
TYPES = {
    name: InstanceType(name, vcpus, int(gib * 1024), gpus, "arm64" if name.split(".")[0].rstrip("dn") in ARM else "amd64")
    for name, vcpus, gib, gpus in (
        *(("t2.nano", 1, 0.5, 0), ("t3.nano", 2, 0.5, 0), ("t3.micro", 2, 1, 0), ("t3.large", 2, 8, 0), ("t4g.nano", 2, 0.5, 0)),
        *(("c5.large", 2, 4, 0), ("c5.xlarge", 4, 8, 0), ("c6g.xlarge", 4, 8, 0), ("c7g.xlarge", 4, 8, 0), ("a1.large", 2, 4, 0)),
        *(
            ("m5.large", 2, 8, 0),
            ("m5.xlarge", 4, 16, 0),
            ("m5.24xlarge", 96, 384, 0),
            ("m6g.large", 2, 8, 0),
            ("m4.4xlarge", 16, 64, 0),
        ),
        *(("r5.large", 2, 16, 0), ("r6g.large", 2, 16, 0), ("x1e.32xlarge", 128, 3904, 0), ("i3.large", 2, 15.25, 0)),
        *(("p2.xlarge", 4, 61, 1), ("p3.2xlarge", 8, 61, 1), ("p3.16xlarge", 64, 488, 8), ("p4d.24xlarge", 96, 1152, 8)),
        *(("g4dn.xlarge", 4, 16, 1), ("g5.xlarge", 4, 16, 1), ("g5g.xlarge", 4, 8, 1), ("p5.48xlarge", 192, 2048, 8)),
        *(("inf1.xlarge", 4, 8, 0), ("inf2.xlarge", 4, 16, 0), ("trn1.2xlarge", 8, 32, 0)),
    )
}
"""Types that the vectors name, and some of their relatives, as AWS lists them."""


@pytest.mark.parametrize("vector", vectors("aws_provider_id"))
def test_a_provider_id_names_an_instance_or_is_refused(vector: Vector) -> None:
    given, expected = vector["inputs"]["provider_id"], vector["expected"]
    if expected.get("error"):
        with pytest.raises(provider_ids.IdentityError):
            provider_ids.instance_name(given)
    else:
        assert provider_ids.instance_name(given) == expected["name"]


@pytest.mark.parametrize("vector", vectors("aws_specs"))
def test_a_spec_names_groups_or_is_refused_in_upstreams_words(vector: Vector) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    if "error" in expected:
        with pytest.raises(group_specs.SpecError) as refused:
            _read_spec(inputs)
        assert str(refused.value) == expected["error"]
    elif inputs["kind"] == "explicit":
        assert group_specs.explicit(inputs["spec"]) == group_specs.GroupSpec(expected["name"], expected["min"], expected["max"])
    else:
        assert group_specs.discovery(inputs["specs"]) == expected["tags"]
        assert group_specs.filters(expected["tags"]) == expected["describe_filters"]


def _read_spec(inputs: Vector) -> object:
    return group_specs.explicit(inputs["spec"]) if inputs["kind"] == "explicit" else group_specs.discovery(inputs["specs"])


@pytest.mark.parametrize("vector", vectors("aws_options"))
def test_tags_change_the_options_of_a_group(vector: Vector) -> None:
    mine = group_options.of_group(vector["inputs"]["tags"], group_options.GroupOptions())
    assert {
        "ignore_daemonsets_utilization": mine.ignore_daemonsets,
        "max_node_provision_s": mine.max_provision,
        "max_node_startup_s": mine.max_startup,
        "scale_down_gpu_utilization_threshold": mine.gpu_utilization_threshold,
        "scale_down_unneeded_s": mine.unneeded,
        "scale_down_unready_s": mine.unready,
        "scale_down_utilization_threshold": mine.utilization_threshold,
        "zero_or_max_node_scaling": mine.zero_or_max,
    } == vector["expected"]


# Templates


def _requirements(given: Mapping[str, Any] | None) -> InstanceRequirements | None:
    if given is None:
        return None
    return InstanceRequirements(
        vcpus=given.get("vcpu_min"),
        memory_mib=given.get("memory_mib_min"),
        accelerators=given.get("accelerator_count_min"),
        manufacturers=tuple(given.get("accelerator_manufacturers", ())),
        kinds=tuple(given.get("accelerator_types", ())),
    )


def _launch_template(aws: Vector, reference: Vector | None) -> LaunchTemplate | None:
    if reference is None:
        return None
    known = aws.get("launch_templates", {})
    found = known.get(f"{reference['name']}:{reference.get('version')}", known.get(reference["name"]))
    if found is None:
        return None
    fitting = (aws.get("types_for_requirements") or [""])[0]
    return LaunchTemplate(
        found.get("instance_type", ""), found.get("image", ""), _requirements(found.get("requirements")), fitting
    )


def _template_source(aws: Vector) -> node_templates.TemplateSource:
    group = aws["groups"][0]
    tags = group.get("tags", {})
    mixed = group.get("mixed_instances_policy")
    policy = None
    if mixed is not None:
        fitting = (aws.get("types_for_requirements") or [""])[0]
        wanted = _requirements(mixed.get("override_requirements"))
        name = mixed["launch_template"]["name"]
        types = tuple(mixed.get("override_types", ()))
        policy = MixedPolicy(_launch_template(aws, mixed["launch_template"]), name, types, wanted, fitting)
    configured = aws.get("launch_configurations", {}).get(group.get("launch_configuration"))
    failure = aws.get("failing_apis", {}).get("DescribeLaunchConfigurations", "")
    launch = LaunchSource(failure, configured, _launch_template(aws, group.get("launch_template")), policy)
    named = node_templates.managed_by(node_templates.label_tags(tags))
    answer = aws.get("eks_nodegroups", {}).get("/".join(named)) if named is not None else None
    return node_templates.TemplateSource(group["name"], tuple(group["zones"]), tags, launch, _answer(answer))


def _answer(given: Vector | None) -> NodegroupAnswer | None:
    if given is None:
        return None
    return NodegroupAnswer(
        given.get("labels", {}),
        given.get("tags", {}),
        tuple(tuple(one) for one in given.get("taints", ())),
        given.get("disk_size"),
        given.get("ami_type", ""),
        given.get("capacity_type", ""),
        given.get("version", ""),
    )


@pytest.mark.parametrize("vector", vectors("aws_template"))
def test_a_group_promises_the_node_that_upstream_expects(vector: Vector) -> None:
    aws, expected = vector["inputs"]["aws"], vector["expected"]
    source = _template_source(aws)
    if "start_error" in expected:
        with pytest.raises(node_templates.TemplateError) as refused:
            node_templates.check_policy(source.launch)
        assert str(refused.value) == expected["start_error"]
        return
    if "error" in expected:
        with pytest.raises(node_templates.TemplateError) as refused:
            node_templates.node(source, TYPES, "<node name>")
        assert str(refused.value) == expected["error"]
        return
    made = node_templates.node(source, TYPES, "<node name>")
    for mine, theirs in ((made.allocatable, expected["allocatable"]), (made.capacity, expected["capacity"])):
        assert {("cpu_m" if name == "cpu" else name): amount for name, amount in mine.items()} == theirs
    assert dict(made.labels) == expected["labels"]
    taints = sorted((one.key, one.value, one.effect) for one in made.taints)
    assert taints == sorted((one["key"], one.get("value", ""), one["effect"]) for one in expected["taints"])
    assert expected["kube_proxy_mirror_pod_cpu_m"] == node_templates.KUBE_PROXY_CPU
    assert node_templates.gpu_of(made) == expected.get("gpu_config", {}).get("type")


# Calls


class FakeAws:
    """Answers calls from what a vector says, and notes them."""

    def __init__(self, state: Vector) -> None:
        self.groups: dict[str, DescribedGroup] = {}
        self.activities: dict[str, list[ScalingActivity]] = {}
        self.failing: dict[str, str] = {}
        self.configurations: dict[str, str] = state.get("launch_configurations", {})
        self.notes: list[Vector] = []
        self.change(state)

    def change(self, state: Vector) -> None:
        for one in state.get("groups", ()):
            instances = tuple(AwsInstance(i["id"], i["zone"], i["lifecycle"], i["health"]) for i in one["instances"])
            self.groups[one["name"]] = DescribedGroup(
                one["name"],
                one["min"],
                one["max"],
                one["desired"],
                tuple(one["zones"]),
                instances,
                one.get("tags", {}),
                one.get("launch_configuration", ""),
            )
        if "groups" in state:
            self.groups = {one["name"]: self.groups[one["name"]] for one in state["groups"]}
        for name, found in state.get("scaling_activities", {}).items():
            self.activities[name] = [ScalingActivity(one["at_s"], one["status"]) for one in found]
        self.failing = state.get("failing_apis", {})

    def run(self, asking: Asking) -> None:
        """Carry the calls of a generator out."""
        try:
            call = next(asking)
            while True:
                self.notes.append(note(call))
                if call.api in self.failing:
                    call = asking.throw(ApiError(self.failing[call.api]))
                else:
                    call = asking.send(self.answer(call))
        except StopIteration:
            return

    def answer(self, call: AwsCall) -> asg_provider.AsgAnswer:
        if call.api == "DescribeAutoScalingGroups":
            if call.filters:
                return [one for one in self.groups.values() if all(_carries(one, wanted) for wanted in call.filters)]
            return [self.groups[name] for name in call.names if name in self.groups]
        if call.api == "DescribeScalingActivities":
            return self.activities.get(call.group, [])
        if call.api == "DescribeLaunchConfigurations":
            return self.configurations
        if call.api == "SetDesiredCapacity":
            self._set(call.group, desired=call.desired)
        else:
            self._terminate(call.instance)
        return None

    def _set(self, name: str, desired: int, instances: tuple[AwsInstance, ...] | None = None) -> None:
        old = self.groups[name]
        mine = old.instances if instances is None else instances
        self.groups[name] = DescribedGroup(
            name, old.least, old.most, desired, old.zones, mine, old.tags, old.launch_configuration
        )

    def _terminate(self, instance: str) -> None:
        for one in list(self.groups.values()):
            if any(i.name == instance for i in one.instances):
                after = tuple(
                    AwsInstance(i.name, i.zone, "Terminating", i.health) if i.name == instance else i for i in one.instances
                )
                self._set(one.name, one.desired - 1, after)


def _carries(group: DescribedGroup, wanted: str) -> bool:
    kind, _equal, value = wanted.partition("=")
    return value in group.tags if kind == "tag-key" else group.tags.get(kind.removeprefix("tag:")) == value


def note(call: AwsCall) -> Vector:
    """A call as the vectors write it."""
    found: Vector = {"api": call.api}
    if call.api == "SetDesiredCapacity":
        found |= {"desired": call.desired, "group": call.group, "honor_cooldown": False}
    elif call.api == "TerminateInstanceInAutoScalingGroup":
        found |= {"decrement": True, "instance": call.instance}
    elif call.api == "DescribeScalingActivities":
        found["group"] = call.group
    elif call.filters:
        found["filters"] = list(call.filters)
    else:
        found["names"] = sorted(call.names)
    return found


class Scene:
    """A provider and its AWS, walking through a vector's steps."""

    def __init__(self, inputs: Vector) -> None:
        self.aws = FakeAws(inputs["aws"])
        explicit = [group_specs.explicit(one) for one in inputs.get("explicit", ())]
        self.mine = AsgProvider(explicit, group_specs.discovery(inputs.get("auto_discovery", ())))

    def outcome(self) -> Vector:
        calls, self.aws.notes = self.aws.notes, []
        groups = {name: {"min": one.least, "max": one.most, "target": one.size} for name, one in self.mine.groups.items()}
        return {"calls": calls, "groups": groups}

    def do(self, step: Vector) -> Vector:
        found: Vector = {}
        try:
            result = self._do(step)
        except (asg_provider.ProviderError, provider_ids.IdentityError, ApiError) as error:
            found["error"] = str(error)
            result = {"nodes": [], "has_instance": step.get("nodes", [{"name": ""}])[0]["name"].startswith("fargate")}.get(
                step["op"]
            )
        if result is not None:
            found["result"] = result
        return found | self.outcome()

    def _do(self, step: Vector) -> object:
        at, operation = step["at_s"], step["op"]
        nodes = [NodeRef(one["name"], one["provider_id"], one.get("annotations", {})) for one in step.get("nodes", ())]
        if operation == "group_for_node":
            found = self.mine.group_of(nodes[0])
            return "none" if found is None else found.name
        if operation == "has_instance":
            return self.mine.has_instance(nodes[0])
        if operation == "aws":
            self.aws.change(step["aws"])
        elif operation == "refresh":
            self.aws.run(self.mine.refresh(at))
        else:
            return self._change(step, nodes)
        return None

    def _change(self, step: Vector, nodes: list[NodeRef]) -> object:
        at, group, delta = step["at_s"], self.mine.groups[step["group"]], step.get("delta", 0)
        operation = step["op"]
        if operation == "nodes":
            return [_status(one) for one in group.instances()]
        if operation == "increase":
            self.aws.run(self.mine.increase(group, delta, at))
        elif operation == "decrease":
            self.aws.run(self.mine.decrease(group, delta, at))
        elif operation == "delete":
            self.aws.run(self.mine.delete(group, nodes, at))
        else:  # growing all or nothing, deleting by force: the provider has no such thing
            raise asg_provider.NotImplementedHere
        return None


def _status(one: AwsInstance) -> Vector:
    found: Vector = {"id": one.provider_id}
    if one.health == asg_provider.UNFULFILLED:
        found |= {"error_class": "OutOfResource", "error_code": asg_provider.UNFULFILLED, "state": "Creating"}
    return found


@pytest.mark.parametrize("vector", vectors("aws_calls"))
def test_the_calls_to_aws_are_upstreams_calls(vector: Vector) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    if "explicit_count" in inputs:
        _assert_batches(inputs["explicit_count"], expected["start_calls"])
        return
    if "error" in expected["start"]:
        with pytest.raises(group_specs.SpecError) as refused:
            Scene(inputs)
        assert expected["start"]["error"].endswith(str(refused.value))
        return
    scene = Scene(inputs)
    scene.aws.run(scene.mine.refresh(0))
    assert scene.outcome() == expected["start"]
    for number, (step, theirs) in enumerate(zip(inputs["steps"], expected["steps"], strict=True)):
        assert scene.do(step) == theirs, f"step {number}: {step}"


def _assert_batches(count: int, calls: list[Vector]) -> None:
    groups = [{"name": f"g{i}", "min": 0, "max": 1, "desired": 0, "zones": ["z"], "instances": []} for i in range(count)]
    groups = [{**one, "launch_configuration": f"lc-{one['name']}"} for one in groups]
    scene = Scene({"aws": {"groups": groups}, "explicit": [f"0:1:{one['name']}" for one in groups]})
    scene.aws.run(scene.mine.refresh(0))
    mine = [{"api": one["api"], "name_count": len(one["names"])} for one in scene.aws.notes]
    assert mine == calls
