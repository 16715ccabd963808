"""Which needed nodes should be replaced: broken ones, those that the cloud advises to leave, old and drifted ones.

It only names them. Whether one may go now is decided as for any other node that is drained.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from agents.logic.nodes.cluster import group_patterns
from agents.logic.nodes.cluster.cluster_view import DYING, ClusterView
from agents.logic.nodes.cluster.scaler_table_values import KnownNotice
from agents.logic.nodes.scaler_settings import ScalerProfile, ScalerSettings
from schemas import times
from schemas.decisions.node_updates import RemovalReason
from schemas.facts.nodes import InterruptionKind
from schemas.well_known_labels import NODE_OPT_OUTS, opted_out

LIFETIME_SHARE = 0.9
"""The share of the longest life of an instance after which it is replaced, so that a drain comes before its cloud's end."""
NoticeOf = Callable[[str], KnownNotice | None]
"""The newest notice about an instance, by cluster and instance."""


def find(view: ClusterView, settings: ScalerSettings, now: float, notice_of: NoticeOf) -> Mapping[str, RemovalReason]:
    """The reason of each such node: broken ones first, then those that the cloud advises to leave, then the oldest."""
    if settings.profile == ScalerProfile.UPSTREAM:
        return {}
    repairable = _repairable(view, settings) if settings.repair_after else frozenset()
    advised = {name for name, _notice in _noticed(view, notice_of, settings, at_once=False)}
    lifetimes = {group: _lifetime(view, settings, group) for group in view.groups}
    outdated: list[tuple[int, float, str, RemovalReason]] = []
    for name, instance in view.instance_of.items():
        since = began(view, name)
        unready = view.nodes[name].unready
        if unready is not None and instance.group in repairable and now - unready > settings.repair_after:
            outdated.append((0, unready, name, RemovalReason.BROKEN))
        elif name in advised:
            outdated.append((1, since, name, RemovalReason.ADVISED))
        elif now - since > lifetimes[instance.group]:
            outdated.append((2, since, name, RemovalReason.EXPIRED))
        elif settings.drift and group_patterns.drifted(view.groups[instance.group].fact, instance):
            outdated.append((2, since, name, RemovalReason.DRIFTED))
    kept = {name for _, _, name, _ in outdated if opted_out(view.nodes[name].fact.annotations, NODE_OPT_OUTS)}
    return {name: reason for _rank, _since, name, reason in sorted(outdated) if name not in kept}


def began(view: ClusterView, name: str) -> float:
    """When a node's instance was launched, in seconds; else when the node was made."""
    return times.to_seconds(view.instance_of[name].launched or view.nodes[name].fact.created)


def _lifetime(view: ClusterView, settings: ScalerSettings, group: str) -> float:
    """Seconds after which an instance is too old: by the settings, or soon before its cloud ends it without a drain."""
    ends = view.groups[group].fact.lifetime
    ages = (settings.expire_after, 0.0 if ends is None else LIFETIME_SHARE * ends)
    return min((age for age in ages if age), default=math.inf)


def interrupted(view: ClusterView, notice_of: NoticeOf, settings: ScalerSettings) -> Iterator[tuple[str, KnownNotice]]:
    """The nodes whose instances the cloud will take away within minutes, each with the notice."""
    return _noticed(view, notice_of, settings, at_once=True)


def _noticed(
    view: ClusterView, notice_of: NoticeOf, settings: ScalerSettings, *, at_once: bool
) -> Iterator[tuple[str, KnownNotice]]:
    """The nodes with a notice that is obeyed."""
    if not settings.interruptions or settings.profile == ScalerProfile.UPSTREAM:
        return
    for name in sorted(view.instance_of):
        instance = view.instance_of[name]
        notice = notice_of(f"{instance.cluster}/{instance.instance}")
        if notice is None or instance.lifecycle in DYING:
            continue
        kind = notice.fact.kind
        # Only an interruption has a deadline of minutes; all others are advice.
        wanted = settings.rebalances or kind is not InterruptionKind.REBALANCE
        # A cloud that follows its own recommendation starts a successor and then takes the instance without a drain.
        taken = kind is InterruptionKind.REBALANCE and view.groups[instance.group].fact.rebalances
        if wanted and at_once is (kind is InterruptionKind.SPOT or taken):
            yield name, notice


def _repairable(view: ClusterView, settings: ScalerSettings) -> frozenset[str]:
    """The groups of which few enough nodes are not ready."""
    all_nodes, broken = Counter[str](), Counter[str]()
    for name, instance in view.instance_of.items():
        all_nodes[instance.group] += 1
        broken[instance.group] += view.nodes[name].unready is not None
    # One broken node of a small group may be more than the share, and is no sign of a fault elsewhere.
    return frozenset(
        group for group, number in broken.items() if number == 1 or number <= settings.most_broken * all_nodes[group]
    )
