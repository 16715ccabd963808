"""Bounds on rules between pods: in a namespace, and in one decision.

A rule between pods concerns other pods, so a tenant with thousands of them makes all decisions slow. Rules beyond the bounds are
refused with a sentence, or their pods wait for the next look; pods without such rules never do.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from agents.logic.nodes.scheduling.pod_shapes import PodNature, SchedulablePod
from agents.logic.nodes.scheduling.scheduling_selectors import LabelOperator
from agents.logic.nodes.scheduling.topology_counts import MOST_KEYS
from schemas.facts.scheduled_pods import LabelQuery, PodShapeSeen

MOST_RULES = 5_000
"""Affinity terms and spread constraints of all shapes of a namespace: ten shapes with 500 each, say, or 2,500 with two."""
BROAD = 50
"""A rule that may mean any pod counts as so many."""
MOST_STEPS = 30_000
"""Rules of all pods, one by one, that a decision goes through when it places pods, and again when it looks which nodes may go."""


def rules(shape: PodShapeSeen) -> int:
    """The cost of a shape's rules between pods: one each, and `BROAD` if one may mean any pod."""
    terms = (*shape.affinity, *shape.anti_affinity)
    narrow = [term.namespace_selector is None and _is_narrow(term.selector, len(term.namespaces)) for term in terms]
    narrow += [_is_narrow(constraint.selector, 1) for constraint in shape.spread]
    # One that may mean any pod is held against every pod, one that names labels of its pods against few.
    return sum(1 if few else BROAD for few in narrow)


def _is_narrow(query: LabelQuery | None, namespaces: int) -> bool:
    """Whether only pods with one of a few labels can be meant, as the index of rules finds them by; None means no pod."""
    if query is None or query.labels:
        return query is None or namespaces <= MOST_KEYS
    listed = [len(expression.values) for expression in query.expressions if expression.operator == LabelOperator.IN]
    return bool(listed) and min(listed) * max(namespaces, 1) <= MOST_KEYS


def objection(shape: PodShapeSeen, others: int) -> str:
    """Why the rules of a shape are refused; empty if they are not. `others` are those of its namespace's other shapes."""
    mine = rules(shape)
    if not mine or mine + others <= MOST_RULES:
        return ""
    return (
        f"namespace '{shape.namespace}' has {others} rules between pods, and these pods have {mine} more "
        f"(one that names no values of labels counts as {BROAD}): of more than {MOST_RULES} none is looked at"
    )


def without_rules(shape: PodShapeSeen) -> PodShapeSeen:
    """A shape whose rules are not looked at, and so need not be kept."""
    return replace(shape, affinity=(), anti_affinity=(), spread=())


def steps(nature: PodNature) -> int:
    """How many rules are examined to place one such pod."""
    body = nature.shape
    return len(body.affinity) + len(body.anti_affinity) + len(body.spread)


def within(pods: Sequence[SchedulablePod]) -> Sequence[SchedulablePod]:
    """The pods that one decision looks at, in their order: all without rules, of the others as many as there are steps for."""
    costs = {nature: steps(nature) for nature in {pod.nature for pod in pods}}
    if sum(costs[pod.nature] for pod in pods) <= MOST_STEPS:
        return pods
    left, considered = MOST_STEPS, []
    for pod in pods:
        if costs[pod.nature] <= left:
            left -= costs[pod.nature]
            considered.append(pod)
    return considered


def total(pods: Iterable[SchedulablePod]) -> int:
    """How many rules are examined to place all of these."""
    return sum(steps(pod.nature) for pod in pods)
