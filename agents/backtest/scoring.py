"""Keeps the score of a backtest: compares each scrape and OOM kill of the recording with the requests in force.

It never looks ahead: a scrape is scored with the recommendations of earlier turns only, because the caller passes scrapes before
the decisions of their turn. A recommended limit keeps the recording's ratio of limit to request, and a container without a limit
is assumed to end at its request. `scrape` and `killed` return what the stages would have seen: a container that the
recommendation would have killed shows its limit and a kill, and nothing that the recording has beyond that.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from agents.backtest.partial_scores import KillCounts, PartialScore, ResourceSums, SideSums, microseconds
from agents.backtest.recorded_containers import Flags, Floats, RecordedContainers, Rows
from agents.backtest.score_card import BacktestCounts, ScoreCard
from agents.backtest.workload_sums import RESOURCES, ContainerSums, WorkloadTotal
from schemas import times
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from schemas.names import PodName, Workload
from schemas.units import Bytes

_WRITTEN_AT_ONCE = 200_000

NUMBERS = ("timestamp_s", "seconds", "cpu_used", "cpu_requested", "memory_used", "memory_requested", "memory_limit", "killed")
"""The columns after policy, workload, pod and container: `timestamp_s` is the end of the window (since 1970), `seconds` its
length; cores and bytes; `memory_used` is the highest within the window, where that is known; `killed`: the limit would have ended
the container here. A request is the recommendation in force, the recording's own until there is one, and null without both."""


@dataclass(slots=True)
class SampleRows:
    """The rows of one policy, written into a folder of their own."""

    folder: Path
    policy: str
    _columns: list[list[Floats]] = field(default_factory=lambda: [[] for _ in NUMBERS])
    _rows: list[Rows] = field(default_factory=list)
    _waiting: int = 0
    _parts: int = 0

    def take(self, containers: RecordedContainers, rows: Rows, columns: tuple[Floats | Flags, ...]) -> None:
        """One scrape: rows of `containers`, and the columns that NUMBERS names."""
        for waiting, column in zip(self._columns, columns, strict=True):
            waiting.append(np.broadcast_to(np.asarray(column, np.float64), rows.shape))
        self._rows.append(rows)
        self._waiting += len(rows)
        if self._waiting >= _WRITTEN_AT_ONCE:
            self.write(containers)

    def write(self, containers: RecordedContainers) -> None:
        """Write what waits; to be called at the end, too."""
        import duckdb

        if not self._waiting:
            return
        rows = np.concatenate(self._rows)
        keys = np.array([containers.key(row) for row in range(len(containers))], dtype=object)
        names = {name: keys[rows, place] for place, name in enumerate(("workload", "pod", "container"))}
        numbers = {name: np.concatenate(column) for name, column in zip(NUMBERS, self._columns, strict=True)}
        part = {"policy": np.full(len(rows), self.policy, dtype=object), **names, **numbers}
        with duckdb.connect() as db:
            db.register("part", part)
            # null, because NaN would spoil the sums of whoever reads the file
            nullable = ", ".join(f"nullif({name}, 'nan'::double) as {name}" for name in NUMBERS[2:-1])
            chosen = f"policy, workload, pod, container, timestamp_s, seconds, {nullable}, killed > 0 as killed"
            db.table("part").project(chosen).write_parquet(str(self.folder / f"{self._parts:06d}.parquet"))
        self._columns, self._rows, self._waiting = [[] for _ in NUMBERS], [], 0
        self._parts += 1


_AT_ONCE = 16_384
"""Rows that are added up at once: enough that the calls cost little, few enough for a core's cache."""


