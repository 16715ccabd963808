"""What the status of a VPA object should be: its recommendation as text, and its conditions. Rules and words are upstream's.

It only says what should stand there; writing it, and not writing what stands there already, is a consumer's. A condition keeps
the time of its last flip.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from agents.logic.vertical import quantities
from agents.logic.vertical.settings import VerticalSettings
from schemas.decisions import ContainerRecommendation
from schemas.names import Amounts
from schemas.policies import VpaChanged

PROVIDED = "RecommendationProvided"
NO_PODS = "NoPodsMatched"
UNSUPPORTED = "ConfigUnsupported"
DEPRECATED = "ConfigDeprecated"

NO_PODS_MESSAGE = "No pods match this VPA object"


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of an object, as its API has it."""

    type: str
    status: bool
    reason: str
    message: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a VPA object. `recommendation`: one mapping for each container, sorted by name; None for none."""

    conditions: tuple[Condition, ...]
    recommendation: tuple[Mapping[str, object], ...] | None
    observed_generation: int


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a VPA's workload: its pods and what is recommended. `rival`: the VPA that governs it instead, if any."""

    pods: int
    containers: Sequence[ContainerRecommendation] = ()
    rival: str = ""


def status(vpa: VpaChanged, known: Known, before: Sequence[Condition], at: datetime, settings: VerticalSettings) -> Status:
    """What should stand in the object now; `before`: the conditions that stand there."""
    held = {condition.type: condition for condition in before if condition.type != DEPRECATED}
    unsupported = vpa.unsupported or _rivalled(vpa, known.rival)
    pods = 0 if unsupported else known.pods
    _set(held, Condition(UNSUPPORTED, bool(unsupported), "", unsupported, at))
    _set(held, Condition(NO_PODS, pods == 0, NO_PODS, NO_PODS_MESSAGE, at))
    provided = bool(known.containers) and not known.rival
    why = held.get(NO_PODS) if not provided else None
    _put(held, Condition(PROVIDED, provided, why.reason if why else "", why.message if why else "", at))
    said = sorted(known.containers, key=lambda each: each.container)
    return Status(
        conditions=tuple(held[name] for name in sorted(held)),
        recommendation=tuple(container_text(each, settings) for each in said) if provided else None,
        observed_generation=vpa.generation,
    )


def container_text(said: ContainerRecommendation, settings: VerticalSettings) -> dict[str, object]:
    """One container's recommendation as the API has it."""
    return {
        "containerName": said.container,
        "lowerBound": _resources(said.lower, settings),
        "target": _resources(said.target, settings),
        "uncappedTarget": _resources(said.uncapped, settings),
        "upperBound": _resources(said.upper, settings),
    }


def _resources(amounts: Amounts, settings: VerticalSettings) -> dict[str, str]:
    found = {}
    if amounts.cpu is not None:
        found["cpu"] = quantities.cpu(amounts.cpu)
    if amounts.memory is not None:
        found["memory"] = quantities.memory(amounts.memory, humanize=settings.humanize_memory)
    return found


def _rivalled(vpa: VpaChanged, rival: str) -> str:
    ref = vpa.target_ref
    if not rival or ref is None:
        return ""
    return f"The targetRef '{ref.kind}/{ref.name}' is governed by the older VPA '{rival}' already"


def _set(held: dict[str, Condition], new: Condition) -> None:
    """Set a condition that is True or not there at all."""
    if new.status:
        _put(held, new)
    else:
        held.pop(new.type, None)


def _put(held: dict[str, Condition], new: Condition) -> None:
    old = held.get(new.type)
    since = old.since if old is not None and old.status == new.status else new.since
    held[new.type] = Condition(new.type, new.status, new.reason, new.message, since)
