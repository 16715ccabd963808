"""What a policy written as code sees, keeps and returns: the types that its file imports.

A policy judges n containers at once: element i of every array is container i, which stands for all pods of one container name of
a workload. It has up to four parts. `recommend(usage, state)` gives amounts. `observe(samples, state)` takes in each scrape and
each OOM kill, and is the only one that changes `state`, whose columns `STATE` declares; a worker keeps them in its checkpoints.
`explain(usage, state)` names the numbers that a decision shows. `recommend(usage)` alone is a policy without memory.

A container's answer must follow from its own elements alone, because which containers are judged together differs between a
worker and a backtest. Rounding, the bounds of a workload's policy and the fit to nodes come after it, as they do after the
built-in estimator; the built-in's least amounts for a pod do not.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from agents.engine.tables.row_table import ColumnSpec, Indices, RowTable
from agents.logic.vertical.vertical_settings import ADAPTIVE, BUILT_IN

Floats = NDArray[np.float64]


class PolicyFault(Exception):
    """A policy raised something, or returned what cannot be a recommendation; the sentence says what."""


class HistogramColumns:
    """One resource of n containers as decaying histograms: the weight of a sample halves with time, here a day by default.

    `starts` (buckets,) says where each bucket starts, in cores or bytes; the last one takes everything above its start.
    """

    def __init__(
        self,
        starts: Floats,
        weights: Floats | Callable[[], Floats],
        percentile: Callable[[float], Floats] | None = None,
    ) -> None:
        """`weights` may be a function that makes them when they are asked for, `percentile` one that needs no weights."""
        self.starts, self._weights, self._percentile = starts, weights, percentile

    @cached_property
    def weights(self) -> Floats:
        """(n, buckets) What samples in each bucket weigh now, in units that only compare within a row. Read-only."""
        weights = self._weights() if callable(self._weights) else self._weights
        weights.flags.writeable = False
        return weights

    @property
    def total(self) -> Floats:
        """(n,) The weight of all samples; 0 where there is none."""
        return np.asarray(self.weights.sum(axis=1))

    def percentile(self, share: float) -> Floats:
        """(n,) The end of the bucket in which `share` (0 to 1) of the weight is reached, in cores or bytes; 0 without samples."""
        if self._percentile is not None:
            return self._percentile(share)
        ends = np.append(self.starts[1:], self.starts[-1])
        sums = np.cumsum(self.weights, axis=1)
        reached = (sums >= share * sums[:, -1:]).argmax(axis=1)
        return np.where(sums[:, -1] > 0.0, ends[reached], 0.0)


_MOST_EXPLAINED = 50
_LONGEST_TEXT = 200


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
        for name in AMOUNT_NAMES:
            yield name, getattr(self, name)


AMOUNT_NAMES = tuple(field.name for field in fields(RecommendedColumns))


@dataclass(frozen=True)
class EvidenceColumns:
    """What is known of n containers. Arrays are read-only."""

    cpu: HistogramColumns
    """CPU use in cores; every sample weighs the same, apart from its age."""
    memory: HistogramColumns
    """Memory peaks in bytes: the highest use of each window (a day by default), and OOM kills as raised peaks."""
    peaks: Callable[[], Floats]
    first: Floats
    """(n,) Time of the first CPU sample, in seconds since 1970; NaN for none."""
    last: Floats
    """(n,) Time of the last one."""
    samples: Floats
    """(n,) How many CPU samples there were."""
    estimated: Callable[[], RecommendedColumns]
    least_cpu: Floats
    """(n,) The least that the built-in estimator recommends: the container's own minimum, else its share of the pod's; cores."""
    least_memory: Floats
    """(n,) Likewise in bytes."""
    in_place: NDArray[np.bool_]
    """(n,) Whether a changed request is given to pods as they run; otherwise what lies outside of the bounds evicts them."""

    @cached_property
    def builtin(self) -> RecommendedColumns:
        """What the built-in estimator recommends, with its percentiles, margin and confidence."""
        columns = self.estimated()
        for _, amounts in columns.columns():
            amounts.flags.writeable = False
        return columns

    @cached_property
    def recent_peak(self) -> Floats:
        """(n,) The highest memory of any pod in its current window, in bytes; 0 where there is none."""
        peaks = self.peaks()
        peaks.flags.writeable = False
        return peaks


@dataclass(frozen=True, slots=True)
class SampleColumns:
    """One moment of n containers: their usage, or OOM kills. Amounts are over all pods of a container; NaN is "not seen".

    A moment has usage or kills, never both; kills come first.
    """

    at: Floats
    """(n,) When, in seconds since 1970; usage never older than what was observed before."""
    seconds: Floats
    """(n,) The time that a sample stands for: since the one before, at most the window that it is averaged over; 0 for a kill."""
    cpu: Floats
    """(n,) Cores: the 90th percentile over the pods (nearest rank), of one pod its use; with `vertical.cpu_peaks` the window's
    highest, where the source knows it."""
    memory: Floats
    """(n,) Bytes: the highest of the pods, and of the window where the source knows it."""
    pods: Floats
    """(n,) How many pods were seen, or killed."""
    killed_at: Floats
    """(n,) The highest memory limit (without a limit, request) at which a pod was killed, in bytes; NaN for none."""
    spread: Floats
    """(n,) A stable number from 0 to 1 of each workload, for what need not happen for all at once."""
    risk_cpu: Floats
    """(n,) The share of time in which CPU use may be above the request."""
    risk_oom: Floats
    """(n,) OOM kills that may come, as a share of those that the built-in estimator would have."""
    evidence_of: Callable[[Indices], EvidenceColumns]

    def evidence(self, chosen: Indices) -> EvidenceColumns:
        """What is known of the containers at these places, as `recommend` sees it; made when it is asked for."""
        return self.evidence_of(chosen)


STATE_KINDS = (np.float64, np.float32, np.int64, np.int32, np.int16, np.bool_)
"""The types of what a policy may remember."""


@dataclass(frozen=True, slots=True)
class StateColumn:
    """A column of a policy's memory: one number for each container, or `width` of them; at first each is `default`."""

    name: str
    default: float = 0.0
    width: int = 0
    kind: type[np.float64 | np.float32 | np.int64 | np.int32 | np.int16 | np.bool_] = np.float64

    @property
    def bytes(self) -> int:
        """How many it takes for each container."""
        return np.dtype(self.kind).itemsize * max(1, self.width)

    @property
    def spec(self) -> ColumnSpec:
        """The column of a table."""
        return ColumnSpec(self.kind, self.default, dense=self.width)


