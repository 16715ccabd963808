"""Pods against quotas, by the API server's rules."""

import pytest

from agents.logic.resources import pod_resources, quota_admission, resource_lists
from agents.logic.resources.pod_resources import InitContainer, PodResources
from agents.logic.resources.quota_admission import QuotaPod
from agents.logic.resources.resource_lists import Container, Resources
from schemas.facts.update_facts import QuotaScope, ResourceQuotaChanged
from tests.support.examples import AT


def amounts(**texts: str) -> Resources | None:
    return resource_lists.read({name.replace("_", "-"): text for name, text in texts.items()})


def container(name: str = "app", requests: Resources | None = None, limits: Resources | None = None) -> Container:
    return Container(name, requests, limits)


def pod(*containers: Container, priority: str = "", terminating: bool = False, crosses: bool = False) -> QuotaPod:
    return QuotaPod(PodResources(containers), priority, terminating, crosses)


def quota(hard: dict[str, str], used: dict[str, str] | None = None, *scopes: QuotaScope, name: str = "q") -> ResourceQuotaChanged:
    return ResourceQuotaChanged(AT, "prod", "shop", name, hard, dict.fromkeys(hard, "0") | (used or {}), scopes)


SMALL = pod(container(requests=amounts(cpu="500m", memory="1Gi"), limits=amounts(cpu="1", memory="2Gi")))


@pytest.mark.parametrize(
    ("hard", "used", "fits"),
    [
        ({"requests.cpu": "1"}, {"requests.cpu": "500m"}, True),
        ({"requests.cpu": "1"}, {"requests.cpu": "501m"}, False),
        ({"cpu": "1"}, {"cpu": "600m"}, False),
        ({"memory": "2Gi"}, {"memory": "1Gi"}, True),
        ({"requests.memory": "2Gi"}, {"requests.memory": "1073741825"}, False),
        ({"limits.memory": "3Gi"}, {"limits.memory": "1Gi"}, True),
        ({"limits.cpu": "1"}, {"limits.cpu": "1m"}, False),
        ({"pods": "3"}, {"pods": "2"}, True),
        ({"pods": "3"}, {"pods": "3"}, False),
        ({"count/pods": "3"}, {"count/pods": "3"}, False),
        ({"requests.nvidia.com/gpu": "0"}, {}, True),
    ],
)
def test_a_pod_fits_if_what_is_used_and_what_it_asks_for_are_within_each_bound(
    hard: dict[str, str], used: dict[str, str], *, fits: bool
) -> None:
    assert (quota_admission.objection([quota(hard, used)], SMALL) is None) == fits


def test_the_objection_names_the_quota_and_all_numbers() -> None:
    full = quota({"requests.cpu": "2"}, {"requests.cpu": "1800m"}, name="compute")
    said = quota_admission.objection([full], SMALL)
    assert said == "ResourceQuota 'compute' allows requests.cpu 2000m, 1800m is in use, and 500m is asked for"
    assert quota_admission.objection([full], SMALL, freed=SMALL) is None


def test_a_pod_that_goes_frees_what_it_uses_and_nothing_else() -> None:
    full = quota({"requests.cpu": "1"}, {"requests.cpu": "1"})
    larger = pod(container(requests=amounts(cpu="501m")))
    assert quota_admission.objection([full], SMALL, freed=SMALL) is None
    said = quota_admission.objection([full], larger, freed=SMALL)
    assert (
        said
        == "ResourceQuota 'q' allows requests.cpu 1000m, 1000m is in use, 500m of it by the pod that goes, and 501m is asked for"
    )


def test_nobody_comes_back_into_a_quota_that_was_lowered_below_its_use() -> None:
    lowered = quota({"requests.cpu": "1"}, {"requests.cpu": "3"})
    assert quota_admission.objection([lowered], SMALL, freed=SMALL) is not None


@pytest.mark.parametrize("resource", ["limits.cpu", "limits.memory", "requests.cpu", "memory"])
def test_a_quota_demands_that_each_container_states_what_it_bounds(resource: str) -> None:
    bounding = quota({resource: "100Gi"})
    bare = pod(container(requests=amounts(), limits=amounts()))
    said = quota_admission.objection([bounding], bare)
    assert said is not None
    assert "of container 'app'" in said
    assert quota_admission.objection([bounding], SMALL) is None
    beside = QuotaPod(PodResources(SMALL.resources.containers, (InitContainer(container("init")),)), "", terminating=False)
    assert "of container 'init'" in str(quota_admission.objection([bounding], beside))


