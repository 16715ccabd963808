"""Usage as the metrics API has it: `metrics.k8s.io`, whatever stands behind it.

Amounts are rounded up to whole millicores and bytes, as the VPA recommender rounds them, so that figures can be compared. Needs
the right to list pods of metrics.k8s.io and no other. A server that cuts its answer into pages is asked for all of them.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from urllib.parse import quote

import msgspec
import numpy as np

from schemas.units import Seconds
from streams.clients import amounts, wire
from streams.clients.api import Api, Question
from streams.sources.usage.readings import Bad, Floats, Readings

PATH = "/apis/metrics.k8s.io/v1beta1/pods"
PAGE = 5_000
"""Pods of one page, for servers that have pages; metrics-server gives everything at once."""
_DUST = 1e-6
_NAN = float("nan")
_CPU = {"n": 1e9, "u": 1e6, "m": 1e3}
_MEMORY = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
Quantity = str | int | float | None


class _Usage(msgspec.Struct, frozen=True, gc=False):
    cpu: Quantity = None
    memory: Quantity = None


class _Container(msgspec.Struct, frozen=True, gc=False):
    name: str
    usage: _Usage = _Usage()


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    name: str
    namespace: str = "default"


class _Pod(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata
    timestamp: str = ""
    window: str = ""
    containers: list[_Container] = []


class _Page(msgspec.Struct, frozen=True, rename={"again": "continue"}):
    again: str = ""


class _Pods(msgspec.Struct):
    items: list[_Pod]
    metadata: _Page = _Page()


class MetricsApi:
    """The metrics API of one cluster."""

    def __init__(self, api: Api, *, cluster: str) -> None:
        self._api, self._cluster = api, cluster

    def read(self, _at: datetime) -> Readings:
        """What is used now. Raises TryAgain and GiveUp."""
        return readings([pod for page in self._pages() for pod in page])

    def _pages(self) -> Iterator[list[_Pod]]:
        again = ""
        while True:
            path = f"{PATH}?limit={PAGE}" + (f"&continue={quote(again, safe='')}" if again else "")
            page = self._api.read(Question(path, "reading usage of", self._cluster), _Pods)
            yield page.items
            again = page.metadata.again
            if not again:
                return


def readings(pods: Sequence[_Pod]) -> Readings:
    """The columns, and which rows could not be read."""
    bad: list[Bad] = []
    pods = [pod for pod in pods if _timed(pod, bad)]
    rows = [(pod, container) for pod in pods for container in pod.containers]
    cores = _column([container.usage.cpu for _, container in rows], _cores)
    memory = _column([container.usage.memory for _, container in rows], _bytes)
    good = np.ones(len(rows), np.bool_)
    for name, column in (("cpu", cores), ("memory", memory)):
        for row in np.flatnonzero(np.isneginf(column)).tolist():
            pod, container = rows[row]
            said, reason = getattr(container.usage, name), f"{name} is no quantity"
            bad.append(Bad("unreadable", pod.metadata.namespace, pod.metadata.name, container.name, str(said), reason))
            good[row] = False
    counts = [len(pod.containers) for pod in pods]
    return Readings(
        namespaces=[pod.metadata.namespace for pod in pods for _ in pod.containers],
        pods=[pod.metadata.name for pod in pods for _ in pod.containers],
        containers=[container.name for _, container in rows],
        cores=np.ceil(cores * 1000 - _DUST) / 1000,
        memory=np.ceil(memory),
        ends=np.repeat(np.array([_moment(pod.timestamp) for pod in pods], np.float64), counts),
        window=Seconds(max((_seconds(window) for window in {pod.window for pod in pods}), default=0.0)),
        bad=tuple(bad),
    ).pick(good)


def _timed(pod: _Pod, bad: list[Bad]) -> bool:
    """Whether it says when its window ended and how long it was."""
    for value, read, reason in (
        (pod.timestamp, _moment, "the timestamp is no time"),
        (pod.window, _seconds, "the window is no duration"),
    ):
        if math.isnan(read(value)):
            bad.append(Bad("unreadable", pod.metadata.namespace, pod.metadata.name, "*", value, reason))
            return False
    return True


def _column(quantities: Iterable[Quantity], read: Callable[[Quantity], float]) -> Floats:
    """Absent is NaN; unreadable is minus infinity, which no quantity is."""
    return np.array([_NAN if quantity is None else read(quantity) for quantity in quantities], np.float64)


def _cores(quantity: Quantity) -> float:
    """Metrics servers say nanocores; anything else takes the longer way."""
    try:
        if isinstance(quantity, str) and (unit := _CPU.get(quantity[-1:])) is not None:
            return int(quantity[:-1]) / unit
    except ValueError:
        pass
    return _number(str(quantity))


def _bytes(quantity: Quantity) -> float:
    try:
        if isinstance(quantity, str) and (unit := _MEMORY.get(quantity[-2:])) is not None:
            return float(int(quantity[:-2]) * unit)
    except ValueError:
        pass
    return _number(str(quantity))


def _number(quantity: str) -> float:
    try:
        return amounts.number(quantity)
    except ValueError:
        return -math.inf


@lru_cache(maxsize=4096)
def _moment(text: str) -> float:
    """Seconds since the epoch; NaN for what is no time with an offset."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return _NAN
    return _NAN if at.tzinfo is None else at.timestamp()


@lru_cache(maxsize=256)
def _seconds(window: str) -> float:
    """A duration; NaN for what is none. No duration at all is a window of no length."""
    try:
        length = wire.seconds(window)
    except ValueError:
        return _NAN
    return length if 0.0 <= length < math.inf else _NAN
