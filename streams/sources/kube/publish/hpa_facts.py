"""HorizontalPodAutoscalers as facts: the spec of each, and what its controller reports."""

from datetime import datetime

from schemas.facts.replica_scaling import HpaCondition, HpaGone, HpaSeen
from schemas.names import Workload
from schemas.policies.ehpa import EHPA_KIND
from schemas.policies.vpa import TargetRef
from streams.clients.kube.autoscaler_specs import HpaObject
from streams.sources.kube.publish import ehpa_policies


def seen(hpa: HpaObject, cluster: str, at: datetime) -> HpaSeen | None:
    """The fact; None for one that names nothing to scale. Raises ValueError with the place of what cannot be."""
    meta, spec, status = hpa.metadata, hpa.spec, hpa.status
    ref = spec.scale_target_ref
    if not ref.kind or not ref.name or "/" in ref.kind + ref.name:
        return None
    owners = [owner.uid for owner in meta.owner_references or () if owner.kind == EHPA_KIND]
    return HpaSeen(
        at=at,
        workload=Workload(cluster, meta.namespace, ref.kind, ref.name),
        namespace=meta.namespace,
        name=meta.name,
        created=meta.creation_timestamp or at,
        target_ref=TargetRef(ref.kind, ref.name, ref.api_version),
        max_replicas=spec.max_replicas,
        min_replicas=spec.min_replicas,
        metrics=ehpa_policies.read_metrics(spec.metrics),
        behavior=ehpa_policies.behavior(spec.behavior),
        current=status.current_replicas,
        desired=status.desired_replicas,
        last_scale=status.last_scale_time,
        conditions=tuple(
            HpaCondition(condition.type, condition.status, condition.reason, condition.message)
            for condition in status.conditions or ()
        ),
        owner_uid=owners[0] if owners else "",
        uid=meta.uid,
        generation=meta.generation,
    )


def gone(known: HpaSeen, at: datetime) -> HpaGone:
    """The fact that it is gone, or scales another workload now."""
    return HpaGone(at, known.workload, known.namespace, known.name)
