"""Finding the decision about a node, a node group, or a pod that waits for a node."""

from collections.abc import Callable, Iterator
from datetime import datetime

from schemas.catalogue import Event
from schemas.decision_subjects import SubjectKind
from schemas.decisions.node_updates import NodeRemovalPlanned, ScaleRefused, ScaleUpPlanned
from schemas.facts.scheduled_pods import PodPlacementChanged, PodPlacementRemoved
from schemas.names import PodName
from streams.log.log_port import Record

Mentioning = Callable[[str, str], Iterator[Record]]
"""The records of a topic (second) that mention a text (first)."""
Decode = Callable[[Record], Event | None]

DECISIONS, PLACEMENTS = "node-updates", "scheduling-changes"


def about_node(name: str, mentioning: Mentioning, decode: Decode) -> Record | None:
    """The newest decision about a node (its name, its uid or its instance) or a node group.

    For a group without a decision of its own, the newest one about one of its nodes.
    """

    def fits(event: Event | None) -> bool:
        match event:
            case NodeRemovalPlanned():
                return name in (event.node, event.node_uid, event.instance)
            case ScaleUpPlanned():
                return name == event.group
            case ScaleRefused():
                node = event.subject.kind in (SubjectKind.NODE, SubjectKind.NODE_GROUP)
                return node and name in (event.subject.name, event.subject.uid)
            case _:
                return False

    return _newest(name, fits, mentioning, decode) or _newest(
        name, lambda event: isinstance(event, NodeRemovalPlanned) and event.group == name, mentioning, decode
    )


def about_waiting_pod(pod_name: str, mentioning: Mentioning, decode: Decode) -> Record | None:
    """The newest decision about a pod that waits for a node: growth for it, or why none of its shape is helped.

    None for a pod that does not wait. Decisions about other pods of its shape count.
    """
    placed = _placement(pod_name, mentioning, decode)
    if placed is None or not placed.unschedulable:
        return None
    key = f"{placed.pod.namespace}/{placed.pod.name}"
    growth = _newest(key, lambda event: isinstance(event, ScaleUpPlanned) and key in event.examples, mentioning, decode)
    refused = _newest(
        placed.shape,
        lambda event: isinstance(event, ScaleRefused) and event.subject.uid == placed.shape,
        mentioning,
        decode,
    )
    times = [(event.at, record) for record in (growth, refused) if record is not None and (event := decode(record)) is not None]
    return max(times, key=lambda time: time[0])[1] if times else None


def _placement(pod_name: str, mentioning: Mentioning, decode: Decode) -> PodPlacementChanged | None:
    """Where a pod is, by the newest fact."""
    newest: PodPlacementChanged | None = None
    for record in mentioning(pod_name.rpartition("/")[2], PLACEMENTS):
        event = decode(record)
        if isinstance(event, PodPlacementChanged) and _is(event.pod, pod_name):
            newest = event
        elif isinstance(event, PodPlacementRemoved) and newest is not None and event.pod.uid == newest.pod.uid:
            newest = None
    return newest


def _is(pod: PodName, name: str) -> bool:
    return name in (pod.uid, pod.name, f"{pod.namespace}/{pod.name}")


def _newest(text: str, fits: Callable[[Event | None], bool], mentioning: Mentioning, decode: Decode) -> Record | None:
    newest: tuple[datetime, Record] | None = None
    for record in mentioning(text, DECISIONS):
        event = decode(record)
        if event is not None and fits(event) and (newest is None or event.at >= newest[0]):
            newest = (event.at, record)
    return newest[1] if newest else None
