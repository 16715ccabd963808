"""Made-up fleets: replicas computed a second time by plain code after the HPA's algorithm, and what the forecaster plans.

The facts are those that sources publish: pods with sidecars and requests of their own, and what containers used.
Source of the second computation: `replica_calculator.go` and `metrics/client.go` in `pkg/controller/podautoscaler` of Kubernetes.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from schemas.facts.pods import ContainerSeen, PodChanged, PodDeleted, PodPhase
from schemas.facts.usage import MetricsScraped
from schemas.names import Amounts, PodName
from schemas.policies.scaling import MetricSpec, MetricTarget
from schemas.units import Bytes, Cores
from tests.support.replica_scene import CART, MONDAY, ForecasterScene, ehpa, plans, scale

NOW = MONDAY + timedelta(days=8)
GIB = 1 << 30
Pair = tuple[float | None, float | None]
"""CPU in milli-cores and memory in MiB; None where there is none."""


@dataclass(frozen=True)
class MadePod:
    """A pod. `used` is by container; None for a pod without a sample. Times are seconds before now."""

    asks: Mapping[str, Pair] = field(default_factory=lambda: {"app": (1000, 1024)})
    used: Mapping[str, Pair] | None = None
    sidecars: Mapping[str, Pair] = field(default_factory=dict)
    init: Mapping[str, Pair] = field(default_factory=dict)
    whole: Pair = (None, None)
    phase: PodPhase = PodPhase.RUNNING
    ready: bool = True
    leaving: bool = False
    started: float | None = 3600
    changed: float = 3600
    gone: bool = False


def each(cpu: float, *, count: int = 1, memory: float = 512, **more: object) -> list[MadePod]:
    """So many pods of one container that use so many milli-cores each."""
    return [MadePod(used={"app": (cpu, memory)}, **more) for _ in range(count)]  # type: ignore[arg-type]  # the test's own


def beside(app: float, mesh: float, *, count: int = 1, mesh_asks: Pair = (200, 128), **more: object) -> list[MadePod]:
    """So many pods with a sidecar."""
    used = {"app": (app, 512.0), "mesh": (mesh, 64.0)}
    return [MadePod(used=used, sidecars={"mesh": mesh_asks}, **more) for _ in range(count)]  # type: ignore[arg-type]  # as above


CPU_50 = MetricSpec("Resource", "cpu", MetricTarget("Utilization", average_utilization=50))
CPU_130 = MetricSpec("Resource", "cpu", MetricTarget("Utilization", average_utilization=130))
MEMORY_60 = MetricSpec("Resource", "memory", MetricTarget("Utilization", average_utilization=60))
CPU_400M = MetricSpec("Resource", "cpu", MetricTarget("AverageValue", average_value="400m"))
MESH_50 = MetricSpec("ContainerResource", "cpu", MetricTarget("Utilization", average_utilization=50), "mesh")
APP_50 = MetricSpec("ContainerResource", "cpu", MetricTarget("Utilization", average_utilization=50), "app")
MESH_100M = MetricSpec("ContainerResource", "cpu", MetricTarget("AverageValue", average_value="100m"), "mesh")

FLEETS: Mapping[str, tuple[MetricSpec, Sequence[MadePod]]] = {
    "busy pods": (CPU_50, each(800, count=4)),
    "busy pods with idle sidecars": (CPU_50, beside(800, 10, count=5)),
    "a sidecar without a request": (CPU_50, beside(800, 10, count=3, mesh_asks=(None, 128))),
    "a container metric of a sidecar": (MESH_50, beside(100, 190, count=4)),
    "a container metric of the app beside a sidecar without a request": (
        APP_50,
        beside(900, 10, count=4, mesh_asks=(None, None)),
    ),
    "a container metric where new pods have the sidecar and old ones do not": (
        MESH_50,
        [*each(500, count=2), *beside(100, 190, count=3)],
    ),
    "an average of a sidecar": (MESH_100M, beside(100, 190, count=4)),
    "an average of a sidecar that some pods do not have": (MESH_100M, [*each(500, count=2), *beside(100, 190, count=3)]),
    "missing pods on the way down": (CPU_50, [*each(200, count=5), MadePod(), MadePod()]),
    "missing pods on the way up": (CPU_50, [*each(900, count=4), MadePod(), MadePod()]),
    "missing pods with a target above their requests": (CPU_130, [*each(600, count=4), MadePod(), MadePod()]),
    "missing pods and an average": (CPU_400M, [*each(100, count=4), MadePod(), MadePod()]),
    "missing pods with requests of their own": (
        CPU_50,
        [*each(300, count=3, whole=(2000, None)), MadePod(whole=(2000, None)), MadePod(whole=(500, None))],
    ),
    "pods that start on the way up": (CPU_50, [*each(900, count=4), *each(999, count=3, ready=False, started=100, changed=100)]),
    "pods that were never ready": (CPU_50, [*each(800, count=4), *each(10, count=2, ready=False, started=900, changed=890)]),
    "pods that were ready once": (CPU_50, [*each(800, count=4), *each(10, count=2, ready=False, started=900, changed=100)]),
    "young pods of which a sample is from before they were ready": (
        CPU_50,
        [*each(800, count=4), *each(990, count=2, started=70, changed=30), *each(990, count=2, started=200, changed=100)],
    ),
    "memory of pods that start": (
        MEMORY_60,
        [*each(1, count=3, memory=900), *each(1, memory=100, ready=False, started=10, changed=10)],
    ),
    "pods that wait": (CPU_50, [*each(900, count=4), MadePod(phase=PodPhase.PENDING, ready=False, started=None)] * 2),
    "pods that wait for a mean of memory": (
        MEMORY_60,
        [*each(1, count=3, memory=1000), MadePod(phase=PodPhase.PENDING, ready=False, started=None)],
    ),
    "pods that go, failed and are gone": (
        CPU_50,
        [
            *each(800, count=3),
            *each(5000, count=2, leaving=True),
            *each(5000, phase=PodPhase.FAILED, ready=False),
            *each(5000, gone=True),
        ],
    ),
    "a pod that goes is asked for its request, too": (
        CPU_50,
        [*each(800, count=3), *each(100, leaving=True, asks={"app": (None, None)})],
    ),
    "requests of the pod itself": (CPU_50, beside(800, 200, count=3, whole=(4000, None))),
    "memory of a pod that itself requests CPU": (MEMORY_60, beside(800, 200, count=3, whole=(4000, 1152))),
    "a container metric of a pod with requests of its own": (MESH_50, beside(100, 190, count=3, whole=(4000, None))),
    "an init container that has ended": (CPU_50, each(600, count=3, init={"migrate": (3000, None)})),
    "a container without a sample of CPU": (CPU_50, [*each(800, count=3), MadePod(used={"app": (None, 512)})]),
    "within the tolerance": (CPU_50, each(540, count=7)),
    "nobody is ready": (CPU_50, each(900, count=3, ready=False, started=20, changed=20)),
    "nobody has a sample": (CPU_50, [MadePod(), MadePod()]),
}


def counts(pod: MadePod) -> bool:
    return not pod.leaving and pod.phase is not PodPhase.FAILED


def starting(pod: MadePod, sampled: float = 0.0, window: float = 60.0) -> bool:
    """Whether its CPU says nothing yet."""
    if pod.started is None:
        return True
    if pod.started < 300:
        return not pod.ready or sampled > pod.changed - window
    return not pod.ready and pod.started - 30 < pod.changed


def sample(pod: MadePod, metric: MetricSpec) -> int | None:
    column = 0 if metric.name == "cpu" else 1
    found = [pair[column] for name, pair in (pod.used or {}).items() if not metric.container or name == metric.container]
    return None if not found or None in found else sum(math.ceil(value) for value in found if value is not None)


def request(pod: MadePod, metric: MetricSpec) -> int | None:
    """None if a request, or the container, is not there."""
    column, together = 0 if metric.name == "cpu" else 1, {**pod.asks, **pod.sidecars}
    if metric.container:
        amount = together.get(metric.container, (None, None))[column]
        return None if amount is None else int(amount)
    if pod.whole != (None, None):
        found = pod.whole[column]
        assert found is not None or column == 1
        if found is not None:
            return int(found)
    asked = [pair[column] for pair in together.values()]
    return None if None in asked else int(sum(value for value in asked if value is not None))


def expected(metric: MetricSpec, fleet: Sequence[MadePod], current: int) -> int | None:
    """The replicas that the metric proposes; None for an error."""
    listed = [pod for pod in fleet if not pod.gone]
    counted = [pod for pod in listed if counts(pod)]
    ignored = [pod for pod in counted if pod.phase is PodPhase.PENDING]
    rest = [pod for pod in counted if pod.phase is not PodPhase.PENDING]
    missing = [pod for pod in rest if sample(pod, metric) is None]
    seen = [pod for pod in rest if sample(pod, metric) is not None]
    if metric.name == "cpu":
        ignored += [pod for pod in seen if starting(pod)]
        seen = [pod for pod in seen if not starting(pod)]
    used = [sample(pod, metric) or 0 for pod in seen]
    if not used:
        return None
    percent = metric.target.average_utilization
    if percent is None:
        target = int(metric.target.average_value.removesuffix("m"))
        ratio = (sum(used) // len(used)) / target
        more = [target if ratio < 1 else 0 for _ in missing] if ratio != 1 else []
        more += [0 for _ in ignored] if ratio > 1 else []
        again = (sum(used + more) // len(used + more)) / target
        total = len(used + more)
    else:
        asked = {id(pod): request(pod, metric) for pod in listed}
        if None in asked.values():
            return None
        wanted = [asked[id(pod)] or 0 for pod in seen]
        ratio = (100 * sum(used) // sum(wanted)) / percent
        if missing and ratio < 1:
            used = used + [(asked[id(pod)] or 0) * max(100, percent) // 100 for pod in missing]
        if missing and ratio != 1:
            wanted = wanted + [asked[id(pod)] or 0 for pod in missing]
        total = len(seen) + (len(missing) if ratio != 1 else 0)
        if ratio > 1:
            wanted = wanted + [asked[id(pod)] or 0 for pod in ignored]
            total += len(ignored)
        again = (100 * sum(used) // sum(wanted)) / percent
    if not missing and not (ignored and ratio > 1):
        return current if 0.9 <= ratio <= 1.1 else math.ceil(ratio * len(seen))
    if 0.9 <= again <= 1.1 or (ratio < 1 < again) or (ratio > 1 > again):
        return current
    wants = math.ceil(again * total)
    return current if (again < 1 and wants > current) or (again > 1 and wants < current) else wants


def amounts(pair: Pair) -> Amounts:
    cpu, memory = pair
    return Amounts(None if cpu is None else Cores(cpu / 1000), None if memory is None else Bytes(memory * (1 << 20)))


def facts(number: int, pod: MadePod) -> list[PodChanged | PodDeleted]:
    """What a source tells of a pod: that it is there, and that its readiness changed."""
    born = NOW - timedelta(seconds=max(pod.started or 0, pod.changed))
    init = [ContainerSeen(name, amounts(pair)) for name, pair in pod.init.items()]
    init += [ContainerSeen(name, amounts(pair), ready=pod.ready, sidecar=True) for name, pair in pod.sidecars.items()]
    name = PodName("shop", f"cart-{number}", f"uid-{number}")
    seen = PodChanged(
        NOW - timedelta(seconds=pod.changed),
        CART,
        name,
        pod.phase,
        born,
        tuple(ContainerSeen(each, amounts(pair), ready=pod.ready) for each, pair in pod.asks.items()),
        started=None if pod.started is None else NOW - timedelta(seconds=pod.started),
        init_containers=tuple(init),
        leaving=pod.leaving,
        requests=amounts(pod.whole),
    )
    return [seen, PodDeleted(NOW, CART, name)] if pod.gone else [seen]


def scraped(fleet: Sequence[MadePod]) -> MetricsScraped:
    rows = [(f"cart-{number}", name, pair) for number, pod in enumerate(fleet) for name, pair in (pod.used or {}).items()]
    return MetricsScraped(
        NOW,
        "prod",
        (CART.key,) * len(rows),
        tuple(pod for pod, _, _ in rows),
        tuple(name for _, name, _ in rows),
        tuple(Cores(math.nan if cpu is None else cpu / 1000) for _, _, (cpu, _) in rows),
        tuple(Bytes(math.nan if memory is None else memory * (1 << 20)) for _, _, (_, memory) in rows),
    )


@pytest.mark.parametrize("name", FLEETS)
def test_a_fleet_is_planned_as_the_hpa_would_scale_it(name: str) -> None:
    metric, fleet = FLEETS[name]
    current = sum(counts(pod) and not pod.gone for pod in fleet)
    scene = ForecasterScene()
    told = [fact for number, pod in enumerate(fleet) for fact in facts(number, pod)]
    policy = ehpa(metrics=(metric,), prediction=None, max_replicas=1000)
    [plan] = plans(scene.run(NOW, 15, policy, *told, scraped(fleet), scale(NOW, current)))
    [proposal] = plan.proposals
    assert proposal.replicas == expected(metric, fleet, current), proposal
