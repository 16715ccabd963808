"""Which plans no consumer carries out, whoever wrote them: amounts that no cluster has, or far more than there was.

A plan is a record in a log, and a log can be written to by mistake. What stands in here holds in each consumer, beside everything
that stages judge by.
"""

from collections.abc import Iterator, Mapping

from schemas import bounds
from schemas.decisions.pod_updates import ResizePlanned
from schemas.names import Amounts

MOST_FACTOR = 100
"""How many times more than before a container may request at once, ..."""
LEAST_CORES, LEAST_MEMORY = 0.1, 128 << 20
"""... counted from this much, because a small request may well have been a guess: 10 cores and 12.5 GiB are never too many."""


def objection(plan: ResizePlanned, largest_node: Amounts | None) -> str | None:
    """Why this plan is not carried out, in a sentence; None if it may be. `largest_node`: what the largest node has for pods."""
    return next(_objections(plan, largest_node), None)


def _objections(plan: ResizePlanned, largest_node: Amounts | None) -> Iterator[str]:
    for what, amounts in (("requests", plan.requests), ("limits", plan.limits)):
        for name, each in amounts.items():
            yield from bounds.amounts(f"{what}['{name}']", each)
    for name, each in plan.requests.items():
        before = plan.expect.get(name, Amounts())
        yield from _leap(f"requests['{name}'].cpu", before.cpu, each.cpu, LEAST_CORES)
        yield from _leap(f"requests['{name}'].memory", before.memory, each.memory, LEAST_MEMORY)
    if largest_node is not None:
        yield from _beyond("cores", _sum(plan.requests, "cpu"), largest_node.cpu)
        yield from _beyond("bytes", _sum(plan.requests, "memory"), largest_node.memory)


def _leap(path: str, before: float | None, after: float | None, least: float) -> Iterator[str]:
    most = MOST_FACTOR * max(before or 0.0, least)
    if after is not None and after > most:
        yield f"{path} is {after:g}, more than {MOST_FACTOR} times what it was ({before or 0:g}, counted as {least:g} at least)"


def _beyond(unit: str, asked: float, largest: float | None) -> Iterator[str]:
    if largest is not None and asked > largest:
        yield f"the plan requests {asked:g} {unit} in all, and the largest node has {largest:g} for pods"


def _sum(requests: Mapping[str, Amounts], resource: str) -> float:
    return sum(getattr(each, resource) or 0 for each in requests.values())
