"""Replacements under way: which node came, whether the nodes that it replaces may be drained now, and when to give up.

A group that grew so that a node can go is remembered until that node has gone. So no second replacement is started for it, even
after a restart, and the new node is not scaled down while a disruption budget blocks the drain. Both hold for a bounded time
only. Nothing is drained here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from agents.logic.nodes.autoscaler.node_autoscaler import NodeAutoscaler
from agents.logic.nodes.autoscaler.node_decision_values import NodeDecisions
from agents.logic.nodes.cluster import outdated_nodes
from agents.logic.nodes.cluster.cluster_view import DYING, ClusterView
from agents.logic.nodes.cluster.outdated_nodes import NoticeOf
from agents.logic.nodes.cluster.scaler_state import ScalerState
from agents.logic.nodes.cluster.scaler_table_values import NO_TIMERS, ConsolidationTimers, StartedReplacement
from agents.logic.nodes.removal import consolidation
from agents.logic.nodes.removal.consolidation import ConsolidationRequest
from agents.logic.nodes.removal.node_replacements import ReplacementRequest
from agents.logic.nodes.removal.unneeded_nodes import StayReason
from agents.logic.nodes.scaler import drain_limits
from agents.logic.nodes.scaler_settings import ScalerProfile, ScalerSettings
from schemas.decisions.node_updates import RemovalReason

Records = Mapping[str, StartedReplacement]


@dataclass(slots=True)
class FollowedReplacements:
    """The state of replacements: those that go on, those that are done, and those that are given up, with the reason."""

    going_on: dict[str, StartedReplacement] = field(default_factory=dict)
    done: list[StartedReplacement] = field(default_factory=list)
    released: list[tuple[StartedReplacement, str]] = field(default_factory=list)


def of_cluster(state: ScalerState, cluster: str) -> dict[str, StartedReplacement]:
    """The replacements of a cluster that are under way, by their keys, the oldest first."""
    mine = [(key, record) for key, record in state.replacements.items() if key.startswith(f"{cluster}/")]
    return dict(sorted(mine, key=lambda item: (item[1].since, item[0])))


def for_node(state: ScalerState, cluster: str, name: str) -> StartedReplacement | None:
    """The replacement that a node waits for."""
    return next((record for record in of_cluster(state, cluster).values() if name in record.names), None)


def brought(state: ScalerState, cluster: str, name: str) -> StartedReplacement | None:
    """The replacement that a node came for."""
    return next((record for record in of_cluster(state, cluster).values() if name == record.node), None)


def _follow(records: Records, view: ClusterView, settings: ScalerSettings, now: float) -> FollowedReplacements:
    """Find the nodes that came, and the end of what is over."""
    followed = FollowedReplacements()
    taken = {record.node for record in records.values()}
    for key, started in records.items():
        remaining = [name for name in started.names if name in view.nodes]
        if not remaining:
            followed.done.append(started)
            continue
        going = any(view.seen[name].deleting is not None for name in remaining)
        record = started if started.node else _arrived(started, view, taken, now)
        taken.add(record.node)
        # The time for which it is held counts from the last drain that was under way.
        record = replace(record, ready=now) if record.node and going else record
        why = "" if going else _over(record, view, settings, now)
        if why:
            followed.released.append((record, why))
        else:
            followed.going_on[key] = record
    return followed


def _arrived(record: StartedReplacement, view: ClusterView, taken: set[str], now: float) -> StartedReplacement:
    """The replacement with the node that came for it: the first of its group that is new, ready and takes pods."""
    fresh = [
        (known.first, name)
        for name, known in view.nodes.items()
        if known.first > record.since and name not in taken and view.seen[name].group == record.group and _usable(view, name)
    ]
    return replace(record, node=min(fresh)[1], ready=now) if fresh else record


def _usable(view: ClusterView, name: str) -> bool:
    seen, instance = view.seen.get(name), view.instance_of.get(name)
    if seen is None or instance is None or instance.lifecycle in DYING:
        return False
    return seen.ready and not seen.node.unschedulable and seen.deleting is None


def _over(record: StartedReplacement, view: ClusterView, settings: ScalerSettings, now: float) -> str:
    """Why a replacement is given up although none of its nodes goes; empty if it is not."""
    group = view.sized.get(record.group)
    if record.failed and not record.node:
        return record.failed
    if group is None:
        return f"group '{record.group}' is gone"
    if not record.node:
        late = now - record.since > group.options.max_provision + settings.expires
        return f"no node of group '{record.group}' came in time" if late else ""
    if record.node not in view.nodes:
        return f"node '{record.node}' is gone"
    if record.reason == RemovalReason.CONSOLIDATED and not _saves(record, view, settings):
        return "it would no longer save what it must"
    late = now - (record.ready or record.since) > settings.replacement_hold
    return f"no drain could begin within {settings.replacement_hold:g} s" if late else ""


def _saves(record: StartedReplacement, view: ClusterView, settings: ScalerSettings) -> bool:
    """Whether a cheaper node still is cheaper."""
    if not consolidates(settings):
        return False
    prices = _prices(view)
    groups = [view.seen[name].group for name in record.names if name in view.seen]
    if len(groups) < len(record.names):
        # One of the nodes has gone, and the new one is paid for: the others follow in any case.
        return True
    known = record.group in prices and all(group in prices for group in groups)
    before = sum(prices[group] for group in groups) if known else 0.0
    return known and consolidation.worth(before, prices[record.group], settings.consolidation_savings)


def _prices(view: ClusterView) -> dict[str, float]:
    return {name: known.fact.price for name, known in view.groups.items() if known.fact.price is not None}


def consolidates(settings: ScalerSettings) -> bool:
    """Whether nodes are replaced by cheaper ones at all."""
    return settings.consolidate and settings.scale_down and settings.profile != ScalerProfile.UPSTREAM


def _drained(records: Records, view: ClusterView) -> dict[str, RemovalReason]:
    """The nodes whose cheaper replacement is ready, so that they can go."""
    return {
        name: RemovalReason.CONSOLIDATED
        for record in records.values()
        if record.reason == RemovalReason.CONSOLIDATED and record.node and _usable(view, record.node)
        for name in record.names
        if name in view.nodes
    }


def asked(
    state: ScalerState, cluster: str, view: ClusterView, settings: ScalerSettings, now: float
) -> tuple[dict[str, RemovalReason], ReplacementRequest]:
    """Which nodes a look should replace, each with the reason, and its whole request."""
    records, timers = of_cluster(state, cluster), state.consolidation.get(cluster) or NO_TIMERS
    outdated = outdated_nodes.find(view, settings, now, state.notices.get)
    wanted = {**outdated, **{name: why for name, why in _drained(records, view).items() if name not in outdated}}
    return wanted, _request(records, timers, view, settings, wanted, state.notices.get)


def too_often(auto: NodeAutoscaler, view: ClusterView, names: Iterable[str], now: float) -> frozenset[str]:
    """The nodes of these that wait, because young nodes of their groups are replaced again and again."""
    ages = {name: now - outdated_nodes.began(view, name) for name in names}
    return frozenset(name for name, age in ages.items() if auto.replaced_too_often(view.instance_of[name].group, age, now))


def _request(  # noqa: PLR0913, PLR0917  # what is known of a cluster
    records: Records,
    timers: ConsolidationTimers,
    view: ClusterView,
    settings: ScalerSettings,
    outdated: Mapping[str, RemovalReason],
    notice_of: NoticeOf,
) -> ReplacementRequest:
    """What a look is asked to replace."""
    asked = drain_limits.request(view, settings, list(outdated), notice_of)
    started = {name for record in records.values() for name in record.names}
    held = {record.node for record in records.values() if record.node}
    cheaper = _cheaper(timers, view, settings) if consolidates(settings) else None
    return replace(asked, started=started, held=held, cheaper=cheaper)


def _cheaper(timers: ConsolidationTimers, view: ClusterView, settings: ScalerSettings) -> ConsolidationRequest | None:
    prices = _prices(view)
    targets = [name for name in prices if settings.consolidate_to_spot or not view.groups[name].fact.spot]
    resting = {**dict.fromkeys(timers.tried, StayReason.RECENT), **dict.fromkeys(timers.resting, StayReason.JUST_REPLACED)}
    if not targets:
        return None
    return ConsolidationRequest(prices, targets, settings.consolidation_savings, settings.consolidation_together, resting)


def next_timers(
    timers: ConsolidationTimers, decisions: NodeDecisions, view: ClusterView, settings: ScalerSettings, now: float
) -> ConsolidationTimers:
    """The timers after a look: findings go on, and failed tries are not repeated for a while."""
    names = {name for option in decisions.cheaper.options for name in option.names}
    tried = {**timers.tried, **dict.fromkeys(decisions.cheaper.tried, now + settings.recheck)}
    return ConsolidationTimers(
        {name: timers.since.get(name, now) for name in sorted(names)},
        {name: until for name, until in sorted(timers.resting.items()) if until > now and name in view.nodes},
        {name: until for name, until in sorted(tried.items()) if until > now and name in view.nodes},
    )


def settle(
    state: ScalerState, cluster: str, view: ClusterView, settings: ScalerSettings, now: float
) -> list[tuple[StartedReplacement, str]]:
    """Bring the replacements of a cluster up to date in the state; those that are given up, with the reason."""
    records = of_cluster(state, cluster)
    followed = _follow(records, view, settings, now)
    for key, record in records.items():
        kept = followed.going_on.get(key)
        if kept is None:
            state.replacements.remove(key)
        elif kept != record:
            state.replacements.upsert(key, kept)
    over = [*followed.done, *(record for record, _why in followed.released)]
    # The node that came rests from then on, and so do nodes whose cheaper replacement was given up: prices that change by the
    # hour must not replace them again and again.
    resting = {name: now + settings.consolidation_pause for record in over for name in (record.node, *record.names) if name}
    if resting and consolidates(settings):
        timers = state.consolidation.get(cluster) or NO_TIMERS
        state.consolidation.upsert(cluster, replace(timers, resting={**timers.resting, **resting}))
    return followed.released
