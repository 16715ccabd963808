"""Settings of the recommender. Defaults are upstream's; where upstream has no such setting, the text says so."""

from collections.abc import Iterator
from dataclasses import dataclass

from schemas.policies.vpa_annotations import RISK_CPU, RISK_OOM
from schemas.units import Bytes, Cores, Fraction, Seconds

NAME = "recommender"
PROGRAM = 12
"""Counts changes of this capability's code that change what is decided."""

DAY = 86_400.0
BUILT_IN = "built-in"
"""The name of the estimator that needs no code of an operator's."""
ADAPTIVE = "adaptive"
"""The name of the policy that comes with Ullage beside it (`agents.logic.adaptive`)."""


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
    oom_loop: Seconds = Seconds(600.0)
    """A container OOM-killed within this time of its start gets at least twice its request, then two or three times that, and so
    on; 0 gives it no more than the two settings above. Not upstream's."""
    leak_hours: int = 8
    """A container whose lowest memory use rose in so many hours in a row, by a fifth in all and not ever more slowly, is said to
    leak; 0 calls nothing a leak. Not upstream's."""
    leak_growth: Fraction = Fraction(0.5)
    """A leaking container's memory target grows by at most this share a day of what it was when the leak was found."""
    margin: Fraction = Fraction(0.15)
    """Share added to every percentile."""
    target_cpu_percentile: Fraction = Fraction(0.9)
    """The share of weighted CPU use that the target covers, before the margin."""
    lower_cpu_percentile: Fraction = Fraction(0.5)
    """The share of weighted CPU use that the lower bound covers, before the margin."""
    upper_cpu_percentile: Fraction = Fraction(0.95)
    """The share of weighted CPU use that the upper bound covers, before the margin."""
    target_memory_percentile: Fraction = Fraction(0.9)
    """The share of weighted memory peaks that the target covers, before the margin."""
    lower_memory_percentile: Fraction = Fraction(0.5)
    """The share of weighted memory peaks that the lower bound covers, before the margin."""
    upper_memory_percentile: Fraction = Fraction(0.95)
    """The share of weighted memory peaks that the upper bound covers, before the margin."""
    cpu_confidence: Seconds = Seconds(DAY)
    """History of this length gives confidence 1 in CPU bounds."""
    memory_confidence: Seconds = Seconds(DAY)
    """... and in memory bounds."""
    pod_minimum_cpu: Cores = Cores(0.025)
    """No pod is recommended less; its containers share it equally."""
    pod_minimum_memory: Bytes = Bytes(250 * 1024 * 1024)
    """Likewise of memory, in bytes."""
    round_cpu: int = 1
    """CPU is rounded up to a multiple of this many millicores; 1 or less leaves it."""
    round_memory: int = 1
    """Memory is rounded up to a multiple of this many bytes; 1 or less leaves it."""
    humanize_memory: bool = False
    """The status of a VPA shows memory with two decimals in Ki, Mi, Gi or Ti. Deprecated; may show less than is meant."""
    integer_cpu: bool = False
    """A VPA's annotation `vpa-post-processor.kubernetes.io/<container>_integerCPU: "true"` rounds CPU up to whole cores."""
    maximum_cpu: Cores | None = None
    """No container is recommended more, where its policy sets no maximum of its own."""
    maximum_memory: Bytes | None = None
    """... and no more memory."""
    node_cap: bool = True
    """A pod that no node of its cluster has room for is cut down to the largest, all containers alike. Not upstream's."""
    recommender: str = "default"
    """VPA objects are served that name this recommender; `default` also serves those that name none."""
    memory_saver: bool = False
    """Usage of workloads without a policy is not held and they get no recommendation."""
    unknown_pods: bool = True
    """Usage counts of pods that no source has reported yet. Upstream drops it."""
    per_vpa: bool = True
    """A policy's own settings of OOM kills, memory windows and tuning hold. Upstream has the former behind a gate, off."""
    recommend_unseen: bool = False
    """A resource of which no sample was seen is recommended as the pod's minimum, as upstream does; otherwise not at all."""
    zero_is_absent: bool = True
    """A memory sample of 0 is no sample. Upstream takes it, and then no other of the same window."""
    window_peaks: bool = True
    """A memory sample is the highest use within its window, where its source knows that. Upstream's sources know none."""
    cpu_peaks: bool = False
    """Likewise a CPU sample. A burst of a second then asks for all of its height, so it is off."""
    interval: Seconds = Seconds(60.0)
    """A workload with new samples is looked at once in this time of events; after an OOM kill at once."""
    heartbeat: Seconds = Seconds(3600.0)
    """A recommendation is stated again after this time of events even if unchanged. Not upstream's: its status object stays."""
    bounds_step: Fraction = Fraction(0.05)
    """A bound that moved by this share of itself is a change worth stating; 0 states every change, as upstream does."""
    policy: str = ""
    """What decides instead of the built-in estimator: `adaptive`, a policy as code (a .py file), or an installed entry point."""
    shadow_policy: str = ""
    """A second policy that only says what it would recommend, named in the same way, or `built-in`. Not upstream's."""
    risk_cpu: Fraction = Fraction(0.02)
    """The share of time in which a container decided by `adaptive` may use more CPU than it requests. Not upstream's."""
    risk_oom: float = 0.9
    """OOM kills that `adaptive` may let happen, as a share of those that the built-in estimator would have. Not upstream's."""

    @property
    def memory_expires(self) -> Seconds:
        """The time after which memory is forgotten of which nothing was seen any more."""
        return Seconds(self.memory_window * self.memory_windows)

    def faults(self) -> Iterator[tuple[str, str]]:
        """The risks that nobody can mean."""
        for name, (least, most) in (("risk_cpu", RISK_CPU), ("risk_oom", RISK_OOM)):
            if not least <= getattr(self, name) <= most:
                yield name, f"it lies from {least:g} to {most:g}"
