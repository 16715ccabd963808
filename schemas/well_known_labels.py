"""Well-known labels, annotations and taints on objects of a cluster that one part writes and another reads.

A stage and the consumer that carries out its decisions must mean the same mark, so each name that both use stands here. What only
one part uses stands there.
"""

from collections.abc import Mapping, Sequence

HOSTNAME = "kubernetes.io/hostname"
"""The label of a node with its host's name; what binds a volume that is a disk of one node."""
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
"""The label of a node with the type of its machine."""
NODE_NAME_FIELD = "metadata.name"
"""The one field by which a node affinity may select a node."""
MIRROR_POD = "kubernetes.io/config.mirror"
"""An annotation: the pod mirrors a static one of its kubelet."""

TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"
"""The taint of a node that is being removed; its value is when that began, in seconds since the epoch."""
ABANDONED = 300.0
"""Seconds after which that taint no longer says that somebody is removing the node, as upstream has it."""
DELETION_CANDIDATE = "DeletionCandidateOfClusterAutoscaler"
"""The soft taint of a node that is not needed now."""
OPTION_TAG = "k8s.io/cluster-autoscaler/node-template/autoscaling-options/"
"""Start of the tag of a node group that sets an option of its own; the option's name follows."""

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""An annotation of a pod that says whether it may be moved: `true`, `false`, or `on-completion`."""
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
"""An annotation of a pod or a node that asks to be left alone, if it is `true`."""
SCALE_DOWN_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
"""An annotation of a node that asks for the same, if it is `true`."""
POD_OPT_OUTS = ((SAFE_TO_EVICT, "false"), (DO_NOT_DISRUPT, "true"))
"""What asks to leave a pod where it is. Evictions, drains and replacements of its node obey the same list."""
NODE_OPT_OUTS = ((SCALE_DOWN_DISABLED, "true"), (DO_NOT_DISRUPT, "true"))
"""What asks to leave a node where it is: scale-down, replacement and consolidation obey the same list."""


def is_leaving(since: float, now: float) -> bool:
    """Whether a taint of that time says that somebody is removing the node now; both in seconds since the epoch."""
    # A time far ahead is no removal's: it would keep the node out of service until then, and everybody else waiting for its end.
    return abs(now - since) < ABANDONED


def opted_out(annotations: Mapping[str, str], ways: Sequence[tuple[str, str]]) -> str:
    """The annotation by which a pod or a node asks to be left alone, as `name=value`; empty if it does not ask."""
    return next((f"{name}={value}" for name, value in ways if annotations.get(name) == value), "")


OBSERVED_CONTAINERS = "vpaObservedContainers"
"""An annotation of a pod: the containers that admission saw."""
ADMISSION_NOTE = "ullage/admission"
"""An annotation of a pod that admission changed: the offer that the pod follows, and its amounts before, as JSON."""
CPU_STARTUP_BOOST = "vpaCpuStartupBoost/"
"""Start of the annotation in which admission keeps what a container would have had without its boost; its name follows."""

EHPA_UID = "autoscaling.crane.io/effective-hpa-uid"
"""The label of every object generated for an EHPA; its value is the EHPA's uid."""
METRIC_QUERY = "metric-query.autoscaling.crane.io"
"""The prefix, before the slash, of annotations of an EHPA that set a metric's query."""
SCALING = "ullage/scaling"
"""An annotation: an EHPA that sets it to `direct` gets no HPA; the scaler carries out its plans instead."""
