"""VerticalPodAutoscaler objects as policies, the only validation of their specs, and once for each the history in checkpoints.

An object that upstream would refuse cannot be carried out, but it must not vanish. It becomes a policy whose `unsupported` is a
sentence that names the bad value and its place, without the parts that make no sense. All stages and consumers rely on that
sentence. The target is resolved elsewhere. Checkpoints are not validated here; the recommender refuses those that it cannot load.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from schemas import bounds, event_bounds, times
from schemas.facts.usage import CheckpointSeen, SavedHistogram
from schemas.names import Amounts, Workload
from schemas.policies import vpa_annotations
from schemas.policies.vertical import BoostKind, ContainerMode, ContainerPolicy, ControlledValues, StartupBoost, UpdateMode
from schemas.policies.vpa import ChangeRequirement, EvictionRequirement, TargetRef, VpaChanged, VpaRemoved
from schemas.times import NEVER
from schemas.units import Bytes, Cores, Seconds
from streams.clients.kube import quantities, vpa_objects
from streams.clients.kube.vpa_objects import (
    ContainerPolicySpec,
    EvictionRequirementSpec,
    StartupBoostSpec,
    TargetReference,
    UpdatePolicySpec,
    VpaSpec,
)
from streams.clients.kube.watched_objects import CheckpointObject, HistogramObject, QuantityInJson, VpaObject
from streams.sources.kube.publish import policy_fields
from streams.sources.kube.publish.policy_fields import optional_member
from streams.sources.kube.publish.publisher import PublishedFacts, Publisher
from streams.sources.kube.watch.notifications import CheckpointLookup

W = TypeVar("W", bound=StrEnum)
_RESOURCES = ("cpu", "memory")


def _container_policy(path: str, spec: ContainerPolicySpec) -> ContainerPolicy:
    """One entry, which stands at `path` in the object. Raises ValueError."""
    if not spec.container_name:
        raise ValueError(f"{path}.containerName is missing")
    lowest, highest = _amounts(f"{path}.minAllowed", spec.min_allowed), _amounts(f"{path}.maxAllowed", spec.max_allowed)
    _refuse_crossed(path, lowest, highest)
    bump = _at_least(f"{path}.oomMinBumpUp", _number(f"{path}.oomMinBumpUp", spec.oom_min_bump_up), 0)
    interval = f"{path}.memoryAggregationInterval"
    window = _at_least(f"{interval}Seconds", spec.memory_aggregation_interval_seconds, 1)
    windows = _at_least(f"{interval}Count", spec.memory_aggregation_interval_count, 1)
    return ContainerPolicy(
        container=spec.container_name,
        min_allowed=lowest,
        max_allowed=highest,
        mode=optional_member(f"{path}.mode", spec.mode, ContainerMode) or ContainerMode.AUTO,
        controlled_resources=None if spec.controlled_resources is None else _resources(path, spec.controlled_resources),
        controlled_values=optional_member(f"{path}.controlledValues", spec.controlled_values, ControlledValues)
        or ControlledValues.REQUESTS_AND_LIMITS,
        oom_ratio=_ratio(f"{path}.oomBumpUpRatio", spec.oom_bump_up_ratio),
        oom_minimum=None if bump is None else Bytes(math.ceil(bump)),
        memory_window=None if window is None else Seconds(window),
        memory_windows=None if windows is None else int(windows),
        boost=_boost(f"{path}.startupBoost", spec.startup_boost),
    )


def _boost(path: str, spec: StartupBoostSpec | None) -> StartupBoost | None:
    """A startup boost; None when nothing is boosted. Raises ValueError."""
    if spec is None or spec.cpu is None:
        return None
    kind = optional_member(f"{path}.cpu.type", spec.cpu.type, BoostKind) or BoostKind.FACTOR
    quantity = _at_least(f"{path}.cpu.quantity", _number(f"{path}.cpu.quantity", spec.cpu.quantity), 0, bounds.MOST_CORES)
    missing = {BoostKind.FACTOR: ("factor", spec.cpu.factor), BoostKind.QUANTITY: ("quantity", quantity)}[kind]
    if missing[1] is None:
        raise ValueError(f"{path}.cpu.{missing[0]} is missing, and the type is '{kind}'")
    duration = _at_least(f"{path}.cpu.durationSeconds", spec.cpu.duration_seconds, 0, bounds.MOST_INT32)
    return StartupBoost(
        kind=kind,
        factor=_at_least(f"{path}.cpu.factor", spec.cpu.factor, 1, bounds.MOST_INT32),
        quantity=None if quantity is None else Cores(quantity),
        duration=Seconds(duration or 0.0),
    )


def _at_least(path: str, number: float | None, least: float, most: float = bounds.MOST_NUMBER) -> float | None:
    """The number, or None. Raises ValueError for a number below `least` or above `most`."""
    if number is None:
        return None
    if number < least:
        raise ValueError(f"{path} is {number:g}; it must be at least {least:g}")
    if number > most:
        raise ValueError(f"{path} is {number:g}; more than {most:g} is not possible")
    return float(number)


def _amounts(path: str, given: Mapping[str, QuantityInJson] | None) -> Amounts:
    # Other resources are ignored, because nothing can be recommended for them.
    amounts = {name: _number(f"{path}.{name}", (given or {}).get(name)) for name in _RESOURCES}
    cpu = _at_least(f"{path}.cpu", amounts["cpu"], 0, bounds.MOST_CORES)
    memory = _at_least(f"{path}.memory", amounts["memory"], 0, bounds.MOST_BYTES)
    return Amounts(None if cpu is None else Cores(cpu), None if memory is None else Bytes(math.ceil(memory)))


def _refuse_crossed(path: str, lowest: Amounts, highest: Amounts) -> None:
    for name, low, high in (("cpu", lowest.cpu, highest.cpu), ("memory", lowest.memory, highest.memory)):
        if low is not None and high is not None and high < low:
            raise ValueError(f"{path}.maxAllowed.{name} is {high:g}, below minAllowed.{name}, which is {low:g}")


def _resources(path: str, names: list[str]) -> tuple[str, ...]:
    odd = [name for name in names if name not in _RESOURCES]
    if odd:
        raise ValueError(f"{path}.controlledResources names '{odd[0]}'; there are cpu and memory")
    return tuple(names)


def _ratio(path: str, quantity: QuantityInJson | None) -> float | None:
    number = _at_least(path, _number(path, quantity), 1)
    # To the thousandth, rounded up, as Kubernetes reads such a quantity.
    return None if number is None else math.ceil(round(number * 1000, 6)) / 1000


def _number(path: str, quantity: QuantityInJson | None) -> float | None:
    try:
        return None if quantity is None else quantities.parse(str(quantity))
    except ValueError:
        raise ValueError(f"{path} is '{quantity}', which is no quantity") from None


def changed(vpa: VpaObject, cluster: str, at: datetime) -> VpaChanged:
    """The policy that an object makes. `unsupported` is empty unless the object makes no sense."""
    meta = vpa.metadata
    bare = VpaChanged(
        at=at,
        cluster=cluster,
        namespace=meta.namespace,
        name=meta.name,
        created=meta.creation_timestamp or at,
        uid=meta.uid,
        generation=meta.generation,
        resource_version=meta.resource_version,
        by=policy_fields.author(meta),
        annotations=vpa_annotations.readable(meta.annotations or {}),
    )
    try:
        spec = vpa_objects.decode(vpa.spec)
        policy = _with_policies(_with_target(bare, spec), spec)
        _refuse_annotations(policy.annotations)
    except ValueError as fault:
        readable = _with_target(bare, vpa_objects.decode_leniently(vpa.spec))
        # Annotations are read anew by stages, which must not meet one that makes no sense.
        sound = {name: text for name, text in bare.annotations.items() if vpa_annotations.fault({name: text}) is None}
        return replace(readable, annotations=sound, unsupported=f"The spec cannot be carried out: {fault}")
    return policy


def within_bounds(policy: VpaChanged, size: Callable[[VpaChanged], int]) -> VpaChanged:
    """The policy itself, or, if it is too large, one that only names the object, its target and the bound.

    `size` gives the bytes of a policy's record.
    """
    why = policy_fields.excess(policy, size)
    return _bare(policy, why) if why else policy


def _bare(policy: VpaChanged, why: str) -> VpaChanged:
    bare = VpaChanged(
        at=policy.at,
        cluster=policy.cluster,
        namespace=policy.namespace,
        name=policy.name,
        created=policy.created,
        uid=policy.uid,
        generation=policy.generation,
        resource_version=policy.resource_version,
        unsupported=f"The object is too large: {why}",
    )
    named = replace(bare, target_ref=policy.target_ref, recommenders=policy.recommenders)
    return named if event_bounds.fault(named) is None else bare


def _refuse_annotations(annotations: Mapping[str, str]) -> None:
    fault = vpa_annotations.fault(annotations)
    if fault is not None:
        raise ValueError(fault)


def _with_target(bare: VpaChanged, spec: VpaSpec) -> VpaChanged:
    """With target and recommender."""
    # Of several the first one counts, so that one of them reports the fault.
    names = tuple(recommender.name for recommender in spec.recommenders or ())[:1]
    return replace(bare, target_ref=_target(spec.target_ref), recommenders=names)


def _target(ref: TargetReference | None) -> TargetRef | None:
    named = ref is not None and ref.kind and ref.name and "/" not in ref.kind + ref.name
    return TargetRef(ref.kind, ref.name, ref.api_version) if ref is not None and named else None


def _with_policies(bare: VpaChanged, spec: VpaSpec) -> VpaChanged:
    """With everything else. Raises ValueError that names the first invalid value and its place."""
    names = [recommender.name for recommender in spec.recommenders or ()]
    if len(names) > 1:
        raise ValueError(f"spec.recommenders names {', '.join(names)}; there may be one at most")
    update = spec.update_policy or UpdatePolicySpec()
    evict_after = _at_least("spec.updatePolicy.evictAfterOOMSeconds", update.evict_after_oom_seconds, 1)
    min_replicas = _at_least("spec.updatePolicy.minReplicas", update.min_replicas, 1)
    policies = spec.resource_policy.container_policies if spec.resource_policy is not None else None
    for reason in bounds.count("spec.resourcePolicy.containerPolicies", policies or (), bounds.MOST_CONTAINERS):
        raise ValueError(reason)
    return replace(
        bare,
        update_mode=optional_member("spec.updatePolicy.updateMode", update.update_mode, UpdateMode),
        min_replicas=None if min_replicas is None else int(min_replicas),
        evict_after_oom=None if evict_after is None else Seconds(evict_after),
        requirements=_requirements(update.eviction_requirements or ()),
        containers=_looked_up(
            _container_policy(f"spec.resourcePolicy.containerPolicies[{i}]", entry) for i, entry in enumerate(policies or ())
        ),
        boost=_boost("spec.startupBoost", spec.startup_boost),
    )


def _looked_up(policies: Iterable[ContainerPolicy]) -> tuple[ContainerPolicy, ...]:
    """The entries that count: the first of several for one container, the last of several for `*`."""
    # As in upstream's look-up (GetContainerResourcePolicy in pkg/utils/vpa/api.go), which goes through the list once.
    counting: dict[str, ContainerPolicy] = {}
    for policy in policies:
        if policy.container == "*" or policy.container not in counting:
            counting[policy.container] = policy
    return tuple(counting.values())


def _requirements(given: Sequence[EvictionRequirementSpec]) -> tuple[EvictionRequirement, ...]:
    requirements = []
    for i, entry in enumerate(given):
        path = f"spec.updatePolicy.evictionRequirements[{i}].changeRequirement"
        change = optional_member(path, entry.change_requirement, ChangeRequirement)
        if change is None:
            raise ValueError(f"{path} is missing")
        requirements.append(EvictionRequirement(tuple(entry.resources), change))
    return tuple(requirements)


class VpaPublisher:
    """Every VPA of a cluster. `look_up` asks for checkpoints, which come back to `publish_checkpoints`."""

    def __init__(self, publisher: Publisher, now: Callable[[], datetime], look_up: Callable[[CheckpointLookup], None]) -> None:
        self._publisher, self._now, self._look_up = publisher, now, look_up
        self._facts: PublishedFacts[VpaChanged] = PublishedFacts(publisher.publish, self._withdraw)
        self._served: dict[str, VpaChanged] = {}
        self._seeded: set[str] = set()
        self._synced = self._requested = False

    def restore(self, published: Mapping[str, VpaChanged]) -> None:
        """Start from what the log has."""
        self._facts.restore(published)
        self._seeded.clear()  # the log may lack checkpoints, and publishing one again does no harm
        if self._requested:
            self._look_up(CheckpointLookup())

    def publish(self, vpa: VpaChanged) -> None:
        """A VPA exists and its target is known. One that is too large is published as unsupported, with the reason."""
        vpa = within_bounds(vpa, self._publisher.size_of_policy)
        self._facts.upsert(vpa.key, replace(vpa, at=self._now()))
        if vpa.unsupported:
            self._served.pop(vpa.key, None)
            return
        # Also one that was unsupported until now, whose checkpoints nobody has asked for.
        first = vpa.key not in self._served
        self._served[vpa.key] = vpa
        if first and self._requested and vpa.uid not in self._seeded:
            self._look_up(CheckpointLookup(vpa.namespace))

    def remove(self, key: str) -> None:
        """A VPA is gone."""
        self._served.pop(key, None)
        self._facts.remove(key)

    def keep(self, key: str) -> None:
        """A VPA exists and cannot be read."""
        self._facts.keep(key)

    def mark_synced(self, waiting: Collection[str]) -> None:
        """Every VPA that exists is published, or is `waiting` for its target."""
        self._facts.mark_synced(waiting)
        self._synced = True

    def request_checkpoints(self) -> None:
        """No VPA is waiting. The first time after every VPA was seen, look up all checkpoints."""
        if self._synced and not self._requested:  # one list of all namespaces is cheaper than one for each of many VPAs
            self._requested = True
            self._look_up(CheckpointLookup())

    def publish_checkpoints(self, namespace: str, checkpoints_found: Sequence[CheckpointObject]) -> None:
        """These are all checkpoints of a namespace, or of every namespace where it is empty."""
        by_vpa: dict[tuple[str, str], list[CheckpointObject]] = {}
        for checkpoint in checkpoints_found:
            by_vpa.setdefault((checkpoint.metadata.namespace, checkpoint.spec.vpa_object_name), []).append(checkpoint)
        for _, vpa in sorted(self._served.items()):
            if vpa.uid not in self._seeded and namespace in ("", vpa.namespace):
                self._seeded.add(vpa.uid)
                checkpoints = sorted(
                    by_vpa.get((vpa.namespace, vpa.name), ()), key=lambda checkpoint: checkpoint.spec.container_name
                )
                self._publisher.publish(*(checkpoint_seen(checkpoint, vpa, self._now()) for checkpoint in checkpoints))

    def _withdraw(self, vpa: VpaChanged) -> None:
        self._publisher.publish(VpaRemoved(self._now(), vpa.cluster, vpa.namespace, vpa.name))


def checkpoint_seen(checkpoint: CheckpointObject, vpa: VpaChanged, at: datetime) -> CheckpointSeen:
    """A checkpoint as a fact about the workload that its VPA targets. Raises ValueError for a VPA without a target."""
    ref = vpa.target_ref
    if ref is None:
        raise ValueError(f"the VPA '{vpa.key}' has no target, so its checkpoint belongs to nobody")
    status = checkpoint.status
    return CheckpointSeen(
        at=at,
        workload=Workload(vpa.cluster, vpa.namespace, ref.kind, ref.name),
        vpa=vpa.name,
        container=checkpoint.spec.container_name,
        version=status.version,
        first=_seconds(status.first_sample_start),
        last=_seconds(status.last_sample_start),
        count=status.total_samples_count,
        cpu=_histogram(status.cpu_histogram),
        memory=_histogram(status.memory_histogram),
    )


def _histogram(histogram: HistogramObject) -> SavedHistogram:
    # In one order, so that the same checkpoint makes the same record.
    weights = dict(sorted((histogram.bucket_weights or {}).items()))
    return SavedHistogram(_seconds(histogram.reference_timestamp), histogram.total_weight, weights)


def _seconds(at: datetime | None) -> float:
    return NEVER if at is None else times.to_seconds(at)
