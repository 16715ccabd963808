"""GUARDS: a record for each guard of the updater, in the order in which they are asked, with what follows where it objects.

`update_guards` has their judgements, by the same names. Commands that read the end of the log need nothing else of the updater.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GuardRecord:
    """A guard by its name in refusals, in `why-not` and in the docs."""

    name: str
    advice: str = ""
    """What a person may change; empty where the guard's own sentence says it, because it depends on what binds."""
    passes: bool = False
    """It passes by itself: what it holds back only waits."""
    bounds_disruption: bool = False
    """It bounds how much is disturbed at a time, and so lets a pod be given more as it runs."""
    keeps_loops: bool = False
    """It keeps a loop of OOM kills going until somebody does something; the others may pass by themselves."""
    stops: bool = False
    """It leaves a workload alone until somebody does something, so the workload has a warning of its own in `status`."""
    caps: str | None = None
    """It keeps a target from being applied: the word for what does so; empty where `because` says which caps do."""

    @property
    def lasting(self) -> bool:
        """Whether what it says is said again while it lasts, as it holds until somebody does something."""
        return self.stops or self.caps is not None


GUARDS: tuple[GuardRecord, ...] = (
    GuardRecord("oom-bound", stops=True, caps="oom-bound"),
    GuardRecord("mode", "set another update mode to have running pods changed", keeps_loops=True),
    GuardRecord("protected", "take the protection away to have the pod changed", keeps_loops=True, caps="protected"),
    GuardRecord("opt-out", "take the annotation away, or use a mode that resizes in place", keeps_loops=True, caps="opt-out"),
    GuardRecord("paused", "`ullage resume` ends the pause"),
    GuardRecord("warm-up", "updates.warm_up says how long", passes=True),
    GuardRecord("blind", "start `ullage source kube`, or see why it does not report"),
    GuardRecord("stale", "start the worker of the recommender, or see why it does not decide"),
    GuardRecord(
        "hpa", "updates.honor_hpas=false, or an HPA by another metric, would let it be changed", keeps_loops=True, caps="HPA"
    ),
    GuardRecord("limit-range", "change the LimitRange of type Pod", keeps_loops=True, caps="LimitRange"),
    GuardRecord("capped", caps=""),
    GuardRecord("starving", "raise that bound, or use a mode that resizes in place", stops=True, caps="starving"),
    GuardRecord("webhook", "start `ullage consumer webhook`, or use a mode that resizes in place", passes=True),
    GuardRecord("requirements", "change the VPA's evictionRequirements", caps="requirements"),
    GuardRecord("phase", "it is changed once it runs", passes=True),
    GuardRecord("pod-warm-up", "updates.pod_warm_up says how long", passes=True),
    GuardRecord("resizing", "a larger node, or less on this one, lets it end", passes=True, keeps_loops=True),
    GuardRecord("service-class", "use a mode that evicts, such as InPlaceOrRecreate", keeps_loops=True, caps="class"),
    GuardRecord("acceptance", "change what the sentence names", keeps_loops=True, caps="acceptance"),
    GuardRecord("unchanged", "see which webhook or controller sets other amounts", passes=True, keeps_loops=True),
    GuardRecord("unpatched", "see why patched pods do not come", passes=True, keeps_loops=True),
    GuardRecord("successor", "see why the controller's new pods do not come or do not serve", stops=True, caps="successor"),
    GuardRecord("quota", "raise the ResourceQuota", keeps_loops=True, stops=True, caps="quota"),
    GuardRecord("refused", "change what the answer names", keeps_loops=True, stops=True, caps="refused"),
    GuardRecord("cool-down", "updates.cool_down says how long", passes=True, bounds_disruption=True),
    GuardRecord(
        "replicas",
        "a controller with more replicas, a lower minReplicas, or, where it needs more, a mode that resizes in place",
        keeps_loops=True,
        caps="replicas",
    ),
    GuardRecord("tolerance", "updates.eviction_tolerance says how many", passes=True, bounds_disruption=True),
    GuardRecord("node", "add a larger node, or room on the nodes", keeps_loops=True, caps="node"),
    GuardRecord(
        "disruption-budget", "change the PodDisruptionBudget, or use a mode that resizes in place", keeps_loops=True, caps="PDB"
    ),
    GuardRecord("schedule", "updates.budget_schedules says when", passes=True),
    GuardRecord("workload-budget", "`ullage mode apply --budget` sets another", passes=True, bounds_disruption=True),
    GuardRecord("budget", "`ullage mode apply --budget` sets another", passes=True, bounds_disruption=True),
    GuardRecord("namespace-budget", "`ullage mode apply --budget` sets another", passes=True, bounds_disruption=True),
    GuardRecord("rate", "updates.rate and updates.resize_rate say how many", passes=True),
)
BOUNDING_DISRUPTION = frozenset(guard.name for guard in GUARDS if guard.bounds_disruption)
KEEPING_LOOPS = frozenset(guard.name for guard in GUARDS if guard.keeps_loops)
STOPPING = frozenset(guard.name for guard in GUARDS if guard.stops)
LASTING = frozenset(guard.name for guard in GUARDS if guard.lasting)
WAITING = frozenset(guard.name for guard in GUARDS if guard.passes)
CAPPING = {guard.name: guard.caps for guard in GUARDS if guard.caps is not None}
SAID_AGAIN = 1_800_000
"""Turns (milliseconds) after which a lasting guard is said again."""
_ADVICE = {guard.name: guard.advice for guard in GUARDS}


def advised(guard: str, reason: str) -> str:
    """What a guard says, and what to change. An older log may have other guards."""
    advice = _ADVICE.get(guard, "")
    return f"{reason}; {advice}" if advice else reason


def in_words(guard: str, reason: str) -> str:
    """The same with the guard's name, in the same words wherever people read it."""
    return f"guard '{guard}' says: {advised(guard, reason)}"
