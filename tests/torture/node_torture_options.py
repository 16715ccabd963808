"""What a run of the torture of node groups is to be."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class NodeTortureOptions:
    """What a run is to be. `blows`: what is done, in an order that follows from the seed; `die`: chance at each call."""

    seed: int = 1
    blows: Mapping[str, int] = field(
        default_factory=lambda: {
            "worker": 6,
            "source": 5,
            "consumer": 6,
            "aws": 4,
            "pause": 2,
            "frozen": 2,
            "clock": 4,
            "throttle": 3,
        }
    )
    die: float = 0.02
    instances: int = 2
    """Instances of the consumer; two share a Lease."""
    between: float = 4.0
    """Seconds at most between two blows."""
    calm: float = 20.0
    """Seconds in which a group must have been changed before the next blow falls; then it falls all the same."""
    longest: float = 1200.0
    late: float = 900.0
    """Seconds at most for what must have happened and has not when the last blow has fallen: a slow machine's."""
    settle: float = 120.0
    minimum: Mapping[str, int] = field(
        default_factory=lambda: {
            "raises": 10,
            "terminations": 15,
            "drained": 4,
            "deaths": 10,
            "steps": 6,
            "soft taints done": 5,
            "sizes lowered": 2,
            "switches": 5,
        }
    )
    mutant: str = ""
    until_lost: bool = False
    """Whether the run is over as soon as a pod was lost with its node, which shows that a consumer is wrong."""


SHORT = NodeTortureOptions(
    blows={"worker": 2, "source": 1, "consumer": 2, "aws": 1, "pause": 1, "clock": 2, "throttle": 1},
    die=0.01,
    instances=1,
    between=1.5,
    calm=6.0,
    longest=60.0,
    late=150.0,
    settle=75.0,
    minimum={"raises": 2, "terminations": 2, "soft taints done": 1, "sizes lowered": 1, "switches": 5},
)
