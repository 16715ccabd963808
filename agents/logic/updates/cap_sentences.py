"""What keeps a target from being what is recommended, in sentences that say what to change."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from agents.logic.governing_policies import PolicyRecord, bounds
from agents.logic.resources.resource_lists import CPU
from agents.logic.resources.target_caps import Cap, CapReason
from schemas import units
from schemas.decisions.recommendations import ContainerRecommendation
from schemas.exact_quantity import Quantity

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


def of_bounds(containers: Iterable[ContainerRecommendation], policy: PolicyRecord) -> Sequence[str]:
    """The same of targets that the recommendation itself cut: by the policy's bounds, else to the cluster's largest node."""
    return list(_of_bounds(containers, policy))


def _of_bounds(containers: Iterable[ContainerRecommendation], policy: PolicyRecord) -> Iterator[str]:
    for container in containers:
        entry = bounds(policy, container.container)
        for resource in ("cpu", "memory"):
            free, target = getattr(container.uncapped, resource), getattr(container.target, resource)
            if free is None or target is None or free == target:
                continue
            bound = getattr(entry.min_allowed if free < target else entry.max_allowed, resource)
            by = f"{_name(policy)} asks for {_amount(resource, bound)} at least" if free < target else ""
            if not by and bound is not None and target >= bound:
                by = f"{_name(policy)} allows {_amount(resource, bound)} at most"
            by = by or "a maximum of the settings, or the cluster's largest node, allows no more"
            yield f"{resource} of container '{container.container}' would be {_amount(resource, free)}, but {by}"


def _name(policy: PolicyRecord) -> str:
    vpa = policy.policy.vpa
    return f"policy '{policy.policy.target}'" if vpa is None else f"VPA '{vpa.namespace}/{vpa.name}'"


def _text(resource: str, amount: Quantity) -> str:
    return _amount(resource, amount.milli / 1000 if resource == CPU else float(amount.whole))


def _amount(resource: str, amount: float | None) -> str:
    if amount is None:
        return "more"
    return units.cpu_text(amount) if resource == CPU else units.bytes_text(amount)
