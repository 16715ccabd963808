"""What senders brought of containers' usage: the newest samples of each series, as one answer for the usage source.

The figures are those of the queries that a Prometheus server would be asked (`promql.MetricNames`): CPU is the rate over a
window, series of one container that cAdvisor keeps apart are added up, and where several senders bring the same container the
largest counts. Series, and what is remembered of how senders write them, are bounded; one beyond that is refused and counted.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import IntEnum
from hashlib import blake2b
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from schemas.units import Seconds
from streams.sources.usage.readings import AHEAD, ContainerId, Floats, Readings, no_readings, whole_amounts
from streams.sources.usage.received.sample_table import RequestTooLarge, SampleTable, UnreadableSeries

LOOKBACK = Seconds(300.0)
"""Seconds for which a sample is current, where no stale marker ends its series: PromQL's lookback."""
DEPTH = 32
"""Samples of CPU that are kept of a series, which is one each ten seconds of the usual window."""
_ALIASES = 4
"""How many ways of writing are remembered, for each series that may be kept; what is no usage counts, too."""
NO_USAGE, REFUSED, MALFORMED = -1, -2, -3
"""Instead of a series' number: it is none of containers' usage; there are too many already; its labels are none."""
MOST_SAMPLES = 1 << 17
"""Samples of one request, whatever they are of: senders bring some thousands, and an empty one takes two bytes."""
Key = TypeVar("Key")


class UsageKind(IntEnum):
    """What the samples of a series are."""

    CPU_SECONDS = 0
    MEMORY = 1
    CORES = 2


@dataclass(frozen=True, slots=True)
class UsageSeries:
    """One series. `group` names it without what cAdvisor tells a container's runs and CPUs apart by; `identity` with it."""

    kind: UsageKind
    container: ContainerId
    group: bytes
    identity: bytes


@dataclass(slots=True)
class SampleBatch:
    """The samples of one request: numbers of series, seconds since the epoch, and values, NaN for a stale marker."""

    series: list[int]
    at: list[float]
    values: list[float]

    def require_room(self, more: int) -> None:
        """Raises RequestTooLarge where so many more samples are too many."""
        if len(self.series) + more > MOST_SAMPLES:
            raise RequestTooLarge(f"the request has more than {MOST_SAMPLES} samples")