class PolicyState:
    """What a policy remembers of n containers, by the names of its columns.

    `state["level"]` is (n,), or (n, width), and read-only; `state["level"] = array` remembers it. `state.part(places)` is the
    memory of some of the containers. Of a column of whole numbers `state.whole("count")` is the same with its type.
    """

    __slots__ = ("_count", "_rows", "_table")

    def __init__(self, table: RowTable, rows: Indices) -> None:
        """`rows` of the table, one for each container, no row twice."""
        self._table, self._count = table, len(rows)
        # A slice is a view and costs nothing, where a list of rows is copied with each access; a partition's rows mostly follow
        # on one another.
        whole = len(rows) > 0 and int(rows[-1]) - int(rows[0]) == len(rows) - 1 and bool((rows[1:] > rows[:-1]).all())
        self._rows: slice | Indices = slice(int(rows[0]), int(rows[-1]) + 1) if whole else rows

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, name: str) -> Floats:
        column = self._table.floats(name)[self._rows]
        column.flags.writeable = False
        return column

    def whole(self, name: str) -> Indices:
        """A column of whole numbers; some are narrower than their type says here."""
        column = self._table.whole(name)[self._rows]
        column.flags.writeable = False
        return column

    def __setitem__(self, name: str, values: NDArray[np.number] | NDArray[np.bool_] | float) -> None:
        self._table[name][self._rows] = values

    def part(self, places: Indices | NDArray[np.bool_]) -> "PolicyState":
        """The memory of the containers at these places, or where this is true."""
        rows = self._rows
        every = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        return PolicyState(self._table, every[places])


Recommend = Callable[[EvidenceColumns, PolicyState], RecommendedColumns]
Observe = Callable[[SampleColumns, PolicyState], None]
Explain = Callable[[EvidenceColumns, PolicyState], Mapping[str, Sequence[object] | NDArray[np.generic]]]


@dataclass(frozen=True)
class CodePolicy:
    """A policy that has been read. `reference` is its name and the digest of its source, as `steady@0f3a...`.

    `version` belongs to `state`: what was remembered under another version is forgotten.
    """

    reference: str
    recommend: Recommend
    observe: Observe | None = None
    explain: Explain | None = None
    state: tuple[StateColumn, ...] = ()
    version: int = 1
    strict: bool = False
    """Whether a fault of it is raised. Otherwise the built-in estimator decides instead, and the decision says so."""

    @cached_property
    def memory(self) -> str:
        """What its memory belongs to: name, version and columns."""
        # Worked out once, because every turn asks for it. The digest is of the columns, so that other columns are another memory.
        columns = [(column.name, column.default, column.width, column.kind.__name__) for column in self.state]
        return f"{self.reference.partition('@')[0]}.{self.version}.{crc32(repr(columns).encode()):08x}"


PolicyLookup = Callable[[str], CodePolicy | None]
"""The policy of a reference; None for the built-in estimator. It raises what ends the process when there is no such policy."""


def only_built_in(reference: str) -> CodePolicy | None:
    """The look-up of a process without policies, also without `adaptive`. Raises KeyError for any reference."""
    if reference in ("", BUILT_IN, ADAPTIVE):
        return None
    raise KeyError(reference)


