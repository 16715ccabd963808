"""Which usage is too old to count, by upstream's rules. Keys of aggregates are (workload, container, labels)."""

from collections.abc import Callable, Collection

import numpy as np
from numpy.typing import NDArray

from agents.engine.tables.row_table import Indices, RowKey
from agents.logic.usage.container_usage import ContainerUsage
from agents.logic.usage.pod_index import SEED
from schemas.times import NEVER

Contributive = Callable[[], Collection[RowKey]]


def expire(usage: ContainerUsage, at: float, contributive: Contributive, known: Callable[[str, str], bool]) -> list[RowKey]:
    """Drop aggregates that have expired, or that never had a sample and have no pod; what was dropped, sorted.

    `contributive` finds the aggregates of pods that run or whose controller lives. `known`: was this pod (workload, name)
    reported?
    """
    _forget_containers(usage, at, known)
    rows = usage.aggregates.used()
    gone = rows[_expired(usage, rows, at) | _useless(usage, rows, contributive)]
    keys = {usage.aggregates.key(row) for row in gone.tolist()}
    # A seed stays as long as its container has other usage, as in upstream, which also keeps it beside the live one.
    seeds = {key for key in keys if key[-1].startswith(SEED)}
    if seeds:
        every = map(usage.aggregates.key, rows.tolist())
        living = {key[:-1] for key in every if key not in keys and not key[-1].startswith(SEED)}
        keys -= {key for key in seeds if key[:-1] in living}
    usage.drop(keys)
    return sorted(keys)


def _expired(usage: ContainerUsage, rows: Indices, at: float) -> NDArray[np.bool_]:
    """The last CPU sample, or without one the creation of the aggregate, is `expires` ago."""
    columns = usage.aggregates
    last, created = columns.floats("last")[rows], columns.floats("created")[rows]
    return np.asarray(at - np.where(last == NEVER, created, last) >= columns.floats("expires")[rows])


def _useless(usage: ContainerUsage, rows: Indices, contributive: Contributive) -> NDArray[np.bool_]:
    """No sample of anything, and no pod that could still give one: upstream's isEmpty beside its contributive aggregates."""
    blank = (usage.aggregates["count"][rows] == 0) & (usage.memory.total[rows] == 0.0)
    places = np.flatnonzero(blank)
    useless = np.zeros(len(rows), np.bool_)
    if len(places):
        # It examines every pod, so it is asked for only if some aggregate had no sample.
        alive = contributive()
        useless[places] = [usage.aggregates.key(row) not in alive for row in rows[places].tolist()]
    return useless


def _forget_containers(usage: ContainerUsage, at: float, known: Callable[[str, str], bool]) -> None:
    containers = usage.containers
    rows = containers.used()
    newest = np.maximum(containers.floats("last_cpu")[rows], containers.floats("last_memory")[rows])
    for row in rows[at - newest >= usage.settings.expires].tolist():
        workload, pod, _ = key = containers.key(row)
        # The containers of a pod that no source reported cannot be seen to go, so they go when they have been silent for so long.
        if not known(workload, pod):
            containers.free(key)
