"""The switch and the clock of a cluster, as the `control` topic tells them.

The last ControlChanged for the cluster holds; without one nothing is allowed, because shadow is the default. Event time is the
newest tick; without one there is no time, and nothing is allowed either.
"""

from datetime import UTC, datetime, timedelta

from schemas.policies.control import ControlChanged, Mode
from streams.codec.event_codec import Codec, tick_number
from streams.log.port import Record

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Switch:
    """What `cluster` allows, and what time it is."""

    def __init__(self, cluster: str, codec: Codec) -> None:
        self._cluster, self._codec = cluster, codec
        self._control: ControlChanged | None = None
        self._tick = -1

    @property
    def now(self) -> datetime | None:
        """Event time; None before the first tick."""
        return None if self._tick < 0 else _EPOCH + timedelta(milliseconds=self._tick)

    def read(self, record: Record) -> None:
        """Take one record of `control` in. A bad one changes nothing; the stages that read it too set it aside."""
        number = tick_number(record)
        if number is not None:
            self._tick = max(self._tick, number)
            return
        event = self._codec.decode_or_none(record)
        if isinstance(event, ControlChanged) and event.cluster == self._cluster:
            self._control = event

    def objection(self) -> str | None:
        """Why nothing may be done now, in a sentence; None when it may."""
        control = self._control
        if control is None:
            return f"nobody has set the mode of cluster '{self._cluster}' yet, so it is shadow"
        if control.paused:
            why = f": {control.reason}" if control.reason else ""
            return f"cluster '{self._cluster}' is paused{why}"
        if control.mode is not Mode.APPLY:
            return f"the mode of cluster '{self._cluster}' is {control.mode.value}, not apply"
        return None
