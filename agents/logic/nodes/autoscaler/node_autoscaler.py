"""The autoscaler of one cluster: its settings, what it remembers from one decision to the next, and what became of decisions.

It makes no requests. What was decided comes back by `grew`, `failed_to_grow`, `started` and `failed_to_start`. It is rebuilt from
what a checkpoint can hold before each decision, so that a state that was written and read decides like one that never stopped.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agents.logic.nodes.autoscaler.cluster_state_registry import (
    SCALE_DOWN_FORGOTTEN,
    SET_BACK,
    ClusterStateRegistry,
    ScaleUpRequest,
    StateSettings,
    WrongSize,
)
from agents.logic.nodes.autoscaler.group_backoff import Backoff, BackoffEntry, BackoffSettings, ScaleUpFailure
from agents.logic.nodes.autoscaler.node_decision_values import NodeDecisionInputs
from agents.logic.nodes.growth.node_estimator import GroupRow
from agents.logic.nodes.growth.pending_pods import PendingSettings
from agents.logic.nodes.growth.scale_up import ScaleUpSettings
from agents.logic.nodes.removal.drain_rules import DrainedNode, DrainSettings
from agents.logic.nodes.removal.unneeded_nodes import ScaleDown, ScaleDownSettings, UnneededNode
from agents.logic.nodes.scheduling.node_columns import NodeRow
from agents.logic.nodes.scheduling.pod_shapes import SchedulingNode

# Else a new autoscaler would wait with its first removal for what never happened.
LONG_AGO = 3600.0
"""Seconds before the start at which growth and shrinkage count as having happened last."""
MOVED = "moved"
MENDED_BY_FACTS = 120.0
"""Seconds after which facts have shown whatever was there when a plan was refused."""


@dataclass(frozen=True, slots=True)
class ScaleDownDelays:
    """Seconds that scale-down waits after growth, after a deletion began, and after one could not begin."""

    after_add: float = 600.0
    after_delete: float = 0.0
    after_failure: float = 180.0


@dataclass(frozen=True, slots=True)
class NodeAutoscalerSettings:
    """All settings of a decision. `soft_taints`: most of them changed at once, 0 for none at all."""

    state: StateSettings = field(default_factory=StateSettings)
    backoff: BackoffSettings = field(default_factory=BackoffSettings)
    pending: PendingSettings = field(default_factory=PendingSettings)
    scale_up: ScaleUpSettings = field(default_factory=ScaleUpSettings)
    scale_down: ScaleDownSettings = field(default_factory=ScaleDownSettings)
    drain: DrainSettings = field(default_factory=DrainSettings)
    delays: ScaleDownDelays = field(default_factory=ScaleDownDelays)
    soft_taints: int = 10  # Most of them changed at once, 0 for none at all.
    shrink: bool = True
    from_zero: bool = True
    enforce_minimum: bool = False


class NodeAutoscaler:
    """The state from one decision to the next."""

    def __init__(self, settings: NodeAutoscalerSettings, start: float) -> None:
        self.settings = settings
        self.state = ClusterStateRegistry(settings.state, Backoff(settings.backoff))
        self.scale_down = ScaleDown(settings.scale_down)
        self.grown = self.deleted = self.stumbled = start - LONG_AGO
        self.stumbles: dict[str, float] = {}
        """When the removal of a node last failed, by its group."""
        self.growths: dict[str, float] = {}
        """When each group last grew, where each is for itself."""
        self.raised: dict[str, float] = {}
        """When the last growth of a group was carried out, until somebody sets it back."""
        self.removed: dict[str, float] = {}
        """When the last removal of a node of a group was."""
        self.lowered: dict[str, float] = {}
        """When a plan that lowers a group's size was last open."""
        self.kept_size: dict[str, float] = {}
        """Until when no group is asked again to want fewer nodes, after it could not be lowered."""
        self.roomy: dict[str, tuple[str, float]] = {}
        """By the key of a pod that waits: the node that has room for it, and since when some node has."""
        self.out: frozenset[str] = frozenset()
        """Groups that this decision leaves alone, because too many of their nodes are not ready."""

    # Outcomes

    def grew(self, group: str, delta: int, now: float) -> None:
        """A group's target was raised."""
        self.state.scale_up(group, delta, now)
        self.grown = now
        if self.settings.state.by_group:
            self.growths[group] = now

    def failed_to_grow(self, group: str, failure: ScaleUpFailure, now: float) -> None:
        """A group's target could not be raised."""
        self.state.fail(group, failure, now)

    def refused_as_moved(self, group: str, reason: str, now: float) -> None:
        """A growth was refused because its group has another size; a failure where facts do not mend that."""
        key, books = f"moved growth of {group}", self.state.backoff
        before = books.entries.get(key)
        if before is None or before.failure.message != reason:
            books.fail(key, ScaleUpFailure("Other", MOVED, reason), now)
        elif before.failed + MENDED_BY_FACTS <= now:
            self.failed_to_grow(group, before.failure, now)

    def resized(self, group: str, before: int, after: int, now: float) -> None:
        """A group wants another number of nodes, not by a plan of ours: a failed growth if that sets it back."""
        failure, by_us = self.state.backoff.of(group, now), self.lowered.get(group)
        if after > before:
            # It was a mistake, or somebody has thought better of it.
            if failure is not None and failure.code == SET_BACK:
                self.state.backoff.remove(group)
            if group in self._recent(self.removed, now):
                del self.removed[group]
                message = f"somebody else raised its size again from {before} to {after}"
                self.state.backoff.fail(removals_of(group), ScaleUpFailure("Other", SET_BACK, message), now)
            return
        # Hours later, too: what is applied once an hour would set it back once an hour.
        late = group not in self._recent(self.raised, now)
        if late or (by_us is not None and by_us + SCALE_DOWN_FORGOTTEN > now):
            return
        # Else it would grow again for the same pods in a minute, and so on for as long as the other side sets it back.
        del self.raised[group]
        if failure is None:
            message = f"somebody else set its size back from {before} to {after}"
            self.state.fail(group, ScaleUpFailure("Other", SET_BACK, message), now)
            self.state.requests.pop(group, None)

    def carried_out(self, plans: Iterable[tuple[str, str]], now: float) -> None:
        """Plans were carried out that were about a group or a node; the group of each."""
        for kind, group in plans if self.settings.state.by_group else ():
            if kind == "group":
                self.raised[group] = now
            elif kind == "node":
                self.removed[group] = now

    def lowering(self, groups: Iterable[str], now: float) -> None:
        """Plans are open that lower the sizes of these groups."""
        recent = {group: at for group, at in self.lowered.items() if at + SCALE_DOWN_FORGOTTEN > now}
        self.lowered = recent | dict.fromkeys(groups, now)
        self.raised, self.removed = self._recent(self.raised, now), self._recent(self.removed, now)

    def _recent(self, acts: Mapping[str, float], now: float) -> dict[str, float]:
        """Those of the acts that somebody may still undo: as long as a failed growth is remembered."""
        return {group: at for group, at in acts.items() if at + self.settings.backoff.forgotten > now}

    def started(self, groups: Sequence[str], now: float) -> None:
        """Deletions of nodes of these groups began."""
        for group in groups:
            self.state.scale_down(group, now)
        self.deleted = now

    def failed_to_start(self, group: str, now: float) -> None:
        """A node of a group could not be removed."""
        if self.settings.state.by_group:
            self.stumbles[group] = now
        else:
            # Upstream waits with all other nodes, too.
            self.stumbled = now

    def failed_to_leave(self, node: str, failure: ScaleUpFailure, now: float) -> None:
        """A node could not be drained or removed, so it stays for a while."""
        until = now + self.settings.scale_down.recheck
        if self.settings.state.by_group:
            # Longer each time, for each try evicts what it can. Upstream tries again as after a simulation that failed.
            until = max(until, self.state.backoff.fail(_removal_of(node), failure, now))
        self.scale_down.failed[node] = until

    def stays_for_now(self, node: str, now: float) -> bool:
        """Whether the removal of a node failed too short a while ago to be tried again."""
        return self.state.backoff.of(_removal_of(node), now) is not None

    def undrained(self, node: str) -> bool:
        """Whether the removal of a node failed, and that is not forgotten."""
        # A new node that were started for its pods would be in vain, too.
        return _removal_of(node) in self.state.backoff.entries

    def hinted(self, about: str, hint: str, now: float) -> None:
        """A soft taint or a status is to be written: what it is about, and what it says."""
        if self.settings.state.by_group:
            self.state.backoff.fail(about, ScaleUpFailure("Other", "", hint), now)

    def hint_repeats(self, about: str, hint: str, now: float) -> bool:
        """Whether the same was planned a short while ago: it failed, or somebody else undid it."""
        # As a hint it may come late. Of two autoscalers that both give hints each would undo the other's at every look.
        before = self.state.backoff.of(about, now)
        return before is not None and before.message == hint

    def replaced(self, group: str, age: float, now: float) -> None:
        """A node of this age, in seconds, is replaced, although nodes are needed."""
        if age < self.settings.backoff.forgotten:
            message = "nodes of this group are to be replaced again soon after they came"
            self.state.backoff.fail(_replacements_of(group), ScaleUpFailure("Other", "", message), now)

    def replaced_too_often(self, group: str, age: float, now: float) -> bool:
        """Whether a node of this age has to stay for now, because a young one of its group was replaced a short while ago."""
        # Its successor does not mend what is wrong with each new node: else they would follow one another for ever.
        return age < self.settings.backoff.forgotten and self.state.backoff.of(_replacements_of(group), now) is not None

    def failed_to_lower(self, group: str, now: float) -> None:
        """A group could not be let want fewer nodes."""
        self.kept_size[group] = now + self.settings.scale_down.recheck

    # What is known of a group

    def size(self, group: GroupRow) -> int:
        """The nodes that a group has or that are on their way: its target without what its cloud failed to deliver."""
        return group.target - self.state.given_up.get(group.name, 0)

    def backed_off(self, group: GroupRow, now: float) -> bool:
        """Whether a group is left alone for a while, or everything that its nodes can come from."""
        books = self.state.backoff
        exhausted = bool(group.sources) and all(books.of(source, now) is not None for source in group.sources)
        return exhausted or books.of(group.name, now) is not None

    def delivers(self, group: GroupRow) -> bool:
        """Whether nothing is known that keeps a group's cloud from starting one more node."""
        return not group.stopped and group.name not in self.out and group.name not in self.state.given_up

    def judged(self, world: NodeDecisionInputs, now: float) -> dict[str, GroupRow]:
        """The groups by name, with what this decision knows of each."""
        deleting = Counter(node.group for node in world.nodes if node.deleting is not None)
        delays = self.settings.delays
        return {
            group.name: replace(
                group,
                target=self.size(group),
                healthy=self.state.group_healthy(group.name) and group.name not in self.out,
                backed_off=self.backed_off(group, now),
                out=group.name in self.out,
                stumbled=group.name in self.stumbles and self.stumbles[group.name] + delays.after_failure > now,
                grew=group.name in self.growths and self.growths[group.name] + delays.after_add > now,
                deleting=deleting[group.name],
            )
            for group in world.groups
        }

    def settling(self, now: float, *, growing: bool) -> bool:
        """Whether a group grew a short while ago."""
        grown = now if growing else self.grown
        return grown + self.settings.delays.after_add > now

    def cooling(self, now: float, *, growing: bool) -> bool:
        """Whether no node at all may go because one went or failed to go a short while ago, or with upstream a group grew."""
        delays = self.settings.delays
        waits = self.deleted + delays.after_delete > now or self.stumbled + delays.after_failure > now
        return waits or (not self.settings.state.by_group and self.settling(now, growing=growing))


