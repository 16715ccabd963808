"""Which needed nodes should be replaced: broken ones, those that the cloud advises to leave, old and drifted ones.

It only names them. Whether one may go now is decided as for any other node that is drained.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from agents.logic.nodes.aws.asg_provider import DYING
from agents.logic.nodes.cluster_view import ClusterView
from agents.logic.nodes.scaler_settings import ScalerProfile, ScalerSettings
from agents.logic.nodes.scaler_table_values import KnownNotice
from schemas import times
from schemas.decisions.node_updates import RemovalReason
from schemas.facts.node_groups import InterruptionKind, NodeGroupSeen, NodeInstanceSeen

NoticeOf = Callable[[str], KnownNotice | None]
"""The newest notice about an instance, by cluster and instance."""


def find(view: ClusterView, settings: ScalerSettings, now: float, notice_of: NoticeOf) -> Mapping[str, RemovalReason]:
    """The reason of each such node: broken ones first, then those that the cloud advises to leave, then the oldest."""
    if settings.profile == ScalerProfile.UPSTREAM:
        return {}
    repairable = _repairable(view, settings) if settings.repair_after else frozenset()
    advised = {name for name, _notice in _noticed(view, notice_of, settings, at_once=False)}
    found: list[tuple[int, float, str, RemovalReason]] = []
    for name, instance in view.instance_of.items():
        known = view.nodes[name].fact
        since = times.to_seconds(instance.launched or known.created)
        unready = view.nodes[name].unready
        if unready is not None and instance.group in repairable and now - unready > settings.repair_after:
            found.append((0, unready, name, RemovalReason.BROKEN))
        elif name in advised:
            found.append((1, since, name, RemovalReason.ADVISED))
        elif settings.expire_after and now - since > settings.expire_after:
            found.append((2, since, name, RemovalReason.EXPIRED))
        elif settings.drift and drifted(view.groups[instance.group].fact, instance):
            found.append((2, since, name, RemovalReason.DRIFTED))
    return {name: reason for _rank, _since, name, reason in sorted(found)}


def interrupted(view: ClusterView, notice_of: NoticeOf, settings: ScalerSettings) -> Iterator[tuple[str, KnownNotice]]:
    """The nodes whose instances the cloud will take away within minutes, each with the notice."""
    return _noticed(view, notice_of, settings, at_once=True)


def _noticed(
    view: ClusterView, notice_of: NoticeOf, settings: ScalerSettings, *, at_once: bool
) -> Iterator[tuple[str, KnownNotice]]:
    """The nodes with a notice that is obeyed. Only an interruption has a deadline of minutes; all others are advice."""
    if not settings.interruptions or settings.profile == ScalerProfile.UPSTREAM:
        return
    for name in sorted(view.instance_of):
        instance = view.instance_of[name]
        notice = notice_of(f"{instance.cluster}/{instance.instance}")
        if notice is None or instance.lifecycle in DYING:
            continue
        kind = notice.fact.kind
        wanted = settings.rebalances or kind is not InterruptionKind.REBALANCE
        if wanted and at_once is (kind is InterruptionKind.SPOT):
            yield name, notice


def drifted(group: NodeGroupSeen, instance: NodeInstanceSeen) -> bool:
    """Whether a new instance of the group would be started from another version of a launch template than this one was.

    A version that is no number, such as `$Latest`, cannot be compared.
    """
    versions = group.launch_version, instance.launch_version
    return versions[0] != versions[1] and all(one.rpartition(":")[2].isdecimal() and ":" in one for one in versions)


def _repairable(view: ClusterView, settings: ScalerSettings) -> frozenset[str]:
    """The groups of which few enough nodes are not ready."""
    all_nodes, broken = Counter[str](), Counter[str]()
    for name, instance in view.instance_of.items():
        all_nodes[instance.group] += 1
        broken[instance.group] += view.nodes[name].unready is not None
    return frozenset(
        group for group, number in broken.items() if number == 1 or number <= settings.most_broken * all_nodes[group]
    )
