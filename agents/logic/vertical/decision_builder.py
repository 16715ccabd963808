"""The words that say a recommendation, and the reasons for it: all that a person needs to redo the sum."""

from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from math import isnan

from agents.engine.turn import EPOCH
from agents.logic.usage.histograms import NEVER
from agents.logic.vertical.estimation import MILLI, Estimate
from agents.logic.vertical.recommendation import AMOUNTS, Recommendation
from agents.logic.vertical.tuning import PLACE
from agents.logic.vertical.vertical_settings import VerticalSettings
from schemas.decisions.recommendations import ContainerRecommendation
from schemas.names import Amounts
from schemas.units import Bytes, Cores

_UNSAID = {"interval", "heartbeat", "bounds_step"}


def container(done: Recommendation, place: int, name: str) -> ContainerRecommendation:
    """The four amounts of the container at `place`."""
    lower_cpu, cpu, upper_cpu, lower_memory, memory, upper_memory = done.amounts[place].tolist()
    return ContainerRecommendation(
        container=name,
        lower=_amounts(lower_cpu, lower_memory),
        target=_amounts(cpu, memory),
        upper=_amounts(upper_cpu, upper_memory),
        uncapped=_amounts(*done.uncapped[place].tolist()),
    )


def reasons(done: Recommendation, place: int) -> dict[str, object]:
    """The numbers under the amounts of the container at `place`."""
    rule = done.rules[place].tolist()
    said: dict[str, object] = {
        "samples": int(done.evidence.count.item(place)),
        "first": _time(done.evidence.first.item(place)),
        "last": _time(done.evidence.last.item(place)),
        "margin": rule[PLACE["margin"]],
        "cpu": _resource(done.cpu, place, MILLI, lambda name: rule[PLACE[name.format("cpu")]]),
        "memory": _resource(done.memory, place, 1.0, lambda name: rule[PLACE[name.format("memory")]]),
    }
    if rule[PLACE["integer_cpu"]]:
        said["integer_cpu"] = True
    return said


def node(done: Recommendation, place: int) -> dict[str, object] | None:
    """The node that the pod of the container at `place` was measured against, and the pod's sums that are more than it has."""
    fitted = done.fit.node(place) if done.fit else None
    if done.fit is None or fitted is None:
        return None
    sums = dict(zip(AMOUNTS, done.fit.sums[done.fit.pods[place]].tolist(), strict=True))
    cpu = {name: amount / MILLI for name, amount in sums.items() if name.endswith("cpu") and amount > fitted.cpu * MILLI}
    memory = {name: amount for name, amount in sums.items() if name.endswith("memory") and amount > fitted.memory}
    return {"node": fitted.name, "cpu": fitted.cpu, "memory": fitted.memory, "cut": {**cpu, **memory}, "place": str(fitted.place)}


def rules(settings: VerticalSettings) -> dict[str, object]:
    """The settings that the sum depends on."""
    return {f.name: getattr(settings, f.name) for f in fields(settings) if f.name not in _UNSAID}


def _resource(estimate: Estimate, place: int, scale: float, rule: Callable[[str], float]) -> dict[str, object]:
    lower, target, upper = (found.item(place) for found in estimate.percentiles)
    least, most = rule("least_{}"), rule("most_{}")
    return {
        "shares": {name: rule(f"{name}_{{}}") for name in ("lower", "target", "upper")},
        "percentiles": {"lower": lower, "target": target, "upper": upper},
        "confidence": estimate.confidence.item(place),
        "minimum": estimate.minimum.item(place) / scale,
        "min_allowed": None if isnan(least) else least / scale,
        "max_allowed": None if isnan(most) else most / scale,
    }


def _amounts(cpu: float, memory: float) -> Amounts:
    return Amounts(
        cpu=None if isnan(cpu) else Cores(cpu / MILLI),
        memory=None if isnan(memory) else Bytes(int(memory)),
    )


def _time(seconds: float) -> str | None:
    if seconds == NEVER:
        return None
    return (EPOCH + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")
