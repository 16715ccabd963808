"""Section 9.8 of the inventory of the Cluster Autoscaler's behaviour: groups of AWS by their tags and templates."""

import pytest

from agents.logic.nodes.aws import group_options, node_templates
from agents.logic.nodes.aws.group_options import GroupOptions
from agents.logic.nodes.aws.node_templates import (
    GPU,
    InstanceRequirements,
    InstanceType,
    LaunchSource,
    LaunchTemplate,
    MixedPolicy,
    TemplateSource,
)
from agents.logic.nodes.scheduling.pod_shapes import SchedulingNode

ZONE = "us-east-1a"
TAG = "k8s.io/cluster-autoscaler/node-template/"
TYPES = {name: InstanceType(name, cpus, 8192, 0, "amd64") for name, cpus in (("c5.xlarge", 4), ("m5.large", 2))}


@pytest.mark.parametrize("spec", ["asg:key=x", "mig:tag=a", "asg", "asg:tag="])
def test_c114_a_discovery_that_means_nothing_is_refused(spec: str) -> None:
    with pytest.raises(group_options.SpecError):
        group_options.discovery([spec])


def test_c114_c115_tags_of_all_specs_together_are_demanded() -> None:
    assert group_options.discovery(["asg:tag=k1,k2=v2"]) == {"k1": "", "k2": "v2"}
    assert group_options.discovery(["asg:tag=a", "asg:tag=b"]) == {"a": "", "b": ""}


# Templates


def made(launch: LaunchSource | None = None, **tags: str) -> SchedulingNode:
    whole = {f"{TAG}{key.replace('__', '/')}": value for key, value in tags.items()}
    return node_templates.node(TemplateSource("g", (ZONE,), whole, launch or LaunchSource(configured="c5.xlarge")), TYPES, "n")


def test_c117_a_group_without_tags_has_what_its_type_has() -> None:
    found = made()
    assert found.capacity == {"cpu": 4000, "memory": 8192 << 20, "pods": 110, GPU: 0}
    assert dict(found.labels)["topology.kubernetes.io/region"] == "us-east-1"


def test_c118_resources_of_tags_are_offered() -> None:
    tags = {f"{TAG}resources/ephemeral-storage": "20", f"{TAG}resources/custom-resource": "5"}
    source = TemplateSource("g", (ZONE,), tags, LaunchSource(configured="c5.xlarge"))
    found = node_templates.node(source, TYPES, "n")
    for amounts in (found.capacity, found.allocatable):
        assert (amounts["ephemeral-storage"], amounts["custom-resource"]) == (20, 5)


def test_c119_taints_of_tags_need_a_value_and_an_effect() -> None:
    texts = ("foo:NoSchedule", "bar:NoExecute", "fizz:PreferNoSchedule", "", "some_value")
    found = node_templates.taint_tags({f"{TAG}taint/t{number}": text for number, text in enumerate(texts)})
    assert [(one.value, one.effect) for one in found] == [
        ("foo", "NoSchedule"),
        ("bar", "NoExecute"),
        ("fizz", "PreferNoSchedule"),
    ]


def test_c120_options_of_tags_override_the_defaults_unless_they_mean_nothing() -> None:
    tag = f"{TAG}autoscaling-options/"
    texts = {"scaledownutilizationthreshold": "0.42", "scaledownunneededtime": "1h", "ignoredaemonsetsutilization": "true"}
    found = group_options.of_group({f"{tag}{name}": text for name, text in texts.items()}, GroupOptions())
    assert found == GroupOptions(utilization_threshold=0.42, unneeded=3600.0, ignore_daemonsets=True)
    assert group_options.of_group({f"{tag}scaledownutilizationthreshold": "not-a-float"}, GroupOptions()) == GroupOptions()


def test_c121_a_group_by_attributes_has_what_they_demand_at_least() -> None:
    wanted = InstanceRequirements(4, 4, 4, ("nvidia",), ("gpu",))
    found = made(LaunchSource(mixed=MixedPolicy(LaunchTemplate("", "ami-1"), "lt", (), wanted, "c5.xlarge")))
    assert (found.capacity["cpu"], found.capacity["memory"], found.capacity[GPU]) == (4000, 4 << 20, 4)


def test_c122_a_mixed_group_looks_like_its_first_type() -> None:
    found = made(LaunchSource(mixed=MixedPolicy(None, "lt", ("m5.large", "c5.xlarge"), None, "")))
    assert (found.capacity["cpu"], dict(found.labels)["node.kubernetes.io/instance-type"]) == (2000, "m5.large")


def test_c124_a_group_of_eks_has_a_template_although_eks_refuses() -> None:
    tags = {"eks:cluster-name": "prod", "eks:nodegroup-name": "web"}
    source = TemplateSource("g", (ZONE,), tags, LaunchSource(configured="c5.xlarge"), None)
    labels = dict(node_templates.node(source, TYPES, "n").labels)
    assert (labels["cluster-name"], labels["nodegroup-name"]) == ("prod", "web")
