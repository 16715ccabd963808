"""The demo's day: which shop, how fast, an operator's pause, and settings that show in one day what would take two weeks.

A day is short. Upstream trusts a recommendation fully after a day of history and leaves pods alone for their first twelve
hours; here that takes four and six hours. Everything else is as upstream has it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from agents.logic.vertical.vertical_settings import ADAPTIVE
from schemas.policies import Policy
from schemas.policies.control import ControlChanged, Mode
from schemas.policies.vertical import ContainerPolicy, UpdateMode, VerticalPolicyChanged
from schemas.units import Fraction
from streams.codec.event_codec import Codec
from streams.log.log_port import NewRecord
from streams.publishing.operator_log import policy_records
from streams.topics import Topics

START = datetime(2026, 1, 5, tzinfo=UTC)
LENGTH = timedelta(days=1)
SOURCE = "/ullage/source/demo"
PROMISED = "platform"
"""The namespace in which the policy `adaptive` decides."""
JVMS = ("shop/Deployment/search",)

FASTER: dict[str, object] = {
    "vertical.cpu_confidence": 14400.0,
    "vertical.memory_confidence": 14400.0,
    "vertical.cpu_half_life": 43200.0,
    "vertical.memory_window": 21600.0,
    "updates.lifetime": 21600.0,
    "updates.warm_up": 1800.0,
    "updates.expires": 7200.0,  # two hours are five seconds at 1440 times real time
    "updates.cool_down": 14400.0,
    "nodes.interval": 300.0,
    "nodes.expires": 7200.0,
    "replicas.expires": 7200.0,
    "replicas.refit": 1800.0,
    "cluster.nodes": True,
}
"""Settings of the stages, by dotted name."""


@dataclass(frozen=True, slots=True)
class Day:
    """One simulated day, or the time of a trace. `seconds` is how long it takes in real time, `special` its own settings."""

    seed: int
    seconds: float
    partitions: int = 2
    tick: timedelta = timedelta(seconds=60)
    cluster: str = "demo"
    start: datetime = START
    length: timedelta = LENGTH
    special: Mapping[str, object] = field(default_factory=lambda: FASTER)
    pause: bool = True
    """Whether an operator pauses everything for a while."""
    adaptive: bool = True
    """Whether the policy `adaptive` decides in one namespace."""

    @property
    def end(self) -> datetime:
        """When it is over, in event time."""
        return self.start + self.length

    @property
    def speed(self) -> float:
        """Event time for each second of real time."""
        return self.length.total_seconds() / self.seconds

    @property
    def topics(self) -> Topics:
        """Its topics."""
        return Topics("ullage", self.partitions)

    def progress(self, at: datetime | None) -> float:
        """The part of it that has passed, 0 to 1."""
        return 0.0 if at is None else max(0.0, min(1.0, (at - self.start) / self.length))

    def in_one_process(self) -> dict[str, str]:
        """The settings for a day in virtual time, as flags: all but the clock's, which it does not need."""
        return {name: str(value) for name, value in self.settings().items() if not name.startswith("clock.")}

    def settings(self) -> dict[str, object]:
        """The settings of every process of the demo, by dotted name."""
        return {
            "topics.partitions": self.partitions,
            "clock.period_ms": int(self.tick.total_seconds() * 1000),
            "clock.speed": self.speed,
            "clock.origin_ms": int(self.start.timestamp() * 1000),
            "cluster.name": self.cluster,
            "cluster.seed": self.seed,
            "cluster.start": self.start.isoformat(),
            **self.special,
        }


def opening(day: Day) -> Sequence[NewRecord]:
    """The operator's first policies: apply in place, but recreate JVMs. In one namespace `adaptive` decides."""
    policies: list[Policy] = [ControlChanged(day.start, day.cluster, Mode.APPLY, reason="the demo acts", budget=Fraction(0.1))]
    # a JVM sees new amounts only when it starts
    for name, mode in (("*", UpdateMode.IN_PLACE_OR_RECREATE), *((jvm, UpdateMode.RECREATE) for jvm in JVMS)):
        policies.append(VerticalPolicyChanged(day.start, f"{day.cluster}/{name}", "demo-1", mode))
    if day.adaptive:
        decides = (ContainerPolicy(policy=ADAPTIVE),)
        target = f"{day.cluster}/{PROMISED}/*"
        policies.append(VerticalPolicyChanged(day.start, target, "demo-1", UpdateMode.IN_PLACE_OR_RECREATE, decides))
    return policy_records(policies, Codec(day.topics), source=SOURCE)


REASON = "database migration"


class OperatorsPause:
    """Begins in the middle of the day and lasts for a 24th of it, if the day has one. `append` puts records into the log."""

    def __init__(self, day: Day, append: Callable[[Sequence[NewRecord]], object]) -> None:
        self._day, self._append = day, append
        begin = day.start + day.length / 2
        self._ahead = [(begin, True), (begin + day.length / 24, False)] if day.pause else []

    def keep(self, at: datetime | None) -> None:
        """Publish what is due at this event time."""
        # a loop, for at full speed one tick may pass both moments
        while at is not None and self._ahead and at >= self._ahead[0][0]:
            paused = self._ahead.pop(0)[1]
            control = ControlChanged(
                at, self._day.cluster, Mode.APPLY, paused=paused, reason=REASON if paused else "it is over", budget=Fraction(0.1)
            )
            self._append(policy_records([control], Codec(self._day.topics), source=SOURCE))
