"""Which acts of ours emptied a node that goes: resizes of pods on it, evictions from it, and what new pods on it were given.

The removal itself rests on what the node is asked for now. Why it is asked for so little stands in the decisions about its pods,
which lead on to the recommendations and the usage.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter

from agents.why import admitted_pods
from agents.why.node_decisions import PLACEMENTS, Decode, Mentioning
from schemas.decisions.node_updates import NodeRemovalPlanned
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned
from schemas.facts.scheduled_pods import PodPlacementChanged
from schemas.names import Place, PodName
from schemas.outcomes import ActionFinished, Result
from streams.log.log_port import Record

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
    # ".join(|A search reads all of a topic, so outcomes and decisions are each searched once for all pods.
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
    return event.subject.uid == uid and bool(event.decision) and admitted_pods.is_admission_of(event, uid)


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
