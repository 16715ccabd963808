"""Shows each scrape and OOM kill to the policies written as code that remember something.

All pods of a container are one: a policy is shown a quantile of their CPU and the highest of their memory, once for each time of
which there are samples. What a policy remembers is in tables that checkpoints hold. A table belongs to the policy's name, version
and columns, so a policy whose source changed goes on with what it knew, unless its author gave it another version.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from agents.engine.tables.row_table import ColumnSpec, Floats, Indices, RowKey, RowTable
from agents.logic.usage.container_usage import ContainerUsage
from agents.logic.vertical.container_index import ContainerIndex
from agents.logic.vertical.policy_code import CodePolicy, EvidenceColumns, PolicyState, SampleColumns, shown_to
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from schemas.times import NEVER

NAME = "policy-states"
LAST = ".last"
"""The column of the time of the last sample of usage; a policy's own columns have no dot."""

_NOTHING = RowTable("nothing", {})
"""For policies that remember nothing."""


def nothing_remembered(count: int) -> PolicyState:
    """The memory of this many containers of a policy that has none."""
    return PolicyState(_NOTHING, np.arange(count))


class PolicyStates:
    """The tables of these policies, and the chunks of others. A part of a stage's state."""

    name = NAME

    def __init__(self, policies: Iterable[CodePolicy]) -> None:
        """Empty tables for those that declare a state."""
        self._tables = {policy.memory: _table(policy) for policy in policies if policy.state}
        self._others: dict[str, bytes] = {}
        self._dirty: set[str] = set()

    def table(self, policy: CodePolicy) -> RowTable | None:
        """The table of a policy; None if it remembers nothing."""
        return self._tables.get(policy.memory) if policy.state else None

    def forget(self, keys: Iterable[RowKey]) -> None:
        """These containers (workload, name) are gone."""
        for table in self._tables.values():
            for key in keys:
                if key in table:
                    table.free(key)
            table.freed.clear()

    def forget_others(self) -> None:
        """The policies that decide are known: drop what others remembered."""
        for chunk, data in self._others.items():
            if data:
                # An empty chunk overwrites the one in the checkpoint, which cannot be deleted.
                self._others[chunk] = b""
                self._dirty.add(chunk)

    def chunks(self) -> Iterable[str]:
        """Names of all chunks, of tables first."""
        return [*(chunk for table in self._tables.values() for chunk in table.chunks()), *self._others]

    def take_dirty(self) -> set[str]:
        """Names of the chunks changed since the last call."""
        dirty, self._dirty = self._dirty, set()
        return dirty.union(*(table.take_dirty() for table in self._tables.values()))

    def touch_all(self) -> None:
        """Every chunk counts as changed."""
        self._dirty.update(self._others)
        for table in self._tables.values():
            table.touch_all()

    def dump(self, chunk: str) -> bytes:
        """The bytes of one chunk; none of a policy that decides no more."""
        table = self._tables.get(_owner(chunk))
        return self._others[chunk] if table is None else table.dump(chunk)

    def load(self, chunk: str, data: bytes) -> None:
        """Put a dumped chunk in its place."""
        table = self._tables.get(_owner(chunk))
        if table is None:
            # Until the rules of the log are known, after a start, what another policy remembered is kept as it is.
            self._others[chunk] = data
        elif data:
            table.load(chunk, data)


def rows_of(table: RowTable, keys: Sequence[RowKey]) -> Indices:
    """The rows of these keys, made in order of name where they are new."""
    # In order of name, so that rows follow from names and time alone and a replay has the same chunks.
    for key in sorted(key for key in keys if key not in table):
        table.add(key)
    return np.array([table.row(key) for key in keys], np.int64)


def _table(policy: CodePolicy) -> RowTable:
    columns = {column.name: column.spec for column in policy.state}
    return RowTable(f"{NAME}/{policy.memory}", {LAST: ColumnSpec(default=NEVER), **columns})


def _owner(chunk: str) -> str:
    return chunk.split("/", 2)[1]


QUANTILE = 0.9
"""Of the pods' CPU: a request for all of them need not cover the busiest."""
_BLOCK = 4096
"""Containers that are shown together at most, so that their columns fit into a core's cache."""
_SPREAD = float(1 << 32)
_NO_ROWS = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class _Moment:
    """Samples of one time, as rows of `ContainerUsage.containers`; `ends` (rows,) is when each window ended."""

    rows: Indices
    ends: Floats
    cores: Floats
    memory: Floats
    window: float


@dataclass(frozen=True, slots=True)
class _Batch:
    """Some members, each once, and what is shown of them: `at`, `cpu`, `memory` and `pods`, and of OOM kills `killed_at`."""

    members: Indices
    columns: Mapping[str, Floats]
    window: float

    @property
    def kills(self) -> bool:
        """Whether these are OOM kills and not samples of usage."""
        return "killed_at" in self.columns

    def part(self, places: Indices | NDArray[np.bool_] | slice) -> "_Batch":
        """The members at these places, or where this is true."""
        return _Batch(self.members[places], {name: column[places] for name, column in self.columns.items()}, self.window)


