"""What `kubectl describe` shows of nodes that come and go: upstream's reasons, and the decision to ask `ullage why` for.

Nothing depends on an event, whatever the cluster answers. Source of the reasons: core/scaledown/actuation, clusterstate and
processors/status of the Cluster Autoscaler.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from schemas.catalogue import Event
from schemas.decision_subjects import Subject, SubjectKind
from schemas.decisions.node_updates import (
    NodeRemovalPlanned,
    NodeScalingHalted,
    RefusalCode,
    ScaleRefused,
    ScaleUpPlanned,
    SizeCorrectionPlanned,
)
from schemas.names import PodName
from streams.clients.kube.event_recorder import ObjectEvent, RecordEvent, try_to_record
from streams.clients.kube.node_drain_client import NodeDrainClient
from streams.errors import EdgeError, GiveUp

GROWN, REMOVED, REMOVED_EMPTY, KEPT = "TriggeredScaleUp", "ScaleDown", "ScaleDownEmpty", "ScaleDownFailed"
NOT_GROWN, GROUP_GROWN, GROUP_KEPT = "NotTriggerScaleUp", "ScaledUpGroup", "FailedToScaleUpGroup"
NOT_LOWERED, UNREGISTERED, UNREGISTERED_KEPT = "FailedToRevertScaleUp", "DeleteUnregistered", "DeleteUnregisteredFailed"
HELPLESS = frozenset((RefusalCode.NO_GROUP_FITS, RefusalCode.NO_GROUP_MAY_GROW))
"""The codes of refusals about waiting pods for which no group grows."""
WARNED = frozenset(
    (
        RefusalCode.MAX_NODES,
        RefusalCode.NO_PRIORITIES,
        RefusalCode.PRIORITIES_MISS_GROUPS,
        RefusalCode.PRIORITIES_MISS_ALL,
    )
)
"""The codes of refusals that are upstream's reasons themselves."""
HALTS = {"NotDelivered": "ScaleUpTimedOut", "BackedOff": "ScaleUpFailed", "halted": "ClusterUnhealthy"}
# Whether or not it exists: people look there for events about groups and about the whole cluster.
STATUS = "kube-system", "cluster-autoscaler-status"
"""Namespace and name of the ConfigMap that upstream's events about groups are of."""
_log = structlog.get_logger(__name__)


def record_notice(record: RecordEvent, nodes: NodeDrainClient, event: Event) -> None:
    """What was decided that nobody carries out, and that people look for in the cluster."""
    match event:
        case ScaleRefused(code=code) if code in HELPLESS:
            _record_no_growth(record, nodes, event)
        case ScaleRefused(code=code) if code in WARNED:
            subject = event.subject if event.subject.object_kind == "ConfigMap" else _status(event.cluster)
            _warn(record, subject, code, f"{event.reason}; decision {event.id}", event.id)
        case NodeScalingHalted(code=code) if code in HALTS:
            about = f"group {event.group}: " if event.group else ""
            _warn(record, _status(event.cluster), HALTS[code], f"{about}{event.reason}; decision {event.id}", event.id)
        case _:
            pass


def record_growth(record: RecordEvent, nodes: NodeDrainClient, plan: ScaleUpPlanned) -> None:
    """AWS accepted a larger size: record it for the group, and for the pods that the decision names, if they wait still."""
    size = f"group {plan.group} size set to {plan.after} instead of {plan.before}; decision {plan.id}"
    try_to_record(record, ObjectEvent(_status(plan.cluster), GROUP_GROWN, f"Scale-up: {size}", plan.id))
    message = f"pod triggered scale-up of group {plan.group} from {plan.before} to {plan.after} nodes; decision {plan.id}"
    for example in plan.examples:
        pod = _waiting(nodes, plan.cluster, example)
        if pod is not None:
            try_to_record(record, ObjectEvent(pod, GROWN, message, plan.id))


@contextmanager
def recorded_failure(record: RecordEvent, plan: ScaleUpPlanned | SizeCorrectionPlanned) -> Iterator[None]:
    """Record it for the group if AWS does not accept its other size in the block."""
    try:
        yield
    # Not TryAgain: the next call may succeed.
    except GiveUp as error:
        reason = GROUP_KEPT if isinstance(plan, ScaleUpPlanned) else NOT_LOWERED
        _warn(record, _status(plan.cluster), reason, f"group {plan.group}: {error}; decision {plan.id}", plan.id)
        raise


def record_drained(record: RecordEvent, plan: NodeRemovalPlanned, pod: PodName) -> None:
    """The cluster accepted the eviction of a pod of a node that goes."""
    message = f"Pod was evicted because node {plan.node} goes ({plan.reason}); decision {plan.id}"
    try_to_record(record, ObjectEvent(_pod(plan.cluster, pod), REMOVED, message, plan.id))


def record_removal(record: RecordEvent, plan: NodeRemovalPlanned) -> None:
    """AWS accepted the end of an instance: record it for the node, or for the group whose node it never became."""
    if not plan.node:
        message = f"Removed unregistered node {plan.instance} of group {plan.group}; decision {plan.id}"
        try_to_record(record, ObjectEvent(_status(plan.cluster), UNREGISTERED, message, plan.id))
        return
    message = f"Node goes ({plan.reason}), and instance {plan.instance} was asked to end; decision {plan.id}"
    try_to_record(record, ObjectEvent(plan.subject, REMOVED if plan.evict else REMOVED_EMPTY, message, plan.id))


def record_kept(record: RecordEvent, plan: NodeRemovalPlanned, why: str) -> None:
    """A removal was given up."""
    if plan.node:
        _warn(record, plan.subject, KEPT, f"Node stays: {why}; decision {plan.id}", plan.id)
    else:
        message = f"Instance {plan.instance} of group {plan.group} stays: {why}; decision {plan.id}"
        _warn(record, _status(plan.cluster), UNREGISTERED_KEPT, message, plan.id)


def _record_no_growth(record: RecordEvent, nodes: NodeDrainClient, refused: ScaleRefused) -> None:
    """No group grows for waiting pods that are alike: record it for the one that the decision names, if it waits still."""
    alike = f" (as {refused.count - 1} pods like it)" if refused.count > 1 else ""
    pod = _waiting(nodes, refused.cluster, refused.example)
    if pod is not None:
        message = f"pod didn't trigger scale-up{alike}: {refused.reason}; decision {refused.id}"
        try_to_record(record, ObjectEvent(pod, NOT_GROWN, message, refused.id))


def _warn(record: RecordEvent, subject: Subject, reason: str, message: str, cause: str) -> None:
    try_to_record(record, ObjectEvent(subject, reason, message, cause, warning=True))


def _waiting(nodes: NodeDrainClient, cluster: str, name: str) -> Subject | None:
    """A pod, given as NAMESPACE/NAME, if it waits still; None also where the cluster does not answer."""
    namespace, _, pod = name.partition("/")
    try:
        uid = nodes.pod_uid(namespace, pod) if pod else None
    except EdgeError as error:
        _log.warning("a pod that waits could not be read for an event", pod=name, error=str(error))
        return None
    return None if uid is None else _pod(cluster, PodName(namespace, pod, uid))


def _pod(cluster: str, pod: PodName) -> Subject:
    return Subject(SubjectKind.POD, cluster, pod.name, pod.namespace, pod.uid)


def _status(cluster: str) -> Subject:
    return Subject.of_object(cluster, "ConfigMap", *STATUS)
