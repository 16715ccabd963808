"""The catalogue: the wire name and version of every event type, the topics that carry it, and how old versions are lifted.

A name on the wire never changes its meaning. All versions are 1 in the first release, 0.1.0; after it any change of a body raises
`version`. One that does more than add a field with a default also adds a lift from the version before (schemas.catalogue), so
that what a release wrote stays readable for ever. Nothing here reads bytes.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from schemas.decisions import Decision
from schemas.decisions.node_updates import (
    BufferStatusPlanned,
    ExpanderAsked,
    NodeRemovalPlanned,
    NodeScalingHalted,
    ScaleRefused,
    ScaleUpPlanned,
    SizeCorrectionPlanned,
    SoftTaintPlanned,
)
from schemas.decisions.plan_attestations import PlansAttested
from schemas.decisions.pod_updates import EvictionPlanned, ResizePlanned, UpdateRefused
from schemas.decisions.recommendations import MemoryLeakFound, RequestsRecommended, ShadowCompared, ShadowRecommended
from schemas.decisions.replica_plans import LoadForecast, ReplicasPlanned, ReplicasRefused
from schemas.decisions.vpa_conditions import MemoryLimitFound, VpaConditionsDecided
from schemas.facts import Fact, update_facts
from schemas.facts.nodes import (
    CapacityBufferGone,
    CapacityBufferSeen,
    ExpanderPrioritiesGone,
    ExpanderPrioritiesSeen,
    InstanceInterruptionNoticed,
    NodeChanged,
    NodeDetailsChanged,
    NodeDetailsRemoved,
    NodeGroupGone,
    NodeGroupSeen,
    NodeInstanceGone,
    NodeInstanceSeen,
    NodeRemoved,
    ScalingActivityFailed,
)
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.replica_scaling import HpaGone, HpaSeen, LoadHistoryRead, LoadQueryFailed, LoadScraped, ScaleSeen
from schemas.facts.scheduled_pods import PodPlacementChanged, PodPlacementRemoved, PodShapeSeen
from schemas.facts.sources import SourceReported
from schemas.facts.update_facts import WebhookLeaseSeen
from schemas.facts.usage import CheckpointSeen, ContainerOOMKilled, MetricsScraped
from schemas.outcomes import ActionFinished, ObjectWritten, Outcome, StatusWritten
from schemas.policies import Policy
from schemas.policies.control import ControlChanged, RevertEnded, RevertRequested, StageRulesChanged
from schemas.policies.ehpa import EhpaChanged, EhpaRemoved, TimeSeriesPredictionChanged, TimeSeriesPredictionRemoved
from schemas.policies.limit_ranges import LimitRangeChanged, LimitRangeRemoved
from schemas.policies.vertical import VerticalPolicyChanged, VerticalPolicyRemoved
from schemas.policies.vpa import VpaChanged, VpaRemoved

# How the bodies of old events become those of today, one version at a time.
# A lift gets the JSON object of one version and gives that of the next, as today's code would write it: `replay --verify`
# compares lifted decisions with recomputed ones. It looks only at the body and keeps every fact in it; it leaves out a field
# whose value the older version did not have. What it cannot lift raises ValueError, TypeError, KeyError or AttributeError; the
# codec sets such a record aside.

EventBody = dict[str, Any]
"""The JSON object of an event."""

Lift = Callable[[EventBody], EventBody]
"""From one version of a body to the next."""

LIFTS: Mapping[tuple[str, int], Lift] = {}
"""By the name on the wire and the version that is lifted; none yet; a version that only added fields with defaults needs none."""


Event = Fact | Policy | Decision | Outcome
"""Everything that the log carries, ticks and dead letters aside."""

_WIRE = re.compile(r"ullage\.([a-z][a-z0-9-]*)\.v([1-9][0-9]{0,3})")


@dataclass(frozen=True, slots=True)
class Kind:
    """One event type: its name on the wire, the version written today, and the topics (short names) that carry it."""

    name: str
    event: type[Event]
    topics: tuple[str, ...]
    version: int = 1
    removes: bool = False
    """Whether it says that the thing with the record's key is gone."""

    @property
    def wire(self) -> str:
        """`ullage.pod-changed.v1`, the `ce_type` of its records."""
        return wire_name(self.name, self.version)


