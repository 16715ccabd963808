"""The scaler's decisions as events: growth, removals and refusals, with the numbers that they rest on."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from agents.engine.turn import Decided, Turn
from agents.logic.guards.shared_guards import Objection, plan_expiry
from agents.logic.nodes.autoscaler.node_decision_values import HelplessPods, NodeDecisions
from agents.logic.nodes.cluster import group_patterns
from agents.logic.nodes.cluster.cluster_view import ClusterView
from agents.logic.nodes.cluster.scaler_table_values import AskedExpander, StartedReplacement
from agents.logic.nodes.growth.scale_up import GroupIncrease
from agents.logic.nodes.removal import node_utilization
from agents.logic.nodes.removal.consolidation import CheaperNode
from agents.logic.nodes.removal.node_utilization import IgnoredPods, UtilizationError
from agents.logic.nodes.removal.unneeded_nodes import StayingNode, StayReason, UnneededNode
from agents.logic.nodes.scaler.drain_limits import NodeHeadcount
from agents.logic.nodes.scaler_settings import NAME, ScalerSettings
from agents.logic.nodes.scheduling.pod_shapes import SchedulablePod, evicts_daemon, is_daemon, is_mirror
from schemas import times
from schemas.decision_subjects import Subject
from schemas.decisions import NodeUpdate
from schemas.decisions.node_updates import (
    NodeRemovalPlanned,
    RefusalCode,
    RemovalReason,
    ScaleRefused,
    ScaleUpPlanned,
    SoftTaintPlanned,
)
from schemas.decisions.recommendations import Because
from schemas.facts.nodes import InstanceInterruptionNoticed, NodeInstanceSeen
from schemas.ids import DecisionId
from schemas.names import Place, PodName
from schemas.units import Seconds

POSTPONED = "pods that wait have more rules between pods than one decision goes through; the oldest are looked at first"
COOLING = "no node goes so soon after a group grew, another node went, or a removal failed"
TOPIC = "node-updates"
MOST_NAMED = 3
"""Groups that the sentence about waiting pods names; its numbers name more."""
MOST_REASON = 1000
MOST_EXAMPLES = 20
"""Names of pods, nodes and groups that a decision quotes."""

STAYS: Mapping[StayReason, str] = {
    StayReason.DISABLED: "its annotation says that it must not be removed",
    StayReason.UNREADY_DISABLED: "it is not ready, and nodes that are not ready are left alone",
    StayReason.NOT_AUTOSCALED: "it belongs to no node group that we scale",
    StayReason.USED: "enough of it is asked for",
    StayReason.NOT_LONG_ENOUGH: "it is unneeded, but not for long enough yet",
    StayReason.NOT_UNREADY_LONG_ENOUGH: "it is not ready, but not for long enough yet",
    StayReason.MIN_SIZE: "its node group has its minimum size",
    StayReason.MAX_DELETIONS: "as many nodes as may go at one time are going",
    StayReason.MINIMAL_RESOURCES: "the cluster would have less than what must stay",
    StayReason.DELETING: "it is being removed",
    StayReason.SHARED: "several nodes claim its instance, and it is not the only one of them that is ready",
    StayReason.ASIDE: "its instance is in standby: somebody put it aside, and its group does not count it",
    StayReason.RECENT: "its removal was tried a short while ago",
    StayReason.OTHER: "enough other nodes are unneeded",
    StayReason.NO_PLACE: "its pods would find no place on other nodes",
    StayReason.BLOCKED: "a pod on it must not be moved",
    StayReason.WAITING: "a pod on it must end by itself first",
    StayReason.UNEXPECTED: "its use cannot be told",
    StayReason.REPLACES: "pods of a node that is replaced are to move to it",
    StayReason.NO_TURN: "it is to be replaced, and other nodes go first",
    StayReason.NO_GROWTH: "it is to be replaced, and its node group cannot grow for that now",
    StayReason.COMING: "it is to be replaced, and a new node of its group is not ready yet",
    StayReason.TOO_OFTEN: "it is to be replaced, but so was another young node of its group a short while ago",
    StayReason.FITS: "its pods would fit on nodes that are there, so scale-down decides about it",
    StayReason.NOT_CHEAPER: "no new node of a cheaper group would take its pods for as much less as must be saved",
    StayReason.JUST_REPLACED: "it replaced others a short while ago, or its own replacement was given up then",
    StayReason.NOT_READY: "it is not ready, and only ready nodes are replaced by cheaper ones",
    StayReason.NO_PRICE: "nobody told the price of a node of its group",
    StayReason.GROUP_OUT: "too many nodes of its group are not ready, so that group is left as it is",
    StayReason.GROUP_KEPT: "its cloud ends no node of its group; `ullage status` says why",
    StayReason.STUMBLED: "the removal of a node of its group failed a short while ago",
    StayReason.GREW: "its node group grew a short while ago",
}


@dataclass(frozen=True, slots=True)
class PlanContext:
    """What every decision of one turn about one cluster goes by."""

    turn: Turn
    partition: int
    cluster: str
    settings: ScalerSettings
    view: ClusterView
    headcount: NodeHeadcount = field(default_factory=NodeHeadcount)
    asked: AskedExpander | None = None

    def id(self, kind: str, key: str) -> str:
        """The id of a decision of this turn."""
        return str(DecisionId(NAME, self.partition, self.turn.number, kind, f"{self.cluster}/{key}"))

    def expires(self, *, drains: bool = False) -> datetime:
        """When a plan of this turn expires; one that drains a node lasts longer by the time of a drain."""
        longer = self.settings.drain_time if drains else 0.0
        return plan_expiry(self.turn, lifetime=Seconds(self.settings.expires + longer)).expires

    def decided(self, event: NodeUpdate, *places: Place) -> Decided:
        """A decision with what it rests on."""
        return Decided(TOPIC, self.cluster, event, places)


def growth(
    context: PlanContext, increase: GroupIncrease, pods: Sequence[SchedulablePod], decisions: NodeDecisions
) -> ScaleUpPlanned:
    """A group that grows for these pods."""
    settings, fact, choices = context.settings, context.view.groups[increase.group].fact, decisions.scale_up.choices
    choice = next((choice for choice in choices if choice.best is not None and choice.best.group == increase.group), None)
    best = choice.best if choice is not None else None
    because: dict[str, object] = {
        "desired": fact.desired,
        "least": fact.least,
        "most": fact.most,
        "waiting": len(context.view.inputs.waiting),
        "profile": settings.profile,
    }
    # The planned pods of one workload differ in their number alone.
    planned = Counter(pod.key.partition(" (planned ")[0] for pod in pods if pod.key in context.view.planned)
    if planned:
        because["planned replicas"] = dict(sorted(planned.items())[:MOST_EXAMPLES])
    if best is not None and choice is not None:
        because["option"] = {"nodes": best.nodes, "pods": best.pods, "cpu": best.cpu, "memory": best.memory}
        because["node"] = dict(best.template.allocatable)
        because["equally good"] = [option.group for option in choice.equals][:MOST_EXAMPLES]
    if choice is not None and choice.events:
        because["expander"] = [f"{reason} {group}".rstrip() for reason, group in choice.events[:MOST_EXAMPLES]]
    # An answer serves the first choice of a decision, and no other.
    if (asked := context.asked) is not None and asked.kept and choice is choices[0]:
        because["external expander"] = {"question": asked.id, "chose": list(asked.kept[:MOST_EXAMPLES])}
    if decisions.scale_up.skipped:
        because["skipped"] = dict(sorted(decisions.scale_up.skipped.items())[:MOST_EXAMPLES])
    return ScaleUpPlanned(
        id=context.id("scale-up", increase.group),
        at=context.turn.at,
        expires=context.expires(),
        cluster=context.cluster,
        group=increase.group,
        before=increase.before,
        after=increase.after,
        pods=len(pods),
        examples=tuple(pod.key for pod in pods[:MOST_EXAMPLES]),
        expander=settings.expanders,
        because=because,
    )


def replacement(context: PlanContext, group: str, name: str, reason: RemovalReason) -> ScaleUpPlanned:
    """A group that grows by one, so that a node of it can go later."""
    return _one_more(context, group, "replacement", {"replaces": name, "reason": str(reason)})


def cheaper(context: PlanContext, option: CheaperNode, since: Mapping[str, float]) -> ScaleUpPlanned:
    """A group that grows by one, so that costlier nodes of other groups can go later; `since`: when that became possible."""
    because: dict[str, object] = {
        "replaces": list(option.names),
        "reason": str(RemovalReason.CONSOLIDATED),
        "possible since": times.rfc3339(times.from_seconds(max(since.values()))),
        "price now": round(option.before, 6),
        "price then": round(option.after, 6),
        "least savings": context.settings.consolidation_savings,
        "groups": sorted({context.view.seen[name].group for name in option.names}),
    }
    return _one_more(context, option.group, "consolidation", because)


def replaced(record: StartedReplacement) -> Because:
    """A removal's entries about the node that came first."""
    prices = {"price before": round(record.before, 6), "price after": round(record.after, 6)} if record.before else {}
    return {"replaced by": record.node, "growth": record.plan, **prices}


