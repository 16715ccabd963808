"""Units of the amounts that events carry. A number on the wire always has one of these types."""

import math
from typing import Final, NewType

Cores = NewType("Cores", float)
"""CPU in cores; 0.25 is 250 millicores."""

Bytes = NewType("Bytes", int)
"""Memory in bytes."""

Seconds = NewType("Seconds", float)
"""A length of time in seconds."""

Fraction = NewType("Fraction", float)
"""A share, 0 to 1 unless its field says otherwise."""

_DUST: Final = 1e-6
"""Millicores below this are what binary fractions leave behind, not a wish for one more."""


def millicores(cores: Cores) -> int:
    """Whole millicores, rounded up as Kubernetes rounds anything finer."""
    return math.ceil(cores * 1000 - _DUST)
