"""The sample trace of the repository: a made-up shop of three workloads over three days, a row a container each half hour.

`python -m tests.support.sample_trace` writes it. Chance comes from hashes, so the file is the same on every machine.
"""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SAMPLE = Path(__file__).parents[2] / "docs/traces/sample-usage.csv"
BEGINNING, STEP_S, DAYS = 1_767_571_200, 1_800, 3
"""5 January 2026 in UTC, a Monday; one row of a container each half hour."""
HEADER = (
    "timestamp_s,namespace,workload,workload_kind,pod,container,cpu_millicores,memory_mib,"
    "cpu_request_millicores,memory_request_mib,memory_limit_mib,oom_killed"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """One container of the sample: mean use, how much of it a day's rhythm moves, and what its owner asked for."""

    workload: str
    kind: str
    pods: int
    millicores: float
    mib: float
    swing: float
    asked_millicores: int
    asked_mib: int
    limit_mib: int


SHAPES = (
    Shape("web", "Deployment", 2, 180, 210, 0.6, 1_000, 1_024, 2_048),
    Shape("cart", "Deployment", 1, 60, 325, 0.5, 250, 256, 384),
    Shape("db", "StatefulSet", 1, 350, 1_400, 0.2, 500, 2_048, 2_048),
)


def chance(*parts: object) -> float:
    """A number of [0, 1) that follows from the parts alone."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big") / 2**32


def lines() -> Iterator[str]:
    """The header and every row, in the order of time."""
    yield HEADER
    for step in range(1, DAYS * 86_400 // STEP_S + 1):
        seconds = step * STEP_S
        rhythm = math.sin((seconds / 86_400 - 0.375) * 2 * math.pi)
        for shape in SHAPES:
            for number in range(shape.pods):
                yield _row(shape, number, seconds, rhythm)


def _row(shape: Shape, number: int, seconds: int, rhythm: float) -> str:
    """A use above the limit is cut there, and is a kill: so the kernel does it."""
    pod = f"{shape.workload}-{number}"
    millicores = shape.millicores * (1 + shape.swing * rhythm + 0.3 * (chance("cpu", pod, seconds) - 0.5))
    wanted = shape.mib * (1 + 0.3 * shape.swing * rhythm + 0.2 * (chance("memory", pod, seconds) - 0.5))
    killed = wanted > shape.limit_mib
    row = (
        BEGINNING + seconds,
        "shop",
        shape.workload,
        shape.kind,
        pod,
        "main",
        round(millicores),
        min(round(wanted), shape.limit_mib),
        shape.asked_millicores,
        shape.asked_mib,
        shape.limit_mib,
        int(killed),
    )
    return ",".join(str(value) for value in row)


if __name__ == "__main__":
    SAMPLE.write_text("\n".join(lines()) + "\n")
