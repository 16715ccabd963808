"""`python -m tests.bench.updater_pass`: one pass of the updater over 100,000 pods of 10,000 workloads, without a log.

The recommendations move within their bounds, as they do all the time: then nothing is to be done, and finding that out is the
cost. In the last row all pods are outside theirs: a hundred plans are made, and all others are refused. CPU time of this
process, which is set up as a worker, the least of three passes. In `make bench`.
"""

import gc
import sys
import time
from collections.abc import Callable, Sequence

from agents.logic.updates.update_settings import UpdateSettings
from agents.logic.updates.updater import Updater
from agents.run import python_gc
from schemas.catalogue import Event
from schemas.decisions.recommendations import ContainerRecommendation, RequestsRecommended
from schemas.facts.pods import ContainerSeen, PodChanged, PodPhase
from schemas.names import Amounts, PodName, Workload
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vertical import VerticalPolicyChanged
from schemas.units import Bytes, Cores
from tests.support.cluster_events import GIB, MINUTE, START, turn, when

Put = Callable[[str, float, str, str], None]
WORKLOADS, REPLICAS = 10_000, 10
PASSES = 3


def measure(put: Put) -> None:
    """All rows."""
    workloads = [Workload("bench", f"ns-{number % 100}", "Deployment", f"w-{number}") for number in range(WORKLOADS)]
    stage, number = _filled(workloads), START + 10 * MINUTE
    python_gc.relax()
    for label, some, least, goal in (
        ("nothing changed", 0, 1.0, ""),
        ("1 % changed", WORKLOADS // 100, 1.0, "<= 0.1"),
        ("all changed", WORKLOADS, 1.0, "<= 1"),
        ("all outside their bounds", WORKLOADS, 0.3, ""),
    ):
        took = []
        for _ in range(PASSES):
            number += MINUTE
            cores = least + (number // MINUTE % 10) / 1000
            taken = turn(number, recommendations_by_cluster=_recommended(number, workloads[:some], cores))
            began = time.process_time()
            decided = stage.step(taken)
            took.append(time.process_time() - began)
            assert bool(decided) == (least < 1.0)
        put(f"updater: pass over {WORKLOADS * REPLICAS:,} pods, {label}", min(took), "s", goal)
    gc.unfreeze()


def _filled(workloads: Sequence[Workload]) -> Updater:
    """A stage that has seen all pods and looked at them once."""
    seen = (ContainerSeen("app", Amounts(Cores(1.0), Bytes(GIB)), Amounts(Cores(2.0), Bytes(2 * GIB))),)
    stage = Updater(UpdateSettings(), 0)
    pods: list[Event] = []
    for workload in workloads:
        for replica in range(REPLICAS):
            name = PodName(workload.namespace, f"{workload.name}-{replica}", f"uid-{workload.name}-{replica}")
            pods.append(PodChanged(when(START), workload, name, PodPhase.RUNNING, when(START), seen, started=when(START)))
    policy, control = VerticalPolicyChanged(when(START), "*", "1"), ControlChanged(when(START), "bench", Mode.APPLY)
    recommended = _recommended(START, workloads, 1.0)
    stage.step(
        turn(START, policies=[policy], control=[control], pod_changes_by_cluster=pods, recommendations_by_cluster=recommended)
    )
    stage.step(turn(START + 10 * MINUTE))
    gc.collect()
    gc.freeze()
    return stage


def _recommended(number: int, workloads: Sequence[Workload], cores: float) -> list[Event]:
    low, target, high = (Amounts(Cores(share * cores), Bytes(int(share * GIB))) for share in (0.8, 1.0, 1.3))
    containers = (ContainerRecommendation("app", low, target, high, target),)
    return [
        RequestsRecommended(f"recommender/0/{number}/requests/{each.key}", when(number), each, containers, {})
        for each in workloads
    ]


if __name__ == "__main__":

    def show(name: str, value: float, unit: str, goal: str) -> None:
        sys.stdout.write(f"{name:<80} {value:>12,.3f} {unit:<6} {goal}\n")
        sys.stdout.flush()

    measure(show)
