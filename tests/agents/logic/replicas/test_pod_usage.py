"""What the forecaster keeps of pods is written alike before and after a recovery."""

from datetime import UTC, datetime
from typing import cast

from agents.logic.replicas.pod_usage import ScaledPodUsage
from schemas.facts.pods import ContainerSeen, PodChanged, PodPhase
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