@dataclass(slots=True)
class PolicyFeed:
    """What the policies of one partition are shown. `evidence_of` makes what is known of some members."""

    usage: ContainerUsage
    members: ContainerIndex
    states: PolicyStates
    everywhere: Sequence[CodePolicy]
    """The policies that see every container; one that is asked for by name (`chosen`) sees those that ask."""
    chosen: CodePolicy | None
    evidence_of: Callable[[Indices], EvidenceColumns]
    asked: bool = False
    """Whether `chosen` is asked for by the settings, so that containers that nobody has seen yet will ask for it too."""
    _moments: list[_Moment] = field(default_factory=list)
    _kills: list[tuple[RowKey, float, float]] = field(default_factory=list)
    fault: str = ""
    """Why a policy could not take in what it was shown last; the built-in estimator then decides in this turn."""
    _rows: dict[str, Indices] = field(default_factory=dict)
    """By table, the row of each member; -1 where it is not known."""

    @property
    def idle(self) -> bool:
        """Whether nobody is shown anything."""
        return not self.everywhere and (self.chosen is None or not (self.asked or self.members.some("adaptive")))

    def killed(self, event: ContainerOOMKilled) -> None:
        """An OOM kill that counts."""
        limit = event.memory_limit or event.memory_used or event.memory_request or 0
        self._kills.append(((event.workload.key, event.container), event.at.timestamp(), float(limit)))

    def scraped(self, event: MetricsScraped) -> None:
        """A scrape, which was folded already."""
        at = event.at.timestamp()
        cores, memory = self.usage.amounts(event)
        ends = at - np.asarray(event.ages, np.float64) if len(event.ages) else np.full(len(cores), at)
        for layer in self.usage.lookup.find(event.workloads, event.pods, event.containers):
            order = slice(None) if layer.order is None else layer.order
            self._moments.append(_Moment(layer.containers, ends[order], cores[order], memory[order], float(event.window)))

    def show(self) -> None:
        """Show what was taken in since the last call. The index of containers knows their aggregates now."""
        kills, moments = self._kills, self._moments
        self._kills, self._moments, self.fault = [], [], ""
        # What came while nobody is shown anything is dropped, and not kept for one who may ask later.
        if not (kills or moments) or self.idle:
            return
        if kills:
            # First, because a kill explains the usage that follows it.
            self._show_kills(kills)
        begin = 0
        for end in range(1, len(moments) + 1):
            if end == len(moments) or not _same_time(moments[begin], moments[end]):
                self._show_usage(moments[begin:end])
                begin = end

    def forget(self, keys: Iterable[RowKey]) -> None:
        """These containers (workload, name) are gone."""
        self.states.forget(keys)

    def _show_kills(self, kills: Sequence[tuple[RowKey, float, float]]) -> None:
        members = {key: member for key in dict.fromkeys(key for key, _, _ in kills) if (member := self.members.find(*key)) >= 0}
        if not members:
            return
        kills_of = [[(at, limit) for key, at, limit in kills if key == name] for name in members]
        nan = np.full(len(members), np.nan)
        columns = {
            "at": np.array([max(at for at, _ in times_and_limits) for times_and_limits in kills_of]),
            "cpu": nan,
            "memory": nan,
            "pods": np.array([float(len(times_and_limits)) for times_and_limits in kills_of]),
            "killed_at": np.array([max(limit for _, limit in times_and_limits) for times_and_limits in kills_of]),
        }
        self._show(_Batch(np.array(list(members.values()), np.int64), columns, 0.0))

    def _show_usage(self, moments: Sequence[_Moment]) -> None:
        parts = [(moment.rows, moment.ends, moment.cores, moment.memory) for moment in moments]
        rows, ends, cores, memory = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
        aggregates = self.usage.containers.whole("aggregate")[rows]
        members = np.where(aggregates >= 0, self.members.member[aggregates], -1)
        counts = members >= 0
        if not counts.all():
            members, ends, cores, memory = members[counts], ends[counts], cores[counts], memory[counts]
        if not len(members):
            return
        pods = np.ones(len(members))
        if not (members[1:] > members[:-1]).all():
            order = np.argsort(members, kind="stable")  # mostly of parts in order, of which a stable sort makes one soon
            if (members[order[1:]] == members[order[:-1]]).any():
                # By member, and its pods by CPU; pods of which none was seen last.
                order = np.lexsort((cores, members))
            members, ends, cores, memory = members[order], ends[order], cores[order], memory[order]
            first = np.flatnonzero(np.r_[True, members[1:] != members[:-1]])
            pods = np.diff(first, append=len(members)).astype(np.float64)
            # Sorting puts NaN last, so the quantile is among the first `seen` of each member.
            seen = np.add.reduceat((~np.isnan(cores)).astype(np.int64), first)
            cores = cores[first + np.maximum(np.ceil(QUANTILE * seen).astype(np.int64) - 1, 0)]
            memory, ends = np.fmax.reduceat(memory, first), np.maximum.reduceat(ends, first)
            members = members[first]
        columns = {"at": ends, "cpu": cores, "memory": memory, "pods": pods}
        self._show(_Batch(members, columns, moments[0].window))

    def _show(self, batch: _Batch) -> None:
        for policy in self.everywhere:
            self._show_to(policy, batch)
        if self.chosen is not None:
            self._show_to(self.chosen, batch.part(self._asking(batch.members)))

    def _show_to(self, policy: CodePolicy, batch: _Batch) -> None:
        table = self.states.table(policy)
        if policy.observe is None or table is None or not len(batch.members):
            return
        rows = self._rows_of(table, batch.members)
        if not batch.kills:
            # A sample that is not newer than the last one was counted already, or comes too late to be put in its place.
            cpu, memory, at = (batch.columns[name] for name in ("cpu", "memory", "at"))
            good = ((cpu >= 0.0) | (memory > 0.0)) & (at > table.floats(LAST)[rows])
            if not good.all():
                rows, batch = rows[good], batch.part(good)
        if (rows[1:] < rows[:-1]).any():
            order = np.argsort(rows, kind="stable")
            rows, batch = rows[order], batch.part(order)
        for begin in range(0, len(rows), _BLOCK):
            block = slice(begin, begin + _BLOCK)
            self._show_block(policy, table, rows[block], batch if len(rows) <= _BLOCK else batch.part(block))

    def _show_block(self, policy: CodePolicy, table: RowTable, rows: Indices, batch: _Batch) -> None:
        if batch.kills:
            others = {"seconds": np.zeros(len(rows))}
        else:
            # No more than the window: what was used before that, in a gap of the scrapes, nobody knows.
            last, at = table.floats(LAST), batch.columns["at"]
            others = {"seconds": np.minimum(at - last[rows], batch.window), "killed_at": np.full(len(rows), np.nan)}
            last[rows] = at
        samples = SampleColumns(
            spread=self.members.numbers["spread"][batch.members] / _SPREAD,
            risk_cpu=self.members.rules("risk_cpu", batch.members),
            risk_oom=self.members.rules("risk_oom", batch.members),
            evidence_of=partial(self._evidence, batch.members),
            **others,
            **batch.columns,
        )
        self.fault = self.fault or shown_to(policy, samples, PolicyState(table, rows))
        table.touch(rows)

    def _asking(self, members: Indices) -> Indices:
        return np.flatnonzero(self.members.rules("adaptive", members) > 0.0)

    def _evidence(self, members: Indices, places: Indices) -> EvidenceColumns:
        return self.evidence_of(members[places])

    def remembered(self, policy: CodePolicy, members: Indices) -> tuple[PolicyState, Indices]:
        """What a policy remembers, and the places in `members` that it is of: those of which it was shown something.

        A policy without memory decides about all of them. Nothing is changed by asking.
        """
        table = self.states.table(policy)
        if table is None:
            return nothing_remembered(len(members)), np.arange(len(members))
        rows = self._known_rows(table, members)
        places = np.flatnonzero(rows >= 0)
        return PolicyState(table, rows[places]), places

    def _rows_of(self, table: RowTable, members: Indices) -> Indices:
        """The rows of these members, made where they are new."""
        rows = self._known_rows(table, members)
        if (rows < 0).any():
            missing, names = np.flatnonzero(rows < 0), self.members.names
            rows[missing] = rows_of(table, [names[member] for member in members[missing].tolist()])
            self._rows[table.name][members[missing]] = rows[missing]
        return rows

    def _known_rows(self, table: RowTable, members: Indices) -> Indices:
        """The rows of these members; -1 where there is none."""
        if self.members.renamed:
            for rows_by_member in self._rows.values():
                rows_by_member[[member for member in self.members.renamed if member < len(rows_by_member)]] = -1
            self.members.renamed.clear()
        rows_by_member = self._rows.get(table.name, _NO_ROWS)
        if len(rows_by_member) < len(self.members.names):
            more = np.full(len(self.members.names) + 256 - len(rows_by_member), -1, np.int64)
            rows_by_member = self._rows[table.name] = np.append(rows_by_member, more)
        rows = rows_by_member[members]
        missing = rows < 0
        for place in np.flatnonzero(missing).tolist() if len(table) and missing.any() else ():
            row = table.find(self.members.names[members[place]])
            if row is not None:
                rows[place] = rows_by_member[members[place]] = row
        return rows


def _same_time(earlier: _Moment, later: _Moment) -> bool:
    return bool(earlier.ends.max(initial=0.0) == later.ends.max(initial=0.0)) and earlier.window == later.window
