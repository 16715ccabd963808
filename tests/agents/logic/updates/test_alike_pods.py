"""Pods that count as alike share one judgement: each gets the one that it would get alone."""

from collections.abc import Sequence
from dataclasses import fields, replace

import pytest

from agents.logic.updates.candidate import Candidate
from agents.logic.updates.update_settings import UpdaterProfile
from schemas.facts.pods import (
    AdmissionNote,
    AmountsBefore,
    BoostedContainer,
    ContainerRun,
    ContainerSeen,
    PodChanged,
    PodPhase,
    ResizeState,
)
from schemas.facts.update_facts import SERVICE_ACCOUNT, ObjectMetadataChanged
from schemas.names import Amounts, PodName
from schemas.policies.vertical import UpdateMode
from tests.agents.logic.updates.test_pod_disruption_budgets import LABELS, budget
from tests.agents.logic.updates.test_updater import LATER, open_stage, recommend
from tests.support.cluster_events import GIB, MINUTE, START, pod, turn, when

SEEN = ContainerSeen("app", Amounts(1.0, GIB), Amounts(2.0, 2 * GIB), ready=True)  # type: ignore[arg-type]  # units
LARGE = Amounts(1.5, 2 * GIB)  # type: ignore[arg-type]  # units
PLAIN = pod("a", START, containers=(SEEN,), labels=LABELS, node="n1", controller="ReplicaSet/api-1", service_account="worker")
ENDED = ContainerRun(when(START - MINUTE))
OTHERS: dict[str, Sequence[object]] = {
    "at": (when(START - 1),),
    "phase": (PodPhase.PENDING,),
    "created": (when(START - MINUTE),),
    "containers": tuple(
        (replace(SEEN, **change),)  # type: ignore[arg-type]  # of several fields
        for change in (
            {"ready": False},
            {"ready": False, "restarts": 3, "last_run": ENDED},
            {"restarts_on": ("cpu", "memory")},
            {"requests": LARGE},
            {"limits": LARGE},
            {"sidecar": True},
        )
    ),
    "node": ("n2", None),
    "labels": ({**LABELS, "apps.kubernetes.io/pod-index": "1"},),
    "resize": (ResizeState.IN_PROGRESS, ResizeState.DEFERRED, ResizeState.INFEASIBLE),
    "started": (when(LATER - 1), None),
    "init_containers": ((SEEN,),),
    "controller": ("ReplicaSet/api-2", ""),
    "observed": ("app",),
    "boosted": ((BoostedContainer("app", SEEN.requests),),),
    "ready_since": (when(START),),
    "requests": (LARGE,),
    "limits": (LARGE,),
    "admitted": (AdmissionNote("an-offer"), AdmissionNote("an-offer", (AmountsBefore("app", LARGE, LARGE),))),
    "service_account": ("critical",),
    "asked": ({"app": LARGE},),
}
"""Fields with values other than PLAIN's. Of a field that is missing here, `another` makes one."""
CRITICAL = ObjectMetadataChanged(when(START), "demo", SERVICE_ACCOUNT, "web", "critical", labels={"tier": "critical"})
SETTINGS: dict[str, object] = {
    "profile": UpdaterProfile.ULLAGE,
    "eviction_tolerance": 1.0,
    "min_replicas": 2,
    "protected_labels": "ServiceAccount:tier=critical",
}


def another(value: object) -> object:
    """Another value of the same simple type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return f"{value}x"
    assert value in ((), {}), f"give an example of what differs from {value!r}"
    return ("x",) if value == () else {"x": "x"}


VARIED = [field.name for field in fields(PodChanged) if field.name not in ("workload", "pod")]
CASES = [(name, other) for name in VARIED for other in OTHERS.get(name) or [another(getattr(PLAIN, name))]]


def judged(pods: Sequence[PodChanged], mode: UpdateMode, warm_up: float, only: str = "") -> dict[str, object]:
    """What becomes of each pod, or of the one alone that has this name: the guard that objects, or how it is changed."""
    stage = open_stage(*pods, budget(allowed=0, desired=3), CRITICAL, mode=mode, pod_warm_up=warm_up, **SETTINGS)
    stage.step(turn(LATER - 1, recommendations_by_cluster=[recommend(LATER - 1)]))
    return {
        name_of(each): (each.action, each.why) if objection is None else objection
        for found in stage.candidates(fresh=True)
        for each, _, objection in replace(found, pods=[each for each in found.pods if name_of(each).startswith(only)]).judged()
    }


def name_of(candidate: Candidate) -> str:
    return candidate.situation.pod.fact.pod.name


def test_each_field_that_has_values_here_is_one_of_pods() -> None:
    assert OTHERS.keys() <= set(VARIED)


@pytest.mark.parametrize("mode", [UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.RECREATE])
@pytest.mark.parametrize("warm_up", [0.0, 30.0])
@pytest.mark.parametrize(("name", "other"), CASES, ids=[f"{name}-{place}" for place, (name, _) in enumerate(CASES)])
def test_two_pods_of_one_differing_field_are_judged_together_as_alone(
    name: str, other: object, warm_up: float, mode: UpdateMode
) -> None:
    pods = [PLAIN, replace(PLAIN, pod=PodName("web", "b", "uid-b"), **{name: other})]
    assert judged(pods, mode, warm_up) == {**judged(pods, mode, warm_up, "a"), **judged(pods, mode, warm_up, "b")}