def _removal_of(node: str) -> str:
    """The key of a node's removal among the backoffs; no group's name has this form."""
    return f"removal of {node}"


def removals_of(group: str) -> str:
    """The key of all removals of a group among the backoffs."""
    return f"removals of {group}"


def _replacements_of(group: str) -> str:
    return f"replacements of {group}"


NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class CarriedState:
    """Timers and books of one cluster; times in seconds since the epoch."""

    grown: float
    deleted: float
    stumbled: float
    requests: Mapping[str, ScaleUpRequest] = field(default_factory=dict)
    wrong: Mapping[str, WrongSize] = field(default_factory=dict)
    leaving: tuple[tuple[str, float], ...] = ()
    since: Mapping[str, float] = field(default_factory=dict)  # When an instance without a node was first seen.
    backoff: Mapping[str, BackoffEntry] = field(default_factory=dict)
    unneeded: Mapping[str, float] = field(default_factory=dict)  # Since when a node is not needed.
    failed: Mapping[str, float] = field(default_factory=dict)  # Until when a failed simulation of its removal counts.
    looked: float | None = None
    interval: float | None = None  # None before the second look.
    given_up: Mapping[str, int] = field(default_factory=dict)
    young: Mapping[str, str] = field(default_factory=dict)  # With `ended`, those of `EarlyEnds`.
    ended: Mapping[str, int] = field(default_factory=dict)
    late: tuple[str, ...] = ()  # With `starting`, those of `ClusterStateRegistry`.
    starting: tuple[str, ...] = ()
    stumbles: Mapping[str, float] = field(default_factory=dict)  # When a removal failed in a group.
    kept_size: Mapping[str, float] = field(default_factory=dict)  # Until when its size is not lowered.
    roomy: Mapping[str, tuple[str, float]] = field(default_factory=dict)  # That of `NodeAutoscaler`.
    growths: Mapping[str, float] = field(default_factory=dict)  # When it grew.
    raised: Mapping[str, float] = field(default_factory=dict)  # With the next two, those of `NodeAutoscaler`.
    removed: Mapping[str, float] = field(default_factory=dict)
    lowered: Mapping[str, float] = field(default_factory=dict)


