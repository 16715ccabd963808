"""When a plan becomes void: after its own lifetime, or as soon as one of the inputs that allowed it is too old to act on."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from agents.engine.turn import Turn
from schemas import times
from schemas.units import Seconds


@dataclass(frozen=True, slots=True)
class PlanExpiry:
    """The two limits of a plan; `stale_after` is None when no input becomes stale before the plan expires anyway."""

    expires: datetime
    stale_after: datetime | None = None


class Plan(Protocol):
    """A decision that can become void."""

    @property
    def void_after(self) -> datetime:
        """The last moment at which it may be carried out."""


def plan_expiry(turn: Turn, *, lifetime: Seconds, inputs: Iterable[tuple[int, Seconds]] = ()) -> PlanExpiry:
    """The limits of a plan made in `turn`. `inputs`: for each input, its turn and for how many seconds it stays fresh."""
    expires = turn.at + timedelta(seconds=lifetime)
    # A guard lets a plan pass while an input is fresh. Without this limit, a plan that passes at the last moment would be carried
    # out on an input that the same guard calls stale by then.
    stale = min((taken + int(within * 1000) for taken, within in inputs), default=None)
    if stale is None or stale >= times.to_ms(expires):
        return PlanExpiry(expires)
    return PlanExpiry(expires, times.from_ms(stale))


def last_turn(plan: Plan) -> int:
    """The number of the last turn in which a plan may still be carried out."""
    return times.to_ms(plan.void_after)
