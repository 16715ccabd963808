"""Mirrors VerticalPolicy objects into the log, as what `ullage policy` writes, and says in their status what became of them.

An object speaks for workloads of its own namespace alone. While it exists, it alone says the policy of its target: that command
refuses, and what somebody else wrote meanwhile is undone within a minute. A spec that cannot be obeyed changes nothing. Of two
objects with one target the older counts. When an object is gone, so is its policy.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from schemas import event_bounds
from schemas.names import Amounts, Place
from schemas.policies import vpa_annotations
from schemas.policies.vertical import (
    ContainerPolicy,
    GuardOverrides,
    Tuning,
    UpdateMode,
    VerticalPolicyChanged,
    VerticalPolicyRemoved,
)
from schemas.units import Fraction
from streams.clients.kube import api_paths, commanding_objects
from streams.clients.kube.commanding_objects import POLICY_KIND, PolicyContainer, PolicyObject, PolicySpec, Quantity
from streams.clients.kube.json_objects import Json
from streams.clients.kube.quantities import read_amounts
from streams.clients.kube.watched_objects import KubeObject
from streams.errors import EdgeError, GiveUp, LogUnavailable
from streams.log_context import LogContext
from streams.publishing.operator_log import OperatorLog
from streams.publishing.published_state import PublishedState
from streams.sources.kube.publish import policy_fields
from streams.sources.kube.publish.policy_fields import member
from streams.sources.kube.publish.publisher import SubjectPublisher, signed
from streams.sources.kube.publish.status_writes import Answer, StatusWrites
from streams.sources.kube.watch.notifications import ObjectGone, ObjectUnread
from streams.sources.kube.watch.watched_resources import POLICIES

MOST = 1_000  # objects of one namespace that count, the oldest first: each is looked at whenever one changes
MOST_CONTAINERS = 100
RETRY = timedelta(seconds=10)
"""How long to wait after the log or the API server refused."""
_NEVER = datetime.min.replace(tzinfo=UTC)
_NAME = re.compile(r"[^/*\s]{0,253}\*?")
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PolicyDoor:
    """`write_status` writes an object's status; `guards_fault` says what is wrong with overrides of guards, if anything."""

    write_status: Callable[[PolicyObject, Json], None]
    guards_fault: Callable[[Mapping[str, bool | int | float | str]], str | None]


@dataclass(frozen=True, slots=True)
class _Mirrored:
    """An object, with what it says or why that cannot be obeyed."""

    item: PolicyObject
    policy: VerticalPolicyChanged | None
    fault: str = ""

    @property
    def age(self) -> tuple[datetime, str, str]:
        """The order of those that say the same: the oldest first."""
        meta = self.item.metadata
        return (meta.creation_timestamp or _NEVER, meta.namespace, meta.name)

    @property
    def generation(self) -> int:
        """Which version of the spec it is."""
        return self.item.metadata.generation

    @property
    def through(self) -> str:
        """Its name in policies."""
        return f"{POLICY_KIND}/{self.item.metadata.namespace}/{self.item.metadata.name}"


