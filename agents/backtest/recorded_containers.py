"""The containers of a recording as rows of arrays: what each one requests, what is recommended for it, and when its pod began.

A row stands for one container name in one pod name of a workload, even if the pod is recreated. Numbers are cores, bytes and
seconds since 1970; NaN is "not set".

A pod is changed when a request is outside its bounds, when it was killed recently and soon after its start, or when it is old
enough and far enough from its target: the rules of the updater (agents.logic.updates, upstream's pkg/updater/priority). A changed
pod starts again, as under the update mode Recreate; or it goes on with other requests, as under InPlace, and then nothing of it
is lowered again while it cools down. Every workload counts as one with a policy that changes pods. How many may be away at the
same time, and all other guards, are left to the updater, whose plans the card counts separately.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agents.logic.updates.update_settings import UpdateSettings
from agents.logic.vertical.container_index import MemberSelection
from agents.logic.vertical.recommended_amounts import AMOUNTS
from schemas import times
from schemas.facts.pods import PodChanged, PodDeleted
from schemas.facts.usage import MetricsScraped
from schemas.names import PodName, Workload

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]

Key = tuple[str, str, str]
"""Workload key, pod name, container name."""
AdvisedAmounts = Sequence[float]
"""Lower bound, target and upper bound of CPU, then of memory, as AMOUNTS names them; NaN where nothing is recommended."""

_OWN = ("own_cpu", "own_memory", "own_limit")
_TARGET_CPU, _TARGET_MEMORY = AMOUNTS.index("target_cpu"), AMOUNTS.index("target_memory")
_COUNTED = ("own_over", "over", "restarts", "alive", "changes")
"""Columns that begin at 0; the others are not set at first."""
_NUMBERS = (*_OWN, "cpu", "memory", "reached", *_COUNTED)
_REMEMBERED = 256
_FIRST_ROWS = 256


@dataclass(slots=True)
class RecordedContainers:
    """All containers seen so far.

    `columns` (rows,): `own_cpu`, `own_memory` and `own_limit` as recorded; `cpu` and `memory` that the recommendation has put in
    force; `reached`, the memory at which a recorded kill came that would not have come; flags (0 or 1) `own_over`, `over` and
    `alive`; `restarts`; `changes`, how often a recommendation changed it while it ran. `pod` (rows,) numbers pods; `started` and
    `killed` (pods,) are when a pod began and when a container of it was last killed.
    """

    columns: dict[str, Floats] = field(default_factory=lambda: {name: np.full(_FIRST_ROWS, np.nan) for name in _NUMBERS})
    pod: Rows = field(default_factory=lambda: np.zeros(_FIRST_ROWS, np.int64))
    started: Floats = field(default_factory=lambda: np.full(_FIRST_ROWS, np.nan))
    killed: Floats = field(default_factory=lambda: np.full(_FIRST_ROWS, np.nan))
    _keys: list[Key] = field(default_factory=list)
    _index: dict[Key, int] = field(default_factory=dict)
    _pods: dict[tuple[str, str], int] = field(default_factory=dict)
    _rows_of: list[list[int]] = field(default_factory=list)
    """Rows of each pod."""
    _names: list[PodName] = field(default_factory=list)
    _subjects: dict[tuple[str, ...], int] = field(default_factory=dict)
    """Numbers of pairs of workload and container name, which share a recommendation."""
    _of_workload: dict[str, list[int]] = field(default_factory=dict)
    """The numbers of each workload's containers."""
    _subject: Rows = field(default_factory=lambda: np.zeros(_FIRST_ROWS, np.int64))
    """(rows,)"""
    _advice: Floats = field(default_factory=lambda: np.full((_FIRST_ROWS, len(AMOUNTS)), np.nan))
    """(subjects, 6) What is recommended now."""
    _selected: tuple[MemberSelection, Rows] | None = None
    """The members that were advised last, and their subjects."""
    _living: Rows | None = None
    _scrapes: dict[int, tuple[MetricsScraped, Rows]] = field(default_factory=dict)

    def __len__(self) -> int:
        """How many containers there are."""
        return len(self._keys)

    @property
    def pods(self) -> int:
        """How many pods there are."""
        return len(self._names)

    @property
    def shares_pods(self) -> bool:
        """Whether some pod has more than one container."""
        return len(self._keys) > len(self._names)

    def __getitem__(self, column: str) -> Floats:
        """One column, with room for rows to come."""
        return self.columns[column]

    def key(self, row: int) -> Key:
        """Workload key, pod name and container name of a row."""
        return self._keys[row]

    def pod_name(self, row: int) -> PodName:
        """The pod of a row; its uid is empty until a source has shown the pod."""
        return self._names[int(self.pod[row])]

    def pod_changed(self, event: PodChanged) -> None:
        """Take in a pod's own requests and limits."""
        began = times.to_seconds(event.started or event.created)
        rows = [self.row((event.workload.key, event.pod.name, container.name), began) for container in event.containers]
        for container, row in zip(event.containers, rows, strict=True):
            amounts = (container.requests.cpu, container.requests.memory, container.limits.memory)
            for column, amount in zip(_OWN, amounts, strict=True):
                self.columns[column][row] = np.nan if amount is None else amount
            # kills may have counted further than the recording, and restarts never go down
            self.columns["restarts"][row] = max(container.restarts, self.columns["restarts"][row])
        if rows:
            self._renamed(int(self.pod[rows[0]]), event.pod, began)

    def _renamed(self, pod: int, name: PodName, began: float) -> None:
        before = self._names[pod]
        self._names[pod] = name
        # a StatefulSet's pod that is created again has the name of the one before, and is admitted with what is recommended
        if before.uid and before.uid != name.uid:
            self.admit(pod, began)
        else:
            self.started[pod] = max(began, self.started[pod]) if before.uid else began

    def pod_deleted(self, event: PodDeleted) -> None:
        """Take in a deleted pod: recommendations no longer change it."""
        pod = self._pods.get((event.workload.key, event.pod.name))
        for row in () if pod is None else self._rows_of[pod]:
            self.columns["alive"][row] = 0.0
            self._living = None

    def rows_of(self, pod: int) -> Rows:
        """The rows of a pod's containers."""
        return np.array(self._rows_of[pod], np.int64)

    def targets(self, rows: Rows) -> Floats:
        """(2, rows) The CPU and memory that are recommended now."""
        return self.advice(rows)[:, [_TARGET_CPU, _TARGET_MEMORY]].T

    def give(self, rows: Rows) -> None:
        """What is recommended now for these containers is in force from now on."""
        self.columns["cpu"][rows], self.columns["memory"][rows] = self.targets(rows)

    def admit(self, pod: int, at: float) -> None:
        """A pod starts again, with the present recommendation for its containers."""
        rows = self.rows_of(pod)
        self.give(rows)
        # a new start, of which the windows over the last limit say nothing
        self.columns["over"][rows] = 0.0
        self.columns["reached"][rows] = np.nan
        self.started[pod], self.killed[pod] = at, np.nan

    def restate(self, workloads: Sequence[str], counts: Iterable[int]) -> None:
        """This many containers of each workload are advised next; recommendations for its other containers are withdrawn."""
        for workload, count in zip(workloads, counts, strict=True):
            numbers = self._of_workload.get(workload, ())
            # some container lost its recommendation: all are cleared, for those that keep theirs are advised next
            if len(numbers) > count:
                self._advice[numbers] = np.nan

    def advise(self, containers: Sequence[tuple[str, ...]], advice: Sequence[AdvisedAmounts] | Floats) -> None:
        """From the next update on, for every container of these workloads and names that runs or is yet to come."""
        if len(containers):
            subjects = [self._number(container) for container in containers]
            self._advice[subjects] = advice

    def advise_members(self, of: MemberSelection, places: Rows, advice: Floats) -> None:
        """The same for the members at these places of a selection."""
        # mostly it is the same selection turn after turn
        if self._selected is None or self._selected[0] is not of:
            self._selected = of, np.array([self._number(of.names[member]) for member in of.members.tolist()], np.int64)
        self._advice[self._selected[1][places]] = advice

    def withdraw(self, workload: str) -> None:
        """Nothing is recommended for this workload any more; what is in force for its running containers stays."""
        self._advice[self._of_workload.get(workload, [])] = np.nan

    def advice(self, rows: Rows | Sequence[int]) -> Floats:
        """(rows, 6) What is recommended now for these rows."""
        advice: Floats = self._advice[self._subject[rows]]
        return advice

    def _number(self, subject: tuple[str, ...]) -> int:
        """The number of a workload and container name; a new one when new."""
        number = self._subjects.get(subject)
        if number is None:
            number = self._subjects[subject] = len(self._subjects)
            self._of_workload.setdefault(subject[0], []).append(number)
            if number == len(self._advice):
                self._advice = _doubled(self._advice)
        return number

    def living(self) -> Rows:
        """The rows of running containers."""
        if self._living is None:
            self._living = np.flatnonzero(self.columns["alive"][: len(self._keys)] == 1.0)
        return self._living

    def of_scrape(self, event: MetricsScraped) -> Rows:
        """The rows of a scrape."""
        # a trace gives equal columns of names as the same objects, so a scrape of names that were there costs one look-up
        scrape = self._scrapes.get(id(event.pods))
        if scrape is not None:
            earlier, rows = scrape
            if earlier.pods is event.pods and earlier.workloads is event.workloads and earlier.containers is event.containers:
                return rows
        began = times.to_seconds(event.at)
        keys: Sequence[Key] = list(zip(event.workloads, event.pods, event.containers, strict=True))
        rows = np.array([self.row(key, began) for key in keys], np.int64)
        if len(self._scrapes) >= _REMEMBERED:
            self._scrapes.clear()
        self._scrapes[id(event.pods)] = (event, rows)
        return rows

    def row(self, key: Key, began: float) -> int:
        """The row of a running container, made when new; `began` is when its pod did, as far as is known."""
        row = self._index.get(key)
        if row is None:
            row = self._index[key] = len(self._keys)
            self._keys.append(key)
            self._grow()
            self._place(row, key, began)
        if self.columns["alive"][row] != 1.0:
            self.columns["alive"][row] = 1.0
            self._living = None
        return row

    def _place(self, row: int, key: Key, began: float) -> None:
        """A new row in its pod, which gets what is recommended already."""
        workload, name, container = key
        pod = self._pods.get((workload, name))
        if pod is None:
            pod = self._pods[workload, name] = len(self._names)
            self._names.append(PodName(Workload.parse(workload).namespace, name, ""))
            self._rows_of.append([])
            self.started[pod] = began
        self._rows_of[pod].append(row)
        self.pod[row] = pod
        self._subject[row] = subject = self._number((workload, container))
        advice = self._advice[subject]
        self.columns["cpu"][row], self.columns["memory"][row] = advice[_TARGET_CPU], advice[_TARGET_MEMORY]
        for name in _COUNTED:
            self.columns[name][row] = 0.0

    def _grow(self) -> None:
        size = len(self.pod)
        if len(self._keys) > size:
            self.columns = {name: _doubled(column) for name, column in self.columns.items()}
            self.pod, self._subject = (np.concatenate([column, np.zeros_like(column)]) for column in (self.pod, self._subject))
            self.started, self.killed = _doubled(self.started), _doubled(self.killed)


