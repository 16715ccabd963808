"""GUARDS: a record for each guard of the updater, in the order in which they are asked, with what follows where it objects.

`update_guards` has their judgements, by the same names. Commands that read the end of the log need nothing else of the updater.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GuardRecord:
    """A guard by its name in refusals, in `why-not` and in the docs."""

    name: str
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
    GuardRecord("mode", keeps_loops=True),
    GuardRecord("protected", keeps_loops=True),
    GuardRecord("opt-out", keeps_loops=True),
    GuardRecord("paused"),
    GuardRecord("warm-up"),
    GuardRecord("blind"),
    GuardRecord("stale"),
    GuardRecord("hpa", keeps_loops=True, caps="HPA"),
    GuardRecord("limit-range", keeps_loops=True, caps="LimitRange"),
    GuardRecord("capped", caps=""),
    GuardRecord("starving", stops=True),
    GuardRecord("webhook"),
    GuardRecord("requirements"),
    GuardRecord("phase"),
    GuardRecord("pod-warm-up"),
    GuardRecord("resizing", keeps_loops=True),
    GuardRecord("service-class", keeps_loops=True, caps="class"),
    GuardRecord("acceptance", keeps_loops=True, caps="acceptance"),
    GuardRecord("unchanged", keeps_loops=True),
    GuardRecord("unpatched", keeps_loops=True),
    GuardRecord("successor", stops=True),
    GuardRecord("quota", keeps_loops=True, stops=True, caps="quota"),
    GuardRecord("refused", keeps_loops=True, stops=True),
    GuardRecord("cool-down", bounds_disruption=True),
    GuardRecord("replicas", keeps_loops=True),
    GuardRecord("tolerance", bounds_disruption=True),
    GuardRecord("node", keeps_loops=True, caps="node"),
    GuardRecord("disruption-budget", keeps_loops=True),
    GuardRecord("schedule"),
    GuardRecord("workload-budget", bounds_disruption=True),
    GuardRecord("budget", bounds_disruption=True),
    GuardRecord("namespace-budget", bounds_disruption=True),
    GuardRecord("rate"),
)
BOUNDING_DISRUPTION = frozenset(guard.name for guard in GUARDS if guard.bounds_disruption)
KEEPING_LOOPS = frozenset(guard.name for guard in GUARDS if guard.keeps_loops)
STOPPING = frozenset(guard.name for guard in GUARDS if guard.stops)
LASTING = frozenset(guard.name for guard in GUARDS if guard.lasting)
CAPPING = {guard.name: guard.caps for guard in GUARDS if guard.caps is not None}
SAID_AGAIN = 1_800_000
"""Turns (milliseconds) after which a lasting guard is said again."""
