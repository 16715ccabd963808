"""The guards that judge the advice for a pod by itself: what keeps a pod from its target, and what to change."""

from agents.logic.updates import cap_sentences
from agents.logic.updates.candidate import Candidate


def hpa(candidate: Candidate, _cluster: object) -> str | None:
    """Resources that HPAs scale by are left to them."""
    if not candidate.left:
        return None
    return f"a HorizontalPodAutoscaler scales the workload by {' and '.join(sorted(candidate.left))}, which is left to it"


def limit_range(candidate: Candidate, _cluster: object) -> str | None:
    """What is wrong where upstream's arithmetic has no answer, so that nothing may be set."""
    fault = candidate.situation.advice.fault
    return f"what is recommended cannot be brought within the namespace's LimitRanges: {fault}" if fault else None


def capped(candidate: Candidate, _cluster: object) -> str | None:
    """The pod has all that its limits and LimitRanges allow, and something else is recommended."""
    if not candidate.caps:
        return None
    situation = candidate.situation
    return cap_sentences.of_caps(candidate.caps, situation.policy, situation.pod.fact.pod.namespace)
