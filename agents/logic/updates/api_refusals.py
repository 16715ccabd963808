"""Whether the API server would refuse a change of a pod, or the pod's successor, for its amounts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from agents.logic.resources import pod_acceptance, pod_resources, quota_admission, resource_lists
from agents.logic.resources.limit_ranges import Ranges
from agents.logic.resources.pod_acceptance import Rules
from agents.logic.resources.quota_admission import QuotaPod
from agents.logic.updates import cap_sentences
from agents.logic.updates.candidate import Candidate, PodSituation, changes
from agents.logic.updates.pod_advice import PodAdvice, over
from schemas.facts.pods import PodChanged
from schemas.facts.update_facts import ResourceQuotaChanged
from schemas.names import Amounts
from schemas.outcomes import Action


def of_amounts(candidate: Candidate, ranges: Ranges) -> str | None:
    """Why limits, amounts of the pod itself or a LimitRange forbid a resize, or leave a successor with what the pod has."""
    if candidate.action is Action.EVICT:
        return in_vain(candidate.situation, ranges)
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


_LEAST_STEP: Final = 1 / 64
"""The share of the way below which a step is none; the webhook finds the accepted part to this share."""


def unpatched(fact: PodChanged) -> PodChanged:
    """The pod as its controller makes it: with the amounts that admission noted as its owner's, where it changed some."""
    owners = {container.name: container for container in fact.owners_amounts}
    if not owners:
        return fact
    containers = tuple(
        seen if (before := owners.get(seen.name)) is None else replace(seen, requests=before.requests, limits=before.limits)
        for seen in fact.containers
    )
    return replace(fact, containers=containers)


def in_vain(situation: PodSituation, ranges: Ranges) -> str | None:
    """Why an eviction would change nothing, as a sentence; None if the successor would be nearer to what is recommended."""
    # The webhook starts from the amounts of the controller's template and goes as far as the API server accepts. Where the pod
    # is as far already, its successor would come back the same, in both profiles.
    if situation.successor is None:
        return None
    advice, fact = situation.successor(), situation.pod.fact
    requests, held = _given(fact, advice, ranges)
    for resource in ("cpu", "memory"):
        for name, now, target in situation.advice.pairs(resource):
            if _nearer(now, target, getattr(requests[name], resource)):
                return None
    why = "; ".join(held.values()) or cap_sentences.of_caps(advice.caps, situation.policy, fact.pod.namespace)
    return f"the pod's successor would come with what the pod has: {why or 'its template and what is recommended come to that'}"


def _nearer(now: float | None, target: float, new: float | None) -> bool:
    """Whether a new amount is a step from the present one towards the target."""
    if new is None or now is None:
        return new is not None
    step = new - now if target > now else now - new
    return step > 0 and step >= _LEAST_STEP * abs(target - now)


def _given(fact: PodChanged, advice: PodAdvice, ranges: Ranges) -> tuple[Mapping[str, Amounts], Mapping[str, str]]:
    """What the successor's containers would request, and why not all that is recommended, by resource."""
    template = unpatched(fact)
    new, limits = advice.requests, advice.limits
    wanted = [
        (resource_lists.of_amounts(new.get(seen.name, Amounts())), resource_lists.of_amounts(limits.get(seen.name, Amounts())))
        for seen in template.containers
    ]
    accepted = pod_acceptance.accepted(QuotaPod(pod_resources.of_fact(template)), wanted, lambda _: Rules(ranges))
    given = {
        seen.name: over(seen.requests, resource_lists.to_amounts(requests))
        for seen, (requests, _) in zip(template.containers, accepted.amounts, strict=True)
    }
    return given, accepted.held
