"""How the bodies of old events become those of today, one version at a time.

A lift gets the JSON object of one version and gives that of the next, as today's code would write it: `replay --verify` compares
lifted decisions with recomputed ones. It looks only at the body and keeps every fact in it; it leaves out a field whose value the
older version did not have. What it cannot lift raises ValueError, TypeError, KeyError or AttributeError; the codec sets such a
record aside.
"""

from collections.abc import Callable, Mapping
from typing import Any

EventBody = dict[str, Any]
"""The JSON object of an event."""

Lift = Callable[[EventBody], EventBody]
"""From one version of a body to the next."""

LIFTS: Mapping[tuple[str, int], Lift] = {}
"""By the name on the wire and the version that is lifted; none yet; a version that only added fields with defaults needs none."""
