"""Whether the API server would refuse a change of a pod, or the pod's successor, for its amounts."""

from collections.abc import Sequence

from agents.logic.resources import pod_acceptance, pod_resources, quota_admission
from agents.logic.resources.limit_ranges import Ranges
from agents.logic.resources.pod_acceptance import Rules
from agents.logic.resources.quota_admission import QuotaPod
from agents.logic.updates import successor_amounts
from agents.logic.updates.candidate import Candidate, changes
from agents.logic.updates.pod_advice import over
from schemas.facts.update_facts import ResourceQuotaChanged
from schemas.outcomes import Action


def of_amounts(candidate: Candidate, ranges: Ranges) -> str | None:
    """Why limits, amounts of the pod itself or a LimitRange forbid a resize, or leave a successor with what the pod has."""
    if candidate.action is Action.EVICT:
        return successor_amounts.in_vain(candidate.situation, ranges)
    refused = pod_acceptance.worse(*_before_and_after(candidate), Rules(ranges))
    return None if refused is None else f"the API server would refuse to resize the pod: {refused}"


def of_quotas(candidate: Candidate, quotas: Sequence[ResourceQuotaChanged]) -> str | None:
    """Why a quota that is full forbids the larger pod, or the successor."""
    if not quotas:
        return None
    before, after = _before_and_after(candidate)
    if candidate.action is Action.RESIZE:
        refused = quota_admission.resize_objection(quotas, after, before)
        return None if refused is None else f"the API server would refuse to resize the pod: {refused}"
    refused = quota_admission.objection(quotas, after, before)
    if refused is not None:
        return f"the API server would refuse the pod's successor: {refused}"
    # An evicted pod counts until it is gone, and its controller makes the successor before that. A quota that then has room for
    # the present amounts, and not for more, lets the successor come with these: the eviction would be in vain. One that has
    # room for neither refuses the successor until the pod is gone, and takes the larger one then.
    refused = quota_admission.objection(quotas, after)
    if refused is not None and quota_admission.objection(quotas, before) is None:
        return f"the pod's successor would come with what the pod has now, because while the pod goes {refused}"
    return None


def quotas_after(planned: Candidate, quotas: Sequence[ResourceQuotaChanged]) -> Sequence[ResourceQuotaChanged]:
    """How full quotas are while a plan is carried out, for the pods that are looked at after it: an evicted pod still counts."""
    before, after = _before_and_after(planned)
    return quota_admission.replaced(quotas, after, before if planned.action is Action.RESIZE else None)


def _before_and_after(candidate: Candidate) -> tuple[QuotaPod, QuotaPod]:
    """The pod as it is, and as it would be."""
    fact, (requests, limits) = candidate.situation.pod.fact, changes(candidate.situation)
    after = {
        seen.name: (over(seen.requests, requests.get(seen.name)), over(seen.limits, limits.get(seen.name)))
        for seen in fact.containers
    }
    return QuotaPod(pod_resources.of_fact(fact)), QuotaPod(pod_resources.of_fact(fact, after))
