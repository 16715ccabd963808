"""Everything that follows from names and policies.

That is: which aggregates make up a container of a workload, when it is due, and by which numbers it is judged. A member is a
container name of a workload. It is not dumped but rebuilt from the names. Workloads are spread over the interval by a stable
hash, so that each turn handles its share of them.
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agents.engine.tables.row_table import Floats, Indices, RowKey, RowTable
from agents.logic.governing_policies import Policies, PolicyRecord
from agents.logic.usage.container_usage import ContainerUsage
from agents.logic.usage.pod_index import SEED, UNKNOWN, matches
from agents.logic.vertical.container_order import MemberOrder
from agents.logic.vertical.estimate_rules import COLUMNS, LEAST, MOST, PLACE, FoldingRules, RuleLines, folding, row
from agents.logic.vertical.vertical_settings import VerticalSettings

_SILENT = PLACE["silent"]

_FOLDING = ("window", "expires", "cpu_half_life", "memory_half_life")

_NUMBERS = ("spread", "announced", "policy", "single", "siblings", "rule", "workload")
"""Of each member: a stable number of its workload; the row of what was announced last, -1 for nothing; a number that stands for
the policy in force, 0 for none; the row of its only aggregate, -1 for another number of them; how many members share its pod;
where the numbers stand by which it is judged; a number that no other workload ever had here."""


@dataclass(frozen=True, slots=True, eq=False)
class MemberSelection:
    """Members that are judged together, in order of workload and container, with everything that follows from names and policies.

    The arrays have an element for each member of which something may be recommended. `workload` numbers the workloads that were
    asked for, from 0 to `count`; `first` is some member of each. The rest is as ContainerIndex has it.
    """

    names: Sequence[RowKey]
    first: Indices
    members: Indices
    workload: Indices
    single: Indices
    siblings: Floats
    rules: Floats
    controlled: NDArray[np.bool_]
    """(members, 2) Whether CPU and memory are recommended."""
    bounds: tuple[Floats, Floats] | None
    """Least and most, (members, 6) each: millicores, then bytes; None where nothing is bounded."""
    whole_cores: NDArray[np.bool_] | None
    """(members,) Which of them get CPU in whole cores; None if none do."""
    all_single: bool
    """Whether each member has one aggregate."""

    @property
    def count(self) -> int:
        """How many workloads were asked for."""
        return len(self.first)

    def workload_names(self, numbers: Indices) -> list[str]:
        """The keys of these workloads."""
        return [self.names[member][0] for member in self.first[numbers].tolist()]


@dataclass(frozen=True, slots=True)
class _Judged:
    """How containers of one name are judged under one policy: numbers in the order of `_NUMBERS`, and folding rules."""

    record: PolicyRecord | None
    rule: int
    policy: int
    folding: FoldingRules


class ContainerIndex:
    """Aggregates (workload, container, labels) by workload and container, with what is known of each member."""

    def __init__(self, usage: ContainerUsage, announced: RowTable, policies: Policies, settings: VerticalSettings) -> None:
        self._usage, self._announced, self._policies, self._settings = usage, announced, policies, settings
        self._of: dict[str, tuple[int, ...]] = {}
        """Members by workload, in order of container."""
        self.names: list[RowKey] = []
        """Workload and container of each member; those of one that is gone stay until another takes its place."""
        self._several: dict[int, Sequence[int]] = {}
        """Rows of the aggregates of members that have several."""
        self.member: Indices = np.zeros(0, np.int64)
        """The member that an aggregate's row belongs to; -1 for none."""
        self.numbers: dict[str, Indices] = {name: np.zeros(0, np.int64) for name in _NUMBERS}
        self._lines = RuleLines(len(COLUMNS))
        self._keys: dict[str, tuple[RowKey, ...]] = {}
        """Aggregates by workload."""
        self._free: list[int] = []
        self.version = 0
        """Rises whenever aggregates are put together again, for those who keep what follows from it."""
        self._order: MemberOrder | None = None
        self._selected: tuple[int, Indices, MemberSelection] | None = None
        """The version and the workloads of the last selection, and what it gave."""
        self._workloads = 0
        """Workloads that ever had a number."""
        self.renamed: list[int] = []
        """Members that stand for another container since somebody emptied this list."""

    def add(self, keys: Iterable[RowKey]) -> None:
        """These aggregates are new."""
        new: dict[str, list[RowKey]] = {}
        for key in keys:
            if key in self._usage.aggregates:
                new.setdefault(key[0], []).append(key)
        for workload, mine in new.items():
            self._keys[workload] = tuple(dict.fromkeys((*self._keys.get(workload, ()), *mine)))
        self.govern(new)

    def remove(self, keys: Iterable[RowKey]) -> list[RowKey]:
        """These aggregates are gone; the members (workload, container) that have none left."""
        old: dict[str, set[RowKey]] = {}
        for key in keys:
            old.setdefault(key[0], set()).add(key)
        for workload, mine in old.items():
            self._keys[workload] = tuple(key for key in self._keys[workload] if key not in mine)
        gone: list[RowKey] = [(workload, name) for workload in old for name in self._forget(workload)]
        self.govern(workload for workload in old if workload in self._keys)
        return gone

    def policies_changed(self, targets: Iterable[str]) -> Sequence[str]:
        """Look up the policies of these workloads again; `*` stands for all. Returns those that exist."""
        targets = set(targets)
        workloads = list(self._keys) if "*" in targets else sorted(targets & self._keys.keys())
        self.govern(workloads)
        return workloads

    def __contains__(self, workload: str) -> bool:
        return workload in self._of

    def containers(self, workload: str) -> list[tuple[str, int]]:
        """Container names of a workload, sorted, and their members."""
        return [(self.names[member][1], member) for member in self._of.get(workload, ())]

    def rule(self, member: int, name: str) -> float:
        """One of the numbers named by COLUMNS that a member is judged by."""
        return self._lines.item(int(self.numbers["rule"][member]), PLACE[name])

    def find(self, workload: str, container: str) -> int:
        """The member of a container name of a workload; -1 for none."""
        return next((member for name, member in self.containers(workload) if name == container), -1)

    def rules(self, column: str, members: Indices) -> Floats:
        """One number of the rules of each of these members; `column` is one of `estimate_rules.COLUMNS`."""
        return self._lines.column(self.numbers["rule"][members], PLACE[column])

    def some(self, column: str) -> bool:
        """Whether this number of the rules is above 0 for any member."""
        return bool((self._lines[np.arange(len(self._lines))][:, PLACE[column]] > 0.0).any())

    def label_sets(self, workload: str) -> int:
        """How many aggregates a workload has, including those outside its policy."""
        return len(self._keys.get(workload, ()))

    def rows(self, member: int) -> Sequence[int]:
        """Rows of the aggregates of a member, in the order in which they are added up."""
        single = int(self.numbers["single"][member])
        return (single,) if single >= 0 else self._several.get(member, ())

    def workloads(self, members: Indices) -> set[str]:
        """The workloads of these members."""
        return {self.names[member][0] for member in members.tolist()}

    def select(self, due: Indices, more: Iterable[str] = ()) -> MemberSelection:
        """All members of the workloads of the members `due`, and of the workloads `more` that are known here."""
        others = [self._of[workload][0] for workload in more if workload in self._of]
        if others:
            due = np.concatenate([due, np.array(others, np.int64)])
        # Made once for all turns until a container comes or goes.
        order = self._ordered()
        ranks, last = order.workloads(due), self._selected
        # Mostly the same members are due turn after turn.
        if last is None or last[0] != self.version or not np.array_equal(last[1], ranks):
            self._selected = last = self.version, ranks, self._select(order, ranks)
        return last[2]

    def workload_numbers(self, selection: MemberSelection, members: Indices) -> Indices:
        """The numbers, in a selection, of the workloads of these members, all of which were selected."""
        rank = self._ordered().rank
        return np.searchsorted(rank[selection.first], rank[members])

    def _ordered(self) -> MemberOrder:
        self._order = self._order or MemberOrder.of(self.names, self._of.values(), self.numbers["workload"])
        return self._order

    def alone(self, members: Indices) -> MemberSelection:
        """These members in this order, each as if it were a workload; all of them have usage."""
        return self._selection(members, members, np.arange(len(members)))

    def _select(self, order: MemberOrder, ranks: Indices) -> MemberSelection:
        first, members, workload = order.whole_workloads(ranks)
        speaks = self._speak(members)
        if not speaks.all():
            members, workload = members[speaks], workload[speaks]
        return self._selection(first, members, workload)

    def _selection(self, first: Indices, members: Indices, workload: Indices) -> MemberSelection:
        rules, single = self._lines.of(self.numbers["rule"][members]), self.numbers["single"][members]
        least, most, whole = rules[:, LEAST], rules[:, MOST], rules[:, PLACE["integer_cpu"]] > 0.0
        return MemberSelection(
            names=self.names,
            first=first,
            members=members,
            workload=workload,
            single=single,
            siblings=self.numbers["siblings"][members].astype(np.float64),
            rules=rules,
            controlled=rules[:, PLACE["cpu"] : PLACE["memory"] + 1] > 0.0,
            bounds=None if np.isnan(least).all() and np.isnan(most).all() else (least, most),
            whole_cores=whole if whole.any() else None,
            all_single=bool((single >= 0).all()),
        )

    def speaking(self, workloads: Iterable[str]) -> Indices:
        """The members of these workloads that may get a recommendation, in order of workload and container."""
        members = np.array([member for workload in workloads for member in self._of.get(workload, ())], np.int64)
        return np.asarray(members[self._speak(members)])

    def govern(self, workloads: Iterable[str]) -> None:
        """Combine the aggregates of these workloads by the policies in force."""
        self.version += 1
        self._fit()
        ruled: list[tuple[int, FoldingRules]] = []
        judged: dict[tuple[int, str], _Judged] = {}
        for workload in workloads:
            record = self._policies.of(workload)
            keys = sorted(self._keys[workload], key=_order)
            members = self._enter(workload, [container for _, container, _ in keys])
            parts = self._parts_of(keys, members, record)
            for container, rows in parts.items():
                # By identity, because comparing policies costs more. A judgement holds its policy, so that no other object gets
                # its id.
                judgement = judged.get((id(record), container))
                if judgement is None:
                    judgement = judged[id(record), container] = self._judged(record, container)
                self._rule(members[container], judgement, rows)
                ruled += [(aggregate, judgement.folding) for aggregate in rows]
            self._share(workload)
        self._fold_by(ruled)
        # Each change of a policy adds lines, and nobody knows when the last container leaves one.
        if self._lines.crowded(len(self.names)):
            self.numbers["rule"] = self._lines.tidy(self.numbers["rule"])

    def _parts_of(self, keys: Sequence[RowKey], members: Mapping[str, int], record: PolicyRecord | None) -> dict[str, list[int]]:
        """For each container of a workload the rows of its aggregates, in the order of their keys."""
        parts: dict[str, list[int]] = {}
        for key in keys:
            _, container, labels = key
            aggregate, belongs = self._usage.aggregates.row(key), _belongs(labels, record)
            self.member[aggregate] = members[container] if belongs else -1
            rows = parts.setdefault(container, [])
            if belongs:
                rows.append(aggregate)
        return parts

    def _judged(self, record: PolicyRecord | None, container: str) -> "_Judged":
        numbers = row(record, container, self._settings)
        # A number fits into a column of a table, and tells whether the policy is still that of the last announcement.
        identity = f"{record.policy.target}\n{record.policy.version}\n{numbers}" if record else ""
        folding_rules = folding(record, container, self._settings)
        return _Judged(record, self._lines.place(numbers), zlib.crc32(identity.encode()), folding_rules)

    def _rule(self, member: int, by: "_Judged", rows: list[int]) -> None:
        self.numbers["rule"][member] = by.rule
        self.numbers["policy"][member] = by.policy
        self.numbers["single"][member] = rows[0] if len(rows) == 1 else -1
        self._several.pop(member, None)
        if len(rows) > 1:
            self._several[member] = tuple(rows)

    def _share(self, workload: str) -> None:
        """Count the members that share the pod's minimum: all that may get a recommendation; where none may, each for itself."""
        members = self._of[workload]
        if len(members) == 1:
            self.numbers["siblings"][members[0]] = 1
            return
        single, rule = self.numbers["single"], self.numbers["rule"]
        used = (m for m in members if single[m] >= 0 or m in self._several)
        speaking = sum(1 for m in used if self._lines.item(int(rule[m]), _SILENT) == 0.0)
        for member in members:
            self.numbers["siblings"][member] = max(speaking, 1)

    def _speak(self, members: Indices) -> NDArray[np.bool_]:
        """Which members may get a recommendation: they have usage and are not silent."""
        has = self.numbers["single"][members] >= 0
        if not has.all():
            several = np.flatnonzero(~has)
            has[several] = [member in self._several for member in members[several].tolist()]
        return np.asarray(has & (self._lines.column(self.numbers["rule"][members], _SILENT) == 0.0))

    def _fold_by(self, ruled: list[tuple[int, FoldingRules]]) -> None:
        if not ruled:
            return
        rows = np.array([aggregate for aggregate, _ in ruled], np.int64)
        wanted = np.array([(f.window, f.expires, f.cpu_half_life, f.memory_half_life) for _, f in ruled])
        usage, columns = self._usage, self._usage.aggregates
        now = [columns.floats(name)[rows] for name in _FOLDING]
        # Changing a half life scales a whole row, so only rows whose rules differ are touched.
        other = (np.column_stack(now) != wanted).any(axis=1)
        rows, wanted = rows[other], wanted[other]
        columns.floats("window")[rows], columns.floats("expires")[rows] = wanted[:, 0], wanted[:, 1]
        usage.cpu.live_for(rows, wanted[:, 2], usage.now)
        usage.memory.live_for(rows, wanted[:, 3], usage.now)
        columns.touch(rows)

    def _enter(self, workload: str, containers: Iterable[str]) -> dict[str, int]:
        """Create missing members for containers of a workload; returns all of its members by container, in order."""
        members = dict(self.containers(workload))
        new = {container: self._new(workload, container) for container in dict.fromkeys(containers) if container not in members}
        if not new:
            return members
        self._order = None
        self._workloads += not members
        number = self.numbers["workload"][next(iter(members.values()))] if members else self._workloads
        for member in new.values():
            self.numbers["workload"][member] = number
        members = dict(sorted((members | new).items()))
        self._of[workload] = tuple(members.values())
        return members

    def _new(self, workload: str, container: str) -> int:
        """A number for a member of which only the announced amounts are known yet."""
        key = (workload, container)
        if self._free:
            member = self._free.pop()
            self.names[member] = key
        else:
            member = len(self.names)
            self.names.append(key)
            if member == len(self.numbers["rule"]):
                self._fit()
        self.renamed.append(member)
        self.numbers["single"][member] = -1
        announced = self._announced.find(key)
        self.numbers["announced"][member] = -1 if announced is None else announced
        # Python's own hash of a text differs from process to process.
        self.numbers["spread"][member] = zlib.crc32(workload.encode())
        return member

    def _forget(self, workload: str) -> list[str]:
        """Drop members without aggregates; returns their containers."""
        remaining = {container for _, container, _ in self._keys[workload]}
        gone = {container: member for container, member in self.containers(workload) if container not in remaining}
        for member in gone.values():
            self.numbers["single"][member] = -1
            self._several.pop(member, None)
        # Numbers are used again, so that the arrays do not grow with every name that ever was.
        self._free += gone.values()
        self._order = None
        self._of[workload] = tuple(member for container, member in self.containers(workload) if container in remaining)
        if not remaining:
            del self._keys[workload], self._of[workload]
        return list(gone)

    def _fit(self) -> None:
        missing = len(self._usage.aggregates["changed"]) - len(self.member)
        if missing > 0:
            self.member = np.append(self.member, np.full(missing, -1, np.int64))
        size = len(self.numbers["rule"])
        if len(self.names) > size:
            # By an eighth at a time: growing one by one would copy everything for each new container.
            more = max(256, size // 8)
            self.numbers = {name: np.append(array, np.zeros(more, np.int64)) for name, array in self.numbers.items()}


def _order(key: RowKey) -> tuple[str, bool, str]:
    _, container, labels = key
    return (container, labels.startswith(SEED), labels)


def _belongs(labels: str, record: PolicyRecord | None) -> bool:
    """Whether usage under these labels counts for the policy's pods; without a VPA, all of a workload's own does."""
    vpa = record.policy.vpa if record else None
    if labels.startswith(SEED):
        return vpa is not None and labels == f"{SEED}{vpa.name}"
    # Usage of a pod that no source has reported cannot be told apart by a selector.
    if vpa is None or labels == UNKNOWN:
        return True
    return vpa.selector is None or matches(vpa.selector, labels)