@dataclass(slots=True)
class WaitingScrapes:
    """Scrapes that wait to be added up, with the requests that were in force. `kind`: seconds, and which maxima there are."""

    kind: tuple[float, bool, bool]
    rows: int = 0
    _rows: list[Rows] = field(default_factory=list)
    _parts: dict[str, list[tuple[Floats, ...]]] = field(default_factory=lambda: {name: [] for name in RESOURCES})

    def take(
        self, rows: Rows, amounts: Sequence[tuple[Floats, Floats]], used: Sequence[Floats], peaks: Sequence[Floats | None]
    ) -> None:
        """One scrape; `amounts` are the recording's own requests and those recommended, of each resource."""
        self._rows.append(rows)
        for name, both, use, peak in zip(RESOURCES, amounts, used, peaks, strict=True):
            self._parts[name].append((*both, use) if peak is None else (*both, use, peak))
        self.rows += len(rows)

    def containers(self) -> Rows:
        """The containers' rows."""
        return np.concatenate(self._rows)

    def columns(self, resource: str) -> tuple[Floats, Floats, Floats, Floats | None]:
        """Own requests, those recommended, use, and the highest use, of all rows."""
        own, ours, use, *peak = (np.concatenate(parts) for parts in zip(*self._parts[resource], strict=True))
        return own, ours, use, peak[0] if peak else None


