"""What the fold of usage depends on."""

from dataclasses import dataclass

from schemas.units import Seconds


@dataclass(frozen=True, slots=True)
class UsageSettings:
    """Half lives of the histograms, the window of a memory peak, and what an OOM kill adds to it."""

    cpu_half_life: Seconds = Seconds(86_400.0)
    memory_half_life: Seconds = Seconds(86_400.0)
    window: Seconds = Seconds(86_400.0)
    oom_ratio: float = 1.2
    oom_minimum: float = 104_857_600.0
    expires: Seconds = Seconds(8 * 86_400.0)
    growth: float = 0.05
    """Each histogram bucket is wider than the one before by this share. Part of the state: never change it under a changelog."""
    zero_is_absent: bool = False
    """A memory sample of 0 is no sample. Upstream takes it, and then no other of the same window."""