def recall(memory: CarriedState | None, settings: NodeAutoscalerSettings, now: float) -> NodeAutoscaler:
    """The autoscaler as the last decision left it; a new one if there was none."""
    auto = NodeAutoscaler(settings, now)
    if memory is None:
        return auto
    auto.grown, auto.deleted, auto.stumbled = memory.grown, memory.deleted, memory.stumbled
    state, down = auto.state, auto.scale_down
    state.requests, state.wrong = dict(memory.requests), dict(memory.wrong)
    state.leaving, state.since = list(memory.leaving), dict(memory.since)
    state.backoff.entries, state.given_up = dict(memory.backoff), dict(memory.given_up)
    state.early.young, state.early.ended = dict(memory.young), dict(memory.ended)
    state.late, state.starting = frozenset(memory.late), frozenset(memory.starting)
    auto.stumbles, auto.kept_size, auto.roomy = dict(memory.stumbles), dict(memory.kept_size), dict(memory.roomy)
    auto.growths, auto.lowered = dict(memory.growths), dict(memory.lowered)
    auto.raised, auto.removed = dict(memory.raised), dict(memory.removed)
    down.unneeded = {name: _unneeded(name, since) for name, since in memory.unneeded.items()}
    down.failed, down.looked = dict(memory.failed), memory.looked
    down.interval = NEVER if memory.interval is None else memory.interval
    return auto


