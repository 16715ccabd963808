"""What a decision leaves as it is, and why: waiting pods, groups and nodes. A refusal is said once, and again when it changes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter

from agents.engine.turn import Decided
from agents.logic.guards import shared_guards
from agents.logic.guards.shared_guards import Objection
from agents.logic.nodes.autoscaler.node_autoscaler import NodeAutoscaler
from agents.logic.nodes.autoscaler.node_decision_values import NodeDecisions
from agents.logic.nodes.cluster import cluster_view, fact_conversion
from agents.logic.nodes.cluster.capacity_buffers import BUFFER
from agents.logic.nodes.cluster.scaler_state import ScalerState
from agents.logic.nodes.cluster.scaler_table_values import GROWTH, SIZE, SOFT, SaidLast
from agents.logic.nodes.growth import expanders, scale_up
from agents.logic.nodes.growth.expanders import Expander, ExpanderChoice
from agents.logic.nodes.removal.unneeded_nodes import StayReason
from agents.logic.nodes.scaler import group_troubles, scaling_plans
from agents.logic.nodes.scaler.decision_round import DecisionRound
from agents.logic.nodes.scaler.scaling_plans import PlanContext
from agents.logic.nodes.scheduling.pod_shapes import PodNature, SchedulablePod
from schemas.decision_subjects import Subject, SubjectKind
from schemas.decisions.node_updates import SAID_AGAIN, RefusalCode, ScaleRefused
from schemas.names import Place

MOST_NODES = 500
"""Nodes of which one decision says that they stay; the others are said by the next ones."""
PRIORITIES = "cluster-autoscaler-priority-expander"
"""The name of the priority expander's ConfigMap."""
FAULTS = "faults"
"""What refusals of misconfigured groups are remembered under, because a group may be refused growth as well."""
QUIET = frozenset((StayReason.RECENT, StayReason.DELETING, StayReason.OTHER, StayReason.NO_TURN, StayReason.COMING))
"""Reasons that say nothing new about a node."""
_SKIPPED: Mapping[str, RefusalCode] = {
    scale_up.BACKED_OFF: RefusalCode.GROUP_BACKED_OFF,
    scale_up.AT_MAXIMUM: RefusalCode.GROUP_AT_MAXIMUM,
    scale_up.NOT_READY: RefusalCode.GROUP_NOT_READY,
}
"""The codes of reasons why a group may not grow; any other reason is a limit."""


def all_of(state: ScalerState, look: DecisionRound, decisions: NodeDecisions, *, look_at_nodes: bool) -> list[ScaleRefused]:
    """Everything that is not changed, and why; without `look_at_nodes` only what concerns waiting pods."""
    context, refused = look.context, decisions.scale_up.refused
    refusals: list[ScaleRefused] = []
    if look_at_nodes:
        refusals += _misconfigured(context)
    # That is said by `group_troubles`, and nothing further was looked at.
    if decisions.halted:
        return refusals
    if decisions.postponed:
        refusals.append(about_cluster(context, RefusalCode.POSTPONED, scaling_plans.POSTPONED))
    if refused:
        refusals.append(about_cluster(context, code_of(refused), refused))
    elif decisions.helpless and 0 < context.settings.most_nodes <= len(context.view.inputs.nodes):
        refusals.append(about_cluster(context, RefusalCode.MAX_NODES, scale_up.MAX_NODES))
    if context.view.inputs.waiting and not decisions.grow:
        refusals += [skipped_group(context, *skipped) for skipped in sorted(decisions.scale_up.skipped.items())]
    refusals += _expanders_passed_over(context) if context.view.inputs.waiting else ()
    refusals += _unmatched(context, decisions.scale_up.choices)
    index = state.ready_index()
    for pods in decisions.helpless:
        shape = index.shape_of(pods.pod)
        owner, name = index.shape(shape).owner, shape.split("/", 1)[1]
        what = (owner.kind, owner.name) if owner is not None else ("Pod", pods.pod.name)
        subject = Subject.of_object(context.cluster, what[0], pods.pod.namespace, what[1], name)
        refusals.append(scaling_plans.helpless(context, pods, name, subject))
    refusals += misread(state, look)
    if look_at_nodes:
        refusals += _staying(state, look, decisions)
    return refusals


def code_of(refused: str) -> RefusalCode:
    """The code of a limit of the whole cluster that lets no group grow; that of nodes is upstream's."""
    return RefusalCode.MAX_NODES if refused == scale_up.MAX_NODES else RefusalCode.LIMITED


def skipped_group(context: PlanContext, group: str, reason: str) -> ScaleRefused:
    """A group that may not grow although pods wait."""
    code = _SKIPPED.get(reason, RefusalCode.GROUP_LIMITED)
    fact = context.view.groups[group].fact
    numbers = {"desired": fact.desired, "most": fact.most, **({"no template": fact.no_template} if fact.no_template else {})}
    subject = Subject.of_node_group(context.cluster, group)
    return scaling_plans.refusal(context, subject, Objection(code, reason), numbers, len(context.view.inputs.waiting))


