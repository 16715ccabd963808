"""Which nodes are to be replaced although they are needed: those that are too old, and those of another launch template.

It only says which. Whether one may go now is decided as for any other node that is drained.
"""

from collections.abc import Mapping

from agents.logic.nodes.cluster_view import ClusterView
from agents.logic.nodes.scaler_settings import ScalerProfile, ScalerSettings
from schemas import times
from schemas.decisions.node_updates import RemovalReason
from schemas.facts.node_groups import NodeGroupSeen, NodeInstanceSeen


def find(view: ClusterView, settings: ScalerSettings, now: float) -> Mapping[str, RemovalReason]:
    """The reason of each such node, oldest first."""
    if settings.profile == ScalerProfile.UPSTREAM or not (settings.expire_after or settings.drift):
        return {}
    found: list[tuple[float, str, RemovalReason]] = []
    for name, instance in view.instance_of.items():
        known = view.nodes[name].fact
        since = times.to_seconds(instance.launched or known.created)
        if settings.expire_after and now - since > settings.expire_after:
            found.append((since, name, RemovalReason.EXPIRED))
        elif settings.drift and drifted(view.groups[instance.group].fact, instance):
            found.append((since, name, RemovalReason.DRIFTED))
    return {name: reason for _since, name, reason in sorted(found)}


def drifted(group: NodeGroupSeen, instance: NodeInstanceSeen) -> bool:
    """Whether a new instance of the group would be started from another version of a launch template than this one was.

    A version that is no number, such as `$Latest`, is none to compare.
    """
    versions = group.launch_version, instance.launch_version
    return versions[0] != versions[1] and all(one.rpartition(":")[2].isdecimal() and ":" in one for one in versions)