def test_amounts_of_the_pod_itself_stand_for_all_containers() -> None:
    whole = QuotaPod(
        PodResources((container(),), requests=amounts(cpu="2"), limits=amounts(cpu="4"), overhead=amounts(cpu="1"), stated=True),
        "",
    )
    assert quota_admission.usage(whole.resources)["requests.cpu"] == 3 * 10**9
    assert quota_admission.usage(whole.resources)["limits.cpu"] == 5 * 10**9
    assert quota_admission.objection([quota({"limits.memory": "1", "requests.cpu": "3"})], whole) is None
    assert quota_admission.objection([quota({"requests.cpu": "2999m"})], whole) is not None


@pytest.mark.parametrize(
    ("scope", "given", "counts"),
    [
        (QuotaScope("BestEffort"), SMALL, False),
        (QuotaScope("BestEffort"), pod(container()), True),
        (QuotaScope("BestEffort"), pod(container(requests=amounts(cpu="0"))), True),
        (QuotaScope("NotBestEffort"), SMALL, True),
        (QuotaScope("NotBestEffort"), pod(container()), False),
        (QuotaScope("Terminating"), SMALL, False),
        (QuotaScope("Terminating"), pod(container(), terminating=True), True),
        (QuotaScope("NotTerminating"), pod(container(), terminating=True), False),
        (QuotaScope("CrossNamespacePodAffinity"), pod(container(), crosses=True), True),
        (QuotaScope("CrossNamespacePodAffinity"), SMALL, False),
        (QuotaScope("PriorityClass", "Exists"), SMALL, False),
        (QuotaScope("PriorityClass", "DoesNotExist"), SMALL, True),
        (QuotaScope("PriorityClass", "In", ("high",)), pod(container(), priority="high"), True),
        (QuotaScope("PriorityClass", "In", ("high",)), pod(container(), priority="low"), False),
        (QuotaScope("PriorityClass", "NotIn", ("high",)), pod(container(), priority="low"), True),
        (QuotaScope("PriorityClass", "NotIn", ("high",)), SMALL, True),
        (QuotaScope("PriorityClass", "In", ("high",)), QuotaPod(PodResources((container(),))), True),
    ],
)
def test_a_quota_counts_the_pods_that_meet_its_scopes(scope: QuotaScope, given: QuotaPod, *, counts: bool) -> None:
    assert (quota_admission.objection([quota({"pods": "0"}, None, scope)], given) is not None) == counts


def test_what_shrinks_in_place_fits_into_a_quota_that_is_more_than_full() -> None:
    full = quota(
        {"requests.cpu": "1", "limits.memory": "1Gi", "pods": "1"}, {"requests.cpu": "4", "limits.memory": "9Gi", "pods": "7"}
    )
    smaller = pod(container(requests=amounts(cpu="400m", memory="1Gi"), limits=amounts(cpu="1", memory="2Gi")))
    larger = pod(container(requests=amounts(cpu="501m", memory="1Gi"), limits=amounts(cpu="1", memory="2Gi")))
    assert quota_admission.resize_objection([full], smaller, SMALL) is None
    assert quota_admission.resize_objection([full], larger, SMALL) is not None


def test_a_quota_whose_use_is_not_counted_yet_lets_nobody_in() -> None:
    new = ResourceQuotaChanged(AT, "prod", "shop", "q", {"pods": "9"}, {})
    assert quota_admission.objection([new], SMALL) == "ResourceQuota 'q' does not say yet how much pods is in use"


def test_an_init_container_counts_beside_the_sidecars_before_it() -> None:
    resources = PodResources(
        (container(requests=amounts(cpu="1")),),
        (
            InitContainer(container("proxy", requests=amounts(cpu="500m")), sidecar=True),
            InitContainer(container("load", requests=amounts(cpu="3"))),
        ),
    )
    assert pod_resources.requested(resources) == {"cpu": 3_500_000_000}


def test_what_one_container_gives_back_in_place_is_not_free_for_another_yet() -> None:
    full = quota({"requests.cpu": "1"}, {"requests.cpu": "900m"})
    before = pod(container("a", amounts(cpu="100m")), container("b", amounts(cpu="400m")))
    after = pod(container("a", amounts(cpu="400m")), container("b", amounts(cpu="100m")))
    said = quota_admission.resize_objection([full], after, before)
    assert said == "ResourceQuota 'q' allows requests.cpu 1000m, 900m is in use, and 300m is asked for"
