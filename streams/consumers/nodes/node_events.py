"""What `kubectl describe` shows of nodes that come and go: upstream's reasons, and the decision to ask `ullage why` for.

Source of the reasons: core/scaledown/actuation and processors/status of the Cluster Autoscaler. It has events about groups, too,
on a ConfigMap that is not here: outcomes in the log say that.
"""

from schemas.decision_subjects import Subject, SubjectKind
from schemas.decisions.node_updates import NodeRemovalPlanned, ScaleUpPlanned
from schemas.names import PodName
from streams.clients.kube.event_recorder import ObjectEvent
from streams.clients.kube.node_drain_client import NodeDrainClient
from streams.consumers.executing.object_events import RecordEvent, try_to_record
from streams.errors import GiveUp, TryAgain

GROWN, REMOVED, REMOVED_EMPTY, KEPT = "TriggeredScaleUp", "ScaleDown", "ScaleDownEmpty", "ScaleDownFailed"


def record_growth(record: RecordEvent, nodes: NodeDrainClient, plan: ScaleUpPlanned) -> None:
    """AWS accepted a larger size: record it for the pods that the decision names, and that wait still. Raises Unreachable."""
    message = f"pod triggered scale-up of group {plan.group} from {plan.before} to {plan.after} nodes; decision {plan.id}"
    for example in plan.examples:
        namespace, _, name = example.partition("/")
        try:
            uid = nodes.pod_uid(namespace, name)
        except (TryAgain, GiveUp):
            continue
        if uid is not None:
            try_to_record(record, ObjectEvent(_pod(plan.cluster, PodName(namespace, name, uid)), GROWN, message, plan.id))


def record_drained(record: RecordEvent, plan: NodeRemovalPlanned, pod: PodName) -> None:
    """The cluster accepted the eviction of a pod of a node that goes. Raises Unreachable."""
    message = f"Pod was evicted because node {plan.node} goes ({plan.reason}); decision {plan.id}"
    try_to_record(record, ObjectEvent(_pod(plan.cluster, pod), REMOVED, message, plan.id))


def record_removal(record: RecordEvent, plan: NodeRemovalPlanned) -> None:
    """AWS accepted the end of a node's instance. Raises Unreachable."""
    if plan.node:
        message = f"Node goes ({plan.reason}), and instance {plan.instance} was asked to end; decision {plan.id}"
        try_to_record(record, ObjectEvent(plan.subject, REMOVED if plan.evict else REMOVED_EMPTY, message, plan.id))


def record_kept(record: RecordEvent, plan: NodeRemovalPlanned, why: str) -> None:
    """A removal that had begun was given up. Raises Unreachable."""
    if plan.node:
        message = f"Node stays: {why}; decision {plan.id}"
        try_to_record(record, ObjectEvent(plan.subject, KEPT, message, plan.id))


def _pod(cluster: str, pod: PodName) -> Subject:
    return Subject(SubjectKind.POD, cluster, pod.name, pod.namespace, pod.uid)
