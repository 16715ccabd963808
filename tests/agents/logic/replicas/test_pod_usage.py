"""What the forecaster keeps of pods is written alike before and after a recovery."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

import pytest

from agents.logic.replicas import hpa_pods, pod_usage
from agents.logic.replicas.hpa_metrics import HpaMetric
from agents.logic.replicas.hpa_pods import MOST_MILLI, ReadinessDelays, milli
from agents.logic.replicas.pod_usage import ContainerAmounts, PodReading, ScaledPod, ScaledPodUsage, WorkloadReading
from schemas.facts.pods import ContainerSeen, PodChanged, PodDeleted, PodPhase
from schemas.facts.usage import MetricsScraped
from schemas.names import Amounts, PodName, Workload
from schemas.units import Bytes, Cores

AT = datetime(2026, 1, 1, tzinfo=UTC)


def test_amounts_that_came_as_whole_numbers_are_dumped_alike_before_and_after_a_load() -> None:
    asked = Amounts(Cores(cast("float", 1)), Bytes(cast("float", 128 << 20)))
    usage = ScaledPodUsage(lambda _: True)
    usage.pod_changed(
        PodChanged(
            AT,
            Workload("demo", "shop", "Deployment", "web"),
            PodName("shop", "web-1", "uid"),
            PodPhase.RUNNING,
            AT,
            (ContainerSeen("app", asked, ready=True),),
        )
    )
    (chunk,) = usage.pods.chunks()
    before = usage.pods.dump(chunk)
    usage.pods.load(chunk, before)
    assert usage.pods.dump(chunk) == before


def used(*cores: float) -> int:
    """Milli-cores of a pod whose containers use these."""
    pod = ScaledPod("web", "web-1", PodPhase.RUNNING, ready=True, changed=0.0, started=0.0, requests=())
    containers = tuple(ContainerAmounts(f"c{n}", each, None) for n, each in enumerate(cores))
    reading = WorkloadReading(0.0, 60.0, (PodReading("web-1", containers),))
    return int(pod_usage.samples([pod], reading, HpaMetric("Resource", "cpu", utilization=50), since=0.0).values[0])


def test_what_containers_use_is_added_in_whole_milli_cores_as_kubernetes_adds_it() -> None:
    assert used(0.1, 0.2) == 300  # as floats a little more
    assert used(2.007) == 2007
    assert used(0.1004, 0.1004) == 202  # each is rounded up by itself


def test_a_pod_that_is_being_deleted_neither_counts_nor_takes_load() -> None:
    """Source: `groupPods` of the HPA's replica calculator; `hpa.go` of Crane."""
    stays = ScaledPod("web", "web-1", PodPhase.RUNNING, ready=True, changed=0.0, started=0.0, requests=_ASKED)
    goes = replace(stays, name="web-2", leaving=True, requests=(ContainerAmounts("app", 9.0, None),))
    assert pod_usage.columns([stays, goes]).deleting.tolist() == [False, True]
    metric = HpaMetric("Resource", "cpu", utilization=50)
    assert pod_usage.share([stays, goes], metric) == 500
    assert pod_usage.share([goes], metric) == "none of 1 pods takes load"


_ASKED = (ContainerAmounts("app", 1.0, None),)


def requested(resource: str = "cpu", container: str = "", **pod: object) -> int | str:
    """What the HPA counts of one pod with an app of 500m and, unless `pod` says otherwise, a sidecar of 200m."""
    usage, web = ScaledPodUsage(lambda _: True), Workload("demo", "shop", "Deployment", "web")
    seen: dict[str, object] = {"init_containers": (_of("migrate", 9.0), replace(_of("mesh", 0.2), sidecar=True)), **pod}
    event = PodChanged(AT, web, PodName("shop", "web-1", "uid"), PodPhase.RUNNING, AT, (_of("app", 0.5),), **seen)  # type: ignore[arg-type]
    usage.pod_changed(event)
    found = pod_usage.requested(usage.of(web.key), HpaMetric("Resource", resource, utilization=50, container=container))
    return found if isinstance(found, str) else int(found[0])


def _of(name: str, cpu: float | None) -> ContainerSeen:
    return ContainerSeen(name, Amounts(cpu, None), ready=True)  # type: ignore[arg-type]  # units