def _doubled(column: Floats) -> Floats:
    return np.concatenate([column, np.full_like(column, np.nan)])


_RESOURCES = ("cpu", "memory")
_LEAST = 1e-3
"""A request of less counts as this much: upstream compares whole thousandths."""


class SimulatedUpdates:
    """Changes the pods of `containers` as an updater with these settings would."""

    def __init__(self, containers: RecordedContainers, settings: UpdateSettings, *, in_place: bool = False) -> None:
        self._containers, self._settings, self._in_place = containers, settings.in_force, in_place
        self._taken: int | None = None
        self._resized: dict[int, float] = {}
        """By pod, when it was changed in place last."""

    def step(self, number: int) -> int:
        """Look at all pods if the turn `number` begins an interval; how many running containers were changed."""
        interval = int(self._settings.interval * 1000)
        before, self._taken = self._taken, number
        if before is not None and number // interval == before // interval:
            return 0
        rows = self._containers.living()
        advice = self._containers.advice(rows)
        # most of the time everything has advice, and then nothing is copied
        absent = np.isnan(advice)
        if absent.any() and (advised := ~absent.all(axis=1)).sum() < len(rows):
            rows, advice = rows[advised], advice[advised]
        if not len(rows):
            return 0
        now = number / 1000
        changed = np.flatnonzero(self._due(rows, advice, now)).tolist()
        if self._in_place:
            changed = [pod for pod in changed if self._resize(pod, now)]
        else:
            for pod in changed:
                self._containers.admit(pod, now)
        if not changed:
            return 0
        # all containers of a pod, as an updater changes pods and not containers
        hit = rows[np.isin(self._containers.pod[rows], changed)]
        self._containers["changes"][hit] += 1.0
        return len(hit)

    def _resize(self, pod: int, now: float) -> bool:
        """Change a pod as it runs, unless it cools down and would lose something; whether it was changed."""
        rows, before = self._containers.rows_of(pod), self._resized.get(pod, -np.inf)
        targets = self._containers.targets(rows)
        requests = np.array([self.requests(rows, resource) for resource in _RESOURCES])
        if now - before < self._settings.cool_down and (targets < requests).any():
            return False
        self._containers.give(rows)
        self._resized[pod] = now
        return True

    def _due(self, rows: Rows, advice: Floats, now: float) -> Flags:
        """(pods,) Whether each pod is to be changed."""
        outside, share = self._difference(rows, advice)
        started, killed = self._containers.started[: len(share)], self._containers.killed[: len(share)]
        old = (now - started >= self._settings.lifetime) & (share >= self._settings.threshold)
        quick = (killed - started < self._settings.quick_oom) & (now - killed < self._settings.quick_oom)
        # upstream skips a pod whose sums are on target, unless a container is outside of its bounds
        due: Flags = np.where(share == 0.0, outside & ~quick, outside | quick | old)
        return due

    def _difference(self, rows: Rows, advice: Floats) -> tuple[Flags, Floats]:
        """(pods,) Whether a request is outside its bounds or missing; the sum over resources of |request - target| / request.

        Requests and targets are summed over the pod's containers first (pkg/updater/priority, GetUpdatePriority).
        """
        # AMOUNTS has lower bound, target and upper bound of CPU, then of memory
        pod, columns = self._containers.pod[rows], np.ascontiguousarray(advice.T).reshape(len(_RESOURCES), 3, len(rows))
        lower, target, upper = columns[:, 0], columns[:, 1], columns[:, 2]
        request = np.array([self.requests(rows, resource) for resource in _RESOURCES])
        unwanted, missing = np.isnan(target), np.isnan(request)
        off = missing | (request < lower) | (request > upper)
        off &= ~unwanted
        outside = np.zeros(self._containers.pods, bool)
        outside[pod[off[0] | off[1]]] = True
        request[unwanted | missing] = 0.0
        requested = np.maximum(self._by_pod(pod, request), _LEAST)
        recommended = self._by_pod(pod, np.where(unwanted, 0.0, target))
        # a resource without a target does not count
        cpu, memory = np.where(recommended > 0, np.abs(requested - recommended) / requested, 0.0)
        return outside, cpu + memory

    def _by_pod(self, pod: Rows, values: Floats) -> Floats:
        """(2, pods) The sum of the values of each pod's rows."""
        sums = np.zeros((len(_RESOURCES), self._containers.pods))
        if self._containers.shares_pods:
            for total, column in zip(sums, values, strict=True):
                np.add.at(total, pod, column)
        else:
            # add.at is slow, and most recordings have one container a pod
            sums[:, pod] = values
        return sums

    def requests(self, rows: Rows, resource: str) -> Floats:
        """(rows,) What is in force: what was recommended when the pod was last changed, else the recording's own."""
        ours = self._containers[resource][rows]
        return np.where(np.isnan(ours), self._containers[f"own_{resource}"][rows], ours)