def about_cluster(context: PlanContext, code: RefusalCode, reason: str) -> ScaleRefused:
    """A refusal that concerns all pods that wait."""
    subject = Subject.of_object(context.cluster, "Cluster", "", context.cluster)
    return scaling_plans.refusal(context, subject, Objection(code, reason), {}, len(context.view.inputs.waiting))


def _expanders_passed_over(context: PlanContext) -> Iterator[ScaleRefused]:
    """Expanders that tell no group from another at this moment."""
    if Expander.PRIORITY in context.settings.chain():
        priorities = cluster_view.priorities_of(context.view.priorities)
        if isinstance(priorities, str):
            known = context.view.priorities
            named = ("", PRIORITIES) if known is None else (known.fact.namespace, known.fact.name)
            subject = Subject.of_object(context.cluster, "ConfigMap", *named)
            waiting = len(context.view.inputs.waiting)
            yield scaling_plans.refusal(context, subject, Objection(RefusalCode.NO_PRIORITIES, priorities), {}, waiting)
    asked = context.asked
    if asked is not None and asked.failed:
        yield about_cluster(context, RefusalCode.EXPANDER_FAILED, f"the external expander is passed over: {asked.failed}")


def _unmatched(context: PlanContext, choices: Sequence[ExpanderChoice]) -> Iterator[ScaleRefused]:
    """Groups that no pattern of the priority expander's ConfigMap matches."""
    priorities = context.view.priorities
    events = [event for choice in choices for event in choice.events]
    groups = sorted({group for reason, group in events if reason == expanders.NOT_MATCHED})
    if not groups or priorities is None:
        return
    named = ", ".join(f"'{group}'" for group in groups[: scaling_plans.MOST_NAMED])
    more = f" and {len(groups) - scaling_plans.MOST_NAMED} more" if len(groups) > scaling_plans.MOST_NAMED else ""
    objection = Objection(RefusalCode.PRIORITIES_MISS_GROUPS, f"no pattern matches {named}{more}, so another group grows")
    if any(reason == expanders.NONE_MATCHED for reason, _group in events):
        why = f"no pattern matches any group that could grow, as {named}{more}: all pass"
        objection = Objection(RefusalCode.PRIORITIES_MISS_ALL, why)
    subject = Subject.of_object(context.cluster, "ConfigMap", priorities.fact.namespace, priorities.fact.name)
    yield scaling_plans.refusal(
        context, subject, objection, {"groups": groups[: scaling_plans.MOST_EXAMPLES]}, len(context.view.inputs.waiting)
    )


def _misconfigured(context: PlanContext) -> Iterator[ScaleRefused]:
    """Groups whose bounds contradict each other or whose tags cannot be read."""
    for name, known in sorted(context.view.groups.items()):
        fault = group_troubles.faults(known.fact)
        if fault:
            subject = Subject.of_node_group(context.cluster, name)
            yield scaling_plans.refusal(context, subject, Objection(RefusalCode.GROUP_MISCONFIGURED, fault), {})


def _staying(state: ScalerState, look: DecisionRound, decisions: NodeDecisions) -> list[ScaleRefused]:
    """The nodes whose reason to stay has changed since the last refusal; the first of them, in the order of names."""
    context = look.context
    stays = {**look.auto.scale_down.stays, **decisions.delete.waiting, **decisions.outdated.kept}
    fresh: list[ScaleRefused] = []
    for name, stay in sorted(stays.items(), key=itemgetter(0)):
        if stay.reason in QUIET or len(fresh) >= MOST_NODES:
            continue
        last = state.said.get(f"{context.cluster}/said/node/{name}")
        # The same reason by another pod is news.
        if last is None or last.code != stay.reason.value or (stay.pod and stay.pod not in last.reason):
            fresh.append(scaling_plans.stays(context, name, stay))
    return fresh


def news(
    state: ScalerState, context: PlanContext, refusals: Sequence[ScaleRefused], *, look_at_nodes: bool, places: tuple[Place, ...]
) -> Iterator[Decided]:
    """The refusals that are new."""
    said, held, now = state.said, set[str](), context.turn.number / 1000
    for event in refusals:
        kind = FAULTS if event.code == RefusalCode.GROUP_MISCONFIGURED else event.subject.kind.value
        key = f"{context.cluster}/said/{kind}/{_name(event.subject)}"
        held.add(key)
        current = SaidLast(event.code, _changing(event, now))
        if said.get(key) != current:
            said.upsert(key, current)
            yield context.decided(event, *_place(context, event), *places)
    if look_at_nodes:
        _forget(state, context, held)