def _one_more(context: PlanContext, group: str, expander: str, because: Because) -> ScaleUpPlanned:
    fact, before = context.view.groups[group].fact, context.view.sized[group].target
    return ScaleUpPlanned(
        id=context.id("scale-up", group),
        at=context.turn.at,
        expires=context.expires(),
        cluster=context.cluster,
        group=group,
        before=before,
        after=before + 1,
        pods=0,
        examples=(),
        expander=expander,
        because={**because, "desired": fact.desired, "least": fact.least, "most": fact.most},
    )


def removal(
    context: PlanContext,
    unneeded: UnneededNode,
    uids: Mapping[str, str],
    why: RemovalReason | None = None,
    numbers: Because | None = None,
) -> NodeRemovalPlanned:
    """A node that goes, because it is not needed or, if `why` says so, although it is; `numbers` are added."""
    # `uids` are those of the pods that it has now: pods that only a simulation put there are not evicted.
    reason = (
        RemovalReason.UNREADY if not unneeded.node.ready else RemovalReason.EMPTY if unneeded.empty else RemovalReason.UNNEEDED
    )
    daemons = _evicted_daemons(unneeded.drained.daemons, context.settings, empty=unneeded.empty)
    pods = _names(unneeded.drained.move, uids), _names(daemons, uids)
    return _removal(context, unneeded.node.name, why or reason, pods, {**_removal_numbers(context, unneeded), **(numbers or {})})


