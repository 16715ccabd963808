"""Events of a small cluster, for tests of stages: a workload, its pods, scrapes and turns, at made-up places in the log."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from agents.engine.turn import Recorded, Turn
from schemas.catalogue import Event
from schemas.facts.pods import OOM_KILLED, ContainerRun, ContainerSeen, PodChanged, PodPhase
from schemas.facts.usage import MetricsScraped
from schemas.names import Amounts, Place, PodName, Workload
from schemas.policies.vpa import Operator, Requirement, TargetRef, VpaChanged

START = 1_767_225_600_000
"""2026-01-01T00:00:00Z in milliseconds."""

MINUTE = 60_000
API = Workload("demo", "web", "Deployment", "api")
GIB = 2**30


def when(number: int) -> datetime:
    """The time of a turn."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=number)


def turn(number: int, **inputs: list[Event]) -> Turn:
    """A turn; inputs by topic with underscores for hyphens."""
    return Turn(
        number,
        {
            name.replace("_", "-"): [
                Recorded(event, Place(f"ullage.{name.replace('_', '-')}.v1", 0, number // 1000 + i))
                for i, event in enumerate(events)
            ]
            for name, events in inputs.items()
        },
    )


def scrape(number: int, rows: list[tuple[str, str, str, float, float]], **changed: object) -> MetricsScraped:
    """A scrape of rows (workload key, pod, container, cores, bytes)."""
    workloads, pods, containers, cores, memory = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    columns = {"cores": np.array(cores, np.float64), "memory": np.array(memory, np.float64), **changed}
    return MetricsScraped(when(number), "demo", tuple(workloads), tuple(pods), tuple(containers), **columns)  # type: ignore[arg-type]  # columns of floats


def pod(name: str, number: int, **changed: object) -> PodChanged:
    """A running pod of API with one container that requests 1 core and 1 GiB, with limits of twice that."""
    seen = ContainerSeen("app", Amounts(1.0, GIB), Amounts(2.0, 2 * GIB))  # type: ignore[arg-type]  # units
    fields: dict[str, object] = {
        "at": when(number),
        "workload": API,
        "pod": PodName("web", name, f"uid-{name}"),
        "phase": PodPhase.RUNNING,
        "created": when(number),
        "containers": (seen,),
        "started": when(number),
    }
    return PodChanged(**{**fields, **changed})  # type: ignore[arg-type]  # a test may say anything


def oom_killed(fact: PodChanged, number: int, container: str = "app", ran: int = MINUTE) -> PodChanged:
    """The pod once a container's last run ended by an OOM kill at a turn; a container that it lacked so far is added."""
    run = ContainerRun(when(number), when(number - ran), OOM_KILLED)
    seen = {each.name: each for each in fact.containers}
    killed = replace(seen.get(container, ContainerSeen(container, Amounts(None, GIB))), restarts=1, last_run=run)  # type: ignore[arg-type]  # units
    return replace(fact, containers=tuple({**seen, container: killed}.values()))


def vpa(**changed: object) -> VpaChanged:
    """A VPA named `api` for API that selects its pods by `app=api`."""
    fields: dict[str, object] = {
        "at": when(START),
        "cluster": API.cluster,
        "namespace": API.namespace,
        "name": "api",
        "created": when(START),
        "target_ref": TargetRef(API.kind, API.name, "apps/v1"),
        "selector": (Requirement("app", Operator.IN, ("api",)),),
        "generation": 1,
    }
    return VpaChanged(**{**fields, **changed})  # type: ignore[arg-type]  # a test may say anything
