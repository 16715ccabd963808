"""Which requests a recommendation has put in force, and how often it changed a running pod: the updater's thresholds in arrays.

A pod is changed when a request is outside its bounds, when it was killed recently and soon after its start, or when it is old
enough and far enough from its target: the rules of the updater (agents.logic.updates, upstream's pkg/updater/priority). A changed
pod starts again, as under the update mode Recreate; or it goes on with other requests, as under InPlace, and then nothing of it
is lowered again while it cools down. Every workload counts as one with a policy that changes pods. How many may be away at the
same time, and all other guards, are left to the updater, whose plans the card counts separately.
"""

import numpy as np

from agents.backtest.recorded_containers import Flags, Floats, RecordedContainers, Rows
from agents.logic.updates.update_settings import UpdateSettings

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
