"""What the policy `adaptive` promised for a container and what it delivered, as the grounds of a recommendation say it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite


@dataclass(frozen=True, slots=True)
class DeliveredRisk:
    """Of one container of a workload. Shares of the time with more CPU used than requested; OOM kills since it was first seen.

    `kills_promised` is the share of the built-in estimator's kills that may happen, `kills_built_in` those that it would have
    had on the same samples.
    """

    container: str
    cpu_promised: float
    cpu_delivered: float
    kills_promised: float
    kills: float
    kills_built_in: float

    @property
    def cpu_broken_by(self) -> float:
        """The share of time that goes beyond the promise; 0 or less where it is kept."""
        return self.cpu_delivered - self.cpu_promised

    @property
    def kills_allowed(self) -> float:
        """Kills that may have happened by the promise."""
        return self.kills_promised * self.kills_built_in


_NUMBERS = {
    "cpu_promised": "cpu_short_promised",
    "cpu_delivered": "cpu_short_delivered",
    "kills_promised": "memory_kills_promised",
    "kills": "memory_kills",
    "kills_built_in": "memory_kills_built_in",
}
"""Where the grounds have each number."""


def delivered_risks(because: Mapping[str, object]) -> Iterator[DeliveredRisk]:
    """Of each container for which `because` has all the numbers. It is for people, so what has another form is left out."""
    of_containers = because.get("policy_grounds")
    for container, grounds in of_containers.items() if isinstance(of_containers, Mapping) else ():
        numbers = {name: grounds.get(key) for name, key in _NUMBERS.items()} if isinstance(grounds, Mapping) else {}
        readable = {name: float(value) for name, value in numbers.items() if isinstance(value, int | float) and isfinite(value)}
        if len(readable) == len(_NUMBERS):
            yield DeliveredRisk(str(container), **readable)