@dataclass(slots=True)
class Score(BacktestCounts):
    """The running score."""

    turns: int = 0
    first: datetime | None = None
    last: datetime | None = None
    containers: RecordedContainers = field(default_factory=RecordedContainers)
    kills: KillCounts = field(default_factory=KillCounts)
    sums: ContainerSums | None = None
    """By container as well; None unless workloads are compared."""
    samples: SampleRows | None = None
    """Where each sample is kept; None unless somebody asks for them."""
    _own: SideSums = field(default_factory=SideSums)
    _recommended: SideSums = field(default_factory=SideSums)
    _alone: SideSums = field(default_factory=SideSums)
    _covered: int = 0
    _compared: int = 0
    _unrequested: int = 0
    _windows: Counter[float] = field(default_factory=Counter)
    _peaks: Counter[str] = field(default_factory=Counter)
    _waiting: WaitingScrapes | None = None
    _shown: dict[tuple[str, PodName, str, int], ContainerOOMKilled | None] = field(default_factory=dict)
    """What the kills counted so far showed, by workload, pod, container and restarts."""

    def killed(self, event: ContainerOOMKilled) -> ContainerOOMKilled | None:
        """Count a recorded kill; the kill that the stages would have seen, or None if nothing shows that there had been one."""
        kill = (event.workload.key, event.pod, event.container, event.restarts)
        # a log may hold one kill several times, by redelivery or from two sources
        if kill not in self._shown:
            self._shown[kill] = self._counted(event)
        return self._shown[kill]

    def _counted(self, event: ContainerOOMKilled) -> ContainerOOMKilled | None:
        self.kills.recorded += 1
        at = times.to_seconds(event.at)
        row = self.containers.row((event.workload.key, event.pod.name, event.container), at)
        self.containers["restarts"][row] = max(event.restarts, self.containers["restarts"][row])
        wall = float(self._wall(np.array([row]))[0])
        self._note("recorded", np.array([row]))
        if np.isnan(wall):
            self.kills.before += 1
            self._note("before", np.array([row]))
        elif event.memory_used is None and event.memory_limit is not None and event.memory_limit < wall:
            self.kills.unknown += 1
            self._note("unknown", np.array([row]))
            self.containers["reached"][row] = event.memory_limit
            # the recommended limit is higher, and nothing shows that this memory would have filled it, too
            return None
        else:
            self.kills.would_be += 1
            self._note("would_be", np.array([row]))
            self.containers["over"][row] = 1.0  # the scrape that shows it must not count again
            if event.memory_used is None and event.memory_limit is not None:
                request = Bytes(int(self.containers["memory"][row]))
                # the stages see the limit that followed from their recommendation
                event = replace(event, memory_request=request, memory_limit=Bytes(int(wall)))
        self.containers.killed[self.containers.pod[row]] = at
        return event

    def scrape(self, event: MetricsScraped) -> tuple[list[ContainerOOMKilled], MetricsScraped]:
        """Score one scrape with the requests in force; what the stages would have seen: kills, then the scrape."""
        rows = self.containers.of_scrape(event)
        cores, memory = np.asarray(event.cores, np.float64), np.asarray(event.memory, np.float64)
        peaks = [np.asarray(peak, np.float64) if len(peak) else None for peak in (event.cores_max, event.memory_max)]
        self._weigh(event, rows, (cores, memory), peaks)
        # a sample without a maximum counts by its average
        highest = memory if peaks[1] is None else np.fmax(memory, peaks[1])
        self._count_own(rows, highest)
        reached = self.containers["reached"][rows]
        # once: it stands for a kill in this window
        self.containers["reached"][rows] = np.nan
        with_kills = np.fmax(memory, reached)
        wall = self._wall(rows)
        over = np.fmax(highest, reached) > wall
        fresh = over & (self.containers["over"][rows] == 0.0)
        self.containers["over"][rows] = over
        if self.samples is not None:
            self._keep(event, rows, np.fmax(highest, reached), wall, fresh)
        # as recorded, so the stages get the scrape itself and nothing is copied
        if not np.count_nonzero(over) and np.isnan(reached).all():
            return [], event
        self.kills.would_be += int(fresh.sum())
        self._note("would_be", rows[fresh])
        kills = list(self._kills(event, rows, wall, np.flatnonzero(fresh)))
        capped: Any = np.where(over, np.fmin(with_kills, wall), with_kills)  # an array is a Sequence in all but name
        highest_seen: Any = () if peaks[1] is None else np.where(over, np.fmin(highest, wall), peaks[1])
        return kills, replace(event, memory=capped, memory_max=highest_seen)

    def _keep(self, event: MetricsScraped, rows: Rows, highest: Floats, wall: Floats, fresh: Flags) -> None:
        ages = np.asarray(event.ages, np.float64) if len(event.ages) else 0.0
        own, ours = ([self.containers[f"{side}{name}"][rows] for name in RESOURCES] for side in ("own_", ""))
        cpu, memory = (np.where(np.isnan(advised), before, advised) for before, advised in zip(own, ours, strict=True))
        at = np.asarray(times.to_seconds(event.at) - ages)
        cores = np.asarray(event.cores, np.float64)
        columns = (at, np.asarray(float(event.window)), cores, cpu, highest, memory, wall, fresh)
        if self.samples is not None:
            self.samples.take(self.containers, rows, columns)

    def _kills(self, event: MetricsScraped, rows: Rows, wall: Floats, fresh: Rows) -> Iterator[ContainerOOMKilled]:
        """The kills that the recommendation would have caused, at the ends of their windows."""
        for place in fresh.tolist():
            row = int(rows[place])
            at = event.at - timedelta(seconds=float(event.ages[place]) if len(event.ages) else 0.0)
            self.containers["restarts"][row] += 1.0
            self.containers.killed[self.containers.pod[row]] = times.to_seconds(at)
            workload, _, container = self.containers.key(row)
            yield ContainerOOMKilled(
                at,
                Workload.parse(workload),
                self.containers.pod_name(row),
                container,
                restarts=int(self.containers["restarts"][row]),
                memory_request=Bytes(int(self.containers["memory"][row])),
                memory_limit=Bytes(int(wall[place])),
            )

    def _weigh(self, event: MetricsScraped, rows: Rows, used: tuple[Floats, Floats], peaks: list[Floats | None]) -> None:
        """Put requests in force beside what was used; they are added up many scrapes at a time."""
        seconds = float(event.window)
        kind = (seconds, peaks[0] is not None, peaks[1] is not None)
        # only scrapes of one kind can be put end to end
        if self._waiting is None or self._waiting.kind != kind or self._waiting.rows >= _AT_ONCE:
            self._add_up()
            self._waiting = WaitingScrapes(kind)
        amounts = [(self.containers[f"own_{name}"][rows], self.containers[name][rows]) for name in RESOURCES]
        self._waiting.take(rows, amounts, used, peaks)
        if self.sums is not None:
            for name, both, use in zip(RESOURCES, amounts, used, strict=True):
                self.sums.weigh(name, rows, both, use, seconds)
            highest = [use if peak is None else np.fmax(use, peak) for use, peak in zip(used, peaks, strict=True)]
            self.sums.foresee(times.to_seconds(event.at), rows, highest, used, seconds)
        self.rows += len(rows)
        self._windows[seconds] += len(rows)
        self.first = event.at if self.first is None else min(self.first, event.at)
        self.last = event.at if self.last is None else max(self.last, event.at)

    def _add_up(self) -> None:
        """Add what waits to both sides where both have a request, to one alone where the recording has none."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return
        seconds, rows = waiting.kind[0], waiting.containers()
        in_force, compared = np.zeros(waiting.rows, bool), np.zeros(waiting.rows, bool)
        for name in RESOURCES:
            own, ours, use, peak = waiting.columns(name)
            has_own, has_ours, used = ~np.isnan(own), ~np.isnan(ours), ~np.isnan(use)
            both = has_own & has_ours
            for side, request, these in (
                (self._own, own, both & used),
                (self._recommended, ours, both & used),
                (self._alone, ours, has_ours & ~has_own & used),
            ):
                sums: ResourceSums = getattr(side, name)
                # the usual case needs no copy of the columns
                if these.all():
                    sums.add(rows, request, use, seconds, peak)
                elif these.any():
                    sums.add(rows[these], request[these], use[these], seconds, None if peak is None else peak[these])
            in_force, compared = in_force | has_ours, compared | both
            self._peaks[name] += 0 if peak is None else int((~np.isnan(peak)).sum())
        micros = microseconds(seconds)
        self._covered += micros * int(in_force.sum())
        self._compared += micros * int(compared.sum())
        self._unrequested += micros * int((in_force & ~compared).sum())

    def _count_own(self, rows: Rows, highest: Floats) -> None:
        """Count windows over the recording's own limits, which matter if the recording has no kills."""
        limit, request = self.containers["own_limit"][rows], self.containers["own_memory"][rows]
        # without a limit a container is taken to end at its request
        over = highest > np.where(np.isnan(limit), request, limit)
        fresh = over & (self.containers["own_over"][rows] == 0.0)
        self.containers["own_over"][rows] = over
        if np.count_nonzero(fresh):
            before = fresh & np.isnan(self.containers["memory"][rows])
            self.kills.own_crossings += int(fresh.sum())
            self.kills.crossings_before += int(before.sum())
            self._note("own_crossings", rows[fresh])
            self._note("crossings_before", rows[before])

    def _note(self, kind: str, rows: Rows) -> None:
        """Count kills by container, if workloads are compared."""
        if self.sums is not None and len(rows):
            self.sums.kill(kind, rows)

    def _wall(self, rows: Rows) -> Floats:
        """(rows,) The limit of memory that follows from the recommendation in force; NaN where there is none."""
        ours, limit, request = (self.containers[name][rows] for name in ("memory", "own_limit", "own_memory"))
        # upstream's proportional limit: the recording's ratio of limit to request stays
        scaled: Flags = ~np.isnan(limit) & (request > 0)
        return np.where(scaled, ours * np.divide(limit, request, out=np.ones(len(rows)), where=scaled), ours)

    def part(self) -> PartialScore:
        """The score so far, in a form that can be put together with those of other containers."""
        self._add_up()
        count = len(self.containers)
        return PartialScore(
            **self.counts,
            turns=self.turns,
            first=self.first,
            last=self.last,
            covered=self._covered,
            compared=self._compared,
            unrequested=self._unrequested,
            windows=self._windows,
            peaks=self._peaks,
            kills=self.kills,
            own=self._own,
            recommended=self._recommended,
            alone=self._alone,
            workloads=[self.containers.key(row)[0] for row in range(count)],
            changed=self.containers["changes"][:count],
            sums=None if self.sums is None else self.sums.of_rows(count),
        )

    def totals(self, side: str) -> list[WorkloadTotal]:
        """Of each workload, on one side (ours, own or oracle); none where nothing was summed by container."""
        return self.part().totals(side)

    def card(self) -> ScoreCard:
        """The score so far."""
        return self.part().card()