def test_a_pod_requests_what_its_containers_and_sidecars_do_or_what_it_says_itself() -> None:
    """Source: `calculateRequests` of the HPA's replica calculator."""
    assert requested() == 700
    assert requested(container="app") == 500
    assert requested(container="mesh") == 200
    assert requested(init_containers=(replace(_of("mesh", None), sidecar=True),)) == (
        "pod 'web-1' has a container without a request for cpu"
    )
    whole = Amounts(2.0, None)  # type: ignore[arg-type]  # units
    assert requested(requests=whole) == 2000
    assert requested(requests=whole, container="app") == 500
    assert requested(requests=Amounts(None, Bytes(1e9))) == 700
    assert requested("memory", requests=whole) == "pod 'web-1' has a container without a request for memory"


def test_a_pod_is_ready_when_its_sidecars_are() -> None:
    usage, web = ScaledPodUsage(lambda _: True), Workload("demo", "shop", "Deployment", "web")
    mesh = replace(_of("mesh", 0.2), sidecar=True)
    for ready in (False, True):
        seen = (replace(mesh, ready=ready), replace(_of("migrate", None), ready=False))
        name = PodName("shop", "web-1", "uid")
        usage.pod_changed(PodChanged(AT, web, name, PodPhase.RUNNING, AT, (_of("app", 0.5),), init_containers=seen))
        assert [pod.ready for pod in usage.of(web.key)] == [ready]


@pytest.mark.parametrize("amount", [7, 70, 2007, 2011, 2047, 8_029])
def test_a_text_of_milli_units_is_that_many(amount: int) -> None:
    assert milli(float(f"{amount // 1000}.{amount % 1000:03}")) == amount


def test_the_largest_amounts_that_are_taken_in_are_held_at_the_most_that_kubernetes_counts() -> None:
    most = ContainerAmounts("app", 1.0, 1e16)
    pod = ScaledPod("web", "web-1", PodPhase.RUNNING, ready=True, changed=0.0, started=0.0, requests=(most, most))
    metric = HpaMetric("Resource", "memory", utilization=50)
    reading = WorkloadReading(0.0, 60.0, (PodReading("web-1", (most,)),))
    assert pod_usage.samples([pod], reading, metric, since=0.0).values.tolist() == [MOST_MILLI]
    asked = pod_usage.requested([pod, pod], metric)
    assert not isinstance(asked, str)
    assert asked.tolist() == [MOST_MILLI] * 2
    assert pod_usage.share([pod, pod], metric) == MOST_MILLI // 2


def test_a_scrape_counts_from_when_it_was_taken_and_a_pod_that_goes_leaves_the_others() -> None:
    usage, web = ScaledPodUsage(lambda _: True), Workload("demo", "shop", "Deployment", "web")
    for number in range(2):
        name = PodName("shop", f"web-{number}", f"uid-{number}")
        usage.pod_changed(PodChanged(AT, web, name, PodPhase.RUNNING, AT, (ContainerSeen("app", Amounts(), ready=True),)))
    usage.scraped(MetricsScraped(AT, "demo", (web.key,), ("web-0",), ("app",), (0.5,), (1e8,), ages=(30.0,)))
    reading = usage.usage.get(web.key)
    assert reading is not None
    assert reading.at == AT.timestamp() - 30
    usage.pod_deleted(PodDeleted(AT, web, PodName("shop", "web-0", "uid-0")))
    assert [pod.name for pod in usage.of(web.key)] == ["web-1"]


@pytest.mark.parametrize(("metric", "counts"), [("cpu", (0, 0, 1)), ("memory", (1, 0, 0))])
def test_what_a_starting_pod_uses_counts_of_memory_and_not_of_cpu(metric: str, counts: tuple[int, int, int]) -> None:
    pod = ScaledPod("web", "web-1", PodPhase.RUNNING, ready=False, changed=100.0, started=90.0, requests=())
    reading = WorkloadReading(110.0, 5.0, (PodReading("web-1", (ContainerAmounts("app", 0.5, 1e8),)),))
    samples = pod_usage.samples([pod], reading, HpaMetric("Resource", metric, utilization=50), since=0.0)
    groups = hpa_pods.group(pod_usage.columns([pod]), samples, now=120.0, patience=ReadinessDelays())
    assert groups.counts == counts