class UsageSamples:
    """Of one cluster. Threads may use it at once. `most_series` bounds the series of each of the three kinds together."""

    def __init__(self, window: Seconds, most_series: int) -> None:
        self._window, self._most = window, most_series
        self._lock = threading.Lock()
        self._kinds = [_KindOfSeries(SampleTable(DEPTH, window)), _KindOfSeries(SampleTable(1)), _KindOfSeries(SampleTable(1))]
        self._containers: _Numbers[ContainerId] = _Numbers()
        self._written: dict[bytes, int] = {}
        """The number of each series by how a sender writes it, so that its labels are read once."""
        self._begun = self._watched = float("inf")  # two, because no rate of others may follow from what a sender says of time
        """The oldest time of a sample, and when the first came. A rate is of the time that was seen."""
        self._senders: _Numbers[str] = _Numbers()
        self._held: Counter[int] = Counter()
        """How many series of each sender, by its number, are kept."""
        self._sender, self._no_more = -1, False
        """Whose request is being read, and whether nothing was given up for it when it was tried."""
        self._names: tuple[tuple[int, ...], list[ContainerId]] = ((), [])
        self.fault = ""
        """What was wrong with the labels of the last series that were none."""
        self.counts: Counter[str] = Counter()
        """Samples since the start by what became of them, in the words of the metric `ullage_received_samples`."""

    def __len__(self) -> int:
        """How many series are kept."""
        return sum(len(kind.series) for kind in self._kinds)

    def number(self, written: bytes, read: Callable[[], UsageSeries | None]) -> int:
        """The number of a series that a sender writes like this; `read` reads it if that is new. Only for what `take` calls.

        NO_USAGE, REFUSED and MALFORMED, where `read` raises UnreadableSeries, say that there is none.
        """
        digest = blake2b(written, digest_size=16, key=b"%d" % self._sender).digest()
        number = self._written.get(digest)
        if number is None:
            try:
                series = read()
                number = NO_USAGE if series is None else self._add(series)
            except UnreadableSeries as error:
                number, self.fault = MALFORMED, str(error)
            if len(self._written) >= _ALIASES * self._most:
                # Not the oldest only: all are read anew within one request of each sender.
                self._written.clear()
            # There may be room for it later.
            if number != REFUSED:
                self._written[digest] = number
        return number

    def take(self, decode: Callable[["UsageSamples"], SampleBatch], now: datetime, sender: str = "") -> Counter[str]:
        """Take in the samples of a request, which `decode` reads. Returns how many became what. Raises what `decode` raises."""
        with self._lock:
            self._sender, self._no_more = self._senders.number(sender), False
            try:
                counts = self._store(decode(self), now)
            finally:
                if not self._held[self._sender]:
                    self._senders.give_back([self._sender])
            self.counts += counts
        return counts

    def _store(self, batch: SampleBatch, now: datetime) -> Counter[str]:
        numbers, at, values = np.array(batch.series, np.int64), np.array(batch.at), np.array(batch.values)
        words = {"other": NO_USAGE, "refused": REFUSED, "malformed": MALFORMED}
        counts = Counter({word: int((numbers == number).sum()) for word, number in words.items()})
        ahead = (numbers >= 0) & ~(at <= now.timestamp() + AHEAD)
        counts["future"] = int(ahead.sum())
        # They would be forgotten at the next look, and could only push out what counts.
        useless = (numbers >= 0) & (at < now.timestamp() - max(self._window, LOOKBACK))
        counts["too_old"] = int(useless.sum())
        if (numbers >= 0).any():
            self._watched = min(self._watched, now.timestamp())
        for kind, series in enumerate(self._kinds):
            mine = (numbers >= 0) & ~ahead & ~useless & (numbers % len(self._kinds) == kind)
            if mine.any():
                self._begun = min(self._begun, float(at[mine].min()))
                counts += series.samples.append(numbers[mine] // len(self._kinds), at[mine], values[mine])
        return counts

    def read(self, at: datetime) -> Readings:
        """What is used now, as the usage source asks for it."""
        with self._lock:
            self._forget(at.timestamp())
            return self._readings(at.timestamp())

    def _add(self, series: UsageSeries) -> int:
        # Nobody's samples go into a series of another.
        kind, whose = self._kinds[series.kind], b"%d/" % self._sender
        series = replace(series, group=whose + series.group, identity=whose + series.identity)
        if series.identity not in kind.series:
            if len(self) >= self._most and not self._make_room():
                return REFUSED
            self._held[self._sender] += 1
        row = kind.add(series, self._containers.number(series.container), self._sender)
        return row * len(self._kinds) + series.kind

    def _make_room(self) -> bool:
        """Take a hundredth of the room from the sender with the most series; False if this one has about as many."""
        # So nobody is kept out by somebody with many.
        if not self._no_more:
            most, share = max(self._held, key=self._held.__getitem__), max(1, self._most // 100)
            self._no_more = self._held[most] - self._held[self._sender] <= share
            if not self._no_more:
                rows = [np.flatnonzero(kind.senders == most) for kind in self._kinds]
                before = np.cumsum([0, *map(len, rows)])[:-1].tolist()
                self._drop([mine[: max(0, share - taken)] for mine, taken in zip(rows, before, strict=True)])
        return not self._no_more

    def _readings(self, now: float) -> Readings:
        size = self._containers.size
        ends, cores, memory, gauge = (np.full(size, fill) for fill in (-np.inf, np.nan, np.nan, np.nan))
        cpu, bytes_used, cores_used = self._kinds
        for kind in self._kinds:
            current = kind.current(now)
            np.maximum.at(ends, kind.containers[current], kind.samples.newest[current])
        for kind, column in ((bytes_used, memory), (cores_used, gauge)):
            current = kind.current(now)
            # Several senders may bring the same container; fmax passes over NaN.
            np.fmax.at(column, kind.containers[current], kind.samples.values()[current])
        cpu.add_rates(cores, cpu.samples.rates(now - self._window, now, watched=self._watched, late=True))
        # What follows from a counter is exact; the kubelet's own average stands in where there is none.
        cores = np.where(np.isnan(cores), gauge, cores)
        here = np.flatnonzero(ends > -np.inf)
        if not len(here):
            return no_readings()
        rows, keys = self._sorted(here)
        namespaces, pods, containers = zip(*keys, strict=True)
        window = Seconds(min(self._window, max(0.0, now - self._begun)))
        return Readings(namespaces, pods, containers, *whole_amounts(cores[rows], memory[rows]), ends[rows], window)

    def _sorted(self, here: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[ContainerId]]:
        """The containers by name."""
        # The same objects while they stay the same, so that readers know them without a look.
        rows = tuple(sorted(here.tolist(), key=self._containers.key))
        if rows != self._names[0]:
            self._names = rows, [self._containers.key(row) for row in rows]
        return np.array(rows, np.int64), self._names[1]

    def _forget(self, now: float) -> None:
        """Drop series whose samples say nothing any more."""
        self._drop([kind.older(now - max(self._window, LOOKBACK)) for kind in self._kinds])

    def _drop(self, rows: Iterable[NDArray[np.int64]]) -> None:
        """Drop these series of each kind, and the containers and senders that have none left."""
        dropped = set[int]()
        for number, (kind, mine) in enumerate(zip(self._kinds, rows, strict=True)):
            self._held.subtract(kind.senders[mine].tolist())
            kind.drop(mine)
            dropped.update((mine * len(self._kinds) + number).tolist())
        if not dropped:
            return
        self._written = {digest: number for digest, number in self._written.items() if number not in dropped}
        self._containers.keep(np.unique(np.concatenate([kind.containers[kind.series.numbers()] for kind in self._kinds])))
        self._held = +self._held
        self._senders.keep(np.array([self._sender, *(sender for sender in self._held if sender != self._sender)], np.int64))


class _Numbers(Generic[Key]):
    """Keys numbered from 0; a number that is given back is used again."""

    def __init__(self) -> None:
        self._number: dict[Key, int] = {}
        self._keys: list[Key | None] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._number)

    def __contains__(self, key: Key) -> bool:
        return key in self._number

    @property
    def size(self) -> int:
        """The largest number and one."""
        return len(self._keys)

    def number(self, key: Key) -> int:
        number = self._number.get(key)
        if number is None:
            number = self._free.pop() if self._free else len(self._keys)
            if number == len(self._keys):
                self._keys.append(key)
            self._keys[number] = key
            self._number[key] = number
        return number

    def key(self, number: int) -> Key:
        key = self._keys[number]
        if key is None:
            raise KeyError(number)
        return key

    def numbers(self) -> NDArray[np.int64]:
        """The numbers in use."""
        return np.fromiter(self._number.values(), np.int64, len(self._number))

    def give_back(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            del self._number[self.key(number)]
            self._keys[number] = None
            self._free.append(number)

    def keep(self, numbers: NDArray[np.int64]) -> None:
        """Give back all others."""
        self.give_back(np.setdiff1d(self.numbers(), numbers).tolist())


class _KindOfSeries:
    """The series of one kind: their samples, and the group and the container of each (rows,)."""

    def __init__(self, samples: SampleTable) -> None:
        self.samples = samples
        self.series: _Numbers[bytes] = _Numbers()
        self._groups: _Numbers[bytes] = _Numbers()
        self.containers = np.empty(0, np.int64)
        self.senders = np.empty(0, np.int64)
        """Who brings each series (rows,); -1 where there is none."""
        self._group_of = np.empty(0, np.int64)

    def add(self, series: UsageSeries, container: int, sender: int) -> int:
        """The row of a series, which may be there already."""
        row = self.series.number(series.identity)
        self.samples.grow(row + 1)
        missing = len(self.samples.newest) - len(self.containers)
        if missing:
            self.containers, self._group_of, self.senders = (
                np.concatenate([column, np.full(missing, -1)]) for column in (self.containers, self._group_of, self.senders)
            )
        self.senders[row] = sender
        self.containers[row], self._group_of[row] = container, self._groups.number(series.group)
        return row

    def current(self, now: float) -> NDArray[np.int64]:
        """The rows that have a value now."""
        return np.flatnonzero((self.samples.newest > now - LOOKBACK) & ~self.samples.stale)

    def add_rates(self, cores: Floats, rates: Floats) -> None:
        """Into the cores of each container goes the largest sum of its groups."""
        rows = np.flatnonzero(~np.isnan(rates))
        sums, container_of = np.zeros(self._groups.size), np.zeros(self._groups.size, np.int64)
        np.add.at(sums, self._group_of[rows], rates[rows])
        container_of[self._group_of[rows]] = self.containers[rows]
        groups = np.unique(self._group_of[rows])
        np.fmax.at(cores, container_of[groups], sums[groups])

    def older(self, before: float) -> NDArray[np.int64]:
        """The rows of the series without a sample since then."""
        rows = self.series.numbers()
        return rows[self.samples.newest[rows] < before]

    def drop(self, rows: NDArray[np.int64]) -> None:
        """Drop the series of these rows."""
        if len(rows):
            self.samples.clear(rows)
            self.senders[rows] = -1
            self.series.give_back(rows.tolist())
            self._groups.keep(self._group_of[self.series.numbers()])
