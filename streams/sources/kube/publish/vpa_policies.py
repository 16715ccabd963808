"""VerticalPodAutoscaler objects as policies, and the only validation of their specs.

An object that upstream would refuse cannot be carried out, but it must not vanish. It becomes a policy whose `unsupported` is a
sentence that names the bad value and its place, without the parts that make no sense. All stages and consumers rely on that
sentence. The target is resolved elsewhere.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from schemas import bounds, event_bounds
from schemas.policies import vpa_annotations
from schemas.policies.vertical import ContainerPolicy, UpdateMode
from schemas.policies.vpa import ChangeRequirement, EvictionRequirement, TargetRef, VpaChanged
from schemas.units import Seconds
from streams.clients.kube import vpa_spec
from streams.clients.kube.vpa_spec import EvictionRequirementSpec, TargetReference, UpdatePolicySpec, VpaSpec
from streams.clients.kube.watched_objects import VpaObject
from streams.sources.kube.publish import container_policies, object_authors, object_bounds
from streams.sources.kube.publish.container_policies import at_least
from streams.sources.kube.publish.enumerations import optional_member


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
        by=object_authors.author(meta),
        annotations=vpa_annotations.readable(meta.annotations or {}),
    )
    try:
        spec = vpa_spec.decode(vpa.spec)
        policy = _with_policies(_with_target(bare, spec), spec)
        _refuse_annotations(policy.annotations)
    except ValueError as fault:
        readable = _with_target(bare, vpa_spec.decode_leniently(vpa.spec))
        sound = {name: text for name, text in bare.annotations.items() if vpa_annotations.fault({name: text}) is None}
        return replace(readable, annotations=sound, unsupported=f"The spec cannot be carried out: {fault}")
    return policy


def within_bounds(policy: VpaChanged, size: Callable[[VpaChanged], int]) -> VpaChanged:
    """The policy itself, or, if it is too large, one that only names the object, its target and the bound.

    `size` gives the bytes of a policy's record.
    """
    why = object_bounds.excess(policy, size)
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
    evict_after = at_least("spec.updatePolicy.evictAfterOOMSeconds", update.evict_after_oom_seconds, 1)
    min_replicas = at_least("spec.updatePolicy.minReplicas", update.min_replicas, 1)
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
            container_policies.read(f"spec.resourcePolicy.containerPolicies[{i}]", entry)
            for i, entry in enumerate(policies or ())
        ),
        boost=container_policies.boost("spec.startupBoost", spec.startup_boost),
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
