"""The crons of EHPAs: which are active, how many replicas they ask for, and which ones the API must refuse."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schemas import cron_schedules


@dataclass(frozen=True, slots=True)
class CronEntry:
    """One entry of `crons`: `target` replicas from each start to the next end, in `zone` (UTC if it names none)."""

    name: str
    start: str
    end: str
    target: int = 0
    zone: str = ""

    @staticmethod
    def read(entry: Mapping[str, object]) -> "CronEntry":
        """An entry, read from an object's manifest."""
        target = entry.get("targetReplicas")
        text = {name: str(entry.get(name) or "") for name in ("name", "start", "end", "timezone")}
        return CronEntry(text["name"], text["start"], text["end"], target if isinstance(target, int) else 0, text["timezone"])


def active(cron: CronEntry, now: float) -> bool:
    """Whether the next of its two moments is the end, as upstream has it. Raises `ValueError` as `in_window`.

    Source: `pkg/metricprovider/cron_trigger.go` of Crane.
    """
    zone = cron_schedules.load(cron.zone)
    start, end = (cron_schedules.parse(text).next(now, zone) for text in (cron.start, cron.end))
    # A cron is always active if its start never comes, never active if its end never comes, and active if both are equal.
    return end is not None and (start is None or start >= end)


def in_window(cron: CronEntry, now: float) -> bool:
    """Whether it has started since it last ended. Raises `ValueError` if a schedule or the zone cannot be read."""
    zone = cron_schedules.load(cron.zone)
    start, end = (cron_schedules.parse(text).last(now, zone) for text in (cron.start, cron.end))
    # Upstream's rule is the same where starts and ends take turns. With it, a window that starts on weekdays and ends daily lasts
    # from Friday to Sunday.
    return start is not None and (end is None or start > end)


def wanted(crons: Sequence[CronEntry], now: float, *, least: int, upstream: bool = False) -> int:
    """The largest target of the active crons, at least `least`; `ValueError` if any of them cannot be read."""
    rule = active if upstream else in_window
    return max([least, *[cron.target for cron in crons if rule(cron, now)]])


def name(cron: CronEntry, *, namespace: str, ehpa: str, default_zone: str = "UTC") -> str:
    """Crane's name for a cron in its logs, which it takes to be unique.

    Source: `pkg/metricprovider` and `pkg/utils/ehpa.go` of Crane.
    """
    start, end = (_plain(text) for text in (cron.start, cron.end))
    joined = f"cron-{namespace}-{ehpa}-{cron.name}-{cron.zone or default_zone}-{start}-{end}"
    text = joined.lower().replace(" ", "")
    for sign in "/.:%":
        text = text.replace(sign, "-")
    return text


def _plain(schedule: str) -> str:
    return schedule.replace("*", "x").replace("/", "sl").replace("?", "qm")


def refusals(crons: Sequence[CronEntry], now: float, *, namespace: str, ehpa: str) -> list[str]:
    """Sentences on what is wrong with an EHPA's crons; empty if nothing is."""
    sentences = [f"two crons are called '{given}'" for given in _twice([cron.name for cron in crons])]
    names = [name(cron, namespace=namespace, ehpa=ehpa) for cron in crons]
    sentences += [f"two crons have the internal name '{given}'" for given in _twice(names)]
    return sentences + [text for cron in crons if (text := _refusal(cron, now))]


def _twice(names: Sequence[str]) -> list[str]:
    return sorted({given for given in names if names.count(given) > 1})


def _refusal(cron: CronEntry, now: float) -> str:
    try:
        zone = cron_schedules.load(cron.zone)
        start, end = cron_schedules.parse(cron.start), cron_schedules.parse(cron.end)
    except ValueError as error:
        return f"cron '{cron.name}': {error}"
    # Upstream checks texts, zones and names. It misses what follows from here on.
    if start.every or end.every:
        return f"cron '{cron.name}': '@every' says how often, and not when it starts or ends"
    if start.next(now, zone) is None or end.next(now, zone) is None:
        return f"cron '{cron.name}': its start '{cron.start}' or its end '{cron.end}' never comes"
    return f"cron '{cron.name}' ends when it starts" if start == end else ""


_MINUTE = 60


@dataclass(frozen=True, slots=True)
class _KeptCrons:
    """The crons of an object with those that are active in a minute, or why they cannot be read."""

    crons: Sequence[CronEntry]
    minute: int
    active: tuple[bool, ...] = ()
    fault: str = ""


class CronClock:
    """Answers as `wanted` does for many objects in each round, at the price of a look at the clock.

    Crons are kept by the key of their object. Entries are replaced as a whole, so several threads may read them.
    """

    def __init__(self, *, upstream: bool = False) -> None:
        """`upstream`: by upstream's rule."""
        self._rule = active if upstream else in_window
        self._kept: dict[str, _KeptCrons] = {}

    def remove(self, key: str) -> None:
        """Forget an object that is gone."""
        self._kept.pop(key, None)

    def wanted(self, key: str, crons: Sequence[CronEntry], now: float, *, least: int) -> int:
        """The largest target of an object's active crons, at least `least`; `ValueError` if any of them cannot be read."""
        kept, minute = self._kept.get(key), math.floor(now / _MINUTE)
        # All moments of schedules are whole minutes, in every zone, so an answer holds until the next minute begins. A fault lies
        # in the texts and holds as long as they do.
        if kept is None or kept.crons != crons or (kept.minute != minute and not kept.fault):
            kept = self._kept[key] = self._read(crons, now, minute)
        if kept.fault:
            raise ValueError(kept.fault)
        return max([least, *[cron.target for cron, on in zip(crons, kept.active, strict=True) if on]])

    def _read(self, crons: Sequence[CronEntry], now: float, minute: int) -> _KeptCrons:
        try:
            return _KeptCrons(crons, minute, tuple(self._rule(cron, now) for cron in crons))
        except ValueError as error:
            return _KeptCrons(crons, minute, fault=str(error))
