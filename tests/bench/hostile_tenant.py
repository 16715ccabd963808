"""What one tenant can make a turn cost: the CPU of the dearest turn of each stage."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from agents.engine.turn import Event, Recorded, Turn
from agents.pipeline import stages
from agents.settings.tree import Settings
from schemas.names import Place
from schemas.policies.vpa import TargetRef, VpaChanged, VpaRemoved

Put = Callable[[str, float, str, str], None]
VPAS = 8_000
_AT = datetime(2026, 1, 1, tzinfo=UTC)
_MS = round(_AT.timestamp() * 1000)


def measure(put: Put) -> None:
    """Let thousands of VPA objects with one target come, change and go, each time in one turn."""
    for stage in stages(Settings(topics={"partitions": 1})):  # type: ignore[arg-type]  # pydantic makes the part
        state, took = stage.open(0), 0.0
        for number, events in enumerate(_rounds()):
            records = [Recorded(event, Place("policies", 0, number * VPAS + i)) for i, event in enumerate(events)]
            began = time.process_time()
            state.step(Turn(_MS + number * 60_000, {"policies": records}))
            took = max(took, time.process_time() - began)
        put(f"{VPAS:,} VPAs on one target, {stage.name}: the dearest turn", took, "s", "<= 1")


def _rounds() -> Sequence[Sequence[Event]]:
    first, second = [[_vpa(number, generation) for number in range(VPAS)] for generation in (1, 2)]
    return first, second, [VpaRemoved(_AT, "bench", "web", f"vpa-{number}") for number in range(VPAS)]


def _vpa(number: int, generation: int) -> VpaChanged:
    created, ref = _AT - timedelta(seconds=number % 100), TargetRef("Deployment", "api", "apps/v1")
    return VpaChanged(_AT, "bench", "web", f"vpa-{number}", created, target_ref=ref, uid=f"uid-{number}", generation=generation)
