"""The state of each group from cloud and cluster: which nodes are ready, which are missing, and what was requested.

It takes one snapshot at a time (`update`) and keeps what needs memory: since when an instance has no node, which scale-ups run
until when, and which groups are backed off. Source: ClusterStateRegistry in clusterstate/clusterstate.go.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agents.logic.nodes.autoscaler.group_backoff import Backoff, EarlyEnds, ScaleUpFailure
from agents.logic.nodes.scheduling.node_columns import NodeRow

SCALE_DOWN_FORGOTTEN = 300.0
"""Seconds after which a scale-down no longer explains a missing node, or a size that became less."""
TIMEOUT = "timeout"
NOT_REGISTERED = "NotRegistered"
NEVER_READY = "NeverReady"
ENDED_EARLY = "EndedEarly"
SET_BACK = "SetBack"
ENDED_IN_A_ROW = 3
"""Instances of a group that end one after the other before they have served, from which on the group is at fault."""
FACTS_LATE = 30.0
"""Seconds after a failure in which facts about sizes may still be on their way."""


@dataclass(frozen=True, slots=True)
class StateSettings:
    """Seconds that a node may take to appear and to become ready, and how many unready nodes are still healthy."""

    max_provision: float = 900.0
    max_startup: float = 900.0
    ok_unready: int = 3
    max_unready_percent: float = 45.0
    # Nodes that fail to come are their own group's trouble. Without it, upstream's rules count: no node is awaited that nobody
    # asked for or whose group is backed off, and an instance that never became a node backs off no group.
    by_group: bool = False


@dataclass(frozen=True, slots=True)
class SeenInstance:
    """An instance that no node belongs to. `error`: it is being created, and that failed."""

    name: str
    group: str
    deleting: bool = False
    error: ScaleUpFailure | None = None  # It is being created, and that failed.


@dataclass(frozen=True, slots=True)
class RegistrySnapshot:
    """The world at one moment: targets by group, nodes, and instances without node."""

    targets: Mapping[str, int]
    nodes: Sequence[NodeRow]
    unregistered: Sequence[SeenInstance]
    joined: frozenset[str] | None = None
    """The instances that are nodes; None where nobody says it."""


@dataclass(slots=True)
class NodeReadiness:
    """Names of nodes and instances by class."""

    registered: list[str] = field(default_factory=list)
    ready: list[str] = field(default_factory=list)
    unready: list[str] = field(default_factory=list)
    not_started: list[str] = field(default_factory=list)
    suspended: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    unregistered: list[str] = field(default_factory=list)
    long_unregistered: list[str] = field(default_factory=list)

    @property
    def there(self) -> int:
        """How many of the target this accounts for."""
        return len(self.ready) + len(self.unready) + len(self.suspended) + len(self.long_unregistered)

    @property
    def delivered(self) -> int:
        """How many instances the cloud has made, whatever became of them."""
        return len(self.registered) - len(self.deleted) + len(self.unregistered) + len(self.long_unregistered)


@dataclass(frozen=True, slots=True)
class AcceptableRange:
    """How many nodes a group may well have, beside its target."""

    least: int
    most: int
    target: int


@dataclass(frozen=True, slots=True)
class ScaleUpRequest:
    """A scale-up that runs: by how many nodes, and until when they should be there."""

    increase: int
    since: float
    until: float


@dataclass(frozen=True, slots=True)
class WrongSize:
    """A group that registers another number of nodes than it should, and since when these two numbers stand."""

    registered: int
    expected: int
    since: float


@dataclass(frozen=True, slots=True)
class FailedScaleUp:
    """A scale-up that failed in an update. A time-out also wants its target lowered by `delta` again."""

    group: str
    failure: ScaleUpFailure
    delta: int


class ClusterStateRegistry:
    """The state of all groups. See the module."""

    def __init__(self, settings: StateSettings, backoff: Backoff, provision: Mapping[str, float] | None = None) -> None:
        self.settings = settings
        self.backoff = backoff
        self.provision = dict(provision or {})
        """Groups with a time to appear of their own."""
        self.groups: dict[str, NodeReadiness] = {}
        self.total = NodeReadiness()
        self.ranges: dict[str, AcceptableRange] = {}
        self.requests: dict[str, ScaleUpRequest] = {}
        self.wrong: dict[str, WrongSize] = {}
        self.creation_errors: dict[str, dict[str, ScaleUpFailure]] = {}
        self.leaving: list[tuple[str, float]] = []
        self.since: dict[str, float] = {}
        self.given_up: dict[str, int] = {}
        """Nodes of a group's target that its cloud failed to deliver: nobody waits for them any more."""
        self.early = EarlyEnds()
        self.late: frozenset[str] = frozenset()
        self.starting: frozenset[str] = frozenset()
        """Instances without a node whose time was over, and nodes whose time to become ready was not, in the last update."""

    # What is done

    def scale_up(self, group: str, delta: int, now: float) -> None:
        """Note that a group was asked to grow, or (negative) that fewer of its nodes are awaited."""
        request = self.requests.get(group)
        until = now + self.provision.get(group, self.settings.max_provision)
        if request is None:
            if delta > 0:
                self.requests[group] = ScaleUpRequest(delta, now, until)
        elif request.increase + delta <= 0:
            del self.requests[group]
        elif delta > 0:
            self.requests[group] = ScaleUpRequest(request.increase + delta, now, until)
        else:
            self.requests[group] = ScaleUpRequest(request.increase + delta, request.since, request.until)

    def scale_down(self, group: str, now: float) -> None:
        """Note that one node of a group is being deleted."""
        self.leaving.append((group, now + SCALE_DOWN_FORGOTTEN))

    def fail(self, group: str, failure: ScaleUpFailure, now: float) -> None:
        """Note that a group could not grow."""
        self.backoff.fail(group, failure, now)

    # What is seen

    def update(self, look: RegistrySnapshot, now: float) -> list[FailedScaleUp]:
        """Take a snapshot in; returns the scale-ups that have failed."""
        errors: dict[str, dict[str, ScaleUpFailure]] = {}
        for instance in look.unregistered:
            if instance.error is not None:
                errors.setdefault(instance.group, {})[instance.name] = instance.error
        before, self.creation_errors = self.creation_errors, errors
        self._classify(look, now)
        self._set_ranges(look.targets)
        failed = self._expire(now)
        failed += self._creation_failures(before, now)
        self._fail_starts(now)
        self._fail_early_ends(look, now)
        self._give_up(look.targets, now)
        if self.settings.by_group:
            self._await_others(now)
        self._set_ranges(look.targets)
        self._compare(look.targets, now)
        return failed

    def _fail_starts(self, now: float) -> None:
        """An instance that never became a node, or a new node that never became ready, is a failed scale-up of its group."""
        # Else the same group would be chosen for the same pods for ever, however many others would take them.
        late = {name for mine in self.groups.values() for name in mine.long_unregistered}
        starting = {name for mine in self.groups.values() for name in mine.not_started}
        for group, mine in self.groups.items() if self.settings.by_group else ():
            fresh = sorted(set(mine.long_unregistered) - self.late)
            unready = sorted(set(mine.unready) & self.starting)
            if fresh:
                self.fail(group, ScaleUpFailure("Other", NOT_REGISTERED, f"instance '{fresh[0]}' became no node in time"), now)
            elif unready:
                self.fail(
                    group, ScaleUpFailure("Other", NEVER_READY, f"new node '{unready[0]}' did not become ready in time"), now
                )
        self.late, self.starting = frozenset(late), frozenset(starting)

    def _fail_early_ends(self, look: RegistrySnapshot, now: float) -> None:
        """Instances that end again and again before they have served are failures of their group."""
        # The cloud starts another one for each as long as the group wants it, so nothing of this is late or missing for long.
        if not self.settings.by_group or look.joined is None:
            return
        waiting = [instance for instance in look.unregistered if not instance.deleting and instance.error is None]
        nodes = [node for node in look.nodes if node.group and not node.gone and node.deleting is None]
        settled = {node.name for node in nodes if node.created + self.settings.max_startup <= now}
        young = {instance.name: instance.group for instance in waiting if instance.name not in self.late}
        young |= {node.name: node.group for node in nodes if node.name not in settled}
        there = {*young, *look.joined, *self.late, *(node.name for node in look.nodes if not node.gone)}
        for group in sorted(self.early.look(young, there, settled)):
            if self.early.ended[group] >= ENDED_IN_A_ROW:
                message = f"its instances end before they have served, {ENDED_IN_A_ROW} or more in a row"
                self.fail(group, ScaleUpFailure("Other", ENDED_EARLY, message), now)

    def doomed(self, group: str, now: float) -> Sequence[str]:
        """Instances that have become no node yet, of a group whose instances end before they have served."""
        failure, mine = self.backoff.of(group, now), self.groups.get(group, NodeReadiness())
        # Where another new node serves, as when the cloud takes some spot instances of many, those on their way may, too.
        serves = any(name in self.early.young for name in mine.ready)
        return () if failure is None or failure.code != ENDED_EARLY or serves else mine.unregistered

    def _give_up(self, targets: Mapping[str, int], now: float) -> None:
        """Stop waiting for what the cloud has not made so far, after a failure."""
        given_up = {}
        for group, target in targets.items():
            undelivered = max(target - self.groups.get(group, NodeReadiness()).delivered, 0)
            entry = self.backoff.entries.get(group)
            # What others set back lacks nothing: they want what is left of it.
            fresh = entry is not None and entry.failed + FACTS_LATE >= now and entry.failure.code != SET_BACK
            # What it makes nevertheless counts again.
            number = undelivered if fresh else min(self.given_up.get(group, 0), undelivered)
            if number:
                given_up[group] = number
        self.given_up = given_up

    def _await_others(self, now: float) -> None:
        """Await the nodes of sizes that somebody else has set, and give them up after the same time as ours."""
        for group in self.ranges:
            coming = self._missing(group) - self.given_up.get(group, 0)
            if coming > 0 and group not in self.requests:
                self.scale_up(group, coming, now)

    def ask_again(self, group: str, number: int, now: float) -> None:
        """Wait again for nodes that were given up, because the group still wants them and pods do, too."""
        left = self.given_up.get(group, 0) - number
        self.given_up = {**self.given_up, group: left} if left > 0 else {k: n for k, n in self.given_up.items() if k != group}
        self.scale_up(group, number, now)

    def _classify(self, look: RegistrySnapshot, now: float) -> None:
        self.groups, self.total = {}, NodeReadiness()
        for node in look.nodes:
            mine = [self.total] if not node.group else [self.total, self.groups.setdefault(node.group, NodeReadiness())]
            for readiness in mine:
                readiness.registered.append(node.name)
                self._class_of(node, readiness, now).append(node.name)
        waiting = [instance for instance in look.unregistered if not instance.deleting and instance.error is None]
        self.since = {instance.name: self.since.get(instance.name, now) for instance in waiting}
        for instance in waiting:
            late = self.since[instance.name] + self.provision.get(instance.group, self.settings.max_provision) < now
            for readiness in (self.total, self.groups.setdefault(instance.group, NodeReadiness())):
                (readiness.long_unregistered if late else readiness.unregistered).append(instance.name)

    def _class_of(self, node: NodeRow, readiness: NodeReadiness, now: float) -> list[str]:
        if node.gone:
            return readiness.deleted
        if node.suspended:
            return readiness.suspended
        # As upstream has it, a cordoned node is not ready.
        if node.ready and not node.node.unschedulable:
            return readiness.ready
        return readiness.not_started if node.created + self.settings.max_startup > now else readiness.unready

    def _set_ranges(self, targets: Mapping[str, int]) -> None:
        leaving: dict[str, int] = {}
        for group, _until in self.leaving:
            leaving[group] = leaving.get(group, 0) + 1
        self.ranges = {}
        for group, target in targets.items():
            # A group is not unhealthy for want of nodes that everybody knows not to come.
            least = target - len(self.groups.get(group, NodeReadiness()).long_unregistered)
            if self.settings.by_group:
                least -= self.given_up.get(group, 0)
            if group in self.requests:
                least -= self.requests[group].increase
            self.ranges[group] = AcceptableRange(least, target + leaving.get(group, 0), target)

    def _expire(self, now: float) -> list[FailedScaleUp]:
        self.backoff.clean(now)
        failed = []
        for group, request in list(self.requests.items()):
            if not self._missing(group):
                del self.requests[group]
            elif request.until < now:
                failure = ScaleUpFailure("Other", TIMEOUT, f"scale-up timed out after {now - request.since:g} s")
                self.fail(group, failure, now)
                failed.append(FailedScaleUp(group, failure, request.increase))
                del self.requests[group]
        # The cloud lowers the target at once and the node goes later, so that for a while there is one too many.
        self.leaving = [(group, until) for group, until in self.leaving if until > now]
        return failed

    def _creation_failures(self, before: Mapping[str, Mapping[str, ScaleUpFailure]], now: float) -> list[FailedScaleUp]:
        """Errors seen for the first time while a scale-up runs count against it, once for each code."""
        failed = []
        for group, errors in self.creation_errors.items():
            fresh: dict[tuple[str, str], list[ScaleUpFailure]] = {}
            for name, failure in errors.items():
                if name not in before.get(group, {}):
                    fresh.setdefault((failure.kind, failure.code), []).append(failure)
            for failures in fresh.values():
                if self.scaling_up(group):
                    self.scale_up(group, -len(failures), now)
                    self.fail(group, failures[0], now)
                    failed.append(FailedScaleUp(group, failures[0], len(failures)))
        return failed

    def _compare(self, targets: Iterable[str], now: float) -> None:
        wrong: dict[str, WrongSize] = {}
        for group in targets:
            mine = self.groups.get(group)
            if mine is None:
                continue
            registered, target = len(mine.registered), self.ranges[group].target
            coming = len(mine.unregistered) + len(mine.long_unregistered)
            if registered > target or registered < target - coming:
                before = self.wrong.get(group)
                same = before is not None and (before.registered, before.expected) == (registered, target)
                # The time begins anew with other numbers: nodes that come late come one by one.
                wrong[group] = before if same and before is not None else WrongSize(registered, target, now)
        self.wrong = wrong

    # What follows

    def _missing(self, group: str) -> int:
        """How many nodes of a group's target are still to come."""
        bounds = self.ranges.get(group)
        return 0 if bounds is None else max(bounds.target - self.groups.get(group, NodeReadiness()).there, 0)

    def scaling_up(self, group: str) -> bool:
        """Whether a scale-up of the group runs and nodes of it are still to come."""
        return group in self.requests and self._missing(group) > 0

    def upcoming(self, group: str, now: float) -> int:
        """How many nodes are on their way; upstream counts none without a running scale-up or while the group is backed off."""
        if self.settings.by_group:
            return max(self._missing(group) - self.given_up.get(group, 0), 0)
        return self._missing(group) if group in self.requests and self.backoff.of(group, now) is None else 0

    def healthy(self, without: Collection[str] = ()) -> bool:
        """Whether few enough nodes of the whole cluster are unready, or of what is left of it `without` some groups."""
        out = [self.groups[group] for group in without if group in self.groups]
        unready = len(self.total.unready) - sum(len(mine.unready) for mine in out)
        return self._few(unready, len(self.total.registered) - sum(len(mine.registered) for mine in out))

    def unhealthy_groups(self) -> frozenset[str]:
        """The groups of which too many nodes are unready."""
        sizes = ((group, len(mine.unready), len(mine.registered)) for group, mine in self.groups.items())
        return frozenset(group for group, unready, registered in sizes if not self._few(unready, registered))

    def _few(self, unready: int, registered: int) -> bool:
        return not (unready > self.settings.ok_unready and unready > self.settings.max_unready_percent / 100 * registered)

    def group_healthy(self, group: str) -> bool:
        """Whether a group has about as many ready nodes as it should."""
        bounds, mine = self.ranges.get(group), self.groups.get(group)
        if bounds is None:
            return False
        if mine is None:
            return bounds.target == 0 or (bounds.least == 0 and bounds.target > 0)
        missing = max(bounds.least - len(mine.ready) - len(mine.suspended), 0)
        all_of_it = len(mine.ready) + len(mine.unready) + len(mine.not_started) + len(mine.suspended)
        return not (missing > self.settings.ok_unready and missing > self.settings.max_unready_percent / 100 * all_of_it)

    def oversized(self, now: float) -> dict[str, int]:
        """Groups whose target has been too high for too long, with the (negative) change that sets it right."""
        changes = {}
        for group, size in self.wrong.items():
            late = size.since + self.provision.get(group, self.settings.max_provision) < now
            if late and size.expected > size.registered:
                changes[group] = size.registered - size.expected
        return changes
