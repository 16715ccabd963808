"""All that AWS tells of groups, by the SDK's own description of the API: each field is read, or the page says why it is not."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import botocore.session
import pytest

from agents.logic.nodes.cluster.cluster_view import ASIDE, DYING
from streams.clients.aws import group_responses
from streams.clients.aws.group_responses import GroupInstance

PAGE = Path(__file__).parents[4] / "docs" / "nodes.md"
MODEL = botocore.session.get_session().get_service_model("autoscaling")
AMOUNTS = {"MinSize": 1, "MaxSize": 1, "DesiredCapacity": 1, "WeightedCapacity": "1"}
STAYS = ("Pending", "Quarantined", "InService", "ReplacingRootVolume", "RootVolumeReplaced")
"""How AWS's words begin for an instance that its group counts."""


class Answer(dict[str, Any]):
    """An answer that notes what is read of it; any field that is read and not given is a text."""

    def __init__(self, **fields: Any) -> None:
        super().__init__({**AMOUNTS, **fields})
        self.read: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().get(key, "x")


def read_by(read: Callable[[Mapping[str, Any]], object], **fields: Any) -> set[str]:
    answer = Answer(**fields)
    read(answer)
    return answer.read


def read_override(override: Mapping[str, Any]) -> object:
    return group_responses.read_mixed({"LaunchTemplate": {"Overrides": [override]}})


def read_distribution(distribution: Mapping[str, Any]) -> object:
    return group_responses.read_mixed({"InstancesDistribution": distribution})


def named() -> set[str]:
    """The words for which the page says why nobody reads them."""
    section = PAGE.read_text(encoding="utf-8").split("Nothing here depends on the rest of what AWS tells")[1].split("\n## ")[0]
    return {word for row in section.splitlines() if row.startswith("| ") for word in re.findall(r"`(\w+)`", row)}


@pytest.mark.parametrize(
    ("shape", "read", "elsewhere"),
    [
        ("AutoScalingGroup", group_responses.read_group, set()),
        # The state of an instance tells no template of old, and its weight stands with the group's types.
        ("Instance", group_responses.read_instance, {"LaunchConfigurationName", "WeightedCapacity"}),
        ("LaunchTemplateOverrides", read_override, set()),
        ("InstancesDistribution", read_distribution, set()),
    ],
)
def test_each_field_is_read_or_the_page_says_why_not(
    shape: str, read: Callable[[Mapping[str, Any]], object], elsewhere: set[str]
) -> None:
    fields = set(MODEL.shape_for(shape).members)
    used = read_by(read)
    assert used <= fields
    assert fields - used - elsewhere <= named()
    assert not (used & named() - elsewhere), "the page says that nobody reads these"


def states() -> Iterator[str]:
    yield from MODEL.shape_for("LifecycleState").enum


def test_each_state_of_an_instance_means_one_thing_to_the_source_and_to_the_stage() -> None:
    instances = [GroupInstance("i-1", "z", state) for state in states()]
    ends = {one.lifecycle for one in instances if one.leaving and not one.warm}
    assert ends == DYING
    assert {one.lifecycle for one in instances if one.standby} == ASIDE
    counted = {one.lifecycle for one in instances if not (one.leaving or one.standby)}
    assert all(state.startswith(STAYS) for state in counted)
