"""No resize is planned that the API server would refuse."""

from typing import Any

import pytest

from agents.logic.updates import pending_updates
from schemas.catalogue import Event
from schemas.decisions.pod_updates import ResizePlanned, UpdateRefused
from schemas.facts.pods import ContainerSeen
from schemas.facts.update_facts import ResourceQuotaChanged
from schemas.names import Amounts
from schemas.policies.limit_ranges import Limit, LimitRangeChanged, LimitType
from tests.agents.logic.updates.test_updater import at_once, look, open_stage
from tests.support.cluster_events import GIB, MINUTE, START, pod, when

SEEN = ContainerSeen("app", Amounts(0.1, GIB), Amounts(0.2, 2 * GIB), ready=True)
RAISED: dict[str, Any] = {"low": 0.5, "target": 0.6, "high": 0.7}


def stage_with(*events: Event, **changed: object) -> Any:
    stage = open_stage(*(pod(name, START, **{"containers": (SEEN,), **changed}) for name in "abc"))
    for event in events:
        topic = "policies" if isinstance(event, LimitRangeChanged) else "pod_changes_by_cluster"
        look(stage, START + MINUTE, **{topic: [event]})
    return stage


def quota(**used: str) -> ResourceQuotaChanged:
    return ResourceQuotaChanged(when(START), "demo", "web", "compute", {"requests.cpu": "2", "pods": "3"}, {"pods": "3", **used})


def refused(stage: Any, guard: str = "acceptance") -> UpdateRefused:
    [found] = [each for each in at_once(stage, **RAISED) if isinstance(each, UpdateRefused)]
    [first, *_] = pending_updates.outlook(stage, "demo")
    assert first.refused is not None
    assert first.refused.guard == found.guard == guard
    return found


def test_a_raise_that_a_quota_has_no_room_for_is_refused_with_all_numbers() -> None:
    found = refused(stage_with(quota(**{"requests.cpu": "1900m"})), "quota")
    why = "ResourceQuota 'compute' allows requests.cpu 2000m, 1900m is in use, and 500m is asked for"
    assert (found.reason, found.pods) == (f"the API server would refuse to resize the pod: {why}", 3)


def test_a_cut_fits_into_a_quota_that_is_more_than_full_and_a_raise_into_one_with_room() -> None:
    full = stage_with(quota(**{"requests.cpu": "9"}), containers=(ContainerSeen("app", Amounts(2.0, GIB), ready=True),))
    assert isinstance(at_once(full, low=0.1, target=0.2, high=0.3)[0], ResizePlanned)
    assert isinstance(at_once(stage_with(quota(**{"requests.cpu": "500m"})), **RAISED)[0], ResizePlanned)


@pytest.mark.parametrize(
    ("own", "why"),
    [
        ({"requests": Amounts(0.5)}, "the containers' cpu requests of 600m are above 500m, the pod's own request"),
        ({"limits": Amounts(1.0)}, "cpu limit 1200m of container 'app' is above 1000m, the pod's own limit"),
    ],
)
def test_amounts_of_the_pod_itself_bound_its_containers(own: dict[str, Amounts], why: str) -> None:
    assert refused(stage_with(**own)).reason == f"the API server would refuse to resize the pod: {why}"


def test_a_resize_that_keeps_the_ratio_of_a_limit_range_is_made() -> None:
    ratio = Limit(LimitType.CONTAINER, ratios={"cpu": 1.5})
    seen = ContainerSeen("app", Amounts(0.2, GIB), Amounts(0.3, 2 * GIB), ready=True)
    stage = stage_with(LimitRangeChanged(when(START), "demo", "web", "small", (ratio,)), containers=(seen,))
    assert isinstance(at_once(stage, **RAISED)[0], ResizePlanned)