def interruption(
    context: PlanContext, name: str, notice: InstanceInterruptionNoticed, uids: Mapping[str, str]
) -> NodeRemovalPlanned:
    """A node whose instance the cloud takes away."""
    # Every pod that does not belong to the node is evicted, because it would die with it.
    pods = [pod for pod in context.view.seen[name].pods if not is_mirror(pod.nature.annotations)]
    evict = _names([pod for pod in pods if not is_daemon(pod.nature)], uids)
    daemons = [pod for pod in pods if is_daemon(pod.nature)]
    daemons = _evicted_daemons(daemons, context.settings, empty=len(daemons) == len(pods))
    noticed = notice.noticed or notice.at
    because = {"notice": str(notice.kind), "noticed": times.rfc3339(noticed), "pods": len(pods)}
    return _removal(context, name, RemovalReason.INTERRUPTED, (evict, _names(daemons, uids)), because)


def _removal(
    context: PlanContext,
    name: str,
    reason: RemovalReason,
    pods: tuple[tuple[PodName, ...], tuple[PodName, ...]],
    because: Because,
) -> NodeRemovalPlanned:
    """`pods` are those to evict, and those of DaemonSets that are evicted, too."""
    settings, known, instance = context.settings, context.view.nodes[name].fact, context.view.instance_of[name]
    return NodeRemovalPlanned(
        id=context.id("remove", name),
        at=context.turn.at,
        expires=context.expires(drains=True),
        cluster=context.cluster,
        node=name,
        node_uid=known.uid,
        provider_id=known.provider_id,
        instance=instance.instance,
        group=instance.group,
        reason=reason,
        evict=pods[0],
        daemons=pods[1],
        grace=settings.longest_grace,
        drain=settings.drain_time,
        because=because,
    )


