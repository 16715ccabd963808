"""How event time follows from wall time."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimeBase:
    """Event time from wall time: `origin + (wall - anchor) * speed`, in milliseconds. By default both are the same."""

    origin: int = 0
    anchor: int = 0
    speed: float = 1.0

    def event(self, wall: int) -> int:
        """Event time at a wall time."""
        return self.origin + int((wall - self.anchor) * self.speed)

    def wall(self, event: int) -> float:
        """The wall time of an event time."""
        return self.anchor + (event - self.origin) / self.speed
