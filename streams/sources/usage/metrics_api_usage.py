"""Usage from a cluster's metrics API, `metrics.k8s.io`, whatever serves it.

Amounts are rounded up to whole millicores and bytes, as the VPA recommender rounds them, so that figures can be compared. The
only right that it needs is to list pods of metrics.k8s.io. If the server cuts its answer into pages, all of them are read.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from urllib.parse import quote

import msgspec
import numpy as np

from schemas.units import Seconds
from streams.clients.bounded_answers import PageTokens
from streams.clients.kube import api_paths, quantities
from streams.clients.kube.api import MOST_IN_ONE_LIST, Api, ApiRequest
from streams.clients.kube.watched_objects import QuantityInJson
from streams.sources.usage.readings import Floats, Readings, RejectedRow, whole_amounts

ROOT = "/apis/metrics.k8s.io/v1beta1"
PAGE = 5_000
"""Pods in one page. Only some servers have pages; metrics-server answers with everything at once."""
_NAN = float("nan")


# Servers are written in Go, where an empty list, map or time may be `null`: hence the None of what no pod is without.
class _Usage(msgspec.Struct, frozen=True, gc=False):
    cpu: QuantityInJson | None = None
    memory: QuantityInJson | None = None


_NOTHING = _Usage()


class _Container(msgspec.Struct, frozen=True, gc=False):
    name: str
    usage: _Usage | None = None


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    name: str
    namespace: str = "default"


class _Pod(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata
    timestamp: str | None = None
    window: str = ""
    containers: list[_Container] | None = None


class _Page(msgspec.Struct, frozen=True, rename={"again": "continue"}):
    again: str = ""


class _Pods(msgspec.Struct):
    items: list[_Pod] | None
    metadata: _Page = _Page()


class MetricsApiUsage:
    """The metrics API of one cluster. `namespaces` are the only ones to ask for; none means all."""

    def __init__(self, api: Api, *, cluster: str, namespaces: Sequence[str] = ()) -> None:
        self._api, self._cluster = api, cluster
        self._paths = [api_paths.scoped(ROOT, namespace, "pods") for namespace in namespaces] or [f"{ROOT}/pods"]

    def read(self, _at: datetime) -> Readings:
        """What is used now. Raises TryAgain and GiveUp."""
        return readings([pod for path in self._paths for page in self._pages(path) for pod in page])

    def _pages(self, where: str) -> Iterator[list[_Pod]]:
        again, pages = "", PageTokens("reading usage of", self._cluster)
        while True:
            path = f"{where}?limit={PAGE}" + (f"&continue={quote(again, safe='')}" if again else "")
            page = self._api.read(ApiRequest(path, "reading usage of", self._cluster, most_bytes=MOST_IN_ONE_LIST), _Pods)
            yield page.items or []
            again = pages.following(page.metadata.again)
            if not again:
                return


def readings(pods: Sequence[_Pod]) -> Readings:
    """The answer as columns, with the rows that could not be read in `rejected`."""
    rejected: list[RejectedRow] = []
    pods = _with_times(pods, rejected)
    containers = [container for pod in pods for container in pod.containers or ()]
    usages = [container.usage or _NOTHING for container in containers]
    cores = _column([usage.cpu for usage in usages], _cores)
    memory = _column([usage.memory for usage in usages], _bytes)
    names = [pod.metadata.name for pod in pods for _ in pod.containers or ()]
    namespaces = [pod.metadata.namespace for pod in pods for _ in pod.containers or ()]
    unreadable = np.isneginf(cores) | np.isneginf(memory)
    for row in np.flatnonzero(unreadable).tolist():
        usage = usages[row]
        value, name = (usage.cpu, "cpu") if np.isneginf(cores[row]) else (usage.memory, "memory")
        rejected.append(
            RejectedRow("unreadable", namespaces[row], names[row], containers[row].name, str(value), f"{name} is no quantity")
        )
    ends = np.array([_moment(pod.timestamp or "") for pod in pods], np.float64)
    whole = whole_amounts(cores, memory)
    return Readings(
        namespaces=namespaces,
        pods=names,
        containers=[container.name for container in containers],
        cores=whole[0],
        memory=whole[1],
        # A pod's containers share the end of its window.
        ends=np.repeat(ends, [len(pod.containers or ()) for pod in pods]),
        window=Seconds(max((_seconds(window) for window in {pod.window for pod in pods}), default=0.0)),
        rejected=tuple(rejected),
    ).pick(~unreadable)


def _with_times(pods: Sequence[_Pod], rejected: list[RejectedRow]) -> Sequence[_Pod]:
    """The pods that say when their window ended and how long it was. The others are added to `rejected`."""
    # Each different text once: most answers have none that is bad, and then no pod is looked at.
    stamps = {stamp for stamp in {pod.timestamp for pod in pods} if math.isnan(_moment(stamp or ""))}
    windows = {window for window in {pod.window for pod in pods} if math.isnan(_seconds(window))}
    for pod in pods if stamps or windows else ():
        value, reason = pod.timestamp or "", "the timestamp is no time"
        if pod.timestamp not in stamps:
            value, reason = pod.window, "the window is no duration"
        if pod.timestamp in stamps or pod.window in windows:
            rejected.append(RejectedRow("unreadable", pod.metadata.namespace, pod.metadata.name, "*", value, reason))
    return [pod for pod in pods if pod.timestamp not in stamps and pod.window not in windows]


def _column(
    quantities: Sequence[QuantityInJson | None], read: Callable[[Sequence[QuantityInJson | None]], list[float]]
) -> Floats:
    """Numbers, with NaN for an absent quantity and minus infinity, which no quantity is, for an unreadable one."""
    # The fast way reads the units in which servers write; it fails at the first quantity that is none.
    try:
        return np.array(read(quantities), np.float64)
    except (ValueError, OverflowError):
        return np.array([_number(quantity) for quantity in quantities], np.float64)


def _cores(quantities: Sequence[QuantityInJson | None]) -> list[float]:
    """Quantities of CPU. Metrics servers write nanocores. Raises ValueError and OverflowError for an unreadable one."""
    return [
        int(quantity[:-1]) / 1e9 if isinstance(quantity, str) and quantity[-1:] == "n" else _number(quantity)
        for quantity in quantities
    ]


def _bytes(quantities: Sequence[QuantityInJson | None]) -> list[float]:
    """Quantities of memory. Metrics servers write kibibytes; the rest is as for cores."""
    return [
        int(quantity[:-2]) * 1024.0 if isinstance(quantity, str) and quantity[-2:] == "Ki" else _number(quantity)
        for quantity in quantities
    ]


def _number(quantity: QuantityInJson | None) -> float:
    if quantity is None:
        return _NAN
    try:
        return quantities.parse(str(quantity))
    except ValueError:
        return -math.inf


# Thousands of pods share a few times, because a server measures many of them at once.
@lru_cache(maxsize=4096)
def _moment(text: str) -> float:
    """Seconds since the epoch; NaN for text that is no time with an offset."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return _NAN
    return _NAN if at.tzinfo is None else at.timestamp()


@lru_cache(maxsize=256)
def _seconds(window: str) -> float:
    """A duration in seconds; NaN for text that is none. Empty text is a window of length zero."""
    try:
        length = quantities.parse_duration(window)
    except ValueError:
        return _NAN
    return length if 0.0 <= length < math.inf else _NAN
