"""Settings of the scaler. Defaults are upstream's; where upstream has no such setting or another default, the text says so."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from agents.logic.guards import budget_schedules
from agents.logic.nodes.aws.group_options import GroupOptions
from agents.logic.nodes.growth import expanders
from agents.logic.nodes.growth.expanders import Expander, ExpanderError
from schemas.units import Fraction, Seconds

NAME = "scaler"
PROGRAM = 16
"""Counts changes of this capability's code that change what is decided."""

GIB = 2**30
MOST_PRIORITY = 2**31


class ScalerProfile(StrEnum):
    """UPSTREAM decides one group in each look and looks on a period; ULLAGE serves all pods at once, as soon as they wait."""

    ULLAGE = "ullage"
    UPSTREAM = "upstream"


@dataclass(frozen=True, slots=True)
class ScalerSettings:
    """When groups grow and nodes go, and how many at a time."""

    profile: str = ScalerProfile.ULLAGE
    """`upstream` decides as the Cluster Autoscaler does; `ullage` lets several groups grow in one decision. Not upstream's."""
    interval: Seconds = Seconds(10.0)
    """Nodes are looked at once in this time of events, and waiting pods again."""
    batch_idle: Seconds = Seconds(1.0)
    """Waiting pods are decided about when no further one came for this long ... Not upstream's."""
    batch_most: Seconds = Seconds(10.0)
    """... or when the first of them has waited this long. Not upstream's."""
    expanders: str = "least-waste"
    """How a group is chosen, in order: random, most-pods, least-waste, least-nodes, priority, price, grpc; between commas."""
    expander_timeout: Seconds = Seconds(10.0)
    """How long pods wait for the answer of the external expander (`grpc`); then the next one of the list decides."""
    core_price: float = 0.04
    """What a core is worth for an hour, for the price expander, in the unit of the groups' prices."""
    memory_price: float = 0.005
    """What a GiB is worth for an hour, for the price expander."""
    balance: bool = True
    """Whether groups that are alike grow evenly. Upstream does not by default."""
    balance_ignored: str = ""
    """Keys of labels, between commas, by which groups that are alike may differ, beside those of place and name."""
    fastpath: bool = False
    """Whether one group of equal pods is computed instead of packed: quicker, and often more nodes. Upstream's
    `fastpath-binpacking-enabled`."""
    most_nodes: int = 0
    """Nodes that the cluster may have; 0 sets no limit."""
    most_added: int = 1000
    """Nodes that one decision may add to one group."""
    most_cores: int = 320_000
    """Cores that the cluster may have."""
    most_memory: int = 6_400_000
    """GiB of memory that the cluster may have."""
    least_cores: int = 0
    """Cores that must stay."""
    least_memory: int = 0
    """GiB of memory that must stay."""
    pod_priority_cutoff: int = -10
    """Pods of a lower priority are worth no node."""
    pod_delay: Seconds = Seconds(0.0)
    """Pods that are younger wait before a group grows for them."""
    scale_down: bool = True
    """Whether nodes are removed at all."""
    scale_down_unready: bool = True
    """Whether nodes that are not ready are removed, too."""
    utilization_threshold: Fraction = Fraction(0.5)
    """A node is unneeded only if less than this share of its CPU and memory is asked for."""
    gpu_utilization_threshold: Fraction = Fraction(0.5)
    """The same for the GPUs of a node that has some."""
    unneeded_time: Seconds = Seconds(600.0)
    """How long a node must be unneeded before it goes."""
    unready_time: Seconds = Seconds(1200.0)
    """How long a node that is not ready must be unneeded before it goes."""
    delay_after_add: Seconds = Seconds(600.0)
    """No node of a group goes in this time after the group grew; with `profile: upstream`, no node of any group."""
    delay_after_delete: Seconds = Seconds(0.0)
    """No node goes in this time after another one did. Upstream takes its scan interval."""
    delay_after_failure: Seconds = Seconds(180.0)
    """No node goes in this time after a removal failed."""
    recheck: Seconds = Seconds(300.0)
    """A node whose pods found no other place is not tried again in this time."""
    most_deletions: int = 10
    """Nodes that go at one time."""
    most_drains: int = 1
    """Nodes that go at one time with pods that must move."""
    startup_taints: str = ""
    """Keys of taints, between commas, that new nodes lose before they are ready, such as node.cilium.io/agent-not-ready."""
    status_taints: str = ""
    """Keys of taints, between commas, that come and go on ready nodes, and that no new node of their group has."""
    soft_taints: int = 10
    """Nodes whose soft taint (DeletionCandidateOfClusterAutoscaler) one look sets or takes off; 0 sets none and takes all off."""
    ignore_daemonsets: bool = False
    """Whether pods of DaemonSets count as no use of their node."""
    ignore_mirror_pods: bool = False
    """Whether mirror pods count as no use of their node."""
    evict_daemonsets: bool = True
    """Whether the pods of DaemonSets are evicted from a node that goes with pods that must move."""
    evict_daemonsets_of_empty: bool = False
    """Whether they are evicted from a node that has no others. A pod's annotation enable-ds-eviction overrides both."""
    skip_system_pods: bool = True
    """Whether pods of kube-system without a disruption budget keep their node while they are young."""
    skip_local_storage: bool = True
    """Whether pods with local storage keep their node."""
    skip_custom_controllers: bool = True
    """Whether pods of controllers that are not Kubernetes' own keep their node."""
    min_replicas: int = 0
    """Pods of a ReplicaSet with fewer replicas keep their node."""
    longest_grace: Seconds = Seconds(600.0)
    """The longest time that an evicted pod gets to end."""
    drain_time: Seconds = Seconds(720.0)
    """How long the evictions of one node may take altogether. Upstream retries for two minutes, and then waits for the pods."""
    max_provision: Seconds = Seconds(900.0)
    """How long a new node may take to join."""
    max_startup: Seconds = Seconds(900.0)
    """How long a node may take to become ready."""
    ok_unready: int = 3
    """So many nodes may be unready without halting all scaling ..."""
    max_unready: Fraction = Fraction(0.45)
    """... or this share of them."""
    backoff_first: Seconds = Seconds(300.0)
    """How long a group is left alone after it failed to grow; twice as long each time after."""
    backoff_longest: Seconds = Seconds(1800.0)
    """The longest such time."""
    backoff_forgotten: Seconds = Seconds(10800.0)
    """After this quiet time failures are forgotten."""
    capacity_memory: bool = True
    """Whether a failure for lack of capacity backs off all groups of the same type and zone. Not upstream's."""
    enforce_minimum: bool = False
    """Whether a group below its minimum is let grow to it."""
    budget: Fraction = Fraction(0.1)
    """Share of a cluster's nodes that may be away or being removed, where no control record says another. Not upstream's."""
    budget_schedules: str = ""
    """Smaller budgets at certain times, such as `0% @ 0 9 * * mon-fri for 8h; 5% @ 0 1 * * * for 90m`. Not upstream's."""
    expires: Seconds = Seconds(120.0)
    """A plan to grow is void after this time; a plan to remove a node when its evictions took all their time. Not upstream's."""
    repair_after: Seconds = Seconds(0.0)
    """A node that has not been ready for so long is replaced, needed or not; 0 leaves it alone. Not upstream's."""
    most_broken: Fraction = Fraction(0.2)
    """No node of a group is repaired while more than this share of its nodes is not ready: the fault is elsewhere, then."""
    expire_after: Seconds = Seconds(0.0)
    """A node that is older is replaced; 0 lets nodes grow old. A replacement is ready before the node goes. Not upstream's."""
    drift: bool = False
    """Whether nodes are replaced that were started from another version of their group's launch template. Not upstream's."""
    interruptions: bool = True
    """Whether a node goes at once when its cloud takes it, and is replaced when its cloud plans maintenance. Not upstream's."""
    rebalances: bool = False
    """Whether a node is replaced, too, when its cloud recommends it. Not upstream's."""
    replacement_hold: Seconds = Seconds(1800.0)
    """How long a new node is kept for a drain that cannot begin, where a group grew for that. Not upstream's."""
    consolidate: bool = False
    """Whether nodes are replaced by cheaper ones of other groups, by the groups' prices. Not upstream's."""
    consolidation_savings: Fraction = Fraction(0.1)
    """The share of the price of the nodes that a cheaper one must save, at least."""
    consolidation_together: int = 3
    """Nodes that one cheaper node replaces, at most."""
    consolidation_pause: Seconds = Seconds(3600.0)
    """How long a node stays that replaced others, and one whose cheaper replacement was given up."""
    consolidate_to_spot: bool = False
    """Whether the cheaper node may be of a group of spot instances."""
    recommended_requests: bool = True
    """Whether removals, replacements and growth reckon with the requests that new pods get by the recommendations in force. Not
    upstream's."""
    smaller_successors: bool = False
    """Whether a node goes, too, whose pods find room only because their successors will ask for less. Fewer nodes, and pods wait
    longer. Not upstream's."""
    planned_replicas: bool = False
    """Whether groups also grow for replicas that the forecaster plans and that have no pods yet. Upstream's
    `enable-proactive-scaleup` goes by what controllers want themselves."""
    most_planned: int = 5000
    """Pods that wait or are planned; planned ones beyond it are not counted. Upstream's `pod-injection-limit`."""
    capacity_buffers: bool = True
    """Whether nodes have room for what CapacityBuffers (autoscaling.x-k8s.io/v1beta1) ask for, and their status is written."""
    seed: int = 1
    """Decides among groups that are equally good, together with the turn."""

    def faults(self) -> Iterator[tuple[str, str]]:
        """The name of each setting that cannot be, and why."""
        if abs(self.pod_priority_cutoff) > MOST_PRIORITY:
            yield "pod_priority_cutoff", f"no pod has a priority beyond {MOST_PRIORITY}"
        if self.profile not in frozenset(ScalerProfile):
            yield "profile", f"it must be one of {', '.join(ScalerProfile)}"
        if self.consolidation_together < 1:
            yield "consolidation_together", "it is at least 1"
        try:
            budget_schedules.parse(self.budget_schedules)
        except ValueError as error:
            yield "budget_schedules", str(error)
        try:
            self.chain()
        except ExpanderError as error:
            yield "expanders", str(error)

    def chain(self) -> tuple[Expander, ...]:
        """The expanders in their order; raises ExpanderError."""
        return expanders.chain([name.strip() for name in self.expanders.split(",")])

    @property
    def balance_ignored_keys(self) -> tuple[str, ...]:
        """The keys of labels by which groups that are alike may differ."""
        return _listed(self.balance_ignored)

    @property
    def startup_taint_keys(self) -> tuple[str, ...]:
        """The keys of taints that new nodes lose before they are ready."""
        return _listed(self.startup_taints)

    @property
    def status_taint_keys(self) -> tuple[str, ...]:
        """The keys of taints that come and go."""
        return _listed(self.status_taints)

    @property
    def group_defaults(self) -> GroupOptions:
        """The options of a group whose tags say nothing."""
        return GroupOptions(
            utilization_threshold=self.utilization_threshold,
            gpu_utilization_threshold=self.gpu_utilization_threshold,
            unneeded=self.unneeded_time,
            unready=self.unready_time,
            max_provision=self.max_provision,
            max_startup=self.max_startup,
            ignore_daemonsets=self.ignore_daemonsets,
        )


def _listed(text: str) -> tuple[str, ...]:
    return tuple(key for part in text.split(",") if (key := part.strip()))
