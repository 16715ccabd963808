"""Whole decisions, one after the other in a small world, against upstream's whole loop."""

from dataclasses import replace
from typing import Any

import pytest

from agents.logic.nodes.autoscaler.node_autoscaler import NodeAutoscalerSettings, ScaleDownDelays
from agents.logic.nodes.aws.group_options import GroupOptions, duration
from agents.logic.nodes.growth import expanders, similar_node_groups
from agents.logic.nodes.growth.scale_up import ClusterLimits, ScaleUpSettings
from agents.logic.nodes.removal.drain_rules import DeletionParallelism, DrainSettings
from agents.logic.nodes.removal.unneeded_nodes import ScaleDownSettings
from tests.support.ca_vectors import vectors
from tests.support.ca_world import Pace, Scenario, counted

Vector = dict[str, Any]
GIB = 2**30


class Flags:
    """Upstream's flags of a vector, with their defaults."""

    def __init__(self, given: dict[str, str]) -> None:
        self.given = given

    def time(self, name: str, default: str) -> float:
        found = duration(self.given.get(name, default))
        assert found is not None
        return found

    def number(self, name: str, default: int) -> int:
        return int(self.given.get(name, default))

    def yes(self, name: str, *, default: bool) -> bool:
        return self.given.get(name, str(default)).lower() == "true"

    def options(self) -> GroupOptions:
        return GroupOptions(
            unneeded=self.time("scale-down-unneeded-time", "10m"),
            unready=self.time("scale-down-unready-time", "20m"),
            ignore_daemonsets=self.yes("ignore-daemonsets-utilization", default=False),
        )

    def limits(self) -> ClusterLimits:
        found = {}
        if "cores-total" in self.given:
            found["cpu"] = int(self.given["cores-total"].split(":")[1]) * 1000
        if "memory-total" in self.given:
            found["memory"] = int(self.given["memory-total"].split(":")[1]) * GIB
        return ClusterLimits(self.number("max-nodes-total", 0), self.number("max-nodes-per-scaleup", 1000), found)

    def settings(self) -> NodeAutoscalerSettings:
        balance = self.yes("balance-similar-node-groups", default=False)
        chain = expanders.chain(self.given.get("expander", "least-waste").split(","))
        up = ScaleUpSettings(chain, self.limits(), similar_node_groups.SimilarityRules() if balance else None)
        parallelism = DeletionParallelism(self.number("max-scale-down-parallelism", 10), self.number("max-drain-parallelism", 1))
        down = ScaleDownSettings(
            unready_too=self.yes("scale-down-unready-enabled", default=True),
            recheck=self.time("unremovable-node-recheck-timeout", "5m"),
            parallelism=parallelism,
            default=self.options(),
        )
        return NodeAutoscalerSettings(
            scale_up=up,
            scale_down=down,
            drain=DrainSettings(
                skip_local_storage=self.yes("skip-nodes-with-local-storage", default=True),
                min_replicas=self.number("min-replica-count", 0),
            ),
            delays=ScaleDownDelays(
                self.time("scale-down-delay-after-add", "10m"), self.time("scale-down-delay-after-delete", "0s")
            ),
            soft_taints=self.number("max-bulk-soft-taint-count", 10),
            shrink=self.yes("scale-down-enabled", default=True),
            from_zero=self.yes("scale-up-from-zero", default=True),
            enforce_minimum=self.yes("enforce-node-group-min-size", default=False),
        )

    def pace(self) -> Pace:
        return Pace(
            self.time("node-delete-delay-after-taint", "5s"),
            self.time("node-deletion-batcher-interval", "0s"),
            self.yes("cordon-node-before-terminating", default=True),
        )


def _options(given: Vector, default: GroupOptions) -> GroupOptions:
    names = {
        "scale_down_unneeded_s": "unneeded",
        "scale_down_unready_s": "unready",
        "scale_down_utilization_threshold": "utilization_threshold",
        "ignore_daemonsets_utilization": "ignore_daemonsets",
    }
    return replace(default, **{names[key]: value for key, value in given.get("options", {}).items() if key in names})


@pytest.mark.parametrize("vector", vectors("runonce"))
def test_whole_decisions_are_upstreams(vector: Vector) -> None:
    inputs, expected = vector["inputs"], vector["expected"]
    flags = Flags(inputs["flags"])
    options = {group["name"]: _options(group, flags.options()) for group in inputs["groups"]}
    scenario = Scenario(inputs, flags.settings(), flags.pace(), options)
    for step, theirs in zip(inputs["steps"], expected["steps"], strict=True):
        mine = scenario.step(step)
        assert (counted(mine) if expected["counts_only"] else mine) == theirs
