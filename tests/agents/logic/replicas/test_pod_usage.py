"""What the forecaster keeps of pods is written alike before and after a recovery."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.logic.replicas import replica_calculator
from agents.logic.replicas.hpa_metrics import HpaMetric
from agents.logic.replicas.pod_usage import ContainerAmounts, ScaledPod, ScaledPodUsage, WorkloadPods, WorkloadReading
from agents.logic.replicas.replica_calculator import MOST_MILLI, ReadinessDelays, milli
from schemas.facts.pods import ContainerSeen, PodChanged, PodDeleted, PodPhase
from schemas.facts.usage import MetricsScraped
from schemas.names import Amounts, PodName, Workload
from schemas.units import Bytes, Cores

AT = datetime(2026, 1, 1, tzinfo=UTC)
CPU = HpaMetric("Resource", "cpu", utilization=50)


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
    names = tuple(f"c{number}" for number in range(len(cores)))
    reading = WorkloadReading(0.0, 60.0, ("web-1",) * len(cores), names, cores, (None,) * len(cores))
    return int(WorkloadPods([pod]).samples(reading, CPU, since=0.0).values[0])


def test_what_containers_use_is_added_in_whole_milli_cores_as_kubernetes_adds_it() -> None:
    assert used(0.1, 0.2) == 300  # as floats a little more
    assert used(2.007) == 2007
    assert used(0.1004, 0.1004) == 202  # each is rounded up by itself


def test_a_pod_that_is_being_deleted_neither_counts_nor_takes_load() -> None:
    """Source: `groupPods` of the HPA's replica calculator; `hpa.go` of Crane."""
    stays = ScaledPod("web", "web-1", PodPhase.RUNNING, ready=True, changed=0.0, started=0.0, requests=_ASKED)
    goes = replace(stays, name="web-2", leaving=True, requests=(ContainerAmounts("app", 9.0, None),))
    assert WorkloadPods([stays, goes]).columns.deleting.tolist() == [False, True]
    assert WorkloadPods([stays, goes]).share(CPU) == 500
    assert WorkloadPods([goes]).share(CPU) == "none of 1 pod takes load"


_ASKED = (ContainerAmounts("app", 1.0, None),)


def requested(resource: str = "cpu", container: str = "", **pod: object) -> int | str:
    """What the HPA counts of one pod with an app of 500m and, unless `pod` says otherwise, a sidecar of 200m."""
    usage, web = ScaledPodUsage(lambda _: True), Workload("demo", "shop", "Deployment", "web")
    seen: dict[str, object] = {"init_containers": (_of("migrate", 9.0), replace(_of("mesh", 0.2), sidecar=True)), **pod}
    event = PodChanged(AT, web, PodName("shop", "web-1", "uid"), PodPhase.RUNNING, AT, (_of("app", 0.5),), **seen)  # type: ignore[arg-type]
    usage.pod_changed(event)
    found = usage.of(web.key).requested(HpaMetric("Resource", resource, utilization=50, container=container))
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
        assert [pod.ready for pod in usage.of(web.key).pods] == [ready]


@pytest.mark.parametrize("amount", [7, 70, 2007, 2011, 2047, 8_029])
def test_a_text_of_milli_units_is_that_many(amount: int) -> None:
    assert milli(float(f"{amount // 1000}.{amount % 1000:03}")) == amount


def test_the_largest_amounts_that_are_taken_in_are_held_at_the_most_that_kubernetes_counts() -> None:
    most = ContainerAmounts("app", 1.0, 1e16)
    pod = ScaledPod("web", "web-1", PodPhase.RUNNING, ready=True, changed=0.0, started=0.0, requests=(most, most))
    metric = HpaMetric("Resource", "memory", utilization=50)
    reading = WorkloadReading(0.0, 60.0, ("web-1",), ("app",), (1.0,), (1e16,))
    pods = WorkloadPods([pod, pod])
    assert pods.samples(reading, metric, since=0.0).values.tolist() == [MOST_MILLI] * 2
    asked = pods.requested(metric)
    assert not isinstance(asked, str)
    assert asked.tolist() == [MOST_MILLI] * 2
    assert pods.share(metric) == MOST_MILLI // 2


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
    assert [pod.name for pod in usage.of(web.key).pods] == ["web-1"]


