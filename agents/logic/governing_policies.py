"""Which policy a workload has. One form for both kinds of policy: a VPA object, and our own that names many workloads.

A VPA that targets the workload comes first: of several one that is not in mode Off, then the oldest, then the smaller name. Then
comes the policy with the longest target. A VPA that another recommender serves governs too: it marks the workload as not ours.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from sys import intern

from agents.engine.tables.chunked_state import StatePart
from agents.engine.tables.object_table import ObjectTable
from agents.engine.turn import Recorded
from schemas.names import Place
from schemas.policies import vpa_annotations
from schemas.policies.vertical import (
    NO_OVERRIDES,
    ContainerPolicy,
    GuardOverrides,
    UpdateMode,
    VerticalPolicyChanged,
    VerticalPolicyRemoved,
)
from schemas.policies.vpa import DEFAULT_RECOMMENDER, VpaChanged, VpaRemoved

_Entry = tuple[tuple[bool, bool, float, str], str]


class TargetedVpas:
    """The keys of VPA objects by what they target, in the order of their rank. `recommender`: the name that is ours."""

    def __init__(self, recommender: str) -> None:
        self._recommender = recommender
        self._entries: dict[str, list[_Entry]] = {}

    def add(self, vpa: VpaChanged) -> None:
        """An object is there that was not. One that targets nothing is left out."""
        # Ten thousand VPAs without a target are no rivals of each other, and once took quadratic time as if they were.
        if vpa.target:
            # Anybody may create thousands of VPAs for one workload, so each that comes costs a search and not a sort of all.
            insort(self._entries.setdefault(vpa.target, []), self._entry(vpa))

    def remove(self, vpa: VpaChanged) -> None:
        """An object that was added is gone."""
        entries = self._entries.get(vpa.target)
        if entries is not None:
            del entries[bisect_left(entries, self._entry(vpa))]
            if not entries:
                del self._entries[vpa.target]

    def governing(self, target: str) -> str | None:
        """The key of the object that governs a workload, or None."""
        entries = self._entries.get(target)
        return entries[0][1] if entries else None

    def of(self, target: str, most: int | None = None) -> list[str]:
        """The keys of all that target a workload, or of the first `most`, the one that governs first."""
        return [key for _, key in self._entries.get(target, ())[:most]]

    def at(self, target: str, place: int) -> str | None:
        """The key of the object at a place in the order of those that target a workload; None if there are not so many."""
        entries = self._entries.get(target, ())
        return entries[place][1] if place < len(entries) else None

    def place(self, vpa: VpaChanged) -> int:
        """The place of an object in that order; 0 governs."""
        return bisect_left(self._entries.get(vpa.target, ()), self._entry(vpa))

    def __contains__(self, target: object) -> bool:
        """Whether any object targets this workload."""
        return target in self._entries

    def __iter__(self) -> Iterator[str]:
        """All workloads that some object targets."""
        return iter(self._entries)

    def _entry(self, vpa: VpaChanged) -> _Entry:
        return vpa.rank(self._recommender), vpa.key


@dataclass(frozen=True, slots=True)
class WorkloadPolicy:
    """A policy in the form that the logic uses. `target`: a workload key, or what workload keys begin with and `*`."""

    target: str
    version: str
    update_mode: UpdateMode
    containers: tuple[ContainerPolicy, ...] = ()
    vpa: VpaChanged | None = None
    foreign: bool = False
    """Another recommender serves it."""
    guards: GuardOverrides = NO_OVERRIDES
    patch_new_pods: bool = True
    """Whether new pods get what is recommended."""
    beside: str = ""
    """Of a VPA, the target of the policy that chooses what decides, and the risks, where the VPA does not."""

    @property
    def other_recommender(self) -> str:
        """The recommender that serves it if that is another one; empty if it is ours."""
        return self.vpa.recommender if self.foreign and self.vpa is not None else ""


@dataclass(frozen=True, slots=True)
class PolicyRecord:
    """A policy in force and its place in the log."""

    policy: WorkloadPolicy
    place: Place


_REMEMBERED = 200_000
"""Matches remembered at most: workloads come and go, and none says when it is gone for good."""
NOT_BOUNDED = ContainerPolicy()


Concerns = Callable[[VpaChanged], bool]
"""Whether what a VPA targets can be in a partition."""


def anywhere(_vpa: VpaChanged) -> bool:
    """There is one partition, or what is in all of them is looked at."""
    return True


class Policies:
    """The vertical policies that concern a partition. `recommender`: the name under which VPAs are served."""

    def __init__(self, recommender: str = DEFAULT_RECOMMENDER, concerns: Concerns = anywhere) -> None:
        self.recommender, self._concerns = recommender, concerns
        self.table: ObjectTable[PolicyRecord] = ObjectTable("policies", PolicyRecord, 16)
        self.vpas: ObjectTable[PolicyRecord] = ObjectTable("vpas", PolicyRecord, 256, shares=(VpaChanged, ContainerPolicy))
        self._lengths: list[int] | None = None
        self._matches: dict[str, PolicyRecord | None] = {}
        self._targeted: TargetedVpas | None = None

    def tables(self) -> tuple[StatePart, ...]:
        """All tables."""
        return (self.table, self.vpas)

    def __bool__(self) -> bool:
        """Whether there is any policy at all."""
        return bool(len(self.table) or len(self.vpas))

    def take(self, recorded: Recorded) -> frozenset[str]:
        """Take a policy record in; the targets whose policy it changes, `*` for any number of workloads."""
        event = recorded.event
        if isinstance(event, VerticalPolicyChanged):
            rule = WorkloadPolicy(
                event.target,
                event.version,
                event.update_mode,
                event.containers,
                guards=event.guards,
                patch_new_pods=event.patch_new_pods,
            )
            self.table.upsert(event.target, PolicyRecord(rule, recorded.place))
            return self._wide(event.target)
        if isinstance(event, VerticalPolicyRemoved):
            return self._wide(event.target) if self.table.remove(event.target) else frozenset()
        if isinstance(event, VpaChanged):
            # All partitions are told of all VPAs, and with many of both, those of others would be most of a worker's memory.
            ours = self._concerns(event)
            return self._replace(event.key, PolicyRecord(lowered(event, self.recommender), recorded.place) if ours else None)
        if isinstance(event, VpaRemoved):
            return self._replace(event.key, None)
        return frozenset()

    def loaded(self) -> None:
        """The tables were loaded, so cached matches are dropped."""
        self._lengths = self._targeted = None
        self._matches = {}

    def serve(self, recommender: str) -> frozenset[str]:
        """Serve the VPAs of this name from now on; returns the targets of those that another name served until now."""
        self.recommender = recommender
        turned: set[str] = set()
        for key, record in list(self.vpas.items()):
            vpa = record.policy.vpa
            if vpa is not None and record.policy.foreign is vpa.served_by(recommender):
                self.vpas.upsert(key, PolicyRecord(lowered(vpa, recommender), record.place))
                turned.add(vpa.target)
        self.loaded()
        return frozenset(turned - {""})

    def of(self, workload: str) -> PolicyRecord | None:
        """The policy of a workload key, or None."""
        if self._lengths is None:
            targets = [target for target, _ in self.table.items() if target.endswith("*")]
            # Longest first, so that the first target that matches is the most exact one.
            self._lengths = sorted({len(target) - 1 for target in targets}, reverse=True)
            self._matches = {}
        # Policies are few and workloads are many, so a match is kept until some policy changes.
        if workload not in self._matches:
            if len(self._matches) >= _REMEMBERED:
                self._matches = {}
            self._matches[workload] = self._match(workload, self._lengths)
        return self._matches[workload]

    def _by_target(self) -> TargetedVpas:
        if self._targeted is None:
            self._targeted = TargetedVpas(self.recommender)
            for key, record in list(self.vpas.items()):
                vpa = record.policy.vpa
                if vpa is not None and self._concerns(vpa):
                    self._targeted.add(vpa)
                else:
                    self.vpas.remove(key)  # of a checkpoint from when each partition kept all
        return self._targeted

    def _wide(self, target: str) -> frozenset[str]:
        self._lengths = None
        return frozenset({"*" if target.endswith("*") else target})

    def _replace(self, key: str, new: PolicyRecord | None) -> frozenset[str]:
        """Set the VPA `key` to `new`; returns the workloads that it targeted and targets."""
        old = self.vpas.get(key)
        # An echo of a status must not make every container of the workload due again.
        if old is not None and new is not None and _alike(old.policy, new.policy):
            return frozenset()
        targeted = self._by_target()
        if old is not None:
            self.vpas.remove(key)
            if old.policy.vpa is not None:
                targeted.remove(old.policy.vpa)
        if new is not None:
            self.vpas.upsert(key, new)
            if new.policy.vpa is not None:
                targeted.add(new.policy.vpa)
        targets = frozenset(record.policy.target for record in (old, new) if record is not None and record.policy.target)
        for target in targets:
            self._matches.pop(target, None)
        return targets

    def _match(self, workload: str, lengths: list[int]) -> PolicyRecord | None:
        governing = self._by_target().governing(workload)
        own = self._own(workload, lengths)
        if governing is None:
            return own
        vpa = self.vpas.get(governing)
        # A VPA object has no field for what decides and at which risk, so a policy of ours may fill these in.
        return vpa if vpa is None or own is None or vpa.policy.foreign else _with_risks(vpa, own.policy)

    def _own(self, workload: str, lengths: list[int]) -> PolicyRecord | None:
        exact = self.table.get(workload)
        if exact is not None:
            return exact
        prefixes = (self.table.get(workload[:length] + "*") for length in lengths if length <= len(workload))
        return next((record for record in prefixes if record is not None), None)


def lowered(vpa: VpaChanged, recommender: str) -> WorkloadPolicy:
    """A VPA in the form of a policy of ours."""
    # A VPA without an update mode recreates pods, as upstream does. One that is not ours changes nothing.
    foreign = not vpa.served_by(recommender)
    mode = UpdateMode.OFF if foreign else vpa.update_mode or UpdateMode.RECREATE
    guards = GuardOverrides(
        min_replicas=vpa.min_replicas,
        quick_oom=vpa.evict_after_oom,
        pod_warm_up=vpa_annotations.pod_warm_up(vpa.annotations),
    )
    patches = vpa_annotations.patches_new_pods(vpa.annotations)
    return WorkloadPolicy(intern(vpa.target), f"{vpa.name}@{vpa.generation}", mode, vpa.containers, vpa, foreign, guards, patches)


def bounds(record: PolicyRecord | None, container: str) -> ContainerPolicy:
    """The entry for a container: its own, else that of `*`, else none."""
    return NOT_BOUNDED if record is None else container_policy(record.policy.containers, container)


def container_policy(entries: Iterable[ContainerPolicy], container: str) -> ContainerPolicy:
    """The same of the entries of one policy."""
    named = {entry.container: entry for entry in entries}
    # An entry of its own replaces that of `*` whole, as in upstream's GetContainerResourcePolicy (pkg/utils/vpa/api.go).
    return named.get(container) or named.get("*") or NOT_BOUNDED


def _with_risks(record: PolicyRecord, other: WorkloadPolicy) -> PolicyRecord:
    """The policy of a VPA, with what decides and the risks from another policy where the VPA leaves them open."""
    if not any(_chooses(entry) for entry in other.containers):
        return record
    names = dict.fromkeys(entry.container for entry in (*record.policy.containers, *other.containers))
    containers = tuple(
        _filled(
            replace(container_policy(record.policy.containers, name), container=name), container_policy(other.containers, name)
        )
        for name in names
    )
    return replace(record, policy=replace(record.policy, containers=containers, beside=other.target))


def _chooses(entry: ContainerPolicy) -> bool:
    return (entry.policy, entry.tuning.risk_cpu, entry.tuning.risk_oom) != (None, None, None)


def _filled(entry: ContainerPolicy, other: ContainerPolicy) -> ContainerPolicy:
    tuning = entry.tuning
    cpu = other.tuning.risk_cpu if tuning.risk_cpu is None else tuning.risk_cpu
    oom = other.tuning.risk_oom if tuning.risk_oom is None else tuning.risk_oom
    return replace(entry, policy=entry.policy or other.policy, tuning=replace(tuning, risk_cpu=cpu, risk_oom=oom))


def body(record: PolicyRecord | None) -> dict[str, object] | None:
    """The entry for a policy in `because`."""
    if record is None:
        return None
    explanation: dict[str, object] = {
        "target": record.policy.target,
        "version": record.policy.version,
        "place": str(record.place),
    }
    if record.policy.vpa is not None:
        explanation["vpa"] = record.policy.vpa.key
    if record.policy.beside:
        explanation["beside"] = record.policy.beside
    return explanation


def _alike(old: WorkloadPolicy, new: WorkloadPolicy) -> bool:
    """Whether nothing but the object's status changed: only its time and resource version differ."""
    if old.vpa is None or new.vpa is None:
        return False
    # Our own consumer writes the status of VPAs, so most changes of an object are echoes of that.
    return old.vpa == replace(new.vpa, at=old.vpa.at, resource_version=old.vpa.resource_version, by=old.vpa.by)