class PolicyObjectPublisher(SubjectPublisher):
    """The VerticalPolicies of a cluster. `namespaces` are the only ones watched; none means all."""

    # It appends by itself and not by the outbox, because a status has to say where in the log a change stands.

    def __init__(self, context: LogContext, door: PolicyDoor, namespaces: tuple[str, ...] = ()) -> None:
        self._context, self._operator, self._door = context, OperatorLog(context), door
        self._statuses = StatusWrites(POLICY_KIND, door.write_status)
        self._namespaces = frozenset(namespaces)
        self._objects: dict[tuple[str, str], _Mirrored] = {}
        self._unread: set[str] = set()
        """The names in policies of objects that exist and cannot be read."""
        self._in_force: dict[str, VerticalPolicyChanged] = {}
        self._mirrored: dict[str, VerticalPolicyChanged] = {}
        """By object: the last record of what it says."""
        self._said: dict[str, Answer] = {}
        """By uid: what the status says, also before the watch shows it."""
        self._echoed: set[str] = set()
        """The uids whose status the watch has shown as it was written here."""
        self._places: dict[str, Place] = {}
        """By object: where in the log this process has put what it says."""
        self._listed = self._due = False
        self._retry: datetime | None = None

    def restore(self, _published: PublishedState, _at: datetime) -> None:
        """As SubjectPublisher."""
        self._in_force, self._due = self._operator.policies(), True
        self._mirrored = {policy.through: policy for policy in self._in_force.values() if policy.through}

    def seen(self, _kind: str, item: KubeObject, at: datetime) -> None:
        """As SubjectPublisher."""
        if isinstance(item, PolicyObject):
            self._objects[item.metadata.namespace, item.metadata.name] = mirrored = self._read(item, at)
            self._unread.discard(mirrored.through)
            uid, shown = item.metadata.uid, _shown(item)
            # What was written here is newer than what the watch shows of it, until the watch has shown it.
            if self._said.setdefault(uid, shown) == shown:
                self._echoed.add(uid)
            elif uid in self._echoed:
                self._said[uid] = shown  # somebody else wrote it since
            self._due = True

    def gone(self, gone: ObjectGone, _at: datetime) -> None:
        """As SubjectPublisher."""
        if gone.kind == POLICIES.name:
            self._objects.pop((gone.namespace, gone.name), None)
            self._unread.discard(through := f"{POLICY_KIND}/{gone.namespace}/{gone.name}")
            self._said.pop(gone.uid, None)
            self._statuses.forget(gone)
            self._echoed.discard(gone.uid)
            self._mirrored.pop(through, None)
            self._due = True

    def unread(self, unread: ObjectUnread) -> None:
        """What it said stays in force."""
        if unread.kind == POLICIES.name:
            self._unread.add(f"{POLICY_KIND}/{unread.namespace}/{unread.name}")

    def synced(self, kind: str, *, controllers: bool, at: datetime) -> None:  # noqa: ARG002  # the protocol's
        """As SubjectPublisher."""
        if kind == POLICIES.name:
            self._listed = self._due = True

    def publish_due(self, at: datetime) -> None:
        """Obey what has changed. While the log or the API server is away, it is tried again every ten seconds."""
        # Once all objects are listed: an older one wins, and one that is not there has nothing to say.
        if not (self._due and self._listed) or (self._retry is not None and at < self._retry):
            return
        try:
            if self._retry is not None:
                self._in_force = self._operator.policies()
            self._retry, self._due = None, False
            self._obey(at)
        except LogUnavailable as error:
            self._wait(at, POLICY_KIND, error)

    def republish(self, at: datetime, older: timedelta) -> None:  # noqa: ARG002  # the protocol's
        """Undo what others wrote while an object exists."""
        # `ullage policy` refuses then, but it may have read the log before the object was there.
        if self._objects and self._retry is None:
            try:
                self._in_force, self._due = self._operator.policies(), True
            except LogUnavailable:
                return  # the process says so, and the next minute tries again

    def _obey(self, at: datetime) -> None:
        wanted = {target: policy for target, policy in self._in_force.items() if policy.through in self._unread}
        counted: dict[str, int] = {}
        refused: dict[str, str] = {}
        mirrored = sorted(self._objects.values(), key=lambda mirror: mirror.age)
        for mirror in mirrored:
            namespace = mirror.item.metadata.namespace
            counted[namespace] = counted.get(namespace, 0) + 1
            if counted[namespace] > MOST:
                refused[mirror.through] = f"namespace '{namespace}' has {MOST} older objects of this kind, and no more count"
            elif mirror.policy is None:
                refused[mirror.through] = mirror.fault
                for policy in self._in_force.values():
                    if policy.through == mirror.through:
                        wanted.setdefault(policy.target, policy)
            elif (first := wanted.setdefault(mirror.policy.target, mirror.policy)) is not mirror.policy:
                refused[mirror.through] = f"{first.through} is older, and says what holds for '{first.target}'"
        for through in self._publish(wanted, refused, at):
            refused[through] = "the log takes no record of this"
        for mirror in mirrored:
            self._answer(mirror, refused.get(mirror.through), at)

    def _publish(self, wanted: Mapping[str, VerticalPolicyChanged], refused: Mapping[str, str], at: datetime) -> list[str]:
        """Put into the log what differs from it; the objects of what it did not take. Raises LogUnavailable."""
        # What is there and has no status that says where is put there once more: somebody ended before that was written.
        answered = {
            mirror.through
            for mirror in self._objects.values()
            if self._said[mirror.item.metadata.uid][:2] == (mirror.generation, True)
        }
        settled = answered | set(self._places) | set(refused)
        changed = [
            signed(replace(policy, at=at), self._mirrored.get(policy.through))
            for target, policy in wanted.items()
            if not _same(self._in_force.get(target), policy) or policy.through not in settled
        ]
        gone = [policy for target, policy in self._in_force.items() if target not in wanted and self._is_ours(policy)]
        removed = [VerticalPolicyRemoved(at, policy.target, through=policy.through) for policy in gone]
        if not changed and not removed:
            return []
        places = self._operator.publish(*changed, *removed)
        partitions = self._context.topics.partitions
        for i, policy in enumerate(changed):
            read_in = 0 if policy.target.endswith("*") else self._context.topics.partition_of(policy.target)
            # The one that the readers of the target follow; a pattern is read by all, so any of its records will do.
            place = places[i * partitions + read_in]
            if place is not None:
                self._places[policy.through], self._in_force[policy.target] = place, policy
                self._mirrored[policy.through] = policy
        for policy in gone:
            self._in_force.pop(policy.target)
        return [policy.through for policy in changed if self._in_force.get(policy.target) is not policy]

    def _is_ours(self, policy: VerticalPolicyChanged) -> bool:
        """Whether an object of this cluster that we would see says it."""
        kind, _, name = policy.through.partition("/")
        namespace = name.partition("/")[0]
        here = policy.target.startswith(f"{self._context.cluster}/")
        return here and kind == POLICY_KIND and (not self._namespaces or namespace in self._namespaces)

    def _answer(self, mirror: _Mirrored, refusal: str | None, at: datetime) -> None:
        """Say in the status what became of the object, unless it says so."""
        uid, place = mirror.item.metadata.uid, self._places.get(mirror.through)
        if refusal is not None:
            answer = (mirror.generation, False, refusal[:1000])
        elif place is not None:
            answer = (mirror.generation, True, f"in force from {place.topic}:{place.partition}:{place.offset} on")
        else:
            return
        if self._said[uid] == answer:
            return
        try:
            if self._statuses.write(mirror.item, answer, at):
                self._said[uid] = answer
                self._echoed.discard(uid)
        except EdgeError as error:
            self._wait(at, mirror.through, error)

    def _wait(self, at: datetime, what: str, error: Exception) -> None:
        self._retry, self._due = at + RETRY, True
        _log.warning("an object with a policy waits", object=what, error=str(error))

    def _read(self, policy: PolicyObject, at: datetime) -> _Mirrored:
        try:
            return _Mirrored(policy, self._policy(policy, at))
        except (ValueError, GiveUp) as fault:
            return _Mirrored(policy, None, str(fault))

    def _policy(self, item: PolicyObject, at: datetime) -> VerticalPolicyChanged:
        """What the object asks for. Raises ValueError, and GiveUp for a kind that cannot be, with why it cannot be obeyed."""
        meta, spec = item.metadata, commanding_objects.decode_policy(item.spec)
        mode = member("spec.mode", spec.mode, UpdateMode)
        policy = VerticalPolicyChanged(
            at,
            _target(f"{self._context.cluster}/{meta.namespace}/", spec),
            f"{meta.namespace}/{meta.name}@{meta.generation}",
            mode,
            _containers(spec),
            self._guards(spec),
            spec.patch_new_pods,
            policy_fields.author(meta),
            f"{POLICY_KIND}/{meta.namespace}/{meta.name}",
        )
        fault = event_bounds.fault(policy)
        if fault is not None:
            raise ValueError(f"the object is too large: {' '.join(fault).lstrip('.')}")
        return policy

    def _guards(self, spec: PolicySpec) -> GuardOverrides:
        """The overrides of guards. Raises ValueError."""
        names = {_camel(field.name): field.name for field in fields(GuardOverrides)}
        odd = next((name for name in spec.guards if name not in names), None)
        if odd is not None:
            raise ValueError(f"spec.guards names '{odd[:80]}'; there are {', '.join(sorted(names))}")
        overrides = {names[name]: value for name, value in spec.guards.items()}
        fault = self._door.guards_fault(overrides)
        if fault is not None:
            raise ValueError(f"spec.guards{fault.removeprefix('settings')}")
        return GuardOverrides(**dict[str, Any](overrides))