def _evicted_daemons(daemons: Sequence[SchedulablePod], settings: ScalerSettings, *, empty: bool) -> list[SchedulablePod]:
    """The pods of DaemonSets that are evicted from a node that goes; `empty`: it has no others."""
    by_default = settings.evict_daemonsets_of_empty if empty else settings.evict_daemonsets
    return [pod for pod in daemons if evicts_daemon(pod.nature, by_default=by_default)]


def _names(pods: Sequence[SchedulablePod], uids: Mapping[str, str]) -> tuple[PodName, ...]:
    return tuple(PodName(pod.namespace, pod.name, uids[pod.key]) for pod in pods if pod.key in uids)


def _removal_numbers(context: PlanContext, unneeded: UnneededNode) -> Because:
    group = context.view.groups[unneeded.node.group].fact
    since = times.from_seconds(unneeded.since)
    names = [seen.node.name for seen in context.view.inputs.nodes]
    moves = Counter[str]()
    # One entry for each shape of pods, so that a node may be in several.
    for row, pods in unneeded.moves:
        if row < len(names):
            moves[names[row]] += len(pods)
    return {
        **utilization(context, unneeded.node.name),
        "unneeded since": times.rfc3339(since),
        "unneeded seconds": (context.turn.at - since).total_seconds(),
        **_changed(context, unneeded),
        "pods go to": dict(sorted(moves.items())[:MOST_EXAMPLES]),
        "group": {"desired": group.desired, "least": group.least},
    }


def _changed(context: PlanContext, unneeded: UnneededNode) -> dict[str, object]:
    """How many of the pods that move come back with other requests, by the recommendations in force."""
    coming = set(context.view.inputs.successors.values())
    number = sum(pod.nature in coming for _row, pods in unneeded.moves for pod in pods)
    return {"pods that come back with recommended requests": number} if number else {}


def utilization(context: PlanContext, name: str) -> dict[str, object]:
    """How much of a node is asked for, and how much would keep it."""
    seen = context.view.seen[name]
    group = context.view.sized.get(seen.group)
    options = context.settings.group_defaults if group is None else group.options
    ignored = IgnoredPods(options.ignore_daemonsets, context.settings.ignore_mirror_pods)
    threshold = options.gpu_utilization_threshold if seen.gpu else options.utilization_threshold
    try:
        used = node_utilization.of_node(seen.node, seen.pods, ignored, context.turn.number / 1000, gpu=seen.gpu)
    except UtilizationError as error:
        return {"utilization": str(error)}
    return {"utilization": round(used.highest, 4), "of": used.resource, "threshold": threshold, "pods": len(seen.pods)}


def soft_taint(context: PlanContext, name: str, *, tainted: bool) -> SoftTaintPlanned:
    """A node that gets the taint of one that may go soon, or loses it. Source: core/scaledown/actuation/softtaint.go."""
    return SoftTaintPlanned(
        id=context.id("soft-taint", name),
        at=context.turn.at,
        expires=context.expires(),
        cluster=context.cluster,
        node=name,
        node_uid=context.view.nodes[name].fact.uid,
        tainted=tainted,
        because={**utilization(context, name), "unneeded": tainted},
    )


