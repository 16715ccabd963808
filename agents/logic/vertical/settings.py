"""Settings of the recommender. Defaults are upstream's; where upstream has no such setting, the text says so."""

from dataclasses import dataclass

from schemas.units import Bytes, Cores, Fraction, Seconds

DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class VerticalSettings:
    """How usage becomes requests."""

    cpu_half_life: Seconds = Seconds(DAY)
    """Weight of a CPU sample halves in this time."""
    memory_half_life: Seconds = Seconds(DAY)
    """Weight of a memory peak halves in this time."""
    memory_window: Seconds = Seconds(DAY)
    """One memory peak counts for each container in each such window; an OOM older than this before the last sample is dropped."""
    memory_windows: int = 8
    """What had no CPU sample for this many windows is forgotten."""
    oom_ratio: float = 1.2
    """After an OOM kill the peak counts as at least this many times the memory requested or used."""
    oom_minimum: Bytes = Bytes(100 * 1024 * 1024)
    """... and as at least this many bytes more."""
    margin: Fraction = Fraction(0.15)
    """Share added to every percentile."""
    target_cpu_percentile: Fraction = Fraction(0.9)
    lower_cpu_percentile: Fraction = Fraction(0.5)
    upper_cpu_percentile: Fraction = Fraction(0.95)
    target_memory_percentile: Fraction = Fraction(0.9)
    lower_memory_percentile: Fraction = Fraction(0.5)
    upper_memory_percentile: Fraction = Fraction(0.95)
    cpu_confidence: Seconds = Seconds(DAY)
    """History of this length gives confidence 1 in CPU bounds."""
    memory_confidence: Seconds = Seconds(DAY)
    """... and in memory bounds."""
    pod_minimum_cpu: Cores = Cores(0.025)
    """No pod is recommended less; its containers share it equally."""
    pod_minimum_memory: Bytes = Bytes(250 * 1024 * 1024)
    interval: Seconds = Seconds(60.0)
    """A workload with new samples is looked at once in this time of events; after an OOM kill at once."""
    heartbeat: Seconds = Seconds(3600.0)
    """A recommendation is stated again after this time of events even if unchanged. Not upstream's: its status object stays."""
    bounds_step: Fraction = Fraction(0.05)
    """A bound that moved by this share of itself is a change worth stating; 0 states every change, as upstream does."""
