"""What a run of the torture is to be: its pace, its blows, and how much must happen in it."""

from dataclasses import dataclass

from tests.torture import fast_pipeline_settings

PERIOD = 10_000
TICK = 1.25
"""A tick is ten simulated seconds and comes every 1.25, so a plan (void after 200 s) has 25 seconds to be carried out.

That must be longer than a worker needs to start and to take up what its changelogs hold, on a busy machine too.
"""
EXPIRES = fast_pipeline_settings.UPDATES.expires / (PERIOD / 1000 / TICK)
"""Seconds of real time after which a plan is void."""
STARTING = 180.0
"""Seconds at most until everything is at work, and until a broker is back."""
SETTLING = 480.0
"""Seconds at most without a new checkpoint, until the workers have taken the last turn ..."""
LONGEST_SETTLING = 2400.0
"""... and altogether."""
SOUND = "west"
"""The cluster whose consumers have nothing wrong with them."""
CONSUMER_BLOWS = ("away", "frozen_holder", "paused", "pause", "kill")
"""Each thing that is done to consumers, once."""


@dataclass(frozen=True)
class TortureOptions:
    """What a run is to be."""

    seed: int
    kills: int = 20
    stages: str = "pipeline"
    partitions: int = 4
    broker_kills: int = 1
    freezes: int = 3
    tears: int = 4
    """How often a worker dies in the middle of a checkpoint."""
    burst: int = 5
    """Blows that follow one another before the workers are left in peace."""
    rest: float = 3.0
    """Seconds at most between two blows of a burst."""
    calm_acts: int = 25
    """Peace lasts until so many more acts were done ..."""
    calm: float = 240.0
    """... but no longer than so many seconds."""
    workloads: int = 60
    """Workloads of the generated load, beside the simulated clusters."""
    between: float = 0.6
    """Seconds, on average, between two scrapes of the generated load."""
    deployments: int = 24
    """Deployments of the simulated cluster, of four pods each."""
    consumer_blows: tuple[str, ...] = (*CONSUMER_BLOWS, "frozen_holder", "pause", *CONSUMER_BLOWS)
    minimum: tuple[tuple[str, int], ...] = (
        ("acts", 200), ("resizes", 100), ("evictions", 40), ("patched", 40), ("recoveries", 20),
        ("expired", 5), ("refused under a pause", 3), ("torn checkpoints", 2), ("take-overs", 2),
        ("ticks that do not count", 20), ("decisions by adaptive", 100),
    )  # fmt: skip
    """Fewer than so many, and the run shows nothing."""
    worker_mutants: tuple[str, ...] = ()
    """What is wrong with the workers."""
    moved_to: int = 7
    """Partitions into which the log is moved at the end, in which the workers then go on; 0 moves nothing."""
    clusters: bool = True
    """Whether there are simulated clusters and consumers at all."""
    consumer_mutants: tuple[str, ...] = ()
    """Each gets a cluster of its own, beside the sound one."""


SHORT = TortureOptions(
    1,
    kills=3,
    partitions=2,
    moved_to=0,
    freezes=1,
    tears=1,
    burst=3,
    calm_acts=10,
    calm=120.0,
    workloads=30,
    deployments=12,
    consumer_blows=CONSUMER_BLOWS,
    minimum=(
        ("acts", 40), ("resizes", 15), ("evictions", 10), ("patched", 8), ("recoveries", 6),
        ("expired", 1), ("torn checkpoints", 1), ("take-overs", 1),
        ("ticks that do not count", 3), ("decisions by adaptive", 20),
    ),
)  # fmt: skip