def _shown(item: PolicyObject) -> Answer:
    applied = commanding_objects.applied(item)
    return applied.observed_generation, applied.status == "True", applied.message


def _same(old: VerticalPolicyChanged | None, new: VerticalPolicyChanged) -> bool:
    return old is not None and replace(old, at=new.at, by=new.by) == new


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _target(start: str, spec: PolicySpec) -> str:
    """The workloads that an object names; keys of its own namespace begin with `start`. Raises ValueError and GiveUp."""
    kind, name = spec.target.kind, spec.target.name
    if not kind:
        if name:
            raise ValueError("spec.target has a name and no kind")
        return f"{start}*"
    api_paths.check_kind(kind)
    if not _NAME.fullmatch(name):
        raise ValueError(f"spec.target.name is '{name[:80]}'; it is a name, or the beginning of one and '*'")
    return f"{start}{kind}/{name or '*'}"


def _containers(spec: PolicySpec) -> tuple[ContainerPolicy, ...]:
    """The entries. Raises ValueError with the place of what cannot be."""
    names = [entry.container for entry in spec.containers]
    if len(names) > MOST_CONTAINERS:
        raise ValueError(f"spec.containers has {len(names)} entries; {MOST_CONTAINERS} are allowed")
    twice = next((name for name in names if names.count(name) > 1), None)
    # Nobody could say which of them counts.
    if twice is not None:
        raise ValueError(f"spec.containers has two entries for '{twice[:80]}'")
    return tuple(_container(entry, f"spec.containers[{i}]") for i, entry in enumerate(spec.containers))


