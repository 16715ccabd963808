"""The guards: each looks at a pod that should be changed and may say, in a sentence, why it is left alone now.

They are asked in order and the first no holds. None of them has a memory of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass

from agents.logic.updates.candidate import Candidate, stuck
from agents.logic.updates.cluster_records import Control
from agents.logic.updates.headcount import Headcount
from agents.logic.updates.update_settings import UpdateSettings
from schemas.facts.pods import PodPhase, ResizeState
from schemas.outcomes import Action
from schemas.policies.control import Mode
from schemas.policies.vertical import UpdateMode


@dataclass(frozen=True, slots=True)
class Scene:
    """What the guards may know besides the pod. `planned`: plans of this turn in the cluster; times are turn numbers."""

    now: int
    first_turn: int
    facts_seen: int
    control: Control | None
    cluster: Headcount
    workload: Headcount
    planned: int
    settings: UpdateSettings

    @property
    def mode(self) -> Mode:
        """Shadow unless somebody said otherwise."""
        return Mode.SHADOW if self.control is None else self.control.event.mode

    @property
    def budget(self) -> float:
        """The switch's, else the setting's."""
        return self.settings.budget if self.control is None else self.control.event.budget


@dataclass(frozen=True, slots=True)
class No:
    """Which guard, and its sentence."""

    guard: str
    reason: str


Guard = Callable[[Candidate, Scene], str | None]


def first_no(candidate: Candidate, scene: Scene) -> No | None:
    """The first guard that objects, or None."""
    for name, guard in GUARDS:
        reason = guard(candidate, scene)
        if reason is not None:
            return No(name, reason)
    return None


def _mode(candidate: Candidate, _scene: Scene) -> str | None:
    mode = candidate.known.held.policy.update_mode
    if mode in (UpdateMode.OFF, UpdateMode.INITIAL):
        return f"policy '{candidate.known.held.policy.target}' has update mode '{mode}', which leaves running pods alone"
    return None


def _paused(_candidate: Candidate, scene: Scene) -> str | None:
    if scene.control is None or not scene.control.event.paused:
        return None
    why = scene.control.event.reason
    return f"cluster '{scene.control.event.cluster}' is paused" + (f": {why}" if why else "")


def _warm_up(_candidate: Candidate, scene: Scene) -> str | None:
    seconds = (scene.now - scene.first_turn) / 1000
    if seconds < scene.settings.warm_up:
        return f"the updater has watched for {seconds:g} s; it acts after {scene.settings.warm_up:g} s"
    return None


def _blind(_candidate: Candidate, scene: Scene) -> str | None:
    seconds = (scene.now - scene.facts_seen) / 1000
    if seconds > scene.settings.facts_within:
        return f"no pod fact of this cluster for {seconds:g} s; more than {scene.settings.facts_within:g} s is flying blind"
    return None


def _stale(candidate: Candidate, scene: Scene) -> str | None:
    seconds = (scene.now - candidate.known.recommended.turn) / 1000
    if seconds > scene.settings.recommendation_within:
        return f"the recommendation is {seconds:g} s old; more than {scene.settings.recommendation_within:g} s is stale"
    return None


def _phase(candidate: Candidate, _scene: Scene) -> str | None:
    phase = candidate.known.pod.fact.phase
    return None if phase is PodPhase.RUNNING else f"the pod is {phase.value}, not Running"


def _resizing(candidate: Candidate, scene: Scene) -> str | None:
    state = candidate.known.pod.fact.resize
    if state is ResizeState.NONE or stuck(candidate.known, scene.settings):
        return None
    return f"a resize of the pod is {state.value}"


def _cool_down(candidate: Candidate, scene: Scene) -> str | None:
    if candidate.known.note.acted is None:
        return None
    seconds = (scene.now - candidate.known.note.acted) / 1000
    if seconds < scene.settings.cool_down:
        return f"the pod was planned for {seconds:g} s ago; the next plan may follow after {scene.settings.cool_down:g} s"
    return None


def _replicas(candidate: Candidate, scene: Scene) -> str | None:
    if _free(candidate, scene) or scene.workload.live >= scene.settings.min_replicas:
        return None
    return f"the workload has {scene.workload.live} pods; fewer than {scene.settings.min_replicas} are left alone"


def _tolerance(candidate: Candidate, scene: Scene) -> str | None:
    count = scene.workload
    if _free(candidate, scene) or count.disruptable(scene.settings.eviction_tolerance):
        return None
    return f"{count.away} of the workload's {count.live} pods are away; the tolerance is {scene.settings.eviction_tolerance:g}"


def _workload_budget(_candidate: Candidate, scene: Scene) -> str | None:
    return _over_budget("workload", scene.workload, scene.budget)


def _cluster_budget(_candidate: Candidate, scene: Scene) -> str | None:
    return _over_budget("cluster", scene.cluster, scene.budget)


def _rate(_candidate: Candidate, scene: Scene) -> str | None:
    if scene.planned < scene.settings.rate:
        return None
    return f"{scene.planned} plans were made this time; the rate is {scene.settings.rate} each {scene.settings.interval:g} s"


def _over_budget(what: str, count: Headcount, budget: float) -> str | None:
    if count.within(budget):
        return None
    return f"{count.away} of the {what}'s {count.live} pods are away or being changed; the budget is {budget:g} of them"


def _free(candidate: Candidate, scene: Scene) -> bool:
    """Whether this is a resize that need not care for replicas."""
    return candidate.action is Action.RESIZE and scene.settings.in_place_skips_disruption


GUARDS: tuple[tuple[str, Guard], ...] = (
    ("mode", _mode),
    ("paused", _paused),
    ("warm-up", _warm_up),
    ("blind", _blind),
    ("stale", _stale),
    ("phase", _phase),
    ("resizing", _resizing),
    ("cool-down", _cool_down),
    ("replicas", _replicas),
    ("tolerance", _tolerance),
    ("workload-budget", _workload_budget),
    ("budget", _cluster_budget),
    ("rate", _rate),
)
"""In the order in which they are asked."""
