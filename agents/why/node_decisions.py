"""Finding the decision about a node, a node group, or a pod that waits for a node, and which acts of ours emptied a node.

The removal of a node rests on what the node is asked for now. Why it is asked for so little stands in the decisions about its
pods, which lead on to the recommendations and the usage.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from operator import itemgetter

from schemas.catalogue import Event
from schemas.decision_subjects import SubjectKind
from schemas.decisions.node_updates import NodeRemovalPlanned, ScaleRefused, ScaleUpPlanned
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from schemas.facts.scheduled_pods import PodPlacementChanged, PodPlacementRemoved
from schemas.names import Place, PodName
from schemas.outcomes import Action, ActionFinished, Result
from streams.log.log_port import Record

# Which admission gave a pod its requests.
# A pod of a ReplicaSet has only a name prefix when the webhook sees it, so an offer of admission has the prefix and `%`. The
# outcome that says that the pod was seen has its full name.

_ADDED = re.compile(r"[bcdfghjklmnpqrstvwxz2456789]{5}")
"""What the API server adds to the beginning of a name (apimachinery's rand.String)."""
_KEPT = 58
"""Characters of a beginning that the API server keeps, so that a name has 63 at most."""


def beginning(pod_name: str) -> str:
    """The text that the admission outcome of this pod (`namespace/name`, name or uid) contains."""
    name = pod_name.rpartition("/")[2]
    return name[:-5] if _ADDED.fullmatch(name[-5:]) else name


def is_admission_of(outcome: ActionFinished, pod_name: str) -> bool:
    """Whether an outcome is of the admission of this pod, or of one with the same name prefix."""
    pod = outcome.subject
    if outcome.action is not Action.PATCH:
        return False
    if pod_name in (pod.uid, pod.name, f"{pod.namespace}/{pod.name}"):
        return True
    namespace, _, name = pod_name.rpartition("/")
    # The API server cuts a prefix and then adds five characters of an alphabet of its own.
    start = pod.name[:-1][:_KEPT]
    begun = pod.name.endswith("%") and name.startswith(start) and _ADDED.fullmatch(name[len(start) :])
    return bool(begun) and namespace in ("", pod.namespace)


def nearest(admissions: Iterable[ActionFinished], created: datetime | None) -> ActionFinished | None:
    """What was seen of the pod itself; else the offer nearest to its creation, or the newest one if that is unknown."""
    admissions = list(admissions)
    # An offer has only the prefix that all pods of an owner share; what was seen has the pod's own name.
    admissions = [
        admission for admission in admissions if admission.result is Result.DONE and not admission.subject.name.endswith("%")
    ] or admissions
    if created is None:
        return max(admissions, key=lambda admission: admission.at, default=None)
    return min(admissions, key=lambda admission: abs(admission.at - created), default=None)


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

    # A group rarely grows or is refused, and its nodes say then what happens in it.
    return _newest(name, fits, mentioning, decode) or _newest(
        name, lambda event: isinstance(event, NodeRemovalPlanned) and event.group == name, mentioning, decode
    )


def about_waiting_pod(pod_name: str, mentioning: Mentioning, decode: Decode) -> Record | None:
    """The newest decision about a pod that waits for a node: growth for it, or why none of its shape is helped.

    None for a pod that does not wait.
    """
    placed = _placement(pod_name, mentioning, decode)
    if placed is None or not placed.unschedulable:
        return None
    key = f"{placed.pod.namespace}/{placed.pod.name}"
    growth = _newest(key, lambda event: isinstance(event, ScaleUpPlanned) and key in event.examples, mentioning, decode)
    # A refusal is about all pods of a shape, so one that was said of another pod of it counts, too.
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


MOST_PODS = 30
"""Pods of a node that are looked at, those that came last first."""
MOST = 6
"""Acts that an explanation shows, the latest."""


def places(
    removal: NodeRemovalPlanned, mentioning: Mentioning, decode: Decode, by_id: Callable[[str], Record | None]
) -> list[Place]:
    """Where the decisions stand: what was done to pods on the node, and what pods on it were created with."""
    pods = {pod.uid: pod for pod in _pods(removal, mentioning, decode)}
    if not pods:
        return []
    # A search reads all of a topic, so outcomes and decisions are each searched once for all pods.
    named = re.compile("|".join(map(re.escape, pods)).encode())
    done = [event for event in _done(named, mentioning, decode) if event.subject.uid in pods]
    carried_out = {event.decision for event in done}
    offered = {uid: [event.decision for event in done if event.at <= removal.at and _offers(event, uid)] for uid in pods}
    decisions = dict.fromkeys(decision for uid in pods for decision in offered[uid])
    records = (by_id(decision) for decision in list(decisions)[-MOST:])
    acts = []
    for record in _matching(named, mentioning("uid", "pod-updates")):
        event = decode(record)
        if isinstance(event, ResizePlanned | EvictionPlanned) and event.pod.uid in pods and event.at <= removal.at:
            acts += [(event.at, record.place)] if event.id in carried_out else []
    latest = [place for _at, place in sorted(acts, key=itemgetter(0))][-MOST:]
    return [*latest, *(record.place for record in records if record is not None)]


def _done(named: re.Pattern[bytes], mentioning: Mentioning, decode: Decode) -> Iterator[ActionFinished]:
    """What was done to any of the named pods."""
    for record in _matching(named, mentioning(f'"{Result.DONE.value}"', "outcomes")):
        event = decode(record)
        if isinstance(event, ActionFinished) and event.result is Result.DONE:
            yield event


def _matching(named: re.Pattern[bytes], records: Iterable[Record]) -> Iterator[Record]:
    return (record for record in records if named.search(record.value or b""))


def _offers(event: ActionFinished, uid: str) -> bool:
    """Whether this is the admission of a pod, by a recommendation that it names."""
    return event.subject.uid == uid and bool(event.decision) and is_admission_of(event, uid)


def _pods(removal: NodeRemovalPlanned, mentioning: Mentioning, decode: Decode) -> list[PodName]:
    """The pods that were on the node before the removal was planned, by what a source published of them."""
    pods: dict[str, PodName] = {pod.uid: pod for pod in removal.evict}
    for record in mentioning(f'"{removal.node}"', PLACEMENTS) if removal.node else ():
        event = decode(record)
        if isinstance(event, PodPlacementChanged) and event.node == removal.node and event.at <= removal.at:
            # So that the pod that came last stands last.
            pods.pop(event.pod.uid, None)
            pods[event.pod.uid] = event.pod
    return list(pods.values())[-MOST_PODS:]
