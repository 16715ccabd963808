"""One container's day as the log tells it: what it used, requested and was allowed, its kills, and the resizes that were done."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from schemas.facts.pods import PodChanged
from schemas.facts.usage import ContainerOOMKilled, MetricsScraped
from schemas.outcomes import Action, ActionFinished, Result
from schemas.units import Bytes
from streams.codec.event_codec import Codec
from streams.log_context import LogContext
from streams.log_range import read_range

_TOPICS = ("pod-changes", "pod-metrics", "oom-events", "outcomes")


@dataclass(frozen=True, slots=True)
class DoneResize:
    """A resize of the pod that was seen in force, and the decision that it carried out."""

    at: datetime
    decision: str


@dataclass(slots=True)
class ContainerDay:
    """One container of one pod. Each series is (time, bytes) in the order of time; `limits` is empty where there is none."""

    workload: str
    pod: str
    container: str
    used: list[tuple[datetime, float]] = field(default_factory=list)
    requests: list[tuple[datetime, Bytes]] = field(default_factory=list)
    limits: list[tuple[datetime, Bytes]] = field(default_factory=list)
    kills: list[datetime] = field(default_factory=list)
    resizes: list[DoneResize] = field(default_factory=list)

    @property
    def explained(self) -> DoneResize | None:
        """The first resize after the first kill; None when there was none."""
        return next((done for done in self.resizes if self.kills and done.at >= self.kills[0]), None)


def most_telling(context: LogContext) -> ContainerDay | None:
    """The container that was killed, then resized, and seen for longest; None when the log has none."""
    days = [day for day in _days(context) if day.explained is not None]
    return max(days, key=lambda day: (len(day.used), day.pod, day.container), default=None)


def _days(context: LogContext) -> Sequence[ContainerDay]:
    days, codec = _Days(), Codec(context.topics)
    for record in read_range(context.log, [context.topics.wire(name) for name in _TOPICS]):
        match codec.decode_or_none(record):
            case PodChanged() as pod:
                days.seen(pod)
            case MetricsScraped() as scrape:
                days.scraped(scrape)
            case ContainerOOMKilled(at, workload, name, container):
                days.of(workload.key, name.name, container).kills.append(at)
            case ActionFinished(_, at, decision, Action.RESIZE, Result.DONE, _, subject):
                days.resizes[subject.workload, subject.name].append(DoneResize(at, decision))
            case _:
                pass
    return days.in_order()


class _Days:
    """The days so far, by workload, pod and container; resizes are of a pod."""

    def __init__(self) -> None:
        self._days: dict[tuple[str, str, str], ContainerDay] = {}
        self.resizes: defaultdict[tuple[str, str], list[DoneResize]] = defaultdict(list)

    def of(self, workload: str, pod: str, container: str) -> ContainerDay:
        return self._days.setdefault((workload, pod, container), ContainerDay(workload, pod, container))

    def seen(self, pod: PodChanged) -> None:
        for container in pod.containers:
            day = self.of(pod.workload.key, pod.pod.name, container.name)
            _step(day.requests, pod.at, container.requests.memory)
            _step(day.limits, pod.at, container.limits.memory)

    def scraped(self, scrape: MetricsScraped) -> None:
        for key, pod, container, used in zip(scrape.workloads, scrape.pods, scrape.containers, scrape.memory, strict=True):
            if math.isfinite(used):
                self.of(key, pod, container).used.append((scrape.at, float(used)))

    def in_order(self) -> Sequence[ContainerDay]:
        for day in self._days.values():
            day.resizes = sorted(self.resizes[day.workload, day.pod], key=lambda done: done.at)
            # the log is in order within a partition only, and the topics have several
            day.used.sort()
            day.requests.sort()
            day.limits.sort()
            day.kills.sort()
        return list(self._days.values())


def _step(series: list[tuple[datetime, Bytes]], at: datetime, amount: Bytes | None) -> None:
    """Keep an amount where it changed."""
    if amount is not None and (not series or series[-1][1] != amount):
        series.append((at, amount))
