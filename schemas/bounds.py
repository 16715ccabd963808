"""The bounds of amounts: more than this is not possible in any cluster, so a larger number is a mistake."""

MOST_CORES = 1e6
"""Cores of one container, pod or node."""
MOST_BYTES = 1e16
"""Bytes of one container, pod or node."""
MOST_NUMBER = 1e16
"""Any other number: a period, a ratio, a count."""