def _container(entry: PolicyContainer, where: str) -> ContainerPolicy:
    least, most = _amounts(entry.min, f"{where}.min"), _amounts(entry.max, f"{where}.max")
    for what in ("cpu", "memory"):
        low, high = getattr(least, what), getattr(most, what)
        if low is not None and high is not None and low > high:
            raise ValueError(f"{where}.min {what} '{entry.min[what]}' is more than its max '{entry.max[what]}'")
    if entry.policy not in (None, *vpa_annotations.POLICIES):
        raise ValueError(f"{where}.policy is '{entry.policy}'; there are {' and '.join(vpa_annotations.POLICIES)}")
    risks = (
        ("riskCpu", entry.risk_cpu, vpa_annotations.RISK_CPU),
        ("riskOom", entry.risk_oom, vpa_annotations.RISK_OOM),
    )
    for name, risk, (low, high) in risks:
        if risk is not None and not low <= risk <= high:
            raise ValueError(f"{where}.{name} is {risk}; it is from {low} to {high}")
    risk_cpu = None if entry.risk_cpu is None else Fraction(entry.risk_cpu)
    tuning = Tuning(risk_cpu=risk_cpu, risk_oom=entry.risk_oom)
    return ContainerPolicy(entry.container, least, most, tuning=tuning, policy=entry.policy)


def _amounts(given: Mapping[str, Quantity], where: str) -> Amounts:
    """CPU and memory, with Kubernetes' own reading of quantities. Raises ValueError that names the value and its place."""
    odd = next((name for name in given if name not in {"cpu", "memory"}), None)
    if odd is not None:
        raise ValueError(f"{where} names '{odd[:80]}'; there are cpu and memory")
    try:
        amounts = read_amounts({name: str(quantity) for name, quantity in given.items()})
    except ValueError as error:
        raise ValueError(f"{where} makes no sense: {error}") from error
    if any(amount is not None and amount < 0 for amount in (amounts.cpu, amounts.memory)):
        raise ValueError(f"{where} is negative")
    return amounts
