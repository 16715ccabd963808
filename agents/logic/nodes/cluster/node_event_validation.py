"""Validates facts of node scaling, with a sentence for each fault."""

from collections.abc import Iterator

from schemas import bounds
from schemas.catalogue import Event
from schemas.facts.node_groups import (
    CapacityBufferGone,
    CapacityBufferSeen,
    ExpanderPrioritiesGone,
    ExpanderPrioritiesSeen,
    InstanceInterruptionNoticed,
    NodeGroupGone,
    NodeGroupSeen,
    NodeInstanceGone,
    NodeInstanceSeen,
    ScalingActivityFailed,
)
from schemas.facts.nodes import NodeDetailsChanged, NodeDetailsRemoved
from schemas.facts.scheduled_pods import PodPlacementChanged, PodPlacementRemoved, PodShapeSeen
from schemas.facts.update_facts import (
    ObjectMetadataChanged,
    ObjectMetadataRemoved,
    PodDisruptionBudgetChanged,
    PodDisruptionBudgetRemoved,
    ReplicaControllerChanged,
    ReplicaControllerRemoved,
)

_NAMED = {
    NodeDetailsChanged: ("node",),
    NodeDetailsRemoved: ("node",),
    PodShapeSeen: ("shape", "namespace"),
    PodPlacementChanged: ("shape",),
    PodPlacementRemoved: (),
    PodDisruptionBudgetChanged: ("namespace", "name"),
    PodDisruptionBudgetRemoved: ("namespace", "name"),
    ReplicaControllerChanged: ("namespace", "kind", "name"),
    ReplicaControllerRemoved: ("namespace", "kind", "name"),
    ObjectMetadataChanged: ("namespace", "kind", "name"),
    ObjectMetadataRemoved: ("namespace", "kind", "name"),
    ExpanderPrioritiesSeen: ("namespace", "name"),
    ExpanderPrioritiesGone: ("namespace", "name"),
    CapacityBufferSeen: ("namespace", "name"),
    CapacityBufferGone: ("namespace", "name"),
    NodeGroupSeen: ("group",),
    NodeGroupGone: ("group",),
    NodeInstanceSeen: ("group", "instance"),
    NodeInstanceGone: ("group", "instance"),
    ScalingActivityFailed: ("group",),
    InstanceInterruptionNoticed: ("instance", "notice"),
}
"""The fields that make the key of each fact, beside its cluster."""


def node_reasons(event: Event) -> Iterator[str]:
    """What is wrong with a fact of node scaling; nothing for other events."""
    named = _NAMED.get(type(event))
    if named is None:
        return
    cluster = str(getattr(event, "cluster", ""))
    # Keys are split at slashes, so such a name would stand for another cluster.
    if not cluster or "/" in cluster:
        yield f"cluster is '{cluster}'; a cluster has a name without slashes"
    for name in named:
        if not getattr(event, name):
            yield f"{name} is empty"
    if isinstance(event, PodPlacementChanged | PodPlacementRemoved) and not event.pod.uid:
        yield "pod.uid is empty"
    if isinstance(event, NodeGroupSeen):
        yield from _sizes(event)


def _sizes(event: NodeGroupSeen) -> Iterator[str]:
    for name in ("least", "most", "desired"):
        yield from bounds.number(name, getattr(event, name), bounds.MOST_NODES)
    yield from bounds.number("price", event.price)
    yield from bounds.number("provision", event.provision)
    yield from bounds.number("lifetime", event.lifetime)