def abandoned(context: PlanContext, instance: NodeInstanceSeen) -> NodeRemovalPlanned:
    """An instance that never became a node."""
    settings = context.settings
    return NodeRemovalPlanned(
        id=context.id("remove", instance.instance),
        at=context.turn.at,
        expires=context.expires(drains=True),
        cluster=context.cluster,
        node="",
        node_uid="",
        provider_id=instance.provider_id,
        instance=instance.instance,
        group=instance.group,
        reason=RemovalReason.UNREGISTERED,
        evict=(),
        daemons=(),
        grace=Seconds(0.0),  # no pod has ever run on it
        drain=Seconds(0.0),
        because={"lifecycle": instance.lifecycle, "provision": settings.max_provision},
    )


def refusal(context: PlanContext, subject: Subject, objection: Objection, numbers: Because, count: int = 0) -> ScaleRefused:
    """Something that is left alone."""
    return ScaleRefused(
        id=context.id("refuse", f"{subject.kind.value}/{subject.id}"),
        at=context.turn.at,
        cluster=context.cluster,
        subject=subject,
        code=str(objection.guard),
        reason=objection.reason,
        count=count,
        because=numbers,
    )


def stays(context: PlanContext, name: str, stay: StayingNode) -> ScaleRefused:
    """A node that stays, and why."""
    why = STAYS[stay.reason]
    if stay.blocking is not None:
        why = f"pod '{stay.pod}' must not be moved: {stay.blocking.value}"
    elif stay.pod:
        why = f"pod '{stay.pod}' must end by itself first"
    subject = Subject.of_node(context.cluster, name, context.view.nodes[name].fact.uid)
    return refusal(context, subject, Objection(stay.reason.value, why), utilization(context, name))


def released(context: PlanContext, record: StartedReplacement, why: str) -> ScaleRefused:
    """A replacement that is given up: the node that came for it is like any other from now on."""
    subject = Subject.of_node_group(context.cluster, record.group)
    if record.node in context.view.nodes:
        subject = Subject.of_node(context.cluster, record.node, context.view.nodes[record.node].fact.uid)
    names = ", ".join(f"'{name}'" for name in record.names)
    given_up = f"it grew by a node so that {names} could go, and that is given up: {why}"
    reason = f"it came so that {names} could go, and is kept for that no longer: {why}" if record.node else given_up
    numbers = {"replaces": list(record.names), "reason": record.reason, "growth": record.plan}
    return refusal(context, subject, Objection(RefusalCode.REPLACEMENT_RELEASED, reason), numbers)


def helpless(context: PlanContext, pods: HelplessPods, shape: str, owner: Subject) -> ScaleRefused:
    """Waiting pods for which no group grows, and what is in the way in each group."""
    some = sorted(pods.failures.items())[:MOST_EXAMPLES]
    failures = {group: [failure.plugin, *failure.reasons] for group, failure in some}
    view, body = context.view, pods.pod.shape
    missing = {
        group: group_patterns.lacking(view.sized[group].template, view.patterns.get(group), body, failure)
        for group, failure in some
    }
    barred = sorted(pods.barred)
    if barred or not pods.failures:
        names = ", ".join(f"'{group}'" for group in barred[:MOST_NAMED])
        reason = f"no node group that would take these pods may grow now{f': {names}' if names else ''}"
        objection = Objection(RefusalCode.NO_GROUP_MAY_GROW, reason[:MOST_REASON])
    else:
        plugins = ", ".join(sorted({failure.plugin for failure in pods.failures.values()}))
        named = "; ".join(f"group '{group}': {what}" for group, what in list(missing.items())[:MOST_NAMED])
        more = f"; and {len(pods.failures) - MOST_NAMED} groups more" if len(pods.failures) > MOST_NAMED else ""
        reason = f"no node group's new node would take these pods: {plugins}; {named}{more}"
        objection = Objection(RefusalCode.NO_GROUP_FITS, reason[:MOST_REASON])
    told = barred[:MOST_EXAMPLES]
    numbers = {"groups": failures, "missing": missing, "may not grow": told, "pods": pods.count, "shape": shape}
    return replace(refusal(context, owner, objection, numbers, pods.count), example=pods.pod.key)
