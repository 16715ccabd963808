"""What a run of the torture is to be: its pace, its blows, and how much must happen in it."""

from dataclasses import dataclass

from tests.torture import lively_stages

PERIOD = 10_000
TICK = 0.4
"""A tick is ten simulated seconds and comes every 400 ms, so a plan (void after 450 s) has 18 seconds to be carried out."""
EXPIRES = lively_stages.UPDATES.expires / (PERIOD / 1000 / TICK)
"""Seconds of real time after which a plan is void."""
STARTING = 90.0
"""Seconds at most until everything is at work, and until a broker is back."""
SETTLING = 240.0
"""Seconds at most until the workers have taken the last turn."""
SOUND = "west"
"""The cluster whose consumers have nothing wrong with them."""


@dataclass(frozen=True)
class TortureOptions:
    """What a run is to be."""

    seed: int
    kills: int = 20
    stages: str = "pipeline"
    partitions: int = 4
    broker_kills: int = 1
    freezes: int = 3
    tear: float = 0.0005
    """Chance that a worker dies in the middle of writing a chunk of a checkpoint."""
    rest: float = 5.0
    """Seconds at most between two blows."""
    workloads: int = 60
    """Workloads of the generated load, beside the simulated clusters."""
    between: float = 0.3
    """Seconds, on average, between two scrapes of the generated load."""
    deployments: int = 12
    """Deployments of the simulated cluster, of four pods each."""
    consumer_blows: tuple[str, ...] = ("away", "paused", "pause", "kill") * 4
    minimum: tuple[tuple[str, int], ...] = (
        ("acts", 200), ("resizes", 100), ("evictions", 40), ("patched", 40), ("recoveries", 20),
        ("expired", 5), ("refused under a pause", 3),
    )  # fmt: skip
    """Fewer than so many, and the run says nothing and counts as wrong."""
    worker_mutant: str = ""
    clusters: bool = True
    """Whether there are simulated clusters and consumers at all."""
    consumer_mutants: tuple[str, ...] = ()
    """Each gets a cluster of its own, beside the sound one."""


SHORT = TortureOptions(
    1,
    kills=3,
    partitions=2,
    freezes=1,
    rest=4.0,
    workloads=30,
    deployments=6,
    consumer_blows=("away", "paused", "pause", "kill"),
    minimum=(
        ("acts", 10), ("resizes", 5), ("evictions", 2), ("recoveries", 4),
        ("expired", 1), ("refused under a pause", 1),
    ),
)  # fmt: skip
