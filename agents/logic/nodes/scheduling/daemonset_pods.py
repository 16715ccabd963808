"""Which DaemonSets put a pod on a node."""

import numpy as np

from agents.logic.nodes.scheduling.pod_shapes import Effect, Node, Shape, Toleration
from agents.logic.nodes.scheduling.scheduled_cluster import Cluster, tolerates

_ALWAYS = tuple(
    Toleration(f"node.kubernetes.io/{name}", "Exists", "", effect)
    for name, effect in (
        ("not-ready", Effect.NO_EXECUTE),
        ("unreachable", Effect.NO_EXECUTE),
        ("disk-pressure", Effect.NO_SCHEDULE),
        ("memory-pressure", Effect.NO_SCHEDULE),
        ("pid-pressure", Effect.NO_SCHEDULE),
        ("unschedulable", Effect.NO_SCHEDULE),
    )
)
"""What the DaemonSet controller adds to each of its pods."""


def runs(template: Shape, node: Node) -> tuple[bool, bool]:
    """Whether a DaemonSet with this pod template starts a pod on a node, and whether one that runs there may stay.

    Only the node's name, its labels and its taints matter; resources do not.
    Source: NodeShouldRunDaemonPod in Kubernetes' pkg/controller/daemon.
    """
    picture = Cluster()
    picture.add(node)
    here = slice(0, 1)
    named = not template.node_name or template.node_name == node.name
    if not named or not np.all(picture.selected(template.node_selector, template.node_terms, here)):
        return False, False
    tolerations = (*template.tolerations, *_ALWAYS)
    if tolerates(tolerations, node.taints):
        return True, True
    driven = [taint for taint in node.taints if taint.effect == Effect.NO_EXECUTE]
    return False, tolerates(tolerations, driven)
