"""VerticalPodAutoscalers as policies, with all of their spec.

A spec that upstream would refuse cannot be carried out, but its object must not vanish: it comes with a sentence that names the
value and its place, and without what cannot be said. What its target is, is left open here.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from schemas.policies.vertical import UpdateMode
from schemas.policies.vpa import ChangeRequirement, EvictionRequirement, TargetRef, VpaChanged, VpaRemoved
from schemas.units import Seconds
from streams.clients.kube import vpa_spec
from streams.clients.kube.vpa_spec import EvictionSpec, Spec, Target, UpdateSpec
from streams.clients.kube.watched_objects import VpaObject
from streams.sources.kube.publish import container_policies
from streams.sources.kube.publish.container_policies import at_least, word

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation that repeats the whole object."""


def changed(found: VpaObject, cluster: str, at: datetime) -> VpaChanged:
    """The object as it is. `unsupported` is empty unless its spec cannot be carried out."""
    meta = found.metadata
    bare = VpaChanged(
        at=at,
        cluster=cluster,
        namespace=meta.namespace,
        name=meta.name,
        created=meta.creation_timestamp or at,
        uid=meta.uid,
        generation=meta.generation,
        resource_version=meta.resource_version,
        annotations={name: text for name, text in sorted((meta.annotations or {}).items()) if name != _LAST_APPLIED},
    )
    try:
        spec = vpa_spec.whole(found.spec)
        return _filled(_whose(bare, spec), spec)
    except ValueError as fault:
        known = _whose(bare, vpa_spec.rescued(found.spec))
        return replace(known, unsupported=f"The spec cannot be carried out: {fault}")


def removed(said: VpaChanged, at: datetime) -> VpaRemoved:
    """It is gone."""
    return VpaRemoved(at, said.cluster, said.namespace, said.name)


def _whose(bare: VpaChanged, spec: Spec) -> VpaChanged:
    """With target and recommenders; of several recommenders the first, so that one of them can say what is wrong."""
    names = tuple(each.name for each in spec.recommenders or ())[:1]
    return replace(bare, target_ref=_target(spec.target_ref), recommenders=names)


def _target(said: Target | None) -> TargetRef | None:
    named = said is not None and said.kind and said.name and "/" not in said.kind + said.name
    return TargetRef(said.kind, said.name, said.api_version) if said is not None and named else None


def _filled(known: VpaChanged, spec: Spec) -> VpaChanged:
    """Raises ValueError that names the first value which makes no sense, and its place."""
    names = [each.name for each in spec.recommenders or ()]
    if len(names) > 1:
        raise ValueError(f"spec.recommenders names {', '.join(names)}; there may be one at most")
    update = spec.update_policy or UpdateSpec()
    after = at_least("spec.updatePolicy.evictAfterOOMSeconds", update.evict_after_oom_seconds, 1)
    least = at_least("spec.updatePolicy.minReplicas", update.min_replicas, 1)
    policies = spec.resource_policy.container_policies if spec.resource_policy is not None else None
    return replace(
        known,
        update_mode=word("spec.updatePolicy.updateMode", update.update_mode, UpdateMode),
        min_replicas=None if least is None else int(least),
        evict_after_oom=None if after is None else Seconds(after),
        requirements=_requirements(update.eviction_requirements or ()),
        containers=tuple(
            container_policies.read(f"spec.resourcePolicy.containerPolicies[{i}]", each) for i, each in enumerate(policies or ())
        ),
        boost=container_policies.boost("spec.startupBoost", spec.startup_boost),
    )


def _requirements(said: Sequence[EvictionSpec]) -> tuple[EvictionRequirement, ...]:
    found = []
    for i, each in enumerate(said):
        path = f"spec.updatePolicy.evictionRequirements[{i}].changeRequirement"
        change = word(path, each.change_requirement, ChangeRequirement)
        if change is None:
            raise ValueError(f"{path} is missing")
        found.append(EvictionRequirement(tuple(each.resources), change))
    return tuple(found)