def wire_name(name: str, version: int) -> str:
    """`ullage.pod-changed.v1`."""
    return f"ullage.{name}.v{version}"


def parse_wire_name(wire: str) -> tuple[str, int] | None:
    """Name and version of a `ce_type`; None for one that is not ours."""
    match = _WIRE.fullmatch(wire)
    return (match[1], int(match[2])) if match else None


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All event types, and the lifts: (name, version) to a function that gives the body of the next version."""

    kinds: tuple[Kind, ...]
    lifts: Mapping[tuple[str, int], Lift] = field(default_factory=dict)

    def named(self, name: str) -> Kind | None:
        """The kind with this wire name, whatever the version."""
        return next((kind for kind in self.kinds if kind.name == name), None)

    def of(self, event: type[Event]) -> Kind:
        """The kind of an event class. Raises KeyError for a class that is no event."""
        for kind in self.kinds:
            if kind.event is event:
                return kind
        raise KeyError(event.__name__)

    def carried_by(self, topic: str) -> tuple[Kind, ...]:
        """The kinds that a topic (short name) carries."""
        return tuple(kind for kind in self.kinds if topic in kind.topics)


_RULES = ("rules", "rules-latest")
"""What people decide. No source may write these, so a source that somebody took over commands nothing."""
_POLICIES = ("policies", "policies-latest")
_PODS = ("pod-changes", "pod-changes-by-cluster")
_SCHEDULING = ("scheduling-changes",)
_GROUPS = ("node-group-changes",)
_REPLICAS = ("replica-plans", "replica-plans-by-cluster")


def _update_facts() -> Iterator[Kind]:
    """The kinds of that table, named as their classes are: `hpa-target-changed` for HpaTargetChanged."""
    for kind in update_facts.UPDATE_FACTS:
        for event in (kind.changed, kind.removed):
            name = re.sub(r"(?<!^)(?=[A-Z])", "-", event.__name__).lower()
            yield Kind(name, event, kind.topics, removes=kind.compacted and event is kind.removed)


CATALOGUE = Catalogue(
    (
        *_update_facts(),
        Kind("metrics-scraped", MetricsScraped, ("pod-metrics",)),
        Kind("container-oom-killed", ContainerOOMKilled, ("oom-events",)),
        Kind("pod-changed", PodChanged, _PODS),
        Kind("pod-deleted", PodDeleted, _PODS),
        Kind("hpa-seen", HpaSeen, _PODS),
        Kind("hpa-gone", HpaGone, _PODS),
        Kind("webhook-lease-seen", WebhookLeaseSeen, (update_facts.TOPIC,)),
        Kind("scale-seen", ScaleSeen, _PODS),
        Kind("load-scraped", LoadScraped, ("load-metrics",)),
        Kind("load-history-read", LoadHistoryRead, ("load-metrics",)),
        Kind("load-query-failed", LoadQueryFailed, ("load-metrics",)),
        Kind("checkpoint-seen", CheckpointSeen, ("pod-changes",)),
        Kind("node-changed", NodeChanged, ("cluster-changes",)),
        Kind("node-removed", NodeRemoved, ("cluster-changes",)),
        Kind("source-reported", SourceReported, ("cluster-changes",)),
        Kind("node-details-changed", NodeDetailsChanged, _SCHEDULING),
        Kind("node-details-removed", NodeDetailsRemoved, _SCHEDULING),
        Kind("pod-shape-seen", PodShapeSeen, _SCHEDULING),
        Kind("pod-placement-changed", PodPlacementChanged, _SCHEDULING),
        Kind("pod-placement-removed", PodPlacementRemoved, _SCHEDULING),
        Kind("expander-priorities-seen", ExpanderPrioritiesSeen, _SCHEDULING),
        Kind("expander-priorities-gone", ExpanderPrioritiesGone, _SCHEDULING),
        Kind("capacity-buffer-seen", CapacityBufferSeen, _SCHEDULING),
        Kind("capacity-buffer-gone", CapacityBufferGone, _SCHEDULING),
        Kind("node-group-seen", NodeGroupSeen, _GROUPS),
        Kind("node-group-gone", NodeGroupGone, _GROUPS),
        Kind("node-instance-seen", NodeInstanceSeen, _GROUPS),
        Kind("node-instance-gone", NodeInstanceGone, _GROUPS),
        Kind("scaling-activity-failed", ScalingActivityFailed, _GROUPS),
        Kind("instance-interruption-noticed", InstanceInterruptionNoticed, _GROUPS),
        Kind("vertical-policy-changed", VerticalPolicyChanged, _RULES),
        Kind("vertical-policy-removed", VerticalPolicyRemoved, _RULES, removes=True),
        Kind("vpa-changed", VpaChanged, _POLICIES),
        Kind("vpa-removed", VpaRemoved, _POLICIES, removes=True),
        Kind("limit-range-changed", LimitRangeChanged, _POLICIES),
        Kind("limit-range-removed", LimitRangeRemoved, _POLICIES, removes=True),
        Kind("ehpa-changed", EhpaChanged, _POLICIES),
        Kind("ehpa-removed", EhpaRemoved, _POLICIES, removes=True),
        Kind("time-series-prediction-changed", TimeSeriesPredictionChanged, _POLICIES),
        Kind("time-series-prediction-removed", TimeSeriesPredictionRemoved, _POLICIES, removes=True),
        Kind("revert-requested", RevertRequested, _RULES),
        Kind("revert-ended", RevertEnded, _RULES, removes=True),
        Kind("stage-rules-changed", StageRulesChanged, _RULES),
        Kind("control-changed", ControlChanged, ("control", "control-latest")),
        Kind("requests-recommended", RequestsRecommended, ("recommendations", "recommendations-by-cluster")),
        Kind("memory-leak-found", MemoryLeakFound, ("memory-leaks",)),
        Kind("resize-planned", ResizePlanned, ("pod-updates",)),
        Kind("eviction-planned", EvictionPlanned, ("pod-updates",)),
        Kind("update-refused", UpdateRefused, ("pod-updates",)),
        Kind("vpa-conditions-decided", VpaConditionsDecided, ("vpa-conditions",)),
        Kind("memory-limit-found", MemoryLimitFound, ("vpa-conditions",)),
        Kind("scale-up-planned", ScaleUpPlanned, ("node-updates",)),
        Kind("node-removal-planned", NodeRemovalPlanned, ("node-updates",)),
        Kind("size-correction-planned", SizeCorrectionPlanned, ("node-updates",)),
        Kind("node-scaling-halted", NodeScalingHalted, ("node-updates",)),
        Kind("soft-taint-planned", SoftTaintPlanned, ("node-updates",)),
        Kind("buffer-status-planned", BufferStatusPlanned, ("node-updates",)),
        Kind("expander-asked", ExpanderAsked, ("node-updates",)),
        Kind("scale-refused", ScaleRefused, ("node-updates",)),
        Kind("shadow-recommended", ShadowRecommended, ("shadow-recommendations",)),
        Kind("shadow-compared", ShadowCompared, ("shadow-differences",)),
        Kind("load-forecast", LoadForecast, ("load-forecasts",)),
        Kind("replicas-planned", ReplicasPlanned, _REPLICAS),
        Kind("replicas-refused", ReplicasRefused, _REPLICAS),
        Kind("plans-attested", PlansAttested, ("plan-attestations",)),
        Kind("action-finished", ActionFinished, ("outcomes",)),
        Kind("status-written", StatusWritten, ("outcomes",)),
        Kind("object-written", ObjectWritten, ("outcomes",)),
    ),
    LIFTS,
)