def answer(policy: CodePolicy, usage: EvidenceColumns, state: PolicyState) -> Floats:
    """The policy's amounts, checked: (6, n), a row for each of AMOUNT_NAMES. Raises PolicyFault for any fault of it."""
    try:
        columns = policy.recommend(usage, state)
    except MemoryError:  # depends on this process, not on the policy's input
        raise
    except Exception as error:  # foreign code may raise anything
        raise PolicyFault(f"it raised {type(error).__name__}: {error}"[:500]) from error
    if not isinstance(columns, RecommendedColumns):
        raise PolicyFault(f"it returned {type(columns).__name__}, not RecommendedColumns")
    for name, column in columns.columns():
        _check_column(name, column, len(usage.samples))
    amounts = np.array([column for _, column in columns.columns()])
    lower, target, upper = amounts[::3], amounts[1::3], amounts[2::3]
    # All at once, as they nearly always are right; what is wrong is looked for only then.
    if not ((lower >= 0.0) & (lower <= target) & (target <= upper) & (upper < np.inf)).all():  # or something is NaN
        _check_amounts(amounts)
    return amounts


def shown_to(policy: CodePolicy, samples: SampleColumns, state: PolicyState) -> str:
    """Let a policy observe; returns why it could not, "" if it could. Raises PolicyFault for a strict policy."""
    try:
        if policy.observe is not None:
            policy.observe(samples, state)
    except MemoryError:  # depends on this process, not on the policy's input
        raise
    except Exception as error:  # foreign code may raise anything
        sentence = f"observing, it raised {type(error).__name__}: {error}"[:500]
        if policy.strict:
            raise PolicyFault(sentence) from error
        return sentence
    return ""


def explained(policy: CodePolicy, usage: EvidenceColumns, state: PolicyState) -> Mapping[str, list[object]]:
    """By name, what a policy says of the grounds of each container's amounts; says instead why it could not."""
    if policy.explain is None or not len(usage.samples):
        return {}
    try:
        return check_explained(policy.explain(usage, state), len(usage.samples))
    except MemoryError:  # depends on this process, not on the policy's input
        raise
    except Exception as error:  # foreign code may raise anything
        if policy.strict:
            raise PolicyFault(f"explaining, it raised {type(error).__name__}: {error}"[:500]) from error
        return {"fault": [f"{type(error).__name__}: {error}"[:500]] * len(usage.samples)}


def check_explained(explanation: object, count: int) -> Mapping[str, list[object]]:
    """Columns of numbers and short texts, as plain values. Raises PolicyFault for what is none."""
    if not isinstance(explanation, Mapping) or len(explanation) > _MOST_EXPLAINED:
        raise PolicyFault(
            f"explain returned {type(explanation).__name__}; a mapping of at most {_MOST_EXPLAINED} names is expected"
        )
    plain: dict[str, list[object]] = {}
    for name, column in explanation.items():
        values = column.tolist() if isinstance(column, np.ndarray) else list(column)
        if not isinstance(name, str) or len(values) != count:
            raise PolicyFault(f"explain has {len(values)} values of {name!r}; {count} are expected, under a name")
        plain[name] = [_plain(name, value) for value in values]
    return plain


def _plain(name: str, value: object) -> object:
    """A number or a text; None for what is no finite number. Raises PolicyFault."""
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, str):
        return value[:_LONGEST_TEXT]
    if value is None or isinstance(value, int):
        return value
    raise PolicyFault(f"explain says {type(value).__name__} of '{name}'; numbers and texts are possible")


def _check_column(name: str, column: object, count: int) -> None:
    if not isinstance(column, np.ndarray):
        raise PolicyFault(f"{name} is {type(column).__name__}, not an array")
    if column.shape != (count,) or column.dtype != np.float64:
        raise PolicyFault(f"{name} has shape {column.shape} of {column.dtype}, and must have shape ({count},) of float64")


def _check_amounts(amounts: Floats) -> None:
    """Raises PolicyFault for what cannot be a recommendation; NaN in all three of a resource can be one."""
    for name, row in zip(AMOUNT_NAMES, amounts, strict=True):
        bad = np.flatnonzero((row < 0.0) | np.isinf(row))
        if len(bad):
            raise PolicyFault(f"{name} of container {int(bad[0])} is {row[bad[0]]:g}")
    for what, (lower, target, upper) in zip(("cpu", "memory"), (amounts[:3], amounts[3:]), strict=True):
        missing = np.isnan(target)
        if (np.isnan(lower) != missing).any() or (np.isnan(upper) != missing).any():
            raise PolicyFault(f"{what}: a container has some of lower, target and upper, and NaN for the others")
        wrong = np.flatnonzero((lower > target) | (target > upper))
        if len(wrong):
            i = int(wrong[0])
            raise PolicyFault(
                f"{what} of container {i}: lower {lower[i]:g}, target {target[i]:g}, upper {upper[i]:g} are not in this order"
            )
