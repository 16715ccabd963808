"""Which plans no consumer carries out, whoever wrote them: impossible amounts, or far more or less than before.

A plan is a record in a log, and a log can be written to by mistake. Each consumer applies these bounds, in addition to all checks
by the stages.
"""

from collections.abc import Iterator, Mapping

from schemas import bounds
from schemas.decisions.pod_updates import ResizePlanned
from schemas.names import Amounts

MOST_FACTOR = 100
"""How many times more than before a container may request at once, ..."""
# ... counted from this much, because a small request may well have been a guess: 10 cores and 12.5 GiB are never too many.
LEAST_CORES, LEAST_MEMORY = 0.1, 128 << 20
MOST_CUT = 1000
"""How many times less than before a container may request at once."""
MOST_LIMIT = 10  # times what the largest node has, for a pod's limits in all; limits somewhat beyond a node are usual


def objection(plan: ResizePlanned, largest_node: Amounts | None) -> str | None:
    """A sentence on why this plan is not carried out; None if it may be. `largest_node`: what the largest node has for pods."""
    return next(_objections(plan, largest_node), None)


def _objections(plan: ResizePlanned, largest_node: Amounts | None) -> Iterator[str]:
    for what, amounts in (("requests", plan.requests), ("limits", plan.limits)):
        for name, amount in amounts.items():
            yield from bounds.amounts(f"{what}['{name}']", amount)
    for name, amount in plan.requests.items():
        before = plan.expect.get(name, Amounts())
        yield from _leap(f"requests['{name}'].cpu", before.cpu, amount.cpu, LEAST_CORES)
        yield from _leap(f"requests['{name}'].memory", before.memory, amount.memory, LEAST_MEMORY)
        yield from _cut(f"requests['{name}'].cpu", before.cpu, amount.cpu)
        yield from _cut(f"requests['{name}'].memory", before.memory, amount.memory)
    if largest_node is not None:
        for resource, unit in (("cpu", "cores"), ("memory", "bytes")):
            largest = getattr(largest_node, resource)
            yield from _beyond(f"the plan requests {{:g}} {unit}", _sum(plan.requests, resource), largest, 1)
            yield from _beyond(f"the plan limits the pod to {{:g}} {unit}", _sum(plan.limits, resource), largest, MOST_LIMIT)


def _leap(path: str, before: float | None, after: float | None, least: float) -> Iterator[str]:
    most = MOST_FACTOR * max(before or 0.0, least)
    if after is not None and after > most:
        yield f"{path} is {after:g}, more than {MOST_FACTOR} times what it was ({before or 0:g}, counted as {least:g} at least)"


def _cut(path: str, before: float | None, after: float | None) -> Iterator[str]:
    if before is not None and after is not None and after * MOST_CUT < before:
        yield f"{path} is {after:g}, less than a {MOST_CUT}th of what it was ({before:g})"


def _beyond(says: str, total: float, largest: float | None, times: int) -> Iterator[str]:
    if largest is not None and total > largest * times:
        most = "" if times == 1 else f", of which {times} times as much is the most"
        yield f"{says.format(total)} in all, and the largest node has {largest:g} for pods{most}"


def _sum(requests: Mapping[str, Amounts], resource: str) -> float:
    return sum(getattr(request, resource) or 0 for request in requests.values())
