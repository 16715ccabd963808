"""What a policy written as code sees and returns: the types that its file imports.

A policy is one pure function, `recommend(usage: EvidenceColumns) -> RecommendedColumns`. It judges n containers at once:
element i of every array is container i. A container's answer must follow from its own elements alone, because which containers
are judged together differs between a worker and a backtest. Rounding, the bounds of a workload's policy and the fit to nodes
come after it, as they do after the built-in estimator; the built-in's least amounts for a pod do not.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from agents.logic.vertical.vertical_settings import BUILT_IN

Floats = NDArray[np.float64]


class PolicyFault(Exception):
    """A policy raised something, or returned what cannot be a recommendation; the sentence says what."""


@dataclass(frozen=True, slots=True)
class HistogramColumns:
    """One resource of n containers as decaying histograms: the weight of a sample halves with time, here a day by default."""

    starts: Floats
    """(buckets,) Where each bucket starts, in cores or bytes. The last one takes everything above its start."""
    weights: Floats
    """(n, buckets) What samples in each bucket weigh now, in units that only compare within a row."""

    @property
    def total(self) -> Floats:
        """(n,) The weight of all samples; 0 where there is none."""
        return np.asarray(self.weights.sum(axis=1))

    def percentile(self, share: float) -> Floats:
        """(n,) The end of the bucket in which `share` (0 to 1) of the weight is reached, in cores or bytes; 0 without samples."""
        ends = np.append(self.starts[1:], self.starts[-1])
        sums = np.cumsum(self.weights, axis=1)
        reached = (sums >= share * sums[:, -1:]).argmax(axis=1)
        return np.where(sums[:, -1] > 0.0, ends[reached], 0.0)


@dataclass(frozen=True, slots=True)
class RecommendedColumns:
    """What to recommend for n containers: six arrays (n,), CPU in cores and memory in bytes.

    Lower bound <= target <= upper bound. NaN in all three says that nothing is recommended for this resource of this container.
    """

    lower_cpu: Floats
    target_cpu: Floats
    upper_cpu: Floats
    lower_memory: Floats
    target_memory: Floats
    upper_memory: Floats

    def columns(self) -> Iterator[tuple[str, Floats]]:
        """Each name with its array."""
        for field in fields(self):
            yield field.name, getattr(self, field.name)


@dataclass(frozen=True, slots=True)
class EvidenceColumns:
    """What is known of n containers, each of them all pods of one container name of a workload. Arrays are read-only."""

    cpu: HistogramColumns
    """CPU use in cores; every sample weighs the same, apart from its age."""
    memory: HistogramColumns
    """Memory peaks in bytes: the highest use of each window (a day by default), and OOM kills as raised peaks."""
    recent_peak: Floats
    """(n,) The highest memory of any pod in its current window, in bytes; 0 where there is none."""
    first: Floats
    """(n,) Time of the first CPU sample, in seconds since 1970; NaN for none."""
    last: Floats
    """(n,) Time of the last one."""
    samples: Floats
    """(n,) How many CPU samples there were."""
    builtin: RecommendedColumns
    """What the built-in estimator recommends, with its percentiles, margin and confidence."""


Recommend = Callable[[EvidenceColumns], RecommendedColumns]


@dataclass(frozen=True, slots=True)
class CodePolicy:
    """A policy that has been read. `reference` is its name and the digest of its source, as `steady@0f3a...`."""

    reference: str
    recommend: Recommend
    strict: bool = False
    """Whether a fault of it is raised. Otherwise the built-in estimator decides instead, and the decision says so."""


PolicyLookup = Callable[[str], CodePolicy | None]
"""The policy of a reference; None for the built-in estimator. It raises what ends the process when there is no such policy."""


def only_built_in(reference: str) -> CodePolicy | None:
    """The look-up of a process without policies. Raises KeyError for any reference."""
    if reference in ("", BUILT_IN):
        return None
    raise KeyError(reference)


def answer(policy: CodePolicy, usage: EvidenceColumns) -> RecommendedColumns:
    """The policy's result, checked. Raises PolicyFault for any fault of it."""
    count = len(usage.samples)
    try:
        found = policy.recommend(usage)
    except MemoryError:  # depends on this process, not on the policy's input
        raise
    except Exception as error:  # foreign code may raise anything
        raise PolicyFault(f"it raised {type(error).__name__}: {error}"[:500]) from error
    if not isinstance(found, RecommendedColumns):
        raise PolicyFault(f"it returned {type(found).__name__}, not RecommendedColumns")
    for name, column in found.columns():
        _check_column(name, column, count)
    for what in ("cpu", "memory"):
        lower, target, upper = (getattr(found, f"{bound}_{what}") for bound in ("lower", "target", "upper"))
        missing = np.isnan(target)
        if (np.isnan(lower) != missing).any() or (np.isnan(upper) != missing).any():
            raise PolicyFault(f"{what}: a container has some of lower, target and upper, and NaN for the others")
        wrong = np.flatnonzero((lower > target) | (target > upper))
        if len(wrong):
            i = int(wrong[0])
            raise PolicyFault(
                f"{what} of container {i}: lower {lower[i]:g}, target {target[i]:g}, upper {upper[i]:g} are not in this order"
            )
    return found


def _check_column(name: str, column: object, count: int) -> None:
    if not isinstance(column, np.ndarray):
        raise PolicyFault(f"{name} is {type(column).__name__}, not an array")
    if column.shape != (count,) or column.dtype != np.float64:
        raise PolicyFault(f"{name} has shape {column.shape} of {column.dtype}, and must have shape ({count},) of float64")
    bad = np.flatnonzero((column < 0.0) | np.isinf(column))
    if len(bad):
        raise PolicyFault(f"{name} of container {int(bad[0])} is {column[bad[0]]:g}")
