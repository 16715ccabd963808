"""Specs, tags, options and templates of groups against upstream's answers."""

from collections.abc import Mapping
from typing import Any

import pytest

from agents.logic.nodes.aws import group_options, node_templates
from agents.logic.nodes.aws.node_templates import (
    InstanceRequirements,
    InstanceType,
    LaunchSource,
    LaunchTemplate,
    MixedPolicy,
    NodegroupAnswer,
)
from streams.clients.aws import group_responses
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


@pytest.mark.parametrize("vector", vectors("aws_specs"))
def test_a_spec_names_groups_or_is_refused_in_upstreams_words(vector: Vector) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    if "error" in expected:
        with pytest.raises(group_options.SpecError) as refused:
            _read_spec(inputs)
        assert str(refused.value) == expected["error"]
    elif inputs["kind"] == "explicit":
        assert group_options.explicit(inputs["spec"]) == group_options.GroupSpec(
            expected["name"], expected["min"], expected["max"]
        )
    else:
        assert group_options.discovery(inputs["specs"]) == expected["tags"]
        sent = [(one["Name"], one["Values"][0]) for one in group_responses.tag_filters(expected["tags"])]
        spelled = [f"{name}={value}" for name, value in sent]
        assert sorted(spelled) == expected["describe_filters"]


def _read_spec(inputs: Vector) -> object:
    return group_options.explicit(inputs["spec"]) if inputs["kind"] == "explicit" else group_options.discovery(inputs["specs"])


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
    named = group_responses.managed_by(tags)
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
