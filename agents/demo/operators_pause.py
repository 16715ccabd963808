"""An hour of the demo's day in which an operator pauses everything, as before a migration; then the day goes on."""

from collections.abc import Callable, Sequence
from datetime import datetime

from agents.demo.demo_settings import SOURCE, Day
from schemas.policies.control import ControlChanged, Mode
from schemas.units import Fraction
from streams.codec.event_codec import Codec
from streams.log.log_port import NewRecord
from streams.publishing.operator_log import policy_records

REASON = "database migration"


class OperatorsPause:
    """Begins in the middle of the day and lasts for a 24th of it, if the day has one. `append` puts records into the log."""

    def __init__(self, day: Day, append: Callable[[Sequence[NewRecord]], object]) -> None:
        self._day, self._append = day, append
        begin = day.start + day.length / 2
        self._ahead = [(begin, True), (begin + day.length / 24, False)] if day.pause else []

    def keep(self, at: datetime | None) -> None:
        """Publish what is due at this event time."""
        while at is not None and self._ahead and at >= self._ahead[0][0]:
            paused = self._ahead.pop(0)[1]
            control = ControlChanged(
                at, self._day.cluster, Mode.APPLY, paused=paused, reason=REASON if paused else "it is over", budget=Fraction(0.1)
            )
            self._append(policy_records([control], Codec(self._day.topics), source=SOURCE))
