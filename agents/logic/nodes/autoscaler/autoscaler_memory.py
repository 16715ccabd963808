"""What a decision leaves for the next one, as a value that a checkpoint can hold.

The autoscaler is rebuilt from it before each decision, and saved to it afterwards, so a state that was written and read decides
like one that never stopped.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agents.logic.nodes.autoscaler.cluster_state_registry import ScaleUpRequest, WrongSize
from agents.logic.nodes.autoscaler.group_backoff import BackoffEntry
from agents.logic.nodes.autoscaler.node_autoscaler import NodeAutoscaler, NodeAutoscalerSettings
from agents.logic.nodes.removal.drain_rules import DrainedNode
from agents.logic.nodes.removal.unneeded_nodes import UnneededNode
from agents.logic.nodes.scheduling.node_row import NodeRow
from agents.logic.nodes.scheduling.pod_shapes import SchedulingNode

NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class CarriedState:
    """Timers and books of one cluster; times in seconds since the epoch.

    `since`: when an instance without a node was first seen; `unneeded`: since when a node is not needed; `failed`: until when a
    failed simulation of its removal counts. `interval` is None before the second look. `stumbles`: when a removal failed in a
    group; `growths`: when it grew; `kept_size`: until when its size is not lowered; `late` and `starting` are those of
    `ClusterStateRegistry`, `roomy` is that of `NodeAutoscaler`.
    """

    grown: float
    deleted: float
    stumbled: float
    requests: Mapping[str, ScaleUpRequest] = field(default_factory=dict)
    wrong: Mapping[str, WrongSize] = field(default_factory=dict)
    leaving: tuple[tuple[str, float], ...] = ()
    since: Mapping[str, float] = field(default_factory=dict)
    backoff: Mapping[str, BackoffEntry] = field(default_factory=dict)
    unneeded: Mapping[str, float] = field(default_factory=dict)
    failed: Mapping[str, float] = field(default_factory=dict)
    looked: float | None = None
    interval: float | None = None
    given_up: Mapping[str, int] = field(default_factory=dict)
    late: tuple[str, ...] = ()
    starting: tuple[str, ...] = ()
    stumbles: Mapping[str, float] = field(default_factory=dict)
    kept_size: Mapping[str, float] = field(default_factory=dict)
    roomy: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    growths: Mapping[str, float] = field(default_factory=dict)


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
    state.late, state.starting = frozenset(memory.late), frozenset(memory.starting)
    auto.stumbles, auto.kept_size, auto.roomy = dict(memory.stumbles), dict(memory.kept_size), dict(memory.roomy)
    auto.growths = dict(memory.growths)
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
        late=tuple(sorted(state.late)),
        starting=tuple(sorted(state.starting)),
        stumbles=dict(auto.stumbles),
        kept_size=dict(auto.kept_size),
        roomy=dict(auto.roomy),
        growths=dict(auto.growths),
    )


def _unneeded(name: str, since: float) -> UnneededNode:
    """A node with only its timer."""
    # The next look finds everything else, and a checkpoint with all simulated moves would be large.
    return UnneededNode(NodeRow(-1, SchedulingNode(name), "", (), since), since, DrainedNode(), risky=False)
