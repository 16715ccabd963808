"""Well-known labels, annotations and taints on objects of a cluster that one part writes and another reads.

A stage and the consumer that carries out its decisions must mean the same mark, so each name that both use stands here. What only
one part uses stands there.
"""

HOSTNAME = "kubernetes.io/hostname"
"""The label of a node with its host's name; what binds a volume that is a disk of one node."""
NODE_NAME_FIELD = "metadata.name"
"""The one field by which a node affinity may select a node."""
MIRROR_POD = "kubernetes.io/config.mirror"
"""An annotation: the pod mirrors a static one of its kubelet."""

TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"
"""The taint of a node that is being removed; its value is when that began, in seconds since the epoch."""
DELETION_CANDIDATE = "DeletionCandidateOfClusterAutoscaler"
"""The soft taint of a node that is not needed now."""
OPTION_TAG = "k8s.io/cluster-autoscaler/node-template/autoscaling-options/"
"""Start of the tag of a node group that sets an option of its own; the option's name follows."""

OBSERVED_CONTAINERS = "vpaObservedContainers"
"""An annotation of a pod: the containers that admission saw."""
CPU_STARTUP_BOOST = "vpaCpuStartupBoost/"
"""Start of the annotation in which admission keeps what a container would have had without its boost; its name follows."""

EHPA_UID = "autoscaling.crane.io/effective-hpa-uid"
"""The label of every object generated for an EHPA; its value is the EHPA's uid."""
METRIC_QUERY = "metric-query.autoscaling.crane.io"
"""The prefix, before the slash, of annotations of an EHPA that set a metric's query."""
SCALING = "ullage/scaling"
"""An annotation: an EHPA that sets it to `direct` gets no HPA; the scaler carries out its plans instead."""