@pytest.mark.parametrize(("metric", "counts"), [("cpu", (0, 0, 1)), ("memory", (1, 0, 0))])
def test_what_a_starting_pod_uses_counts_of_memory_and_not_of_cpu(metric: str, counts: tuple[int, int, int]) -> None:
    pod = ScaledPod("web", "web-1", PodPhase.RUNNING, ready=False, changed=100.0, started=90.0, requests=())
    pods, reading = WorkloadPods([pod]), WorkloadReading(110.0, 5.0, ("web-1",), ("app",), (0.5,), (1e8,))
    samples = pods.samples(reading, HpaMetric("Resource", metric, utilization=50), since=0.0)
    groups = replica_calculator.group(pods.columns, samples, now=120.0, patience=ReadinessDelays())
    assert groups.counts == counts


_ROWS = st.lists(
    st.tuples(
        st.sampled_from(["web-0", "web-1", "web-2", "gone"]),
        st.sampled_from(["app", "mesh"]),
        st.one_of(st.none(), st.integers(0, 9_999_999).map(lambda micro: micro / 1e6)),
    ),
    unique_by=lambda row: row[:2],
    max_size=8,
)


@given(rows=_ROWS, container=st.sampled_from(["", "app", "mesh"]))
def test_columns_give_each_pod_what_its_own_containers_come_to(rows: list[tuple[str, str, float | None]], container: str) -> None:
    names = ("web-0", "web-1", "web-2")
    pods = WorkloadPods(ScaledPod("web", name, PodPhase.RUNNING, True, 0.0, 0.0, ()) for name in names)  # noqa: FBT003
    ordered = sorted(rows, key=lambda row: row[:2])
    columns = [tuple(row[place] for row in ordered) for place in range(3)]
    reading = WorkloadReading(5.0, 60.0, columns[0], columns[1], columns[2], (None,) * len(rows))  # type: ignore[arg-type]
    samples = pods.samples(reading, replace(CPU, container=container), since=0.0)
    for number, name in enumerate(names):
        used = [cores for pod, of, cores in rows if pod == name and container in ("", of)]
        known = bool(used) and None not in used
        assert samples.known[number] == known
        assert samples.values[number] == (sum(milli(cores) for cores in used if cores is not None) if known else 0)


def test_a_scrape_that_comes_in_several_records_is_one_reading_and_columns_follow_each_change_of_a_pod() -> None:
    usage, web = ScaledPodUsage(lambda _: True), Workload("demo", "shop", "Deployment", "web")
    event = PodChanged(AT, web, PodName("shop", "web-0", "uid-0"), PodPhase.RUNNING, AT, (_of("app", 0.5),))
    for number in range(3):
        usage.pod_changed(replace(event, pod=PodName("shop", f"web-{number}", f"uid-{number}")))
    for number in (2, 0):
        pod = f"web-{number}"
        usage.scraped(MetricsScraped(AT, "demo", (web.key,) * 2, (pod,) * 2, ("mesh", "app"), (0.25, 0.5), (1e8, 1e8)))
    reading = usage.usage.get(web.key)
    assert reading is not None
    assert list(zip(reading.pods, reading.containers, reading.cpu, strict=True)) == [
        ("web-0", "app", 0.5),
        ("web-0", "mesh", 0.25),
        ("web-2", "app", 0.5),
        ("web-2", "mesh", 0.25),
    ]
    assert usage.of(web.key).samples(reading, CPU, since=0.0).values.tolist() == [750, 0, 750]
    assert usage.of(web.key).requested(CPU) is usage.of(web.key).requested(CPU)
    usage.pod_changed(replace(event, pod=PodName("shop", "web-0", "uid-0"), containers=(_of("app", 2.0),)))
    asked = usage.of(web.key).requested(CPU)
    assert not isinstance(asked, str)
    assert asked.tolist() == [2000, 500, 500]
