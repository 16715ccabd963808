"""Managed node groups, read from EKS's responses, and which one an Auto Scaling Group belongs to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CLUSTER_TAG, GROUP_TAG = "eks:cluster-name", "eks:nodegroup-name"
"""Tags that EKS puts on the Auto Scaling Groups of its node groups."""


@dataclass(frozen=True, slots=True)
class EksNodeGroup:
    """What EKS knows of the nodes of a managed group. Taints are key, value and effect, the effect in EKS's words."""

    labels: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[tuple[str, str, str], ...] = ()
    disk_size: int | None = None
    ami_type: str = ""
    capacity_type: str = ""
    version: str = ""


def managed_by(tags: Mapping[str, str]) -> tuple[str, str] | None:
    """The EKS cluster and the node group whose Auto Scaling Group carries these tags; None for any other group."""
    cluster, name = tags.get(CLUSTER_TAG), tags.get(GROUP_TAG)
    return (cluster, name) if cluster and name else None


def read_node_group(answer: Mapping[str, Any]) -> EksNodeGroup:
    """The answer of DescribeNodegroup. Raises LookupError, TypeError and ValueError for what is none."""
    group = answer["nodegroup"]
    disk = group.get("diskSize")
    return EksNodeGroup(
        dict(group.get("labels") or {}),
        dict(group.get("tags") or {}),
        tuple((str(taint["key"]), str(taint.get("value") or ""), str(taint["effect"])) for taint in group.get("taints") or ()),
        None if disk is None else int(disk),
        str(group.get("amiType") or ""),
        str(group.get("capacityType") or ""),
        str(group.get("version") or ""),
    )