def _changing(event: ScaleRefused, now: float) -> str:
    """What of a refusal is news when it changes; what keeps pods waiting is said again for as long as it does."""
    # The scheduler's words about a pod change at any time, and the sentence about a budget counts nodes, so they are no news.
    sentence = "" if event.code in (RefusalCode.NOT_UNDERSTOOD, RefusalCode.BUDGET) else event.reason
    return f"{sentence} {now // group_troubles.AGAIN:.0f}" if event.code in SAID_AGAIN else sentence


def _place(context: PlanContext, event: ScaleRefused) -> tuple[Place, ...]:
    """The place of the fact that a refusal is about."""
    priorities = context.view.priorities
    if event.code in expanders.ABOUT_PRIORITIES:
        return () if priorities is None else (priorities.place,)
    if event.subject.kind is SubjectKind.NODE:
        return (context.view.nodes[event.subject.name].place,)
    known = context.view.groups.get(event.subject.name)
    return () if known is None else (known.place,)


def _forget(state: ScalerState, context: PlanContext, held: set[str]) -> None:
    """Forget refusals about things that are gone, and about pods and groups once no pod waits. `held` are those that hold."""
    cluster, waiting = context.cluster, bool(context.view.inputs.waiting)
    paused = shared_guards.paused(state.control.get(cluster)) is not None
    for key in [key for key in state.said if key.startswith(f"{cluster}/")]:
        parts = key.split("/", 3)
        about = parts[-1] if parts[1] == "said" else key.split("/", 2)[2]
        kind = parts[2] if parts[1] == "said" else parts[1]
        known = about in context.view.nodes or about in context.view.unregistered if kind in ("node", GROWTH, SOFT) else waiting
        if kind == BUFFER:
            known = f"{cluster}/{about}" in context.view.buffers
        if kind == SIZE:
            known = about in context.view.groups
        if kind == FAULTS:
            group = context.view.groups.get(about)
            known = group is not None and bool(group_troubles.faults(group.fact))
        # A pause stays as long as it lasts, even if it holds nothing back.
        if not known and key not in held and not (paused and _is_pause(state.said.get(key))):
            state.said.remove(key)


def _is_pause(said: SaidLast | None) -> bool:
    return said is not None and said.code == RefusalCode.PAUSED


def _name(subject: Subject) -> str:
    return subject.name if subject.kind in (SubjectKind.NODE, SubjectKind.NODE_GROUP) else subject.id


PATIENCE = 60.0
"""Seconds that the scheduler has to place a pod for which a node has room."""
MOST_MISREAD = 20
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


def misread(state: ScalerState, look: DecisionRound) -> Iterator[ScaleRefused]:
    """A refusal for the pods of each nature that the scheduler does not place although a node has room, or says nothing of."""
    context, index = look.context, state.ready_index()
    alike: dict[PodNature, list[SchedulablePod]] = {}
    # The scheduler knows more than anybody can repeat: its own configuration, storage that is left in a zone, gangs, devices.
    # Such a pod needs no further node by what is known, so none is made for it; after a minute it is named, with the scheduler's
    # own sentence.
    for pod in context.view.inputs.waiting if look.auto.roomy else ():
        if pod.key in look.auto.roomy:
            alike.setdefault(pod.nature, []).append(pod)
    # Those that no group helps are named as such.
    for helpless in look.decisions.helpless:
        alike.pop(helpless.pod.nature, None)
    for pods in list(alike.values())[:MOST_MISREAD]:
        why = reason_of(state, context.cluster, look.auto, pods[0], look.now)
        if why:
            yield _misread_pods(state, context, pods, why)
    # It says nothing at all of a pod that it does not look at, as where a claim that the pod names is not there.
    silent: dict[PodNature, list[tuple[str, SchedulablePod]]] = {}
    for key, pod in index.silent(context.cluster).items():
        if pod.created + PATIENCE <= look.now:
            silent.setdefault(pod.nature, []).append((key, pod))
    for keyed in list(silent.values())[:MOST_MISREAD]:
        key, oldest = min(keyed, key=lambda pair: (pair[1].created, pair[0]))
        pods = [oldest, *(pod for other, pod in keyed if other != key)]
        yield _misread_pods(state, context, pods, silence(state, key, oldest, look.now))


def _misread_pods(state: ScalerState, context: PlanContext, pods: Sequence[SchedulablePod], why: str) -> ScaleRefused:
    """The refusal about pods of one nature."""
    index, first = state.ready_index(), pods[0]
    shape = index.shape_of(first)
    owner, name = index.shape(shape).owner, shape.split("/", 1)[1]
    kind, named = ("Pod", first.name) if owner is None else (owner.kind, owner.name)
    subject = Subject.of_object(context.cluster, kind, first.namespace, named, name)
    refused = scaling_plans.refusal(context, subject, Objection(RefusalCode.NOT_UNDERSTOOD, why), {}, len(pods))
    return replace(refused, example=first.key)
