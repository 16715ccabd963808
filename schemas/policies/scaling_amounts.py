"""Checks the amounts and counts in an autoscaler's spec that are computed with, and says what is wrong with each bad one.

They stand in the log as texts (`schemas.policies.scaling`). The source of objects publishes what is found here as `unsupported`,
and each stage sets aside an event that has such an amount without saying so.
"""

from collections.abc import Iterator, Sequence

from schemas import bounds, exact_quantity
from schemas.policies.scaling import HpaBehavior, HpaScalingRules, MetricSpec

LONGEST_AMOUNT = 64
"""Characters of a quantity. Kubernetes' largest has 19 digits before the point and 9 behind it."""
MOST_AMOUNT = 10**15
"""Of a target: its thousandths fit 64 bits."""
MOST_COUNT = 2**31 - 1
"""Replicas, percent and seconds: what Kubernetes can count."""


def reasons(metrics: Sequence[MetricSpec], behavior: HpaBehavior | None) -> Iterator[str]:
    """What is wrong with a spec's metrics and rates, by their place in the object."""
    for place, metric in enumerate(metrics):
        target, where = metric.target, f"metrics[{place}].target"
        yield from bounds.number(f"{where}.averageUtilization", target.average_utilization, MOST_COUNT)
        yield from amount(f"{where}.averageValue", target.average_value)
        yield from amount(f"{where}.value", target.value)
    if behavior is not None:
        yield from _rules("behavior.scaleUp", behavior.scale_up)
        yield from _rules("behavior.scaleDown", behavior.scale_down)


def amount(path: str, text: str) -> Iterator[str]:
    """A quantity from 0 to MOST_AMOUNT, or "", which means absent and is accepted."""
    if not text:
        return
    # Before it is parsed, for a tenant may write any length.
    if len(text) > LONGEST_AMOUNT:
        yield f"{path} has {len(text)} characters; a quantity has at most {LONGEST_AMOUNT}"
        return
    try:
        nano = exact_quantity.parse(text).nano
    except exact_quantity.NotAQuantityError as error:
        yield f"{path} is '{text}', which is no quantity: {error}"
        return
    if nano < 0:
        yield f"{path} is '{text}'; an amount cannot be negative"
    elif nano > MOST_AMOUNT * 10**9:
        yield f"{path} is '{text}'; more than {MOST_AMOUNT:g} is not possible"


def _rules(path: str, rules: HpaScalingRules | None) -> Iterator[str]:
    if rules is None:
        return
    yield from bounds.number(f"{path}.stabilizationWindowSeconds", rules.stabilization_window_seconds, MOST_COUNT)
    yield from amount(f"{path}.tolerance", rules.tolerance)
    for place, policy in enumerate(rules.policies):
        yield from bounds.number(f"{path}.policies[{place}].value", policy.value, MOST_COUNT)
        yield from bounds.number(f"{path}.policies[{place}].periodSeconds", policy.period_seconds, MOST_COUNT)
