"""Which DaemonSets put a pod on a node."""

import numpy as np

from agents.logic.nodes.scheduling.node_columns import tolerates
from agents.logic.nodes.scheduling.pod_shapes import PodShape, SchedulingNode, TaintEffect, Toleration
from agents.logic.nodes.scheduling.scheduled_cluster import ScheduledCluster

_ALWAYS = tuple(
    Toleration(f"node.kubernetes.io/{name}", "Exists", "", effect)
    for name, effect in (
        ("not-ready", TaintEffect.NO_EXECUTE),
        ("unreachable", TaintEffect.NO_EXECUTE),
        ("disk-pressure", TaintEffect.NO_SCHEDULE),
        ("memory-pressure", TaintEffect.NO_SCHEDULE),
        ("pid-pressure", TaintEffect.NO_SCHEDULE),
        ("unschedulable", TaintEffect.NO_SCHEDULE),
    )
)
"""What the DaemonSet controller adds to each of its pods."""


def runs(template: PodShape, node: SchedulingNode) -> tuple[bool, bool]:
    """Whether a DaemonSet with this pod template starts a pod on a node, and whether one that runs there may stay.

    Only the node's name, its labels and its taints matter; resources do not.
    Source: NodeShouldRunDaemonPod in Kubernetes' pkg/controller/daemon.
    """
    picture = ScheduledCluster()
    picture.add(node)
    here = slice(0, 1)
    named = not template.node_name or template.node_name == node.name
    if not named or not np.all(picture.columns.selected(template.node_selector, template.node_terms, here)):
        return False, False
    tolerations = (*template.tolerations, *_ALWAYS)
    if tolerates(tolerations, node.taints):
        return True, True
    driven = [taint for taint in node.taints if taint.effect == TaintEffect.NO_EXECUTE]
    return False, tolerates(tolerations, driven)
