"""What the status of a VPA object should be: its recommendation as text, and its conditions. Rules and words are upstream's.

It only says what should stand there; writing it, and not writing what stands there already, is done elsewhere. A condition keeps
the time of its last flip. Conditions that are none of ours stay as they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from schemas.decisions.recommendations import ContainerRecommendation
from schemas.names import Amounts
from schemas.policies.vpa import VpaChanged
from streams.clients.kube import quantities
from streams.clients.kube.vpa_status_client import RecommendedContainerResources, RecommendedPodResources, VpaCondition, VpaStatus

PROVIDED = "RecommendationProvided"
NO_PODS = "NoPodsMatched"
UNSUPPORTED = "ConfigUnsupported"
DEPRECATED = "ConfigDeprecated"

NO_PODS_MESSAGE = "No pods match this VPA object"
_TRUE, _FALSE = "True", "False"


@dataclass(frozen=True, slots=True)
class ConditionInputs:
    """What is known of a VPA's workload: its pods and what is recommended. `rival`: the VPA that governs it instead, if any.

    `containers` is None when the log has not said what is recommended: then what the object says of this spec stays. So it is
    with `pods`, which is None when nobody vouches for what is known of them.
    """

    pods: int | None
    containers: Sequence[ContainerRecommendation] | None = ()
    rival: str = ""


@dataclass(frozen=True, slots=True)
class Judging:
    """`humanize`: memory with two decimals and a unit, as one of upstream's settings has it."""

    humanize: bool = False

    def status(self, vpa: VpaChanged, known: ConditionInputs, before: VpaStatus, at: datetime) -> VpaStatus:
        """What should stand in the object now; `before`: what stands there."""
        at = at.replace(microsecond=0)
        held = {condition.type: condition for condition in before.conditions if condition.type != DEPRECATED}
        unsupported = vpa.unsupported or _rivalled(vpa, known.rival)
        pods = 0 if unsupported else known.pods
        _set(held, VpaCondition(UNSUPPORTED, _TRUE, at, "", unsupported), holds=bool(unsupported))
        if pods is not None:
            _set(held, VpaCondition(NO_PODS, _TRUE, at, NO_PODS, NO_PODS_MESSAGE), holds=pods == 0)
        said = self._said(vpa, known, before)
        why = None if said else held.get(NO_PODS)
        provided = VpaCondition(PROVIDED, _TRUE if said else _FALSE, at, why.reason if why else "", why.message if why else "")
        _put(held, provided)
        return VpaStatus(tuple(held[name] for name in sorted(held)), said, vpa.generation)

    def _said(self, vpa: VpaChanged, known: ConditionInputs, before: VpaStatus) -> RecommendedPodResources | None:
        if known.rival:
            return None
        if known.containers is None:
            return _kept(vpa, before)
        found = sorted(known.containers, key=lambda each: each.container)
        return RecommendedPodResources(tuple(text(each, humanize=self.humanize) for each in found)) if found else None


def text(said: ContainerRecommendation, *, humanize: bool = False) -> RecommendedContainerResources:
    """One container's recommendation as the API has it."""
    lower, target, upper, uncapped = (
        _resources(amounts, humanize) for amounts in (said.lower, said.target, said.upper, said.uncapped)
    )
    return RecommendedContainerResources(target, said.container, lower, upper, uncapped)


def _resources(amounts: Amounts, humanize: bool) -> Mapping[str, str]:
    found = {}
    if amounts.cpu is not None:
        found["cpu"] = quantities.canonical_cpu(amounts.cpu)
    if amounts.memory is not None:
        found["memory"] = quantities.canonical_memory(amounts.memory, humanize=humanize)
    return found


def _kept(vpa: VpaChanged, before: VpaStatus) -> RecommendedPodResources | None:
    """The recommendation that stands in the object, if it was made for this spec."""
    provided = any(condition.type == PROVIDED and condition.status == _TRUE for condition in before.conditions)
    return before.recommendation if provided and before.observed_generation == vpa.generation else None


def _rivalled(vpa: VpaChanged, rival: str) -> str:
    ref = vpa.target_ref
    if not rival or ref is None:
        return ""
    return f"The targetRef '{ref.kind}/{ref.name}' is governed by the older VPA '{rival}' already"


def _set(held: dict[str, VpaCondition], new: VpaCondition, *, holds: bool) -> None:
    """Set a condition that is True or not there at all."""
    if holds:
        _put(held, new)
    else:
        held.pop(new.type, None)


def _put(held: dict[str, VpaCondition], new: VpaCondition) -> None:
    old = held.get(new.type)
    flipped = old is None or old.status != new.status
    held[new.type] = new if flipped or old is None else replace(new, last_transition_time=old.last_transition_time)
