"""Pods that the scheduler does not place although a node has room for them by all rules that are known here, or says nothing of.

The scheduler knows more than anybody can repeat: its own configuration, storage that is left in a zone, gangs, devices. Such a
pod needs no further node by what is known, so none is made for it; after a minute it is named, with the scheduler's own sentence.
It says nothing at all of a pod that it does not look at, because a claim or a group that the pod names is not there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from agents.logic.guards.shared_guards import Objection
from agents.logic.nodes.autoscaler.node_autoscaler import NodeAutoscaler
from agents.logic.nodes.cluster import fact_conversion
from agents.logic.nodes.cluster.scaler_state import ScalerState
from agents.logic.nodes.scaler import scaling_plans
from agents.logic.nodes.scaler.decision_round import DecisionRound
from agents.logic.nodes.scaler.scaling_plans import PlanContext
from agents.logic.nodes.scheduling.pod_scheduling_needs import PodNature, SchedulablePod
from schemas.decision_subjects import Subject
from schemas.decisions.node_updates import ScaleRefused
from schemas.decisions.scale_refusal_codes import RefusalCode

PATIENCE = 60.0
"""Seconds that the scheduler has to place a pod for which a node has room."""
MOST = 20
"""Natures of pods that one decision names."""
NOT_THERE = "as it does where it does not run, or where something that a pod names is not there"


def reason_of(state: ScalerState, cluster: str, auto: NodeAutoscaler, pod: SchedulablePod, now: float) -> str:
    """What is known of a pod that the scheduler has not placed in time; empty for any other."""
    node, since = auto.roomy.get(pod.key, ("", now))
    if since + PATIENCE > now:
        return ""
    placed = state.pods.get(state.ready_index().waiting_keys(cluster).get(pod.key, ""))
    said = f": '{placed.message}'" if placed is not None and placed.message else ""
    room = f"node '{node}' has room for it by all rules that are known here"
    return f"{fact_conversion.NOT_UNDERSTOOD}: for {now - since:.0f} s {room}, and the scheduler refuses it{said}"


def silence(state: ScalerState, key: str, pod: SchedulablePod, now: float) -> str:
    """What is known of a pod, by its key, of which the scheduler has said nothing in time; empty if it still has time."""
    since = now - pod.created
    if since < PATIENCE:
        return ""
    placed = state.pods.get(key)
    failed = f"its scheduler fails over it: '{placed.message}'" if placed is not None and placed.message else ""
    said = failed or f"its scheduler has said nothing about it in {since:.0f} s, {NOT_THERE}"
    unread = state.ready_index().shape(state.ready_index().shape_of(pod)).unread
    return f"{fact_conversion.NOT_UNDERSTOOD}: {'; '.join((*unread, said))}"


def refusals(state: ScalerState, look: DecisionRound) -> Iterator[ScaleRefused]:
    """One for the pods of each nature."""
    context, index = look.context, state.ready_index()
    alike: dict[PodNature, list[SchedulablePod]] = {}
    for pod in context.view.inputs.waiting if look.auto.roomy else ():
        if pod.key in look.auto.roomy:
            alike.setdefault(pod.nature, []).append(pod)
    # Those that no group helps are named as such.
    for helpless in look.decisions.helpless:
        alike.pop(helpless.pod.nature, None)
    for pods in list(alike.values())[:MOST]:
        why = reason_of(state, context.cluster, look.auto, pods[0], look.now)
        if why:
            yield _refusal(state, context, pods, why)
    silent: dict[PodNature, list[tuple[str, SchedulablePod]]] = {}
    for key, pod in index.silent(context.cluster).items():
        if pod.created + PATIENCE <= look.now:
            silent.setdefault(pod.nature, []).append((key, pod))
    for keyed in list(silent.values())[:MOST]:
        key, oldest = min(keyed, key=lambda pair: (pair[1].created, pair[0]))
        pods = [oldest, *(pod for other, pod in keyed if other != key)]
        yield _refusal(state, context, pods, silence(state, key, oldest, look.now))


def _refusal(state: ScalerState, context: PlanContext, pods: Sequence[SchedulablePod], why: str) -> ScaleRefused:
    """The refusal about pods of one nature."""
    index, first = state.ready_index(), pods[0]
    shape = index.shape_of(first)
    owner, name = index.shape(shape).owner, shape.split("/", 1)[1]
    kind, named = ("Pod", first.name) if owner is None else (owner.kind, owner.name)
    subject = Subject.of_object(context.cluster, kind, first.namespace, named, name)
    refused = scaling_plans.refusal(context, subject, Objection(RefusalCode.NOT_UNDERSTOOD, why), {}, len(pods))
    return replace(refused, example=first.key)
