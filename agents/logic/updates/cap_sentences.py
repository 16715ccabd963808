"""What keeps a target from being what is recommended, in sentences that say what to change."""

from collections.abc import Iterator, Mapping

from agents.logic.governing_policies import PolicyRecord, bounds
from agents.logic.resources.resource_lists import CPU
from agents.logic.resources.target_caps import Cap, CapReason, cut_by
from agents.logic.updates.updater_records import NewestRecommendation
from schemas.exact_quantity import Quantity
from schemas.units import amount_text

Caps = Mapping[str, tuple[Cap, ...]]
"""The steps that changed the targets of containers, by their names."""

_BY = {
    CapReason.LIMIT: (
        "its limit is {after} and stays, because {policy} controls requests only",
        "raise the limit in its template",
    ),
    CapReason.RANGE_MOST: (
        "a LimitRange of namespace '{namespace}' allows {after} beside its limit",
        "raise the LimitRange's max",
    ),
    CapReason.RANGE_LEAST: ("a LimitRange of namespace '{namespace}' asks for {after}", "lower the LimitRange's min"),
    CapReason.POD_RANGE: (
        "a LimitRange on the pods of namespace '{namespace}' leaves {after} for it",
        "change the LimitRange of type Pod",
    ),
    CapReason.LEAST_ALLOWED: ("{policy} asks for {after}", "lower its minAllowed"),
    CapReason.MOST_ALLOWED: ("{policy} allows {after}", "raise its maxAllowed"),
}
_WORDS = {
    CapReason.LIMIT: "limit",
    CapReason.RANGE_MOST: "LimitRange",
    CapReason.RANGE_LEAST: "LimitRange",
    CapReason.POD_RANGE: "LimitRange",
    CapReason.LEAST_ALLOWED: "policy",
    CapReason.MOST_ALLOWED: "policy",
}
_OF_POLICY = (CapReason.LEAST_ALLOWED, CapReason.MOST_ALLOWED)


def lasting(caps: Caps) -> bool:
    """Whether something else than the policy's own bounds changed a target."""
    # The next recommendation keeps the policy's bounds by itself.
    return any(step.by not in _OF_POLICY for steps in caps.values() for step in steps)


def words(caps: Caps) -> dict[str, list[str]]:
    """What caps each container, in a word for each kind of cap."""
    return {container: sorted({_WORDS[step.by] for step in steps}) for container, steps in sorted(caps.items()) if steps}


def of_caps(caps: Caps, policy: PolicyRecord, namespace: str) -> str:
    """What caps a pod's targets: the last step of each resource of each container, from what was recommended."""
    return "; ".join(_of_steps(caps, policy, namespace))


def _of_steps(caps: Caps, policy: PolicyRecord, namespace: str) -> Iterator[str]:
    for container, steps in sorted(caps.items()):
        for resource in sorted({step.resource for step in steps}):
            mine = [step for step in steps if step.resource == resource]
            # The last step is the one that binds: nothing that came before it helps while it stands.
            first, last = mine[0], mine[-1]
            reason, advice = _BY[last.by]
            why = reason.format(after=_text(resource, last.after), policy=_name(policy), namespace=namespace)
            yield f"{resource} of container '{container}': {_text(resource, first.before)} are recommended, but {why}; {advice}"


def of_bounds(recommended: NewestRecommendation, policy: PolicyRecord) -> Iterator[str]:
    """The same of targets that the recommendation itself made others than the estimate."""
    for container in recommended.containers:
        for resource in ("cpu", "memory"):
            entry, free = bounds(policy, container.container), getattr(container.uncapped, resource)
            bound = cut_by(resource, container, entry, recommended.cuts, whose=_name(policy))
            if bound is not None:
                would_be = f"{resource} of container '{container.container}' would be {amount_text(resource, free)}"
                yield f"{would_be}, but {bound.clause}"


def _name(policy: PolicyRecord) -> str:
    vpa = policy.policy.vpa
    return f"policy '{policy.policy.target}'" if vpa is None else f"VPA '{vpa.namespace}/{vpa.name}'"


def _text(resource: str, amount: Quantity) -> str:
    return amount_text(resource, amount.milli / 1000 if resource == CPU else float(amount.whole))
