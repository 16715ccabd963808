"""Units of the amounts that events carry. A number on the wire always has one of these types."""

from typing import NewType

Cores = NewType("Cores", float)
"""CPU in cores; 0.25 is 250 millicores."""

Bytes = NewType("Bytes", int)
"""Memory in bytes."""

Seconds = NewType("Seconds", float)
"""A length of time in seconds."""

Fraction = NewType("Fraction", float)
"""A share, 0 to 1 unless its field says otherwise."""
