"""How far back a starting process reads forecasts: as long as one may still be valid."""

from datetime import timedelta

from schemas.catalogue import Event
from schemas.policies.ehpa import EhpaChanged, TimeSeriesPredictionChanged
from schemas.units import Seconds

_LEAST = timedelta(hours=2)
"""How far at least ..."""
_MOST = timedelta(days=3)
"""... and at most, however long a window is."""


def span(longest: Seconds) -> timedelta:
    """Twice the longest window that any policy asks for, within bounds."""
    return min(max(timedelta(seconds=2 * longest), _LEAST), _MOST)


def window(event: Event) -> Seconds:
    """How far ahead a policy asks for forecasts; 0 for any other event."""
    match event:
        case EhpaChanged(prediction=asked) if asked is not None:
            return Seconds(float(asked.window_seconds or 0))
        case TimeSeriesPredictionChanged(window_seconds=seconds):
            return Seconds(float(seconds or 0))
        case _:
            return Seconds(0.0)