def remember(auto: NodeAutoscaler) -> CarriedState:
    """What the next decision needs."""
    state, down = auto.state, auto.scale_down
    return CarriedState(
        auto.grown,
        auto.deleted,
        auto.stumbled,
        requests=dict(state.requests),
        wrong=dict(state.wrong),
        leaving=tuple(state.leaving),
        since=dict(state.since),
        backoff=dict(state.backoff.entries),
        unneeded={name: node.since for name, node in down.unneeded.items()},
        failed=dict(down.failed),
        looked=down.looked,
        # JSON has no infinity.
        interval=None if down.interval == NEVER else down.interval,
        given_up=dict(state.given_up),
        young=dict(state.early.young),
        ended=dict(state.early.ended),
        late=tuple(sorted(state.late)),
        starting=tuple(sorted(state.starting)),
        stumbles=dict(auto.stumbles),
        kept_size=dict(auto.kept_size),
        roomy=dict(auto.roomy),
        growths=dict(auto.growths),
        raised=dict(auto.raised),
        removed=dict(auto.removed),
        lowered=dict(auto.lowered),
    )


def _unneeded(name: str, since: float) -> UnneededNode:
    """A node with only its timer."""
    # The next look finds everything else, and a checkpoint with all simulated moves would be large.
    return UnneededNode(NodeRow(-1, SchedulingNode(name), "", (), since), since, DrainedNode(), risky=False)
