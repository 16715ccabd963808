"""What one tenant can make a turn cost: the CPU of the dearest turn of each stage that the objects reach.

Each case lets thousands of objects of one namespace come, change, be used and go. Turns are as far apart as they are live.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence

from agents.engine.turn import Recorded, Turn
from agents.logic.nodes.removal.drain_rules import MOST_DISRUPTION_BUDGETS
from agents.run.pipeline import stages
from agents.settings.all_settings import Settings
from schemas.catalogue import Event
from schemas.facts.pods import ContainerSeen, PodDeleted
from schemas.facts.replica_scaling import HpaGone, HpaSeen, ScaleSeen
from schemas.facts.scheduled_pods import LabelQuery
from schemas.facts.sources import SourceReported
from schemas.facts.update_facts import PodDisruptionBudgetChanged
from schemas.names import Amounts, Place, PodName
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.ehpa import EhpaChanged, EhpaRemoved
from schemas.policies.scaling import AlgorithmOptions, DspOptions, MetricSpec, MetricTarget, PredictionOptions
from schemas.policies.vpa import Operator, Requirement, TargetRef, VpaRemoved
from tests.support import node_scene
from tests.support.cluster_events import API, GIB, MINUTE, START, pod, scrape, vpa, when

Put = Callable[[str, float, str, str], None]
Rounds = Iterator[dict[str, Sequence[Event]]]
MANY = 8_000
REF = TargetRef("Deployment", "api", "apps/v1")
CPU = MetricSpec("Resource", "cpu", MetricTarget("Utilization", 50))
DSP = PredictionOptions(3600, AlgorithmOptions("dsp", DspOptions("60s", "7d")))


def vpas() -> Rounds:
    """VPAs on one target."""
    for generation in (1, 2):
        created = [when(START - 1000 * (n % 100)) for n in range(MANY)]
        yield {"policies": [vpa(name=f"v{n}", uid=f"u{n}", generation=generation, created=created[n]) for n in range(MANY)]}
    yield {"policies": [VpaRemoved(when(START), "demo", "web", f"v{n}") for n in range(MANY)]}


def ehpas() -> Rounds:
    """EHPAs on one target, of which each wants a forecast."""
    yield {"pod-changes": [ScaleSeen(when(START), API, 3, 3, "app=api"), *(pod(f"p{n}", START) for n in range(10))]}
    for generation in (1, 2):
        yield {"policies": [_ehpa(number, generation) for number in range(MANY)]}
    for _ in range(8):
        yield {"pod-metrics": [scrape(START, [(API.key, f"p{n}", "app", 0.5, 1e8) for n in range(10)])]}
    yield {"policies": [EhpaRemoved(when(START), "demo", "web", f"e{n}") for n in range(MANY)]}


def _ehpa(number: int, generation: int) -> EhpaChanged:
    created = when(START - 1000 * (number % 100))
    name, uid = f"e{number}", f"u{number}"
    return EhpaChanged(
        when(START), "demo", "web", name, created, REF, 10, 1, metrics=(CPU,), prediction=DSP, uid=uid, generation=generation
    )


def hpas() -> Rounds:
    """HPAs on one target that an EHPA scales."""
    yield {"policies": [_ehpa(0, 1)], "pod-changes": [ScaleSeen(when(START), API, 3, 3, "app=api")]}
    for generation in (1, 2):
        seen = [HpaSeen(when(START), API, "web", f"h{n}", when(START), REF, 10, generation=generation) for n in range(MANY)]
        yield {"pod-changes": seen}
    yield {"pod-changes": [HpaGone(when(START), API, "web", f"h{n}") for n in range(MANY)]}


def budgets() -> Rounds:
    """As many PodDisruptionBudgets as are read of one namespace, for one label that all pods have, each of another shape."""
    yield {
        "control": [ControlChanged(when(START), "demo", Mode.APPLY)],
        "cluster-changes": [
            SourceReported(when(START), "demo", source, (sees,), 1e9)  # type: ignore[arg-type]  # a unit
            for source, sees in (("kube", "scheduling-changes"), ("asg", "node-group-changes"))
        ],
        "node-group-changes": [node_scene.group("a", 0, 1000, 20), *(node_scene.instance(f"n{n}") for n in range(20))],
        "scheduling-changes": [node_scene.node(f"n{n}") for n in range(20)],
    }
    shapes = [node_scene.shape(f"s{n}", cpu=1, memory=1, labels={"app": "x", "n": str(n)}) for n in range(MANY)]
    yield {"scheduling-changes": [*shapes, *(node_scene.pod(f"p{n}", f"s{n}", f"n{n % 20}") for n in range(MANY))]}
    for allowed in (1, 2):
        queries = [LabelQuery({"app": "x"})] * MOST_DISRUPTION_BUDGETS
        yield {
            "scheduling-changes": [
                PodDisruptionBudgetChanged(when(START), "demo", "shop", f"b{n}", query, allowed)
                for n, query in enumerate(queries)
            ]
        }
        yield {}


def containers() -> Rounds:
    """Container names of one workload, a thousand in each of its pods."""
    pods = [f"p{n}" for n in range(MANY // 1000)]
    names = {name: [f"{name}-{n}" for n in range(1000)] for name in pods}
    seen = {name: tuple(ContainerSeen(each, Amounts(1.0, GIB)) for each in names[name]) for name in pods}  # type: ignore[arg-type]  # units
    yield {"policies": [vpa(selector=())], **_both([pod(name, START, containers=seen[name]) for name in pods])}
    for number in range(3):
        rows = [[(API.key, name, each, 0.5, 1e8) for each in names[name]] for name in pods]
        yield {"pod-metrics": [scrape(START + number * MINUTE, each) for each in rows]}
    yield {"policies": [VpaRemoved(when(START), "demo", "web", "api")]}
    yield _both([_gone(name) for name in pods])


def label_sets() -> Rounds:
    """Label sets of one workload: pods that differ in a label, all at once and then one by one, and selectors that list them."""
    yield {"policies": [vpa()]}
    yield _both([_labelled(number) for number in range(MANY)])
    yield {"pod-metrics": [scrape(START, [(API.key, f"p{n}", "app", 0.5, 1e8) for n in range(MANY)])]}
    for count in (900, 901):
        listed = Requirement("n", Operator.IN, tuple(str(n) for n in range(count)))
        yield {"policies": [vpa(generation=count, selector=(listed,))]}
    for number in range(MANY, MANY + 3):
        yield {**_both([_labelled(number)]), "pod-metrics": [scrape(START, [(API.key, f"p{number}", "app", 0.5, 1e8)])]}
    yield _both([_gone(f"p{number}") for number in range(MANY)])


def _labelled(number: int) -> Event:
    return pod(f"p{number}", START, labels={"app": "api", "n": str(number)})


def _gone(name: str) -> Event:
    return PodDeleted(when(START), API, PodName("web", name, f"uid-{name}"))


def _both(events: Sequence[Event]) -> dict[str, Sequence[Event]]:
    return {"pod-changes": events, "pod-changes-by-cluster": events}


CASES: tuple[tuple[str, Callable[[], Rounds], tuple[str, ...]], ...] = (
    ("VPAs on one target", vpas, ("recommender", "conditions", "updater")),
    ("EHPAs on one target", ehpas, ("forecaster",)),
    ("HPAs on one target", hpas, ("forecaster",)),
    ("shapes of pods under 1,000 PodDisruptionBudgets", budgets, ("scaler",)),
    ("container names of one workload", containers, ("recommender", "updater")),
    ("label sets of one workload", label_sets, ("recommender", "conditions", "updater", "forecaster")),
)


def measure(put: Put) -> None:
    """A row for each case and each stage that it reaches."""
    for label, rounds, reached in CASES:
        for stage in stages(Settings(topics={"partitions": 1})):  # type: ignore[arg-type]  # pydantic makes the part
            if stage.name not in reached:
                continue
            state, took = stage.open(0), 0.0
            for number, by_topic in enumerate(rounds()):
                inputs = {
                    name: [Recorded(event, Place(name, 0, number * 10 * MANY + n)) for n, event in enumerate(events)]
                    for name, events in by_topic.items()
                    if name in stage.reads
                }
                began = time.process_time()
                state.step(Turn(START + (number + 1) * 15_000, inputs))
                took = max(took, time.process_time() - began)
            put(f"{MANY:,} {label}, {stage.name}: the dearest turn", took, "s", "<= 1")


if __name__ == "__main__":

    def show(name: str, value: float, unit: str, goal: str) -> None:
        sys.stdout.write(f"{name:<95} {value:>8,.3f} {unit:<3} {goal}\n")
        sys.stdout.flush()

    measure(show)
